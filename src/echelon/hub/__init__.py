"""KEEP: the embedded Kubernetes-compatible API server."""

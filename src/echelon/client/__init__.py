"""REACH: one async protocol to any Kubernetes API, over HTTP or in process."""

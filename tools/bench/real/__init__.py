"""Benches on the lab: our agents as processes with the rights of an installation, a real API server, a real etcd."""

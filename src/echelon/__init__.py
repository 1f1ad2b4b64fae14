"""Echelon rolls changes out over a fleet of Kubernetes clusters, stage by stage."""

__version__ = "0.1.0"

"""What a simulated member is born with: its nodes and a storage class. Objects only."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from echelon.sandbox.images import address_of
from echelon.sandbox.workloads_objects import stamp

CPUS, MEMORY, PODS = "16", "65536000Ki", "1000"  # of one node: enough for any rehearsal
STANDARD = "standard"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def node_names(count: int) -> tuple[str, ...]:
    """Name the nodes."""
    return tuple(f"node-{number}" for number in range(1, max(count, 1) + 1))


def node_labels(name: str) -> dict[str, str]:
    """Return the labels of a node."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "simulated",
    }


def node(name: str, version: str, now: datetime) -> dict[str, Any]:
    """Make a node that is ready and stays so."""
    at = stamp(now)
    size = {"cpu": CPUS, "memory": MEMORY, "pods": PODS, "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": node_labels(name)},
        "spec": {},
        "status": {
            "capacity": size,
            "allocatable": size,
            "addresses": [
                {"type": "InternalIP", "address": address_of(name, "172.18")},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [
                _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", at)
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "sandbox://1",
                "kernelVersion": "simulated",
                "kubeProxyVersion": version,
                "kubeletVersion": version,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "Echelon sandbox",
                "systemUUID": "",
            },
        },
    }


def _condition(type_: str, value: str, reason: str, message: str, at: str) -> dict[str, Any]:
    return {
        "type": type_,
        "status": value,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }


def storage_class() -> dict[str, Any]:
    """Make the storage class that claims without one get."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STANDARD, "annotations": {_IS_DEFAULT: "true"}},
        "provisioner": "sandbox.echelon.dev/volumes",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }

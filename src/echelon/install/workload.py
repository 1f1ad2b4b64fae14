"""The Deployments of the agents: small, read-only, without privileges, probed where they really answer."""

from __future__ import annotations

from typing import Any

import msgspec

from echelon import __version__
from echelon.api.names import FLEET_SYSTEM_NAMESPACE
from echelon.install.rights import HUB_AGENT, MEMBER_AGENT

PROBE_PORT = 8081
NOBODY = 65532  # the user of distroless and of most hardened images


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """What may be chosen about an installation."""

    namespace: str = FLEET_SYSTEM_NAMESPACE
    image: str = f"echelon:{__version__}"
    replicas: int = 2  # of the hub agent: one works, one waits for its lease
    stuck_after: str = "5m"
    log_level: str = "info"
    member: str = ""  # name of the MemberCluster (member agent only)
    hub_secret: str = "echelon-hub-kubeconfig"  # Secret whose key `kubeconfig` reaches the hub as the member


def hub_deployment(values: Values) -> dict[str, Any]:
    """Return the Deployment of the hub agent."""
    arguments = [
        "hub-agent",
        f"--leader-election-namespace={values.namespace}",
        f"--stuck-after={values.stuck_after}",
    ]
    return _deployment(HUB_AGENT, values, values.replicas, arguments, memory="256Mi")


def member_deployment(values: Values) -> dict[str, Any]:
    """Return the Deployment of the member agent; it reaches the hub by the kubeconfig in a Secret."""
    arguments = ["member-agent", f"--name={values.member}", "--kubeconfig=/hub/kubeconfig"]
    made = _deployment(MEMBER_AGENT, values, 1, arguments, memory="128Mi")
    pod = made["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "hub", "secret": {"secretName": values.hub_secret}})
    pod["containers"][0]["volumeMounts"].append({"name": "hub", "mountPath": "/hub", "readOnly": True})
    made["spec"]["strategy"] = {"type": "Recreate"}  # two agents of one member would only repeat each other
    return made


def _deployment(
    name: str, values: Values, replicas: int, arguments: list[str], *, memory: str
) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": name}
    probe = {"port": PROBE_PORT, "scheme": "HTTP"}
    container = {
        "name": "agent",
        "image": values.image,
        "args": [
            *arguments,
            f"--log-level={values.log_level}",
            f"--health-probe-bind-address=:{PROBE_PORT}",
            "--log-json",
        ],
        "ports": [{"name": "probes", "containerPort": PROBE_PORT}],
        "livenessProbe": {"httpGet": {"path": "/healthz", **probe}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/readyz", **probe}, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "100m", "memory": memory}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a path in the container
    }
    pod = {
        "serviceAccountName": name,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 15,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": values.namespace,
            "labels": {**labels, "app.kubernetes.io/part-of": "echelon"},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }

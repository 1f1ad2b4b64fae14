"""What may leave the hub at all: API kinds, namespaces, single objects. And in which order it is listed.

These are vetoes that hold for every selector and every placement. They read one object (and, for Endpoints, know
whether a Service of the same name exists); they never look at a placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from echelon.api.names import SEAL_KEY_TYPE

FLEET_GROUP = "placement.kubernetes-fleet.io"
CLUSTER_GROUP = "cluster.kubernetes-fleet.io"

RESERVED_PREFIXES = ("fleet-", "kube-")
RESERVED_NAMESPACES = frozenset({"default"})

_DENIED_GROUPS = frozenset({CLUSTER_GROUP, "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"})
_DENIED_GROUP_KINDS: Mapping[str, frozenset[str]] = {
    # core Event is the same object as events.k8s.io Event under its older name
    "": frozenset({"Pod", "Node", "Event"}),
    "networking.fleet.azure.com": frozenset(
        {"ServiceImport", "TrafficManagerProfile", "TrafficManagerBackend"}
    ),
    FLEET_GROUP: frozenset(
        {
            "ClusterResourcePlacement",
            "ResourcePlacement",
            "ClusterResourceBinding",
            "ResourceBinding",
            "ClusterResourceSnapshot",
            "ResourceSnapshot",
            "ClusterSchedulingPolicySnapshot",
            "SchedulingPolicySnapshot",
            "Work",
            "ClusterStagedUpdateRun",
            "ClusterStagedUpdateStrategy",
            "ClusterApprovalRequest",
            "StagedUpdateRun",
            "StagedUpdateStrategy",
            "ApprovalRequest",
            "ClusterResourcePlacementEviction",
            "ClusterResourcePlacementDisruptionBudget",
            "ClusterResourceOverride",
            "ClusterResourceOverrideSnapshot",
            "ResourceOverride",
            "ResourceOverrideSnapshot",
            "ClusterResourcePlacementStatus",
        }
    ),
}

_KIND_ORDER = (
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_RANK = {kind: rank for rank, kind in enumerate(_KIND_ORDER)}


class Gvk(NamedTuple):
    """Group, version and kind."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


NAMESPACE = Gvk("", "v1", "Namespace")


def gvk_of(manifest: Mapping[str, Any]) -> Gvk:
    """Read the kind off a manifest."""
    group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
    return Gvk(group, version, str(manifest.get("kind", "")))


class InvalidApiList(ValueError):
    """A list of APIs in a flag does not follow the syntax."""


class ApiEntry(NamedTuple):
    """One entry of an API list: a group, one of its versions, or some kinds of a version."""

    group: str
    version: str = ""
    kinds: frozenset[str] = frozenset()

    def covers(self, gvk: Gvk) -> bool:
        """Whether the entry speaks about this kind."""
        return (
            gvk.group == self.group
            and self.version in ("", gvk.version)
            and (not self.kinds or gvk.kind in self.kinds)
        )


def parse_api_list(text: str) -> tuple[ApiEntry, ...]:
    """Parse `group`, `group/version`, `group/version/Kind1,Kind2` or `v1/Kind1,Kind2`, separated by `;`."""
    return tuple(_parse_entry(part.strip()) for part in text.split(";") if part.strip())


def _parse_entry(text: str) -> ApiEntry:
    parts = text.split("/")
    if len(parts) == 2 and parts[0] == "v1":  # core: v1/Kind1,Kind2
        parts = ["", *parts]
    if len(parts) == 3:
        kinds = frozenset(kind.strip() for kind in parts[2].split(",") if kind.strip())
        if kinds and parts[1]:
            return ApiEntry(parts[0], parts[1], kinds)
    elif len(parts) == 2 and all(parts):
        return ApiEntry(parts[0], parts[1])
    elif len(parts) == 1:
        return ApiEntry(parts[0])
    raise InvalidApiList(f"{text!r} is not group, group/version, group/version/Kind1,Kind2 or v1/Kind1,Kind2")


class Vetoes(msgspec.Struct, frozen=True, kw_only=True):
    """The installation's choice of what is never placed. The defaults are the built-in ones."""

    skipped_apis: tuple[ApiEntry, ...] = ()
    allowed_apis: tuple[ApiEntry, ...] = ()  # when given, replaces every denial
    skipped_namespaces: frozenset[str] = frozenset()
    workloads_enabled: bool = False  # the hub runs workloads itself, so its volume claims are its own

    def is_enabled(self, gvk: Gvk) -> bool:
        """Whether objects of this kind may be selected."""
        if self.allowed_apis:
            return any(entry.covers(gvk) for entry in self.allowed_apis)
        if gvk.group in _DENIED_GROUPS or gvk.kind in _DENIED_GROUP_KINDS.get(gvk.group, ()):
            return False
        return not any(entry.covers(gvk) for entry in self.skipped_apis)

    def is_reserved(self, namespace: str) -> bool:
        """Whether a namespace belongs to the system and is never placed."""
        return (
            namespace.startswith(RESERVED_PREFIXES)
            or namespace in RESERVED_NAMESPACES
            or namespace in self.skipped_namespaces
        )

    def is_placeable(
        self, manifest: Mapping[str, Any], has_service: Callable[[str, str], bool] = lambda _ns, _name: False
    ) -> bool:
        """R-SELECT-5: what a controller makes anew in each cluster is not placed, whoever selects it."""
        meta = manifest["metadata"]
        gvk, name = gvk_of(manifest), meta["name"]
        if meta.get("deletionTimestamp"):
            return False
        match gvk.group, gvk.kind:
            case "apps", "ReplicaSet" | "ControllerRevision":
                return not meta.get("ownerReferences")
            case "", "ConfigMap":
                return bool(name != "kube-root-ca.crt")
            case "", "ServiceAccount":
                return bool(name != "default")
            case "", "Secret":
                return manifest.get("type") not in ("kubernetes.io/service-account-token", SEAL_KEY_TYPE)
            case "", "PersistentVolumeClaim":
                return not self.workloads_enabled
            case "", "Endpoints":
                return not has_service(meta.get("namespace", ""), name)
            case "discovery.k8s.io", "EndpointSlice":
                return "endpointslice.kubernetes.io/managed-by" not in (meta.get("labels") or {})
        return True


def placing_order(gvk: Gvk, namespace: str, name: str) -> tuple[int, str, str]:
    """R-SELECT-6: what others depend on comes first, then group/version and name decide."""
    rank = _RANK.get(gvk.kind)
    where = f"{namespace}/{name}"
    if rank is None:
        return len(_RANK), str(gvk), where
    return rank, gvk.api_version, where


def enabled_kinds(vetoes: Vetoes, kinds: Iterable[Gvk]) -> list[Gvk]:
    """Keep the kinds that may be selected."""
    return [gvk for gvk in kinds if vetoes.is_enabled(gvk)]

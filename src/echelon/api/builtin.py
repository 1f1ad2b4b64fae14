"""Kubernetes' own kinds that are delivered, watched, simulated or asked.

All are plain dicts: passed on, not understood.
"""

from echelon.api.resource import Resource


def _kind(api_version: str, kind: str, plural: str, *short: str, namespaced: bool = True) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(group, version, plural, kind, namespaced, dict, short)


NAMESPACES = _kind("v1", "Namespace", "namespaces", "ns", namespaced=False)
NODES = _kind("v1", "Node", "nodes", "no", namespaced=False)
PERSISTENT_VOLUMES = _kind("v1", "PersistentVolume", "persistentvolumes", "pv", namespaced=False)
PODS = _kind("v1", "Pod", "pods", "po")
SERVICES = _kind("v1", "Service", "services", "svc")
ENDPOINTS = _kind("v1", "Endpoints", "endpoints", "ep")
CONFIG_MAPS = _kind("v1", "ConfigMap", "configmaps", "cm")
SECRETS = _kind("v1", "Secret", "secrets")
SERVICE_ACCOUNTS = _kind("v1", "ServiceAccount", "serviceaccounts", "sa")
EVENTS = _kind("v1", "Event", "events", "ev")
RESOURCE_QUOTAS = _kind("v1", "ResourceQuota", "resourcequotas", "quota")
LIMIT_RANGES = _kind("v1", "LimitRange", "limitranges", "limits")
REPLICATION_CONTROLLERS = _kind("v1", "ReplicationController", "replicationcontrollers", "rc")
PERSISTENT_VOLUME_CLAIMS = _kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc")

DEPLOYMENTS = _kind("apps/v1", "Deployment", "deployments", "deploy")
REPLICA_SETS = _kind("apps/v1", "ReplicaSet", "replicasets", "rs")
STATEFUL_SETS = _kind("apps/v1", "StatefulSet", "statefulsets", "sts")
DAEMON_SETS = _kind("apps/v1", "DaemonSet", "daemonsets", "ds")
CONTROLLER_REVISIONS = _kind("apps/v1", "ControllerRevision", "controllerrevisions")
JOBS = _kind("batch/v1", "Job", "jobs")
CRON_JOBS = _kind("batch/v1", "CronJob", "cronjobs", "cj")
HORIZONTAL_POD_AUTOSCALERS = _kind(
    "autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"
)
POD_DISRUPTION_BUDGETS = _kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb")

NETWORK_POLICIES = _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol")
INGRESSES = _kind("networking.k8s.io/v1", "Ingress", "ingresses", "ing")
INGRESS_CLASSES = _kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", namespaced=False)
ENDPOINT_SLICES = _kind("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")

ROLES = _kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDINGS = _kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
CLUSTER_ROLES = _kind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = _kind(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = _kind(
    "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = _kind(
    "authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False
)
TOKEN_REVIEWS = _kind("authentication.k8s.io/v1", "TokenReview", "tokenreviews", namespaced=False)

LEASES = _kind("coordination.k8s.io/v1", "Lease", "leases")
PRIORITY_CLASSES = _kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "pc", namespaced=False)
STORAGE_CLASSES = _kind("storage.k8s.io/v1", "StorageClass", "storageclasses", "sc", namespaced=False)
CSI_DRIVERS = _kind("storage.k8s.io/v1", "CSIDriver", "csidrivers", namespaced=False)
CSI_NODES = _kind("storage.k8s.io/v1", "CSINode", "csinodes", namespaced=False)
CSI_STORAGE_CAPACITIES = _kind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities")
CUSTOM_RESOURCE_DEFINITIONS = _kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "crd",
    "crds",
    namespaced=False,
)
API_SERVICES = _kind("apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False)
MUTATING_WEBHOOKS = _kind(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)
VALIDATING_WEBHOOKS = _kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)

BUILT_IN: tuple[Resource, ...] = tuple(
    resource
    for name, resource in list(globals().items())
    if name.isupper() and isinstance(resource, Resource)
)

"""The kinds every Kubernetes API server has, loaded from data distilled from a real one."""

from __future__ import annotations

from functools import lru_cache

from echelon.hub.kinds import ALL_VERBS, Catalog, Kind, Subresource

_ROWS = """
v1 Namespace namespaces - status,finalize ns
v1 ConfigMap configmaps n - cm
v1 Secret secrets n - -
v1 Service services n status svc
v1 Endpoints endpoints n - ep
v1 Pod pods n status po
v1 PodTemplate podtemplates n - -
v1 ReplicationController replicationcontrollers n status,scale rc
v1 Node nodes - status no
v1 Event events n - ev
v1 ServiceAccount serviceaccounts n - sa
v1 PersistentVolume persistentvolumes - status pv
v1 PersistentVolumeClaim persistentvolumeclaims n status pvc
v1 LimitRange limitranges n - limits
v1 ResourceQuota resourcequotas n status quota
apps/v1 Deployment deployments n status,scale deploy
apps/v1 ReplicaSet replicasets n status,scale rs
apps/v1 StatefulSet statefulsets n status,scale sts
apps/v1 DaemonSet daemonsets n status ds
apps/v1 ControllerRevision controllerrevisions n - -
batch/v1 Job jobs n status -
batch/v1 CronJob cronjobs n status cj
autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers n status hpa
networking.k8s.io/v1 Ingress ingresses n status ing
networking.k8s.io/v1 IngressClass ingressclasses - - -
networking.k8s.io/v1 NetworkPolicy networkpolicies n - netpol
policy/v1 PodDisruptionBudget poddisruptionbudgets n status pdb
rbac.authorization.k8s.io/v1 Role roles n - -
rbac.authorization.k8s.io/v1 RoleBinding rolebindings n - -
rbac.authorization.k8s.io/v1 ClusterRole clusterroles - - -
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings - - -
coordination.k8s.io/v1 Lease leases n - -
discovery.k8s.io/v1 EndpointSlice endpointslices n - -
scheduling.k8s.io/v1 PriorityClass priorityclasses - - pc
storage.k8s.io/v1 StorageClass storageclasses - - sc
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy validatingadmissionpolicies - status -
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings - - -
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration validatingwebhookconfigurations - - -
admissionregistration.k8s.io/v1 MutatingWebhookConfiguration mutatingwebhookconfigurations - - -
apiregistration.k8s.io/v1 APIService apiservices - status -
apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions - status crd,crds
"""


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    """Return the shared catalog of built-in kinds."""
    kinds = Catalog()
    for line in _ROWS.strip().splitlines():
        api_version, kind, plural, scope, subs, short = line.split()
        group, _, version = api_version.rpartition("/")
        kinds.add(
            Kind(
                group=group,
                version=version,
                plural=plural,
                kind=kind,
                singular=kind.lower(),
                namespaced=scope == "n",
                short_names=() if short == "-" else tuple(short.split(",")),
                verbs=ALL_VERBS,
                subresources={
                    name: Subresource(name=name, kind=kind, group=group, version=version)
                    for name in (() if subs == "-" else subs.split(","))
                },
            )
        )
    return kinds

"""Minimal objects of the built-in kinds, for finding out by experiment what a server adds to them.

Each sample leaves out whatever its kind permits. Several samples of one kind differ in the fields on
which a default could depend (a service's type, an image's tag, a strategy's type), because only
then can distill.py tell a default that always holds from one that holds under a condition.
They are created with dryRun=All, so that nothing of them remains.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def _obj(api_version: str, kind: str, namespaced: bool = True, **fields: Any) -> Json:
    """Returns an object with a name and, where it has one, the namespace of the experiment."""
    meta: Json = {"name": "sample"}
    if namespaced:
        meta["namespace"] = "default"
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}


def _container(**fields: Any) -> Json:
    """Returns the least container."""
    return {"name": "c", "image": "example.com/app:v1", **fields}


def _template(**spec: Any) -> Json:
    """Returns the least pod template."""
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_container()], **spec}}


SELECTOR: Json = {"matchLabels": {"app": "a"}}
HTTP: Json = {"httpGet": {"port": 80}}

VOLUMES: list[Json] = [
    {"name": "a", "secret": {"secretName": "s"}},
    {"name": "b", "configMap": {"name": "s"}},
    {"name": "c", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {
        "name": "d",
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "t"}},
                {"configMap": {"name": "x"}},
                {"secret": {"name": "x"}},
                {"downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]
        },
    },
    {"name": "e", "emptyDir": {}},
    {"name": "f", "hostPath": {"path": "/x"}},
    {"name": "g", "persistentVolumeClaim": {"claimName": "x"}},
    {"name": "h", "nfs": {"server": "s", "path": "/x"}},
    {"name": "i", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:x", "lun": 0}},
    {"name": "j", "rbd": {"monitors": ["m"], "image": "i"}},
    {"name": "k", "cephfs": {"monitors": ["m"]}},
    {"name": "l", "azureDisk": {"diskName": "d", "diskURI": "https://blob/x"}},
    {"name": "m", "azureFile": {"secretName": "s", "shareName": "n"}},
    {
        "name": "n",
        "scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "x"}, "volumeName": "v"},
    },
    {
        "name": "o",
        "ephemeral": {
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            }
        },
    },
    {"name": "p", "csi": {"driver": "d.example.com"}},
    {"name": "q", "fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
    {"name": "r"},
    {"name": "s", "image": {"reference": "example.com/data"}},
    {"name": "t", "image": {"reference": "example.com/data:v1"}},
]

CONTAINERS: list[Json] = [
    _container(name="tag"),
    _container(name="latest", image="example.com/app:latest"),
    _container(name="untagged", image="example.com/app"),
    _container(name="digest", image="example.com/app@sha256:" + "0" * 64),
    _container(
        name="probes",
        ports=[{"containerPort": 80}, {"containerPort": 81, "name": "x"}],
        livenessProbe=HTTP,
        readinessProbe={"tcpSocket": {"port": 80}},
        startupProbe={"exec": {"command": ["x"]}},
        lifecycle={"postStart": HTTP, "preStop": {"httpGet": {"port": "x"}}},
    ),
    _container(name="grpc", livenessProbe={"grpc": {"port": 5}}),
    _container(
        name="env",
        env=[
            {"name": "A"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}},
            {"name": "E", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}},
        ],
        envFrom=[{"configMapRef": {"name": "x"}}],
        securityContext={"capabilities": {"add": ["X"]}},
        volumeMounts=[{"name": "a", "mountPath": "/a"}],
    ),
    _container(name="limits", resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
    _container(name="requests", resources={"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}),
]

RICH_SPEC: Json = {
    "containers": CONTAINERS,
    "initContainers": [
        _container(name="init"),
        _container(name="sidecar", restartPolicy="Always", startupProbe=HTTP),
    ],
    "volumes": VOLUMES,
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": SELECTOR}
            ]
        }
    },
    "tolerations": [{"key": "x", "operator": "Exists"}, {"key": "y"}],
    "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["x"]}],
    "readinessGates": [{"conditionType": "x.example.com/y"}],
    "securityContext": {"runAsUser": 1},
}
HOST_NETWORK: Json = {
    "hostNetwork": True,
    "containers": [_container(ports=[{"containerPort": 80}])],
}


def _metric(kind: str, **fields: Any) -> Json:
    """Returns one metric of an autoscaler."""
    return {"type": kind, kind[0].lower() + kind[1:]: fields}


def _workloads() -> list[Json]:
    """Returns pods and what makes pods."""
    out: list[Json] = []
    for spec in ({"containers": [_container()]}, RICH_SPEC, HOST_NETWORK):
        out.append(_obj("v1", "Pod", spec=spec))
    out.append(_obj("v1", "Pod", spec={"containers": [_container()], "restartPolicy": "Never"}))
    for template in (_template(), _template(**RICH_SPEC), _template(**HOST_NETWORK)):
        spec = {"selector": SELECTOR, "template": template}
        out += [
            _obj("apps/v1", "Deployment", spec=spec),
            _obj("apps/v1", "ReplicaSet", spec=spec),
            _obj("apps/v1", "DaemonSet", spec=spec),
            _obj("apps/v1", "StatefulSet", spec=spec),
            _obj("v1", "ReplicationController", spec={"template": template}),
            _obj(
                "v1",
                "ReplicationController",
                spec={"template": {**template, "metadata": {"labels": {"app": "b"}}}},
            ),
            _obj("v1", "PodTemplate", template=template),
        ]
        job_spec = {**template["spec"], "restartPolicy": "Never"}
        job = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": job_spec}}
        cron = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
        out += [_obj("batch/v1", "Job", spec=job), _obj("batch/v1", "CronJob", spec=cron)]
    base = {"selector": SELECTOR, "template": _template()}
    claims = [
        {
            "metadata": {"name": "d"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    bare_job = {"spec": {"containers": [_container()], "restartPolicy": "OnFailure"}}
    index_job = {"spec": {"containers": [_container()], "restartPolicy": "Never"}}
    out += [
        _obj("apps/v1", "Deployment", spec={**base, "strategy": {"type": "Recreate"}}),
        _obj("apps/v1", "Deployment", spec={**base, "strategy": {"type": "RollingUpdate"}}),
        _obj("apps/v1", "Deployment", spec={**base, "strategy": {"rollingUpdate": {"maxSurge": 2}}}),
        _obj("apps/v1", "Deployment", spec={**base, "strategy": {"rollingUpdate": {"maxUnavailable": 2}}}),
        _obj("apps/v1", "Deployment", spec={**base, "strategy": {}, "replicas": 0}),
        _obj("apps/v1", "DaemonSet", spec={**base, "updateStrategy": {"rollingUpdate": {}}}),
        _obj("apps/v1", "DaemonSet", spec={**base, "updateStrategy": {"type": "OnDelete"}}),
        _obj("apps/v1", "DaemonSet", spec={**base, "updateStrategy": {"type": "RollingUpdate"}}),
        _obj("apps/v1", "DaemonSet", spec={**base, "updateStrategy": {}}),
        _obj("apps/v1", "StatefulSet", spec={**base, "updateStrategy": {"type": "OnDelete"}}),
        _obj("apps/v1", "StatefulSet", spec={**base, "updateStrategy": {"type": "RollingUpdate"}}),
        _obj("apps/v1", "StatefulSet", spec={**base, "updateStrategy": {}}),
        _obj(
            "apps/v1",
            "StatefulSet",
            spec={**base, "updateStrategy": {"rollingUpdate": {}}, "volumeClaimTemplates": claims},
        ),
        _obj(
            "apps/v1",
            "StatefulSet",
            spec={**base, "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
        ),
        _obj(
            "apps/v1",
            "StatefulSet",
            spec={**base, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}},
        ),
        _obj("batch/v1", "Job", spec={"template": bare_job, "completions": 3}),
        _obj("batch/v1", "Job", spec={"template": bare_job, "parallelism": 3}),
        _obj("batch/v1", "Job", spec={"template": bare_job, "backoffLimit": 1}),
        _obj(
            "batch/v1",
            "Job",
            spec={"template": index_job, "completionMode": "Indexed", "completions": 3},
        ),
        _obj(
            "batch/v1",
            "Job",
            spec={
                "template": index_job,
                "completionMode": "Indexed",
                "completions": 3,
                "backoffLimitPerIndex": 1,
            },
        ),
        _obj(
            "batch/v1",
            "Job",
            spec={
                "template": index_job,
                "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "X"}]}]},
            },
        ),
        _obj("apps/v1", "ControllerRevision", revision=1, data={"a": 1}),
    ]
    return out


def _services() -> list[Json]:
    """Returns services and the other network kinds."""
    port = [{"port": 80}]
    named = [{"port": 80, "name": "x", "targetPort": "web"}]
    out = [
        _obj("v1", "Service", spec=spec)
        for spec in (
            {"ports": port, "selector": {"app": "a"}},
            {"ports": named, "type": "ClusterIP"},
            {"ports": [{"port": 81, "protocol": "UDP"}], "selector": {"app": "a"}},
            {"ports": port, "clusterIP": "None"},
            {"ports": port, "clusterIP": "None", "selector": {"app": "a"}},
            {"ports": port, "type": "NodePort"},
            {"ports": port, "type": "LoadBalancer"},
            {"ports": port, "type": "LoadBalancer", "externalTrafficPolicy": "Local"},
            {"type": "ExternalName", "externalName": "x.example.com"},
            {"type": "ExternalName", "externalName": "x.example.com", "ports": port},
            {"ports": port, "externalIPs": ["1.2.3.4"]},
            {"ports": port, "sessionAffinity": "ClientIP"},
            {"ports": port, "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {}}},
            {"ports": port, "ipFamilyPolicy": "PreferDualStack"},
        )
    ]
    subset = {"addresses": [{"ip": "1.2.3.4"}], "ports": [{"port": 1}]}
    backend = {"service": {"name": "s", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    out += [
        _obj("v1", "Endpoints", subsets=[subset]),
        _obj(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            addressType="IPv4",
            endpoints=[{"addresses": ["1.2.3.4"]}],
            ports=[{"port": 80}, {"port": 81, "name": "b"}],
        ),
        _obj("networking.k8s.io/v1", "Ingress", spec={"defaultBackend": backend}),
        _obj("networking.k8s.io/v1", "Ingress", spec={"rules": [{"host": "h", "http": {"paths": [path]}}]}),
        _obj("networking.k8s.io/v1", "IngressClass", False, spec={"controller": "example.com/x"}),
        _obj(
            "networking.k8s.io/v1",
            "IngressClass",
            False,
            spec={"controller": "example.com/x", "parameters": {"kind": "A", "name": "b"}},
        ),
        _obj("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}}),
        _obj(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={"podSelector": {}, "egress": [{"to": [{"podSelector": {}}]}]},
        ),
        _obj(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            spec={
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": 1}, {}]}],
            },
        ),
        _obj("networking.k8s.io/v1", "ServiceCIDR", False, spec={"cidrs": ["10.100.0.0/16"]}),
    ]
    return out


def _configuration() -> list[Json]:
    """Returns configuration, storage and access kinds."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    rbac, storage = "rbac.authorization.k8s.io", "storage.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "x", "namespace": "default"}
    users = [subject, {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}]
    role, cluster_role = {"kind": "Role", "name": "r"}, {"kind": "ClusterRole", "name": "r"}
    full_ref = {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    return [
        _obj("v1", "Namespace", False),
        _obj("v1", "ConfigMap"),
        _obj("v1", "ConfigMap", data={"a": "b"}),
        _obj("v1", "Secret"),
        _obj("v1", "Secret", stringData={"a": "b"}),
        _obj("v1", "Secret", type="kubernetes.io/basic-auth", data={"username": "YQ=="}),
        _obj("v1", "ServiceAccount"),
        _obj("v1", "Node", False),
        _obj("v1", "Node", False, spec={"podCIDR": "10.1.0.0/24", "taints": []}),
        _obj("v1", "LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}}]}),
        _obj(
            "v1",
            "LimitRange",
            spec={
                "limits": [
                    {"type": "Container", "default": {"cpu": "1"}, "min": {"memory": "1Mi"}},
                    {"type": "Pod", "max": {"cpu": "2"}},
                ]
            },
        ),
        _obj("v1", "ResourceQuota", spec={"hard": {"pods": "1"}}),
        _obj("v1", "PersistentVolumeClaim", spec=claim),
        _obj("v1", "PersistentVolumeClaim", spec={**claim, "volumeMode": "Block"}),
        _obj(
            "v1",
            "PersistentVolumeClaim",
            spec={**claim, "dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}},
        ),
        _obj("v1", "PersistentVolume", False, spec={**volume, "hostPath": {"path": "/x"}}),
        _obj("v1", "PersistentVolume", False, spec={**volume, "nfs": {"server": "s", "path": "/x"}}),
        _obj(
            "v1",
            "PersistentVolume",
            False,
            spec={**volume, "csi": {"driver": "d.example.com", "volumeHandle": "h"}},
        ),
        _obj(
            "v1",
            "PersistentVolume",
            False,
            spec={
                **volume,
                "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:x", "lun": 0},
            },
        ),
        _obj(
            "v1",
            "PersistentVolume",
            False,
            spec={
                **volume,
                "scaleIO": {
                    "gateway": "g",
                    "system": "s",
                    "secretRef": {"name": "x"},
                    "volumeName": "v",
                },
            },
        ),
        _obj("v1", "PersistentVolume", False, spec={**volume, "rbd": {"monitors": ["m"], "image": "i"}}),
        _obj(
            "v1",
            "PersistentVolume",
            False,
            spec={**volume, "azureDisk": {"diskName": "d", "diskURI": "https://blob/x"}},
        ),
        _obj(f"{rbac}/v1", "Role", rules=rules),
        _obj(f"{rbac}/v1", "ClusterRole", False, rules=rules),
        _obj(f"{rbac}/v1", "ClusterRole", False),
        _obj(
            f"{rbac}/v1",
            "ClusterRole",
            False,
            aggregationRule={"clusterRoleSelectors": [SELECTOR]},
        ),
        _obj(f"{rbac}/v1", "RoleBinding", roleRef=role, subjects=users),
        _obj(f"{rbac}/v1", "RoleBinding", roleRef=full_ref),
        _obj(f"{rbac}/v1", "ClusterRoleBinding", False, roleRef=cluster_role, subjects=users),
        _obj(f"{rbac}/v1", "ClusterRoleBinding", False, roleRef=full_ref),
        _obj(f"{storage}/v1", "StorageClass", False, provisioner="example.com/x"),
        _obj(f"{storage}/v1", "CSIDriver", False, spec={}),
        _obj(f"{storage}/v1", "CSINode", False, spec={"drivers": []}),
        _obj(
            f"{storage}/v1",
            "VolumeAttachment",
            False,
            spec={"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
        ),
        _obj(f"{storage}/v1", "CSIStorageCapacity", storageClassName="x"),
        _obj(
            f"{storage}/v1",
            "VolumeAttributesClass",
            False,
            driverName="d.example.com",
            parameters={"a": "b"},
        ),
        _obj("scheduling.k8s.io/v1", "PriorityClass", False, value=10),
        _obj("node.k8s.io/v1", "RuntimeClass", False, handler="x"),
        _obj("coordination.k8s.io/v1", "Lease", spec={}),
        _obj("coordination.k8s.io/v1", "Lease"),
    ]


def _policies() -> list[Json]:
    """Returns autoscaling, policy, admission, extension and flow kinds."""
    ref = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    cpu = _metric("Resource", name="cpu", target={"type": "Utilization", "averageUtilization": 50})
    group = "admissionregistration.k8s.io"
    hook = {
        "name": "x.example.com",
        "clientConfig": {"service": {"name": "s", "namespace": "default"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
    }
    match = {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ]
    }
    validation = {"matchConstraints": match, "validations": [{"expression": "true"}]}
    mutation = {
        "matchConstraints": match,
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{}"},
            }
        ],
        "reinvocationPolicy": "Never",
    }
    crd_version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    crd_spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "samples", "kind": "Sample"},
        "versions": [crd_version],
    }
    named_spec = {**crd_spec, "names": {"plural": "others", "kind": "Other", "singular": "other"}}
    named = _obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", False, spec=named_spec)
    named["metadata"]["name"] = "others.example.com"
    crd = _obj("apiextensions.k8s.io/v1", "CustomResourceDefinition", False, spec=crd_spec)
    crd["metadata"]["name"] = "samples.example.com"
    webhook = {
        "clientConfig": {"service": {"name": "s", "namespace": "default"}},
        "conversionReviewVersions": ["v1"],
    }
    crd_hook = _obj(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        False,
        spec={**crd_spec, "conversion": {"strategy": "Webhook", "webhook": webhook}},
    )
    crd_hook["metadata"]["name"] = "samples.example.com"
    service = _obj(
        "apiregistration.k8s.io/v1",
        "APIService",
        False,
        spec={
            "group": "remote.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "s", "namespace": "default"},
        },
    )
    service["metadata"]["name"] = "v1.remote.example.com"
    flow = "flowcontrol.apiserver.k8s.io/v1"
    limited: Json = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    queued: Json = {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}
    dra = "resource.k8s.io/v1"
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    involved = {"kind": "Pod", "name": "p", "namespace": "default"}
    return [
        _obj("autoscaling/v1", "HorizontalPodAutoscaler", spec={"scaleTargetRef": ref, "maxReplicas": 3}),
        _obj("autoscaling/v2", "HorizontalPodAutoscaler", spec={"scaleTargetRef": ref, "maxReplicas": 3}),
        _obj(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            spec={
                "scaleTargetRef": ref,
                "maxReplicas": 3,
                "metrics": [cpu],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}},
            },
        ),
        _obj(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            spec={"scaleTargetRef": ref, "maxReplicas": 3, "behavior": {"scaleUp": {}}},
        ),
        _obj(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            spec={
                "scaleTargetRef": ref,
                "maxReplicas": 3,
                "metrics": [cpu],
                "behavior": {"scaleDown": {"selectPolicy": "Min"}, "scaleUp": {"selectPolicy": "Min"}},
            },
        ),
        _obj("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1, "selector": SELECTOR}),
        _obj("policy/v1", "PodDisruptionBudget", spec={"maxUnavailable": "50%"}),
        _obj(f"{group}/v1", "ValidatingWebhookConfiguration", False, webhooks=[hook]),
        _obj(f"{group}/v1", "MutatingWebhookConfiguration", False, webhooks=[hook]),
        _obj(f"{group}/v1", "ValidatingAdmissionPolicy", False, spec=validation),
        _obj(
            f"{group}/v1",
            "ValidatingAdmissionPolicyBinding",
            False,
            spec={"policyName": "p", "validationActions": ["Deny"]},
        ),
        _obj(
            f"{group}/v1",
            "ValidatingAdmissionPolicyBinding",
            False,
            spec={
                "policyName": "p",
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": SELECTOR},
            },
        ),
        _obj(f"{group}/v1", "MutatingAdmissionPolicy", False, spec=mutation),
        _obj(f"{group}/v1", "MutatingAdmissionPolicyBinding", False, spec={"policyName": "p"}),
        crd,
        named,
        crd_hook,
        service,
        _obj(flow, "PriorityLevelConfiguration", False, spec=limited),
        _obj(flow, "PriorityLevelConfiguration", False, spec=queued),
        _obj(
            flow,
            "FlowSchema",
            False,
            spec={"priorityLevelConfiguration": {"name": "x"}},
        ),
        _obj(dra, "DeviceClass", False, spec={}),
        _obj(dra, "ResourceClaim", spec={"devices": {"requests": [request]}}),
        _obj(dra, "ResourceClaimTemplate", spec={"spec": {"devices": {"requests": [request]}}}),
        _obj(
            dra,
            "ResourceSlice",
            False,
            spec={
                "driver": "d.example.com",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": [{"name": "x"}],
            },
        ),
        _obj("v1", "Event", involvedObject=involved, reason="R", message="m"),
        _obj(
            "events.k8s.io/v1",
            "Event",
            regarding=involved,
            eventTime="2026-01-01T00:00:00.000000Z",
            reportingController="example.com/x",
            reportingInstance="i",
            action="A",
            reason="R",
            type="Normal",
        ),
        _obj(
            "storagemigration.k8s.io/v1",
            "StorageVersionMigration",
            False,
            spec={"resource": {"group": "apps", "resource": "deployments"}},
        ),
    ]


def samples() -> list[Json]:
    """Returns all samples."""
    return [*_workloads(), *_services(), *_configuration(), *_policies()]

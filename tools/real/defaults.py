"""Finds by experiment the defaults that a server applies and OpenAPI does not declare.

How: each sample (samples.py) is created with dryRun=All, and what came back is laid beside what was
sent, along the schema. A field of a definition that was not sent and came back is an observation;
so is one that was not sent and did not come back. A field that came back with the same value every
time is an unconditional rule. What differs from sample to sample is a default under a condition (or
no default at all, such as an allocated address); the conditions are written below by hand, and are
accepted only if, with them and the unconditional rules, every sample is predicted exactly.

A rule says: in an object of ``definition``, if ``field`` is absent, set it to ``value``; then go on
into the fields' own definitions. ``zero: true`` says that an explicit zero value ("" or 0) counts as
absent, as it does where Go keeps the field without a pointer (also found by experiment).
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from rest import Rest
from samples import samples

Json = dict[str, Any]
ABSENT = object()
GVK = "x-kubernetes-group-version-kind"


ROLLING = [{"field": "type", "in": ["RollingUpdate"]}]
RBAC = "rbac.authorization.k8s.io"
PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
PODS = {"type": "Pods", "value": 4, "periodSeconds": 15}
EXPOSED = ["ClusterIP", "NodePort", "LoadBalancer"]

# Defaults under a condition, in the order in which they are applied, after the unconditional ones.
CONDITIONAL: list[Json] = [
    {
        "definition": "apps.v1.DeploymentStrategy",
        "field": "rollingUpdate",
        "when": ROLLING,
        "value": {"maxUnavailable": "25%", "maxSurge": "25%"},
    },
    {
        "definition": "apps.v1.DaemonSetUpdateStrategy",
        "field": "rollingUpdate",
        "when": ROLLING,
        "value": {"maxUnavailable": 1, "maxSurge": 0},
    },
    {
        "definition": "apps.v1.StatefulSetUpdateStrategy",
        "field": "rollingUpdate",
        "when": [{"field": "type", "sent": False}],
        "value": {"partition": 0, "maxUnavailable": 1},
    },
    {
        "definition": "autoscaling.v2.HPAScalingRules",
        "field": "policies",
        "when": [{"key": "scaleUp"}],
        "value": [PODS, PERCENT],
    },
    {
        "definition": "autoscaling.v2.HPAScalingRules",
        "field": "policies",
        "when": [{"key": "scaleDown"}],
        "value": [PERCENT],
    },
    {
        "definition": "autoscaling.v2.HPAScalingRules",
        "field": "stabilizationWindowSeconds",
        "when": [{"key": "scaleUp"}],
        "value": 0,
    },
    {
        "definition": "batch.v1.JobSpec",
        "field": "completions",
        "root": "Job",
        "when": [{"field": "parallelism", "sent": False}],
        "value": 1,
    },
    {"definition": "batch.v1.JobSpec", "field": "parallelism", "root": "Job", "value": 1},
    {
        "definition": "batch.v1.JobSpec",
        "field": "backoffLimit",
        "root": "Job",
        "when": [{"field": "backoffLimitPerIndex", "sent": True}],
        "value": 2147483647,
    },
    {"definition": "batch.v1.JobSpec", "field": "backoffLimit", "root": "Job", "value": 6},
    {"definition": "batch.v1.JobSpec", "field": "completionMode", "root": "Job", "value": "NonIndexed"},
    {"definition": "batch.v1.JobSpec", "field": "manualSelector", "root": "Job", "value": False},
    {"definition": "batch.v1.JobSpec", "field": "suspend", "root": "Job", "value": False},
    {
        "definition": "batch.v1.JobSpec",
        "field": "podReplacementPolicy",
        "root": "Job",
        "when": [{"field": "podFailurePolicy", "sent": True}],
        "value": "Failed",
    },
    {
        "definition": "batch.v1.JobSpec",
        "field": "podReplacementPolicy",
        "root": "Job",
        "value": "TerminatingOrFailed",
    },
    {"definition": "core.v1.PodSpec", "field": "enableServiceLinks", "root": "Pod", "value": True},
    {
        "definition": "core.v1.ServiceSpec",
        "field": "internalTrafficPolicy",
        "when": [{"field": "type", "in": EXPOSED}],
        "value": "Cluster",
    },
    {
        "definition": "core.v1.ServiceSpec",
        "field": "externalTrafficPolicy",
        "when": [{"field": "type", "in": ["NodePort", "LoadBalancer"]}],
        "value": "Cluster",
    },
    {
        "definition": "core.v1.ServiceSpec",
        "field": "externalTrafficPolicy",
        "when": [{"field": "externalIPs", "sent": True}],
        "value": "Cluster",
    },
    {
        "definition": "core.v1.ServiceSpec",
        "field": "allocateLoadBalancerNodePorts",
        "when": [{"field": "type", "in": ["LoadBalancer"]}],
        "value": True,
    },
    {
        "definition": "core.v1.ServiceSpec",
        "field": "sessionAffinityConfig",
        "when": [{"field": "sessionAffinity", "in": ["ClientIP"]}],
        "value": {"clientIP": {"timeoutSeconds": 10800}},
    },
    {
        "definition": "core.v1.Volume",
        "field": "emptyDir",
        "when": [{"only": ["name"]}],
        "value": {},
    },
    {
        "definition": "networking.v1.NetworkPolicySpec",
        "field": "policyTypes",
        "when": [{"field": "egress", "sent": True}],
        "value": ["Ingress", "Egress"],
    },
    {
        "definition": "networking.v1.NetworkPolicySpec",
        "field": "policyTypes",
        "value": ["Ingress"],
    },
    {
        "definition": "rbac.v1.Subject",
        "field": "apiGroup",
        "when": [{"field": "kind", "in": ["User", "Group"]}],
        "value": RBAC,
    },
]

# What a server fills in by computing: allocated, derived from other fields or set by admission.
# docs/hub-defaults.md says how each of these comes about.
CODED = {
    ("batch.v1.JobSpec", "selector"),
    ("core.v1.Container", "imagePullPolicy"),
    ("core.v1.Container", "volumeMounts"),
    ("core.v1.ContainerPort", "hostPort"),
    ("core.v1.ImageVolumeSource", "pullPolicy"),
    ("core.v1.LimitRangeItem", "default"),
    ("core.v1.LimitRangeItem", "defaultRequest"),
    ("core.v1.Node", "spec"),
    ("core.v1.PersistentVolume", "status"),
    ("core.v1.PersistentVolumeClaimSpec", "dataSourceRef"),
    ("core.v1.Pod", "status"),
    ("core.v1.PodSpec", "preemptionPolicy"),
    ("core.v1.PodSpec", "priority"),
    ("core.v1.PodSpec", "serviceAccount"),
    ("core.v1.PodSpec", "serviceAccountName"),
    ("core.v1.PodSpec", "tolerations"),
    ("core.v1.PodSpec", "volumes"),
    ("core.v1.PodTemplateSpec", "metadata"),
    ("core.v1.ReplicationControllerSpec", "selector"),
    ("core.v1.ResourceRequirements", "requests"),
    ("core.v1.Secret", "data"),
    ("core.v1.ServicePort", "nodePort"),
    ("core.v1.ServicePort", "targetPort"),
    ("core.v1.ServiceSpec", "clusterIP"),
    ("core.v1.ServiceSpec", "clusterIPs"),
    ("core.v1.ServiceSpec", "healthCheckNodePort"),
    ("core.v1.ServiceSpec", "ipFamilies"),
    ("core.v1.ServiceSpec", "ipFamilyPolicy"),
    ("apiextensions.v1.CustomResourceDefinition", "status"),
    ("apiextensions.v1.CustomResourceDefinitionNames", "listKind"),
    ("apiextensions.v1.CustomResourceDefinitionNames", "singular"),
}


class DefaultsError(Exception):
    """A sample was refused or is not predicted; the message names it."""


@dataclass
class Found:
    """What the experiment found."""

    rules: list[Json]
    conditional: list[Json]


@dataclass(frozen=True)
class Observation:
    """One object of a definition in one sample: a field that was not sent, and what came of it."""

    sample: int
    path: tuple[Any, ...]
    value: Any
    beside: Json


@dataclass
class Observer:
    """Lays answers beside requests along the schema."""

    definitions: Json
    seen: dict[tuple[str, str], list[Observation]] = field(default_factory=lambda: defaultdict(list))

    def walk(self, sample: int, path: tuple[Any, ...], schema: Json, sent: Any, got: Any) -> None:
        """Observes one value and all below it."""
        name = schema.get("$ref")
        if name:
            schema = self.definitions[name]
        if isinstance(sent, dict) and isinstance(got, dict):
            self._walk_object(sample, path, name, schema, sent, got)
        elif isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
            for number, (one, other) in enumerate(zip(sent, got, strict=True)):
                self.walk(sample, (*path, number), schema.get("items", {}), one, other)

    def _walk_object(
        self,
        sample: int,
        path: tuple[Any, ...],
        name: str | None,
        schema: Json,
        sent: Json,
        got: Json,
    ) -> None:
        """Observes the fields that an object left out; goes on into those that it has."""
        for key, sub in schema.get("properties", {}).items():
            if key in sent:
                if key in got:
                    self.walk(sample, (*path, key), sub, sent[key], got[key])
            elif name:
                value = got.get(key, ABSENT)
                self.seen[name, key].append(Observation(sample, (*path, key), value, got))
        if isinstance(schema.get("additionalProperties"), dict):
            for key in sent.keys() & got.keys():
                sub = schema["additionalProperties"]
                self.walk(sample, (*path, key), sub, sent[key], got[key])


def collection_path(client: Rest, sample: Json, plurals: Json) -> str:
    """Returns the path under which a sample is created."""
    version, kind = sample["apiVersion"], sample["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if version not in plurals:
        found = client.get(root).ok().json()["resources"]
        plurals[version] = {r["kind"]: r["name"] for r in found if "/" not in r["name"]}
    space = sample["metadata"].get("namespace")
    return (
        f"{root}/namespaces/{space}/{plurals[version][kind]}"
        if space
        else (f"{root}/{plurals[version][kind]}")
    )


def _create(client: Rest, sample: Json, plurals: Json) -> Any:
    """Creates a sample without consequences; returns the code and what came back."""
    answer = client.send("POST", collection_path(client, sample, plurals) + "?dryRun=All", sample)
    return answer.code, answer.json()


def _find_kinds(definitions: Json) -> dict[tuple[str, str], str]:
    """Returns definitions by apiVersion and kind."""
    kinds = {}
    for name, schema in definitions.items():
        for kind in schema.get(GVK, []):
            group, version = kind["group"], kind["version"]
            kinds[f"{group}/{version}" if group else version, kind["kind"]] = name
    return kinds


def observe(client: Rest, definitions: Json) -> tuple[Observer, list[Json], list[Json]]:
    """Creates all samples; returns the observations, the samples and the answers."""
    observer, kinds, plurals = Observer(definitions), _find_kinds(definitions), {}
    asked, answered = samples(), []
    for number, sample in enumerate(asked):
        code, got = _create(client, sample, plurals)
        if code != 201:
            raise DefaultsError(f"{sample['kind']} {json.dumps(sample)}: {got.get('message')}")
        answered.append(got)
        schema = {"$ref": kinds[sample["apiVersion"], sample["kind"]]}
        observer.walk(number, (), schema, sample, got)
    return observer, asked, answered


def split(observer: Observer) -> tuple[list[Json], dict[tuple[str, str], list[Observation]]]:
    """Splits the observed fields into unconditional rules and those that vary."""
    rules, varying = [], {}
    for (name, key), seen in sorted(observer.seen.items()):
        if name.endswith(".ObjectMeta"):
            continue
        values = [observation.value for observation in seen]
        if all(value is ABSENT for value in values):
            continue
        if all(value == values[0] for value in values):
            rules.append({"definition": name, "field": key, "value": values[0]})
        else:
            varying[name, key] = seen
    return rules, varying


def _full(definitions: Json, short: str) -> str:
    """Returns the full name of a definition that is named by its end here."""
    found = [name for name in definitions if name.endswith(f".{short}")]
    if len(found) != 1:
        raise DefaultsError(f"{len(found)} definitions end with {short}")
    return found[0]


def holds(rule: Json, observation: Observation, asked: list[Json]) -> bool:
    """Tells whether a conditional rule applies to an observed object."""
    sample = asked[observation.sample]
    sent: Any = sample
    for step in observation.path[:-1]:
        sent = sent[step]
    if "root" in rule and sample["kind"] != rule["root"]:
        return False
    return all(_is_met(condition, observation, sent) for condition in rule.get("when", []))


def _is_met(condition: Json, observation: Observation, sent: Json) -> bool:
    """Tells whether one condition is met; README.md beside this file describes their forms."""
    if "in" in condition:
        return observation.beside.get(condition["field"]) in condition["in"]
    if "sent" in condition:
        return bool(sent.get(condition["field"])) == condition["sent"]
    if "only" in condition:
        return set(sent) <= set(condition["only"])
    return bool(observation.path[-2] == condition["key"])


def check_conditional(
    conditional: list[Json],
    varying: dict[tuple[str, str], list[Observation]],
    coded: set[tuple[str, str]],
    asked: list[Json],
) -> None:
    """Raises DefaultsError unless every varying field is predicted or documented as code."""
    by_field: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for rule in conditional:
        by_field[rule["definition"], rule["field"]].append(rule)
    for key, seen in varying.items():
        if key in coded:
            continue
        for observation in seen:
            matching = [rule for rule in by_field[key] if holds(rule, observation, asked)]
            expected = matching[0]["value"] if matching else ABSENT
            if expected != observation.value:
                got = "nothing" if observation.value is ABSENT else observation.value
                raise DefaultsError(f"{key} at {observation.path}: unforeseen {got}")
    for key in by_field:
        if key not in varying:
            raise DefaultsError(f"{key} does not vary: remove the condition or add a sample")


def _find_zeroes(client: Rest, rules: list[Json], observer: Observer, asked: list[Json]) -> None:
    """Marks the rules for which an explicit zero value counts as absent, by trying it."""
    plurals: Json = {}
    for rule in rules:
        zero: Any = {str: "", int: 0}.get(type(rule["value"]), ABSENT)
        if zero is ABSENT or rule["value"] == zero:
            continue
        observation = observer.seen[rule["definition"], rule["field"]][0]
        sample = copy.deepcopy(asked[observation.sample])
        _put(sample, observation.path, zero)
        code, got = _create(client, sample, plurals)
        if code == 201 and _take(got, observation.path) == rule["value"]:
            rule["zero"] = True


def _put(target: Any, path: tuple[Any, ...], value: Any) -> None:
    """Sets the value at a path."""
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value


def _take(source: Any, path: tuple[Any, ...]) -> Any:
    """Returns the value at a path, None where there is none."""
    for step in path:
        try:
            source = source[step]
        except (KeyError, IndexError):
            return None
    return source


def find_defaults(client: Rest, definitions: Json) -> Found:
    """Runs the experiment; returns the rules."""
    observer, asked, _ = observe(client, definitions)
    rules, varying = split(observer)
    coded = {(_full(definitions, name), key) for name, key in CODED}
    rules = [rule for rule in rules if (rule["definition"], rule["field"]) not in coded]
    conditional = [{**rule, "definition": _full(definitions, rule["definition"])} for rule in CONDITIONAL]
    check_conditional(conditional, varying, coded, asked)
    _find_zeroes(client, rules, observer, asked)
    _check_closed(rules, definitions)
    return Found(rules, conditional)


def _check_closed(rules: list[Json], definitions: Json) -> None:
    """Raises DefaultsError when a rule names a field that its definition lacks."""
    for rule in rules:
        if rule["field"] not in definitions[rule["definition"]]["properties"]:
            raise DefaultsError(f"no such field: {rule}")

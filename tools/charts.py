"""The Helm charts' templates, made from the same manifests that `echelon install` applies, so they cannot drift."""

from __future__ import annotations

import re
from typing import Any

import yaml

from echelon.install import manifests
from echelon.install.authors import NEWER_KINDS
from echelon.install.manifests import hub_definitions, member_definitions
from echelon.install.rights import hub_account, member_account
from echelon.install.workload import Values, hub_deployment, member_deployment

HEAD = "# Generated from echelon.install by tools/charts.py; do not edit.\n"
KEEP = {"helm.sh/resource-policy": "keep"}  # uninstalling the agent must not delete everybody's objects
RELEASE = "{{ .Release.Namespace }}"


def values() -> Any:
    """Return placeholders where an installation has values."""
    made: Any = Values(
        namespace=RELEASE,
        image="{{ .Values.image }}",
        stuck_after="{{ .Values.stuckAfter }}",
        log_level="{{ .Values.logLevel }}",
        member='{{ required "set member to the name of the MemberCluster" .Values.member }}',
        hub_secret="{{ .Values.hubSecret }}",  # noqa: S106 - the name of a Secret
    )
    return made


def template(manifests: list[dict[str, Any]]) -> str:
    """Render manifests; a value that Helm fills in keeps its quotes unless it is a number."""
    text = yaml.dump_all(manifests, Dumper=yaml.CSafeDumper, sort_keys=False, width=10_000)
    return HEAD + re.sub(r"replicas: 2\n", "replicas: {{ .Values.replicas }}\n", text)


def kept(definitions: list[dict[str, Any]]) -> str:
    """Render definitions that outlive the release."""
    return template(
        [
            {
                **crd,
                "metadata": {
                    **crd["metadata"],
                    "annotations": {**crd["metadata"].get("annotations", {}), **KEEP},
                },
            }
            for crd in definitions
        ]
    )


def hub_crds() -> str:
    """templates/crds.yaml of the hub chart."""
    return kept(hub_definitions())


def hub_rbac() -> str:
    """templates/rbac.yaml of the hub chart."""
    return template(hub_account(RELEASE))


def hub_policies() -> str:
    """templates/policies.yaml of the hub chart."""
    rows = manifests.hub_policies(RELEASE)
    newer = [row for row in rows if row["kind"] in NEWER_KINDS]
    older = [row for row in rows if row["kind"] not in NEWER_KINDS]
    served = (
        '{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}'
    )
    return f"{template(older)}{served}\n---\n{template(newer)}{{{{- end }}}}\n"


def hub_agent() -> str:
    """templates/deployment.yaml of the hub chart."""
    return template([hub_deployment(values())])


def member_crds() -> str:
    """templates/crds.yaml of the member chart."""
    return kept(member_definitions())


def member_rbac() -> str:
    """templates/rbac.yaml of the member chart."""
    return template(member_account(RELEASE))


def member_agent() -> str:
    """templates/deployment.yaml of the member chart."""
    return template([member_deployment(values())])

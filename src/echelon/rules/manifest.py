"""Cleans an object of the hub until only what a person asked for is left: the manifest that travels.

Everything the hub's own API server or controllers added (identity, revisions, status, allocated addresses and
ports, job labels) would be wrong or refused in a member cluster. Returns a new value, never changes the one given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DROPPED_META = frozenset(
    {
        "resourceVersion",
        "generation",
        "uid",
        "selfLink",
        "deletionTimestamp",
        "managedFields",
        "ownerReferences",
        "creationTimestamp",
    }
)
_DROPPED_ANNOTATIONS = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"}
)
_JOB_LABELS = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid"})


def clean(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest without what belongs to the hub alone."""
    cleaned = {key: value for key, value in manifest.items() if key != "status"}
    cleaned["metadata"] = _clean_meta(manifest["metadata"])
    spec = manifest.get("spec")
    if isinstance(spec, Mapping):
        match manifest.get("apiVersion"), manifest.get("kind"):
            case "v1", "Service":
                cleaned["spec"] = _clean_service(spec)
            case "batch/v1", "Job" if spec.get("manualSelector") is not True:
                cleaned["spec"] = _clean_job(spec)
    return cleaned


def _clean_meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in meta.items() if key not in _DROPPED_META}
    annotations = _without(kept.get("annotations") or {}, _DROPPED_ANNOTATIONS)
    if annotations:
        kept["annotations"] = annotations
    else:
        kept.pop("annotations", None)
    return kept


def _clean_service(spec: Mapping[str, Any]) -> dict[str, Any]:
    cleaned = _without(spec, {"healthCheckNodePort"})
    if cleaned.get("clusterIP", "None") != "None":
        cleaned = _without(cleaned, {"clusterIP", "clusterIPs"})
    if isinstance(spec.get("ports"), list):
        cleaned["ports"] = [_without(port, {"nodePort"}) for port in spec["ports"]]
    return cleaned


def _clean_job(spec: Mapping[str, Any]) -> dict[str, Any]:
    cleaned = dict(spec)
    selector = spec.get("selector")
    if isinstance(selector, Mapping) and selector.get("matchLabels"):
        cleaned["selector"] = {**selector, "matchLabels": _without(selector["matchLabels"], _JOB_LABELS)}
    template = spec.get("template")
    if isinstance(template, Mapping) and isinstance(template.get("metadata"), Mapping):
        meta = _without(template["metadata"], {"creationTimestamp"})
        if meta.get("labels"):
            meta["labels"] = _without(meta["labels"], _JOB_LABELS)
        cleaned["template"] = {**template, "metadata": meta}
    return cleaned


def _without(mapping: Mapping[str, Any], names: frozenset[str] | set[str]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in names}

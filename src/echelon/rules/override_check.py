"""Whether an override makes sense by itself; the texts are those of the admission check.

Admission policies refuse such overrides when they are written. Where none are installed, the engine takes no
snapshot of them and says why, so no rollout ever meets one.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from echelon.api.names import OverrideType, PatchOperator
from echelon.api.override import AnySelector, JsonPatchOverride, Override, OverrideRule
from echelon.api.placement import ClusterSelectorTerm, ResourceSelector
from echelon.rules.labels import InvalidSelector, check
from echelon.rules.override import write_selector


def check_override(override: Override) -> str:
    """Return what is wrong with an override; empty when nothing is. Several errors read `[a, b]`."""
    problems = _check_selectors(override.spec.selectors)
    if not problems:
        problems = [problem for rule in override.spec.policy.override_rules for problem in check_rule(rule)]
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""


def _check_selectors(selectors: Iterable[AnySelector]) -> list[str]:
    problems: list[str] = []
    seen: list[AnySelector] = []
    for selector in selectors:
        said = write_resource_selector(selector)
        if isinstance(selector, ResourceSelector) and selector.label_selector is not None:
            problems.append(f"label selector is not supported for resource selection {said}")
        elif not selector.name:
            problems.append(f"resource name is required for resource selection {said}")
        elif selector in seen:
            problems.append(f"resource selector {said} already exists, and must be unique")
        seen.append(selector)
    return problems


def check_rule(rule: OverrideRule) -> list[str]:
    """Return what is wrong with one rule."""
    terms = rule.cluster_selector.cluster_selector_terms if rule.cluster_selector else ()
    problems = [problem for term in terms if (problem := _check_term(term))]
    if rule.override_type == OverrideType.DELETE:
        if rule.json_patch_overrides:
            return [
                *problems,
                "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete",
            ]
        return problems
    if not rule.json_patch_overrides:
        return [*problems, "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty"]
    for patch in rule.json_patch_overrides:
        for why in (check_path(patch.path), _check_value(patch)):
            if why:
                problems.append(f"invalid JSONPatchOverride {write_patch(patch)}: {why}")
    return problems


def _check_term(term: ClusterSelectorTerm) -> str:
    said = f"{{LabelSelector:{write_selector(term.label_selector)}}}"
    if term.property_selector is not None or term.property_sorter is not None:
        return f"invalid clusterSelector {said}: only labelSelector is supported"
    if term.label_selector is None:
        return f"invalid clusterSelector {said}: labelSelector is required"
    try:
        check(term.label_selector)
    except InvalidSelector as error:
        return f"the labelSelector in cluster selector {said} is invalid: {error}"
    return ""


def check_path(path: str) -> str:
    """Return why a field may not be patched; empty when it may."""
    if not path:
        return "path cannot be empty"
    if not path.startswith("/"):
        return "path must start with /"
    parts = path.split("/")[1:]
    if parts[0] in {"kind", "apiVersion"}:
        return "cannot override typeMeta fields"
    if parts[0] == "metadata":
        if len(parts) == 1:
            return "cannot override field metadata"
        if parts[1] not in {"annotations", "labels"}:
            return "cannot override metadata fields except annotations and labels"
    if parts[0] == "status":
        return "cannot override status fields"
    if any(not part.strip() for part in parts):
        return "path cannot contain empty string"
    return ""


def _check_value(patch: JsonPatchOverride) -> str:
    has_value = patch.value is not msgspec.UNSET and patch.value is not None
    return (
        "remove operation cannot have value" if has_value and patch.operator == PatchOperator.REMOVE else ""
    )


def write_patch(patch: JsonPatchOverride) -> str:
    """Write a patch operation for messages."""
    value = "" if patch.value is msgspec.UNSET else f" {msgspec.json.encode(patch.value).decode()}"
    return f"{{{patch.operator} {patch.path}{value}}}"


def write_resource_selector(selector: AnySelector) -> str:
    """Write a resource selector for messages."""
    return f"{{Group:{selector.group} Version:{selector.version} Kind:{selector.kind} Name:{selector.name}}}"

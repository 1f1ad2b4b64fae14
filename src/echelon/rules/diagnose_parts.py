"""The small change of diagnosis: what is spotted, what backs it up, and how things are named in sentences.

Shapes and wording only; what is spotted is decided in `diagnose_run.py`, `diagnose_cluster.py` and
`diagnose_workload.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from echelon.api.meta import Condition
from echelon.api.placement import ResourceIdentifier
from echelon.api.work import Work
from echelon.rules.run_seen import Seen

MAX_NAMED = 3  # names in a sentence; the finding itself lists all
_WORD = re.compile(r"\{([a-z_]+)\}")


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One observation that backs a finding up: whose, what, since when."""

    object: str
    says: str
    since: datetime | None = None


class Spotted(msgspec.Struct, frozen=True, kw_only=True):
    """One cause recognised in one place; equal ones on several clusters are told together."""

    cause: str
    words: Mapping[str, str] = {}
    stage: str = ""
    cluster: str = ""
    evidence: tuple[Evidence, ...] = ()
    own: Mapping[str, str] = {}  # words that differ from cluster to cluster and do not stand against grouping


class OnMember(msgspec.Struct, frozen=True, kw_only=True):
    """An object as it is on a member, with the pods that belong to it."""

    object: Mapping[str, Any] | None = None
    pods: Sequence[Mapping[str, Any]] = ()


ObjectName = tuple[str, str, str]  # kind, namespace, name


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked up beyond the run's own state; empty where nobody could look."""

    works: Mapping[str, Sequence[Work]] = {}  # by binding
    members: Mapping[str, Mapping[ObjectName, OnMember]] = {}  # by cluster


def fill(text: str, words: Mapping[str, str]) -> str:
    """Fill {words} in; other braces stay, so commands with JSON need no escapes."""
    return _WORD.sub(lambda match: words.get(match[1], match[0]), text)


def listed(names: Iterable[str], most: int = MAX_NAMED) -> str:
    """Write names: `a`, `a and b`, `41 clusters (a, b, c and 38 more)`."""
    names = sorted(set(names))
    if len(names) <= 1:
        return "".join(names)
    if len(names) <= most:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{len(names)} clusters ({', '.join(names[:most])} and {len(names) - most} more)"


def saying(object_: str, condition: Condition) -> Evidence:
    """Quote a condition as evidence."""
    text = f"{condition.type}={condition.status} {condition.reason}"
    if condition.message:
        text += f": {condition.message}"
    return Evidence(object=object_, says=text, since=condition.last_transition_time)


def object_words(identifier: ResourceIdentifier) -> dict[str, str]:
    """Name a placed object for sentences and for kubectl."""
    where = f"{identifier.namespace}/" if identifier.namespace else ""
    kind = identifier.kind.lower()
    builtin = "." not in identifier.group or identifier.group.endswith(".k8s.io")
    option = f" -n {identifier.namespace}" if identifier.namespace else ""
    return {
        "object": f"{identifier.kind} {where}{identifier.name}",
        "kind_ref": f"{kind if builtin else f'{kind}.{identifier.group}'} {identifier.name}{option}",
        "object_n": option,
        "namespace": identifier.namespace,
    }


def run_words(seen: Seen) -> dict[str, str]:
    """Return the words that every sentence about a run may use."""
    run, scope = seen.run, seen.scope
    short = {
        "run_kind": scope.run,
        "placement_kind": scope.placement,
        "strategy_kind": scope.strategy,
        "binding_kind": scope.binding,
        "approval_kind": scope.approval,
        "snapshot_kind": scope.resource_snapshot,
    }
    return {
        **{
            word: (kind.short_names[0] if kind.short_names else kind.singular) for word, kind in short.items()
        },
        "run": run.name,
        "n": f" -n {run.namespace}" if run.namespace else "",
        "placement": run.spec.placement_name,
        "strategy": run.spec.strategy_name,
    }

"""Finding what a command names, and gathering all that is known about a run.

Reads only. A run may be written NAME, csur/NAME or sur/NAME (with -n), and where a stage is meant, RUN/STAGE.
`Reader` hands out lists, from plain requests or (for watching) from a cache; `seen_of` puts a run's state together
from either in the same way.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from echelon.api.names import LABEL_PARENT_CRP, LABEL_PARENT_RESOURCE_BINDING, MAX_LABEL, member_namespace
from echelon.api.own import MEMBER_CLUSTERS, WORKS
from echelon.api.resource import Resource
from echelon.api.scope import CLUSTER, NAMESPACED, Scope
from echelon.rules.diagnose_parts import Depth, ObjectName, OnMember
from echelon.rules.run_seen import Seen

if TYPE_CHECKING:
    from echelon.api.staged import Run
    from echelon.cli.connect import Hub
    from echelon.client.base import Client
    from echelon.client.cache import Cache, Store

MAX_DEEP = 50  # clusters whose works and pods are looked up, side by side
MAX_PODS = 500  # of one namespace of a member


class Ref(NamedTuple):
    """What a command names."""

    scope: Scope
    namespace: str | None
    name: str
    stage: str = ""

    def __str__(self) -> str:
        """The way it is written on a command line."""
        return f"{self.name} -n {self.namespace}" if self.namespace else self.name


def run_ref(text: str, namespace: str | None) -> Ref:
    """Read RUN, RUN/STAGE, csur/RUN, sur/RUN or csur/RUN/STAGE."""
    parts = text.split("/")
    kinds = {name: scope for scope in (CLUSTER, NAMESPACED) for name in names_of(scope.run)}
    scope = kinds.get(parts[0].lower()) if len(parts) > 1 else None
    if scope is not None:
        parts = parts[1:]
    if len(parts) > 2 or not all(parts):
        raise click.BadParameter(f"'{text}' is not RUN, RUN/STAGE, csur/RUN or sur/RUN")
    return _placed(scope, namespace, parts[0], parts[1] if len(parts) > 1 else "", "sur")


def placement_ref(text: str, namespace: str | None) -> Ref:
    """Read PLACEMENT, crp/PLACEMENT or rp/PLACEMENT."""
    kind, slash, name = text.partition("/")
    if not slash:
        return _placed(None, namespace, text, "", "rp")
    kinds = {name: scope for scope in (CLUSTER, NAMESPACED) for name in names_of(scope.placement)}
    if kind.lower() not in kinds or not name or "/" in name:
        raise click.BadParameter(f"'{text}' is not PLACEMENT, crp/PLACEMENT or rp/PLACEMENT")
    return _placed(kinds[kind.lower()], namespace, name, "", "rp")


def _placed(scope: Scope | None, namespace: str | None, name: str, stage: str, short: str) -> Ref:
    if scope is NAMESPACED and not namespace:
        raise click.UsageError(f"{short}/{name} is namespaced; say which namespace with -n")
    if scope is CLUSTER and namespace:
        raise click.UsageError(f"{name} is cluster-scoped and has no namespace; leave -n out")
    scope = scope or (NAMESPACED if namespace else CLUSTER)
    return Ref(scope, namespace if scope.namespaced else None, name, stage)


def names_of(resource: Resource) -> tuple[str, ...]:
    """Return the words a kind is called by."""
    return (*resource.short_names, resource.singular, resource.plural)


async def get_run(client: Client, ref: Ref) -> Run:
    """Read a run; an unknown name is answered with the nearest ones."""
    from echelon.client.errors import NotFound

    try:
        run: Run = await client.get(ref.scope.run, ref.name, ref.namespace)
    except NotFound:
        raise click.ClickException(await missing(client, ref.scope.run, ref)) from None
    return run


async def missing(client: Client, resource: Resource, ref: Ref) -> str:
    """Say that something is not there, and what is."""
    from echelon.client.errors import ApiError

    where = f" in namespace {ref.namespace}" if ref.namespace else ""
    text = f'{resource.kind} "{ref.name}" not found{where}'
    try:
        there = [one.metadata.name for one in (await client.list(resource, ref.namespace)).items]
    except ApiError:
        return text
    near = difflib.get_close_matches(ref.name, there, n=1)
    if near:
        return f"{text}; did you mean {near[0]}?"
    option = "" if ref.namespace else "; for a namespaced one add -n NAMESPACE"
    return f"{text}; there are: {', '.join(sorted(there)[:10]) or 'none'}{option}"


# --- reading everything about a run ---------------------------------------------------------------------------
class Reader(Protocol):
    """Hands out the objects of a kind, in a namespace where one is meant."""

    async def all(self, resource: Resource, namespace: str | None, labels: str = "") -> Sequence[Any]:
        """Return the objects."""
        ...

    async def one(self, resource: Resource, name: str, namespace: str | None) -> Any | None:
        """Return one object, None when it is not there."""
        ...

    may_see_members: bool  # who owns one namespace may not; then nothing is said about members


class Lists:
    """Reads by list requests, each at most once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._held: dict[tuple[str, str | None, str], Sequence[Any]] = {}
        self.may_see_members = True

    async def all(self, resource: Resource, namespace: str | None, labels: str = "") -> Sequence[Any]:
        """Return the objects."""
        key = (resource.full_name, namespace, labels)
        if key not in self._held:
            self._held[key] = (await self._client.list(resource, namespace, labels=labels)).items
        return self._held[key]

    async def one(self, resource: Resource, name: str, namespace: str | None) -> Any | None:
        """Return one object, None when it is not there."""
        from echelon.client.errors import NotFound

        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None


class Follows:
    """Reads from a cache that follows the hub, and tells when anything has changed."""

    def __init__(self, cache: Cache, changed: Callable[[], None], *, may_see_members: bool = True) -> None:
        self._cache = cache
        self._changed = changed
        self._known: dict[int, Store] = {}
        self.may_see_members = may_see_members

    def trouble(self) -> str:
        """Say why what was read may be out of date; empty while every copy follows the hub."""
        return next((store.error for store in self._known.values() if store.error), "")

    async def all(self, resource: Resource, namespace: str | None, labels: str = "") -> Sequence[Any]:
        """Return the objects."""
        return list((await self._store(resource, namespace, labels)).all())

    async def one(self, resource: Resource, name: str, namespace: str | None) -> Any | None:
        """Return one object, None when it is not there."""
        return (await self._store(resource, namespace, "")).get(name, namespace)

    async def _store(self, resource: Resource, namespace: str | None, labels: str) -> Store:
        store = self._cache.store(resource, namespace, labels=labels)
        await store.synced.wait()
        if id(store) not in self._known:
            self._known[id(store)] = store
            store.subscribe(lambda _old, _new: self._changed())
        return store


def parent_label(placement: str) -> str:
    """Return the selector of what belongs to a placement; none where the name does not fit a label."""
    return f"{LABEL_PARENT_CRP}={placement}" if len(placement) <= MAX_LABEL else ""


async def seen_of(reader: Reader, run: Run, scope: Scope) -> Seen:
    """Gather a run's state, as the engine sees it."""
    namespace, placement = run.namespace, run.spec.placement_name
    labels = parent_label(placement)
    runs = await reader.all(scope.run, namespace)
    return Seen(
        scope=scope,
        run=run,
        placement=await reader.one(scope.placement, placement, namespace),
        strategy=await reader.one(scope.strategy, run.spec.strategy_name, namespace),
        policy_snapshots=_of(await reader.all(scope.policy_snapshot, namespace, labels), run),
        bindings=_of(await reader.all(scope.binding, namespace, labels), run),
        snapshots=_of(await reader.all(scope.resource_snapshot, namespace, labels), run),
        clusters=await members_of(reader),
        approvals=_asked(await reader.all(scope.approval, namespace), run),
        rivals=_others(runs, run),
    )


async def all_seen(reader: Reader, scope: Scope, namespace: str | None) -> list[Seen]:
    """Gather the state of every run of a scope; each kind is read once, whatever the number of runs."""
    runs = await reader.all(scope.run, namespace)
    if not runs:
        return []
    placements = {(one.namespace, one.name): one for one in await reader.all(scope.placement, namespace)}
    strategies = {(one.namespace, one.name): one for one in await reader.all(scope.strategy, namespace)}
    policies = await reader.all(scope.policy_snapshot, namespace)
    bindings = await reader.all(scope.binding, namespace)
    approvals = await reader.all(scope.approval, namespace)
    clusters = await members_of(reader)
    return [
        Seen(
            scope=scope,
            run=run,
            placement=placements.get((run.namespace, run.spec.placement_name)),
            strategy=strategies.get((run.namespace, run.spec.strategy_name)),
            policy_snapshots=_of(policies, run),
            bindings=_of(bindings, run),
            clusters=clusters,
            approvals=_asked(approvals, run),
            rivals=_others(runs, run),
        )
        for run in runs
    ]


async def members_of(reader: Reader) -> dict[str, Any]:
    """Read the member clusters, if this user may; an empty answer means that nothing is known about them."""
    from echelon.client.errors import Forbidden

    if not reader.may_see_members:
        return {}
    try:
        return {one.name: one for one in await reader.all(MEMBER_CLUSTERS, None)}
    except Forbidden:
        reader.may_see_members = False
        return {}


def _others(runs: Iterable[Run], run: Run) -> dict[str, Run]:
    return {
        other.name: other
        for other in runs
        if other.namespace == run.namespace
        and other.spec.placement_name == run.spec.placement_name
        and other.name != run.name
    }


def _asked(approvals: Iterable[Any], run: Run) -> dict[str, Any]:
    return {
        request.name: request
        for request in approvals
        if request.spec.run_name == run.name and request.namespace == run.namespace
    }


def _of(objects: Iterable[Any], run: Run) -> tuple[Any, ...]:
    return tuple(
        one
        for one in objects
        if one.metadata.labels.get(LABEL_PARENT_CRP) == run.spec.placement_name
        and one.namespace == run.namespace
    )


# --- looking deeper -------------------------------------------------------------------------------------------
async def depth_of(hub: Hub, seen: Seen, clusters: Iterable[str]) -> Depth:
    """Look at the works of some clusters and, where a context for the member is at hand, at the objects there."""
    wanted = list(dict.fromkeys(clusters))[:MAX_DEEP]
    bindings = {one.spec.target_cluster: one for one in seen.bindings}
    works: dict[str, Sequence[Any]] = {}
    members: dict[str, Mapping[ObjectName, OnMember]] = {}

    async def look(cluster: str) -> None:
        binding = bindings.get(cluster)
        if binding is None:
            return
        works[binding.name] = await _works(hub.client, cluster, binding.name)
        failed = binding.status.failed_placements if binding.status else ()
        names = [(one.kind, one.namespace, one.name) for one in failed]
        members[cluster] = await _on_member(hub, cluster, names)

    await asyncio.gather(*(look(cluster) for cluster in wanted))
    return Depth(works=works, members=members)


async def _works(client: Client, cluster: str, binding: str) -> Sequence[Any]:
    from echelon.client.errors import ApiError

    try:
        labels = f"{LABEL_PARENT_RESOURCE_BINDING}={binding}"
        return (await client.list(WORKS, member_namespace(cluster), labels=labels)).items
    except ApiError:  # not everybody may look at works; the binding still tells
        return ()


async def _on_member(hub: Hub, cluster: str, names: Iterable[ObjectName]) -> dict[ObjectName, OnMember]:
    from echelon.api.builtin import BUILT_IN, PODS
    from echelon.client.errors import ApiError, NotFound, Unreachable
    from echelon.rules.diagnose_workload import pods_of

    client = hub.member(cluster)
    kinds = {resource.kind: resource for resource in BUILT_IN if resource.kind in WITH_PODS}
    found: dict[ObjectName, OnMember] = {}
    if client is None:
        return found
    try:
        for kind, namespace, name in names:
            if kind not in kinds:
                continue
            try:
                obj = await client.get(kinds[kind], name, namespace)
            except NotFound:
                continue
            pods = (await client.page(PODS, namespace, limit=MAX_PODS)).items
            found[kind, namespace, name] = OnMember(object=obj, pods=pods_of({"kind": kind, **obj}, pods))
    except (ApiError, Unreachable):  # a member that does not answer is told by its heartbeat
        return found
    return found


WITH_PODS = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "Pod"})

__all__ = ["Lists", "Reader", "Ref", "depth_of", "get_run", "run_ref", "seen_of"]

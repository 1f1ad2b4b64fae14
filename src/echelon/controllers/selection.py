"""What placements select, kept current: follows exactly the kinds that placements look at, and says whom a change concerns.

One Selection serves both scopes and everybody who needs to know the resources of a placement as they are now: the
placement controllers and runs. Kinds are followed from the first look at them on, custom ones as they come and go.
A change of an object wakes only the placements that look at it; nothing is ever rescanned.

What a placement selects is worked out once and remembered until something it looks at changes. Decides nothing:
the rule is `rules/select.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import structlog

from echelon.api.builtin import NAMESPACES, SERVICES
from echelon.api.placement import Placement
from echelon.api.resource import Resource
from echelon.api.scope import Key, Scope
from echelon.client.base import Client
from echelon.client.cache import Cache, Store
from echelon.client.errors import ApiError
from echelon.controllers.kinds import ServedKinds
from echelon.controllers.sealing import Seals
from echelon.rules.kinds import Kinds
from echelon.rules.labels import InvalidSelector, matches
from echelon.rules.manifest import clean
from echelon.rules.propagate import NAMESPACE, Gvk, Vetoes
from echelon.rules.select import InvalidSelection, Look, Selected, looks, select

log = structlog.get_logger("echelon.selection")

SYNC_WAIT_S = 10.0  # a first list that takes longer is an error to try again; guessing would remove resources
IN_NAMESPACE = "selection-namespace"

Enqueue = Callable[[Key], None]


class Asker(NamedTuple):
    """A placement, of either scope."""

    scope: str
    key: Key


class _Interest(NamedTuple):
    """Something whose change concerns a placement. With every field empty but two it means the kind itself."""

    group: str
    kind: str
    namespace: str = ""
    name: str = ""  # "": any


EVERYTHING = "*"  # the kind of an interest in a whole namespace


class _Answer(NamedTuple):
    """What a placement selects, and for which spec of it that was worked out."""

    uid: str
    generation: int
    selected: Selected | InvalidSelection


class Selection:
    """Answers what placements select."""

    def __init__(self, cache: Cache, client: Client, vetoes: Vetoes | None = None) -> None:
        self.vetoes = vetoes or Vetoes()
        self._cache = cache
        self._seals = Seals(cache)
        self._served = ServedKinds(cache, client, self._kinds_changed)
        self._followed: dict[Resource, Store] = {}
        self._is_collecting = False  # some placement selects whole namespaces
        self._enqueue: dict[str, Enqueue] = {}
        self._answers: dict[Asker, _Answer] = {}
        self._interests: dict[Asker, list[_Interest]] = {}
        self._askers: dict[_Interest, dict[Asker, list[Look]]] = {}
        self._drops: set[asyncio.Task[None]] = set()

    def connect(self, scope: Scope, enqueue: Enqueue) -> None:
        """Say where the keys of a scope's placements go when what they select may have changed."""
        self._enqueue[scope.name] = enqueue

    async def select(self, scope: Scope, placement: Placement) -> Selected:
        """Return what a placement selects now; raises InvalidSelection for its author's errors."""
        asker = Asker(scope.name, scope.key(placement.name, placement.namespace))
        answer = self._answers.get(asker)
        meta = placement.metadata
        if answer is None or (answer.uid, answer.generation) != (meta.uid, meta.generation):
            answer = await self._work_out(asker, placement)
        if isinstance(answer.selected, InvalidSelection):
            raise answer.selected
        return answer.selected

    async def select_now(self, scope: Scope, placement: Placement) -> Selected:
        """Return what a placement selects, on copies that are no older than this call."""
        wanted = looks(placement, self.vetoes)
        kinds = await self._follow_all(wanted)
        source = _Source(kinds, self._followed, self.vetoes)
        await asyncio.gather(*(self._catch_up(*place) for place in _places(wanted, source)))
        return await self.select(scope, placement)

    async def _catch_up(self, resource: Resource, namespace: str | None, name: str) -> None:
        try:
            await self._followed[resource].catch_up(namespace, name)
        except ApiError as error:  # one kind whose server is away: its copy has to do, as for everybody else
            log.warning("could not compare with the API", resource=resource.plural, error=str(error))

    def forget(self, scope: Scope, key: Key) -> None:
        """Stop caring about a placement that is gone."""
        asker = Asker(scope.name, key)
        self._answers.pop(asker, None)
        self._register(asker, [])

    async def _work_out(self, asker: Asker, placement: Placement) -> _Answer:
        wanted = looks(placement, self.vetoes)
        kinds = await self._follow_all(wanted)
        # from here on nothing waits: what is read and what is registered belong to one moment
        source = _Source(kinds, self._followed, self.vetoes)
        selected: Selected | InvalidSelection
        try:
            selected = Selected(self._seals.sealed(select(placement, source, self.vetoes).manifests))
        except InvalidSelection as error:
            selected = error.with_traceback(None)
        self._register(asker, self._rows(wanted, source))
        answer = _Answer(placement.metadata.uid, placement.metadata.generation, selected)
        self._answers[asker] = answer
        return answer

    # following

    async def _follow_all(self, wanted: Iterable[Look]) -> Kinds:
        """Follow every kind that is looked at and wait until the copies are complete."""
        kinds = await asyncio.wait_for(self._served.ready(), SYNC_WAIT_S)
        needed = {NAMESPACES: None}
        for look in wanted:
            resource = kinds.find(look.gvk)
            if resource is not None:
                needed[resource] = None
            if look.everything_in:
                self._is_collecting = True
            if look.everything_in or look.gvk.kind == "Endpoints":
                needed[SERVICES] = None  # tells a Service's endpoints from others
        if any(look.everything_in for look in wanted):
            needed.update(dict.fromkeys(_collected(kinds, self.vetoes)))
        stores = [self._follow(resource) for resource in needed]
        for store in stores:
            if not store.synced.is_set():
                await asyncio.wait_for(store.synced.wait(), SYNC_WAIT_S)
        return kinds

    def _follow(self, resource: Resource) -> Store:
        store = self._followed.get(resource)
        if store is None:
            store = self._followed[resource] = self._cache.store(resource)
            store.add_index(IN_NAMESPACE, _namespace_of)
            store.subscribe(lambda old, new: self._object_changed(resource, old, new))
        return store

    def _kinds_changed(self, gone: list[Resource], fresh: list[Resource]) -> None:
        for resource in gone:
            store = self._followed.pop(resource, None)
            if store is not None:
                for obj in store.all():
                    self._object_changed(resource, obj, None)
                task = asyncio.get_running_loop().create_task(self._cache.drop(resource))
                self._drops.add(task)
                task.add_done_callback(self._drops.discard)
        if self._is_collecting:
            known = set(_collected(self._served.kinds, self.vetoes))
            for resource in fresh:
                if resource in known:
                    self._follow(resource)
        for resource in (*gone, *fresh):
            self._wake(tuple(self._askers.get(_Interest(resource.group, resource.kind), ())))

    # who is concerned

    def _rows(self, wanted: Iterable[Look], source: _Source) -> list[tuple[_Interest, Look]]:
        rows = []
        for look in wanted:
            group, _, kind = look.gvk
            rows.append((_Interest(group, kind), look))
            rows.append((_Interest(group, kind, look.namespace or "", look.name or EVERYTHING), look))
            if kind == "Endpoints":
                rows.append((_Interest("", "Service", look.namespace or "", EVERYTHING), Look(look.gvk)))
            if look.everything_in:
                for namespace in source.objects(NAMESPACES, None, look.name):
                    if _fits(look, namespace):
                        name = namespace["metadata"]["name"]
                        rows.append((_Interest("", EVERYTHING, name), Look(look.gvk)))
        return rows

    def _register(self, asker: Asker, rows: list[tuple[_Interest, Look]]) -> None:
        for interest in self._interests.pop(asker, ()):
            askers = self._askers.get(interest)
            if askers and askers.pop(asker, None) is not None and not askers:
                del self._askers[interest]
        for interest, look in rows:
            self._askers.setdefault(interest, {}).setdefault(asker, []).append(look)
        if rows:
            self._interests[asker] = list(dict.fromkeys(interest for interest, _ in rows))

    def _object_changed(self, resource: Resource, old: Any | None, new: Any | None) -> None:
        """Wake the placements that look at an object, unless the change is of no consequence to anybody."""
        if not self._askers:
            return
        versions = [_plain(resource, obj) for obj in (old, new) if obj is not None]
        meta = versions[-1]["metadata"]
        if not any(map(self.vetoes.is_placeable, versions)):
            return
        namespace, name = meta.get("namespace") or "", meta["name"]
        concerned: dict[Asker, None] = {}
        for row in (
            _Interest(resource.group, resource.kind, namespace, name),
            _Interest(resource.group, resource.kind, namespace, EVERYTHING),
            _Interest("", EVERYTHING, namespace or EVERYTHING),
        ):
            for asker, seen in self._askers.get(row, {}).items():
                if any(_fits(look, version) for look in seen for version in versions):
                    concerned[asker] = None
        if concerned and not self._is_same(versions):
            self._wake(concerned)

    def _is_same(self, versions: list[Mapping[str, Any]]) -> bool:
        """Whether two versions of an object would travel as the same manifest: a new status is no news."""
        if len(versions) < 2 or not all(map(self.vetoes.is_placeable, versions)):
            return False
        return clean(versions[0]) == clean(versions[1])

    def _wake(self, askers: Iterable[Asker]) -> None:
        for asker in askers:
            self._answers.pop(asker, None)
            enqueue = self._enqueue.get(asker.scope)
            if enqueue is not None:
                enqueue(asker.key)


class _Source:
    """What the hub holds now, as the rule asks for it."""

    def __init__(self, kinds: Kinds, stores: Mapping[Resource, Store], vetoes: Vetoes) -> None:
        self._kinds = kinds
        self._stores = stores
        self._vetoes = vetoes

    def find(self, gvk: Gvk) -> Resource | None:
        """Return how a kind is served, if it is."""
        return NAMESPACES if gvk == NAMESPACE else self._kinds.find(gvk)

    def namespaced_kinds(self) -> Iterable[Resource]:
        """Return every namespaced kind that may be selected."""
        return _collected(self._kinds, self._vetoes)

    def objects(
        self, resource: Resource, namespace: str | None, name: str = ""
    ) -> Iterator[Mapping[str, Any]]:
        """Return objects of a kind."""
        store = self._stores[resource]
        found: Iterable[Any]
        if name:
            one = store.get(name, namespace)
            found = () if one is None else (one,)
        else:
            found = store.by(IN_NAMESPACE, namespace) if namespace else store.all()
        return (_plain(resource, obj) for obj in found)

    def has_service(self, namespace: str, name: str) -> bool:
        """Tell whether there is such a Service."""
        store = self._stores.get(SERVICES)
        return store is not None and store.get(name, namespace) is not None


def _places(wanted: Iterable[Look], source: _Source) -> Iterable[tuple[Resource, str | None, str]]:
    """Return where a placement looks: kind, namespace (None: all of them), name ("": any)."""
    places: dict[tuple[Resource, str | None, str], None] = {}
    for look in wanted:
        resource = source.find(look.gvk)
        if resource is not None:
            places[resource, look.namespace, look.name] = None
        if look.everything_in:
            for namespace in source.objects(NAMESPACES, None, look.name):
                if _fits(look, namespace):
                    inside = (namespace["metadata"]["name"], "")
                    places.update(((kind, *inside), None) for kind in source.namespaced_kinds())
    return places


def _collected(kinds: Kinds, vetoes: Vetoes) -> list[Resource]:
    """Return the kinds that selecting a whole namespace means."""
    preferred = [row for row in kinds.preferred() if row.namespaced]
    return [row for row in preferred if vetoes.is_enabled(Gvk(row.group, row.version, row.kind))]


def _fits(look: Look, obj: Mapping[str, Any]) -> bool:
    if look.labels is None:
        return True
    try:
        return matches(look.labels, obj["metadata"].get("labels") or {})
    except InvalidSelector:
        return False


def _plain(resource: Resource, obj: Any) -> Mapping[str, Any]:
    """Return an object as plain data that says its kind; items of a list do not always."""
    plain: Mapping[str, Any] = obj if isinstance(obj, Mapping) else msgspec.to_builtins(obj)
    if plain.get("kind"):
        return plain
    return {"apiVersion": resource.api_version, "kind": resource.kind, **plain}


def _namespace_of(obj: Any) -> tuple[str, ...]:
    namespace = obj["metadata"].get("namespace") if isinstance(obj, Mapping) else obj.metadata.namespace
    return (namespace,) if namespace else ()

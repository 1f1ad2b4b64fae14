"""Which objects of the hub a placement selects, cleaned and in order; or why its selectors make no sense.

Pure: reads through `Source`, which answers from copies that are already here. What a placement looks at (`Look`)
is said before anything is read, so the caller can see to it that those copies are complete; an absent copy would
look like "select nothing" and remove resources from members.

The texts of errors are what people read in the placement's status and are grepped for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from echelon.api.meta import LabelSelector
from echelon.api.names import SelectionScope
from echelon.api.placement import Placement, ResourceIdentifier, ResourceSelector
from echelon.api.resource import Resource
from echelon.rules.labels import InvalidSelector, check, matches
from echelon.rules.manifest import clean
from echelon.rules.propagate import NAMESPACE, Gvk, Vetoes, gvk_of, placing_order
from echelon.rules.snapshots import hash_of

CLIENT_ERROR = "failed to process the request due to a client error: "

Manifest = dict[str, Any]


class InvalidSelection(ValueError):
    """The author's error: these selectors can select nothing."""

    @property
    def text(self) -> str:
        """What the author reads, with the words that mark it as his own error."""
        return f"{CLIENT_ERROR}{self}"


class Selected:
    """What is selected: clean manifests in the order of application. Shared and never changed."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self.manifests = manifests

    @cached_property
    def digest(self) -> str:
        """The hash that tells contents apart."""
        return hash_of(self.manifests)

    @cached_property
    def identifiers(self) -> tuple[ResourceIdentifier, ...]:
        """The objects' names as statuses list them."""
        return tuple(map(identify, self.manifests))


class Source(Protocol):
    """What the hub holds now."""

    def find(self, gvk: Gvk) -> Resource | None:
        """Return how a kind is served, if it is."""
        ...

    def namespaced_kinds(self) -> Iterable[Resource]:
        """Return every namespaced kind that may be selected, in its preferred version."""
        ...

    def objects(
        self, resource: Resource, namespace: str | None, name: str = ""
    ) -> Iterable[Mapping[str, Any]]:
        """Return the objects of a kind: in a namespace, if one is given, and of a name, if one is given."""
        ...

    def has_service(self, namespace: str, name: str) -> bool:
        """Tell whether there is such a Service."""
        ...


class Look(NamedTuple):
    """One thing a placement looks at."""

    gvk: Gvk
    namespace: str | None = None  # None: cluster-scoped, or wherever
    name: str = ""  # "": any
    labels: LabelSelector | None = None
    everything_in: bool = False  # everything in the namespaces that this selects


def selects_namespaces(selector: ResourceSelector) -> bool:
    """Whether a selector selects namespaces."""
    return (selector.group, selector.version, selector.kind) == NAMESPACE


def gvk_of_selector(selector: ResourceSelector) -> Gvk:
    """Return the kind that a selector selects."""
    return Gvk(selector.group, selector.version, selector.kind)


def _narrowing(placement: Placement) -> ResourceSelector | None:
    """Return the selector whose namespace the others select in, if there is one."""
    wanted = SelectionScope.NAMESPACE_WITH_RESOURCE_SELECTORS
    for selector in placement.spec.resource_selectors:
        if selects_namespaces(selector) and selector.selection_scope == wanted:
            return selector
    return None


def looks(placement: Placement, vetoes: Vetoes) -> list[Look]:
    """Return what a placement looks at."""
    within = placement.namespace
    if within is None:
        narrowing = _narrowing(placement)
        within = narrowing.name if narrowing else None
    found = []
    for selector in placement.spec.resource_selectors:
        gvk = gvk_of_selector(selector)
        if not vetoes.is_enabled(gvk):
            continue
        whole = gvk == NAMESPACE and selector.selection_scope == SelectionScope.NAMESPACE_WITH_RESOURCES
        place = None if gvk == NAMESPACE else within
        found.append(Look(gvk, place, selector.name, selector.label_selector, everything_in=whole))
    return found


def select(placement: Placement, source: Source, vetoes: Vetoes) -> Selected:
    """R-SELECT-1: everything that any selector selects, each object once; raises InvalidSelection."""
    found: dict[tuple[str, str, str, str], Mapping[str, Any]] = {}
    for obj in _Pass(placement, source, vetoes).objects():
        if not vetoes.is_placeable(obj, source.has_service):
            continue
        gvk, meta = gvk_of(obj), obj["metadata"]
        identity = (gvk.group, gvk.kind, meta.get("namespace") or "", meta["name"])
        if identity in found:
            raise InvalidSelection(
                f"found duplicate resource {{Group:{gvk.group} Version:{gvk.version} Kind:{gvk.kind} "
                f"Name:{identity[3]} Namespace:{identity[2]} Envelope:<nil>}}"
            )
        found[identity] = obj
    ordered = sorted(found.items(), key=lambda item: placing_order(gvk_of(item[1]), item[0][2], item[0][3]))
    return Selected([clean(obj) for _, obj in ordered])


class _Pass:
    """One walk over the selectors of a placement."""

    def __init__(self, placement: Placement, source: Source, vetoes: Vetoes) -> None:
        self.placement = placement
        self.source = source
        self.vetoes = vetoes
        self.key = f"{placement.namespace or ''}/{placement.name}"
        self.within = placement.namespace  # the namespace that namespaced kinds are selected in

    def objects(self) -> Iterator[Mapping[str, Any]]:
        if self.within is None:
            narrowing = _narrowing(self.placement)
            self.within = self._one_namespace(narrowing) if narrowing else None
        for selector in self.placement.spec.resource_selectors:
            gvk = gvk_of_selector(selector)
            if not self.vetoes.is_enabled(gvk):
                continue
            if gvk == NAMESPACE:
                yield from self._namespaces(selector)
            else:
                yield from self._others(selector, gvk)

    def _one_namespace(self, selector: ResourceSelector) -> str:
        """R-SELECT-2: a namespace with selectors narrows the other selectors to itself; it must exist."""
        for obj in self._matching(selector, self._kind(NAMESPACE), None):
            name: str = obj["metadata"]["name"]
            if not obj["metadata"].get("deletionTimestamp") and not self.vetoes.is_reserved(name):
                return name
        raise InvalidSelection(
            f"invalid clusterResourcePlacement {self.placement.name}: NamespaceWithResourceSelectors mode requires "
            "exactly one namespace, but no namespaces were selected"
        )

    def _namespaces(self, selector: ResourceSelector) -> Iterator[Mapping[str, Any]]:
        """R-SELECT-3: a namespace brings all that is in it, unless only itself is asked for; a reserved one is refused."""
        if self.placement.namespace:
            raise InvalidSelection(
                f"invalid placement {self.key}: cannot select cluster-scoped resource Namespace in a resourcePlacement"
            )
        for obj in self._matching(selector, self._kind(NAMESPACE), None):
            name = obj["metadata"]["name"]
            if self.vetoes.is_reserved(name):
                raise InvalidSelection(
                    f"invalid clusterRresourcePlacement {self.placement.name}: "
                    f"namespace {name} is not allowed to propagate"
                )
            if obj["metadata"].get("deletionTimestamp"):
                continue
            yield obj
            if selector.selection_scope == SelectionScope.NAMESPACE_WITH_RESOURCES:
                for resource in self.source.namespaced_kinds():
                    yield from self.source.objects(resource, name)

    def _others(self, selector: ResourceSelector, gvk: Gvk) -> Iterator[Mapping[str, Any]]:
        """R-SELECT-4: other kinds are selected in the scope of the placement; an unknown kind is refused by name."""
        resource = self._kind(gvk)
        gvr = f"{gvk.group}/{gvk.version}, Resource={resource.plural}"
        if resource.namespaced and self.within is None:
            raise InvalidSelection(
                f"invalid placement {self.key}: cannot select namespace-scoped resource {gvr} "
                "in a clusterResourcePlacement"
            )
        if not resource.namespaced and self.placement.namespace:
            raise InvalidSelection(
                f"invalid placement {self.key}: cannot select cluster-scoped resource {gvr} in a resourcePlacement"
            )
        yield from self._matching(selector, resource, self.within if resource.namespaced else None)

    def _kind(self, gvk: Gvk) -> Resource:
        resource = self.source.find(gvk)
        if resource is None:
            raise InvalidSelection(
                f"invalid placement {self.key}, failed to get GVR of the selector: "
                f'no matches for kind "{gvk.kind}" in version "{gvk.api_version}"'
            )
        return resource

    def _matching(
        self, selector: ResourceSelector, resource: Resource, namespace: str | None
    ) -> Iterator[Mapping[str, Any]]:
        if selector.name:
            yield from self.source.objects(resource, namespace, selector.name)
            return
        wanted = selector.label_selector
        try:
            check(wanted)
        except InvalidSelector as error:
            raise InvalidSelection(
                f"invalid placement {self.key}: cannot convert the label selector to a selector: {error}"
            ) from error
        for obj in self.source.objects(resource, namespace):
            if wanted is None or matches(wanted, obj["metadata"].get("labels") or {}):
                yield obj


def identify(manifest: Mapping[str, Any]) -> ResourceIdentifier:
    """Name a selected object as statuses do."""
    gvk, meta = gvk_of(manifest), manifest["metadata"]
    return ResourceIdentifier(
        group=gvk.group,
        version=gvk.version,
        kind=gvk.kind,
        name=meta["name"],
        namespace=meta.get("namespace") or "",
    )

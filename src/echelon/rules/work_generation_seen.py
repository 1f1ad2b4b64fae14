"""Everything a decision about one binding's delivery may look at, gathered in one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from echelon.api.binding import Binding
from echelon.api.cluster import MemberCluster
from echelon.api.meta import NamespacedName
from echelon.api.override import OverrideSnapshot
from echelon.api.placement import Placement
from echelon.api.scope import Scope
from echelon.api.snapshot import ResourceSnapshot
from echelon.api.work import Work


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator of the hub decides."""

    allow_powerful_in_envelopes: bool = False  # roles, role bindings, webhooks inside a ResourceEnvelope


def _nobody(_name: str) -> Work | None:
    return None


class Orphans(msgspec.Struct, frozen=True, kw_only=True):
    """Works whose binding is gone without having taken them along."""

    works: Sequence[Work]
    placement: Placement | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One binding and everything its Works are made of."""

    scope: Scope
    binding: Binding
    cluster: MemberCluster | None = None
    placement: Placement | None = None
    works: Sequence[Work] = ()  # of this binding, those being deleted too
    find_work: Callable[[str], Work | None] = _nobody  # any Work in the member's namespace, by name
    master: ResourceSnapshot | None = None
    group: Sequence[ResourceSnapshot] = ()  # all parts of the master's version
    cluster_overrides: Mapping[str, OverrideSnapshot] = {}
    overrides: Mapping[NamespacedName, OverrideSnapshot] = {}
    options: Options = Options()

    @property
    def live_works(self) -> list[Work]:
        """The Works of this binding that are there to stay."""
        return [work for work in self.works if not work.metadata.is_deleting]

"""One logical cluster: its name, what it serves, who may what.

An idle member must cost next to nothing, so everything here is made on first
use and what all clusters share stays shared.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from echelon.hub.access import Access
from echelon.hub.custom import kinds_of, shape_of_versions
from echelon.hub.kinds import Catalog
from echelon.hub.mutations import Mutation, mutating
from echelon.hub.policies import Check, validating
from echelon.hub.policy_bindings import PoliciesInForce
from echelon.hub.store import Entry, Event
from echelon.hub.webhooks import ClusterWebhooks

if TYPE_CHECKING:
    from echelon.hub.app import Hub

_log = logging.getLogger(__name__)

CRDS = "apiextensions.k8s.io/customresourcedefinitions"


class Cluster:
    """One logical cluster of a hub."""

    __slots__ = (
        "_access",
        "_catalog",
        "_custom",
        "_fits",
        "_mutations",
        "_policies",
        "_webhooks",
        "hub",
        "name",
        "notes",
    )

    def __init__(self, hub: Hub, name: str) -> None:
        self.hub = hub
        self.name = name
        self._access: Access | None = None
        self._policies: PoliciesInForce[Check] | None = None
        self._mutations: PoliciesInForce[Mutation] | None = None
        self._webhooks: ClusterWebhooks | None = None
        self._catalog: Catalog | None = None
        self._custom: dict[str, Any] = {}
        self._fits: dict[str, tuple[bytes, int]] = {}
        """By definition: what its objects look like, and since which revision."""
        self.notes: dict[str, Any] = {}
        """What other modules remember about this cluster: compiled access rules, documents."""

    @property
    def catalog(self) -> Catalog:
        """Return what this cluster serves."""
        if self._catalog is None:
            crds = self.hub.store.table(self.name, CRDS)
            self._catalog = Catalog(shared=self.hub.builtins)
            for entry in crds.live.values():
                self._serve(entry)
        return self._catalog

    @property
    def access(self) -> Access:
        """Return who may do what here."""
        if self._access is None:
            self._access = Access(self.hub.store, self.name)
        return self._access

    @property
    def policies(self) -> PoliciesInForce[Check]:
        """Return the validating policies in force here."""
        if self._policies is None:
            self._policies = validating(self)
        return self._policies

    @property
    def mutations(self) -> PoliciesInForce[Mutation]:
        """Return the mutating policies in force here."""
        if self._mutations is None:
            self._mutations = mutating(self)
        return self._mutations

    @property
    def webhooks(self) -> ClusterWebhooks:
        """Return the admission webhooks configured here."""
        if self._webhooks is None:
            self._webhooks = ClusterWebhooks(self)
        return self._webhooks

    def admission_changed(self) -> None:
        """Read policies and webhooks again when they are next needed."""
        self._policies = None
        self._mutations = None
        self._webhooks = None

    def access_changed(self, event: Event) -> None:
        """Let a role or binding count."""
        if self._access is not None:
            self._access.observe(event)

    def crd_changed(self, event: Event) -> None:
        """Serve what a definition now says."""
        if self._catalog is None:
            return
        self._withdraw(event.entry.key)
        if event.kind != "DELETED":
            self._serve(event.entry)
        else:
            self._fits.pop(event.entry.key, None)

    def _withdraw(self, name: str) -> None:
        for kind in self._custom.pop(name, ()):
            assert self._catalog is not None
            self._catalog.remove(kind)

    def _serve(self, entry: Entry) -> None:
        assert self._catalog is not None
        name = entry.key
        try:
            crd = msgspec.json.decode(entry.body)
            looks = shape_of_versions(crd)
            if self._fits.get(name, (b"", 0))[0] != looks:
                self._fits[name] = (looks, entry.rev)
            kinds = kinds_of(crd, self._fits[name][1])
        except (AttributeError, KeyError, StopIteration, TypeError, ValueError):
            _log.exception("definition %s of cluster %s cannot be served", name, self.name)
            return
        self._custom[name] = kinds
        for kind in kinds:
            self._catalog.add(kind)

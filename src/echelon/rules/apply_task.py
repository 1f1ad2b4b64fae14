"""The words in which a manifest's way to the member is decided: what is asked, what comes back, what comes out.

Shapes, and the one question that everything depends on: who owns an object. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from echelon.api.placement import ApplyStrategy, PatchDetail
from echelon.rules.member_manifest import Identity, Manifest, metadata_of

APPLIED_WORK_API_VERSION = "placement.kubernetes-fleet.io/v1beta1"
OUR_GROUP = "placement.kubernetes-fleet.io/"
APPLIED_WORK = "AppliedWork"
SERVER_SAID = "error returned by the API server: "

Owner = Mapping[str, Any]


# what the generator asks for ------------------------------------------------------------------------------------


class DryRun(NamedTuple):
    """Ask what a forced server-side apply of this body would make of the live object."""

    body: Manifest


class Create(NamedTuple):
    """Create the object."""

    body: Manifest


class Write(NamedTuple):
    """Patch the live object: a merge or strategic patch, or a server-side apply."""

    type: Literal["merge", "strategic", "apply"]
    body: Manifest
    force: bool = False


class Refused(NamedTuple):
    """The API server refused."""

    code: int
    message: str


Ask = DryRun | Create | Write
Reply = Manifest | Refused
Asking = Generator[Ask, Reply, "Result"]

INVALID = 422


# what comes out -------------------------------------------------------------------------------------------------


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one manifest. `outcome` is the contract's result type, most of them condition reasons."""

    outcome: str
    error: str = ""
    live: Manifest | None = None
    drifts: tuple[PatchDetail, ...] = ()
    diffs: tuple[PatchDetail, ...] = ()

    @property
    def is_applied(self) -> bool:
        """Whether the manifest is now on the member."""
        return self.outcome in {"Applied", "AppliedWithFailedDriftDetection"}


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest to apply and everything its decisions look at."""

    identity: Identity
    manifest: Manifest
    live: Manifest | None
    strategy: ApplyStrategy
    owner: Owner
    is_work: Callable[[str], bool]  # whether a Work of this name exists in our member namespace
    strategic: Callable[[Manifest, Manifest, Manifest], Manifest] | None = None  # None: not a built-in kind


def owner_reference(name: str, uid: str) -> Owner:
    """Return the reference by which an AppliedWork owns what it applied."""
    return {
        "apiVersion": APPLIED_WORK_API_VERSION,
        "kind": APPLIED_WORK,
        "name": name,
        "uid": uid,
        "blockOwnerDeletion": True,
    }


def owners_of(live: Manifest) -> tuple[Owner, ...]:
    """Return an object's owner references."""
    return tuple(metadata_of(live).get("ownerReferences") or ())


def is_owned_by(live: Manifest, owner: Owner) -> bool:
    """Tell whether the object carries this owner reference (its flags aside)."""
    return any(is_same_owner(ref, owner) for ref in owners_of(live))


def is_same_owner(left: Owner, right: Owner) -> bool:
    """Tell whether two references point at the same owner."""
    return all(left.get(key) == right.get(key) for key in ("uid", "name", "kind", "apiVersion"))


def is_applied_work(ref: Owner) -> bool:
    """Tell whether a reference is to an AppliedWork."""
    return str(ref.get("apiVersion") or "").startswith(OUR_GROUP) and ref.get("kind") == APPLIED_WORK


class Failure(NamedTuple):
    """A step that did not succeed, in words."""

    text: str

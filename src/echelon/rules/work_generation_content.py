"""What the Works of a binding are to be: one for each part of the version, one for each envelope in it.

A Work's name is the contract's, unless that name belongs to somebody else's Work (a cluster-scoped placement
`team.a` and a placement `a` in namespace `team` would share one): then a name of its own is made from the binding's
identity. Work of another placement is never touched.

Content is worked out only when it is needed (`render`): a Work that already holds this version is not looked into.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from echelon.api.binding import Binding
from echelon.api.meta import NamespacedName
from echelon.api.names import (
    ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS,
    ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH,
    ANNOTATION_PARENT_OVERRIDE_HASH,
    ANNOTATION_PARENT_RESOURCE_SNAPSHOT_NAME,
    ANNOTATION_SUBINDEX,
    LABEL_ENVELOPE_NAME,
    LABEL_ENVELOPE_NAMESPACE,
    LABEL_ENVELOPE_WORK,
    LABEL_PARENT_CRP,
    LABEL_PARENT_PLACEMENT_NAMESPACE,
    LABEL_PARENT_RESOURCE_BINDING,
    LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX,
    LABEL_RESOURCE_INDEX,
    envelope_work_name,
    resource_snapshot_name,
    work_name,
)
from echelon.api.scope import Key
from echelon.api.snapshot import ResourceSnapshot
from echelon.api.work import Work
from echelon.rules.envelope import EnvelopeRefused, unwrap, write_ref
from echelon.rules.gojson import sha256_hex
from echelon.rules.override import Manifest, envelope_type, target_of
from echelon.rules.override_apply import OverrideFailure, Overrider
from echelon.rules.sealing import is_sealed, is_secret

OWN_NAME_LENGTH = 16  # hexadecimal digits that tell a Work's second name from all others


class NotDeliverable(Exception):
    """The content may not be delivered or cannot be written; the text says which object and why."""


class Wanted(NamedTuple):
    """One Work as it is to be."""

    name: str  # the contract's; `second_name` is used when another's Work has it
    envelope: str  # namespace/name of the envelope for messages; empty for a part of the snapshot
    labels: dict[str, str]
    annotations: dict[str, str]
    render: Callable[[], list[dict[str, Any]]]

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells an envelope's Work among a binding's; empty for a part of the snapshot."""
        return tuple(
            self.labels.get(label, "")
            for label in (LABEL_ENVELOPE_WORK, LABEL_ENVELOPE_NAME, LABEL_ENVELOPE_NAMESPACE)
        )


def placement_of(binding: Binding) -> Key:
    """Name the placement a binding belongs to."""
    return Key(binding.namespace, binding.metadata.labels.get(LABEL_PARENT_CRP, ""))


def placement_of_work(work: Work) -> Key:
    """Name the placement a Work was made for."""
    labels = work.metadata.labels
    return Key(labels.get(LABEL_PARENT_PLACEMENT_NAMESPACE) or None, labels.get(LABEL_PARENT_CRP, ""))


def binding_of_work(work: Work) -> Key:
    """Name the binding a Work was made for."""
    labels = work.metadata.labels
    return Key(
        labels.get(LABEL_PARENT_PLACEMENT_NAMESPACE) or None, labels.get(LABEL_PARENT_RESOURCE_BINDING, "")
    )


def second_name(name: str, binding: Binding) -> str:
    """Return the name of a Work whose first name is another's: nobody can guess it before the binding exists."""
    said = f"{binding.kind}/{binding.namespace or ''}/{binding.name}/{binding.metadata.uid}/{name}"
    return f"{name[:200]}-{hashlib.sha256(said.encode()).hexdigest()[:OWN_NAME_LENGTH]}"


# --- the version ------------------------------------------------------------------------------------------------------------
def order_group(
    master: ResourceSnapshot, snapshots: Iterable[ResourceSnapshot], placement: Key
) -> list[ResourceSnapshot]:
    """Return the parts of a version, the master first; raises OverrideFailure while some are missing."""
    expected = _count_of(master)
    if expected == 1:
        return [master]
    group = sorted((s for s in snapshots if s.name != master.name), key=_part_of)
    if len(group) + 1 != expected:
        raise OverrideFailure(
            "not all resource snapshot in the same index group are created: resource snapshots are still being "
            f"created for the masterResourceSnapshot {Key(master.namespace, master.name)}, total snapshot in the "
            f"index group = {expected}, num Of existing snapshot in the group= {len(group) + 1}, "
            f"placement = {placement}"
        )
    return [master, *group]


def _count_of(master: ResourceSnapshot) -> int:
    text = master.metadata.annotations.get(ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS, "")
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise OverrideFailure(
            f"resource snapshot {Key(master.namespace, master.name)} has an invalid value {text!r} in annotation "
            f"{ANNOTATION_NUMBER_OF_RESOURCE_SNAPSHOTS}: a number of at least 1 is expected"
        )
    return int(text)


def _part_of(snapshot: ResourceSnapshot) -> int:
    """Return the number of a part; -1 for the master."""
    text = snapshot.metadata.annotations.get(ANNOTATION_SUBINDEX)
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit()):
        raise OverrideFailure(
            f"resource snapshot {Key(snapshot.namespace, snapshot.name)} has an invalid value {text!r} in annotation "
            f"{ANNOTATION_SUBINDEX}: a number is expected"
        )
    return int(text)


def has_version(works: Sequence[Work], binding: Binding) -> bool:
    """Whether all the Works that are there (at least one) hold the binding's version, even if it is gone itself."""
    wanted = binding.spec.resource_snapshot_name
    return bool(works) and all(_version_of(work) == wanted for work in works)


def _version_of(work: Work) -> str:
    noted = work.metadata.annotations.get(ANNOTATION_PARENT_RESOURCE_SNAPSHOT_NAME)
    if noted:
        return noted
    labels = work.metadata.labels
    return resource_snapshot_name(
        labels.get(LABEL_PARENT_CRP, ""), labels.get(LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX, "")
    )


# --- the Works -----------------------------------------------------------------------------------------------------------------
def wanted_works(
    binding: Binding,
    group: Sequence[ResourceSnapshot],
    overrider: Callable[[], Overrider],
    *,
    allow_powerful: bool = False,
) -> list[Wanted]:
    """Return the Works of a binding, in a fixed order."""
    placement = placement_of(binding)
    wanted: list[Wanted] = []
    for snapshot in group:
        subindex = _part_of(snapshot)
        name = work_name(placement.name, placement.namespace, None if subindex < 0 else subindex)
        labels = _labels(binding, placement, snapshot)
        annotations = _annotations(binding)
        resources = snapshot.spec.selected_resources
        render = _renderer(binding, overrider, _plain(resources))
        wanted.append(Wanted(name, "", labels, annotations, render))
        for manifest in resources:
            if envelope_type(manifest) is not None:
                inside = _unwrapper(manifest, allow_powerful)
                render = _renderer(binding, overrider, inside, write_ref(manifest))
                wanted.append(_of_envelope(name, manifest, labels, annotations, render))
    return wanted


def _of_envelope(
    snapshot_work: str,
    envelope: Manifest,
    labels: dict[str, str],
    annotations: dict[str, str],
    render: Callable[[], list[dict[str, Any]]],
) -> Wanted:
    type_, target = str(envelope_type(envelope)), target_of(envelope)
    more = {LABEL_ENVELOPE_WORK: type_, LABEL_ENVELOPE_NAME: target.name}
    if target.namespace:
        more[LABEL_ENVELOPE_NAMESPACE] = target.namespace
    name = envelope_work_name(snapshot_work, type_, target.namespace, target.name)
    return Wanted(name, write_ref(envelope), {**labels, **more}, annotations, render)


def _labels(binding: Binding, placement: Key, snapshot: ResourceSnapshot) -> dict[str, str]:
    labels = {
        LABEL_PARENT_CRP: placement.name,
        LABEL_PARENT_RESOURCE_BINDING: binding.name,
        LABEL_PARENT_RESOURCE_SNAPSHOT_INDEX: snapshot.metadata.labels.get(LABEL_RESOURCE_INDEX, ""),
    }
    if placement.namespace:
        labels[LABEL_PARENT_PLACEMENT_NAMESPACE] = placement.namespace
    return labels


def _annotations(binding: Binding) -> dict[str, str]:
    spec = binding.spec
    return {
        ANNOTATION_PARENT_RESOURCE_SNAPSHOT_NAME: spec.resource_snapshot_name,
        ANNOTATION_PARENT_OVERRIDE_HASH: hash_namespaced(spec.resource_override_snapshots),
        ANNOTATION_PARENT_CLUSTER_OVERRIDE_HASH: sha256_hex(
            list(spec.cluster_resource_override_snapshots) or None
        ),
    }


def hash_namespaced(names: Sequence[NamespacedName]) -> str:
    """Return the digest of a list of namespaced override snapshots; an empty one is hashed as absent."""
    listed = [{"name": name.name, "namespace": name.namespace} for name in names]
    return sha256_hex(listed or None, sort_keys=False)


# --- the manifests ---------------------------------------------------------------------------------------------------------------
Manifests = Callable[[], list[dict[str, Any]]]


def _plain(resources: Sequence[dict[str, Any]]) -> Manifests:
    return lambda: [manifest for manifest in resources if envelope_type(manifest) is None]


def _unwrapper(envelope: Manifest, allow_powerful: bool) -> Manifests:
    return lambda: unwrap(envelope, allow_powerful=allow_powerful)


def _renderer(
    binding: Binding, overrider: Callable[[], Overrider], manifests: Manifests, envelope: str = ""
) -> Manifests:
    def render() -> list[dict[str, Any]]:
        try:
            found = manifests()
        except EnvelopeRefused as error:
            raise NotDeliverable(str(error)) from None
        overrides = overrider()
        rendered = (_render_one(binding, overrides, manifest, envelope) for manifest in found)
        return [manifest for manifest in rendered if manifest is not None]

    return render


def _render_one(
    binding: Binding, overrider: Overrider, manifest: dict[str, Any], envelope: str
) -> dict[str, Any] | None:
    """Return a manifest as the binding's cluster gets it; None to leave it out."""
    if is_secret(manifest) and is_sealed(manifest):
        raise NotDeliverable(
            f"{target_of(manifest)} of this version was sealed with a key that this hub does not have any more; "
            "make a new version by changing any selected resource, then roll that out"
        )
    try:
        rendered = overrider.apply(manifest)
    except OverrideFailure as error:
        if not envelope:
            raise
        raise OverrideFailure(
            f"failed to apply overrides to {target_of(manifest)} from envelope {envelope}: {error}"
        ) from None
    if rendered is not None and rendered is not manifest:
        _check_identity(manifest, rendered)
    _check_namespace(binding, manifest)
    return rendered


def _check_identity(before: Manifest, after: Manifest) -> None:
    """R-OVERRIDE-4: an override changes an object, it never makes it a different one."""
    meta = after.get("metadata")
    if not isinstance(meta, dict) or target_of(before) != target_of(after):
        raise OverrideFailure(
            f"overrides must not change apiVersion, kind, metadata.name or metadata.namespace of {target_of(before)}"
        )


def _check_namespace(binding: Binding, manifest: Manifest) -> None:
    """R-DELIVER-7: a namespaced placement delivers objects of its own namespace only, whoever made its snapshot."""
    if binding.namespace and target_of(manifest).namespace != binding.namespace:
        raise NotDeliverable(
            f"{target_of(manifest)} is not in namespace {binding.namespace}, the only one that this placement may place"
        )

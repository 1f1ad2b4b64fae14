"""One write as admission policies and webhooks see it."""

from __future__ import annotations

from typing import Any

import msgspec

from echelon.hub.access_rules import Attributes as Access
from echelon.hub.call import Call
from echelon.hub.kinds import Kind
from echelon.hub.policy_authorizer import Asker
from echelon.hub.policy_match import Attributes
from echelon.hub.seen import in_version

Json = dict[str, Any]


class AdmissionRequest:
    """One write as policies and webhooks see it."""

    def __init__(self, call: Call, new: Json | None, old: Json | None) -> None:
        self.call = call
        show = call.view.show if call.view is not None else None
        self.new = _unwritten(show(new) if show is not None and new is not None else new)
        self.old = show(old) if show is not None and old is not None else old
        kind = call.kind
        name = call.name
        if old is None and new is not None:  # a name that is still to be made up is not there
            name = new["metadata"].get("name", "")
        self.operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
        self.asked = Attributes(
            self.operation,
            kind.group,
            kind.version,
            kind.plural,
            call.subresource,
            kind.namespaced,
            call.namespace if kind.namespaced else "",
            name,
        )
        self.namespace = self._namespace()
        self.request = self._request()
        wanted = Access(call.verb, kind.group, kind.plural, call.subresource, call.namespace, call.name)
        self.authorizer = Asker(call.cluster.access, call.request.user, wanted)

    def show_as(self, kind: Kind, new: Json | None, old: Json | None) -> None:
        """Show the objects in another version than the one that is written."""
        self.new, self.old = new, old
        self.request = {
            **self.request,
            "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
            "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        }

    def values(self, param: Json | None) -> tuple[Any, ...]:
        """Return what expressions see, in the order of their names."""
        return (self.new, self.old, self.request, param, self.namespace, self.authorizer)

    def namespace_labels(self) -> dict[str, str] | None:
        """Return the labels a namespaceSelector looks at; None where it does not apply."""
        if self.namespace is not None:
            return self.namespace["metadata"].get("labels") or {}
        if self.call.kind.resource == "/namespaces":
            return ((self.new or self.old or {}).get("metadata") or {}).get("labels") or {}
        return None

    def _namespace(self) -> Json | None:
        if not self.call.kind.namespaced:
            return None
        table = self.call.hub.store.table(self.call.cluster.name, "/namespaces")
        entry = table.head(self.call.namespace)
        return msgspec.json.decode(entry.body) if entry is not None else None

    def _request(self) -> Json:
        call = self.call
        kind = {"group": call.kind.group, "version": call.kind.version, "kind": call.kind.kind}
        sub = call.kind.subresources.get(call.subresource)
        if sub is not None and sub.version:
            kind = {"group": sub.group, "version": sub.version, "kind": sub.kind}
        resource = {"group": call.kind.group, "version": call.kind.version, "resource": call.kind.plural}
        user = call.request.user
        options = {"kind": f"{self.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
        request: Json = {
            "uid": "",
            "kind": kind,
            "resource": resource,
            "subResource": call.subresource,
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": call.subresource,
            "name": self.asked.name,
            "namespace": self.asked.namespace,
            "operation": self.operation,
            "userInfo": _without_empty(
                {
                    "username": user.name,
                    "uid": user.uid,
                    "groups": list(user.groups),
                    "extra": {name: list(values) for name, values in user.extra.items()},
                }
            ),
            "dryRun": call.dry_run(),
            "options": _without_empty(
                {
                    **options,
                    "dryRun": call.request.query.get("dryRun") or "",
                    "fieldManager": call.option("fieldManager"),
                    "fieldValidation": call.option("fieldValidation"),
                }
            ),
        }
        return {"uid": "", **_without_empty(request)}


async def show_as(asked: AdmissionRequest, kind: Kind) -> None:
    """Show a write in another version of its resource, converted as any reader would see it."""
    call, new, old = asked.call, asked.new, asked.old
    asked.show_as(
        kind,
        await in_version(call, new, kind) if new is not None else None,
        await in_version(call, old, kind) if old is not None else None,
    )


def _unwritten(new: Json | None) -> Json | None:
    """Return an object without the place that is kept for its revision."""
    if new is None or (new.get("metadata") or {}).get("resourceVersion") != "":
        return new
    return {**new, "metadata": {key: one for key, one in new["metadata"].items() if key != "resourceVersion"}}


def _without_empty(fields: Json) -> Json:
    """Leave out what Go leaves out when it is empty."""
    return {name: value for name, value in fields.items() if value not in ("", [], {})}

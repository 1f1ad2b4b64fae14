"""Normalises answers, so that those of two servers, or of one server twice, can be compared.

What must differ is replaced by a name: identifiers by ``<uid1>``, ``<uid2>`` in the order in which a
sequence meets them, an object's resource versions by ``<rv1>``, ``<rv2>``, so that "the same
again" and "changed" stay visible. Times, allocated addresses and continue tokens lose their value.
Everything else stays exactly as the server said it.

The revision of a list or a bookmark is the whole server's, which others move too: it is only ``<rv>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ADDRESS = re.compile(r"\b10\.(96|97|98|99|1\d\d)\.\d{1,3}\.\d{1,3}\b")
GO_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4} \w+( m=\+[\d.]+)?")
AGE = re.compile(r"^\d+(ms|s|m\d*s?)$")
VERSION = re.compile(
    r"(?i)(resource ?version[^0-9\n]{0,25}|current: |decodable revision=)(\d+)(?: \((\d+)\))?"
)
ETCD_KEY = re.compile(r"\bKey: /\w+/")
SUFFIX_LENGTH = 5


@dataclass
class Normaliser:
    """Keeps the names that one sequence's values were given."""

    variables: dict[str, str]
    _uids: dict[str, str] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)
    _generated: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """Normalises what stands inside a string."""
        for name, value in self.variables.items():
            if value:
                text = text.replace(value, f"${name}")
        for name, generated in self._generated.items():
            text = text.replace(name, generated)
        text = UID.sub(self._uid, text)
        text = ETCD_KEY.sub("Key: /<prefix>/", VERSION.sub(self._version, text))
        text = TIME.sub(lambda found: "<microtime>" if found[1] else "<time>", text)
        text = GO_TIME.sub("<time>", text)
        return ADDRESS.sub("<address>", text)

    def _uid(self, found: re.Match[str]) -> str:
        """Returns the name of an identifier."""
        return self._uids.setdefault(found[0], f"<uid{len(self._uids) + 1}>")

    def _version(self, found: re.Match[str]) -> str:
        """Returns a mention of a resource version with its name; 0 and small made-up ones stay."""
        name = found[2] if len(found[2]) < 2 else self._versions.get(found[2], "<rv>")
        return found[1] + name + (" (<rv>)" if found[3] else "")

    def body(self, value: Any) -> Any:
        """Normalises a decoded body."""
        self._learn(value)
        return self._walk(value, "")

    def _learn(self, value: Any) -> None:
        """Meets generated names and resource versions before any text that mentions them."""
        for meta in _metadata(value):
            prefix, name = meta.get("generateName"), meta.get("name")
            if prefix and name and name.startswith(prefix) and name not in self._generated:
                count = len(self._generated) + 1
                self._generated[name] = f"{prefix}<suffix{count}>"
            version = meta.get("resourceVersion")
            if version and version != "0" and "uid" in meta:
                self._versions.setdefault(version, f"<rv{len(self._versions) + 1}>")

    def _walk(self, value: Any, key: str) -> Any:
        """Normalises one value below a key."""
        if isinstance(value, dict):
            if isinstance(value.get("managedFields"), list):  # within one second their order says nothing
                value = {**value, "managedFields": sorted(value["managedFields"], key=_manager)}
            if value.get("reason") == "Invalid":
                value = _sorted_causes(value)
            if value.get("kind") == "APIResourceList":  # custom resources come in any order
                value = {**value, "resources": sorted(value["resources"], key=lambda one: one["name"])}
            normal = {self.text(k): self._walk(sub, k) for k, sub in value.items()}
            if key == "columnDefinitions":
                normal.pop("description", None)  # prose, which the embedded hub leaves out
            if key == "metadata" and normal.get("resourceVersion", "0") not in ("", "0"):
                normal["resourceVersion"] = normal["resourceVersion"] if "uid" in value else "<rv>"
            return normal
        if isinstance(value, list):
            if key == "cells":
                return [self._cell(cell) for cell in value]
            return [self._walk(sub, key) for sub in value]
        if key == "resourceVersion" and isinstance(value, str) and value:
            return self._versions.get(value, "<rv>" if value.isdigit() and value != "0" else value)
        if key == "continue" and value:
            return "<continue>"
        if key in ("nodePort", "healthCheckNodePort") and value:
            return "<port>"
        return self.text(value) if isinstance(value, str) else value

    def _cell(self, cell: Any) -> Any:
        """Normalises a table's cell, which may be an age."""
        if isinstance(cell, str):
            return "<age>" if AGE.match(cell) else self.text(cell)
        return cell


def _manager(entry: dict[str, Any]) -> tuple[str, ...]:
    """Returns what tells one manager's entry from another's."""
    return tuple(str(entry.get(key, "")) for key in ("manager", "operation", "subresource", "apiVersion"))


def _sorted_causes(status: dict[str, Any]) -> dict[str, Any]:
    """Puts the causes of a refusal, which a server finds in any order, into the order of their fields."""
    details = status.get("details") or {}
    causes = details.get("causes") or []
    ordered = sorted(causes, key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
    told, telling = (
        ", ".join(f"{one.get('field')}: {one.get('message')}" for one in each) for each in (causes, ordered)
    )
    message = status.get("message", "").replace(told, telling)
    return {**status, "message": message, "details": {**details, "causes": ordered}} if causes else status


def _metadata(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the metadata of all objects in a body."""
    if isinstance(value, dict):
        meta = value.get("metadata")
        if isinstance(meta, dict):
            yield meta
        for key, sub in value.items():
            if key != "metadata":
                yield from _metadata(sub)
    elif isinstance(value, list):
        for sub in value:
            yield from _metadata(sub)

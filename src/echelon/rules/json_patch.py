"""JSON patch (RFC 6902): apply a list of operations, copying only along the touched paths.

What it decides: the document after the operations, or why they do not apply, in
the words of the Go library both Kubernetes and KubeFleet use. What it must
never do: change its arguments.

Two dialects: the API server's, where `replace` of an absent object member adds
it, and `strict`, which overrides use, where that is an error and the texts for
absent members begin in lower case.

Stable signature: `apply_operations(doc, ops, *, strict=False, max_copied=...) -> JSON`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from echelon.rules.merge import same

JSON = Any
Object = dict[str, Any]

MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Copy operations may add this much: copies of copies grow exponentially."""

TEST_FAILED = "test failed"
"""How the text ends when a test operation does not hold."""

_ABSENT: Any = object()
_INDEX = re.compile(r"[+-]?[0-9]{1,18}\Z")


class PatchRejected(Exception):
    """The patch does not apply; the text says why."""


class _NoPath(Exception):
    """A parent of the addressed place is missing or is no container."""


def apply_operations(
    doc: JSON, ops: list[Object], *, strict: bool = False, max_copied: int = MAX_COPIED_BYTES
) -> JSON:
    """Apply all operations in order, or raise `PatchRejected`."""
    work = _Patching(doc, strict=strict, max_copied=max_copied)
    for op in ops:
        named = _text(op, "op")
        run = _OPERATIONS.get(named or "")
        if run is None:
            raise PatchRejected(f"Unexpected kind: {'unknown' if named is None else named}")
        run(work, op)
    return work.doc


def split_pointer(path: str) -> list[str]:
    """Split a JSON pointer into its unescaped tokens."""
    return [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]


def join_pointer(tokens: list[str]) -> str:
    """Write tokens as a JSON pointer."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in tokens)


def _text(op: Object, member: str) -> str | None:
    value = op.get(member)
    return value if type(value) is str else None


def _path(op: Object, verb: str) -> str:
    path = _text(op, "path")
    if path is None:
        raise PatchRejected(f"{verb} operation failed to decode path: missing value")
    return path


def _source(op: Object, verb: str) -> str:
    source = _text(op, "from")
    if source is None:
        raise PatchRejected(
            f"{verb} operation failed to decode from: operation, missing from field: missing value"
        )
    return source


class _Patching:
    """One run: the document so far, and which of its containers are already our own copies."""

    def __init__(self, doc: JSON, *, strict: bool, max_copied: int) -> None:
        self.doc = doc
        self.strict = strict
        self.max_copied = max_copied
        self.copied = 0
        self._own: dict[int, JSON] = {}  # id -> container; holding it keeps the id from being reused

    def find(self, path: str) -> tuple[JSON, str]:
        """Return the container the last token of `path` addresses into, and that token."""
        if "/" not in path:
            raise _NoPath
        tokens = split_pointer(path)
        node = self.doc
        for token in tokens[:-1]:
            try:
                node = member(node, token)
            except PatchRejected:
                raise _NoPath from None
            if type(node) not in (dict, list):
                raise _NoPath
        return node, tokens[-1]

    def find_own(self, path: str) -> tuple[JSON, str]:
        """Like `find`, but the container may be changed: it and its parents are our copies."""
        self.find(path)  # all or nothing: no copies for a path that does not exist
        tokens = split_pointer(path)
        self.doc = node = self._owned(self.doc)
        for token in tokens[:-1]:
            key = token if type(node) is dict else _index(token, len(node))
            child = self._owned(node[key])
            node[key] = child
            node = child
        return node, tokens[-1]

    def _owned(self, container: JSON) -> JSON:
        if id(container) in self._own:
            return container
        copy: JSON = dict(container) if type(container) is dict else list(container)
        self._own[id(copy)] = copy
        return copy

    def share(self, value: JSON) -> None:
        """Forget that the containers in `value` are ours alone: it is now in two places."""
        if type(value) in (dict, list):
            self._own.pop(id(value), None)
            for child in value.values() if type(value) is dict else value:
                self.share(child)

    def count_copy(self, value: JSON) -> None:
        """Add the size of a copied value to the total, which is bounded."""
        self.copied += len(msgspec.json.encode(value))
        if self.copied > self.max_copied:
            raise PatchRejected(
                f"Unable to complete the copy, the accumulated size increase of copy is {self.copied}, exceeding the limit {self.max_copied}",
            )


def _index(token: str, size: int, *, end: int = 0) -> int:
    """Read a list index; `end` is 1 where the place behind the last item counts too."""
    if not _INDEX.match(token):
        raise PatchRejected(f'strconv.Atoi: parsing "{token}": invalid syntax')
    index = int(token)
    if index >= size + end or index < -(size + end):
        raise PatchRejected(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + size + end if index < 0 else index


def member(container: JSON, token: str) -> JSON:
    """Return the addressed member; an absent one of an object is `_ABSENT`."""
    if type(container) is dict:
        return container.get(token, _ABSENT)
    return container[_index(token, len(container))]


def _insert(container: JSON, token: str, value: JSON) -> None:
    if type(container) is dict:
        container[token] = value
    elif token == "-":
        container.append(value)
    else:
        if not _INDEX.match(token):
            raise PatchRejected(
                f"value was not a proper array index: '{token}': strconv.Atoi: parsing \"{token}\": invalid syntax"
            )
        container.insert(_index(token, len(container), end=1), value)


def _delete(work: _Patching, container: JSON, token: str) -> None:
    if type(container) is list:
        del container[_index(token, len(container))]
    elif token in container:
        del container[token]
    else:
        raise PatchRejected(
            f"{'unable' if work.strict else 'Unable'} to remove nonexistent key: {token}: missing value"
        )


def _add(work: _Patching, op: Object) -> None:
    path = _path(op, "add")
    value = op.get("value")
    if path == "" and work.strict and type(value) in (dict, list):
        work.doc = value
        return
    try:
        container, token = work.find_own(path)
    except _NoPath:
        raise PatchRejected(
            f'add operation does not apply: doc is missing path: "{path}": missing value'
        ) from None
    try:
        _insert(container, token, value)
    except PatchRejected as error:
        raise PatchRejected(f"error in add for path: '{path}': {error}") from None


def _remove(work: _Patching, op: Object) -> None:
    path = _path(op, "remove")
    try:
        container, token = work.find_own(path)
    except _NoPath:
        raise PatchRejected(
            f'remove operation does not apply: doc is missing path: "{path}": missing value'
        ) from None
    try:
        _delete(work, container, token)
    except PatchRejected as error:
        raise PatchRejected(f"error in remove for path: '{path}': {error}") from None


def _replace(work: _Patching, op: Object) -> None:
    path = _path(op, "replace")
    value = op.get("value")
    if path == "":
        if type(value) not in (dict, list):
            raise PatchRejected("replace operation value must be object or array: %!w(<nil>)")
        work.doc = value
        return
    try:
        container, token = work.find_own(path)
    except _NoPath:
        raise PatchRejected(
            f"replace operation does not apply: doc is missing path: {path}: missing value"
        ) from None
    try:
        present = member(container, token) is not _ABSENT
    except PatchRejected:
        present = False
    if not present and (work.strict or type(container) is list):
        raise PatchRejected(f"replace operation does not apply: doc is missing key: {path}: missing value")
    if type(container) is list:
        container[_index(token, len(container))] = value
    else:
        container[token] = value


def _move(work: _Patching, op: Object) -> None:
    source = _source(op, "move")
    try:
        container, token = work.find_own(source)
    except _NoPath:
        raise PatchRejected(
            f"move operation does not apply: doc is missing from path: {source}: missing value"
        ) from None
    try:
        value = member(container, token)
        _delete(work, container, token)
    except PatchRejected as error:
        raise PatchRejected(f"error in move for path: '{token}': {error}") from None
    path = _path(op, "move")
    try:
        container, token = work.find_own(path)
    except _NoPath:
        raise PatchRejected(
            f"move operation does not apply: doc is missing destination path: {path}: missing value"
        ) from None
    try:
        _insert(container, token, value)
    except PatchRejected as error:
        raise PatchRejected(f"error in move for path: '{path}': {error}") from None


def _copy(work: _Patching, op: Object) -> None:
    source = _source(op, "copy")
    try:
        container, token = work.find(source)
    except _NoPath:
        raise PatchRejected(
            f"copy operation does not apply: doc is missing from path: {source}: missing value"
        ) from None
    try:
        value = member(container, token)
    except PatchRejected as error:
        raise PatchRejected(f"error in copy for from: '{source}': {error}") from None
    if value is _ABSENT:
        if work.strict:
            raise PatchRejected(
                f"error in copy for from: '{source}': unable to get nonexistent key: {token}: missing value"
            )
        value = None
    path = _path(op, "copy")
    work.count_copy(value)
    work.share(value)
    try:
        container, token = work.find_own(path)
    except _NoPath:
        raise PatchRejected(
            f"copy operation does not apply: doc is missing destination path: {path}: missing value"
        ) from None
    try:
        _insert(container, token, value)
    except PatchRejected as error:
        raise PatchRejected(f"error while adding value during copy: {error}") from None


def _test(work: _Patching, op: Object) -> None:
    path = _path(op, "test")
    wanted = op.get("value")
    if path == "":
        found = work.doc
    else:
        try:
            container, token = work.find(path)
        except _NoPath:
            raise PatchRejected(
                f"test operation does not apply: is missing path: {path}: missing value"
            ) from None
        try:
            found = member(container, token)
        except PatchRejected as error:
            raise PatchRejected(f"error in test for path: '{path}': {error}") from None
        found = None if found is _ABSENT else found
    if not same(found, wanted):
        raise PatchRejected(f"testing value {path} failed: {TEST_FAILED}")


_OPERATIONS: dict[str, Callable[[_Patching, Object], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}

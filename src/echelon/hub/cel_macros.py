"""Macros of CEL: `has`, the loops over lists and maps, `optMap`, `cel.bind`; and logic that absorbs errors.

What it decides: how a loop goes on after an error (`all` and `exists` may still
have an answer), and how much work each round costs.

What it must never do: loop without paying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from echelon.hub.cel_closures import OVER_LIMIT, Eval, Frame, Term
from echelon.hub.cel_parse import Node
from echelon.hub.cel_select import present
from echelon.hub.cel_types import BOOL, DYN, ERROR, INT, Type, fits, list_of, map_of, optional_of
from echelon.hub.cel_values import NO_OVERLOAD, NONE, CelError, Maybe
from echelon.hub.schema_equal import equal_by, has_unordered, merge_lists

if TYPE_CHECKING:
    from echelon.hub.cel_compile import Compiler

_SOFT = (CelError, TypeError, AttributeError, KeyError)


def either_way(gets: list[Eval], *, decides: bool) -> Eval:
    """Return && (decides False) or || (True): an operand that decides wins over one that fails."""
    if len(gets) == 2:
        first, second = gets

        def both(frame: Frame) -> Any:
            try:
                left = first(frame)
            except _SOFT:
                if second(frame) is decides:
                    return decides
                raise
            if left is decides:
                return decides
            right = second(frame)
            if right.__class__ is bool is left.__class__:
                return bool(right)
            if right is decides:
                return decides
            raise CelError(NO_OVERLOAD)

        return both

    def chain(frame: Frame) -> Any:
        failed: Exception | None = None
        for get in gets:
            try:
                value = get(frame)
            except _SOFT as error:
                failed = failed or error
                continue
            if value is decides:
                return decides
            if value.__class__ is not bool:
                failed = failed or CelError(NO_OVERLOAD)
        if failed is not None:
            raise failed
        return not decides

    return chain


def has(compiler: Compiler, node: Node) -> Term:
    """Compile `has(a.b)`."""
    if len(node.items) != 1 or node.items[0].kind != "select":
        at = node.items[0].at if len(node.items) == 1 else node.at
        return compiler.fail(at, "invalid argument to has() macro")
    chosen = node.items[0]
    operand = compiler.term(chosen.items[0])
    if operand.type.kind == "error":
        return operand
    found = present(operand.type, operand.get, chosen.value[0])
    return compiler.fail(node.at, found) if isinstance(found, str) else Term(*found)


def _optional(*, flat: bool) -> Callable[[Compiler, Node], Term]:
    def compiled(compiler: Compiler, node: Node) -> Term:
        target, name, body = node.items
        name_of = "optFlatMap" if flat else "optMap"
        if name.kind != "name":
            return compiler.fail(name.at, f"{name_of}() variable name must be a simple identifier")
        held = compiler.term(target)
        inner_type = held.type.args[0] if held.type.kind == "optional" else DYN
        slot = compiler.slot()
        inner = compiler.within(name.value, slot, inner_type, body)
        get, then = held.get, inner.get

        def opt_map(frame: Frame) -> Any:
            value = get(frame)
            if value is NONE:
                return NONE
            frame[slot] = value.value
            return then(frame) if flat else Maybe(then(frame))

        return Term(inner.type if flat else optional_of(inner.type), opt_map)

    return compiled


class _Loop:
    """The parts of a comprehension: what it runs over and where its variables live."""

    def __init__(self, compiler: Compiler, node: Node, names: int) -> None:
        self.ok = True
        target = compiler.term(node.items[0])
        self.target = target.get
        self.names: list[str] = []
        for item in node.items[1 : 1 + names]:
            if item.kind != "name":
                compiler.fail(item.at, "argument must be a simple name")
                self.ok = False
            else:
                self.names.append(item.value)
        kind = target.type
        self.first, self.second = _range_types(kind)
        if kind.kind not in ("list", "map", "dyn", "error"):
            compiler.fail(
                node.items[0].at,
                f"expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
        if kind.kind == "error" or kind.kind not in ("list", "map", "dyn"):
            self.ok = False
        self.slots = [compiler.slot() for _ in range(names)]
        self.compiler = compiler

    def body(self, node: Node) -> Term:
        """Compile an expression that sees the loop's variables."""
        compiler = self.compiler
        if len(self.names) == 1:
            return compiler.within(self.names[0], self.slots[0], self.first, node)
        saved = dict(compiler.scope)
        first, second = (self.first, self.second) if self.second is not None else (INT, self.first)
        compiler.scope[self.names[0]] = (self.slots[0], first)
        made = compiler.within(self.names[1], self.slots[1], second, node)
        compiler.scope = saved
        return made


def _range_types(kind: Type) -> tuple[Type, Type | None]:
    if kind.kind == "list":
        return kind.args[0], None
    if kind.kind == "map":
        return kind.args[0], kind.args[1]
    return DYN, DYN if kind.kind == "dyn" else None


def _weight(node: Node) -> int:
    return 1 + sum(_weight(item) for item in node.items)


def _rounds(loop: _Loop, weight: int) -> Callable[[Frame], Iterable[Any]]:
    """Return what gives the items of a range and pays for going over them."""
    target = loop.target

    def items(frame: Frame) -> Iterable[Any]:
        found = target(frame)
        if found.__class__ is not list and found.__class__ is not dict:
            raise CelError(NO_OVERLOAD)
        frame[0] -= weight * len(found)
        if frame[0] < 0:
            raise CelError(OVER_LIMIT)
        return found

    return items


def _setter(loop: _Loop) -> Callable[[Frame, Any], None]:
    """Return what puts an item into the loop's variables; the pair forms get (index or key, value)."""
    if len(loop.slots) == 1:
        slot = loop.slots[0]

        def set_one(frame: Frame, item: Any) -> None:
            frame[slot] = item

        return set_one
    first, second = loop.slots

    def set_two(frame: Frame, item: Any) -> None:
        frame[first], frame[second] = item

    return set_two


def _items(found: Iterable[Any], *, pairs: bool) -> Iterable[Any]:
    if not pairs:
        return found
    return found.items() if isinstance(found, dict) else enumerate(found)


def _quantifier(names: int, *, decides: bool) -> Callable[[Compiler, Node], Term]:
    """Compile `all` (an item that is false decides) and `exists`."""

    def compiled(compiler: Compiler, node: Node) -> Term:
        loop = _Loop(compiler, node, names)
        test = loop.body(node.items[-1]) if loop.ok else None
        if test is None or test.type.kind == "error":
            return Term(ERROR, _nothing)
        if not fits(test.type, BOOL, {}):
            return compiler.fail(node.items[-1].at, f"expected type 'bool' but found '{test.type}'")
        rounds, ask = _rounds(loop, _weight(node.items[-1])), test.get
        if names == 1:
            return Term(BOOL, _quantify_one(rounds, ask, loop.slots[0], decides=decides))
        put = _setter(loop)
        return Term(BOOL, _quantify(rounds, ask, put, decides=decides, pairs=True))

    return compiled


def _nothing(_frame: Frame) -> Any:
    raise CelError(NO_OVERLOAD)


def _quantify_one(rounds: Any, ask: Eval, slot: int, *, decides: bool) -> Eval:
    def quantify(frame: Frame) -> Any:
        failed: Exception | None = None
        for item in rounds(frame):
            frame[slot] = item
            try:
                value = ask(frame)
            except _SOFT as error:
                failed = failed or error
                continue
            if value is decides:
                return decides
            if value.__class__ is not bool:
                failed = failed or CelError(NO_OVERLOAD)
        if failed is not None:
            raise failed
        return not decides

    return quantify


def _quantify(rounds: Any, ask: Eval, put: Any, *, decides: bool, pairs: bool) -> Eval:
    def quantify(frame: Frame) -> Any:
        failed: Exception | None = None
        for item in _items(rounds(frame), pairs=pairs):
            put(frame, item)
            try:
                value = ask(frame)
            except _SOFT as error:
                failed = failed or error
                continue
            if value is decides:
                return decides
            if value.__class__ is not bool:
                failed = failed or CelError(NO_OVERLOAD)
        if failed is not None:
            raise failed
        return not decides

    return quantify


def _exactly_one(names: int) -> Callable[[Compiler, Node], Term]:
    def compiled(compiler: Compiler, node: Node) -> Term:
        loop = _Loop(compiler, node, names)
        test = loop.body(node.items[-1]) if loop.ok else None
        if test is None or test.type.kind == "error":
            return Term(ERROR, _nothing)
        if not fits(test.type, BOOL, {}):
            return compiler.fail(
                node.items[-1].at,
                f"found no matching overload for '_?_:_' applied to '({test.type}, int, int)'",
            )
        rounds, ask, put = _rounds(loop, _weight(node.items[-1])), test.get, _setter(loop)
        pairs = names == 2

        def exactly_one(frame: Frame) -> bool:
            count = 0
            for item in _items(rounds(frame), pairs=pairs):
                put(frame, item)
                count += _truth(ask(frame))
            return count == 1

        return Term(BOOL, exactly_one)

    return compiled


def _truth(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    raise CelError(NO_OVERLOAD)


def _collect(names: int, *, only: bool, to_map: bool = False, entries: bool = False) -> Callable[..., Term]:
    """Compile `map`, `filter` and the `transform` macros; `only` when there is a test but no new value."""

    def compiled(compiler: Compiler, node: Node) -> Term:
        loop = _Loop(compiler, node, names)
        rest = node.items[1 + names :]
        if not loop.ok:
            return Term(ERROR, _nothing)
        test = loop.body(rest[0]) if only or len(rest) == 2 else None
        made = None if only else loop.body(rest[-1])
        if "error" in {term.type.kind for term in (test, made) if term is not None}:
            return Term(ERROR, _nothing)
        if test is not None and not fits(test.type, BOOL, {}):
            kinds = f"({test.type}, list({loop.first}), list({loop.first}))"
            return compiler.fail(rest[0].at, f"found no matching overload for '_?_:_' applied to '{kinds}'")
        rounds, put = _rounds(loop, sum(map(_weight, rest))), _setter(loop)
        ask, value = (test.get if test else None), (made.get if made else None)
        pairs = names == 2
        item_type = made.type if made is not None else loop.first
        if to_map:
            key_type = (loop.first if loop.second is not None else INT) if not entries else DYN
            value_type = item_type if not entries else (item_type.args[1] if item_type.kind == "map" else DYN)
            if entries and item_type.kind == "map":
                key_type = item_type.args[0]
            return Term(map_of(key_type, value_type), _to_map(rounds, put, ask, value, entries=entries))
        if names == 1 and ask is not None and value is None:
            return Term(list_of(item_type), _filter(rounds, loop.slots[0], ask))
        return Term(list_of(item_type), _to_list(rounds, put, ask, value, pairs=pairs))

    return compiled


def _filter(rounds: Any, slot: int, ask: Eval) -> Eval:
    """Return `filter` over one variable, the loop that rules use most."""

    def chosen(frame: Frame) -> list[Any]:
        made = []
        for item in rounds(frame):
            frame[slot] = item
            answer = ask(frame)
            if answer is True:
                made.append(item)
            elif answer is not False:
                raise CelError(NO_OVERLOAD)
        return made

    return chosen


def _to_list(rounds: Any, put: Any, ask: Eval | None, value: Eval | None, *, pairs: bool) -> Eval:
    def collect(frame: Frame) -> list[Any]:
        made = []
        for item in _items(rounds(frame), pairs=pairs):
            put(frame, item)
            if ask is None or _truth(ask(frame)):
                made.append(value(frame) if value is not None else item)
        return made

    return collect


def _to_map(rounds: Any, put: Any, ask: Eval | None, value: Any, *, entries: bool) -> Eval:
    def collect(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for item in _items(rounds(frame), pairs=True):
            put(frame, item)
            if ask is not None and not _truth(ask(frame)):
                continue
            found = value(frame) if entries else {item[0]: value(frame)}
            for key in found:
                if key in made:
                    raise CelError(f"insert failed: key {key} already exists")
            made.update(found)
        return made

    return collect


def _sort_by(compiler: Compiler, node: Node) -> Term:
    loop = _Loop(compiler, node, 1)
    key = loop.body(node.items[-1]) if loop.ok else None
    if key is None or key.type.kind == "error":
        return Term(ERROR, _nothing)
    rounds, put, ask = _rounds(loop, _weight(node.items[-1])), _setter(loop), key.get

    def sort(frame: Frame) -> list[Any]:
        keyed = []
        for item in rounds(frame):
            put(frame, item)
            keyed.append((ask(frame), item))
        return [item for _, item in sorted(keyed, key=lambda pair: pair[0])]

    return Term(list_of(loop.first), sort)


MACROS: dict[tuple[str, int], Callable[[Any, Node], Any]] = {
    ("all", 2): _quantifier(1, decides=False),
    ("exists", 2): _quantifier(1, decides=True),
    ("all", 3): _quantifier(2, decides=False),
    ("exists", 3): _quantifier(2, decides=True),
    ("exists_one", 2): _exactly_one(1),
    ("existsOne", 3): _exactly_one(2),
    ("map", 2): _collect(1, only=False),
    ("map", 3): _collect(1, only=False),
    ("filter", 2): _collect(1, only=True),
    ("transformList", 3): _collect(2, only=False),
    ("transformList", 4): _collect(2, only=False),
    ("transformMap", 3): _collect(2, only=False, to_map=True),
    ("transformMap", 4): _collect(2, only=False, to_map=True),
    ("transformMapEntry", 3): _collect(2, only=False, to_map=True, entries=True),
    ("transformMapEntry", 4): _collect(2, only=False, to_map=True, entries=True),
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _optional(flat=False),
    ("optFlatMap", 2): _optional(flat=True),
}


def by_schema(name: str, kinds: list[Type]) -> tuple[Type, Callable[..., Any]] | None:
    """Return ==, != or + for values whose schema says that the order of lists means nothing."""
    left, right = kinds
    schema = left.schema if left.schema is not None else right.schema
    if schema is None or left.kind != right.kind or not has_unordered(schema):
        return None
    if name == "_+_":
        if left.kind != "list":
            return None
        return left, lambda a, b: merge_lists(schema, a, b)
    if not fits(right, left, {}) and not fits(left, right, {}):
        return None
    if name == "_==_":
        return BOOL, lambda a, b: equal_by(schema, a, b)
    return BOOL, lambda a, b: not equal_by(schema, a, b)


__all__ = ["MACROS", "by_schema", "either_way", "has"]

"""What a CEL rule can cost at most, estimated before it ever runs: the model of cel-go with Kubernetes' own libraries.

What it decides: the cost of every operation from the sizes its operands can have. A loop costs what one round costs,
times the most rounds there can be.

What it must never do: be cleverer than kube-apiserver: definitions are refused here that are refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from echelon.hub.cel_cost_calls import CALLS, LIST, LOST, MAP, TRAVERSAL, Part, capped, scaled, sorted_cost
from echelon.hub.cel_parse import Node
from echelon.hub.cel_sizes import ONE, Extent, Size
from echelon.hub.cel_types import DYN, INT, Type

_COMPARED = frozenset(("_==_", "_!=_"))
_ORDERED = frozenset(("_<_", "_<=_", "_>_", "_>=_"))
_MAYBE_TEXT = frozenset(("string", "bytes", "dyn"))


def estimate(tree: Node, types: Mapping[int, Type], extent: Extent | None) -> int:
    """Return what an expression costs at most; `types` are those of its nodes by identity, `extent` is self's."""
    nothing = extent or Extent(0, 0)
    scope = {"self": Part(1, DYN, None, extent), "oldSelf": Part(1, DYN, None, extent)}
    return _Coster(types, scope, nothing).part(tree).cost


class _Coster:
    """The state of one estimate: the types of nodes and the names in scope."""

    def __init__(self, types: Mapping[int, Type], scope: dict[str, Part], nowhere: Extent) -> None:
        self.types = types
        self.nowhere = nowhere
        """What kube-apiserver takes the items of a value for that no schema describes: self, of all things."""
        self.scope = scope

    def part(self, node: Node) -> Part:
        """Estimate one node."""
        made: Part = getattr(self, "_" + node.kind)(node)
        return made

    def type_of(self, node: Node) -> Type:
        """Return the type that the compiler found."""
        return self.types.get(id(node), DYN)

    def with_names(self, names: Mapping[str, Part], node: Node) -> Part:
        """Estimate a node with more names in scope."""
        saved = self.scope
        self.scope = {**saved, **names}
        made = self.part(node)
        self.scope = saved
        return made

    def _literal(self, node: Node) -> Part:
        value = node.value
        kind = value.__class__
        size = Size(len(value), len(value)) if kind in (str, bytes) else ONE
        return Part(0, self.type_of(node), size, None, value)

    def _name(self, node: Node) -> Part:
        known = self.scope.get(node.value) or Part(1, DYN, None, self.nowhere)
        return Part(1, self.type_of(node), known.known, known.extent)

    def _select(self, node: Node) -> Part:
        name, optional = node.value
        operand = self.part(node.items[0])
        if optional:
            return Part(capped(operand.cost + 1), self.type_of(node))
        through = operand.type.kind in ("map", "object")
        found = self.nowhere if operand.extent is None else operand.extent.fields.get(name, LOST)
        return Part(capped(operand.cost + through), self.type_of(node), None, found)

    def _list(self, node: Node) -> Part:
        cost = LIST + sum(self.part(item).cost for item in node.items)
        return Part(capped(cost), self.type_of(node), Size(len(node.items), len(node.items)))

    def _map(self, node: Node) -> Part:
        cost = MAP + sum(self.part(item).cost for item in node.items)
        return Part(capped(cost), self.type_of(node), Size(len(node.items) // 2, len(node.items) // 2))

    def _call(self, node: Node) -> Part:
        if node.value == "has":
            return Part(self.part(node.items[0].items[0]).cost, self.type_of(node))
        return self._applied(node, node.value, [self.part(item) for item in node.items])

    def _method(self, node: Node) -> Part:
        loop = LOOPS.get((node.value, len(node.items) - 1))
        if loop is not None:
            return loop(self, node)
        if id(node.items[0]) not in self.types:  # the first word of a function's qualified name
            base = node.items[0]
            return self._applied(node, f"{base.value}.{node.value}", [self.part(i) for i in node.items[1:]])
        return self._applied(node, node.value, [self.part(item) for item in node.items])

    def _applied(self, node: Node, name: str, args: list[Part]) -> Part:
        spent = sum(arg.cost for arg in args)
        kind = self.type_of(node)
        if name in ("_&&_", "_||_"):
            return Part(capped(spent), kind)
        if name == "_?_:_":
            cost = args[0].cost + max(args[1].cost, args[2].cost)
            return Part(capped(cost), kind, args[1].size.either(args[2].size))
        if name in _COMPARED or (name in _ORDERED and args[0].type.kind in _MAYBE_TEXT):
            least = min(args[0].size.most, args[1].size.most)
            return Part(capped(spent + scaled(least, TRAVERSAL)), kind)
        if name == "_[_]":
            inner = self.nowhere if args[0].extent is None else args[0].extent.inner or LOST
            return Part(capped(spent + 1), kind, None, inner)
        found = CALLS.get(name)
        if found is not None:
            own, size = found(args)
            return Part(capped(spent + own), kind, size)
        return Part(capped(spent + 1), kind)


Loop = Callable[[_Coster, Node], Part]


def _items(coster: _Coster, node: Node, names: int) -> tuple[Part, dict[str, Part]]:
    """Return what a loop goes over and what its variables are."""
    target = coster.part(node.items[0])
    extent, is_map = target.extent, target.type.kind == "map"
    inner = coster.nowhere if extent is None else extent.inner or LOST
    key = coster.nowhere if extent is None else extent.key or LOST
    words = [item.value for item in node.items[1 : 1 + names]]
    if names == 1:
        return target, {words[0]: Part(1, DYN, None, key if is_map else inner)}
    first = Part(1, DYN, None, key) if is_map else Part(1, INT)
    return target, {words[0]: first, words[1]: Part(1, DYN, None, inner)}


def _loop(
    names: int, start: int, finish: int, per_round: Callable[[list[int]], int], *, gives: str = ""
) -> Loop:
    """Return a loop that costs `per_round` of its bodies' costs; `gives` a list, a map or one value."""

    def cost(coster: _Coster, node: Node) -> Part:
        target, words = _items(coster, node, names)
        bodies = [coster.with_names(words, item).cost for item in node.items[1 + names :]]
        rounds = target.size.most
        total = target.cost + start + finish + capped(rounds * capped(per_round(bodies)))
        size = Size(0, rounds) if gives else None
        return Part(capped(total), coster.type_of(node), size)

    return cost


def _collected(bodies: list[int]) -> int:
    """Add a one-item list in every round, behind a condition where there is one."""
    made = bodies[-1] + LIST + 2
    return made if len(bodies) == 1 else bodies[0] + max(made, 1)


def _entered(bodies: list[int]) -> int:
    made = bodies[-1] + 3
    return made if len(bodies) == 1 else bodies[0] + max(made, 1)


def _optional(*, flat: bool) -> Loop:
    def cost(coster: _Coster, node: Node) -> Part:
        target = coster.part(node.items[0])
        body = coster.with_names({node.items[1].value: Part(1, DYN)}, node.items[2])
        given = LIST + 1 + target.cost + body.cost + (0 if flat else 1)
        return Part(capped(1 + target.cost + max(given, 1)), coster.type_of(node))

    return cost


def _sort_by(coster: _Coster, node: Node) -> Part:
    """Sort by keys that a loop collects first, in a name of their own."""
    keys = LOOPS["map", 2](coster, node)
    target = coster.part(node.items[0])
    of = coster.type_of(node.items[2])
    cost = keys.cost + LIST + 2 + sorted_cost([Part(0, Type("list", (of,)), target.size)])[0]
    return Part(capped(cost), coster.type_of(node))


_ALL = _loop(1, 0, 1, lambda bodies: bodies[0] + 3)
_EXISTS = _loop(1, 0, 1, lambda bodies: bodies[0] + 4)

LOOPS: dict[tuple[str, int], Loop] = {
    ("all", 2): _ALL,
    ("exists", 2): _EXISTS,
    ("all", 3): _loop(2, 0, 1, lambda bodies: bodies[0] + 3),
    ("exists", 3): _loop(2, 0, 1, lambda bodies: bodies[0] + 4),
    ("exists_one", 2): _loop(1, 0, 2, lambda bodies: bodies[0] + 2),
    ("existsOne", 3): _loop(2, 0, 2, lambda bodies: bodies[0] + 2),
    ("map", 2): _loop(1, LIST, 1, _collected, gives="list"),
    ("map", 3): _loop(1, LIST, 1, _collected, gives="list"),
    ("filter", 2): _loop(1, LIST, 1, lambda bodies: bodies[0] + LIST + 3, gives="list"),
    ("transformList", 3): _loop(2, LIST, 1, _collected, gives="list"),
    ("transformList", 4): _loop(2, LIST, 1, _collected, gives="list"),
    ("transformMap", 3): _loop(2, MAP, 1, _entered, gives="map"),
    ("transformMap", 4): _loop(2, MAP, 1, _entered, gives="map"),
    ("sortBy", 2): _sort_by,
    ("transformMapEntry", 3): _loop(2, MAP, 1, lambda bodies: bodies[0] + 2, gives="map"),
    ("transformMapEntry", 4): _loop(2, MAP, 1, lambda bodies: bodies[0] + bodies[1] + 2, gives="map"),
    ("optMap", 2): _optional(flat=False),
    ("optFlatMap", 2): _optional(flat=True),
}

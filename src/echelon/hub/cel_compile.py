"""Compiles CEL: a syntax tree becomes a type and a closure over native values.

What it decides: whether an expression type-checks (worded as kube-apiserver words
it), what each name and call means, and how much work an evaluation may do.

What it must never do: convert objects. Closures read decoded JSON; only a field
whose schema says double, bytes, time or duration is converted where it is read.

How a closure runs: all names live in one list, the frame, each at its own index.
Index 0 is the work still allowed; loops and texts pay from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from echelon.hub import cel_macros, regex
from echelon.hub.cel_closures import (
    COSTLY,
    MAX_WORK,
    OVER_LIMIT,
    Frame,
    Term,
    call_with,
    compare_with,
    list_with_optionals,
    made_map,
    never,
)
from echelon.hub.cel_forms import FORMS, no_match
from echelon.hub.cel_libraries import FUNCTIONS, METHODS
from echelon.hub.cel_operators import TYPE_NAMES
from echelon.hub.cel_overloads import choose
from echelon.hub.cel_parse import CelSyntaxError, Node, dotted, parse
from echelon.hub.cel_select import Variable, select
from echelon.hub.cel_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    EMPTY_LIST,
    ERROR,
    FREE,
    INT,
    NULL,
    STRING,
    TYPE,
    UINT,
    Type,
    alike,
    fits,
    join,
    list_of,
    map_of,
    optional_of,
)
from echelon.hub.cel_values import NO_OVERLOAD, NONE, CelError, TypeValue, UInt, equal

FAILURES = (CelError, TypeError, AttributeError, KeyError, ValueError, ArithmeticError, RecursionError)
"""What a closure may raise; all but the first mean a value is not of the type it was checked for."""


class CelCompileError(Exception):
    """An expression that cannot be accepted; the text shows where, as cel-go does."""


class Program:
    """A compiled expression over named variables."""

    __slots__ = ("_get", "names", "size", "type", "work")

    def __init__(self, names: tuple[str, ...], term: Term, size: int) -> None:
        self.names = names
        self.type = term.type
        self.size = size
        self._get = term.get

    def run(self, *values: Any, work: int = MAX_WORK) -> Any:
        """Return the value, or raise CelError; values are given in the order of the names."""
        return self.spend(values, work)[0]

    def spend(self, values: tuple[Any, ...], work: int = MAX_WORK) -> tuple[Any, int]:
        """Return the value and the work it took."""
        frame = [work, *values]
        frame.extend([None] * (self.size - len(frame)))
        try:
            value = self._get(frame)
        except CelError:
            raise
        except FAILURES:
            raise CelError(NO_OVERLOAD) from None
        return value, work - frame[0]


class Checked(NamedTuple):
    """An expression that compiles: its tree, the types of its nodes by identity, and what runs."""

    tree: Node
    types: dict[int, Type]
    program: Program


def compile_cel(source: str, variables: Mapping[str, Type]) -> Program:
    """Parse and check an expression; raise CelCompileError with everything that is wrong."""
    return check_cel(source, variables).program


def check_cel(source: str, variables: Mapping[str, Type]) -> Checked:
    """Do the same, and return all that was found out."""
    try:
        tree = parse(source)
    except CelSyntaxError as error:
        raise CelCompileError(_shown(source, error.offset, error.text)) from None
    compiler = Compiler(variables)
    try:
        term = compiler.term(tree)
    except RecursionError:
        raise CelCompileError(_shown(source, 0, "expression recursion limit exceeded")) from None
    if compiler.problems:
        found = sorted(set(compiler.problems))
        raise CelCompileError("\n".join(_shown(source, at, text) for at, text in found))
    return Checked(tree, compiler.types, Program(tuple(variables), term, compiler.size))


def _shown(source: str, offset: int, text: str) -> str:
    before = source[:offset]
    line = before.count("\n") + 1
    start = before.rfind("\n") + 1
    column = offset - start
    end = source.find("\n", start)
    shown = source[start : end if end >= 0 else len(source)]
    return f"ERROR: <input>:{line}:{column + 1}: {text}\n | {shown}\n | {'.' * column}^"


class Compiler:
    """The state of one compilation: names in scope, frame size, problems found."""

    def __init__(self, variables: Mapping[str, Type]) -> None:
        self.scope: dict[str, tuple[int, Type]] = {
            name: (index + 1, declared) for index, (name, declared) in enumerate(variables.items())
        }
        self.size = len(variables) + 1
        self.problems: list[tuple[int, str]] = []
        self.types: dict[int, Type] = {}
        """What every node was found to be, by its identity: the estimate of its cost asks."""

    def fail(self, at: int, text: str) -> Term:
        """Note a problem and go on with a part of type error."""
        self.problems.append((at, text))
        return Term(ERROR, never)

    def term(self, node: Node) -> Term:
        """Compile one node."""
        made: Term = getattr(self, "_" + node.kind)(node)
        self.types[id(node)] = made.type
        return made

    def slot(self) -> int:
        """Reserve a place in the frame."""
        self.size += 1
        return self.size - 1

    def within(self, name: str, slot: int, declared: Type, node: Node) -> Term:
        """Compile a node with one more name in scope."""
        hidden = self.scope.get(name)
        self.scope[name] = (slot, declared)
        made = self.term(node)
        if hidden is None:
            del self.scope[name]
        else:
            self.scope[name] = hidden
        return made

    def _literal(self, node: Node) -> Term:
        value = node.value
        return Term(_LITERAL_TYPES[value.__class__], lambda _frame: value, value)

    def _name(self, node: Node) -> Term:
        known = self.scope.get(node.value)
        if known is not None:
            slot, declared = known
            return Term(declared, Variable(slot))
        if node.value in TYPE_NAMES:
            value = TypeValue(TYPE_NAMES[node.value])
            return Term(TYPE, lambda _frame: value, value)
        return self.fail(node.at, f"undeclared reference to '{node.value}' (in container '')")

    def _select(self, node: Node) -> Term:
        path = dotted(node)
        known = self.scope.get(path) if path is not None else None
        if known is not None:
            slot, declared = known
            return Term(declared, Variable(slot))
        if path is not None and path.split(".", 1)[0] not in self.scope and path in TYPE_NAMES:
            value = TypeValue(TYPE_NAMES[path])
            return Term(TYPE, lambda _frame: value, value)
        name, optional = node.value
        operand = self.term(node.items[0])
        if operand.type.kind == "error":
            return operand
        found = select(operand.type, operand.get, name, optional=optional)
        if isinstance(found, str):
            return self.fail(node.at, found)
        return Term(*found)

    def _list(self, node: Node) -> Term:
        terms = [self.term(item) for item in node.items]
        kinds = [
            _unwrapped(term.type) if index in node.value else term.type for index, term in enumerate(terms)
        ]
        item = self._common(kinds, node.items)
        gets = [term.get for term in terms]
        if node.value:
            return Term(list_of(item), list_with_optionals(gets, node.value))
        if all(term.is_constant for term in terms):
            value = [term.constant for term in terms]
            return Term(list_of(item) if terms else EMPTY_LIST, lambda _frame: value, value)
        return Term(list_of(item), lambda frame: [get(frame) for get in gets])

    def _map(self, node: Node) -> Term:
        terms = [self.term(item) for item in node.items]
        key = self._common([term.type for term in terms[::2]], node.items[::2])
        values = [
            _unwrapped(term.type) if index in node.value else term.type
            for index, term in enumerate(terms[1::2])
        ]
        item = self._common(values, node.items[1::2])
        pairs = [(terms[at].get, terms[at + 1].get, at // 2 in node.value) for at in range(0, len(terms), 2)]
        return Term(map_of(key, item), lambda frame: made_map(frame, pairs))

    def _common(self, kinds: list[Type], nodes: tuple[Node, ...]) -> Type:
        if not kinds:
            return FREE
        common = kinds[0]
        for kind, node in zip(kinds[1:], nodes[1:], strict=True):
            if not alike(kind, common):
                self.fail(node.at, f"expected type '{common}' but found '{kind}'")
            common = join(common, kind)
        return common

    def _struct(self, node: Node) -> Term:
        return self.fail(node.at, f"undeclared reference to '{node.value[0]}' (in container '')")

    def _call(self, node: Node) -> Term:
        special = FORMS.get(node.value)
        if special is not None:
            return special(self, node)
        if node.value not in FUNCTIONS:
            return self.fail(node.at, f"undeclared reference to '{node.value}' (in container '')")
        return self.resolved(node, node.value, FUNCTIONS[node.value], node.items)

    def _method(self, node: Node) -> Term:
        path = dotted(node.items[0])
        if path is not None and path.split(".", 1)[0] not in self.scope:
            name = f"{path}.{node.value}"
            if name in FUNCTIONS:
                return self.resolved(node, name, FUNCTIONS[name], node.items[1:])
        macro = cel_macros.MACROS.get((node.value, len(node.items) - 1))
        if macro is not None:
            made: Term = macro(self, node)
            return made
        if node.value in {"or", "orValue"} and len(node.items) == 2:
            return self._otherwise(node)
        if node.value == "format" and len(node.items) == 2 and node.items[1].kind == "list":
            return self._format(node)
        if node.value not in METHODS:
            for item in node.items:
                self.term(item)
            return self.fail(node.at, f"undeclared reference to '{node.value}' (in container '')")
        return self.resolved(node, node.value, METHODS[node.value], node.items)

    def resolved(self, node: Node, name: str, overloads: Any, arguments: tuple[Node, ...]) -> Term:
        """Compile the arguments of a call and choose what computes it."""
        return self.applied(node, name, overloads, arguments, [self.term(item) for item in arguments])

    def applied(
        self, node: Node, name: str, overloads: Any, arguments: tuple[Node, ...], terms: list[Term]
    ) -> Term:
        """Choose what computes a call whose arguments are compiled."""
        kinds = [term.type for term in terms]
        if any(kind.kind == "error" for kind in kinds):
            return Term(ERROR, never)
        if name in _SCHEMA_AWARE:
            aware = cel_macros.by_schema(name, kinds)
            if aware is not None:
                gets = [term.get for term in terms]
                if name != "_+_":
                    return Term(aware[0], compare_with(aware[1], *gets))
                return Term(aware[0], call_with(aware[1], gets, cost=True))
        choice = choose(overloads, kinds)
        if choice is None:
            return self.fail(node.at, no_match(node, name, kinds))
        fn = choice.fn
        if name in _SCHEMA_AWARE and name != "_+_":
            return Term(choice.result, compare_with(fn, terms[0].get, terms[1].get))
        if name == "matches" and terms[1].is_constant:
            return self._matches(arguments[1], terms)
        if terms and all(term.is_constant for term in terms) and name in _CHECKED_EARLY:
            try:
                value = fn(*(term.constant for term in terms))
            except CelError:
                return self.fail(arguments[-1].at, f"invalid {name} argument")
            return Term(choice.result, lambda _frame: value, value)
        return Term(choice.result, call_with(fn, [term.get for term in terms], cost=name in COSTLY))

    def _format(self, node: Node) -> Term:
        """Compile `format`, the one function whose list may mix types."""
        target = self.term(node.items[0])
        terms = [self.term(item) for item in node.items[1].items]
        gets = [term.get for term in terms]
        if any(term.type.kind == "error" for term in (target, *terms)):
            return Term(ERROR, never)
        values = Term(list_of(DYN), lambda frame: [get(frame) for get in gets])
        return self.applied(node, node.value, METHODS[node.value], node.items, [target, values])

    def _matches(self, node: Node, terms: list[Term]) -> Term:
        pattern = terms[1].constant
        if regex.problem(pattern) is not None:
            return self.fail(node.at, "invalid matches argument")
        matches, text = regex.search(pattern), terms[0].get
        return Term(BOOL, call_with(matches, [text], cost=True))

    def _otherwise(self, node: Node) -> Term:
        """Compile `or` and `orValue`, which look at their argument only when it is needed."""
        left, right = self.term(node.items[0]), self.term(node.items[1])
        if left.type.kind in ("error", "dyn"):
            left = Term(optional_of(DYN), left.get) if left.type.kind == "dyn" else left
        if ERROR in (left.type, right.type):
            return Term(ERROR, never)
        inner = _unwrapped(left.type)
        wanted = optional_of(inner) if node.value == "or" else inner
        if left.type.kind != "optional" or not fits(right.type, wanted, {}):
            return self.fail(node.at, no_match(node, node.value, [left.type, right.type]))
        get, other, unwrap = left.get, right.get, node.value == "orValue"

        def otherwise(frame: Frame) -> Any:
            value = get(frame)
            if value is NONE:
                return other(frame)
            return value.value if unwrap else value

        kind = join(inner, _unwrapped(right.type))
        return Term(kind if unwrap else optional_of(kind), otherwise)


def _unwrapped(kind: Type) -> Type:
    return kind.args[0] if kind.kind == "optional" else DYN if kind.kind == "dyn" else kind


_CHECKED_EARLY = frozenset(("duration", "timestamp"))
_SCHEMA_AWARE = frozenset(("_==_", "_!=_", "_+_"))


_LITERAL_TYPES: dict[type, Type] = {
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    bool: BOOL,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


__all__ = ["MAX_WORK", "OVER_LIMIT", "CelCompileError", "Compiler", "Program", "Term", "compile_cel", "equal"]

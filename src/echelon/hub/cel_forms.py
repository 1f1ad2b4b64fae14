"""Operators with a way of their own: logic, the conditional, equality; they replace the table of functions.

What it must never do: evaluate an operand that the answer does not need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from echelon.hub import cel_macros
from echelon.hub.cel_closures import Frame, Term, compare_with, never
from echelon.hub.cel_libraries import FUNCTIONS
from echelon.hub.cel_parse import Node
from echelon.hub.cel_types import BOOL, ERROR, Type, fits, join
from echelon.hub.cel_values import NO_OVERLOAD, CelError, equal

if TYPE_CHECKING:
    from echelon.hub.cel_compile import Compiler


def no_match(node: Node, name: str, kinds: list[Type]) -> str:
    """Word that no signature takes these types."""
    shown = list(map(str, kinds))
    if node.kind == "method" and len(kinds) == len(node.items):
        return f"found no matching overload for '{name}' applied to '{shown[0]}.({', '.join(shown[1:])})'"
    return f"found no matching overload for '{name}' applied to '({', '.join(shown)})'"


def _booleans(compiler: Compiler, node: Node) -> list[Term] | None:
    terms = [compiler.term(item) for item in node.items]
    if any(term.type.kind == "error" for term in terms):
        return None
    wrong = [
        (term.type, item)
        for term, item in zip(terms, node.items, strict=True)
        if not fits(term.type, BOOL, {})
    ]
    for kind, item in wrong:
        compiler.fail(item.at, f"expected type 'bool' but found '{kind}'")
    if wrong:
        return None
    return terms


def _short_circuit(decides: bool) -> Callable[[Compiler, Node], Term]:
    def compiled(compiler: Compiler, node: Node) -> Term:
        terms = _booleans(compiler, node)
        if terms is None:
            return Term(ERROR, never)
        return Term(BOOL, cel_macros.either_way([term.get for term in terms], decides=decides))

    return compiled


def _conditional(compiler: Compiler, node: Node) -> Term:
    test, yes, no = (compiler.term(item) for item in node.items)
    if ERROR in (test.type, yes.type, no.type):
        return Term(ERROR, never)
    alike = fits(no.type, yes.type, {}) or fits(yes.type, no.type, {})
    if not fits(test.type, BOOL, {}) or not alike:
        kinds = [test.type, yes.type, no.type]
        return compiler.fail(node.at, no_match(node, "_?_:_", kinds))
    asked, first, second = test.get, yes.get, no.get

    def choose_one(frame: Frame) -> Any:
        answer = asked(frame)
        if answer is True:
            return first(frame)
        if answer is False:
            return second(frame)
        raise CelError(NO_OVERLOAD)

    return Term(join(yes.type, no.type), choose_one)


_SMALL = frozenset(("int", "uint", "double", "bool", "null_type", "timestamp", "duration", "type"))
"""Types whose values are compared for nothing."""


def _unequal(left: Any, right: Any) -> bool:
    return not equal(left, right)


def _equals(compiler: Compiler, node: Node) -> Term:
    """Compile == and != with a short way for what is compared most: texts and literals."""
    terms = [compiler.term(item) for item in node.items]
    generic = compiler.applied(node, node.value, FUNCTIONS[node.value], node.items, terms)
    text = terms[1].constant
    if generic.type.kind == "error":
        return generic
    if text.__class__ is not str:
        if any(term.is_constant or term.type.kind in _SMALL for term in terms):
            return generic
        fn = equal if node.value == "_==_" else _unequal
        aware = cel_macros.by_schema(node.value, [term.type for term in terms])
        return generic if aware is not None else Term(BOOL, compare_with(fn, terms[0].get, terms[1].get))
    get = terms[0].get
    if node.value == "_==_":
        return Term(BOOL, lambda frame: get(frame) == text)
    return Term(BOOL, lambda frame: get(frame) != text)


FORMS: dict[str, Callable[[Compiler, Node], Term]] = {
    "_&&_": _short_circuit(decides=False),
    "_||_": _short_circuit(decides=True),
    "_?_:_": _conditional,
    "_==_": _equals,
    "_!=_": _equals,
    "has": cel_macros.has,
}

"""The expressions of an admission policy: compiled once, with the policy's variables written into them.

`variables.x` stands for the expression of x, so it is evaluated only where it is
used and fails only there, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from echelon.hub.cel_compile import CelCompileError, Program
from echelon.hub.cel_parse import CelSyntaxError, Node, parse
from echelon.hub.cel_types import DYN
from echelon.hub.policy_authorizer import NAME as AUTHORIZER
from echelon.hub.policy_authorizer import PolicyCompiler

PARAMS = "params"
NAMES = ("object", "oldObject", "request", PARAMS, "namespaceObject", AUTHORIZER)
MAX_NODES = 20_000
"""Size of an expression with its variables written out: each may use the ones before it twice."""


class Scope(NamedTuple):
    """What an expression may name; without variables, that word means nothing."""

    variables: Mapping[str, Node] | None = None
    has_params: bool = False


def compile_expression(source: str, scope: Scope, compiler: type[PolicyCompiler] = PolicyCompiler) -> Program:
    """Compile an expression of a policy; raise CelCompileError with what is wrong."""
    tree = _parsed(source, scope.variables)
    work = compiler(dict.fromkeys(NAMES, DYN))
    if not scope.has_params:
        del work.scope[PARAMS]
    term = work.term(tree)
    if work.problems:
        raise CelCompileError("\n".join(_shown(source, at, text) for at, text in sorted(set(work.problems))))
    return Program(NAMES, term, work.size)


def compile_variable(source: str, scope: Scope) -> Node:
    """Parse the expression of a variable and check that it compiles."""
    compile_expression(source, scope)
    return _parsed(source, scope.variables)


def _parsed(source: str, variables: Mapping[str, Node] | None) -> Node:
    try:
        tree = parse(source)
    except CelSyntaxError as error:
        raise CelCompileError(_shown(source, error.offset, error.text)) from None
    return tree if variables is None else _written_out(tree, variables, source, [MAX_NODES])


def _written_out(node: Node, variables: Mapping[str, Node], source: str, budget: list[int]) -> Node:
    budget[0] -= 1
    if budget[0] < 0:
        raise CelCompileError("the expression with its variables written out is too large")
    if node.kind == "select" and node.items[0].kind == "name" and node.items[0].value == "variables":
        name = node.value[0]
        if name not in variables:
            raise CelCompileError(
                _shown(source, node.items[0].at + len("variables"), f"undefined field '{name}'")
            )
        budget[0] -= _size(variables[name])
        return variables[name]
    if not node.items:
        return node
    return node._replace(items=tuple(_written_out(item, variables, source, budget) for item in node.items))


def _size(node: Node) -> int:
    return 1 + sum(map(_size, node.items))


def _shown(source: str, offset: int, text: str) -> str:
    offset = min(offset, len(source))
    before = source[:offset]
    column = offset - (before.rfind("\n") + 1)
    end = source.find("\n", offset)
    line = source[before.rfind("\n") + 1 : end if end >= 0 else len(source)]
    return f"ERROR: <input>:{before.count(chr(10)) + 1}:{column + 1}: {text}\n | {line}\n | {'.' * column}^"

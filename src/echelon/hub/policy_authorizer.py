"""`authorizer` in the expressions of policies: asks whether the writer, or a service account, may do something.

A call chain such as `authorizer.group('apps').resource('deployments').check('create').allowed()`
is compiled as one piece; its steps exist nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echelon.hub.access import Access
from echelon.hub.access_rules import Attributes
from echelon.hub.call import User
from echelon.hub.cel_compile import Compiler, Term
from echelon.hub.cel_parse import Node
from echelon.hub.cel_types import BOOL, STRING
from echelon.hub.tokens import account_groups

NAME = "authorizer"
ANSWERS = {"allowed": BOOL, "errored": BOOL, "reason": STRING, "error": STRING}
STEPS = {
    "path": 1,
    "group": 1,
    "serviceAccount": 2,
    "resource": 1,
    "subresource": 1,
    "namespace": 1,
    "name": 1,
    "check": 1,
}
"""What a chain may be made of, with the number of arguments."""


class Asker:
    """What `authorizer` is while a policy runs."""

    def __init__(self, access: Access, user: User, request: Attributes) -> None:
        self._access = access
        self._user = user
        self._request = request

    def ask(self, steps: list[tuple[str, tuple[str, ...]]], answer: str) -> Any:
        """Follow a chain to its answer."""
        wanted: dict[str, str] = {}
        user, verb = self._user, ""
        for step, values in steps:
            if step == "requestResource":
                asked = self._request
                wanted = {"group": asked.group, "resource": asked.resource, "subresource": asked.subresource}
                wanted |= {"namespace": asked.namespace, "name": asked.name}
            elif step == "serviceAccount":
                namespace, name = values
                user = User(f"system:serviceaccount:{namespace}:{name}", account_groups(namespace))
            elif step == "check":
                verb = values[0]
            else:
                wanted[step] = values[0]
        allowed, reason = self._access.explain(user, Attributes(verb, **wanted))
        return {"allowed": allowed, "errored": False, "reason": reason, "error": ""}[answer]


class PolicyCompiler(Compiler):
    """A compiler that knows `authorizer`."""

    def _method(self, node: Node) -> Term:
        if node.value in ANSWERS and len(node.items) == 1:
            chain = _chain(node.items[0])
            if chain is not None:
                return self._asked(chain, node.value)
        return super()._method(node)

    def _asked(self, chain: list[tuple[str, tuple[Node, ...]]], answer: str) -> Term:
        slot, _ = self.scope[NAME]
        steps: list[tuple[str, tuple[Callable[[list[Any]], Any], ...]]] = []
        for step, arguments in chain:
            terms = [self.term(argument) for argument in arguments]
            steps.append((step, tuple(term.get for term in terms)))

        def get(frame: list[Any]) -> Any:
            asked = [(step, tuple(value(frame) for value in values)) for step, values in steps]
            return frame[slot].ask(asked, answer)

        return Term(ANSWERS[answer], get)


def _chain(node: Node) -> list[tuple[str, tuple[Node, ...]]] | None:
    """Return the steps of a call chain on `authorizer` that ends in a check, if it is one."""
    steps: list[tuple[str, tuple[Node, ...]]] = []
    while True:
        if node.kind == "name":
            break
        if node.kind == "select" and node.value == ("requestResource", False):
            steps.append(("requestResource", ()))
        elif node.kind == "method" and STEPS.get(node.value) == len(node.items) - 1:
            steps.append((node.value, tuple(node.items[1:])))
        else:
            return None
        node = node.items[0]
    if node.value != NAME or not steps or steps[0][0] != "check":
        return None
    return steps[::-1]

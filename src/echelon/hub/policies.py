"""ValidatingAdmissionPolicies: rules in CEL that the cluster's owner adds to every write.

Policies and bindings are compiled when a write first needs them and again when
one of them changes. What they refuse, and in which words, is kube-apiserver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from echelon.hub.admission import Rounds
from echelon.hub.call import Call
from echelon.hub.cel_compile import Program
from echelon.hub.cel_values import CelError
from echelon.hub.policy_bindings import (
    EXEMPT,
    VALIDATING,
    VALIDATING_BINDINGS,
    Bound,
    Judged,
    Misconfigured,
    PoliciesInForce,
)
from echelon.hub.policy_cel import Scope, compile_expression
from echelon.hub.policy_match import kind_asked_for
from echelon.hub.policy_request import show_as
from echelon.hub.status import StatusError, qualified

if TYPE_CHECKING:
    from echelon.hub.cluster import Cluster

Json = dict[str, Any]

CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
MAX_MESSAGE = 5 * 1024
"""Bytes of a message made by an expression; longer ones are not used."""


class Check(NamedTuple):
    """One validation, ready to run."""

    program: Program
    expression: str
    message: str
    message_program: Program | None
    reason: str


def validating(cluster: Cluster) -> PoliciesInForce[Check]:
    """Return the validating policies in force in a cluster."""
    return PoliciesInForce(cluster, (VALIDATING, VALIDATING_BINDINGS), _checks)


def _checks(spec: Json, scope: Scope) -> tuple[Check, ...]:
    checks = []
    for one in spec.get("validations") or ():
        message = one.get("messageExpression")
        checks.append(
            Check(
                compile_expression(one.get("expression", ""), scope),
                one.get("expression", "").strip(),
                one.get("message", "").strip(),
                compile_expression(message, scope) if message else None,
                one.get("reason") or "Invalid",
            )
        )
    return tuple(checks)


class PolicyPlugin:
    """Shows every write to the validating policies of its cluster."""

    def interested(self, call: Call) -> bool:
        """Say whether a policy could concern this resource."""
        kind = call.kind
        if kind.resource in EXEMPT:
            return False
        return bool(call.cluster.policies.candidates(kind.group, kind.plural, call.subresource))

    async def mutate(self, call: Call, new: Json, old: Json | None, rounds: Rounds) -> None:
        """Change nothing."""

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Refuse what a policy refuses."""
        kind = call.kind
        runs = {kind: _Run(call, new, old)}
        for bound in call.cluster.policies.candidates(kind.group, kind.plural, call.subresource):
            shown = kind_asked_for(bound.policy.constraints, call)
            if shown is None:
                continue
            if shown not in runs:
                runs[shown] = _Run(call, new, old)
                await show_as(runs[shown], shown)
            run = runs[shown]
            if run.concerns(bound):
                run.check(bound)


class _Run(Judged):
    """One write under judgement."""

    def check(self, bound: Bound[Check]) -> None:
        """Run a policy once for each of its parameters."""
        policy = bound.policy
        try:
            if policy.broken:
                raise Misconfigured(policy.broken)  # noqa: TRY301 - one way out for all that cannot run
            for param in self.params(bound):
                values = self.values(param)
                if self.meets_conditions(policy, values):
                    for one in policy.work:
                        self._judge(bound, one, values)
        except Misconfigured as why:
            if policy.fails_closed:
                self._refuse(bound, str(why), "Invalid")

    def _judge(self, bound: Bound[Check], one: Check, values: tuple[Any, ...]) -> None:
        try:
            if one.program.run(*values) is True:
                return
        except CelError as error:
            if bound.policy.fails_closed:
                self._refuse(bound, f"expression '{one.expression}' resulted in error: {error}", "Invalid")
            return
        self._refuse(bound, self._message(one, values), one.reason)

    def _message(self, one: Check, values: tuple[Any, ...]) -> str:
        if one.message_program is not None:
            try:
                made = one.message_program.run(*values)
            except CelError:
                made = None
            if (
                isinstance(made, str)
                and made.strip()
                and "\n" not in made
                and len(made.encode()) <= MAX_MESSAGE
            ):
                return made.strip()
        return one.message or f"failed expression: {one.expression}"

    def _refuse(self, bound: Bound[Check], message: str, reason: str) -> None:
        who = f"ValidatingAdmissionPolicy '{bound.policy.name}'"
        if not message.startswith("failed to configure policy"):
            who += f" with binding '{bound.binding}'"
        if "Warn" in bound.actions:
            self.call.warnings.append(f"Validation failed for {who}: {message}")
        if "Deny" in bound.actions:
            self._deny(who, message, reason)

    def _deny(self, who: str, message: str, reason: str) -> None:
        kind = self.call.kind
        text = f"{who} denied request: {message}"
        name = self.call.name or "Unknown"
        details: Json = {"name": name}
        if kind.group:
            details["group"] = kind.group
        details["kind"] = kind.plural
        details["causes"] = [{"message": text}]
        what = qualified(kind.group, kind.plural)
        full = f'{what} "{name}" is forbidden: {text}'
        raise StatusError(CODES.get(reason, 422), reason, full, details)

"""MutatingAdmissionPolicies: changes in CEL that the cluster's owner makes to every write.

Policies run in the order of their names (kube-apiserver has none), each on what the one before it left. After any
mutation there is a second round for those that ask for it. What fails is refused in kube-apiserver's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from echelon.hub import conform
from echelon.hub.admission import Rounds, Turns
from echelon.hub.call import Call
from echelon.hub.cel_compile import Program
from echelon.hub.cel_values import CelError
from echelon.hub.gotext import bad_value
from echelon.hub.kinds import encode
from echelon.hub.policy_bindings import (
    EXEMPT,
    MUTATING,
    MUTATING_BINDINGS,
    Bound,
    Judged,
    Misconfigured,
    PoliciesInForce,
)
from echelon.hub.policy_cel import Scope, compile_expression
from echelon.hub.policy_objects import MutationCompiler, NotBuilt, configuration, operations
from echelon.hub.policy_problems import BODIES
from echelon.hub.shape import ATOMIC, DEDUCED, Shape, shape_of
from echelon.hub.status import StatusError, internal, invalid
from echelon.hub.typed import Mistyped, fields_of, merge
from echelon.rules.json_patch import TEST_FAILED, PatchRejected, apply_operations

if TYPE_CHECKING:
    from echelon.hub.cluster import Cluster

Json = dict[str, Any]
PLUGIN = "MutatingAdmissionPolicy"


class Mutation(NamedTuple):
    """One mutation, ready to run."""

    program: Program
    expression: str
    apply: Callable[[Call, Json, Any], Json]
    """Returns the object after the mutation, given what the expression built."""


def mutating(cluster: Cluster) -> PoliciesInForce[Mutation]:
    """Return the mutating policies in force in a cluster."""
    return PoliciesInForce(cluster, (MUTATING, MUTATING_BINDINGS), _mutations)


def _mutations(spec: Json, scope: Scope) -> tuple[Mutation, ...]:
    made = []
    for one in spec.get("mutations") or ():
        kind = one.get("patchType", "")
        source = (one.get(BODIES[kind]) or {}).get("expression", "")
        program = compile_expression(source, scope, MutationCompiler)
        made.append(Mutation(program, source.strip(), _WAYS[kind]))
    return tuple(made)


class MutationPlugin:
    """Lets the mutating policies of a cluster change what is written to it."""

    def interested(self, call: Call) -> bool:
        """Say whether a policy could concern this resource."""
        kind = call.kind
        if kind.resource in EXEMPT:
            return False
        return bool(call.cluster.mutations.candidates(kind.group, kind.plural, call.subresource))

    async def mutate(self, call: Call, new: Json, old: Json | None, rounds: Rounds) -> None:
        """Change the object in place; refuse it where a policy that fails closed cannot do its work."""
        turns = rounds.turns_of(PLUGIN)
        if rounds.again and turns.left != encode(new):
            turns.changed()
        run = _Run(call, new, old)
        for bound in call.cluster.mutations.candidates(call.kind.group, call.kind.plural, call.subresource):
            run.choose(bound)
        run.carry_out(rounds, turns)
        turns.left = encode(new)
        if run.failures:
            raise _refusal(call, new, run.failures)

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Refuse nothing."""


class _Failure(NamedTuple):
    """Why a policy that fails closed could not do its work."""

    text: str
    reason: str


class _Run(Judged):
    """One round of one write."""

    def __init__(self, call: Call, new: Json, old: Json | None) -> None:
        super().__init__(call, new, old)
        self.new: Json = new
        self.failures: list[_Failure] = []
        self._chosen: list[tuple[Bound[Mutation], Json | None]] = []

    def choose(self, bound: Bound[Mutation]) -> None:
        """Take part if the policy is about the object as it came."""
        if not self.concerns(bound):
            return
        try:
            if bound.policy.broken:
                raise Misconfigured(bound.policy.broken)  # noqa: TRY301 - one way out for all that cannot run
            self._chosen += [(bound, param) for param in self.params(bound)]
        except Misconfigured as why:
            self._fail(bound, str(why), "Forbidden")

    def carry_out(self, rounds: Rounds, turns: Turns) -> None:
        """Run what takes part, in order."""
        mutated = False
        for bound, param in self._chosen:
            values = self.values(param)
            try:
                if not self.meets_conditions(bound.policy, values):
                    continue
            except Misconfigured as why:
                self._fail(bound, str(why))
                continue
            meta = (param or {}).get("metadata") or {}
            key = (bound.policy.name, bound.binding, meta.get("namespace", ""), meta.get("name", ""))
            if rounds.again and key not in turns.due:
                continue
            before = encode(self.new)
            for one in bound.policy.work:
                mutated |= self._mutate(bound, one, values)
            if encode(self.new) != before:
                turns.changed()
                rounds.wanted = True
            if bound.policy.reinvoked:
                turns.called.add(key)
        if mutated:  # also where nothing is different afterwards, as in kube-apiserver
            turns.changed()
            rounds.wanted = True

    def _mutate(self, bound: Bound[Mutation], mutation: Mutation, values: tuple[Any, ...]) -> bool:
        """Carry out one mutation; say whether it could be."""
        try:
            built = mutation.program.run(*values)
            changed = mutation.apply(self.call, self.new, built)
        except CelError as error:
            self._fail(bound, f"expression '{mutation.expression}' resulted in error: {error}")
        except NotBuilt as why:
            self._fail(bound, str(why))
        else:
            if changed is not self.new:
                self.new.clear()
                self.new.update(changed)
            return True
        return False

    def _fail(self, bound: Bound[Mutation], why: str, reason: str = "Invalid") -> None:
        if bound.policy.fails_closed:
            who = f"policy '{bound.policy.name}' with binding '{bound.binding}'"
            self.failures.append(_Failure(f"{who} denied request: {why}", reason))


def _refusal(call: Call, new: Json, failures: list[_Failure]) -> StatusError:
    meta = new["metadata"]
    details: Json = {"name": meta.get("name") or meta.get("generateName") or call.name}
    if call.kind.group:
        details["group"] = call.kind.group
    details["kind"] = call.kind.plural
    details["causes"] = [{"message": failure.text} for failure in failures]
    return StatusError(403, failures[0].reason, failures[0].text, details)


def _apply_configuration(call: Call, obj: Json, built: Any) -> Json:
    """Merge a configuration into an object by the structure of its kind; nobody comes to own anything."""
    config = {**configuration(built), "apiVersion": call.kind.api_version, "kind": call.kind.kind}
    shape = shape_of(call.kind.schema)
    try:
        fields_of(config, shape)
    except Mistyped as error:
        raise NotBuilt(
            f"error applying patch: failed to convert patch object to typed object: {error}"
        ) from None
    atomic = _atomic_parts(config, shape)
    if atomic:
        why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise NotBuilt(f"error applying patch: invalid ApplyConfiguration: {why}")
    merged: Json = merge(obj, config, shape)
    if merged is obj:
        return obj
    try:
        conform.fit(call, merged)
    except StatusError as error:
        what = f"{call.kind.group}/{call.kind.version}, Kind={call.kind.kind}"
        raise NotBuilt(
            f"unable to convert unstructured object to {what}: {conform.undecorated(error)}"
        ) from None
    return merged


def _atomic_parts(config: Any, shape: Shape, path: str = "") -> list[str]:
    """Name the lists and maps of a configuration that its schema lets nobody set in part."""
    if shape is DEDUCED:
        return []
    if type(config) is dict:
        whole = [path] if shape.map_atomic else []
        return whole + [
            part
            for key, item in config.items()
            for part in _atomic_parts(item, shape.field(key), f"{path}.{key}")
        ]
    if type(config) is list:
        whole = [path] if shape.list_kind == ATOMIC else []
        return whole + [
            part
            for index, item in enumerate(config)
            for part in _atomic_parts(item, shape.item, f"{path}[{index}]")
        ]
    return []


def _patch(call: Call, obj: Json, built: Any) -> Json:
    """Patch an object; one that fails its own test stays as it is."""
    try:
        patched = apply_operations(obj, operations(built))
    except PatchRejected as error:
        if str(error).endswith(TEST_FAILED):
            return obj
        raise NotBuilt(f"JSON Patch: {error}") from None
    if not isinstance(patched, dict):
        raise internal("the patch leaves no object")
    made = {**patched, "apiVersion": call.kind.api_version}
    if made.get("kind") != call.kind.kind:
        message = f"Invalid value: {bad_value(made.get('kind', ''))}: must be {call.kind.kind}"
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "kind"}
        raise invalid(call.kind.group, str(made.get("kind", "")), call.name, [cause])
    try:
        unknown = conform.fit(call, made)
    except StatusError as error:
        raise internal(conform.undecorated(error)) from None
    if unknown and call.kind.definition:
        found = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise internal(f"strict decoding error: {found}")
    return made


_WAYS = {"ApplyConfiguration": _apply_configuration, "JSONPatch": _patch}

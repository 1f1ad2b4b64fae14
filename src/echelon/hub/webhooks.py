"""Admission webhooks: servers of others that may change or refuse a write.

Calls them as kube-apiserver does: mutating ones in turn, again where one of them
changed what another had seen; validating ones all at once. What cannot be called
is refused or let pass, as its failure policy says. Nothing is called for kinds
that no configuration names.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from echelon.hub import conform
from echelon.hub.admission import Rounds
from echelon.hub.call import Call
from echelon.hub.cel_compile import CelCompileError
from echelon.hub.cel_values import CelError
from echelon.hub.hook_client import HookClient, HookError
from echelon.hub.jsontext import json_problem
from echelon.hub.kinds import encode
from echelon.hub.patch import PatchRejected, apply_operations
from echelon.hub.policy_cel import Scope, compile_expression
from echelon.hub.policy_match import constraints_match, could_match, kind_asked_for, selectors_match
from echelon.hub.policy_request import AdmissionRequest, show_as
from echelon.hub.seen import in_version
from echelon.hub.status import StatusError, forbidden, internal

if TYPE_CHECKING:
    from echelon.hub.cluster import Cluster

Json = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
RESOURCES = frozenset({MUTATING, VALIDATING})

DEFAULT_TIMEOUT_S = 10


class Webhook(NamedTuple):
    """One webhook of one configuration."""

    key: tuple[str, int]
    """The configuration it stands in, and where in it."""
    name: str
    wire: Json
    constraints: Json

    @property
    def fails_closed(self) -> bool:
        """Say whether a write is refused when the webhook cannot be called."""
        return bool(self.wire.get("failurePolicy", "Fail") == "Fail")


class ClusterWebhooks:
    """The webhooks of one logical cluster, in the order they are called."""

    def __init__(self, cluster: Cluster) -> None:
        self._hooks = {resource: _read(cluster, resource) for resource in (MUTATING, VALIDATING)}
        self._candidates: dict[tuple[str, str, str, str], tuple[Webhook, ...]] = {}

    def candidates(self, resource: str, group: str, plural: str, subresource: str) -> tuple[Webhook, ...]:
        """Return the webhooks that could concern a resource."""
        key = (resource, group, plural, subresource)
        found = self._candidates.get(key)
        if found is None:
            found = self._candidates[key] = tuple(
                hook
                for hook in self._hooks[resource]
                if could_match(hook.constraints, group, plural, subresource)
            )
        return found


def _read(cluster: Cluster, resource: str) -> list[Webhook]:
    hooks = []
    for name, entry in sorted(cluster.hub.store.table(cluster.name, resource).live.items()):
        for index, wire in enumerate(msgspec.json.decode(entry.body).get("webhooks") or ()):
            constraints = {
                "resourceRules": wire.get("rules") or [],
                "matchPolicy": wire.get("matchPolicy", "Equivalent"),
                "namespaceSelector": wire.get("namespaceSelector"),
                "objectSelector": wire.get("objectSelector"),
            }
            hooks.append(Webhook((name, index), wire.get("name", ""), wire, constraints))
    return hooks


class WebhookPlugin:
    """Shows writes to the webhooks of their cluster."""

    def __init__(self, client: HookClient) -> None:
        self._client = client

    def interested(self, call: Call) -> bool:
        """Say whether a webhook could concern this resource."""
        if call.kind.resource in RESOURCES:
            return False
        hooks, kind = call.cluster.webhooks, call.kind
        return any(hooks.candidates(one, kind.group, kind.plural, call.subresource) for one in RESOURCES)

    async def mutate(self, call: Call, new: Json, old: Json | None, rounds: Rounds) -> None:
        """Let mutating webhooks change the object in place."""
        turns = rounds.turns_of(MUTATING)
        if rounds.again and turns.left != encode(new):
            turns.changed()
        hooks = call.cluster.webhooks.candidates(
            MUTATING, call.kind.group, call.kind.plural, call.subresource
        )
        for hook in hooks:
            before = encode(new)
            if (rounds.again and hook.key not in turns.due) or not await self._mutate(call, hook, new, old):
                continue
            if encode(new) != before:
                turns.changed()
                rounds.wanted = True
            if hook.wire.get("reinvocationPolicy") == "IfNeeded":
                turns.called.add(hook.key)
        turns.left = encode(new)

    async def validate(self, call: Call, new: Json | None, old: Json | None) -> None:
        """Ask all validating webhooks; the first refusal in their order counts."""
        hooks = call.cluster.webhooks.candidates(
            VALIDATING, call.kind.group, call.kind.plural, call.subresource
        )
        if not hooks:
            return
        answers = await asyncio.gather(
            *(self._ask(call, hook, new, old) for hook in hooks), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _mutate(self, call: Call, hook: Webhook, new: Json, old: Json | None) -> bool:
        """Let one webhook change the object in place; say whether it was asked."""
        answer = await self._ask(call, hook, new, old)
        if answer is None or answer.operations is None:
            return answer is not None
        try:
            patched = apply_operations(answer.asked.new, answer.operations)
        except PatchRejected as error:
            raise internal(str(error)) from None
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise internal(f'admission webhook "{hook.name}" returned a patch that leaves no object')
        patched = await in_version(call, patched, call.kind)
        if call.view is not None:
            patched = call.view.put_back(new, patched)
        new.clear()
        new.update(patched)
        conform.shape_mutated(call, new)
        return True

    async def _ask(self, call: Call, hook: Webhook, new: Json | None, old: Json | None) -> _Answer | None:
        """Call a webhook if it wants to see the write; return its answer, refuse what it refuses."""
        wanted = kind_asked_for(hook.constraints, call)
        if wanted is None:
            return None
        asked = AdmissionRequest(call, new, old)
        if wanted is not call.kind:
            await show_as(asked, wanted)
        if not self._wants(hook, asked):
            return None
        try:
            answer = await self._call(hook, asked)
            operations = _operations(answer)
        except HookError as error:
            if not hook.fails_closed:
                return None
            raise internal(f'failed calling webhook "{hook.name}": {error}') from None
        call.warnings += [text for text in answer.get("warnings") or () if isinstance(text, str)]
        if answer.get("allowed") is not True:
            raise _refusal(hook, answer)
        return _Answer(asked, operations)

    def _wants(self, hook: Webhook, asked: AdmissionRequest) -> bool:
        if not constraints_match(hook.constraints, asked.asked):
            return False
        if not selectors_match(hook.constraints, (asked.new, asked.old), asked.namespace_labels()):
            return False
        failed = ""
        for condition in hook.wire.get("matchConditions") or ():
            source = condition.get("expression", "")
            try:
                if compile_expression(source, Scope()).run(*asked.values(None)) is not True:
                    return False
            except (CelCompileError, CelError) as error:
                failed = failed or f"expression '{source}' resulted in error: {error}"
        if failed and hook.fails_closed:
            kind = asked.call.kind
            raise forbidden(kind.group, kind.plural, asked.call.name, failed)
        return not failed

    async def _call(self, hook: Webhook, asked: AdmissionRequest) -> Json:
        uid = asked.call.hub.world.uuid()
        request = {**asked.request, "uid": uid, "object": asked.new, "oldObject": asked.old}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        config = hook.wire.get("clientConfig") or {}
        timeout_s = hook.wire.get("timeoutSeconds") or DEFAULT_TIMEOUT_S
        try:
            response = (await self._client.review(config, review, timeout_s)).get("response")
        except HookError as error:
            raise HookError(f"failed to call webhook: {error}") from None
        if not isinstance(response, dict):
            raise HookError(f"{_INVALID}webhook response was absent")
        if response.get("uid") != uid:
            raise HookError(f'{_INVALID}expected response.uid="{uid}", got "{response.get("uid") or ""}"')
        if response.get("patchType") and not response.get("patch"):
            raise HookError(f"{_INVALID}webhook returned response.patchType but not response.patch")
        if response.get("patch") and not response.get("patchType"):
            raise HookError(f"{_INVALID}webhook returned response.patch but not response.patchType")
        return response


_INVALID = "received invalid webhook response: "


class _Answer(NamedTuple):
    """What a webhook let in, as it was shown, and how it wants it changed."""

    asked: AdmissionRequest
    operations: list[Json] | None


def _operations(answer: Json) -> list[Json] | None:
    """Return the operations of an answer's patch, if it has one."""
    patch = answer.get("patch")
    if not patch:
        return None
    try:
        text = base64.b64decode(patch, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise HookError("received undecodable patch in webhook response: it is not base64") from None
    try:
        return msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.ValidationError as error:
        raise HookError(f"received undecodable patch in webhook response: {error}") from None
    except msgspec.DecodeError:
        why = json_problem(text)
        raise HookError(f"received undecodable patch in webhook response: {why}") from None


def _refusal(hook: Webhook, answer: Json) -> StatusError:
    result = answer.get("status") or {}
    message, reason = result.get("message") or "", result.get("reason") or ""
    who = f'admission webhook "{hook.name}" denied the request'
    text = f"{who}: {message}" if message else f"{who}: {reason}" if reason else f"{who} without explanation"
    code = result.get("code")
    if not isinstance(code, int) or not 400 <= code < 600:
        code = 400
    details = result.get("details") if isinstance(result.get("details"), dict) else None
    return StatusError(code, reason, text, details)

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
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from echelon.hub import conform
from echelon.hub.admission import Rounds
from echelon.hub.call import Call
from echelon.hub.cel_compile import CelCompileError
from echelon.hub.cel_values import CelError
from echelon.hub.kinds import encode
from echelon.hub.patch import json_patch
from echelon.hub.policy_cel import Scope, compile_expression
from echelon.hub.policy_match import constraints_match, could_match, selectors_match
from echelon.hub.policy_request import AdmissionRequest
from echelon.hub.status import StatusError, bad_request, internal

if TYPE_CHECKING:
    import aiohttp

    from echelon.hub.cluster import Cluster

Json = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
RESOURCES = frozenset({MUTATING, VALIDATING})

DEFAULT_TIMEOUT_S = 10
MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of an answer that are read: a patch of a large object, and no more."""

HARMLESS = frozenset({"None", "NoneOnDryRun"})


class Webhook(NamedTuple):
    """One webhook of one configuration."""

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
    for _, entry in sorted(cluster.hub.store.table(cluster.name, resource).live.items()):
        for wire in msgspec.json.decode(entry.body).get("webhooks") or ():
            constraints = {
                "resourceRules": wire.get("rules") or [],
                "matchPolicy": wire.get("matchPolicy", "Equivalent"),
                "namespaceSelector": wire.get("namespaceSelector"),
                "objectSelector": wire.get("objectSelector"),
            }
            hooks.append(Webhook(wire.get("name", ""), wire, constraints))
    return hooks


class WebhookPlugin:
    """Shows writes to the webhooks of their cluster."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._trust: dict[str, ssl.SSLContext] = {}

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
        for index, hook in enumerate(hooks):
            if (rounds.again and index not in turns.due) or not self._wants(
                hook, AdmissionRequest(call, new, old)
            ):
                continue
            before = encode(new)
            await self._mutate(call, hook, new, old)
            if encode(new) != before:
                turns.changed()
                rounds.wanted = True
            if hook.wire.get("reinvocationPolicy") == "IfNeeded":
                turns.called.add(index)
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

    async def close(self) -> None:
        """Let go of connections."""
        if self._session is not None:
            await self._session.close()

    async def _mutate(self, call: Call, hook: Webhook, new: Json, old: Json | None) -> None:
        answer = await self._ask(call, hook, new, old)
        patch = (answer or {}).get("patch")
        if not patch:
            return
        try:
            operations = msgspec.json.decode(base64.b64decode(patch, validate=True))
            patched = json_patch(new, operations)
        except (binascii.Error, ValueError, msgspec.MsgspecError, StatusError) as error:
            raise internal(
                f'admission webhook "{hook.name}" returned a patch that does not apply: {error}'
            ) from None
        if not isinstance(patched, dict):
            raise internal(f'admission webhook "{hook.name}" returned a patch that leaves no object')
        new.clear()
        new.update(patched)
        conform.fit(call, new)

    async def _ask(self, call: Call, hook: Webhook, new: Json | None, old: Json | None) -> Json | None:
        """Call a webhook if it wants to see the write; return its answer, refuse what it refuses."""
        asked = AdmissionRequest(call, new, old)
        if not self._wants(hook, asked):
            return None
        if call.dry_run() and hook.wire.get("sideEffects") not in HARMLESS:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            answer = await self._call(hook, asked)
        except _CallError as error:
            if not hook.fails_closed:
                return None
            raise internal(f'failed calling webhook "{hook.name}": {error}') from None
        call.warnings += [text for text in answer.get("warnings") or () if isinstance(text, str)]
        if answer.get("allowed") is not True:
            raise _refusal(hook, answer)
        return answer

    def _wants(self, hook: Webhook, asked: AdmissionRequest) -> bool:
        objects = (asked.new, asked.old)
        if not constraints_match(hook.constraints, asked.asked):
            return False
        if not selectors_match(hook.constraints, objects, asked.namespace_labels()):
            return False
        for condition in hook.wire.get("matchConditions") or ():
            try:
                program = compile_expression(condition.get("expression", ""), Scope())
                if program.run(*asked.values(None)) is not True:
                    return False
            except (CelCompileError, CelError):
                return hook.fails_closed
        return True

    async def _call(self, hook: Webhook, asked: AdmissionRequest) -> Json:
        import aiohttp  # noqa: PLC0415 - most hubs have no webhooks

        url = _url(hook)
        uid = asked.call.hub.world.uuid()
        request = {**asked.request, "uid": uid, "object": asked.new, "oldObject": asked.old}
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        timeout = aiohttp.ClientTimeout(total=hook.wire.get("timeoutSeconds") or DEFAULT_TIMEOUT_S)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                url,
                data=encode(review),
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=self._context(hook),
                timeout=timeout,
                allow_redirects=False,
            ) as reply:
                body = await reply.content.read(MAX_ANSWER)
                if reply.status != 200:
                    raise _CallError(f"the server responded with status code {reply.status}")
        except TimeoutError:
            raise _CallError(f'failed to call webhook: Post "{url}": context deadline exceeded') from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _CallError(f'failed to call webhook: Post "{url}": {error}') from None
        try:
            response = msgspec.json.decode(body).get("response")
        except (msgspec.MsgspecError, AttributeError):
            raise _CallError("received invalid webhook response: expected webhook response") from None
        if not isinstance(response, dict):
            raise _CallError("received invalid webhook response: webhook response is missing")
        if response.get("uid") != uid:
            raise _CallError(
                f'received invalid webhook response: expected response.uid="{uid}", got "{response.get("uid", "")}"'
            )
        return response

    def _context(self, hook: Webhook) -> ssl.SSLContext:
        bundle = (hook.wire.get("clientConfig") or {}).get("caBundle") or ""
        context = self._trust.get(bundle)
        if context is None:
            try:
                pem = base64.b64decode(bundle).decode() if bundle else None
                context = ssl.create_default_context(cadata=pem)
            except (ValueError, ssl.SSLError) as error:
                raise _CallError(f"unable to load root certificates: {error}") from None
            self._trust[bundle] = context
        return context


class _CallError(Exception):
    """The webhook could not be called, or its answer makes no sense."""


def _url(hook: Webhook) -> str:
    config = hook.wire.get("clientConfig") or {}
    url = config.get("url") or ""
    if not url:
        service = config.get("service") or {}
        where = f"{service.get('namespace', '')}/{service.get('name', '')}"
        raise _CallError(
            f"failed to call webhook: service {where} cannot be reached: this hub has no service network, use clientConfig.url"
        )
    if urlsplit(url).scheme != "https":
        raise _CallError(f"failed to call webhook: {url} is no https address")
    return str(url)


def _refusal(hook: Webhook, answer: Json) -> StatusError:
    result = answer.get("status") or {}
    message, reason = result.get("message") or "", result.get("reason") or ""
    who = f'admission webhook "{hook.name}" denied the request'
    text = f"{who}: {message}" if message else f"{who}: {reason}" if reason else f"{who} without explanation"
    code = result.get("code")
    if not isinstance(code, int) or not 400 <= code < 600:
        code = 403
    details = result.get("details") if isinstance(result.get("details"), dict) else None
    return StatusError(code, reason or ("Forbidden" if code == 403 else ""), text, details)

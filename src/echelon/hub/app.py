"""The hub: one handler from request to response, whatever carries them.

It knows no HTTP library, no clock and no entropy of its own. The order of checks
is kube-apiserver's: route, authorise, limit, serve; and every failure, foreseen
or not, leaves as a Status.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon.hub import access, builtins, discovery, health, openapi, policy_bindings, rest, webhooks
from echelon.hub.access_rules import Attributes
from echelon.hub.admission import Admission
from echelon.hub.body import MAX_BODY
from echelon.hub.bootstrap import born_with
from echelon.hub.call import MASTERS, Call, Request, Response, User
from echelon.hub.cluster import CRDS, Cluster
from echelon.hub.entries import entry_of_row
from echelon.hub.gotext import quote
from echelon.hub.hook_client import HookClient
from echelon.hub.housekeeping import Housekeeping
from echelon.hub.impersonate import PREFIX as IMPERSONATE
from echelon.hub.impersonate import impersonated
from echelon.hub.kinds import encode
from echelon.hub.limits import LimitRanges
from echelon.hub.metrics import Metrics
from echelon.hub.mutations import MutationPlugin
from echelon.hub.negotiate import YAML, accept, document
from echelon.hub.policies import PolicyPlugin
from echelon.hub.route import HUB, Target, route, split_cluster
from echelon.hub.seen import Remembered
from echelon.hub.status import (
    StatusError,
    bad_request,
    internal,
    method_not_allowed,
    no_such_resource,
    too_large,
)
from echelon.hub.store import Event, Store
from echelon.hub.tokens import AUTHENTICATED, Tokens
from echelon.hub.webhooks import WebhookPlugin
from echelon.hub.world import RealWorld, World

if TYPE_CHECKING:
    from echelon.hub.certificates import Authority

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.1+echelon",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go0",
    "compiler": "cpython",
    "platform": "linux/amd64",
}
NO_HEAD = ("/api", "/version", "/openapi")
"""Documents that are not there for who only wants to know whether they are."""
READS = frozenset({"get", "list", "watch"})
_log = logging.getLogger(__name__)


class Hub:
    """All logical clusters, their store, and the handler."""

    def __init__(self, world: World | None = None) -> None:
        self.world: World = world or RealWorld()
        self.store = Store()
        self.builtins = builtins.catalog()
        self.admission = Admission()
        self.hooks = HookClient()
        self.seen = Remembered()
        webhooks = WebhookPlugin(self.hooks)
        self.admission.plugins += [LimitRanges(), MutationPlugin(), PolicyPlugin(), webhooks]
        self.authority: Authority | None = None
        self.tokens = Tokens(self)
        self.pod_log: Callable[[str, dict[str, Any], str], str] = lambda _cluster, _pod, _container: ""
        """What a container printed: set by whoever plays the nodes."""
        self.clusters: dict[str, Cluster] = {}
        self.housekeeping = Housekeeping(self)
        self.admission.plugins.append(self.housekeeping.quotas)
        self.metrics = Metrics()
        self.closing = False
        self.store.base = born_with(self)
        self.store.observers.append(self._observe)
        self.add_cluster(HUB)

    def add_cluster(self, name: str) -> Cluster:
        """Make a logical cluster reachable."""
        return self.clusters.setdefault(name, Cluster(self, name))

    def open(self, folder: Path) -> None:
        """Load the log of a folder and write to it from now on; call on the loop's thread."""
        from echelon.hub.certificates import Authority  # noqa: PLC0415 - a hub in memory needs neither
        from echelon.hub.sqlite import SqliteLog  # noqa: PLC0415

        log = SqliteLog(folder, self.store)  # locks the folder
        self.authority = Authority.load(folder, self.world.now())
        self.tokens.keep_in(folder)
        compacted, revision, rows = log.rows()
        self.store.compacted = compacted
        for rev, cluster, resource, key, gone, body in rows:
            self.add_cluster(cluster)
            self.store.restore(
                self.store.table(cluster, resource), entry_of_row(key, rev, body), gone=bool(gone)
            )
        self.store.revision = self.store.committed = max(self.store.revision, revision)
        self.store.log = log
        log.start()
        self.housekeeping.scan()

    async def close(self) -> None:
        """Finish what was accepted."""
        self.closing = True
        self.housekeeping.close()
        await self.hooks.close()
        self.store.log.close()

    def root_certificate(self) -> str:
        """Return the certificate that clients inside a cluster trust."""
        return self.authority.pair.certificate.decode() if self.authority is not None else ""

    def authenticate(self, token: str, path: str) -> User | None:
        """Return whom a bearer token stands for in the logical cluster of a path."""
        cluster = split_cluster(path)[0]
        user = self.tokens.user_of(cluster, token) if cluster in self.clusters else None
        if user is not None and AUTHENTICATED not in user.groups:
            return replace(user, groups=(*user.groups, AUTHENTICATED))
        return user

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        clock = asyncio.get_running_loop().time
        began = clock()
        target: Target | None = None
        try:
            target = route(request.method, request.path, request.query)
            response = await self._serve(target, request)
        except StatusError as error:
            response = refuse(error, request)
        except RecursionError:
            response = refuse(bad_request("the request nests too deeply"))
        except Exception:  # noqa: BLE001 - whatever happens, the client gets a Status
            _log.exception("%s %s", request.method, request.path)
            response = refuse(internal("the hub failed to serve the request"))
        self.metrics.count(target, response.status, clock() - began)
        return response

    async def _serve(self, target: Target, request: Request) -> Response:
        cluster = self.clusters.get(target.cluster)
        if cluster is None:
            raise no_such_resource()
        headers = request.headers
        if any(name.startswith(IMPERSONATE) for name in headers):
            request.user = impersonated(headers, request.user, cluster)
        if MASTERS not in request.user.groups:
            cluster.access.check(request.user, wanted(target))
        if len(request.body) > MAX_BODY:
            raise too_large(MAX_BODY)
        if request.method == "HEAD" and (target.is_resource or target.path.startswith(NO_HEAD)):
            raise method_not_allowed()
        if not target.is_resource:
            return self._documents(cluster, target, request)
        kind = cluster.catalog.find(target.group, target.version, target.plural)
        if kind is None and _is_unserved(cluster, target):
            return health.page_not_found()
        if kind is None:
            raise no_such_resource()
        if kind.namespaced and not target.namespace and target.name:
            raise no_such_resource()
        if not kind.namespaced and target.namespace and target.plural != "namespaces":
            raise no_such_resource()
        call = Call(
            self,
            cluster,
            request,
            kind,
            target.verb,
            target.namespace,
            target.name,
            target.subresource,
            target.rest,
        )
        try:
            response = await rest.serve(call)
        except StatusError as error:  # who is refused is warned too
            if call.verb not in READS:  # a conflict with a write that a crash takes back never was
                await self.store.settled()
            response = refuse(error, request)
        for warning in call.warnings:
            response.headers.append(("Warning", f"299 - {quote(warning)}"))
        return response

    def _documents(self, cluster: Cluster, target: Target, request: Request) -> Response:
        path = target.path.rstrip("/") or "/"
        if request.method not in {"GET", "HEAD"}:
            raise method_not_allowed()
        if path.strip("/").partition("/")[0] in health.ENDPOINTS:
            return health.serve(self, path, request)
        if path.startswith(("/api/", "/apis/")) or path in {"/api", "/apis"}:
            return discovery.serve(cluster, path, request)
        if path.startswith("/openapi/"):
            return openapi.serve(cluster, path, request)
        if path == "/version":
            return document(VERSION)
        if path == "/metrics":
            return self.metrics.serve(self)
        return health.page_not_found()

    def _observe(self, event: Event) -> None:
        resource = event.table.resource
        if resource in access.RESOURCES:
            self.clusters[event.table.cluster].access_changed(event)
        elif resource in policy_bindings.RESOURCES or resource in webhooks.RESOURCES:
            self.clusters[event.table.cluster].admission_changed()
        elif resource == CRDS:
            self.clusters[event.table.cluster].crd_changed(event)
        self.housekeeping.observe(event)


def _is_unserved(cluster: Cluster, target: Target) -> bool:
    """Say whether a group is unknown, or one of custom resources that is served in other versions only."""
    if target.group in builtins.groups():
        return False
    return all(kind.group != target.group or kind.version != target.version for kind in cluster.catalog.own())


def wanted(target: Target) -> Attributes:
    """Return what a request wants, as authorisation sees it."""
    if not target.is_resource:
        return Attributes(target.verb, path=target.path)
    return Attributes(
        target.verb, target.group, target.plural, target.subresource, target.namespace, target.name
    )


def refuse(error: StatusError, request: Request | None = None) -> Response:
    """Answer with a Status, in YAML if that was asked for."""
    response = Response(error.code, encode(error.body()))
    form = accept(request.headers.get("accept", "")) if request is not None else None
    if form is not None and form.media == YAML:
        response = document(error.body(), error.code, form)
    response.headers += error.headers.items()
    return response

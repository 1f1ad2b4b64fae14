"""OpenAPI: the documents from which kubectl explains, validates and applies.

What it does: answers /openapi/v3, one document per group and version below it, and
/openapi/v2; each built when first asked for and kept as bytes, once for all clusters
that would get the same.

What it must never do: be built at start, or for a cluster nobody asks about.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from echelon.hub import builtins
from echelon.hub.call import Request, Response
from echelon.hub.cluster import Cluster
from echelon.hub.discovery import groups_of, kinds_of
from echelon.hub.kinds import Kind, encode
from echelon.hub.openapi_paths import Operations
from echelon.hub.openapi_schemas import (
    COMMON,
    COMPONENTS,
    built_in,
    custom,
    custom_name,
    list_name,
    needed,
    roots,
)
from echelon.hub.status import no_such_resource

Json = dict[str, Any]

MAX_KEPT_BYTES = 48 * 1024 * 1024
"""Bytes of all documents kept: all built-in ones need about 8 MB, a fleet's definitions 2 MB."""
FORMAT = "1"
"""Changes when the way documents are written changes, so that clients fetch them anew."""

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
EMPTY_PROTOBUF = b"\x0a\x032.0"
"""The old form, which kubectl asks for about kinds that version 3 does not list: it knows none of them."""

_kept: OrderedDict[str, bytes] = OrderedDict()


def serve(cluster: Cluster, path: str, request: Request) -> Response:
    """Answer /openapi/v2, /openapi/v3 and what is below it."""
    parts = path.strip("/").split("/")
    if parts == ["openapi", "v2"] and "proto-openapi" in request.headers.get("accept", ""):
        return Response(200, EMPTY_PROTOBUF, PROTOBUF)
    if parts == ["openapi", "v2"]:
        kinds = cluster.catalog.all()
        return _answer(request, "v2:" + _digest(kinds), lambda: _version2(kinds))
    if parts == ["openapi", "v3"]:
        return Response(200, encode({"paths": _index(cluster)}))
    if parts[:2] == ["openapi", "v3"]:
        group, version = _group_version(parts[2:])
        kinds = kinds_of(cluster, group, version)
        if kinds:
            return _answer(request, _digest(kinds), lambda: _version3(kinds))
        if "/".join(parts[2:]) in _index(cluster):
            return _answer(request, "empty", lambda: _document({}, {}))
    raise no_such_resource()


def _group_version(parts: list[str]) -> tuple[str, str]:
    if len(parts) == 2 and parts[0] == "api":
        return "", parts[1]
    if len(parts) == 3 and parts[0] == "apis":
        return parts[1], parts[2]
    return "", ""


def _index(cluster: Cluster) -> Json:
    """Return where the document of each group and version is; the hash in it changes with the document."""
    found: Json = {}
    for name in ("api", "apis", "version", ".well-known/openid-configuration", "openid/v1/jwks"):
        found[name] = _link(name, hashlib.sha512(name.encode()).hexdigest())
    for group, versions in groups_of(cluster).items():
        if group in builtins.groups() and group:
            found[f"apis/{group}"] = _link(f"apis/{group}", hashlib.sha512(group.encode()).hexdigest())
        for version in versions:
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            found[name] = _link(name, _digest(kinds_of(cluster, group, version)))
    return dict(sorted(found.items()))


def _link(name: str, digest: str) -> Json:
    return {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest.upper()}"}


def _digest(kinds: list[Kind]) -> str:
    """Return what tells documents apart: the built-in ones by release, others by their definitions."""
    state = hashlib.sha512(f"{FORMAT} {builtins.data()['kubernetes']}".encode())
    for kind in kinds:
        state.update(_digest_of(kind))
    return state.hexdigest()


@lru_cache(maxsize=4096)
def _digest_of(kind: Kind) -> bytes:
    if not kind.custom:
        return kind.prefix
    rest = [kind.plural, kind.list_kind, kind.namespaced, sorted(kind.subresources)]
    return hashlib.sha512(kind.prefix + encode([rest, kind.openapi])).digest()


def _answer(request: Request, digest: str, make: Callable[[], Json]) -> Response:
    etag = f'"{digest.upper()}"'
    headers = [("ETag", etag), ("Vary", "Accept")]
    query = request.query.get("hash")
    if query:
        if query[0] == digest.upper():
            headers.append(("Cache-Control", "public, immutable"))
        else:
            headers.append(("Cache-Control", "no-cache, private"))
    if request.headers.get("if-none-match") == etag:
        return Response(304, b"", headers=headers)
    body = _kept.get(digest)
    if body is None:
        body = _kept[digest] = encode(make())
        while len(_kept) > 1 and sum(map(len, _kept.values())) > MAX_KEPT_BYTES:
            _kept.popitem(last=False)
    return Response(200, body, headers=headers)


def _document(paths: Json, schemas: Json) -> Json:
    release = builtins.data()["kubernetes"].lstrip("v").rsplit(".", 1)[0]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": release},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _version3(kinds: list[Kind]) -> Json:
    paths: Json = {}
    schemas: Json = {}
    wanted: list[str] = [*COMMON]
    for kind in kinds:
        item = custom_name(kind) if kind.custom else kind.definition
        paths.update(Operations(kind, item, list_name(kind)).paths())
        wanted += roots(kind)
        if kind.custom:
            schemas.update(custom(kind))
    for name in needed(wanted):
        schemas[name] = built_in(name)
    return _document(dict(sorted(paths.items())), dict(sorted(schemas.items())))


def _version2(kinds: list[Kind]) -> Json:
    whole = _version3(kinds)
    return {
        "swagger": "2.0",
        "info": whole["info"],
        "paths": {path: _operations2(item) for path, item in whole["paths"].items()},
        "definitions": {name: _schema2(node) for name, node in whole["components"]["schemas"].items()},
    }


def _operations2(item: Json) -> Json:
    made: Json = {}
    for method, op in item.items():
        if method == "parameters":
            made[method] = [_parameter2(each) for each in op]
            continue
        body = op.get("requestBody")
        one = {
            key: value for key, value in op.items() if key not in {"requestBody", "responses", "parameters"}
        }
        one["parameters"] = [_parameter2(each) for each in op.get("parameters", ())]
        one["produces"] = list(op["responses"]["200"]["content"])
        if body is not None:
            one["consumes"] = list(body["content"])
            schema = _schema2(next(iter(body["content"].values()))["schema"])
            required = bool(body.get("required"))
            one["parameters"].insert(
                0, {"name": "body", "in": "body", "required": required, "schema": schema}
            )
        one["responses"] = {code: _response2(answer) for code, answer in op["responses"].items()}
        made[method] = one
    return made


def _parameter2(parameter: Json) -> Json:
    made: Json = {key: value for key, value in parameter.items() if key != "schema"}
    return {**made, **parameter["schema"]}


def _response2(answer: Json) -> Json:
    made = {"description": answer["description"]}
    if "content" in answer:
        made["schema"] = _schema2(next(iter(answer["content"].values()))["schema"])
    return made


_NOT_IN_2 = frozenset(("allOf", "oneOf", "anyOf", "not", "nullable", "properties"))


def _schema2(node: Any) -> Any:
    """Write a version 3 schema as version 2: no alternatives, and $ref instead of allOf."""
    if isinstance(node, list):
        return [_schema2(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-embedded-resource") is True or node.get("x-kubernetes-preserve-unknown-fields"):
        kept = {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
        return {**kept, **({"description": node["description"]} if "description" in node else {})}
    made = {key: _schema2(value) for key, value in node.items() if key not in _NOT_IN_2}
    if isinstance(node.get("properties"), dict):
        made["properties"] = {name: _schema2(child) for name, child in node["properties"].items()}
    parts = node.get("allOf")
    if isinstance(parts, list) and len(parts) == 1 and "$ref" in parts[0]:
        made["$ref"] = parts[0]["$ref"]
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace(COMPONENTS, "#/definitions/")
    if node.get("format") == "int-or-string" or ("oneOf" in node and "type" not in node):
        made["type"] = "string"
    return made

"""What form an answer takes: plain JSON, YAML, a Table, or metadata only.

Reads the Accept header as kube-apiserver does and renders stored bytes. Plain
JSON, the usual case, passes the bytes through.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import yaml

from echelon.hub.call import Call, Response
from echelon.hub.kinds import Kind, encode
from echelon.hub.status import StatusError, not_acceptable

Json = dict[str, Any]
JSON = "application/json"
YAML = "application/yaml"
PARTIAL, PARTIAL_LIST = "PartialObjectMetadata", "PartialObjectMetadataList"
OFFERED = [JSON, YAML, "application/vnd.kubernetes.protobuf"]
NOTHING_OFFERED = "406: Not Acceptable\n\nAvailable representations: " + ", ".join(
    [*OFFERED, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"]
)
SHAPE_VERSIONS = frozenset({("meta.k8s.io", "v1"), ("meta.k8s.io", "v1beta1"), ("", "")})


@dataclass(slots=True, frozen=True)
class Form:
    """How to render: media type, and the kind to render as."""

    media: str = JSON
    shape: str = ""
    """"", "Table", or metadata alone, of one object or of a list."""
    version: str = ""
    group: str = ""

    @property
    def plain(self) -> bool:
        """Say whether stored bytes can pass through."""
        return not self.shape and self.media == JSON


PLAIN = Form()


@lru_cache(maxsize=512)
def accept(header: str) -> Form | None:
    """Choose the first acceptable form; None when there is none."""
    if not header:
        return PLAIN
    best: tuple[float, int, Form] | None = None
    for index, part in enumerate(header.split(",")):
        pieces = [piece.strip() for piece in part.split(";")]
        media = pieces[0].lower()
        params = dict(piece.split("=", 1) for piece in pieces[1:] if "=" in piece)
        form = _form(media, params)
        if form is None:
            continue
        try:
            quality = float(params.get("q", "1"))
        except ValueError:
            quality = 1.0
        if best is None or (-quality, index) < (best[0], best[1]):
            best = (-quality, index, form)
    return best[2] if best else None


def _form(media: str, params: dict[str, str]) -> Form | None:
    if media in {"*/*", "application/*", JSON}:
        media = JSON
    elif media in {YAML, "text/yaml"}:
        media = YAML
    else:
        return None
    shape = params.get("as", "")
    if shape not in {"", "Table", PARTIAL, PARTIAL_LIST}:
        return (
            None
            if shape != "APIGroupDiscoveryList"
            else Form(media, shape, params.get("v", ""), params.get("g", ""))
        )
    if shape and (params.get("g", ""), params.get("v", "")) not in SHAPE_VERSIONS:
        return None
    return Form(media, shape, params.get("v", ""), params.get("g", ""))


def form_of(call: Call) -> Form:
    """Return the form a call's answer takes."""
    header = call.request.headers.get("accept", "")
    form = accept(header)
    if form is None and not _names_a_media(header):
        raise StatusError(406, "NotAcceptable", NOTHING_OFFERED, {})
    if form is None or form.shape == "APIGroupDiscoveryList":
        raise not_acceptable(OFFERED)
    return form


def _names_a_media(header: str) -> bool:
    """Say whether any part of an Accept header names a media type that is offered, in whatever shape."""
    return any(_form(part.partition(";")[0].strip().lower(), {}) is not None for part in header.split(","))


def render_object(call: Call, stored: bytes, code: int) -> Response:
    """Answer with one object."""
    form = form_of(call)
    if form.plain:
        return Response(code, call.kind.present(stored))
    if form.shape == "Table":
        from echelon.hub.tables import table_of  # noqa: PLC0415 - most answers are not tables

        obj = call.kind.read(stored)
        table = table_of(call, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        return document(in_shape(form, table), code, form)
    if form.shape == PARTIAL_LIST:
        what = f"*{go_package(call.kind)}.{'Unstructured' if call.kind.custom else call.kind.kind}"
        why = f"you requested {PARTIAL_LIST}, but the requested object is not a list ({what})"
        raise StatusError(406, "NotAcceptable", why)
    if form.shape:
        return document(in_shape(form, partial(call.kind.read(stored))), code, form)
    return document(msgspec.json.decode(call.kind.present(stored)), code, form)


def in_shape(form: Form, obj: Json) -> Json:
    """Return a table or metadata in the version of it that was asked for."""
    return {**obj, "apiVersion": f"meta.k8s.io/{form.version}"} if form.version else obj


def partial(obj: Json) -> Json:
    """Return an object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


SHORT_WORDS = frozenset("yYnN")
"""What YAML of old takes for yes and no, and PyYAML does not."""


class _Dumper(yaml.CSafeDumper):
    """Writes YAML as Go does: no anchors, double quotes where quotes are needed, blocks for lines."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of whatever
        return True

    def text(self, value: str) -> yaml.ScalarNode:
        """Write a string."""
        tag = self.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
        plain = tag == "tag:yaml.org,2002:str" and value not in SHORT_WORDS
        style = "|" if "\n" in value else None if plain else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", value, style)


_Dumper.add_representer(str, _Dumper.text)


def document(value: Any, code: int = 200, form: Form = PLAIN) -> Response:
    """Answer with a document that is not stored."""
    if form.media == YAML:
        return Response(code, yaml.dump(value, Dumper=_Dumper, allow_unicode=True).encode(), YAML)
    return Response(code, encode(value))


def go_package(kind: Kind) -> str:
    """Name the package of a kind as its server's words do."""
    if kind.custom:
        return "unstructured"
    return kind.group.partition(".")[0] or "core"


def list_kind(kind: Kind, form: Form) -> tuple[str, str]:
    """Return apiVersion and kind of a list."""
    if form.shape == PARTIAL:
        what = f"you requested {PARTIAL}, but the requested object is a list (*{go_package(kind)}.{kind.list_kind})"
        raise StatusError(406, "NotAcceptable", what)
    if form.shape:
        return "meta.k8s.io/v1", PARTIAL_LIST
    return kind.api_version, kind.list_kind

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
from echelon.hub.status import not_acceptable

Json = dict[str, Any]
JSON = "application/json"
YAML = "application/yaml"
OFFERED = [JSON, YAML, "application/vnd.kubernetes.protobuf", "application/cbor"]


@dataclass(slots=True, frozen=True)
class Form:
    """How to render: media type, and the kind to render as."""

    media: str = JSON
    shape: str = ""
    """"", "Table" or "PartialObjectMetadata"."""
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
    if shape in {"PartialObjectMetadataList", "PartialObjectMetadata"}:
        shape = "PartialObjectMetadata"
    elif shape not in {"", "Table"}:
        return (
            None
            if shape != "APIGroupDiscoveryList"
            else Form(media, shape, params.get("v", ""), params.get("g", ""))
        )
    return Form(media, shape, params.get("v", ""), params.get("g", ""))


def form_of(call: Call) -> Form:
    """Return the form a call's answer takes."""
    form = accept(call.request.headers.get("accept", ""))
    if form is None or form.shape == "APIGroupDiscoveryList":
        raise not_acceptable(OFFERED)
    return form


def render_object(call: Call, stored: bytes, code: int) -> Response:
    """Answer with one object."""
    form = form_of(call)
    if form.plain:
        return Response(code, call.kind.present(stored))
    if form.shape == "Table":
        from echelon.hub.tables import table_of  # noqa: PLC0415 - most answers are not tables

        obj = call.kind.read(stored)
        return document(
            table_of(call, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}), code, form
        )
    if form.shape:
        return document(partial(call.kind.read(stored)), code, form)
    return document(msgspec.json.decode(call.kind.present(stored)), code, form)


def partial(obj: Json) -> Json:
    """Return an object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def document(value: Any, code: int = 200, form: Form = PLAIN) -> Response:
    """Answer with a document that is not stored."""
    if form.media == YAML:
        return Response(code, yaml.dump(value, Dumper=yaml.CSafeDumper).encode(), YAML)
    return Response(code, encode(value))


def list_kind(kind: Kind, form: Form) -> tuple[str, str]:
    """Return apiVersion and kind of a list."""
    if form.shape == "PartialObjectMetadata":
        return "meta.k8s.io/v1", "PartialObjectMetadataList"
    return kind.api_version, kind.list_kind

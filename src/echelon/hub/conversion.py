"""What a conversion webhook may answer: pure checks of a ConversionReview, in kube-apiserver's words.

What it must never do: call anybody. A webhook may change what it likes of an object but its identity; of
the metadata it may change labels and annotations.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Json = dict[str, Any]

SPOKEN = ("v1", "v1beta1")
"""Versions of ConversionReview that are spoken; the first that a definition names is used."""

_IDENTITY = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))


class ConversionError(Exception):
    """An object could not be converted."""


class Conversion(NamedTuple):
    """Where a definition has its objects converted."""

    client: Json
    version: str


def conversion_of(spec: Json) -> Conversion | None:
    """Return the webhook of a definition, if it has one."""
    given = spec.get("conversion") or {}
    if given.get("strategy") != "Webhook":
        return None
    hook = given.get("webhook") or {}
    named = hook.get("conversionReviewVersions") or ()
    version = next((one for one in named if one in SPOKEN), SPOKEN[0])
    return Conversion(hook.get("clientConfig") or {}, version)


def check_answer(answer: Json, review: Json, wanted: str, kind: str) -> list[Json]:
    """Return the converted objects of an answer, or raise what is wrong with it."""
    given = answer.get("apiVersion") or "", answer.get("kind") or ""
    expected = f"{review['apiVersion']}, Kind={review['kind']}"
    if given != (review["apiVersion"], review["kind"]):
        shown = f"{given[0] or '/'}, Kind={given[1]}"
        raise ConversionError(f"failed: expected webhook response of {expected}, got {shown}")
    response, uid = answer.get("response"), review["request"]["uid"]
    if not isinstance(response, dict):
        raise ConversionError("failed: no response provided")
    if response.get("uid") != uid:
        raise ConversionError(f'failed: expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        said = result.get("message")
        status = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise ConversionError(f"failed: {said or status}")
    made = response.get("convertedObjects") or []
    count = len(review["request"]["objects"])
    if len(made) != count:
        raise ConversionError(f"returned {len(made)} objects, expected {count}")
    for index, obj in enumerate(made):
        _check_type(index, obj, wanted, kind)
    return list(made)


def _check_type(index: int, obj: Any, wanted: str, kind: str) -> None:
    """Refuse an object of another version or kind than was asked for."""
    where = f"returned invalid object at index {index}: "
    given = obj if isinstance(obj, dict) else {}
    version = given.get("apiVersion") or ""
    if version != wanted:
        raise ConversionError(f"{where}invalid groupVersion (expected {wanted}, received {version})")
    if given.get("kind") != kind:
        raise ConversionError(f"{where}invalid kind (expected {kind}, received {given.get('kind') or ''})")


def restored(before: Json, after: Json) -> Json:
    """Return a converted object with the metadata it had, but for labels and annotations."""
    was = before["metadata"]
    given = after.get("metadata")
    now: Json = given if isinstance(given, dict) else {}
    for field, called in _IDENTITY:
        if (now.get(field) or "") != (was.get(field) or ""):
            why = f"must have the same {called}: {was.get(field) or ''} != {now.get(field) or ''}"
            raise ConversionError(f"returned invalid object: {why}")
    meta = {key: value for key, value in was.items() if key not in ("labels", "annotations")}
    for field in ("labels", "annotations"):
        if now.get(field):
            meta[field] = now[field]
    return {**after, "metadata": meta}

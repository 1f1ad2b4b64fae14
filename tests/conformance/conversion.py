"""How the suite's conversion webhook turns one version of its kind into another.

v1 keeps an address in one field, `spec.address: "host:port"`; every other version in two, `spec.host` and `spec.port`.
"""

from __future__ import annotations

import copy
from typing import Any

Json = dict[str, Any]


def converted(obj: Json, wanted: str, how: Any) -> Json:
    """Returns an object in the wanted version; `how` is true, or names what to spoil."""
    made = copy.deepcopy(obj)
    made["apiVersion"] = wanted
    spec = made.get("spec")
    if isinstance(spec, dict):
        made["spec"] = _to_v1(spec) if wanted.endswith("/v1") else _from_v1(spec)
    spoil = SPOILT.get(how)
    if spoil is not None:
        spoil(made)
    return made


def _to_v1(spec: Json) -> Json:
    """Joins host and port."""
    rest = {key: value for key, value in spec.items() if key not in ("host", "port")}
    return rest | ({"address": f"{spec['host']}:{spec.get('port', 0)}"} if "host" in spec else {})


def _from_v1(spec: Json) -> Json:
    """Parts the address."""
    rest = {key: value for key, value in spec.items() if key != "address"}
    if "address" not in spec:
        return rest
    host, _, port = spec["address"].rpartition(":")
    return rest | {"host": host, "port": int(port)}


def _named(made: Json) -> None:
    made["metadata"]["name"] += "-other"


def _moved(made: Json) -> None:
    made["metadata"]["namespace"] = "elsewhere"


def _reborn(made: Json) -> None:
    made["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"


def _bare(made: Json) -> None:
    del made["metadata"]


def _labelled(made: Json) -> None:
    made["metadata"].setdefault("labels", {})["seen-as"] = made["apiVersion"].rpartition("/")[2]
    made["metadata"].setdefault("annotations", {})["seen-as"] = made["apiVersion"].rpartition("/")[2]
    made["metadata"]["finalizers"] = ["not.taken/over"]
    made["metadata"]["generation"] = 99


def _of_another_version(made: Json) -> None:
    made["apiVersion"] = made["apiVersion"].rpartition("/")[0] + "/v0"


def _of_another_kind(made: Json) -> None:
    made["kind"] = "Else"


def _padded(made: Json) -> None:
    made["spec"] = {**made.get("spec", {}), "unknown": "field"}


SPOILT = {
    "named": _named,
    "moved": _moved,
    "reborn": _reborn,
    "bare": _bare,
    "labelled": _labelled,
    "versioned": _of_another_version,
    "kinded": _of_another_kind,
    "padded": _padded,
}
"""By the word a sequence uses: what a webhook may do wrong, or may do."""

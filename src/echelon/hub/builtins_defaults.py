"""Defaults of built-in kinds that need no more than "if absent, set": data, walked by definition.

What it does: compiles the rules of `data/builtin.json` into one defaulter per
definition and applies them to a decoded object in place.

What it must never do: compute; what depends on more than a rule is in
`builtins_computed`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from echelon.hub import builtins
from echelon.hub.quantities import canonical
from echelon.hub.schema_prune import copy_json

Json = dict[str, Any]

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_EMPTY = (None, "", 0, False)


class Defaulter:
    """The rules of one definition, and the fields whose definitions have rules."""

    __slots__ = ("always", "amounts", "children", "conditional", "has_amounts", "status")

    def __init__(self) -> None:
        self.always: list[tuple[str, Any, bool]] = []
        self.conditional: list[Json] = []
        self.children: list[tuple[str, str, Defaulter]] = []
        """Field, shape (one, list or map of them) and the defaulter of what is there."""
        self.amounts: list[tuple[str, bool]] = []
        """Fields that are quantities, and whether they are maps of them."""
        self.has_amounts = False
        """Whether there are quantities here or below."""
        self.status: Json | None = None

    def apply(self, obj: Json, root: str, key: str = "") -> None:
        """Fill in an object of this definition; `root` is the kind of the whole, `key` the field it is in."""
        sent = set(obj) if self.conditional else ()
        filled = {name for name in sent if not _is_empty(obj[name])}
        for field, value, zero in self.always:
            if field not in obj or obj[field] is None or (zero and obj[field] in ("", 0)):
                obj[field] = copy_json(value)
        for rule in self.conditional:
            if obj.get(rule["field"]) is None and _holds(rule, obj, root, key, filled, sent):
                obj[rule["field"]] = copy_json(rule["value"])
        for field, shape, child in self.children:
            for item in _items(obj.get(field), shape):
                child.apply(item, root, field)

    def canonical(self, obj: Json) -> None:
        """Write quantities as they are stored: `1000m` as `1`."""
        for field, many in self.amounts:
            amount = obj.get(field)
            if many and amount.__class__ is dict:
                obj[field] = {name: canonical(each) for name, each in amount.items()}
            elif amount is not None and not many:
                obj[field] = canonical(amount)
        for field, shape, child in self.children:
            if child.has_amounts:
                for item in _items(obj.get(field), shape):
                    child.canonical(item)


def _items(value: Any, shape: str) -> list[Json]:
    """Return the objects of a field that may hold one, a list or a map of them."""
    if shape == "one":
        return [value] if value.__class__ is dict else []
    if not value:
        return []
    return [item for item in (value if shape == "list" else value.values()) if item.__class__ is dict]


def _is_empty(value: Any) -> bool:
    return value in _EMPTY or value in ({}, [])


def _holds(rule: Json, obj: Json, root: str, key: str, filled: Any, sent: Any) -> bool:
    if rule.get("root", root) != root:
        return False
    for condition in rule.get("when", ()):
        if "only" in condition:
            if not set(sent) <= set(condition["only"]):
                return False
        elif "key" in condition:
            if condition["key"] != key:
                return False
        elif "in" in condition:
            if obj.get(condition["field"]) not in condition["in"]:
                return False
        elif (condition["field"] in filled) is not condition["sent"]:
            return False
    return True


@lru_cache(maxsize=1)
def _rules() -> dict[str, Defaulter]:
    found: dict[str, Defaulter] = {}
    kinds = {name for name, node in definitions().items() if "x-kubernetes-group-version-kind" in node}
    for rule in builtins.data()["defaults"]:
        own = found.setdefault(rule["definition"], Defaulter())
        if rule["field"] == "status" and rule["definition"] in kinds:
            own.status = rule["value"]
        else:
            own.always.append((rule["field"], rule["value"], bool(rule.get("zero"))))
    for rule in builtins.data()["conditionalDefaults"]:
        found.setdefault(rule["definition"], Defaulter()).conditional.append(rule)
    return found


def definitions() -> Json:
    """Return the built-in definitions."""
    return builtins.data()["definitions"]  # type: ignore[no-any-return]


_made: dict[str, Defaulter | None] = {}


def defaulter(name: str) -> Defaulter | None:
    """Return the defaulter of a definition, or None if neither it nor anything below has a rule."""
    if name not in _made:
        _link(name, ())
    return _made[name]


def _link(name: str, above: tuple[str, ...]) -> Defaulter | None:
    """Connect a definition's rules with those below; recursive definitions have none, so they end."""
    if name in _made:
        return _made[name]
    if name in above:
        return None
    own = _rules().get(name) or Defaulter()
    for field, child in (definitions().get(name, {}).get("properties") or {}).items():
        aim, shape = target(child)
        if aim == QUANTITY:
            own.amounts.append((field, shape == "map"))
            continue
        below = _link(aim, (*above, name)) if aim else None
        if below is not None:
            own.children.append((field, shape, below))
    own.has_amounts = bool(own.amounts) or any(child.has_amounts for _, _, child in own.children)
    useful = own.always or own.conditional or own.children or own.amounts or own.status is not None
    _made[name] = own if useful else None
    return _made[name]


def target(node: Json) -> tuple[str, str]:
    """Return the definition that a field leads to, if any, and whether by itself, in a list or in a map."""
    if "$ref" in node:
        return node["$ref"], "one"
    for field, shape in (("items", "list"), ("additionalProperties", "map")):
        inner = node.get(field)
        if isinstance(inner, dict) and "$ref" in inner:
            return inner["$ref"], shape
    return "", ""


def apply(definition: str, kind: str, obj: Json) -> None:
    """Fill in the defaults of an object of a built-in kind."""
    found = defaulter(definition)
    if found is not None:
        found.apply(obj, kind)


def canonical_amounts(definition: str, obj: Json) -> None:
    """Write the quantities of an object of a built-in kind as they are stored."""
    found = defaulter(definition)
    if found is not None and found.has_amounts:
        found.canonical(obj)


def status_at_birth(definition: str) -> Json | None:
    """Return the status that a new object of a kind has, whatever the request said."""
    found = defaulter(definition)
    return copy_json(found.status) if found is not None and found.status is not None else None

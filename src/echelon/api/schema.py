"""How a field tells what a Python type cannot: the small vocabulary the CRD generator reads.

Every field of an API type is written as `name: Annotated[type, doc("what it means", **facts)]`. The type says
shape, the description teaches (`kubectl explain` prints it), and the facts are what the API server enforces:
limits, patterns, list types, CEL rules. Facts are never checked while decoding: an object that the server has
stored is read as it is, and a rule of the server is not paid for twice.

Two kinds of default exist, and both are always written out when an object is encoded, because that is how a
server stores them:
- `server_default(x)`: the CRD declares the default, so a user may leave the field out;
- `always(x)`: the CRD requires the field; the default only spares our own code from spelling it.
Any other default (None, "", 0, False, an empty tuple or mapping) means "absent" and is left out.
"""

from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec

T = TypeVar("T")
ScopeName = Literal["Cluster", "Namespaced"]


class Cel(NamedTuple):
    """A validation rule that the API server evaluates, and the message a user sees when it is broken."""

    rule: str
    message: str
    only: ScopeName | None = None  # the rule exists only on the kind of this scope


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """The base of everything that travels: immutable, camelCase on the wire, absent when empty.

    Unknown fields are ignored on decoding; writers send patches, so those fields survive in the store.
    `gc=False` is safe because decoded JSON has no cycles, and it keeps a big cache cheap to hold.
    """


class ServerDefault:
    """Marks a default that the CRD declares."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self) -> Any:
        """Return the default (msgspec calls this for an absent field)."""
        return self.value


class Always(ServerDefault):
    """Marks a default of our own for a field that the CRD requires."""


def server_default(value: T) -> T:
    """Declare a default that the API server fills in."""
    return cast("T", msgspec.field(default_factory=ServerDefault(value)))


def always(value: T) -> T:
    """Declare a required field that our own code may leave to this value."""
    return cast("T", msgspec.field(default_factory=Always(value)))


def doc(
    description: str,
    *,
    cel: tuple[Cel, ...] = (),
    only: ScopeName | None = None,
    required: bool = False,
    **facts: Any,
) -> msgspec.Meta:
    """Describe a field: the words, then the facts a type cannot express.

    Facts are OpenAPI and Kubernetes keywords in snake_case: `max_length`, `pattern`, `minimum`, `max_items`,
    `format`, `list_map_keys` (a list merged by these keys), `atomic` (a list replaced as a whole), `preserve_unknown_fields`,
    `embedded_resource`; `item_*` facts belong to the items of a list or the values of a map.
    `only` names the scope whose kind has the field; `required` is for fields that also have a default.
    """
    extra: dict[str, Any] = dict(facts)
    if cel:
        extra["cel"] = cel
    if only:
        extra["only"] = only
    if required:
        extra["required"] = True
    return msgspec.Meta(description=description, extra=extra)

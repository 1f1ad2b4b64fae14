"""What every Kubernetes object shares: metadata, conditions, selectors, quantities of "a number or a percentage".

Holds shapes only. `managedFields` are dropped on decoding (no rule may depend on them); everything else of the
standard metadata is kept. A field whose absence and emptiness mean the same is plain and empty by default; a field
where the difference matters is `X | None`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec

from echelon.api.schema import Wire, doc

# Python's spelling of "int or string" (maxConcurrency, maxUnavailable): 2 or "25%".
IntOrString: TypeAlias = int | str
# A cpu or memory amount: usually text such as "500m" or "2Gi"; a bare number is also accepted.
Quantity: TypeAlias = int | float | str
# An aware moment; a timestamp without a time zone is refused on decoding.
Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
# An object of somebody else's kind, kept as it is.
Manifest: TypeAlias = dict[str, Any]

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]
TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"

MAX_CONDITION_MESSAGE = 32768  # the API server's own limit; a longer message would make the write fail
MAX_CONDITION_REASON = 1024  # likewise
CONDITION_REASON_PATTERN = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
CONDITION_TYPE_PATTERN = (
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


class Condition(Wire, frozen=True, kw_only=True):
    """One observation about an object, in the standard Kubernetes shape."""

    type: Annotated[
        str,
        doc(
            "Which aspect this condition reports, for example Available. One entry per type.",
            max_length=316,
            pattern=CONDITION_TYPE_PATTERN,
        ),
    ]
    status: Annotated[
        ConditionStatus,
        doc(
            "Whether the aspect holds: True, False, or Unknown while it is not decided yet.",
            enum=(TRUE, FALSE, UNKNOWN),  # in this order: error messages list it
        ),
    ]
    observed_generation: Annotated[
        int,
        doc(
            "The metadata.generation that was looked at. When it is behind metadata.generation, the condition "
            "speaks about an older spec and must not be trusted for the current one.",
            format="int64",
            minimum=0,
        ),
    ] = 0
    last_transition_time: Annotated[
        Time, doc("When the status last changed from one value to another (not when it was last checked).")
    ]
    reason: Annotated[
        str,
        doc(
            "Why, as one word in CamelCase that programs can compare.",
            min_length=1,
            max_length=MAX_CONDITION_REASON,
            pattern=CONDITION_REASON_PATTERN,
        ),
    ]
    message: Annotated[str, doc("Why, for people. May be empty.", max_length=MAX_CONDITION_MESSAGE)]


Conditions: TypeAlias = tuple[Condition, ...]


class OwnerReference(Wire, frozen=True, kw_only=True):
    """Points at the object whose deletion deletes this one."""

    api_version: str
    kind: str
    name: str
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire, frozen=True, kw_only=True):
    """Standard object metadata, without managedFields."""

    name: str = ""
    generate_name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def is_deleting(self) -> bool:
        """Whether deletion was asked for (finalizers may still hold the object)."""
        return self.deletion_timestamp is not None


class Object(Wire, frozen=True, kw_only=True):
    """The base of every kind of ours. `kind` tells the cluster-scoped and the namespaced twin apart."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str | None:
        """The object's namespace; None for a cluster-scoped object."""
        return self.metadata.namespace or None


class LabelSelectorRequirement(Wire, frozen=True, kw_only=True):
    """One expression of a label selector."""

    key: Annotated[str, doc("The label's key.")]
    operator: Annotated[
        str,
        doc("How the label is compared: In, NotIn (with values), Exists or DoesNotExist (without values)."),
    ]
    values: Annotated[
        tuple[str, ...],
        doc("The values to compare with. Required for In and NotIn, else empty.", atomic=True),
    ] = ()


class LabelSelector(Wire, frozen=True, kw_only=True):
    """Picks objects by label. Everything given must hold; an empty selector picks everything."""

    ATOMIC: ClassVar = True  # half of two writers' selectors is nobody's intent

    match_labels: Annotated[
        Mapping[str, str], doc("Labels that must be present with exactly these values.")
    ] = {}
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...],
        doc("Further requirements on labels; all of them must hold.", atomic=True),
    ] = ()


class NamespacedName(Wire, frozen=True, kw_only=True):
    """Names an object together with its namespace."""

    name: Annotated[str, doc("The name.")]
    namespace: Annotated[str, doc("The namespace it is in.")]


@lru_cache(maxsize=16)  # one decision rounds the same moment once for every condition it writes
def timestamp(now: datetime) -> datetime:
    """Round a moment down to the second in UTC: the precision in which Kubernetes stores times."""
    return now.astimezone(UTC).replace(microsecond=0)

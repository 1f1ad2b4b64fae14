"""Member clusters: who belongs to the fleet, and what their agents report.

Shapes only. A MemberCluster is what people write; its InternalMemberCluster is the desk on the hub where hub and
agent exchange requests and reports.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from echelon.api.meta import Conditions, Object, Quantity, Time
from echelon.api.names import TaintEffect, ValidationMode
from echelon.api.schema import Wire, doc, server_default

QUANTITY_PATTERN = (
    "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))"
    "(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$"
)
MAX_HEARTBEAT_S = 600  # a member that reports less often would count as lost most of the time


class Identity(Wire, frozen=True, kw_only=True):
    """Who the member's agent is on the hub."""

    ATOMIC: ClassVar = True  # a subject is one thing

    kind: Annotated[str, doc("User, Group or ServiceAccount.")]
    name: Annotated[str, doc("The name of the user, group or service account.")]
    api_group: Annotated[
        str, doc("The API group of the subject; may be left out, it follows from the kind.")
    ] = ""
    namespace: Annotated[str, doc("The namespace of a service account.")] = ""


class Taint(Wire, frozen=True, kw_only=True):
    """Keeps placements away unless they tolerate it."""

    key: Annotated[str, doc("The taint's key.")]
    value: Annotated[str, doc("The taint's value.")] = ""
    effect: Annotated[
        TaintEffect,
        doc("NoSchedule: the cluster is not picked anew; what is already there stays."),
    ]


class DeleteOptions(Wire, frozen=True, kw_only=True):
    """How carefully a member is removed."""

    validation_mode: Annotated[
        ValidationMode,
        doc("Strict refuses the deletion while the member still exports services, Skip does not ask."),
    ] = server_default(ValidationMode.STRICT)


class PropertyValue(Wire, frozen=True, kw_only=True):
    """A property of a cluster."""

    value: Annotated[str, doc("The value, usually a quantity.")]
    observation_time: Annotated[Time, doc("When it was observed.")]


class ResourceUsage(Wire, frozen=True, kw_only=True):
    """How much a cluster has."""

    capacity: Annotated[
        Mapping[str, Quantity],
        doc("What all nodes have.", item_pattern=QUANTITY_PATTERN),
    ] = {}
    allocatable: Annotated[
        Mapping[str, Quantity],
        doc("What pods may use of it.", item_pattern=QUANTITY_PATTERN),
    ] = {}
    available: Annotated[
        Mapping[str, Quantity],
        doc("What is left of that after the requests of running pods.", item_pattern=QUANTITY_PATTERN),
    ] = {}
    observation_time: Annotated[Time | None, doc("When it was observed.")] = None


class AgentStatus(Wire, frozen=True, kw_only=True):
    """What one agent of the member reports."""

    type: Annotated[str, doc("Which agent: MemberAgent, or an agent for multi-cluster networking.")]
    conditions: Annotated[
        Conditions,
        doc("Joined, and Healthy (the member's API server answers).", list_map_keys=("type",)),
    ] = ()
    last_received_heartbeat: Annotated[
        Time | None,
        doc("When the agent last reported. An old time means that hub and member are not connected."),
    ] = None


class MemberClusterSpec(Wire, frozen=True, kw_only=True):
    """Who the member is and how it is treated."""

    identity: Annotated[
        Identity,
        doc(
            "Who the member's agent is on the hub; it gets access to the member's own namespace only.",
        ),
    ]
    heartbeat_period_seconds: Annotated[
        int,
        doc("How often the agent reports, in seconds.", format="int32", minimum=1, maximum=MAX_HEARTBEAT_S),
    ] = server_default(60)
    taints: Annotated[
        tuple[Taint, ...], doc("Keep placements away unless they tolerate them.", max_items=100)
    ] = ()
    delete_options: Annotated[DeleteOptions | None, doc("How carefully the member is removed.")] = None


class MemberClusterStatus(Wire, frozen=True, kw_only=True):
    """What is known about the member."""

    conditions: Annotated[
        Conditions,
        doc(
            "ReadyToJoin: the hub is prepared. Joined: all agents have joined. Others come from the agent's "
            "collection of properties.",
            list_map_keys=("type",),
        ),
    ] = ()
    properties: Annotated[
        Mapping[str, PropertyValue],
        doc("Properties by name, for example kubernetes-fleet.io/node-count; policies can compare them."),
    ] = {}
    resource_usage: Annotated[ResourceUsage | None, doc("How much the cluster has.")] = None
    namespaces: Annotated[
        Mapping[str, str],
        doc("The namespaces of the member, each with the AppliedWork that owns it, or empty."),
    ] = {}
    agent_status: Annotated[tuple[AgentStatus, ...], doc("What the member's agents report.")] = ()


class MemberCluster(Object, frozen=True, kw_only=True):
    """A cluster that belongs to the fleet."""

    spec: Annotated[MemberClusterSpec, doc("Who the member is and how it is treated.")]
    status: Annotated[MemberClusterStatus | None, doc("What is known about the member.")] = None


class InternalMemberClusterSpec(Wire, frozen=True, kw_only=True):
    """What the hub asks of the agent."""

    state: Annotated[str, doc("Join: report and apply Works. Leave: stop doing so.")]
    heartbeat_period_seconds: Annotated[
        int,
        doc("How often the agent reports, in seconds.", format="int32", minimum=1, maximum=MAX_HEARTBEAT_S),
    ] = server_default(60)


class InternalMemberClusterStatus(Wire, frozen=True, kw_only=True):
    """What the agent reports."""

    conditions: Annotated[Conditions, doc("How the collection of properties went.")] = ()
    properties: Annotated[Mapping[str, PropertyValue], doc("Properties of the cluster by name.")] = {}
    resource_usage: Annotated[ResourceUsage | None, doc("How much the cluster has.")] = None
    namespaces: Annotated[
        Mapping[str, str],
        doc("The namespaces of the member, each with the AppliedWork that owns it, or empty."),
    ] = {}
    agent_status: Annotated[tuple[AgentStatus, ...], doc("What the agents report about themselves.")] = ()


class InternalMemberCluster(Object, frozen=True, kw_only=True):
    """The desk between hub and agent, in the member's namespace on the hub."""

    spec: Annotated[InternalMemberClusterSpec, doc("What the hub asks of the agent.")]
    status: Annotated[InternalMemberClusterStatus | None, doc("What the agent reports.")] = None

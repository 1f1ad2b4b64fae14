"""Cluster profiles: what tools outside the fleet can learn about a member, in the shape of the cluster inventory API.

Shapes only.
"""

from typing import Annotated

from echelon.api.meta import Conditions, Manifest, Object, Time
from echelon.api.schema import Cel, Wire, doc


class ClusterManager(Wire, frozen=True, kw_only=True):
    """Who looks after the cluster."""

    name: Annotated[str, doc("The cluster manager's name.")]


class ClusterProfileSpec(Wire, frozen=True, kw_only=True):
    """Which cluster this is."""

    display_name: Annotated[str, doc("The cluster's name for people.")] = ""
    cluster_manager: Annotated[
        ClusterManager,
        doc(
            "Who looks after the cluster. Cannot be changed.",
            cel=(Cel("self == oldSelf", "ClusterManager is immutable"),),
        ),
    ]


class ClusterVersion(Wire, frozen=True, kw_only=True):
    """What the cluster runs."""

    kubernetes: Annotated[str, doc("The version of Kubernetes.")] = ""


class ProfileProperty(Wire, frozen=True, kw_only=True):
    """One property of the cluster."""

    name: Annotated[str, doc("The property's name.", min_length=1, max_length=253)]
    value: Annotated[str, doc("The property's value.", min_length=1, max_length=1024)]
    last_observed_time: Annotated[Time | None, doc("When it was observed.")] = None


class NamedExtension(Wire, frozen=True, kw_only=True):
    """Further information for one tool."""

    name: Annotated[str, doc("Who the information is for.")]
    extension: Annotated[
        Manifest, doc("The information, in a form of that tool's choice.", preserve_unknown_fields=True)
    ]


class ClusterEndpoint(Wire, frozen=True, kw_only=True, rename="kebab"):
    """How to reach an API server, in the shape of a kubeconfig's cluster entry (hence the dashes)."""

    server: Annotated[str, doc("The address of the API server.")]
    tls_server_name: Annotated[str, doc("The name to check the server's certificate against.")] = ""
    insecure_skip_tls_verify: Annotated[
        bool, doc("Do not check the server's certificate. Never do this outside a test.")
    ] = False
    certificate_authority: Annotated[str, doc("A file with the certificates to trust.")] = ""
    certificate_authority_data: Annotated[bytes, doc("The certificates to trust, in PEM.")] = b""
    proxy_url: Annotated[str, doc("A proxy to go through.")] = ""
    disable_compression: Annotated[bool, doc("Do not ask for compressed answers.")] = False
    extensions: Annotated[tuple[NamedExtension, ...], doc("Further information for tools.")] = ()


class AccessProvider(Wire, frozen=True, kw_only=True):
    """One way to get access to the cluster."""

    name: Annotated[str, doc("The way's name, which tells a client which plugin to use.")]
    cluster: Annotated[ClusterEndpoint | None, doc("How to reach the cluster that way.")] = None


class ClusterProfileStatus(Wire, frozen=True, kw_only=True):
    """What is known about the cluster."""

    conditions: Annotated[
        Conditions, doc("ControlPlaneHealthy: whether the member's agent says that its API server is well.")
    ] = ()
    version: Annotated[ClusterVersion | None, doc("What the cluster runs.")] = None
    properties: Annotated[tuple[ProfileProperty, ...], doc("Properties of the cluster.")] = ()
    access_providers: Annotated[tuple[AccessProvider, ...], doc("Ways to get access to the cluster.")] = ()
    credential_providers: Annotated[
        tuple[AccessProvider, ...], doc("The former name of accessProviders, for old readers.")
    ] = ()


class ClusterProfile(Object, frozen=True, kw_only=True):
    """Describes one member to tools that know the cluster inventory API."""

    spec: Annotated[ClusterProfileSpec, doc("Which cluster this is.")]
    status: Annotated[ClusterProfileStatus | None, doc("What is known about the cluster.")] = None

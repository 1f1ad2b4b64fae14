"""Says which processes a lab consists of and with which arguments; starts none of them.

One etcd serves all control planes, each below a key prefix of its own: an API server costs enough
memory as it is, and etcd keeps the planes apart as cleanly as it keeps keys apart. The hub is an
API server with a controller manager, so that namespaces end, owners' dependents are collected and
service accounts appear. A member has a scheduler and kwok besides: pods land on simulated nodes and
become ready there.

Everything listens on 127.0.0.1 and asks for a client certificate of the lab's own authority.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HUB = "hub"
HOSTS = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
SERVICE_RANGE = "10.96.0.0/16"
STAGES = Path(__file__).resolve().parent / "stages.yaml"
# Enough for a run over hundreds of members' histories, small enough for a laptop's disk.
# Who asked for what, without bodies; once per request.
AUDIT_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
"""
ETCD_QUOTA_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class Health:
    """How to see that a component works: an address that answers 200."""

    url: str
    timeout_s: float = 120.0


@dataclass(frozen=True)
class Component:
    """One process of the lab."""

    name: str
    argv: list[str]
    health: Health
    needs: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """Where a lab's files are and which ports its components have."""

    dir: Path
    bin: Path
    ports: Mapping[str, int]
    audit: bool = False  # the hub notes who asked for what, for benches

    @property
    def audit_policy(self) -> Path:
        """Returns where it is written what the hub's API server notes."""
        return self.dir / "audit.yaml"

    @property
    def audit_log(self) -> Path:
        """Returns where it notes it, one JSON object a line."""
        return self.dir / "logs" / "audit.jsonl"

    def cert(self, name: str) -> str:
        """Returns the path of a certificate."""
        return str(self.dir / "pki" / f"{name}.crt")

    def key(self, name: str) -> str:
        """Returns the path of a private key."""
        return str(self.dir / "pki" / f"{name}.key")

    def url(self, component: str) -> str:
        """Returns the address of a component."""
        return f"https://127.0.0.1:{self.ports[component]}"

    def kubeconfig(self, plane: str, user: str) -> Path:
        """Returns the path of the kubeconfig that one component of one plane uses."""
        return self.dir / "kubeconfigs" / f"{plane}-{user}.yaml"


def planes_of(member_count: int) -> list[str]:
    """Names the control planes of a lab."""
    return [HUB, *(f"member{number}" for number in range(1, member_count + 1))]


def is_member(plane: str) -> bool:
    """Tells whether a plane runs workloads."""
    return plane != HUB


def agents_of(plane: str) -> list[str]:
    """Names the components of a plane beside its API server."""
    agents = ["controller-manager"]
    return [*agents, "scheduler", "kwok"] if is_member(plane) else agents


def port_names(member_count: int) -> list[str]:
    """Names every port that a lab listens on."""
    names = ["etcd", "etcd-peer"]
    for plane in planes_of(member_count):
        names.append(f"{plane}/apiserver")
        names += [f"{plane}/{agent}" for agent in agents_of(plane)]
    return names


def certificates() -> list[dict[str, object]]:
    """Lists the certificates of a lab; all planes share them, as they share the authority.

    The controller manager and the scheduler carry the identities for which the API server has
    RBAC rules of its own, so that they run with exactly the rights they have elsewhere.
    """
    masters = "system:masters"
    return [
        {"name": "server", "cn": "echelon-lab-server", "server": True},
        {"name": "etcd-client", "cn": "etcd-client"},
        {"name": "front-proxy", "cn": "front-proxy"},
        {"name": "apiserver-kubelet", "cn": "apiserver-kubelet", "org": masters},
        {"name": "admin", "cn": "lab-admin", "org": masters},
        {"name": "kwok", "cn": "kwok", "org": masters},
        {"name": "controller-manager", "cn": "system:kube-controller-manager"},
        {"name": "scheduler", "cn": "system:kube-scheduler"},
    ]


def plan_lab(layout: Layout, member_count: int) -> list[Component]:
    """Lists all components of a lab in an order in which they can be started."""
    components = [_etcd(layout)]
    for plane in planes_of(member_count):
        components.append(_apiserver(layout, plane))
        components.append(_controller_manager(layout, plane))
        if is_member(plane):
            components += [_scheduler(layout, plane), _kwok(layout, plane)]
    return components


def _etcd(layout: Layout) -> Component:
    """The store; it keeps its default of syncing every write to disk, as a real cluster does."""
    client, peer = layout.url("etcd"), layout.url("etcd-peer")
    argv = [
        str(layout.bin / "etcd"),
        "--name=lab",
        f"--data-dir={layout.dir / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=lab={peer}",
        f"--cert-file={layout.cert('server')}",
        f"--key-file={layout.key('server')}",
        f"--trusted-ca-file={layout.cert('ca')}",
        "--client-cert-auth=true",
        f"--peer-cert-file={layout.cert('server')}",
        f"--peer-key-file={layout.key('server')}",
        f"--peer-trusted-ca-file={layout.cert('ca')}",
        "--peer-client-cert-auth=true",
        f"--quota-backend-bytes={ETCD_QUOTA_BYTES}",
        "--log-level=warn",
    ]
    return Component("etcd", argv, Health(f"{client}/readyz"))


def _serving(layout: Layout, component: str) -> list[str]:
    """Arguments that the Kubernetes components share: where and as whom they serve."""
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports[component]}",
        f"--tls-cert-file={layout.cert('server')}",
        f"--tls-private-key-file={layout.key('server')}",
        "--profiling=false",
        "--v=0",
    ]


def _apiserver(layout: Layout, plane: str) -> Component:
    """An API server with admission, authorization and API groups as by default."""
    name = f"{plane}/apiserver"
    issuer = f"https://{plane}.lab.echelon.internal"
    argv = [
        str(layout.bin / "kube-apiserver"),
        *_serving(layout, name),
        "--advertise-address=127.0.0.1",
        # Endpoints may not be loopback addresses, so nobody could publish this server's.
        "--endpoint-reconciler-type=none",
        f"--etcd-servers={layout.url('etcd')}",
        f"--etcd-prefix=/{plane}",
        f"--etcd-cafile={layout.cert('ca')}",
        f"--etcd-certfile={layout.cert('etcd-client')}",
        f"--etcd-keyfile={layout.key('etcd-client')}",
        f"--client-ca-file={layout.cert('ca')}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        # Extension servers and the other components learn from these whom to believe about users.
        f"--requestheader-client-ca-file={layout.cert('ca')}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={layout.cert('front-proxy')}",
        f"--proxy-client-key-file={layout.key('front-proxy')}",
        # Simulated nodes have names that no resolver knows.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={layout.cert('ca')}",
        f"--kubelet-client-certificate={layout.cert('apiserver-kubelet')}",
        f"--kubelet-client-key={layout.key('apiserver-kubelet')}",
        f"--service-account-issuer={issuer}",
        f"--service-account-key-file={layout.dir / 'pki' / 'service-account.pub'}",
        f"--service-account-signing-key-file={layout.key('service-account')}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
    ]
    if layout.audit and plane == HUB:
        argv += [f"--audit-policy-file={layout.audit_policy}", f"--audit-log-path={layout.audit_log}"]
    return Component(name, argv, Health(f"{layout.url(name)}/readyz"), ["etcd"])


def _controller_manager(layout: Layout, plane: str) -> Component:
    """All controllers that run by default; alone, so that it need not win an election first."""
    name = f"{plane}/controller-manager"
    kubeconfig = layout.kubeconfig(plane, "controller-manager")
    argv = [
        str(layout.bin / "kube-controller-manager"),
        *_serving(layout, name),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        # The default of 20 requests a second is for many clusters on one machine; tests would wait for it.
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--use-service-account-credentials=true",
        f"--root-ca-file={layout.cert('ca')}",
        f"--service-account-private-key-file={layout.key('service-account')}",
        f"--cluster-signing-cert-file={layout.cert('ca')}",
        f"--cluster-signing-key-file={layout.key('ca')}",
    ]
    return Component(name, argv, Health(f"{layout.url(name)}/healthz"), [f"{plane}/apiserver"])


def _scheduler(layout: Layout, plane: str) -> Component:
    """The default scheduler."""
    name = f"{plane}/scheduler"
    kubeconfig = layout.kubeconfig(plane, "scheduler")
    argv = [
        str(layout.bin / "kube-scheduler"),
        *_serving(layout, name),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    ]
    return Component(name, argv, Health(f"{layout.url(name)}/healthz"), [f"{plane}/apiserver"])


def _kwok(layout: Layout, plane: str) -> Component:
    """The simulated kubelets of all nodes; how pods live and fail is written in stages.yaml."""
    name = f"{plane}/kwok"
    port = layout.ports[name]
    argv = [
        str(layout.bin / "kwok"),
        f"--kubeconfig={layout.kubeconfig(plane, 'kwok')}",
        f"--config={STAGES}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        "--node-ip=127.0.0.1",
        f"--node-port={port}",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={layout.cert('server')}",
        f"--tls-private-key-file={layout.key('server')}",
        "--cidr=10.244.0.1/16",
        "--v=WARN",
    ]
    return Component(name, argv, Health(f"{layout.url(name)}/healthz"), [f"{plane}/apiserver"])

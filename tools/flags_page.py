"""docs/kubefleet-flags.md, made from the flags themselves: what of the peer's command lines carries over, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from echelon.cli.main import echelon
from echelon.cli.peer_flags import HUB, MEMBER, PeerFlag, flags_of
from tools.pages import HEAD

OWN = frozenset(
    (
        *("kubeconfig", "context", "log-level", "log-json", "stuck-after", "allow-roles-in-envelopes"),
        *("name", "member-kubeconfig", "member-context", "help"),
    )
)
# where an agent of the peer behaves differently when the flag is left out
PEERS_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    HUB: {
        "health-probe-bind-address": "`:8081`, every interface",
        "metrics-bind-address": "`:8080`; here metrics are served beside the probes",
        "hub-api-qps": "250; here the server's own fairness decides, and at most 64 requests are under way",
        "hub-api-burst": "1000",
        "leader-elect": "`false`",
        "leader-lease-duration": "`60s`",
        "leader-renew-deadline": "`45s`",
        "leader-retry-period": "`5s`",
    },
    MEMBER: {
        "health-probe-bind-address": "`:8091`, every interface",
        "metrics-bind-address": "`:8090`; here metrics are served beside the probes",
        "hub-health-probe-bind-address": "`:8081`; here one process answers for both sides, at every address given",
        "hub-metrics-bind-address": "`:8080`",
        "hub-api-qps": "50",
        "hub-api-burst": "500",
        "member-api-qps": "250",
        "member-api-burst": "1000",
    },
}


def page() -> str:
    """Make the page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield HEAD
    yield "# Flags of KubeFleet's agents\n"
    yield "Command lines written for `hubagent` and `memberagent` work with `echelon hub-agent` and `echelon member-agent`."
    yield "A flag means the same, or has no effect and says so on stderr, or asks for something that is not there: then the"
    yield "agent does not start and says why. One dash is as good as two, and booleans are written as in Go.\n"
    for agent in (HUB, MEMBER):
        yield f"## {agent}\n"
        yield from _same(agent)
        yield from _others(agent)
    yield "## Environment of the member agent\n"
    yield "Without `--kubeconfig` the member agent reads what the peer's reads: `HUB_SERVER_URL`, `MEMBER_CLUSTER_NAME`,"
    yield "`CONFIG_PATH` (a file with a token, read again every minute), `IDENTITY_CERT` and `IDENTITY_KEY` with"
    yield "`--use-ca-auth`, `CA_BUNDLE` or `HUB_CERTIFICATE_AUTHORITY`, `HUB_KUBE_HEADER`. What is missing or contradicts"
    yield "itself is named. The cluster it runs in is its member unless `--member-kubeconfig` says otherwise."


def _same(agent: str) -> Iterator[str]:
    command = echelon.get_command(click.Context(echelon), agent)
    assert command is not None
    yield "The same:\n"
    yield "| flag | KubeFleet's default, where ours differs |\n|---|---|"
    for option in command.params:
        name = option.opts[0].removeprefix("--")
        if name in OWN or (isinstance(option, click.Option) and option.hidden):
            continue
        yield f"| `--{name}` | {PEERS_DEFAULTS[agent].get(name, '')} |"
    yield ""


def _others(agent: str) -> Iterator[str]:
    without = [flag for flag in flags_of(agent) if flag.accepts is None]
    yield "Without effect, whatever the value:\n"
    yield "| flag | why |\n|---|---|"
    yield from (f"| {_names(flag)} | {flag.why} |" for flag in without)
    yield "\nOnly with the value that holds here anyway; with any other the agent does not start:\n"
    yield "| flag | value | why |\n|---|---|---|"
    for flag in flags_of(agent):
        if flag.accepts is not None:
            values = " or ".join(f"`{value}`" if value else "empty" for value in flag.accepts)
            yield f"| {_names(flag)} | {values} | {flag.why} |"
    yield ""


def _names(flag: PeerFlag) -> str:
    return ", ".join(f"`--{name}`" for name in flag.names)

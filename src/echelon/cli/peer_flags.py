"""Flags of KubeFleet's agents that need no counterpart here, as data: what is accepted, what is refused, and why.

Flags that mean the same are ordinary flags of the agents. Of the rest, some tune machinery that does not exist here:
any value is accepted, and a line in the log says so. Others promise something: a value that cannot be honoured is
refused when the agent starts, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import click

from echelon.cli.agent_flags import Command, GoBool

HUB, MEMBER = "hub-agent", "member-agent"
BOTH = (HUB, MEMBER)


class PeerFlag(NamedTuple):
    """One flag (or several for which the same is true)."""

    names: tuple[str, ...]
    agents: tuple[str, ...]
    why: str
    accepts: tuple[str, ...] | None = None  # the values that are true here anyway; None: every value
    is_switch: bool = False  # may be written without a value, for true


def _flag(
    names: str,
    agents: str | tuple[str, ...],
    why: str,
    *accepts: str,
    is_switch: bool = False,
) -> PeerFlag:
    return PeerFlag(
        tuple(names.split()),
        (agents,) if isinstance(agents, str) else agents,
        why,
        accepts or None,
        is_switch or bool(set(accepts) & {"true", "false"}),
    )


_LOGS = "logs go to stderr, one line a thing; see --log-level and --log-json"
_SIZE = "nothing needs to be sized: an idle object costs nothing and decisions do not wait for each other"
_BACKOFF = "every object backs off by itself; a change is looked at at once, whatever failed before"
_WEBHOOK = "there is no webhook server: CRD rules and admission policies refuse inside the API server"
_AZURE = "no property provider is built in, so there is nothing for it to configure"

FLAGS: Sequence[PeerFlag] = (
    _flag("enable-v1beta1-apis", HUB, "v1beta1 is the version that is stored", "true"),
    _flag("enable-v1beta1-apis", MEMBER, "the peer ignores it too", is_switch=True),
    _flag("enable-webhook", HUB, f"{_WEBHOOK}; what must not be checked is not installed", "true"),
    _flag("webhook-client-connection-type webhook-service-name", HUB, _WEBHOOK),
    _flag("use-cert-manager", HUB, f"{_WEBHOOK}, and so no certificate", is_switch=True),
    _flag(
        "enable-guard-rail",
        HUB,
        "the policy echelon-internal-objects guards internal objects as long as it is installed",
        is_switch=True,
    ),
    _flag("whitelisted-users", HUB, "add them to the expression of the policy echelon-internal-objects", ""),
    _flag("deny-modify-member-cluster-labels", HUB, "say so with an admission policy of your own", "false"),
    _flag("enable-pdbs", HUB, "PodDisruptionBudgets may always be kept on the hub", "true"),
    _flag("enable-admission-policy-manager", HUB, "apply such policies yourself: the agent writes none", "false"),
    _flag("admission-policy-manager-config", HUB, "apply such policies yourself: the agent writes none", ""),
    _flag("networking-agents-enabled", HUB, "there are no networking agents", "false"),
    _flag("leader-election-qps leader-election-burst", HUB, "the lease has a client of its own, asked once a retry period"),
    _flag("resync-period", HUB, "nothing is looked at again for no reason; a watch that was lost is listed anew"),
    _flag("concurrent-resource-change-syncs max-fleet-size max-concurrent-cluster-placement", HUB, _SIZE),
    _flag("rate-limiter-base-delay rate-limiter-max-delay rate-limiter-qps rate-limiter-bucket-size", HUB, _BACKOFF),
    _flag("work-pending-grace-period", HUB, "the peer ignores it too"),
    _flag("enable-pprof", BOTH, "there are no Go profiles; /metrics has times and queue lengths", "false"),
    _flag("pprof-port", BOTH, "there are no Go profiles"),
    _flag("hub-pprof-port", MEMBER, "there are no Go profiles"),
    _flag("enable-work-applier-priority-queue", MEMBER, "new manifests never wait behind retries", is_switch=True),
    _flag(
        "work-applier-priority-linear-equation-coeff-a work-applier-priority-linear-equation-coeff-b",
        MEMBER,
        "new manifests never wait behind retries",
    ),
    _flag(
        " ".join(
            f"work-applier-requeue-rate-limiter-{name}"
            for name in (
                "attempts-with-fixed-delay",
                "fixed-delay-seconds",
                "exponential-base-for-slow-backoff",
                "initial-slow-backoff-delay-seconds",
                "max-slow-backoff-delay-seconds",
                "exponential-base-for-fast-backoff",
                "max-fast-backoff-delay-seconds",
            )
        ),
        MEMBER,
        "a manifest that failed is tried again after 1s, 1.5s, 2.25s ... 5m, and whenever something changes",
    ),
    _flag(
        "work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs",
        MEMBER,
        "what is available is not looked at again until it changes",
        is_switch=True,
    ),
    _flag("property-provider", MEMBER, "no property provider is built in; nodes and resources are always reported", "", "none"),
    _flag("region cloud-config", MEMBER, _AZURE),
    _flag(
        "use-cost-properties-in-azure-provider use-available-res-properties-in-azure-provider",
        MEMBER,
        _AZURE,
        is_switch=True,
    ),
    _flag("logtostderr alsologtostderr add_dir_header one_output skip_headers skip_log_headers", BOTH, _LOGS, is_switch=True),
    _flag("log_dir log_file log_file_max_size log_backtrace_at stderrthreshold vmodule", BOTH, _LOGS),
)  # fmt: skip


def flags_of(agent: str) -> list[PeerFlag]:
    """Return what one agent accepts."""
    return [flag for flag in FLAGS if agent in flag.agents]


def peer_flags(agent: str) -> Callable[[Command], Command]:
    """Add the flags to a command, hidden from its help: docs/kubefleet-flags.md lists them."""

    def add(command: Command) -> Command:
        for flag in flags_of(agent):
            for name in flag.names:
                command = _option(name, flag)(command)
        return command

    return add


def _option(name: str, flag: PeerFlag) -> Command:
    def judge(_ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value is None:
            return
        said = str(value).lower() if flag.is_switch else value
        if flag.accepts is not None and said not in flag.accepts:
            raise click.UsageError(f"--{name}={said} cannot be honoured: {flag.why}")
        click.echo(f"note: --{name} has no effect here: {flag.why}", err=True)

    form: dict[str, Any] = (
        {"type": GoBool(), "is_flag": False, "flag_value": "true"} if flag.is_switch else {}
    )
    return click.option(f"--{name}", hidden=True, expose_value=False, callback=judge, **form)

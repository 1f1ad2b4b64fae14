"""The flags both agents have, read as Go programs read theirs, so that command lines written for the peer carry over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.duration import Duration

if TYPE_CHECKING:
    from echelon.client.rate import Rate
    from echelon.runtime.lease import Timing

Command = Callable[..., Any]
DEBUG_VERBOSITY = 4  # klog's convention: 4 is debug, 5 is trace
LEVELS = ("debug", "info", "warning", "error")


class AgentCommand(click.Command):
    """A command whose flags may have one dash or two, as in Go; it has no others."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give every flag two dashes."""
        return super().parse_args(ctx, [f"-{arg}" if _has_one_dash(arg) else arg for arg in args])


def _has_one_dash(argument: str) -> bool:
    return argument.startswith("-") and not argument.startswith("--") and argument[1:2].isalpha()


class GoBool(click.ParamType[bool]):
    """Reads what Go's flag package takes for a boolean."""

    name = "boolean"
    words = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}  # noqa: RUF012 - a table

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Read the word."""
        if isinstance(value, bool):
            return value
        found = self.words.get(str(value).lower())
        if found is None:
            self.fail(f"'{value}' is neither true nor false", param, ctx)
        return found


def switch(name: str, variable: str, help: str, *, default: bool = False) -> Command:  # noqa: A002 - click's own word
    """Make a flag that may be written --flag, --flag=true or --flag=false."""
    return click.option(
        name,
        variable,
        type=GoBool(),
        is_flag=False,
        flag_value="true",
        default=default,
        show_default=str(default).lower(),
        metavar="[=BOOLEAN]",
        help=help,
    )


def added(command: Command, *options: Command) -> Command:
    """Add options in the order in which help shows them."""
    for option in reversed(options):
        command = option(command)
    return command


def address(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, int] | None:
    """Read HOST:PORT; a bare :PORT means every interface, 0 or nothing means none."""
    if value in {"", "0"}:
        return None
    host, _, port = value.rpartition(":")
    if not port.isdigit():
        raise click.BadParameter(f"'{value}' is not HOST:PORT")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - only when the operator leaves the host out


def bind_flag(name: str, default: str, help: str) -> Command:  # noqa: A002 - click's own word
    """Make a flag that takes an address to serve on."""
    return click.option(name, default=default, show_default=bool(default), callback=address, help=help)


def common_flags(command: Command) -> Command:
    """Add what both agents have: how to reach the hub, where to be asked, what to log."""
    return added(
        command,
        click.option(
            "--kubeconfig", envvar="KUBECONFIG", help="Kubeconfig of the hub.  [default: in-cluster]"
        ),
        click.option("--context", help="Context of the kubeconfig."),
        bind_flag(
            "--health-probe-bind-address",
            "127.0.0.1:8081",
            "Where /healthz, /readyz and /metrics are served; 0 for nowhere.",
        ),
        bind_flag("--metrics-bind-address", "", "Serve them here too, for a scraper of its own network."),
        click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True),
        click.option(
            "--v", "verbosity", type=int, default=0, help="klog's verbosity; 4 and more mean debug."
        ),
        click.option("--log-json", is_flag=True, help="One JSON object a line."),
    )


def configure_logs(given: dict[str, Any]) -> None:
    """Set logging up as the flags say."""
    from echelon.runtime.telemetry import configure_logs as configure

    level: Any = "debug" if given["verbosity"] >= DEBUG_VERBOSITY else given["log_level"]
    configure(level, as_json=given["log_json"])


def addresses(given: dict[str, Any]) -> list[tuple[str, int]]:
    """Return every address to serve on, each once."""
    found = [given[key] for key in given if key.endswith("_bind_address") and given[key] is not None]
    return list(dict.fromkeys(found))


# --- client rates -----------------------------------------------------------------------------------------------
def rate_flags(api: str) -> Callable[[Command], Command]:
    """Add the flags that limit one client: --API-qps and --API-burst."""

    def add(command: Command) -> Command:
        return added(
            command,
            click.option(
                f"--{api}-qps",
                type=float,
                default=0.0,
                show_default="no limit",
                help="Requests a second; 0 or less: no limit.",
            ),
            click.option(
                f"--{api}-burst", type=int, default=0, show_default="twice the qps", help="Requests at once."
            ),
        )

    return add


def read_rate(given: dict[str, Any], api: str) -> Rate | None:
    """Return the limit of one client, if there is one."""
    from echelon.client.rate import Rate

    variable = api.replace("-", "_")
    qps, burst = given[f"{variable}_qps"], given[f"{variable}_burst"]
    if qps <= 0:
        return None
    if burst and burst < qps:
        raise click.UsageError(f"--{api}-burst ({burst}) must not be less than --{api}-qps ({qps:g})")
    return Rate(qps, burst or max(1, round(2 * qps)))


# --- leader election ----------------------------------------------------------------------------------------------
def lease_flags(
    *, elects: bool, namespace: str, timing: tuple[str, str, str]
) -> Callable[[Command], Command]:
    """Add the flags of leader election, with an agent's own defaults."""
    duration, deadline, retry = timing

    def add(command: Command) -> Command:
        return added(
            command,
            switch("--leader-elect", "leader_elect", "Only one of several replicas works.", default=elects),
            click.option("--leader-election-namespace", default=namespace, show_default=True),
            click.option(
                "--leader-lease-duration",
                "lease_s",
                type=Duration(),
                default=duration,
                show_default=True,
                help="After which a silent leader is followed.",
            ),
            click.option(
                "--leader-renew-deadline",
                "renew_s",
                type=Duration(),
                default=deadline,
                show_default=True,
                help="After which a leader that cannot renew steps down.",
            ),
            click.option(
                "--leader-retry-period",
                "retry_s",
                type=Duration(),
                default=retry,
                show_default=True,
                help="Between two tries to take or renew the lease.",
            ),
        )

    return add


def read_lease(given: dict[str, Any]) -> Timing | None:
    """Return the timing of the lease; None when nobody is elected."""
    from echelon.runtime.lease import Timing

    if not given["leader_elect"]:
        return None
    lease_s, renew_s, retry_s = given["lease_s"], given["renew_s"], given["retry_s"]
    if not 0 < retry_s < renew_s < lease_s:
        raise click.UsageError(
            "--leader-retry-period must be less than --leader-renew-deadline, and that less than"
            f" --leader-lease-duration; they are {retry_s:g}s, {renew_s:g}s and {lease_s:g}s"
        )
    return Timing(duration_s=lease_s, renew_deadline_s=renew_s, retry_s=retry_s)

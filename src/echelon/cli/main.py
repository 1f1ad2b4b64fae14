"""The command `echelon` (also `kubectl echelon`): each command lives in its own module, imported only when called.

`--help` must answer in a blink, so nothing heavy is imported here.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, ClassVar

import click

from echelon import __version__

# command -> (module, function, one line of help shown without importing the module)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("echelon.cli.demo", "demo", "See a staged rollout from nothing to done, in a minute."),
    "up": ("echelon.cli.serve", "up", "Start a hub and simulated members on this machine."),
    "down": ("echelon.cli.serve", "down", "End what 'up' started."),
    "status": ("echelon.cli.watch", "status", "Say how a run goes; without one, what runs here."),
    "runs": ("echelon.cli.runs", "runs", "List staged update runs."),
    "get": ("echelon.cli.runs", "get", "Show one run on one screen."),
    "watch": ("echelon.cli.watch", "watch", "Watch a run until it ends."),
    "diagnose": ("echelon.cli.diagnose", "diagnose", "Say why a run does not go on, and what to do."),
    "start": ("echelon.cli.change", "start", "Start a run that is planned."),
    "stop": ("echelon.cli.change", "stop", "Stop a run; clusters under way finish."),
    "resume": ("echelon.cli.change", "resume", "Let a stopped run go on."),
    "plan": ("echelon.cli.plan", "plan", "Say what a run will do; nothing is written."),
    "diff": ("echelon.cli.history", "diff", "Compare two versions of a placement."),
    "history": ("echelon.cli.history", "history", "List a placement's versions and runs."),
    "rollback": ("echelon.cli.history", "rollback", "Roll an earlier version out again, as a new run."),
    "clusters": ("echelon.cli.members", "clusters", "List member clusters."),
    "drain": ("echelon.cli.members", "drain", "Move placements off a cluster and keep them off."),
    "uncordon": ("echelon.cli.members", "uncordon", "Let a drained cluster be picked again."),
    "completion": ("echelon.cli.complete", "completion", "Print the completion script of a shell."),
    "approvals": ("echelon.cli.approve", "approvals", "List what waits for an approval."),
    "approve": ("echelon.cli.approve", "approve", "Approve what a run waits for."),
    "sandbox": (
        "echelon.cli.sandbox",
        "sandbox",
        "Add, remove, slow down, cut off or break simulated members.",
    ),
    "hub": ("echelon.cli.hub", "hub", "Serve an empty Kubernetes API, to test anything against."),
    "hub-agent": ("echelon.cli.agents", "hub_agent", "Run the engine against a hub cluster."),
    "member-agent": ("echelon.cli.agents", "member_agent", "Run the member's side in a member cluster."),
    "install": (
        "echelon.cli.install",
        "install",
        "Install the agents into clusters, or print the manifests.",
    ),
    "uninstall": (
        "echelon.cli.install",
        "uninstall",
        "Take the agents out of clusters; definitions and objects stay.",
    ),
    "crds": ("echelon.cli.crds", "crds", "Print the custom resource definitions."),
}

# how --help groups them
SECTIONS: dict[str, tuple[str, ...]] = {
    "Try it": ("demo", "up", "down", "sandbox", "hub"),
    "Look": ("runs", "get", "watch", "status", "approvals", "diagnose", "plan", "history", "diff"),
    "Decide": ("start", "approve", "stop", "resume", "rollback"),
    "Members": ("clusters", "drain", "uncordon"),
    "Install": ("install", "uninstall", "crds", "hub-agent", "member-agent", "completion"),
}

# the syntax of kubectl fleet, accepted but not advertised
HIDDEN: dict[str, tuple[str, str, str]] = {
    "draincluster": ("echelon.cli.members", "draincluster", ""),
    "uncordoncluster": ("echelon.cli.members", "uncordoncluster", ""),
}

EXIT_ERROR = 1


class Lazy(click.Group):
    """A group that imports a command's module only when the command is used."""

    hidden_of: ClassVar[dict[str, tuple[str, str, str]]] = HIDDEN
    commands_of: ClassVar[dict[str, tuple[str, str, str]]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        del ctx
        return list(self.commands_of)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        del ctx
        row = self.commands_of.get(cmd_name) or self.hidden_of.get(cmd_name)
        if row is None:
            return None
        module, name, _ = row
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands_of[name][2]) for name in names])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Suggest the nearest command for an unknown one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.commands_of, n=1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", error.ctx) from None
            raise


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="echelon %(version)s")
def echelon() -> None:
    """Roll changes out over a fleet of Kubernetes clusters, stage by stage."""


def main() -> None:
    """Run the command line; an expected failure is one sentence on stderr, never a traceback."""
    try:
        echelon.main(prog_name="echelon", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.UsageError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        if not is_expected(error):
            raise
        click.echo(f"error: {error}{what_next(error)}", err=True)
        sys.exit(EXIT_ERROR)


def what_next(error: Exception) -> str:
    """Say what to do where the error itself cannot know it."""
    from echelon.client.errors import Unreachable

    if not isinstance(error, Unreachable):
        return ""
    return "\nIs the hub running, and is it the one you mean? See: echelon status; another hub: --kubeconfig, --context"


def is_expected(error: Exception) -> bool:
    """Tell whether an error speaks for itself."""
    from echelon.client.errors import ApiError, Unreachable
    from echelon.client.kubeconfig import ConfigError

    return isinstance(error, ApiError | Unreachable | ConfigError)


if __name__ == "__main__":
    main()

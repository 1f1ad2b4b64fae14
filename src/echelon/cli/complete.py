"""Completion: the shells' own (`echelon completion bash`), and kubectl's for `kubectl echelon` (kubectl_complete-echelon).

kubectl runs `kubectl_complete-echelon WORDS...` and expects one candidate per line and a last line `:4` (no files).
Names of runs, placements and clusters are asked of the hub, within a second; who cannot reach it gets none.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

NO_FILES = ":4"
TIMEOUT_S = 1.0  # a completion that takes longer is worse than none
SHELLS = ("bash", "zsh", "fish")
_RUN_COMMANDS = frozenset({"watch", "status", "diagnose", "start", "stop", "resume", "approve", "plan"})
_PLACEMENT_COMMANDS = frozenset({"history", "diff", "rollback"})
_CLUSTER_COMMANDS = frozenset({"drain", "uncordon"})


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
      echelon completion bash > ~/.local/share/bash-completion/completions/echelon
    For kubectl echelon nothing is needed: kubectl finds kubectl_complete-echelon on PATH.
    """
    from click.shell_completion import get_completion_class

    from echelon.cli.main import echelon

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    click.echo(kind(echelon, {}, "echelon", "_ECHELON_COMPLETE").source())


def main() -> None:
    """Answer kubectl."""
    for candidate in candidates(sys.argv[1:]):
        click.echo(candidate)
    click.echo(NO_FILES)


def candidates(words: list[str]) -> list[str]:
    """Return what may stand in the place of the last word."""
    from echelon.cli.main import COMMANDS, echelon

    *before, last = words or [""]
    if not before:
        return [name for name in COMMANDS if name.startswith(last)]
    command = echelon.get_command(click.Context(echelon), before[0])
    if command is None:
        return []
    if last.startswith("-"):
        options = [
            name
            for parameter in command.params
            if not getattr(parameter, "hidden", False)
            for name in parameter.opts
            if name.startswith("--")
        ]
        return sorted(name for name in options if name.startswith(last))
    names = _names(before)
    return sorted(name for name in names if name.startswith(last))


def _option(words: list[str], *names: str) -> str | None:
    for index, word in enumerate(words[:-1]):
        if word in names:
            return words[index + 1]
    for word in words:
        for name in names:
            if word.startswith(f"{name}="):
                return word.partition("=")[2]
    return None


def _names(before: list[str]) -> list[str]:
    """Ask the hub for names; silence is an answer too."""
    from echelon.api.own import MEMBER_CLUSTERS
    from echelon.api.scope import scope_of
    from echelon.cli.connect import Hub, with_hub
    from echelon.cli.main import is_expected

    namespace = _option(before, "-n", "--namespace")
    scope, command = scope_of(namespace), before[0]
    kinds = {
        _RUN_COMMANDS: scope.run,
        _PLACEMENT_COMMANDS: scope.placement,
        _CLUSTER_COMMANDS: MEMBER_CLUSTERS,
    }
    resource = next((kind for names, kind in kinds.items() if command in names), None)
    if resource is None:
        return []

    async def work(hub: Hub) -> Any:
        async with asyncio.timeout(TIMEOUT_S):
            return (await hub.client.list(resource, namespace if resource.namespaced else None)).items

    try:
        found = with_hub(
            work,
            kubeconfig=_option(before, "--kubeconfig"),
            context=_option(before, "--context"),
            as_user=_option(before, "--as"),
        )
    except Exception as error:
        if isinstance(error, TimeoutError) or is_expected(error):
            return []
        raise
    return [one.metadata.name for one in found]

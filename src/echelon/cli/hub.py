"""`echelon hub`: the embedded hub alone, as a test server for anything that speaks Kubernetes."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import click

from echelon.cli.serve import MAX_MEMBERS, run_loop


@click.command()
@click.option("--memory", is_flag=True, help="Keep nothing.")
@click.option(
    "--data", type=click.Path(path_type=Path, file_okay=False), help="Folder that keeps everything."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: a free one]"
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    default="kubeconfig",
    show_default=True,
    help="File to write.",
)
@click.option(
    "--members",
    type=click.IntRange(0, MAX_MEMBERS),
    default=0,
    help="Further empty clusters, member1, member2, ...",
)
def hub(memory: bool, data: Path | None, port: int, kubeconfig: Path, members: int) -> None:
    """Serve an empty Kubernetes-compatible API, without engine or workloads.

    \b
    For tests of controllers, operators and tools:
      echelon hub --memory &
      KUBECONFIG=kubeconfig kubectl get namespaces
    It says one line when it is ready, and ends with Ctrl-C.
    """
    from echelon.hub.__main__ import run
    from echelon.hub.sqlite import DataInUseError

    if memory == (data is not None):
        raise click.UsageError("say either --memory or --data DIR")
    chosen = Namespace(memory=memory, data=data, port=port, kubeconfig=kubeconfig, members=members)
    try:
        run_loop(run(chosen))
    except DataInUseError as error:
        raise click.ClickException(f"{error}; choose another --data") from None

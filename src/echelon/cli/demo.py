"""`echelon demo`: a staged rollout from nothing to done, broken on purpose, diagnosed, mended. Takes under a minute.

Nothing is acted: hub, engine, members and every command are the ones users run; only the workloads of the members
are simulated. Without a terminal it tells the same story line by line and asks nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.output import can_ask, look_of
from echelon.cli.serve import run_loop

if TYPE_CHECKING:
    from echelon.cli.connect import Hub

PATIENCE_S = 20  # how long the demo waits for somebody to approve before it goes on by itself
STUCK_AFTER = timedelta(seconds=4)
SOAK = "3s"
GOOD, BETTER, BROKEN = "nginx:1.27", "nginx:1.28", "nginx:1.28:oops"
MEMBERS = {
    "member1": {"environment": "canary"},
    "member2": {"environment": "production"},
    "member3": {"environment": "production"},
}


def deployment(image: str) -> dict[str, Any]:
    """Return the application's Deployment."""
    labels = {"app": "web"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    }


def manifests() -> list[dict[str, Any]]:
    """Return everything the story applies before its first run."""
    group = "placement.kubernetes-fleet.io/v1beta1"
    stages = [
        {
            "name": "canary",
            "labelSelector": {"matchLabels": {"environment": "canary"}},
            "afterStageTasks": [{"type": "TimedWait", "waitTime": SOAK}],
        },
        {
            "name": "production",
            "labelSelector": {"matchLabels": {"environment": "production"}},
            "maxConcurrency": 2,
            "beforeStageTasks": [{"type": "Approval"}],
        },
    ]
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        deployment(GOOD),
        {
            "apiVersion": group,
            "kind": "ClusterResourcePlacement",
            "metadata": {"name": "web"},
            "spec": {"resourceSelectors": [selector], "strategy": {"type": "External"}},
        },
        {
            "apiVersion": group,
            "kind": "ClusterStagedUpdateStrategy",
            "metadata": {"name": "safe"},
            "spec": {"stages": stages},
        },
    ]


def run_manifest(name: str) -> dict[str, Any]:
    """Return a run of the story."""
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": name},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "safe", "state": "Run"},
    }


class Story:
    """Tells what happens, and makes it happen."""

    def __init__(self, hub: Hub, *, no_color: bool) -> None:
        self.hub = hub
        self.no_color = no_color
        self.chapter = 0

    def tell(self, text: str, *commands: str) -> None:
        """Begin a chapter: what happens, and the commands that do the same by hand."""
        self.chapter += 1
        look = look_of(no_color=self.no_color)
        bold, end = ("\x1b[1m", "\x1b[0m") if look.has_colour else ("", "")
        click.echo(f"\n{bold}{self.chapter}. {text}{end}")
        for command in commands:
            click.echo(f"   $ {command}")

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        """Apply a manifest the way kubectl apply --server-side does."""
        from echelon.api.registry import resource_of

        meta = manifest["metadata"]
        resource = resource_of(manifest)
        await self.hub.client.patch(
            resource, meta["name"], meta.get("namespace"), manifest, type="apply", force=True
        )

    async def watch(self, run: str, until: str) -> int:
        """Show a run until it is there (or stuck, or over); returns the exit code of `echelon watch`."""
        from echelon.cli.lookup import run_ref
        from echelon.cli.watch import show

        return await show(self.hub, run_ref(run, None), until, fail_on_stuck=True, no_color=self.no_color)

    async def approve(self, run: str, why: str) -> None:
        """Wait a moment for somebody to say yes, then approve with the command's own code."""
        from echelon.cli.approve import choose, evidence, give
        from echelon.cli.follow import look
        from echelon.cli.lookup import run_ref
        from echelon.views.tree import wrapped

        ref = run_ref(run, None)
        view = await look(self.hub, ref, deep=False)
        stage, task = choose(view, ref)
        for line in evidence(view, stage, task):
            for part in wrapped(line, look_of().width - 3, "  "):
                click.echo(f"   {part}")
        if can_ask():
            click.echo(f"   Press Enter to approve (or wait {PATIENCE_S} s) ", nl=False)
            if await asyncio.to_thread(select.select, [sys.stdin], [], [], PATIENCE_S) != ([], [], []):
                sys.stdin.readline()
            else:
                click.echo()
        click.echo("   " + await give(self.hub, ref, view, task, why))

    async def diagnose(self, run: str) -> None:
        """Say why a run is stuck."""
        from echelon.cli.follow import look
        from echelon.cli.lookup import run_ref
        from echelon.cli.watch_keys import diagnosis_lines

        view = await look(self.hub, run_ref(run, None))
        for line in diagnosis_lines(view, look_of().width - 3):
            click.echo(f"   {line}")


async def play(story: Story) -> None:
    """The story."""
    story.tell(
        "An application, where it belongs, and how it is rolled out",
        "kubectl apply -f app.yaml -f strategy.yaml",
    )
    for manifest in manifests():
        await story.apply(manifest)
    click.echo("   Namespace shop with a Deployment, placed on all members; two stages:")
    click.echo(f"   canary and a wait of {SOAK}, then production behind an approval, 2 at a time.")
    story.tell("The first rollout", "kubectl apply -f run.yaml", "echelon watch web-v1")
    await story.apply(run_manifest("web-v1"))
    await story.watch("web-v1", "approval")
    story.tell(
        "The canary is well: somebody approves production", 'echelon approve web-v1 -m "canary looks good"'
    )
    await story.approve("web-v1", "canary looks good")
    await story.watch("web-v1", "done")
    story.tell(f"A new version with a mistake in its image: {BROKEN}", "echelon watch web-v2")
    await story.apply(deployment(BROKEN))
    await story.apply(run_manifest("web-v2"))
    await story.watch("web-v2", "done")
    story.tell("Only the canary was touched, and the run is stuck. Why?", "echelon diagnose web-v2")
    await story.diagnose("web-v2")
    story.tell(f"The mistake is mended ({BETTER}) and rolled out by a new run", "echelon watch web-v3")
    await story.apply(deployment(BETTER))
    await story.apply(run_manifest("web-v3"))
    await story.watch("web-v3", "approval")
    await story.approve("web-v3", "fixed image, canary is well")
    await story.watch("web-v3", "done")


@contextlib.asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[Hub]:
    """Run a hub and three members for as long as the story lasts."""
    from echelon.cli.connect import open_hub
    from echelon.controllers.all import EngineOptions
    from echelon.rules import run_seen
    from echelon.runtime.telemetry import configure_logs
    from echelon.sandbox.fleet import FleetOptions
    from echelon.sandbox.served import served_fleet

    configure_logs("error")
    options = FleetOptions(engine=EngineOptions(runs=run_seen.Options(stuck_after=STUCK_AFTER)))
    async with served_fleet(folder, MEMBERS, options) as served:
        reached = open_hub(str(served.kubeconfig), "hub", None)
        try:
            yield reached
        finally:
            await reached.close()


@click.command()
@click.option("--keep", is_flag=True, help="Leave everything running afterwards, until Ctrl-C.")
@click.option("--no-color", is_flag=True, help="Plain ASCII without colours.")
def demo(keep: bool, no_color: bool) -> None:
    """See a staged rollout from nothing to done, in a minute."""

    async def whole() -> None:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="echelon-demo-") as folder:
            async with sandbox(Path(folder)) as hub:
                took = time.monotonic() - began
                click.echo(f"A hub and three member clusters, ready in {took:.1f} s.")
                await play(Story(hub, no_color=no_color))
                click.echo(f"\nDone in {time.monotonic() - began:.0f} s.")
                if keep:
                    await kept(Path(folder))
        if not keep:
            click.echo("\nNext: ./dev up --detach     a hub and members to play with, driven by kubectl")
            click.echo("      ./dev echelon --help  every command; docs/getting-started.md explains")

    run_loop(whole())


async def kept(folder: Path) -> None:
    """Leave everything running until somebody ends it."""
    click.echo(f"\nStill running. In another terminal:\n  export KUBECONFIG={folder / 'kubeconfig'}")
    click.echo(
        "  kubectl get csur; echelon history web; kubectl --context member1 -n shop get pods\nCtrl-C ends it."
    )
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await stop.wait()

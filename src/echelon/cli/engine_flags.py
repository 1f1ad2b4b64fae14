"""The flags of the hub agent about its rules; names and limits are the peer's where the peer has them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from echelon.cli.agent_flags import added, switch
from echelon.cli.duration import Duration
from echelon.cli.placing import limit, placing_flags, read_placing

if TYPE_CHECKING:
    from echelon.controllers.all import EngineOptions

LEAST_WAIT_S, MOST_WAIT_S = 30.0, 3600.0  # the peer's limits


def engine_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags."""
    command = placing_flags(command)
    return added(
        command,
        click.option(
            "--stuck-after",
            type=Duration(),
            default="5m",
            show_default=True,
            help="A cluster that takes longer is stuck.",
        ),
        click.option(
            "--cluster-unhealthy-threshold",
            "unhealthy_s",
            type=Duration(),
            default="60s",
            show_default=True,
            help="A member silent for longer is unhealthy.",
        ),
        click.option(
            "--force-delete-wait-time",
            "force_delete_s",
            type=Duration(),
            default="15m",
            show_default=True,
            help="A member that leaves and does not answer is let go after it.",
        ),
        switch("--enable-resource-placement", "namespaced", "Placements inside a namespace.", default=True),
        switch("--enable-staged-update-run-apis", "staged_runs", "Staged update runs.", default=True),
        switch("--enable-eviction-apis", "evictions", "Evictions.", default=True),
        switch("--enable-cluster-inventory-apis", "inventory", "ClusterProfiles.", default=True),
    )


def read_engine(given: dict[str, Any]) -> EngineOptions:
    """Return what the flags mean."""
    from echelon.controllers.all import EngineOptions
    from echelon.rules import membership, run_seen

    limit("--cluster-unhealthy-threshold", given["unhealthy_s"], MOST_WAIT_S, LEAST_WAIT_S)
    limit("--force-delete-wait-time", given["force_delete_s"], MOST_WAIT_S, LEAST_WAIT_S)
    return EngineOptions(
        runs=run_seen.Options(stuck_after=timedelta(seconds=given["stuck_after"])),
        membership=membership.Options(
            unhealthy_after=timedelta(seconds=given["unhealthy_s"]),
            force_delete_after=timedelta(seconds=given["force_delete_s"]),
        ),
        without=frozenset(
            part for part in ("namespaced", "staged_runs", "evictions", "inventory") if not given[part]
        ),
        **read_placing(given),
    )

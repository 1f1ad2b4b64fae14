"""The flags of the hub agent about what may be placed, and how long changes are collected; names are the peer's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import click

from echelon.cli.agent_flags import switch
from echelon.cli.duration import Duration

MAX_INTERVAL_S, MAX_COLLECTION_S = 300.0, 60.0  # the peer's limits


def placing_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags."""
    for option in reversed(
        (
            click.option(
                "--resource-snapshot-creation-minimum-interval",
                "interval_s",
                type=Duration(),
                default="30s",
                show_default=True,
                help="Between two versions of a placement's resources, at most 5m.",
            ),
            click.option(
                "--resource-changes-collection-duration",
                "collection_s",
                type=Duration(),
                default="15s",
                show_default=True,
                help="How long changes are collected before a version is made of them, at most 1m.",
            ),
            click.option(
                "--skipped-propagating-apis",
                "skipped_apis",
                default="",
                help="APIs never placed, besides the built-in ones: group;group/version;group/version/Kind,Kind",
            ),
            click.option(
                "--allowed-propagating-apis",
                "allowed_apis",
                default="",
                help="Place only these APIs; not together with --skipped-propagating-apis.",
            ),
            click.option(
                "--skipped-propagating-namespaces",
                "skipped_namespaces",
                default="",
                help="Namespaces never placed, besides default, kube-* and fleet-*; separated by , or ;",
            ),
            switch(
                "--enable-workload",
                "workloads_enabled",
                "The hub runs workloads itself, so its volume claims are not placed.",
            ),
            click.option(
                "--allow-roles-in-envelopes",
                "roles_in_envelopes",
                is_flag=True,
                help="Deliver roles, role bindings and webhook configurations from ResourceEnvelopes.",
            ),
        )
    ):
        command = option(command)
    return command


def read_placing(given: dict[str, Any]) -> dict[str, Any]:
    """Return what the flags mean, as fields of the engine's options."""
    from echelon.rules import work_generation_seen
    from echelon.rules.placements import Options
    from echelon.rules.propagate import InvalidApiList, Vetoes, parse_api_list
    from echelon.rules.snapshots import Delays

    limit("--resource-snapshot-creation-minimum-interval", given["interval_s"], MAX_INTERVAL_S)
    limit("--resource-changes-collection-duration", given["collection_s"], MAX_COLLECTION_S)
    if given["skipped_apis"] and given["allowed_apis"]:
        raise click.UsageError(
            "--skipped-propagating-apis and --allowed-propagating-apis exclude each other: the second replaces "
            "every denial, the first adds to them"
        )
    try:
        skipped, allowed = parse_api_list(given["skipped_apis"]), parse_api_list(given["allowed_apis"])
    except InvalidApiList as error:
        raise click.UsageError(
            f"--skipped-propagating-apis or --allowed-propagating-apis: {error}"
        ) from error
    delays = Delays(
        minimum_interval=timedelta(seconds=given["interval_s"]),
        collection=timedelta(seconds=given["collection_s"]),
    )
    names = given["skipped_namespaces"].replace(",", ";").split(";")
    vetoes = Vetoes(
        skipped_apis=skipped,
        allowed_apis=allowed,
        skipped_namespaces=frozenset(name.strip() for name in names if name.strip()),
        workloads_enabled=given["workloads_enabled"],
    )
    delivery = work_generation_seen.Options(allow_powerful_in_envelopes=given["roles_in_envelopes"])
    return {"placements": Options(delays=delays), "vetoes": vetoes, "delivery": delivery}


def limit(flag: str, seconds: float, most: float, least: float = 0.0) -> None:
    """Refuse a duration that is out of the peer's range."""
    if not least <= seconds <= most:
        raise click.UsageError(f"{flag} must be between {least:g}s and {most:g}s, not {seconds:g}s")

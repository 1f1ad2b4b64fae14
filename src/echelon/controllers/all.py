"""The engine of a hub: every controller, for both scopes, in one place. Decides nothing."""

from __future__ import annotations

import secrets

import msgspec

from echelon.api.scope import CLUSTER, SCOPES
from echelon.controllers.delivery import Delivery
from echelon.controllers.eviction import Evictions
from echelon.controllers.membership import Membership
from echelon.controllers.overrides import Overrides
from echelon.controllers.placement import Placements
from echelon.controllers.profiles import Profiles
from echelon.controllers.report_back import ReportsBack
from echelon.controllers.rollout import Rollouts
from echelon.controllers.scheduler import Scheduler
from echelon.controllers.sealing import SealKey
from echelon.controllers.selection import Selection
from echelon.controllers.staged import StagedRuns
from echelon.rules import membership, placements, run_seen, work_generation_seen
from echelon.rules.propagate import Vetoes
from echelon.rules.sealing import KEY_BYTES
from echelon.runtime.controller import Controller
from echelon.runtime.manager import Manager
from echelon.runtime.member_metrics import MemberMetrics
from echelon.runtime.placement_metrics import PlacementMetrics
from echelon.runtime.run_metrics import RunMetrics


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may choose about the engine; each part is described where its rule is."""

    runs: run_seen.Options = run_seen.Options()
    placements: placements.Options = placements.Options()
    delivery: work_generation_seen.Options = work_generation_seen.Options()
    membership: membership.Options = membership.Options()
    vetoes: Vetoes = Vetoes()
    without: frozenset[str] = frozenset()  # of "namespaced", "staged_runs", "evictions", "inventory"


def hub_controllers(manager: Manager, options: EngineOptions) -> list[Controller]:
    """Make every controller of a hub, sharing one cache and one selection of the hub's resources."""
    cache = manager.cache
    selection = Selection(cache, manager.client, options.vetoes)
    metrics = RunMetrics(manager.telemetry.registry, manager.clock)
    placement_metrics = PlacementMetrics(manager.telemetry.registry, manager.clock)
    made: list[Controller] = [
        Membership(cache, options.membership, MemberMetrics(manager.telemetry.registry))
    ]
    if "inventory" not in options.without:
        made.append(Profiles(cache, options.membership))
    if "evictions" not in options.without:
        made.append(Evictions(cache))
    made.append(SealKey(cache, secrets.token_bytes(KEY_BYTES)))
    for scope in (CLUSTER,) if "namespaced" in options.without else SCOPES:
        made += [
            Placements(cache, selection, scope, options.placements, metrics=placement_metrics),
            Scheduler(cache, scope),
            Rollouts(cache, scope),
            Overrides(cache, scope),
            Delivery(cache, scope, options.delivery),
            ReportsBack(cache, scope),
        ]
        if "staged_runs" not in options.without:
            made.append(StagedRuns(cache, scope, options.runs, selection=selection, metrics=metrics))
    return made

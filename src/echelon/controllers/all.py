"""The engine of a hub: every controller, for both scopes, in one place. Decides nothing."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from echelon.api.scope import SCOPES
from echelon.controllers.delivery import Delivery
from echelon.controllers.eviction import Evictions
from echelon.controllers.membership import Membership
from echelon.controllers.overrides import Overrides
from echelon.controllers.placement import Placements
from echelon.controllers.rollout import Rollouts
from echelon.controllers.scheduler import Scheduler
from echelon.controllers.selection import Selection
from echelon.controllers.staged import StagedRuns
from echelon.runtime.controller import Controller
from echelon.runtime.manager import Manager


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator may choose about the engine."""

    stuck_after: timedelta = timedelta(minutes=5)


def hub_controllers(manager: Manager, options: EngineOptions) -> list[Controller]:
    """Make every controller of a hub, sharing one cache and one selection of the hub's resources."""
    del options
    cache = manager.cache
    selection = Selection(cache, manager.client)
    made: list[Controller] = [Membership(cache), Evictions(cache)]
    for scope in SCOPES:
        made += [
            Placements(cache, selection, scope),
            Scheduler(cache, scope),
            Rollouts(cache, scope),
            Overrides(cache, scope),
            Delivery(cache, scope),
            StagedRuns(cache, selection, scope),
        ]
    return made

"""What the processes of `branches.py` begin with: every module loaded, and one run of each kind played.

Loading them and filling their caches takes longer than a run.
"""

from __future__ import annotations

import gc
import logging

import structlog

from tests.behaviour.analysed import ANALYSED
from tests.behaviour.configured import CONFIGURED, MANIFESTS
from tests.behaviour.routed import Users, play_routed, weight, world
from tests.behaviour.scenarios import SCENARIOS, updated
from tests.behaviour.stage import Stage, play

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))  # as conftest.py does


async def _updated_behind_a_gateway(stage: Stage, _users: Users) -> None:
    await stage.update("2", "Healthy")


play(SCENARIOS["canary-with-services-by-time"].manifests, updated)
play(MANIFESTS, CONFIGURED["edited"])
play_routed(world(weight(50)), _updated_behind_a_gateway)
ANALYSED["canary good"].play()

# A process that looked for garbage in all of this would copy each of its pages.
gc.collect()
gc.freeze()

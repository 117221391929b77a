"""Plans in virtual time: an update behind a route with an analysis, a first blue-green one, and one that is unsafe."""

from __future__ import annotations

import asyncio
import copy
from functools import cache

from rollouts.cli.commands.lint import providers
from rollouts.cli.demo.manifests import BLUE_GREEN_APP, CANARY_APP, IMAGE, SECOND, blue_green_app, canary_app
from rollouts.cli.demo.stage import GATEWAY, simulated_stage
from rollouts.cli.plan.command import plan_of
from rollouts.cli.plan.config import SourceReader
from rollouts.cli.plan.live import read_facts
from rollouts.cli.plan.report import PlanReport
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.core.model.drain import ProxyMode
from rollouts.objects import Manifest
from rollouts.sim.clock import SimClock, run_virtual

_PATIENCE_S = 60.0


@cache
def plans() -> dict[str, PlanReport]:
    """By name: `routed`, `blue-green`, `unsafe`. All three take less than a second of CPU, once."""
    return run_virtual(_plans(), limit_s=600.0)


async def _plans() -> dict[str, PlanReport]:
    clock = SimClock(asyncio.get_running_loop())
    async with simulated_stage(serve=None, seed=3, clock=clock) as stage:
        canary, pay = canary_app(stage.namespace, gateway=GATEWAY), blue_green_app(stage.namespace)
        await stage.install(canary)
        await stage.until(CANARY_APP, _healthy, deadline_s=_PATIENCE_S, what="it is Healthy")
        facts = await read_facts(stage.session, proxy_mode=ProxyMode.IPTABLES)

        async def planned(rollout: Manifest, services: tuple[Manifest, ...] = ()) -> PlanReport:
            reader = SourceReader(stage.session, (rollout,))
            return await plan_of(reader, rollout, services, facts, providers())

        updated, unsafe = copy.deepcopy(canary[-1]), copy.deepcopy(pay[-1])
        updated["spec"]["template"]["spec"]["containers"][0]["image"] = f"{IMAGE}:{SECOND}"
        unsafe["spec"] |= {"replicas": 1, "strategy": {"canary": {"maxSurge": 0, "maxUnavailable": 1}}}
        return {
            "routed": await planned(updated),
            "blue-green": await planned(pay[-1], pay[:-1]),
            "unsafe": await planned(unsafe, tuple(each for each in pay if each["metadata"]["name"] == BLUE_GREEN_APP)),
        }


def _healthy(seen: RolloutObjects) -> bool:
    return status_of(seen.rollout).phase == "Healthy"

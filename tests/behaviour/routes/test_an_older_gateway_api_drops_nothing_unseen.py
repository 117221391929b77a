"""Promise: what the cluster's Gateway API does not know is refused with its name, and never half written.

HTTPRoutes of an older Gateway API know mirrors without `percent`. The API server would drop it and keep the mirror: every request
would be copied to the canary. Source: GEP-3171, percentage-based request mirroring.
"""

from __future__ import annotations

import asyncio
import copy

from rollouts.objects import Manifest
from rollouts.sim.network.gateway_types import gateway_crds
from tests.behaviour.routed import LADDER, Users, play_routed, world
from tests.behaviour.stage import Stage


def older_routes() -> Manifest:
    """The CRD of HTTPRoutes whose mirrors have no `percent`."""
    crd = copy.deepcopy(next(each for each in gateway_crds() if each["spec"]["names"]["kind"] == "HTTPRoute"))
    for version in crd["spec"]["versions"]:
        rule = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rules"]["items"]
        del rule["properties"]["filters"]["items"]["properties"]["requestMirror"]["properties"]["percent"]
    return crd


def test_a_mirror_of_a_part_is_never_written_as_a_mirror_of_all() -> None:
    """The step that copies stops and says which field is unknown and what to do; an abort takes the canary's requests away."""
    said: list[str] = []
    users_of: list[Users] = []

    async def script(stage: Stage, users: Users) -> None:
        users_of.append(users)
        stage.cluster.apply(older_routes())
        stage.image("2")
        await stage.until(lambda: stage.condition("Stalled").get("status") == "True")
        said.append(stage.condition("Stalled")["message"])
        await users.measure(stage, "stands still", "2", for_s=10.0)
        await stage.order("abort", "true", "Aborted", "2")
        await asyncio.sleep(5.0)

    outcome = play_routed(world(*LADDER), script)

    (message,) = said
    assert 'unknown field "spec.rules[0].filters[0].requestMirror.percent"' in message
    assert "httproutes in this cluster is older than that field: upgrade it" in message
    assert users_of[0].copies["stands still"] == 0
    assert (outcome.users.causes, outcome.run.violations) == ({}, [])

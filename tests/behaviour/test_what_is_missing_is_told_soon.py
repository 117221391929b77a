"""Promise: what only a person can mend is Stalled within seconds for scripts and GitOps, and is over as soon as it is mended."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.cli.commands.get import verdict_of
from rollouts.cli.exits import Exit
from rollouts.cli.view.objects import RolloutObjects, view_of
from rollouts.objects import ROLLOUT, Manifest
from tests import build
from tests.behaviour.scenarios import HALF, blue_green, canary, rollout, service
from tests.behaviour.stage import KEY, Stage, play

OTHER_PODS = build.service("active", KEY.namespace, app="till")


def _verdict(stage: Stage) -> Exit:
    return verdict_of(view_of(RolloutObjects(rollout=stage.find(ROLLOUT))))


def _conditions(stage: Stage) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in stage.status.get("conditions") or ()}


@pytest.mark.parametrize(
    ("strategy", "there", "mended", "reason", "invalid"),
    [
        (canary(HALF, services=True), (), (service("stable"), service("canary")), "ServiceNotFound", False),
        (blue_green(), (service("preview"),), (service("active"),), "ServiceNotFound", False),
        (blue_green(), (OTHER_PODS, service("preview")), (service("active"),), "ServiceNotUsable", True),
    ],
    ids=["no Services", "no active Service", "a Service of other pods"],
)
def test_a_script_that_waits_for_a_rollout_learns_within_seconds_what_is_missing(
    strategy: Manifest, there: tuple[Manifest, ...], mended: tuple[Manifest, ...], reason: str, invalid: bool
) -> None:
    """`rollouts status --timeout 10m` ends with 1, not after ten minutes; what is mended needs no edit of the Rollout."""
    verdicts: list[Exit] = []

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == reason)
        await asyncio.sleep(5)
        verdicts.append(_verdict(stage))
        await stage.until(lambda: "Stalled" in _conditions(stage), within_s=8)
        verdicts.append(_verdict(stage))
        told = _conditions(stage)
        assert (told["Stalled"], told["Ready"]) == (("True", reason), ("False", reason))
        assert ("InvalidSpec" in told, "Reconciling" in told) == (invalid, False)
        writes = len(stage.witness.arrivals)
        await asyncio.sleep(60)
        assert not [each for each in stage.witness.arrivals[writes:] if each.is_rollout_write], "nothing is new to say"
        assert stage.status["phase"] == "Degraded"
        for manifest in mended:
            stage.cluster.apply(manifest)
        await stage.until_phase("Healthy", "1")
        assert not {"Stalled", "InvalidSpec"} & set(_conditions(stage))
        verdicts.append(_verdict(stage))

    run = play((rollout(strategy), *there), script)

    assert verdicts == [Exit.UNFINISHED, Exit.BAD, Exit.OK]
    run.assert_clean()

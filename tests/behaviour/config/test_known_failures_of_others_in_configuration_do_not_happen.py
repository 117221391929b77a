"""Promise: how other progressive-delivery controllers are known to have mixed up configuration does not happen here.

Each test plays what a published issue describes, and is shown to see the failure: the same run without copies
(`configVersioning.mode: Off`), or with what the peer took the fault for.
"""

from __future__ import annotations

import asyncio

import msgspec

from rollouts.objects import CONFIG_MAP, ROLLOUT
from rollouts.ports import ApiServer, Request, Response
from tests.behaviour.configured import (
    CONF,
    config_map,
    configured,
    copies,
    crash_a_pod,
    edited,
    healthy,
    status_of,
    touch,
    until_all_answer,
    until_new,
    values,
    watched,
    write,
)
from tests.behaviour.stage import KEY, Run, Script, Stage, play
from tests.cluster.stand_ins import PassesOn

OTHER = "other"
OFF = {"mode": "Off"}


class FailingReads(PassesOn):
    """Cannot read `conf` while it is told so; lists and watches go on."""

    def __init__(self, api: ApiServer, failing: list[bool]) -> None:
        super().__init__(api)
        self._failing = failing

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if self._failing and (request.method, request.path) == ("GET", CONFIG_MAP.path(KEY.namespace, CONF)):
            return Response(500, msgspec.json.encode({"kind": "Status", "message": "etcdserver: leader changed"}))
        return await super().request(request, deadline_s=deadline_s)


def _pods_say(run: Run) -> list[str]:
    """What the eye on the pods has noted; it follows every Rollout, and the witness of writes only the first."""
    return [each for each in run.violations if each.startswith("pod ")]


# --- P10: an error on a read of a ConfigMap started a canary (Flagger 989)


def _unreadable(failing: list[bool], *, gone: bool = False) -> Script:
    async def script(stage: Stage) -> None:
        before = await healthy(stage)
        failing.append(True)
        touch(stage, 1)
        if gone:
            stage.remove(CONFIG_MAP, CONF)
            await until_new(stage, "Paused", before=before)
            return
        await stage.until(lambda: stage.waits_for == "ConfigNotRead")
        await asyncio.sleep(60.0)
        assert "leader changed" in stage.status["waitingFor"]["message"]
        failing.clear()
        await stage.until(lambda: stage.status.get("phase") == "Healthy" and "waitingFor" not in stage.status)
        assert stage.status["currentRevision"] == before

    return script


def _played_with_failing_reads(*, gone: bool = False) -> Run:
    failing: list[bool] = []
    there, script = (config_map("v1"), configured(optional=True)), _unreadable(failing, gone=gone)
    return play(there, script, between=lambda api: FailingReads(api, failing))


def test_an_error_of_a_read_starts_nothing() -> None:
    """P10: for a minute the content of an optional ConfigMap cannot be read; only a deletion starts a canary."""
    run = _played_with_failing_reads()

    run.assert_clean()
    assert len(run.end["replicaSets"]) == 1
    assert len(_played_with_failing_reads(gone=True).end["replicaSets"]) == 2


# --- P11 and P23: one canary promoted, or collected, a ConfigMap that another one shared (Flagger 1930, 1046)


async def shared(stage: Stage) -> None:
    """Both start a canary of the edit; the other one is promoted, deleted, and nothing of that reaches the first."""
    before, other = await healthy(stage), await healthy(stage, OTHER)
    write(stage, "v2")
    new = await until_new(stage, "Paused", before=before)
    await until_new(stage, "Paused", before=other, name=OTHER)
    stage.merge(ROLLOUT, OTHER, {"metadata": {"annotations": {"rollouts.dev/promote": "true"}}})
    await stage.until(lambda: status_of(stage, OTHER).get("phase") == "Healthy")
    await until_all_answer(stage, "v2", app=OTHER)
    stage.remove(ROLLOUT, OTHER)
    await stage.until(lambda: len(copies(stage)) == 2)
    crash_a_pod(stage)
    await asyncio.sleep(30.0)
    assert values(stage) == {before: {"v1"}, new: {"v2"}}
    stage.annotate("abort", "true")
    await stage.until(lambda: stage.status.get("phase") == "Aborted")
    await until_all_answer(stage, "v1")


async def shared_without_copies(stage: Stage) -> None:
    """The same edit, and the pods of both Rollouts follow it by themselves."""
    await healthy(stage)
    await healthy(stage, OTHER)
    write(stage, "v2")
    await asyncio.sleep(10.0)


def test_a_source_that_two_rollouts_share_moves_each_by_its_own_canary() -> None:
    """P11 and P23: a promotion or a deletion of one of them leaves the other's pods, and its way back, as they are."""
    both = (config_map("v1"), configured(), configured(name=OTHER))

    assert _pods_say(play(both, shared, alongside=watched())) == []

    off = (config_map("v1"), configured(configVersioning=OFF), configured(name=OTHER, configVersioning=OFF))
    assert _pods_say(play(off, shared_without_copies, alongside=watched())) != []


# --- P25: what was rotated stayed frozen in the copy of the primary, which crashed (devantler-tech/platform 1852)


async def rotated(stage: Stage) -> None:
    """After the promotion, pods that start and containers that start again have the new value."""
    await edited(stage)
    crash_a_pod(stage)
    stage.edit({"spec": {"replicas": 4}})
    await until_all_answer(stage, "v2", pods=4)


async def rotated_without_copies(stage: Stage) -> None:
    """A container that crashes has the new value before everybody else."""
    await healthy(stage)
    write(stage, "v2")
    crash_a_pod(stage)
    await asyncio.sleep(10.0)


def test_after_a_promotion_nobody_has_the_former_value() -> None:
    """P25: the revision's copy is that of the new content, for pods of any age."""
    run = play((config_map("v1"), configured()), rotated, alongside=watched())

    run.assert_clean()
    off = play((config_map("v1"), configured(configVersioning=OFF)), rotated_without_copies, alongside=watched())
    assert _pods_say(off) != []

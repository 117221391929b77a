"""Promise: between two subsets of a DestinationRule an update is as safe as between two Services, whatever a proxy is behind.

No proxy of a mesh can be asked here, so a mesh is modelled at its worst: each proxy may have any version of the VirtualService
together with any of the DestinationRule that was there in the last 14 s, and a subset that gets requests must have ready pods in
each of these mixtures.
"""

from __future__ import annotations

import asyncio
from fractions import Fraction
from functools import partial

import pytest

from rollouts.core.model.frozen import replace
from rollouts.manifests.ownership import MANAGED, REVISION
from rollouts.objects import SERVICE, Kind, Manifest
from rollouts.sim.faults import DropReply, Fault, FaultTape
from tests.behaviour.branches import CRASHES, assert_ends_as_without, places
from tests.behaviour.route_truth import DESTINATION_RULE, VIRTUAL_SERVICE
from tests.behaviour.routed import STAY, patch, weight
from tests.behaviour.routes.subsets import CRDS, RULE_NAME, destination_rule, play_subsets, virtual_service, world
from tests.behaviour.scenarios import MANUAL
from tests.behaviour.stage import KEY, Run, Script, Stage, play

FAULTS: tuple[Fault, ...] = (*CRASHES, DropReply())


def revisions(stage: Stage) -> dict[str, str]:
    """The revision that each subset's labels name."""
    subsets = stage.find(DESTINATION_RULE, RULE_NAME)["spec"]["subsets"]
    return {each["name"]: (each.get("labels") or {}).get(REVISION, "") for each in subsets}


async def updated(stage: Stage) -> None:
    await stage.update("2", "Healthy")


async def aborted(stage: Stage) -> None:
    await stage.update("2", "Paused")
    await stage.order("abort", stage.status["currentRevision"], "Aborted", "2")


def test_an_update_goes_through_its_weights_and_ends_on_the_stable_subset() -> None:
    """1 → 25 → 100 %, then the stable subset follows, and all comes back to it: the last share is 0."""
    seen: list[dict[str, str]] = []

    async def script(stage: Stage) -> None:
        before = revisions(stage)
        assert before["stable"] == before["canary"] == stage.status["stableRevision"]
        await updated(stage)
        seen.append(revisions(stage))
        assert seen[0]["stable"] == stage.status["stableRevision"] != before["stable"]

    run, mesh = play_subsets(world(weight(1), STAY, weight(25), STAY, weight(100), STAY), script)

    assert mesh.shares == [Fraction(1, 100), Fraction(1, 4), Fraction(1), Fraction(0)]
    assert seen[0]["all"] == ""
    assert run.refused == 0, "two writes of one rule in a pass: the second is of a version that has gone"
    assert (mesh.wrong, run.violations, run.unexpected) == ([], [], [])


@pytest.mark.parametrize(
    ("steps", "dynamic"),
    [((weight(50), STAY), False), ((weight(50), STAY, weight(100), STAY), True)],
    ids=["no step asks for 100 %", "dynamicStableScale"],
)
def test_the_stable_subset_changes_only_when_all_is_on_the_canarys(
    steps: tuple[Manifest, ...], *, dynamic: bool
) -> None:
    """All comes back when no proxy finds the old revision behind it: with the old rule all would come to its last pod."""
    run, mesh = play_subsets(world(*steps, dynamicStableScale=dynamic), updated)

    assert mesh.shares == [Fraction(1, 2), Fraction(1), Fraction(0)]
    assert (mesh.wrong, run.violations, run.unexpected) == ([], [], [])


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_abort_takes_the_weight_back_before_anything_else(*, dynamic: bool) -> None:
    """The subset of what was given up keeps its pods until no proxy sends it anything; a stable one that shrank grows first."""

    async def script(stage: Stage) -> None:
        await stage.update("2", "Paused")
        await stage.until(lambda: stage.sizes()["1"] == (1 if dynamic else 4))
        await asyncio.sleep(10.0)  # the pods that went are gone
        await stage.order("abort", stage.status["currentRevision"], "Aborted", "2")

    run, mesh = play_subsets(world(weight(75), MANUAL, weight(100), dynamicStableScale=dynamic), script)

    assert (mesh.shares[0], mesh.shares[-1]) == (Fraction(3, 4), Fraction(0))
    assert (mesh.wrong, run.violations, run.unexpected) == ([], [], [])


def test_a_third_revision_in_the_middle_gets_nothing_that_was_meant_for_the_second() -> None:
    """The canary subset is emptied before it changes to another revision."""

    async def script(stage: Stage) -> None:
        await stage.update("2", "Paused")
        await stage.update("3", "Paused")

    run, mesh = play_subsets(world(weight(50), MANUAL, weight(100)), script)

    assert mesh.shares == [Fraction(1, 2), Fraction(0), Fraction(1, 2)]
    assert (mesh.wrong, run.violations, run.unexpected) == ([], [], [])


@pytest.mark.parametrize("at_rest", [False, True])
def test_a_deleted_rollout_leaves_the_meshs_objects_as_their_users_wrote_them(at_rest: bool) -> None:
    """Also the subset that had no labels, and the Service that is the host."""
    left: list[Manifest] = []

    async def script(stage: Stage) -> None:
        stage.image("2")
        await stage.until_phase(*(("Healthy", "2") if at_rest else ("Paused", "2")))
        stage.delete()
        await asyncio.sleep(30.0)
        for kind, name in ((VIRTUAL_SERVICE, KEY.name), (DESTINATION_RULE, RULE_NAME), (SERVICE, KEY.name)):
            left.append(stage.find(kind, name))

    run, _ = play_subsets(world(weight(50), STAY if at_rest else MANUAL), script)

    assert [each["spec"] for each in left[:2]] == [virtual_service()["spec"], destination_rule()["spec"]]
    assert left[2]["spec"]["selector"] == {"app": "web"}
    assert all(not (each["metadata"].get("labels") or each["metadata"].get("annotations")) for each in left)
    assert run.unexpected == []


def test_labels_that_somebody_takes_off_are_put_on_again() -> None:
    """A GitOps tool applies what Git has: until our label is back the subset finds pods of both revisions, never none."""

    async def script(stage: Stage) -> None:
        await stage.update("2", "Paused")
        wanted = revisions(stage)
        stage.cluster.apply(destination_rule())
        await stage.until(lambda: revisions(stage) == wanted)
        await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")

    run, mesh = play_subsets(world(weight(50), MANUAL), script)

    assert (mesh.lost, run.unexpected) == ([], [])


MARK = "/metadata/labels/rollouts.dev~1managed"


@pytest.mark.parametrize(("kind", "name"), [(SERVICE, KEY.name), (DESTINATION_RULE, RULE_NAME)], ids=["host", "rule"])
def test_a_label_of_ours_that_somebody_takes_off_is_put_on_again(kind: Kind, name: str) -> None:
    """Without it neither the object nor the slices of the host are watched, and what was seen last is all that is known."""

    async def script(stage: Stage) -> None:
        await stage.update("2", "Paused")
        patch(stage, kind, name, [{"op": "remove", "path": MARK}])
        await stage.until(lambda: MANAGED in (stage.find(kind, name)["metadata"].get("labels") or {}))
        await stage.order("promote", f"{stage.status['currentRevision']}@full", "Healthy", "2")

    run, mesh = play_subsets(world(weight(50), MANUAL), script, grace_s=4.0)

    assert (mesh.wrong, run.unexpected) == ([], [])


def test_a_host_that_selects_one_revision_is_made_to_select_both() -> None:
    """Its selector has our key from the time when it was a stable Service; a canary subset of it would find no pod."""
    host, *rest = world(weight(50), STAY, replicas=2)
    marks = {"labels": {"rollouts.dev/managed": "true"}, "annotations": {"rollouts.dev/managed-by": KEY.name}}
    selector = {**host["spec"]["selector"], REVISION: "of-before"}
    narrow = {**host, "metadata": {**host["metadata"], **marks}, "spec": {**host["spec"], "selector": selector}}

    run, mesh = play_subsets((narrow, *rest), updated)

    assert (mesh.wrong, run.violations, run.unexpected) == ([], [], [])


def test_the_mesh_sees_a_subset_that_nobody_stands_behind() -> None:
    """The model can lose requests: here a person points the canary subset at pods that do not exist."""

    async def script(stage: Stage) -> None:
        await stage.update("2", "Paused")
        path = "/spec/subsets/1/labels/rollouts.dev~1revision"
        patch(stage, DESTINATION_RULE, RULE_NAME, [{"op": "replace", "path": path, "value": "nobody"}])
        await asyncio.sleep(1.0)

    _, mesh = play_subsets(world(weight(50), MANUAL), script)

    assert any("50 to canary, nobody" in each for each in mesh.lost)


def test_a_host_that_another_rollout_has_is_left_to_it() -> None:
    """Two Rollouts cannot share one host: each would wait for slices that show its own pods."""
    told: list[str] = []
    host, *rest = world(weight(50), STAY)
    marks = {"labels": {"rollouts.dev/managed": "true"}, "annotations": {"rollouts.dev/managed-by": "other"}}
    taken = {**host, "metadata": {**host["metadata"], **marks}}
    other = {**rest[-1], "metadata": {**rest[-1]["metadata"], "name": "other"}}

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for == "ServiceNotUsable")
        told.append(stage.status["waitingFor"]["message"])
        stage.delete()

    play((taken, *rest, {**other, "spec": {**other["spec"], "paused": True}}), script, more_crds=CRDS)

    assert told == [
        f"subset stable of DestinationRule {RULE_NAME} belongs to Rollout other: name another one in the strategy"
    ]


@pytest.mark.parametrize("missing", ["rule", "host", "subset"])
def test_what_is_missing_is_told_and_waited_for(missing: str) -> None:
    """Made later, it is found without a restart."""
    told: list[str] = []
    host, route, rule, rollout = world(weight(50), STAY)
    broken = {**rule, "spec": {**rule["spec"], "subsets": rule["spec"]["subsets"][:1]}}
    there = {"rule": (host, route), "host": (route, rule), "subset": (host, route, broken)}[missing]

    async def script(stage: Stage) -> None:
        await stage.until(lambda: stage.waits_for.startswith("Service"))
        told.append(stage.status["waitingFor"]["message"])
        for manifest in (host, rule):
            stage.cluster.apply(manifest)
        await stage.until_phase("Healthy", "1")

    play((*there, rollout), script, more_crds=CRDS)

    assert {
        "rule": f"DestinationRule {RULE_NAME} does not exist",
        "host": f"Service {KEY.name}, the host of DestinationRule {RULE_NAME}, does not exist",
        "subset": "it has no subset canary",
    }[missing] in told[0]


def played(script: Script, tape: FaultTape | None = None) -> Run:
    """The run, with or without a fault; a request that is lost in it is unexpected."""
    manifests = world(weight(50), STAY if script is updated else MANUAL, replicas=2)
    run, mesh = play_subsets(manifests, script, tape=tape, grace_s=4.0)
    return replace(run, unexpected=[*run.unexpected, *mesh.lost])


@pytest.mark.long
@pytest.mark.parametrize("script", [updated, aborted])
def test_a_fault_of_any_one_write_ends_as_without(script: Script) -> None:
    """The same objects and status, and no mixture in which a request is lost."""
    without = played(script)

    assert_ends_as_without(partial(played, script), without, places(without, FAULTS))

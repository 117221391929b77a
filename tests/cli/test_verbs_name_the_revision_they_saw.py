"""A verb is read off what was seen, names its revision and step, and is written only if that is still so."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from rich.console import Console

from rollouts.cli.commands import verbs
from rollouts.cli.demo.manifests import canary_app
from rollouts.cli.exits import Exit
from rollouts.cli.view import giving, verb_plans
from rollouts.cli.view.objects import RolloutObjects
from rollouts.cli.view.verb_plans import CommandWrite, Nothing
from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.frozen import replace
from rollouts.errors import ApiConflict
from rollouts.objects import ROLLOUT, Manifest
from rollouts.ports import MERGE_PATCH, Request, Response
from rollouts.sim.apiserver.server import SimServer
from tests.cli.runs import Served
from tests.controller.door import Door

NEW, STABLE = "newrev", "oldrev"
STEPS = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 50}]
AT_THE_GATE = {"currentRevision": NEW, "stableRevision": STABLE, "currentStepIndex": 1, "observedGeneration": 1}
DONE = {**AT_THE_GATE, "stableRevision": NEW, "currentStepIndex": 3,
        "history": [{"revision": each, "number": number, "startedAt": "2026-11-21T09:00:00Z", "outcome": "Promoted",
                     "finishedAt": "2026-11-21T09:10:00Z"} for number, each in ((1, "oldrev"), (2, "newrev"))]}  # fmt: skip
FIRST = {"currentRevision": NEW, "stableRevision": "", "currentStepIndex": 3, "observedGeneration": 1,
         "waitingFor": {"reason": "PodsNotAvailable", "message": "4 pods", "since": "2026-11-21T10:00:00Z"}}  # fmt: skip
PROMOTED = {**AT_THE_GATE, "commands": [
    {"verb": "promote", "value": "newrev@1", "revision": NEW, "step": 1, "at": "2026-11-21T10:00:00Z"}]}  # fmt: skip
ABORTED = {**AT_THE_GATE, "attempt": 2,
           "abort": {"revision": NEW, "at": "2026-11-21T10:00:00Z", "reason": "RolloutAborted", "message": ""}}  # fmt: skip


def seen(
    status: Manifest, *, spec: Manifest | None = None, annotations: dict[str, str] | None = None
) -> RolloutObjects:
    """A Rollout with a canary of three steps, and ReplicaSets number 1 (stable) and 2 (new)."""
    metadata = {"name": "cart", "uid": "u", "generation": 1, "annotations": annotations or {}}
    strategy = {"strategy": {"canary": {"steps": STEPS}}}
    kept = [
        {"metadata": {"name": name, "labels": {"rollouts.dev/revision": name},
                      "annotations": {"rollouts.dev/revision-number": str(number)}}, "spec": {}}
        for number, name in ((1, STABLE), (2, NEW))
    ]  # fmt: skip
    return RolloutObjects(
        rollout={"metadata": metadata, "spec": spec or strategy, "status": status}, replica_sets=tuple(kept)
    )


def promote(status: Manifest, *, spec: Manifest | None = None, **options: Any) -> Any:
    """The promotion that is planned for a status."""
    return verb_plans.plan_promote(seen(status, spec=spec), **options)


def written(planned: CommandWrite | Nothing) -> CommandWrite:
    """What a verb writes."""
    assert isinstance(planned, CommandWrite), planned
    return planned


def refused(planned: CommandWrite | Nothing) -> Nothing:
    """Why it writes nothing."""
    assert isinstance(planned, Nothing), planned
    return planned


def record(kind: str, phase: str, **fields: Any) -> Manifest:
    """One entry of status.analyses."""
    return {"kind": kind, "number": 1, "run": "cart-run", "phase": phase, "at": "2026-11-21T10:00:00Z", **fields}


PAUSED = {"rollouts.dev/pause": "true"}
ANALYSED = {"strategy": {"canary": {"steps": [{"setWeight": 25}, {"analysis": {"templates": [{"templateName": "rate"}]}},
            {"pause": {}}]}}}  # fmt: skip
BACKGROUND = record("background", "Inconclusive")
SKIP = {"skip_analysis": True}


def held(*analyses: Manifest, at: int = 1) -> Manifest:
    """A status with these analyses, at step 1."""
    return {**AT_THE_GATE, "currentStepIndex": at, "analyses": list(analyses)}


@pytest.mark.parametrize(
    ("status", "options", "value"),
    [
        (held(BACKGROUND), {}, "newrev@background"),
        (held(BACKGROUND), {"gate": AnalysisKind.BACKGROUND}, "newrev@background"),
        (held(BACKGROUND, at=2), {"step": 2}, "newrev@2"),
        (held(BACKGROUND), {"full": True}, "newrev@full"),
        (held(record("step", "Failed", step=1)), {}, "newrev@1"),
        (held(record("step", "Failed", step=1)), {"gate": AnalysisKind.STEP}, "newrev@1"),
        (held(record("step", "Error", step=1)), {"step": 1}, "newrev@1"),
        (held(record("step", "Error", step=1), BACKGROUND), {}, "newrev@background"),
        (held(record("pre-promotion", "Failed")), {}, "newrev@pre-promotion"),
        (held(record("post-promotion", "Error")), {}, "newrev@post-promotion"),
        (held(record("background", "Failed", passed=True), at=2), {}, "newrev@2"),
        (held(record("background", "Running"), at=2), {}, "newrev@2"),
        (held(record("step", "Inconclusive", step=1), at=2), {}, "newrev@2"),
        (held(record("step", "Failed", step=1, backToWeight=0), BACKGROUND, at=0), {}, "newrev@1"),
        (held(record("step", "Failed", step=1, backToWeight=0), at=0), {"step": 1}, "newrev@1"),
        (held(record("background", "Failed", backToWeight=25), at=2), {}, "newrev@background"),
    ],
)
def test_a_promotion_passes_the_verdict_that_holds_it(status: Manifest, options: dict[str, Any], value: str) -> None:
    """Each gate has a name: who passes a verdict passes no pause with it, and no verdict that nobody saw."""
    assert written(promote(status, spec=ANALYSED, **options)).annotations == {"rollouts.dev/promote": value}


@pytest.mark.parametrize(
    ("status", "options", "words"),
    [
        (held(), {}, "step 2 has an analysis: a promotion passes its verdict, once there is one"),
        (held(record("step", "Running", step=1)), {"step": 1}, "step 2 has an analysis"),
        (held(BACKGROUND), {"gate": AnalysisKind.POST_PROMOTION}, "no verdict of the post-promotion analysis waits"),
        (held(record("background", "Running")), {"gate": AnalysisKind.BACKGROUND}, "no verdict of the background"),
        (held(), SKIP, "no analysis that the update waits for measures now"),
        (held(record("background", "Pending")), SKIP, "the one beside the steps: rollouts analysis terminate cart-run"),
        (held(record("step", "Failed", step=1)), SKIP, "its analysis of step 2 has a verdict, which is Failed"),
        (held(record("step", "Pending", step=1, passed=True), at=2), SKIP, "no analysis that the update waits for"),
    ],
)
def test_what_is_not_there_is_neither_passed_nor_skipped(status: Manifest, options: dict[str, Any], words: str) -> None:
    """A promotion is a judgement of what was seen; the analysis beside the steps holds nobody up."""
    planned = refused(promote(status, spec=ANALYSED, **options))

    assert planned.code is Exit.BAD and words in planned.why


SKIPS = (
    "pass its analysis of step 2 without a verdict; it stops next at step 3 (pause until promoted); "
    "the background analysis continues"
)


@pytest.mark.parametrize(
    ("status", "value", "words"),
    [
        (held(record("step", "Pending", step=1), record("background", "Pending")), "skip-1", SKIPS),
        (held(record("pre-promotion", "Pending")), "skip-pre-promotion", "without a verdict"),
        (held(record("post-promotion", "Pending")), "skip-post-promotion", "without a verdict"),
    ],
)
def test_an_analysis_is_skipped_by_its_name_and_says_what_is_lost(status: Manifest, value: str, words: str) -> None:
    """A person is asked with these words before anything is written: it is a promotion without evidence."""
    planned = written(promote(status, spec=ANALYSED, skip_analysis=True))

    assert planned.annotations == {"rollouts.dev/promote": f"newrev@{value}"}
    assert words in planned.meaning
    assert planned.loses == "lost: what AnalysisRun cart-run has measured; it is ended, and nothing that it says counts"


def test_a_revision_that_went_a_weight_back_is_promoted_or_retried() -> None:
    """Neither needs an abort first, and neither uses the verdict again."""
    back = seen(held(record("step", "Failed", step=1, backToWeight=0), at=0), spec=ANALYSED)
    forward, again = written(verb_plans.plan_promote(back)), written(verb_plans.plan_retry(back))

    assert forward.meaning == "lets revision newrev go forward again, and its analysis of step 2 measure again"
    assert again.annotations["rollouts.dev/retry"] == "newrev@1"


@pytest.mark.parametrize(
    ("managers", "goes"),
    [
        ([verb_plans.FIELD_MANAGER], True),
        (["argocd-controller"], False),
        ([verb_plans.FIELD_MANAGER, "kubectl"], False),
    ],
)
def test_a_retry_removes_a_promotion_of_the_attempt_before_that_no_manifest_has(
    managers: list[str], goes: bool
) -> None:
    """Else people are told that it has no effect any more. A tool that sets one from Git again would promote the new attempt."""
    there = seen(ABORTED, annotations={"rollouts.dev/promote": "newrev@1"})
    fields: Manifest = {"f:metadata": {"f:annotations": {"f:rollouts.dev/promote": {}}}}
    there.rollout["metadata"]["managedFields"] = [
        {"manager": verb_plans.FIELD_MANAGER, "fieldsV1": {"f:spec": {}}},
        *({"manager": manager, "fieldsV1": fields} for manager in managers),
    ]

    annotations = written(verb_plans.plan_retry(there)).annotations

    removed = {"rollouts.dev/abort": None, **({"rollouts.dev/promote": None} if goes else {})}
    assert annotations == {"rollouts.dev/retry": "newrev@3", **removed}


def _rollback(revision: str, target: str, **changes: object) -> Manifest:
    """A rollback in `status.commands`."""
    return {"verb": "rollback", "value": f"previous@{revision}", "revision": revision, "at": "2026-11-21T10:00:00Z",
            "target": target, "outcome": "Accepted", **changes}  # fmt: skip


BACK = {**DONE, "currentRevision": STABLE, "stableRevision": STABLE, "commands": [_rollback(NEW, STABLE)]}
# given for an earlier template: it stays on record with its annotation, and is none of the present one
AFTER = {**DONE, "commands": [_rollback("older", STABLE, outcome="Over")]}


@pytest.mark.parametrize(
    ("planned", "annotations"),
    [
        (promote(AT_THE_GATE), {"rollouts.dev/promote": "newrev@1"}),
        (promote(AT_THE_GATE, step=2), {"rollouts.dev/promote": "newrev@2"}),
        (promote(AT_THE_GATE, full=True), {"rollouts.dev/promote": "newrev@full"}),
        (promote(AT_THE_GATE, spec={"strategy": {"blueGreen": {}}}, step=0), {"rollouts.dev/promote": "newrev@0"}),
        (verb_plans.plan_abort(seen(AT_THE_GATE)), {"rollouts.dev/abort": "newrev"}),
        (verb_plans.plan_retry(seen(ABORTED)), {"rollouts.dev/retry": "newrev@3", "rollouts.dev/abort": None}),
        (verb_plans.plan_pause(seen(AT_THE_GATE)), {"rollouts.dev/pause": "true"}),
        (verb_plans.plan_resume(seen(AT_THE_GATE, annotations=PAUSED)), {"rollouts.dev/pause": None}),
        (verb_plans.plan_rollback(seen(DONE), to=None), {"rollouts.dev/rollback": "previous@newrev"}),
        (verb_plans.plan_rollback(seen(AFTER), to=None), {"rollouts.dev/rollback": "previous@newrev"}),
        (verb_plans.plan_rollback(seen(DONE), to="oldrev"), {"rollouts.dev/rollback": "oldrev"}),
        (verb_plans.plan_rollback(seen(DONE), to="#1"), {"rollouts.dev/rollback": "oldrev"}),
        (verb_plans.plan_restart(seen(DONE), at_s=1_800_000_000.7), {"rollouts.dev/restart": "2027-01-15T08:00:00Z"}),
    ],
)
def test_a_verb_is_bound_to_what_is_shown(planned: CommandWrite | Nothing, annotations: dict[str, str | None]) -> None:
    """`true` would mean whatever is there when the controller looks; a name means what the person saw."""
    assert written(planned).annotations == annotations


@pytest.mark.parametrize(
    ("planned", "code", "words"),
    [
        (promote({}), Exit.UNFINISHED, "has not seen this Rollout yet"),
        (promote(DONE), Exit.OK, "nothing to promote"),
        (promote(ABORTED), Exit.BAD, "retry it first"),
        (promote(FIRST), Exit.OK, "no step of revision newrev is left to promote here; it waits: 4 pods"),
        (promote(PROMOTED), Exit.OK, "no step of revision newrev is left to promote here"),
        (promote(AT_THE_GATE, step=9), Exit.USAGE, "there is no step 10: the steps are 1 to 3"),
        (verb_plans.plan_abort(seen(DONE)), Exit.BAD, "use undo"),
        (verb_plans.plan_abort(seen(ABORTED)), Exit.OK, "already"),
        (verb_plans.plan_retry(seen(AT_THE_GATE)), Exit.BAD, "nothing is aborted"),
        (verb_plans.plan_resume(seen(AT_THE_GATE)), Exit.BAD, "use promote"),
        (verb_plans.plan_resume(seen(DONE, spec={"paused": True})), Exit.BAD, "spec.paused"),
        (verb_plans.plan_pause(seen(DONE, spec={"paused": True})), Exit.OK, "already"),
        (verb_plans.plan_rollback(seen(DONE), to="7"), Exit.BAD, "#1 oldrev, #2 newrev"),
        (verb_plans.plan_rollback(seen({**DONE, "history": []}), to=None), Exit.BAD, "no revision before newrev is kept"),
        (verb_plans.plan_rollback(seen(DONE), to="newrev"), Exit.OK, "is stable already"),
    ],
)  # fmt: skip
def test_a_verb_that_fits_nothing_is_not_written(planned: CommandWrite | Nothing, code: Exit, words: str) -> None:
    """An answer with a reason and the right exit code, instead of an annotation that the controller would have to refuse."""
    assert (refused(planned).code, words in refused(planned).why) == (code, True), planned


@pytest.mark.parametrize("to", [None, STABLE])
def test_what_is_rolled_back_already_is_told(to: str | None) -> None:
    """From where to where."""
    planned = verb_plans.plan_rollback(seen(BACK), to=to)

    assert planned == Nothing("it is rolled back from revision newrev to revision oldrev already" +
                              ("; use `--to` for another revision" if to is None else ""), Exit.OK)  # fmt: skip


def test_a_rollback_to_the_templates_own_revision_goes_forward() -> None:
    """It ends the rollback that holds; where none does there is nothing to write."""
    planned = written(verb_plans.plan_rollback(seen(BACK), to=NEW))

    assert (planned.annotations, "forward" in planned.meaning) == ({"rollouts.dev/rollback": NEW}, True)
    assert isinstance(verb_plans.plan_rollback(seen(AT_THE_GATE), to=NEW), Nothing)


FOUR = {"strategy": {"canary": {"steps": [{"pause": {}}, {"setWeight": 25}, {"pause": {}}, {"setWeight": 50}]}}}
AT_0, AT_2 = ({**AT_THE_GATE, "currentStepIndex": index} for index in (0, 2))
HELD_BY_SPEC = {"paused": True, "strategy": {"canary": {"steps": STEPS}}}


def aborted_with(ready: int) -> CommandWrite | Nothing:
    """The abort of an update whose stable revision has four pods, so many of which are ready."""
    there = seen(AT_THE_GATE)
    stable = {**there.replica_sets[0], "spec": {"replicas": 4}, "status": {"replicas": 4, "readyReplicas": ready}}
    return verb_plans.plan_abort(RolloutObjects(rollout=there.rollout, replica_sets=(stable, there.replica_sets[1])))


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (promote(AT_0, spec=FOUR), "it stops next at step 3 (pause until promoted)"),
        (promote(AT_2, spec=FOUR), "no later step stops it"),
        (promote(AT_0, spec=FOUR, full=True), "every step"),
        (promote(held(BACKGROUND), full=True), "every step and every analysis"),
        (promote(held(at=0), spec=ANALYSED), "it stops next at step 2 (analysis rate)"),
        (promote(held(BACKGROUND), spec=ANALYSED),
         "lets revision newrev pass the verdict of its background analysis, which is Inconclusive"),
        (verb_plans.plan_promote(seen(AT_THE_GATE, annotations=PAUSED)), "it stays paused until `kubectl rollouts resume cart`"),
        (promote(AT_THE_GATE, spec=HELD_BY_SPEC), "it stays paused by spec.paused in its manifest"),
        # whoever aborts for a broken dependency sends all clients to pods that may be as broken
        (aborted_with(4), "gets all traffic"),
        (aborted_with(1), "gets all traffic, of which 1 of 4 pods is ready"),
        (aborted_with(0), ", of which 0 of 4 pods are ready"),
    ],
)  # fmt: skip
def test_a_verb_says_beforehand_what_follows(planned: CommandWrite | Nothing, words: str) -> None:
    """The line that is printed is what a person stands for."""
    assert written(planned).words.endswith(words)


def test_pods_that_become_ready_make_no_other_abort() -> None:
    """Whoever aborts while the stable revision's pods come back would be told again and again that something had changed."""
    assert aborted_with(1) == aborted_with(2)
    assert written(aborted_with(1)).words != written(aborted_with(2)).words


async def cluster(there: Served, status: Manifest) -> None:
    """The Rollout shop, and nobody who looks after it."""
    await there.create(ROLLOUT, {**canary_app("default")[1], "status": status})


async def annotations_of(there: Served) -> dict[str, str]:
    """The Rollout's annotations now."""
    return dict((await there.object(ROLLOUT, "shop"))["metadata"].get("annotations") or {})


async def carried_out(there: Served, plan: Any = verb_plans.plan_promote, *, wait: bool = False) -> Exit:
    """The exit code of a verb about the Rollout."""
    return await verbs.carry_out(there.session, "shop", plan, wait=wait, console=Console(quiet=True))


def moves_once(there: Served, status: Manifest) -> Served:
    """The same API server, on which somebody else writes `status` just before the first PATCH arrives."""
    moves = [status]

    class Moves(Door):
        async def request(self, request: Request, *, deadline_s: float) -> Response:
            if request.method == "PATCH" and moves:
                await there.put_status(ROLLOUT, "shop", moves.pop())
            return await super().request(request, deadline_s=deadline_s)

    return replace(there, api=cast(SimServer, Moves(there.api)))


async def test_a_verb_outlives_a_status_that_changed_nothing_of_it(there: Served) -> None:
    """The controller counts pods all the time; that must not make people type twice."""
    await cluster(there, AT_THE_GATE)

    assert await carried_out(moves_once(there, {"readyReplicas": 3})) is Exit.OK
    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}


async def test_a_verb_is_not_written_when_another_revision_took_over(there: Served) -> None:
    """Between look and Enter a newer revision came: promoting that one is not what was meant."""
    await cluster(there, AT_THE_GATE)

    with pytest.raises(ApiConflict, match="changed while the command was prepared; nothing was written"):
        await carried_out(moves_once(there, {"currentRevision": "newest"}))

    assert await annotations_of(there) == {}


async def test_an_abort_says_what_is_lost_by_it(there: Served) -> None:
    """It asks nobody, and whoever typed it sees what it costs."""
    await cluster(there, AT_THE_GATE)

    assert (await there.run("abort", "shop", "--no-wait")).out.splitlines() == [
        "shop: rollouts.dev/abort=newrev: aborts revision newrev; revision oldrev gets all traffic",
        "shop: lost: 1 of 4 steps, 0 pods of revision newrev; a retry begins again at its first step",
    ]
    assert await annotations_of(there) == {"rollouts.dev/abort": "newrev"}


async def test_without_a_controller_the_command_says_so(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """An annotation that nobody reads looks like success; it is not."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.2)
    await cluster(there, AT_THE_GATE)

    assert await carried_out(there, verb_plans.plan_abort, wait=True) is Exit.UNFINISHED
    assert "no controller has recorded the command within 0.2 s" in there.printed.readouterr().err
    assert await annotations_of(there) == {"rollouts.dev/abort": "newrev"}


async def test_a_value_that_is_spent_is_taken_off_and_set_again(there: Served) -> None:
    """Promoted, then the steps were edited: the same name for the new list would be no change of the object."""
    given = {"verb": "promote", "value": "newrev@1", "revision": NEW, "at": "2026-11-21T10:00:00Z", "step": 1}
    await cluster(there, {**AT_THE_GATE, "commands": [{**given, "outcome": "Over"}]})
    annotated = {"metadata": {"annotations": {"rollouts.dev/promote": "newrev@1"}}}
    await there.session.client.patch(ROLLOUT, "default", "shop", annotated, MERGE_PATCH)
    seen_values: list[str | None] = []

    async def controller() -> None:
        """Drops the record when the annotation has gone, and records the next one."""
        while True:
            value = (await annotations_of(there)).get("rollouts.dev/promote")
            if not seen_values or seen_values[-1] != value:
                seen_values.append(value)
                if len(seen_values) > 1:
                    records = [] if value is None else [{**given, "outcome": "Accepted", "by": "kubectl-rollouts"}]
                    await there.put_status(ROLLOUT, "shop", {"commands": records})
            await asyncio.sleep(0)

    working = asyncio.create_task(controller())
    code = await carried_out(there, wait=True)
    working.cancel()

    assert (code, seen_values) == (Exit.OK, ["newrev@1", None, "newrev@1"])


async def test_a_refusal_is_told_in_the_controllers_words(there: Served) -> None:
    """The record of this very command says so, whatever else was refused before."""
    await cluster(there, AT_THE_GATE)
    record = {"verb": "abort", "value": NEW, "revision": NEW, "at": "2026-11-21T10:00:00Z"}
    refusal = {"outcome": "Refused", "reason": "CommandInvalid", "message": "it has moved on"}
    await there.put_status(ROLLOUT, "shop", {"commands": [record | refusal]})

    assert await carried_out(there, verb_plans.plan_abort, wait=True) is Exit.BAD
    assert "the controller refused the command: it has moved on" in there.printed.readouterr().err

"""Promise: a pass sees the runs that its Rollout owns, and the runs that can be made for its update, or why they cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.parse import parse_spec
from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.cluster.decoding import UnreadableObject
from rollouts.controller.observe.observer import Observer, Seen
from rollouts.controller.workqueue.managed import ManagedServices
from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.model.analysis import (
    AnalysisGate,
    AnalysisKind,
    AnalysisPhase,
    DraftProblem,
    RunDraft,
    RunSeen,
)
from rollouts.core.model.snapshot import Snapshot
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Key, Kind
from rollouts.sim.clock import run_virtual
from tests.controller.world import CART, World, analysis_run, owned, rollout, template

ERRORS = {"templates": [{"templateName": "errors"}]}
STEP_0 = AnalysisGate(AnalysisKind.STEP, 0)
BACKGROUND = AnalysisGate(AnalysisKind.BACKGROUND)


def spec_of(*, steps: list[Any] | None = None, image: str = "app:2", **canary: Any) -> dict[str, Any]:
    """A canary whose first step is an analysis, unless `steps` says something else."""
    return {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "cart"}},
        "strategy": {"canary": {"steps": [{"analysis": ERRORS}] if steps is None else steps, **canary}},
        "template": {
            "metadata": {"labels": {"app": "cart"}},
            "spec": {"containers": [{"name": "app", "image": image}]},
        },
    }


def revision_of(spec: dict[str, Any]) -> str:
    """The revision of its pods."""
    return parse_spec(spec).revision


def updating(spec: dict[str, Any], **status: Any) -> dict[str, Any]:
    """The status of a Rollout that is being updated from revision v1 to that of its spec."""
    return {"currentRevision": revision_of(spec), "stableRevision": "v1", "phase": "Progressing", **status}


def snapshots(*arrange: Callable[[World], None]) -> list[Snapshot]:
    """What one observer sees after each of these."""
    found: list[Snapshot] = []

    async def main() -> None:
        world = World()
        observer = Observer(
            store=world.store,
            inbox=world.inbox,
            managed=ManagedServices(),
            clock=world.clock,
            analyses=world.analyses,
        )
        for each in arrange:
            each(world)
            seen = observer.observe(CART)
            assert isinstance(seen, Seen)
            found.append(seen.snapshot)

    run_virtual(main())
    return found


def snapshot(arrange: Callable[[World], None]) -> Snapshot:
    """What is seen after `arrange`."""
    return snapshots(arrange)[0]


def only_draft(arrange: Callable[[World], None]) -> RunDraft | DraftProblem:
    """The one draft that is seen after `arrange`."""
    (draft,) = snapshot(arrange).drafts.values()
    return draft


def problem(arrange: Callable[[World], None]) -> str:
    """Why there is no run, after `arrange`."""
    draft = only_draft(arrange)
    assert isinstance(draft, DraftProblem)
    return draft.message


def under_way(world: World, *, version: int = 1, **more: Any) -> None:
    """An update to a revision whose first step is an analysis."""
    spec = spec_of()
    world.rollouts.put("", rollout(spec=spec, status=updating(spec), version=version, **more))


# --- runs


def measured(name: str, phase: AnalysisPhase, *, value: str = "", message: str = "", **more: Any) -> MetricResult:
    """A metric with one measurement."""
    one = Measurement(phase=phase, started_at_s=1.0, finished_at_s=2.0, value=value, message=message)
    return MetricResult(name=name, phase=AnalysisPhase.RUNNING, measurements=(one,), **more)


def runs_with(*statuses: RunStatus | dict[str, Any], **more: Any) -> list[RunSeen]:
    """The run of Rollout cart as it is seen with each of these statuses, one after the other."""

    def with_status(index: int, status: RunStatus | dict[str, Any]) -> Callable[[World], None]:
        wire = run_status_to_wire(status) if isinstance(status, RunStatus) else status

        def put(world: World) -> None:
            if not index:
                under_way(world)
            world.runs.put("", analysis_run(status=wire, version=index + 1, **more))

        return put

    seen = snapshots(*(with_status(index, status) for index, status in enumerate(statuses)))
    return [run for each in seen for run in each.runs]


def test_a_run_is_seen_with_its_place_and_its_verdict() -> None:
    """The verdict counts for the revision and the step that its labels name, and for no other."""
    over = RunStatus(phase=AnalysisPhase.FAILED, message="too many errors", started_at_s=1.0, completed_at_s=9.0)

    (run,) = runs_with(over, creationTimestamp="1970-01-01T00:00:05Z", deletionTimestamp="1970-01-01T00:00:10Z")

    assert run == RunSeen(
        name="cart-run",
        uid="cart-run-uid",
        resource_version="1",
        gate=STEP_0,
        revision="v2",
        created_at_s=5.0,
        phase=AnalysisPhase.FAILED,
        message="too many errors",
        deleting=True,
        completed_at_s=9.0,
    )


@pytest.mark.parametrize(
    ("labels", "gate"),
    [
        ({"rollouts.dev/analysis": "background"}, BACKGROUND),
        ({"rollouts.dev/analysis": "post-promotion"}, AnalysisGate(AnalysisKind.POST_PROMOTION)),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "12"}, AnalysisGate(AnalysisKind.STEP, 12)),
        ({"rollouts.dev/analysis": "step"}, None),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "-1"}, None),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "9" * 10}, None),
        ({"rollouts.dev/analysis": "step", "rollouts.dev/step": "²"}, None),
        ({"rollouts.dev/analysis": "tea"}, None),
        ({}, None),
    ],
)
def test_a_run_whose_labels_cannot_be_read_is_of_no_gate(labels: dict[str, str], gate: AnalysisGate | None) -> None:
    """Somebody may edit labels; such a run passes nothing."""
    (run,) = runs_with({}, labels=labels)

    assert run.gate == gate


def test_a_run_is_measured_once_every_metric_that_counts_has_a_verdict() -> None:
    """An update that ends waits for that much evidence of the analysis beside its steps. Errors and dry runs are none."""
    good = measured("a", AnalysisPhase.SUCCESSFUL, count=1)
    broken = measured("b", AnalysisPhase.ERROR, error=1)
    fine = measured("b", AnalysisPhase.FAILED, count=1)
    unmeasured = MetricResult(name="c", dry_run=True)
    running = RunStatus(phase=AnalysisPhase.RUNNING, started_at_s=1.0)

    seen = runs_with(
        {},
        running,
        replace(running, results=(good, MetricResult(name="b"), unmeasured)),
        replace(running, results=(good, broken, unmeasured)),
        replace(running, results=(good, fine, unmeasured)),
    )

    assert [each.measured for each in seen] == [False, False, False, False, True]


def test_a_run_that_goes_on_says_what_it_measured_last() -> None:
    """People who wait for it read this in the status of the Rollout."""
    results = (
        measured("success-rate", AnalysisPhase.SUCCESSFUL, value="0.99", count=1),
        measured("latency", AnalysisPhase.ERROR, message="connection refused", error=1),
        measured("cpu", AnalysisPhase.FAILED, value="9", count=1, dry_run=True),
        MetricResult(name="memory"),
    )

    (run,) = runs_with(RunStatus(phase=AnalysisPhase.RUNNING, results=results, started_at_s=1.0))

    assert run.message == "success-rate Successful (0.99), latency Error (connection refused)"


@pytest.mark.parametrize(
    ("spec", "told"), [({"terminate": True}, True), ({"terminate": False}, False), ({"terminate": "yes"}, False)]
)
def test_a_run_that_is_told_to_end_is_seen_so(spec: dict[str, Any], told: bool) -> None:
    """It is told once."""
    assert [each.terminate for each in runs_with({}, spec=spec)] == [told]


@pytest.mark.parametrize("junk", [{"phase": "Splendid"}, {"phase": 5, "metricResults": "x"}, {"metricResults": [7]}])
def test_a_status_that_somebody_has_spoilt_is_no_verdict(junk: dict[str, Any]) -> None:
    """Whoever may write anything into it must not pass a gate by a mistake."""
    (run,) = runs_with(junk)

    assert (run.phase, run.measured) == (AnalysisPhase.PENDING, False)


@pytest.mark.parametrize("lie", [{"name": "other"}, {"kind": "Job"}, {"controller": False}, {"uid": "someone's"}])
def test_a_run_whose_owner_reference_lies_is_nobodys(lie: dict[str, Any]) -> None:
    """As for ReplicaSets: all of a reference has to be true."""
    assert runs_with({}, ownerReferences=[{**owned()[0], **lie}]) == []


def test_the_oldest_run_comes_first() -> None:
    """Decisions do not depend on the order in which a watch brings objects."""

    def arrange(world: World) -> None:
        under_way(world)
        for name, at in (("b", "07"), ("c", "05"), ("a", "07")):
            world.runs.put("", analysis_run(name, creationTimestamp=f"2026-01-01T00:00:{at}Z"))

    assert [run.name for run in snapshot(arrange).runs] == ["c", "a", "b"]


def test_a_run_that_cannot_be_read_has_no_verdict_and_is_there() -> None:
    """No other run takes its place, nothing is promoted, and everything else goes on: an abort by hand, for one."""

    def arrange(world: World) -> None:
        under_way(world)
        run = analysis_run(status={"phase": "Successful"})
        world.runs.put("", run)
        world.runs.put_unreadable("", UnreadableObject(analysis_run(version=2).metadata, "it has more than 8 MiB"))

    (run,) = snapshot(arrange).runs

    assert (run.name, run.gate, run.phase, run.measured) == ("cart-run", STEP_0, AnalysisPhase.PENDING, False)
    assert "more than 8 MiB" in run.message


def test_a_name_that_somebody_else_has_is_seen() -> None:
    """Status names the run, and the object of that name is a stranger's: its verdict says nothing about this Rollout.

    The Rollout depends on it all the same: it waits until somebody deletes it.
    """
    depend: list[Callable[[], frozenset[Key]]] = []
    record = {
        "kind": "step",
        "step": 0,
        "number": 1,
        "run": "cart-run",
        "phase": "Running",
        "at": "2026-01-01T00:00:00Z",
    }

    def arrange(world: World) -> None:
        spec = spec_of()
        world.rollouts.put("", rollout(spec=spec, status=updating(spec, analyses=[record])))
        world.runs.put("", analysis_run(ownerReferences=[]))
        world.templates.put("", template())
        depend.append(lambda: world.analyses.askers.of("shop", "cart-run"))

    seen = snapshot(arrange)

    assert (seen.runs, seen.taken_runs) == ((), frozenset({"cart-run"}))
    assert depend[0]() == {CART}


# --- drafts


def test_a_draft_is_the_whole_run() -> None:
    """A copy of the templates with the values of the arguments, and the metadata that the spec gives to the run."""
    argument = {"name": "revision", "valueFrom": {"podTemplateHashValue": "Latest"}}
    named = {"name": "team", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}
    analysis = {
        "templates": [{"templateName": "errors"}, {"templateName": "latency", "clusterScope": True}],
        "args": [argument, named],
        "dryRun": [{"metricName": "latency"}],
        "analysisRunMetadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    }
    spec = spec_of(steps=[{"analysis": analysis}])

    def arrange(world: World) -> None:
        world.rollouts.put("", rollout(spec=spec, status=updating(spec), labels={"team": "shop"}))
        world.templates.put("", template(args=[{"name": "revision"}, {"name": "team"}]))
        world.cluster_templates.put("", template("latency", cluster=True))

    draft = only_draft(arrange)

    assert isinstance(draft, RunDraft)
    assert (draft.latest, draft.stable) == (revision_of(spec), "v1")
    assert (draft.labels, draft.annotations) == ({"a": "b"}, {"c": "d"})
    made = json.loads(draft.spec_json)
    assert made["args"] == [{"name": "revision", "value": revision_of(spec)}, {"name": "team", "value": "shop"}]
    assert [metric["name"] for metric in made["metrics"]] == ["errors", "latency"]
    assert [metric.rules.dry_run for metric in parse_run(made).metrics] == [False, True]


@pytest.mark.parametrize(
    ("spec", "status", "gates"),
    [
        (spec_of(analysis=ERRORS), {}, {STEP_0, BACKGROUND}),
        (spec_of(steps=[{"setWeight": 5}, {"analysis": ERRORS}]), {}, set()),
        (
            spec_of(steps=[{"setWeight": 5}, {"analysis": ERRORS}]),
            {"currentStepIndex": 1},
            {AnalysisGate(AnalysisKind.STEP, 1)},
        ),
        (spec_of(analysis=ERRORS), {"currentStepIndex": 1}, {BACKGROUND}),
        (spec_of(), {"currentRevision": "v0", "currentStepIndex": 1}, {STEP_0}),
        (spec_of(), {"stableRevision": revision_of(spec_of())}, set()),
        (
            spec_of(),
            {"abort": {"revision": revision_of(spec_of()), "at": "2026-01-01T00:00:00Z", "reason": "Aborted"}},
            set(),
        ),
    ],
)
def test_drafts_are_made_for_what_may_begin_next(
    spec: dict[str, Any], status: dict[str, Any], gates: set[AnalysisGate]
) -> None:
    """Of the steps only for the present one; for a new template, for its first; when nothing is rolled out, for none."""

    def arrange(world: World) -> None:
        world.rollouts.put("", rollout(spec=spec, status=updating(spec, **status)))
        world.templates.put("", template())

    drafts = snapshot(arrange).drafts

    assert set(drafts) == gates
    assert {draft.latest for draft in drafts.values() if isinstance(draft, RunDraft)} <= {revision_of(spec)}


def test_a_preview_has_its_analyses() -> None:
    """Before the promotion and after it."""
    blue_green = {"activeService": "web", "prePromotionAnalysis": ERRORS, "postPromotionAnalysis": ERRORS}
    spec = {**spec_of(), "strategy": {"blueGreen": blue_green}}

    def arrange(world: World) -> None:
        world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
        world.templates.put("", template())

    assert set(snapshot(arrange).drafts) == {
        AnalysisGate(AnalysisKind.PRE_PROMOTION),
        AnalysisGate(AnalysisKind.POST_PROMOTION),
    }


def test_a_template_that_is_missing_is_named() -> None:
    """With where the spec names it, so that the user can mend either."""
    assert problem(under_way) == (
        "spec.strategy.canary.steps[0].analysis.templates[0]: names AnalysisTemplate/errors, which does not exist"
    )


def test_everything_wrong_with_a_run_is_told_at_once() -> None:
    """One look at the status is enough to mend all of it."""

    def arrange(world: World) -> None:
        under_way(world)
        metrics = [{"name": "a", "provider": {"prometheus": {}}}, {"name": "a", "provider": {"web": {"url": "x"}}}]
        world.templates.put("", template(metrics=metrics))

    message = problem(arrange)

    assert "AnalysisTemplate/errors.spec.metrics[0].provider.prometheus.query: is required" in message
    assert "AnalysisTemplate/errors.spec.metrics[1].name" in message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ANALYSIS_TEMPLATE, "AnalysisTemplate/errors: is not known: grant it"),
        (ANALYSIS_RUN, "no AnalysisRun can be made: grant it"),
    ],
)
def test_without_the_right_to_see_a_kind_the_rollout_says_so(kind: Kind, words: str) -> None:
    """Installations without the CRDs, or with fewer rights, work for everybody who names no template."""

    def arrange(world: World) -> None:
        under_way(world)
        world.templates.put("", template())
        world.unseen[kind] = "grant it"

    assert problem(arrange) == words


def test_a_cluster_template_is_needed_only_by_who_names_one() -> None:
    """A controller of one namespace may see no object of the cluster."""

    def arrange(world: World) -> None:
        under_way(world)
        world.templates.put("", template())
        world.unseen[CLUSTER_ANALYSIS_TEMPLATE] = "grant it"

    assert isinstance(only_draft(arrange), RunDraft)


def test_a_template_that_cannot_be_read_is_not_missing() -> None:
    """Who looks for it finds it; the message says what is wrong with it."""

    def arrange(world: World) -> None:
        under_way(world)
        world.templates.put_unreadable("", UnreadableObject(template().metadata, "it has more than 8 MiB"))

    assert problem(arrange) == "AnalysisTemplate/errors: cannot be read: it has more than 8 MiB; make it smaller"


def test_a_template_that_is_nested_too_deeply_stops_one_rollout_alone() -> None:
    """The API server takes 10,000 levels."""

    def arrange(world: World) -> None:
        under_way(world)
        deep: Any = 1
        for _ in range(900):
            deep = [deep]
        world.templates.put("", template(metrics=[{"name": "a", "provider": {"job": {"spec": {"x": deep}}}}]))

    assert "errors" in problem(arrange)


def test_a_message_has_an_end() -> None:
    """It becomes a part of the status, which the API server must take."""
    templates = [{"templateName": f"{'n' * 200}{index}"} for index in range(32)]
    spec = spec_of(steps=[{"analysis": {"templates": templates}}])

    def arrange(world: World) -> None:
        world.rollouts.put("", rollout(spec=spec, status=updating(spec)))

    assert len(problem(arrange)) == 2_000


def test_a_draft_is_made_anew_when_what_it_is_made_of_changes() -> None:
    """The template, the Rollout's labels, the revisions: a run must not be made of what was true before."""
    named = {"name": "team", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}
    spec = spec_of(steps=[{"analysis": {**ERRORS, "args": [named]}}])

    def arranged(version: int, team: str, interval: str, stable: str) -> Callable[[World], None]:
        def arrange(world: World) -> None:
            status = updating(spec, stableRevision=stable)
            world.rollouts.put("", rollout(spec=spec, status=status, version=version, labels={"team": team}))
            args = [{"name": "team"}, {"name": "x", "value": interval}]
            world.templates.put("", template(version=version, args=args))

        return arrange

    seen = snapshots(
        arranged(1, "shop", "1m", "v1"),
        arranged(2, "shop", "2m", "v1"),
        arranged(3, "cart", "2m", "v1"),
        arranged(4, "cart", "2m", "v0"),
    )

    made = [next(iter(each.drafts.values())) for each in seen]
    assert all(isinstance(each, RunDraft) for each in made)
    assert len(set(map(repr, made))) == 4


def test_a_field_of_the_status_is_taken_as_it_is_now() -> None:
    """It changes without a new generation."""
    named = {"name": "step", "valueFrom": {"fieldRef": {"fieldPath": "status.message"}}}
    spec = spec_of(steps=[{"analysis": {**ERRORS, "args": [named]}}])

    def arranged(version: int, message: str) -> Callable[[World], None]:
        def arrange(world: World) -> None:
            world.rollouts.put("", rollout(spec=spec, status=updating(spec, message=message), version=version))
            world.templates.put("", template(args=[{"name": "step"}]))

        return arrange

    drafts = [next(iter(each.drafts.values())) for each in snapshots(arranged(1, "one"), arranged(2, "two"))]

    values = [json.loads(each.spec_json)["args"] for each in drafts if isinstance(each, RunDraft)]
    assert values == [[{"name": "step", "value": "one"}], [{"name": "step", "value": "two"}]]


def test_a_draft_is_made_once() -> None:
    """Passes are many and templates are large: what has not changed is not read again."""

    def begin(world: World) -> None:
        under_way(world)
        world.templates.put("", template())

    first, second = snapshots(begin, lambda world: under_way(world, version=2))

    assert first.drafts[STEP_0] is second.drafts[STEP_0]


def test_only_who_is_being_updated_asks_for_templates() -> None:
    """A change of a template wakes those who depend on it now; an idle Rollout is left in peace."""
    spec = spec_of()
    askers: list[set[Any]] = []

    def put(status: dict[str, Any], version: int) -> Callable[[World], None]:
        def arrange(world: World) -> None:
            askers.append(set(world.analyses.askers.of("shop", "errors")))
            world.rollouts.put("", rollout(spec=spec, status=status, version=version))

        return arrange

    idle = updating(spec, stableRevision=revision_of(spec))
    snapshots(put(idle, 1), put(updating(spec), 2), put(idle, 3), put(idle, 4))

    assert askers == [set(), set(), {CART}, set()]

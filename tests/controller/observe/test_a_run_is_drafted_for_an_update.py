"""Promise: while an update is under way, a pass sees the run that can be made next, or why there can be none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.cluster.decoding import UnreadableObject
from rollouts.core.model.analysis import (
    AnalysisGate,
    AnalysisKind,
    DraftProblem,
    RunDraft,
)
from rollouts.core.model.frozen import replace
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Kind
from tests.controller.observe.analysed import (
    BACKGROUND,
    ERRORS,
    STEP_0,
    only_draft,
    problem,
    revision_of,
    snapshot,
    snapshots,
    spec_of,
    under_way,
    updating,
)
from tests.controller.world import CART, World, replica_set, rollout, template

STEP_1 = AnalysisGate(AnalysisKind.STEP, 1)


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
        (spec_of(steps=[{"setWeight": 5}, {"analysis": ERRORS}]), {}, {STEP_1}),
        (
            spec_of(steps=[{"setWeight": 5}, {"analysis": ERRORS}]),
            {"currentStepIndex": 1},
            {STEP_1},
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
    """Before the first pod for every step, then for the present one alone; when nothing is rolled out, for none."""

    def arrange(world: World) -> None:
        world.rollouts.put("", rollout(spec=spec, status=updating(spec, **status)))
        world.templates.put("", template())

    drafts = snapshot(arrange).drafts

    assert set(drafts) == gates
    assert {draft.latest for draft in drafts.values() if isinstance(draft, RunDraft)} <= {revision_of(spec)}


def test_after_the_first_pod_only_the_present_step_is_drafted() -> None:
    """Later ones were looked at before the update began; each look reads templates, which others may make large."""
    spec = spec_of(steps=[{"setWeight": 5}, {"analysis": ERRORS}])

    def arrange(pods: int) -> Callable[[World], None]:
        def arranged(world: World) -> None:
            world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
            world.templates.put("", template())
            new = replica_set(f"cart-{revision_of(spec)}", version=pods + 2)
            world.replica_sets.put("", replace(new, spec=replace(new.spec, replicas=pods)))

        return arranged

    waiting, begun = snapshots(arrange(0), arrange(1))

    assert (set(waiting.drafts), set(begun.drafts)) == ({STEP_1}, set())


def test_very_large_templates_are_read_in_several_passes() -> None:
    """Whoever names as many large templates as a spec has steps delays nobody else: a pass reads two runs' worth of them."""
    names = [f"large-{number}" for number in range(8)]
    spec = spec_of(steps=[{"setWeight": 5}, *({"analysis": {"templates": [{"templateName": name}]}} for name in names)])

    def arrange(world: World) -> None:
        world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
        for number, name in enumerate(names):
            large = [{"name": f"large-{each}", "value": "1" * 4_000} for each in range(7)]
            world.templates.put("", template(name, version=number + 2, args=large))

    passes = snapshots(arrange, *[lambda _: None] * 3)

    assert [len(each.drafts) for each in passes] == [3, 6, 8, 8]
    problems = [each for each in passes[-1].drafts.values() if not isinstance(each, RunDraft)]
    assert problems == []
    assert passes[0].drafts.items() <= passes[-1].drafts.items()


@pytest.mark.parametrize(
    ("path", "comes_later"),
    [("status.canary.weights", True), ("metadata.labels['region']", False), ("status[", False)],
)
def test_a_field_that_is_not_there_may_be_one_of_a_status_that_is_not_written_yet(path: str, comes_later: bool) -> None:
    """The controller itself writes it: an update that waited for it to begin would wait for itself."""
    argument = {"name": "where", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    spec = spec_of(steps=[{"analysis": {**ERRORS, "args": [argument]}}])

    def arrange(world: World) -> None:
        world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
        world.templates.put("", template(args=[{"name": "where"}]))

    draft = only_draft(arrange)

    assert isinstance(draft, DraftProblem)
    assert "args[0].valueFrom.fieldRef.fieldPath" in draft.message
    assert draft.comes_later is comes_later


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
        "spec.strategy.canary.steps[0].analysis.templates[0]: names AnalysisTemplate/errors, which does not exist: create it, "
        "or name another one"
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
            askers.append(set(world.analyses.askers.of(("shop", "errors"))))
            world.rollouts.put("", rollout(spec=spec, status=status, version=version))

        return arrange

    idle = updating(spec, stableRevision=revision_of(spec))
    snapshots(put(idle, 1), put(updating(spec), 2), put(idle, 3), put(idle, 4))

    assert askers == [set(), set(), {CART}, set()]

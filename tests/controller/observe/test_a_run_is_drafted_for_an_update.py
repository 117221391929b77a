"""Promise: while an update is under way, a pass sees the run that can be made next, or why there can be none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.cluster.decoding import UnreadableObject
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, Draft, DraftProblem, RunDraft
from rollouts.core.model.frozen import replace
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Kind
from tests.controller.observe.analysed import (
    BACKGROUND,
    ERRORS,
    STEP_0,
    analysing,
    only_draft,
    problem,
    revision_of,
    snapshot,
    under_way,
    updating,
)
from tests.controller.world import CART, World, replica_set, rollout, template

pytestmark = pytest.mark.virtual_time

STEP_1 = AnalysisGate(AnalysisKind.STEP, 1)
ABORT = {"revision": revision_of(analysing()), "at": "2026-01-01T00:00:00Z", "reason": "Aborted"}


def field(name: str, path: str) -> dict[str, Any]:
    """An argument that is a field of the Rollout."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


async def test_a_draft_is_the_whole_run(world: World) -> None:
    """A copy of the templates with the values of the arguments, and the metadata that the spec gives to the run."""
    argument = {"name": "revision", "valueFrom": {"podTemplateHashValue": "Latest"}}
    named = field("team", "metadata.labels['team']")
    analysis = {
        "templates": [{"templateName": "errors"}, {"templateName": "latency", "clusterScope": True}],
        "args": [argument, named],
        "dryRun": [{"metricName": "latency"}],
        "analysisRunMetadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    }
    spec = analysing({"analysis": analysis})
    world.rollouts.put("", rollout(spec=spec, status=updating(spec), labels={"team": "shop"}))
    world.templates.put("", template(args=[{"name": "revision"}, {"name": "team"}]))
    world.cluster_templates.put("", template("latency", cluster=True))
    draft = only_draft(world)

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
        (analysing(analysis=ERRORS), {}, {STEP_0, BACKGROUND}),
        (analysing({"setWeight": 5}, {"analysis": ERRORS}), {}, {STEP_1}),
        (analysing({"setWeight": 5}, {"analysis": ERRORS}), {"currentStepIndex": 1}, {STEP_1}),
        (analysing(analysis=ERRORS), {"currentStepIndex": 1}, {BACKGROUND}),
        (analysing(), {"currentRevision": "v0", "currentStepIndex": 1}, {STEP_0}),
        (analysing(), {"stableRevision": revision_of(analysing())}, set()),
        (analysing(), {"abort": ABORT}, set()),
    ],
)
async def test_drafts_are_made_for_what_may_begin_next(
    spec: dict[str, Any], status: dict[str, Any], gates: set[AnalysisGate], world: World
) -> None:
    """Before the first pod for every step, then for the present one alone; when nothing is rolled out, for none."""
    world.rollouts.put("", rollout(spec=spec, status=updating(spec, **status)))
    world.templates.put("", template())
    drafts = snapshot(world).drafts

    assert set(drafts) == gates
    assert {draft.latest for draft in drafts.values() if isinstance(draft, RunDraft)} <= {revision_of(spec)}


async def test_after_the_first_pod_only_the_present_step_is_drafted(world: World) -> None:
    """Later ones were looked at before the update began; each look reads templates, which others may make large."""
    spec = analysing({"setWeight": 5}, {"analysis": ERRORS})
    world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
    world.templates.put("", template())
    new = replica_set(f"cart-{revision_of(spec)}", version=2)
    world.replica_sets.put("", replace(new, spec=replace(new.spec, replicas=0)))
    assert set(snapshot(world).drafts) == {STEP_1}

    new = replica_set(f"cart-{revision_of(spec)}", version=3)
    world.replica_sets.put("", replace(new, spec=replace(new.spec, replicas=1)))
    assert set(snapshot(world).drafts) == set()


async def test_a_revision_that_comes_back_to_its_pods_begins_with_its_first_step(world: World) -> None:
    """Its pods are still there from the time before the revision that was current meanwhile, whose step says nothing of it."""
    spec = analysing({"analysis": ERRORS}, {"analysis": ERRORS})
    world.rollouts.put("", rollout(spec=spec, status=updating(spec, currentRevision="v0", currentStepIndex=1)))
    world.templates.put("", template())
    world.replica_sets.put("", replica_set(f"cart-{revision_of(spec)}", version=2))
    assert set(snapshot(world).drafts) == {STEP_0}


async def test_very_large_templates_are_read_in_several_passes(world: World) -> None:
    """Whoever names as many large templates as a spec has steps delays nobody else: a pass reads two runs' worth of them."""
    names = [f"large-{number}" for number in range(8)]
    spec = analysing({"setWeight": 5}, *({"analysis": {"templates": [{"templateName": name}]}} for name in names))
    world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
    for number, name in enumerate(names):
        large = [{"name": f"large-{each}", "value": "1" * 4_000} for each in range(7)]
        world.templates.put("", template(name, version=number + 2, args=large))
    observer = world.observer()

    passes = [snapshot(world, observer) for _ in range(4)]

    assert [len(each.drafts) for each in passes] == [3, 6, 8, 8]
    assert all(isinstance(each, RunDraft) for each in passes[-1].drafts.values())
    assert passes[0].drafts.items() <= passes[-1].drafts.items()


@pytest.mark.parametrize(
    ("path", "comes_later"), [("status.canary.weights", True), ("metadata.labels['region']", False), ("status[", False)]
)
async def test_a_missing_field_may_be_one_of_a_status_to_come(path: str, comes_later: bool, world: World) -> None:
    """The controller itself writes it: an update that waited for it to begin would wait for itself."""
    spec = analysing({"analysis": {**ERRORS, "args": [field("where", path)]}})
    world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
    world.templates.put("", template(args=[{"name": "where"}]))
    draft = only_draft(world)

    assert isinstance(draft, DraftProblem)
    assert "args[0].valueFrom.fieldRef.fieldPath" in draft.message
    assert draft.comes_later is comes_later


async def test_a_preview_has_its_analyses(world: World) -> None:
    """Before the promotion and after it."""
    blue_green = {"activeService": "web", "prePromotionAnalysis": ERRORS, "postPromotionAnalysis": ERRORS}
    spec = {**analysing(), "strategy": {"blueGreen": blue_green}}
    world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
    world.templates.put("", template())
    kinds = (AnalysisKind.PRE_PROMOTION, AnalysisKind.POST_PROMOTION)
    assert set(snapshot(world).drafts) == set(map(AnalysisGate, kinds))


async def test_a_template_that_is_missing_is_named(world: World) -> None:
    """With where the spec names it, so that the user can mend either."""
    under_way(world)
    assert problem(world) == (
        "spec.strategy.canary.steps[0].analysis.templates[0]: names AnalysisTemplate/errors, which does not exist: create it, "
        "or name another one"
    )


async def test_everything_wrong_with_a_run_is_told_at_once(world: World) -> None:
    """One look at the status is enough to mend all of it."""
    under_way(world)
    metrics = [{"name": "a", "provider": {"prometheus": {}}}, {"name": "a", "provider": {"web": {"url": "x"}}}]
    world.templates.put("", template(metrics=metrics))
    message = problem(world)

    assert "AnalysisTemplate/errors.spec.metrics[0].provider.prometheus.query: is required" in message
    assert "AnalysisTemplate/errors.spec.metrics[1].name" in message


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ANALYSIS_TEMPLATE, "AnalysisTemplate/errors: is not known: grant it"),
        (ANALYSIS_RUN, "no AnalysisRun can be made: grant it"),
    ],
)
async def test_without_the_right_to_see_a_kind_the_rollout_says_so(kind: Kind, words: str, world: World) -> None:
    """Installations without the CRDs, or with fewer rights, work for everybody who names no template."""
    under_way(world)
    world.templates.put("", template())
    world.unseen[kind] = "grant it"
    assert problem(world) == words


async def test_a_cluster_template_is_needed_only_by_who_names_one(world: World) -> None:
    """A controller of one namespace may see no object of the cluster."""
    under_way(world)
    world.templates.put("", template())
    world.unseen[CLUSTER_ANALYSIS_TEMPLATE] = "grant it"
    assert isinstance(only_draft(world), RunDraft)


async def test_a_template_that_cannot_be_read_is_not_missing(world: World) -> None:
    """Who looks for it finds it; the message says what is wrong with it."""
    under_way(world)
    world.templates.put_unreadable("", UnreadableObject(template().metadata, "it has more than 8 MiB"))
    assert problem(world) == "AnalysisTemplate/errors: cannot be read: it has more than 8 MiB; make it smaller"


async def test_a_template_that_is_nested_too_deeply_stops_one_rollout_alone(world: World) -> None:
    """The API server takes 10,000 levels."""
    under_way(world)
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    world.templates.put("", template(metrics=[{"name": "a", "provider": {"job": {"spec": {"x": deep}}}}]))
    assert "errors" in problem(world)


async def test_a_message_has_an_end(world: World) -> None:
    """It becomes a part of the status, which the API server must take."""
    templates = [{"templateName": f"{'n' * 200}{index}"} for index in range(32)]
    spec = analysing({"analysis": {"templates": templates}})
    world.rollouts.put("", rollout(spec=spec, status=updating(spec)))
    assert len(problem(world)) == 2_000


async def test_a_draft_is_made_anew_when_what_it_is_made_of_changes(world: World) -> None:
    """The template, the Rollout's labels, the revisions: a run must not be made of what was true before."""
    spec = analysing({"analysis": {**ERRORS, "args": [field("team", "metadata.labels['team']")]}})
    observer, made = world.observer(), list[Draft]()
    changes = [("shop", "1m", "v1"), ("shop", "2m", "v1"), ("cart", "2m", "v1"), ("cart", "2m", "v0")]
    for version, (team, interval, stable) in enumerate(changes, 1):
        status = updating(spec, stableRevision=stable)
        world.rollouts.put("", rollout(spec=spec, status=status, version=version, labels={"team": team}))
        args = [{"name": "team"}, {"name": "x", "value": interval}]
        world.templates.put("", template(version=version, args=args))
        made += snapshot(world, observer).drafts.values()

    assert all(isinstance(each, RunDraft) for each in made)
    assert len(set(map(repr, made))) == 4


async def test_a_field_of_the_status_is_taken_as_it_is_now(world: World) -> None:
    """It changes without a new generation."""
    spec = analysing({"analysis": {**ERRORS, "args": [field("step", "status.message")]}})
    world.templates.put("", template(args=[{"name": "step"}]))
    observer = world.observer()
    for version, message in enumerate(("one", "two"), 1):
        world.rollouts.put("", rollout(spec=spec, status=updating(spec, message=message), version=version))
        (draft,) = snapshot(world, observer).drafts.values()

        assert isinstance(draft, RunDraft)
        assert json.loads(draft.spec_json)["args"] == [{"name": "step", "value": message}]


async def test_a_draft_is_made_once(world: World) -> None:
    """Passes are many and templates are large: what has not changed is not read again."""
    under_way(world)
    world.templates.put("", template())
    observer = world.observer()
    first = snapshot(world, observer)
    under_way(world, version=2)

    assert first.drafts[STEP_0] is snapshot(world, observer).drafts[STEP_0]


async def test_only_who_is_being_updated_asks_for_templates(world: World) -> None:
    """A change of a template wakes those who depend on it now; an idle Rollout is left in peace."""
    spec = analysing()
    idle = updating(spec, stableRevision=revision_of(spec))
    for version, (status, askers) in enumerate([(idle, set()), (updating(spec), {CART}), (idle, set())], 1):
        world.rollouts.put("", rollout(spec=spec, status=status, version=version))
        snapshot(world)
        assert set(world.analyses.askers.of(("shop", "errors"))) == askers

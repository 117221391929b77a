"""Promise: a comparison asks every monitoring service for each arm, for the time since the look before; nothing counts twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rollouts.api.spec.analysis.run import parse_run
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.source import Comparison, HttpSource
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.metrics.comparison import measurement_of
from rollouts.metrics.comparison_arms import ComparisonLook, look_of, seen_in
from rollouts.metrics.requests import HttpAnswer, MetricAnswer
from rollouts.metrics.sources import Question, question_to
from tests.controller.analysis.whole_metrics import of_each_arm, path_of_number
from tests.metrics.answers import MARK, NOW_S
from tests.metrics.servers.fake import Fake, Series, all_fakes, written
from tests.metrics.test_no_server_promotes_without_evidence import bad_answers

FAKES = {name: fake for name, fake in all_fakes().items() if not RECIPES[fake.kind].not_compared}
AVERAGED = [each for each in FAKES.values() if each.whole and not RECIPES[each.kind].gives_json and not each.document]
EVERY_S = 60.0
Carried = Sequence[tuple[str, str]]


def comparison(fake: Fake, **more: str) -> Comparison:
    """Of values; a tenth more is borne."""
    of = {fake.kind: of_each_arm(fake.kind, fake.metric) | more}
    path = path_of_number(fake.kind, fake.result.removeprefix("result."))
    compare = {"canary": "new", "stable": "old", "kind": "value", "effect": "10%", "of": of, **path}
    (metric,) = parse_run(
        {"metrics": [{"name": "m", "interval": "1m", "count": 20, "provider": {"compare": compare}}]}
    ).metrics
    assert isinstance(metric.source, Comparison)
    return metric.source


def look(source: Comparison, carried: Carried = (), *, now_s: float = NOW_S) -> ComparisonLook:
    found = look_of(source, carried, began_at_s=NOW_S - EVERY_S, now_s=now_s)
    assert isinstance(found, ComparisonLook), found
    return found


def questions(fake: Fake, at: ComparisonLook) -> list[Question]:
    asked = []
    for query in at.queries:
        assert isinstance(query, HttpSource)
        question = question_to(query, {"it": fake.endpoint}, at.window_of(query))
        assert isinstance(question, Question), question
        asked.append(question)
    return asked


def answer(fake: Fake, *series: Series) -> HttpAnswer:
    return HttpAnswer(status=200, body=written(fake.body(series)), content_type="application/json")


def measured(fake: Fake, at: ComparisonLook, canary: MetricAnswer, stable: MetricAnswer) -> Measurement:
    recipe = fake.endpoint.recipe
    seen = [seen_in(each, at, recipe) for each in (canary, stable)]
    return measurement_of(at, seen, started_at_s=at.at_s, finished_at_s=at.at_s)


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_each_arm_is_in_its_own_request(fake: Fake) -> None:
    """And in nothing that says who is asked."""
    at = look(comparison(fake))
    canary, stable = questions(fake, at)

    for question, arm, other in ((canary, "new", "old"), (stable, "old", "new")):
        sent = question.request.url.replace(fake.endpoint.url, "") + question.request.body.decode()
        before, found, _ = sent.partition(arm)
        assert found, sent
        assert other not in sent.removeprefix(before), sent
        assert "{{" not in sent
        assert question.endpoint == fake.endpoint


@pytest.mark.parametrize(("ratio", "phase"), [(1.3, AnalysisPhase.FAILED), (1.0, AnalysisPhase.SUCCESSFUL)])
@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_five_looks_decide(fake: Fake, ratio: float, phase: AnalysisPhase) -> None:
    """As with a query of Prometheus."""
    phases: list[AnalysisPhase] = []
    carried: Carried = ()
    source = comparison(fake)
    for number in range(5):
        at = look(source, carried, now_s=NOW_S + number * EVERY_S)
        point_s = at.at_s - 5
        found = measured(fake, at, answer(fake, [(point_s, 10 * ratio)]), answer(fake, [(point_s, 10.0)]))
        phases, carried = [*phases, found.phase], found.carried

    assert phases == [AnalysisPhase.PENDING] * 4 + [phase], found


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_no_bad_answer_is_evidence(fake: Fake) -> None:
    """Of either arm, from the table that holds all metrics of the server; and the status has nothing of what it sent."""
    at, good = look(comparison(fake)), answer(fake, [(NOW_S - 5, 1.0)])
    for name, bad in bad_answers(fake).items():
        for both in ((bad, good), (good, bad)):
            found = measured(fake, at, *both)

            assert found.phase in (AnalysisPhase.PENDING, AnalysisPhase.ERROR), name
            assert not {"above", "below", "sides"} & dict(found.carried).keys(), name
            assert MARK not in repr(found), name


@pytest.mark.parametrize(
    "fake", [each for each in FAKES.values() if each.times and not each.document], ids=lambda each: each.name
)
@pytest.mark.parametrize("ahead_s", [-10.0, 20.0])
def test_a_point_that_was_seen_is_not_seen_again(fake: Fake, ahead_s: float) -> None:
    """A server that is late, or whose clock is ahead, shows its last point again, which would be evidence twice."""
    source = comparison(fake)
    carried: Carried = ()
    for number in range(3):
        at = look(source, carried, now_s=NOW_S + number * 10.0)
        found = measured(fake, at, *[answer(fake, [(NOW_S + ahead_s, 1.0)])] * 2)
        carried = found.carried

    assert found.phase is AnalysisPhase.PENDING
    assert dict(carried)["sides"] == "1"


@pytest.mark.parametrize("fake", AVERAGED, ids=lambda each: each.name)
def test_the_points_of_a_look_are_averaged(fake: Fake) -> None:
    """Of a server that gives all of them; those of the look before do not count."""
    at = look(comparison(fake))
    points = [(NOW_S - 70, 100.0), (NOW_S - 40, 1.0), (NOW_S - 20, 3.0)]
    found = measured(fake, at, answer(fake, points), answer(fake, points))

    assert found.value.startswith("canary 2 · stable 2")


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_several_series_of_an_arm_are_an_error(fake: Fake) -> None:
    """Which of them is the arm's number would be a guess."""
    at, point = look(comparison(fake)), (NOW_S - 5, 1.0)
    several = answer(fake, [point], [point])
    if fake.merges:
        return

    assert measured(fake, at, several, several).phase is AnalysisPhase.ERROR

"""Promise: a comparison takes one number of each arm from any source that has one; a number that is no news is no evidence."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rollouts.core.analysis.cluster_source import ContainerResourceMetric, CustomMetric, DescribedObject, ExternalMetric
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.source import ComparedBy, ComparedSource, Comparison, Effect, WebQuery
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.autoscaling import ContainerMetric
from rollouts.core.model.frozen import replace
from rollouts.metrics.comparison import measurement_of
from rollouts.metrics.comparison_arms import ComparisonLook, figures_seen, look_of, seen_in
from rollouts.metrics.figures import Figures, FiguresFound, NotYet
from rollouts.metrics.requests import HttpAnswer
from rollouts.metrics.samples import Absence, NoEvidence
from tests.metrics.answers import NOW_S, answered

EVERY_S = 60.0
BEGAN_S = NOW_S - EVERY_S
STATS = WebQuery(
    url="http://stats/{{arm}}?for={{window}}",
    method="POST",
    headers=(("X-Arm", "{{ arm }}"), ("Authorization", "{{args.token}}")),
    body='{"revision": "{{arm}}"}',
    json_path="{$.p95}",
)
CPU = ContainerResourceMetric(container="app", resource=ContainerMetric.CPU)
HITS = CustomMetric(metric="hits")
QUEUE = ExternalMetric(metric="queue-{{arm}}", selector="hash={{arm}},since={{window}}")
Carried = Sequence[tuple[str, str]]


def comparison(of: ComparedSource, canary: str = "new") -> Comparison:
    """Of values; a tenth more is borne."""
    effect = Effect(size=0.1, relative=True)
    return Comparison(canary=canary, stable="old", by=ComparedBy.VALUES, of=of, effect=effect, looks_max=20)


def look(of: ComparedSource, carried: Carried = (), *, after_s: float = 0.0) -> ComparisonLook:
    found = look_of(comparison(of), carried, began_at_s=BEGAN_S, now_s=NOW_S + after_s)
    assert isinstance(found, ComparisonLook), found
    return found


def figures(value: float, *, at_s: float, newest_at_s: float | None = None, samples: int = 1) -> Figures:
    """A number that is made of samples of that time."""
    values = {"averageValue": value, "value": value * samples}
    return Figures(values=values, samples=samples, oldest_at_s=at_s, newest_at_s=newest_at_s or at_s)


def measured(at: ComparisonLook, canary: FiguresFound, stable: FiguresFound) -> Measurement:
    seen = [figures_seen(each, at) for each in (canary, stable)]
    return measurement_of(at, seen, started_at_s=at.at_s, finished_at_s=at.at_s)


def web(at: ComparisonLook, canary: HttpAnswer, stable: HttpAnswer) -> Measurement:
    return measurement_of(at, [seen_in(each, at) for each in (canary, stable)], started_at_s=0.0, finished_at_s=0.0)


def test_each_arm_is_put_into_all_of_a_web_request() -> None:
    """Secrets are put in later, by whoever sends it."""
    canary, stable = look(STATS).queries

    assert canary == replace(
        STATS,
        url="http://stats/new?for=60s",
        headers=(("X-Arm", "new"), ("Authorization", "{{args.token}}")),
        body='{"revision": "new"}',
    )
    assert isinstance(stable, WebQuery)
    assert stable.url == "http://stats/old?for=60s"


def test_each_arm_is_put_into_names_and_selectors() -> None:
    """What is asked about the pods themselves needs no place: the arms are their revisions."""
    service = replace(HITS, of=DescribedObject(api_version="v1", kind="Service", name="web-{{arm}}"))

    assert look(CPU).queries == (CPU, CPU)
    assert look(CPU).arms == ("new", "old")
    assert look(QUEUE).queries[1] == ExternalMetric(metric="queue-old", selector="hash=old,since=60s")
    names = [each.of.name for each in look(service).queries if isinstance(each, CustomMetric) and each.of]
    assert names == ["web-new", "web-old"]


@pytest.mark.parametrize("of", [STATS, CPU, QUEUE])
@pytest.mark.parametrize("arm", ["", "a,b", "../admin", 'x"', "-", "x" * 64])
def test_an_arm_is_a_revision(of: ComparedSource, arm: str) -> None:
    """Whatever else it says would change the request."""
    found = look_of(comparison(of, arm), (), began_at_s=BEGAN_S, now_s=NOW_S)

    assert isinstance(found, NoEvidence)
    assert found.absence is Absence.ERROR
    assert "compare.canary" in found.why


@pytest.mark.parametrize(("ratio", "phase"), [(1.3, AnalysisPhase.FAILED), (1.0, AnalysisPhase.SUCCESSFUL)])
def test_five_web_answers_decide(ratio: float, phase: AnalysisPhase) -> None:
    """As with a query of Prometheus."""
    phases: list[AnalysisPhase] = []
    carried: Carried = ()
    for _ in range(5):
        found = web(look(STATS, carried), answered(f'{{"p95": {ratio}}}'.encode()), answered(b'{"p95": 1}'))
        phases, carried = [*phases, found.phase], found.carried

    assert phases == [AnalysisPhase.PENDING] * 4 + [phase]


@pytest.mark.parametrize(
    ("bad", "phase", "why"),
    [
        (answered(b'{"p95": "12"}'), AnalysisPhase.ERROR, "not one number"),
        (answered(b'{"p95": true}'), AnalysisPhase.ERROR, "not one number"),
        (answered(b'{"p95": [1]}'), AnalysisPhase.ERROR, "not one number"),
        (answered(b'{"p99": 1}'), AnalysisPhase.ERROR, "jsonPath"),
        (answered(b'{"p95": NaN}'), AnalysisPhase.ERROR, "no JSON"),
        (answered(b"<html>"), AnalysisPhase.ERROR, "web page"),
        (answered(b'{"p95": 1}', status=500), AnalysisPhase.ERROR, "no success"),
        (answered(b'{"p95": 1'), AnalysisPhase.ERROR, "not whole"),
        (answered(b'{"p95": null}'), AnalysisPhase.PENDING, "no value"),
        (answered(b""), AnalysisPhase.PENDING, "empty"),
    ],
)
@pytest.mark.parametrize("arm", [0, 1])
def test_a_web_answer_without_a_number_is_no_evidence(
    bad: HttpAnswer, phase: AnalysisPhase, why: str, arm: int
) -> None:
    """Of either arm."""
    both = [answered(b'{"p95": 1}')] * 2
    both[arm] = bad

    found = web(look(STATS), *both)

    assert (found.phase, why in found.message) == (phase, True)
    assert not {"above", "below", "sides"} & dict(found.carried).keys()


def test_samples_of_the_cluster_decide_when_each_look_has_new_ones() -> None:
    """Five of them, as with every value."""
    carried: Carried = ()
    phases = []
    for number in range(5):
        at = look(CPU, carried, after_s=number * EVERY_S)
        found = measured(at, figures(0.3, at_s=at.at_s - 10), figures(0.2, at_s=at.at_s - 20))
        phases.append(found.phase)
        carried = found.carried

    assert phases == [AnalysisPhase.PENDING] * 4 + [AnalysisPhase.FAILED]
    assert found.value.startswith("canary 0.3 · stable 0.2 · evidence ")


@pytest.mark.parametrize("ahead_s", [-10.0, 40.0])
def test_a_sample_that_was_seen_is_not_seen_again(ahead_s: float) -> None:
    """Metrics-server stands still, and the numbers it has are not evidence twice; its clock may be ahead of ours."""
    carried: Carried = ()
    for number in range(5):
        at = look(CPU, carried, after_s=number * 5.0)
        found = measured(at, figures(0.1, at_s=NOW_S + ahead_s), figures(0.2, at_s=NOW_S + ahead_s))
        carried = found.carried

    assert found.phase is AnalysisPhase.PENDING
    assert "no newer sample" in found.message
    assert (dict(carried)["looks"], dict(carried)["sides"]) == ("5", "1")


def test_one_new_sample_of_several_is_not_enough() -> None:
    """The others would count twice."""
    first = measured(look(CPU), figures(0.1, at_s=NOW_S - 20, newest_at_s=NOW_S + 5), figures(0.2, at_s=NOW_S - 5))
    again = look(CPU, first.carried, after_s=EVERY_S)

    found = measured(again, figures(0.1, at_s=NOW_S + 5, newest_at_s=NOW_S + 50), figures(0.2, at_s=NOW_S + 50))

    assert "canary: there is no newer sample" in found.message


@pytest.mark.parametrize(
    ("of", "bad", "phase", "why"),
    [
        (CPU, NotYet("1 of 2 pods: no sample"), AnalysisPhase.PENDING, "1 of 2 pods"),
        (CPU, NotYet("the revision has no ready pods"), AnalysisPhase.PENDING, "no ready pods"),
        (CPU, NoEvidence("install metrics-server", Absence.ERROR), AnalysisPhase.ERROR, "install"),
        (CPU, figures(0.2, at_s=BEGAN_S - 1), AnalysisPhase.PENDING, "no newer sample"),
        (CPU, figures(float("nan"), at_s=NOW_S), AnalysisPhase.PENDING, "NaN"),
        (HITS, Figures(values={"averageValue": 1.0}, samples=1), AnalysisPhase.ERROR, "no time"),
        (QUEUE, NoEvidence("the metric has no values"), AnalysisPhase.PENDING, "no values"),
        (QUEUE, figures(0.2, at_s=NOW_S, samples=2), AnalysisPhase.ERROR, "let its selector give one"),
    ],
)
@pytest.mark.parametrize("arm", [0, 1])
def test_what_is_missing_old_or_partial_is_no_evidence(
    of: ComparedSource, bad: FiguresFound, phase: AnalysisPhase, why: str, arm: int
) -> None:
    """Of either arm; pods of a revision are averaged, and no other source is."""
    both: list[FiguresFound] = [figures(0.2, at_s=NOW_S), figures(0.2, at_s=NOW_S)]
    both[arm] = bad

    found = measured(look(of), *both)

    assert (found.phase, why in found.message) == (phase, True)
    assert dict(found.carried) == ({} if phase is AnalysisPhase.ERROR else {"looks": "1"})


def test_pods_are_averaged() -> None:
    """The canary has fewer of them than stable."""
    at = look(CPU)

    found = measured(at, figures(0.2, at_s=NOW_S, samples=1), figures(0.2, at_s=NOW_S, samples=9))

    assert found.value.startswith("canary 0.2 · stable 0.2")
    assert dict(found.carried)["below"] == "1"

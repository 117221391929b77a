"""Promise: a comparison decides by requests that were really sent, each counted once; what says nothing decides nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.source import ComparedBy, Comparison, Effect, PrometheusQuery, QueryRange
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.metrics.comparison import measurement_of
from rollouts.metrics.comparison_arms import SETTLE_S, ComparisonLook, look_of, seen_in
from rollouts.metrics.requests import MetricAnswer, NoAnswer
from rollouts.metrics.samples import NoEvidence
from tests.metrics.answers import NOW_S, answered, matrix, prometheus, vector

BEGAN_S = NOW_S - 30 - SETTLE_S
RATE = Comparison(
    canary="7f9c", stable="5d8b", by=ComparedBy.RATES, of=PrometheusQuery(query='errors_total{hash="{{arm}}"}'),
    total='requests_total{hash="{{arm}}"}', effect=Effect(size=0.01, relative=True), looks_max=20,
)  # fmt: skip
LATENCY = PrometheusQuery(query='latency{hash="{{arm}}"}[{{window}}]')
VALUE = replace(RATE, by=ComparedBy.VALUES, of=LATENCY, total="", effect=Effect(size=0.1, relative=True))
HALF_AN_HOUR = QueryRange(start='now() - duration("30m")', end="now()", step_s=60)
LATENCIES = PrometheusQuery(query='latency{hash="{{arm}}"}', range=HALF_AN_HOUR)
RANKS = replace(VALUE, by=ComparedBy.RANKS, of=LATENCIES, looks_max=None)
Carried = Sequence[tuple[str, str]]


def look(source: Comparison = RATE, carried: Carried = (), *, now_s: float = NOW_S) -> ComparisonLook:
    found = look_of(source, carried, began_at_s=BEGAN_S, now_s=now_s)
    assert isinstance(found, ComparisonLook), found
    return found


def queries_of(at: ComparisonLook) -> list[str]:
    """PromQL that is asked, of the canary first."""
    return [each.query for each in at.queries if isinstance(each, PrometheusQuery)]


def counter(at: ComparisonLook, *series: Mapping[float, float]) -> MetricAnswer:
    """Raw samples, by seconds since what the look counts."""
    found = [[(at.since_s + after_s, str(value)) for after_s, value in each.items()] for each in series]
    return answered(matrix(*found))


def grown(at: ComparisonLook, by: float, *, before: float = 100.0) -> MetricAnswer:
    """One counter that grew by so much."""
    return counter(at, {-10: before, 15: before + by})


def measured(at: ComparisonLook, *answers: MetricAnswer) -> Measurement:
    return measurement_of(at, [seen_in(each, at) for each in answers], started_at_s=NOW_S, finished_at_s=NOW_S + 1)


def looked(canary: tuple[float, float], stable: tuple[float, float], *, carried: Carried = ()) -> Measurement:
    """A look that counts events, bad ones first, of each arm; 30 s after the one before."""
    at = look(carried=carried, now_s=NOW_S + 30 * int(dict(carried).get("looks", "0")))
    return measured(at, *(grown(at, each) for each in (*canary, *stable)))


def test_both_arms_are_asked_for_the_same_span_of_raw_samples() -> None:
    """Up to a moment that all scrapes are over for, from where the look before ended, with what each series goes on from."""
    at = look()

    assert queries_of(at) == [
        f'{events}_total{{hash="{arm}"}}[330s]' for arm in ("7f9c", "5d8b") for events in ("errors", "requests")
    ]
    assert (at.since_s, at.at_s) == (BEGAN_S, NOW_S - SETTLE_S)


def test_a_revision_cannot_end_the_text_that_it_stands_in() -> None:
    """As with every argument."""
    at = look(replace(RATE, canary='x"} or vector(0) #'))

    assert queries_of(at)[1] == 'requests_total{hash="x\\"} or vector(0) #"}[330s]'


def test_one_look_decides_if_there_is_enough_of_it() -> None:
    """A canary that fails more is worse; one that fails as little is not."""
    worse, as_good = looked((48, 1_000), (20, 10_000)), looked((4, 4_000), (20, 20_000))

    assert (worse.phase, worse.samples) == (AnalysisPhase.FAILED, 11_000)
    assert worse.value == "canary 4.8 % · stable 0.2 % · evidence over 1000000 of 20"
    assert worse.message == "the canary is worse by more than 1 %"
    assert as_good.phase is AnalysisPhase.SUCCESSFUL
    assert as_good.message == "the canary is not worse by more than 1 %"


def test_looks_add_up_until_there_is_an_answer() -> None:
    """None of them decides alone; they do not count, and what they have shown is carried."""
    first = looked((1, 250), (5, 2_000))
    second = looked((1, 250), (5, 2_000), carried=first.carried)

    assert (first.phase, second.phase) == (AnalysisPhase.PENDING, AnalysisPhase.PENDING)
    assert first.finished
    assert dict(second.carried)["canaryEvents"] == "500"
    assert second.message == "undecided after 2 looks: it looks not worse"

    found, looks = second, 2
    while found.phase is AnalysisPhase.PENDING:
        found, looks = looked((1, 250), (5, 2_000), carried=found.carried), looks + 1
    assert found.phase is AnalysisPhase.SUCCESSFUL
    assert looks < 10


def test_a_look_that_is_taken_again_counts_once() -> None:
    """A controller that dies before it has recorded a look takes it again from where the recorded ones ended."""
    first = looked((1, 250), (5, 2_000))
    again = look(carried=first.carried, now_s=NOW_S + 60)

    assert again.since_s == NOW_S - SETTLE_S
    assert looked((1, 250), (5, 2_000)).carried == first.carried


def test_a_clock_that_goes_back_counts_nothing_twice() -> None:
    """Another leader's may be behind."""
    first = looked((1, 250), (5, 2_000))
    behind = look(carried=first.carried, now_s=NOW_S - 20)

    second = measured(behind, *(counter(behind, {-25: 1.0, -15: 1_000.0}) for _ in range(4)))

    carried = dict(second.carried)
    assert carried["until"] == dict(first.carried)["until"]
    assert carried["canaryEvents"] == "250"


def test_the_last_look_without_an_answer_is_inconclusive() -> None:
    """Or a failure, if the author says so; never a success."""
    almost = (*looked((0, 10), (0, 10)).carried[1:], ("looks", "19"))

    at = look(carried=almost)
    answers = [grown(at, each) for each in (0, 10, 0, 10)]

    assert measured(at, *answers).phase is AnalysisPhase.INCONCLUSIVE
    assert measured(at, *answers).message.startswith("undecided after 20 looks")
    strict = look(replace(RATE, undecided_fails=True), almost)
    assert measured(strict, *answers).phase is AnalysisPhase.FAILED


def test_with_direction_decrease_the_good_events_are_counted() -> None:
    """Requests that were quick enough, as a histogram's bucket counts them."""
    at = look(replace(RATE, less_is_worse=True))

    found = measured(at, *(grown(at, each) for each in (900, 1_000, 9_990, 10_000)))

    assert found.phase is AnalysisPhase.FAILED
    assert found.value.startswith("canary 10 % · stable 0.1 %")


def test_a_restart_and_a_new_series_are_counted_whole() -> None:
    """A counter that fell began again at 0; a first error begins a series, and is an error."""
    at = look()
    found = measured(
        at,
        counter(at, {5: 3.0, 20: 4.0}),  # 4 errors of a series that is new
        counter(at, {-10: 500.0, 5: 600.0, 20: 50.0}),  # 100, then 50 after a restart
        counter(at, {-10: 7.0, 20: 7.0}),
        counter(at, {-10: 500.0, 20: 1_500.0}, {-100: 3.0}),  # one pod is gone
    )

    carried = dict(found.carried)
    assert (carried["canaryEvents"], carried["canaryBad"]) == ("150", "4")
    assert carried["stableEvents"] == "1000"
    assert "stableBad" not in carried


def test_samples_of_before_and_of_after_do_not_count() -> None:
    """They belong to the looks before and after."""
    at = look()
    samples: dict[float, float] = {-60: 0.0, -1: 400.0, 29: 500.0, 31: 9_000.0}

    found = measured(at, grown(at, 0), counter(at, samples), grown(at, 0), counter(at, samples))

    assert dict(found.carried)["canaryEvents"] == "100"


def test_a_first_look_bets_by_what_stable_did_before() -> None:
    """It is no evidence, and does not count; later looks bet by what they have counted themselves."""
    at = look()

    def looked_after(*earlier: float, at: ComparisonLook) -> dict[str, str]:
        stable = [
            counter(at, {-280: 0.0, -10: before, 15: before + by})
            for before, by in zip(earlier, (5, 1_000), strict=True)
        ]
        return dict(measured(at, grown(at, 1), grown(at, 250), *stable).carried)

    blind, seeing = looked_after(0.0, 0.0, at=at), looked_after(50.0, 10_000.0, at=at)

    assert float(seeing["logNotWorse"]) > float(blind["logNotWorse"])
    assert {**seeing, "logWorse": "", "logNotWorse": ""} == {**blind, "logWorse": "", "logNotWorse": ""}
    later = look(carried=tuple(blind.items()), now_s=NOW_S + 30)
    assert looked_after(50.0, 10_000.0, at=later) == looked_after(0.0, 0.0, at=later)


def test_what_may_have_been_counted_before_is_left_out() -> None:
    """Where nothing was scraped for a while, the whole life of a counter would else count again."""
    carried = looked((0, 100), (0, 1_000)).carried
    at = look(carried=carried, now_s=NOW_S + 900)
    returned = counter(at, {600: 100_000.0, 890: 100_100.0})

    found = measured(at, returned, returned, returned, returned)

    assert dict(found.carried)["canaryEvents"] == "100"
    assert dict(found.carried)["stableEvents"] == "1000"


def test_all_pods_of_a_canary_may_have_begun_within_its_first_look() -> None:
    """Then nothing of it was scraped before, and all that its counters say is its own."""
    at = look()
    begun = counter(at, {20: 100.0, 29: 150.0})

    found = measured(at, counter(at, {20: 1.0, 29: 2.0}), begun, grown(at, 0), begun)

    carried = dict(found.carried)
    assert (carried["canaryEvents"], carried["canaryBad"]) == ("150", "2")
    assert "stableEvents" not in carried


@pytest.mark.parametrize("idle", ["canary", "stable"])
def test_an_arm_without_requests_decides_nothing(idle: str) -> None:
    """Whatever the other one does."""
    busy = (900, 1_000)
    found = looked((0, 0) if idle == "canary" else busy, (0, 0) if idle == "stable" else busy)

    assert found.phase is AnalysisPhase.PENDING
    assert f"{idle} has no requests" in found.message


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (NoAnswer("prometheus does not answer"), "does not answer"),
        (answered(b"<html>"), "not one of Prometheus"),
        (answered(b"{}", status=503), "the query failed"),
        (answered(vector("5")), "not samples"),
        (answered(matrix([(NOW_S, "NaN")])), "not a count"),
        (answered(matrix([(NOW_S, "-1")])), "not a count"),
        (answered(matrix([(NOW_S, "+Inf")])), "not a count"),
        (answered(matrix([(NOW_S, "1")], warnings=["partial"])), "warnings"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_changes_no_evidence(bad: MetricAnswer, why: str) -> None:
    """It carries nothing, so what earlier looks have shown stays."""
    at = look(carried=looked((1, 250), (5, 2_000)).carried)
    good = grown(at, 5)
    for place in range(4):
        found = measured(at, *(bad if number == place else good for number in range(4)))

        assert found.phase is AnalysisPhase.ERROR
        assert found.carried == ()
        assert why in found.message


def test_more_bad_events_than_events_is_an_error() -> None:
    """The two queries do not fit together, and a share above 1 is none."""
    found = looked((50, 10), (0, 1_000))

    assert found.phase is AnalysisPhase.ERROR
    assert "`total` must select all events" in found.message


@pytest.mark.parametrize(
    "broken", [[("canaryEvents", "x")], [("logWorse", "nan")], [("canaryBad", "5")], [("looks", "-1")]]
)
def test_a_record_that_cannot_be_read_is_as_if_there_were_none(broken: Carried) -> None:
    """The comparison begins again: it counts nothing twice, as its totals begin again too."""
    assert look(carried=broken).before == look().before


@pytest.mark.parametrize(("canary", "stable"), [("", "5d8b"), ("7f9c", ""), ("5d8b", "5d8b")])
def test_arms_that_cannot_be_told_apart_are_an_error(canary: str, stable: str) -> None:
    """Such as the first revision's, which has no stable one beside it."""
    found = look_of(replace(RATE, canary=canary, stable=stable), (), began_at_s=BEGAN_S, now_s=NOW_S)

    assert isinstance(found, NoEvidence)


def _values(canary: str, stable: str, *, carried: Carried = (), source: Comparison = VALUE) -> Measurement:
    at = look(source, carried)
    return measured(at, answered(vector(canary)), answered(vector(stable)))


def test_values_ask_for_the_time_since_the_look_before() -> None:
    """So a range in the query has no request in it that another look has seen."""
    again = look(VALUE, _values("0.2", "0.2").carried, now_s=NOW_S + 45)

    assert queries_of(again)[0] == 'latency{hash="7f9c"}[45s]'


@pytest.mark.parametrize(
    ("canary", "phase"), [("1.2", AnalysisPhase.FAILED), ("1", AnalysisPhase.SUCCESSFUL), ("1.1", None)]
)
def test_five_looks_on_the_same_side_decide_a_value(canary: str, phase: AnalysisPhase | None) -> None:
    """At the limit itself none do."""
    found = _values(canary, "1")
    phases = []
    for _ in range(5):
        phases.append(found.phase)
        assert found.samples == 2, "one value of each arm"
        found = _values(canary, "1", carried=found.carried)

    assert phases == [AnalysisPhase.PENDING] * 4 + [phase or AnalysisPhase.PENDING]


@pytest.mark.parametrize(
    ("canary", "stable", "why"),
    [("NaN", "0.2", "NaN"), ("0.2", "+Inf", "infinite"), ("0.2", "0", "not above 0"), ("0.2", "-1", "not above 0")],
)
def test_a_look_whose_values_say_nothing_decides_nothing(canary: str, stable: str, why: str) -> None:
    """It is a look all the same, so that the comparison comes to an end."""
    found = _values(canary, stable)

    assert found.phase is AnalysisPhase.PENDING
    assert why in found.message
    assert dict(found.carried) == {"looks": "1"}


@pytest.mark.parametrize(
    ("body", "why"), [(vector("1", warnings=["partial"]), "may be incomplete"), (vector(), "no value")]
)
@pytest.mark.parametrize("arm", [0, 1])
def test_a_part_of_the_values_is_none_of_them(body: bytes, why: str, arm: int) -> None:
    """Of either arm."""
    both = [answered(vector("1"))] * 2
    both[arm] = answered(body)

    found = measured(look(VALUE), *both)

    assert (found.phase, why in found.message) == (AnalysisPhase.PENDING, True)


def test_several_values_in_place_of_one_are_an_error() -> None:
    """Nobody says which of them is meant."""
    at = look(VALUE)

    several = measured(at, answered(vector("1", "2")), answered(vector("1")))
    range_of_one = measured(at, answered(matrix([(NOW_S - 15, "1"), (NOW_S, "1")])), answered(vector("1")))

    assert (several.phase, range_of_one.phase) == (AnalysisPhase.ERROR, AnalysisPhase.ERROR)
    assert "sum()" in several.message
    assert "many values" in range_of_one.message


def _ranks(canary: Sequence[float], stable: Sequence[float], source: Comparison = RANKS) -> Measurement:
    both = ([(NOW_S - 60 * place, repr(value)) for place, value in enumerate(values)] for values in (canary, stable))
    return measured(look(source), *(answered(matrix(each)) for each in both))


def test_ranks_are_compared_once() -> None:
    """Worse, not worse, or neither: then it is inconclusive. Stable's values are moved by the effect first."""
    pytest.importorskip("scipy")
    stable = [1.0 + 0.01 * place for place in range(20)]

    assert _ranks([1.3 * value for value in stable], stable).phase is AnalysisPhase.FAILED
    assert _ranks(stable, stable).phase is AnalysisPhase.SUCCESSFUL
    undecided = _ranks([1.1 * value for value in stable], stable)
    assert (undecided.phase, undecided.message) == (AnalysisPhase.INCONCLUSIVE, "undecided after 1 look")
    assert undecided.samples == 40, "values of both arms"
    assert _ranks([1.1] * 20, [1.0] * 20).phase is AnalysisPhase.INCONCLUSIVE  # ties, and no division by 0


def test_an_effect_in_per_cent_needs_values_above_0() -> None:
    """A tenth of nothing is nothing; an effect in the values' own unit has no such limit."""
    pytest.importorskip("scipy")
    around_0 = [-1.0 + 0.1 * place for place in range(20)]

    assert "not above 0" in _ranks(around_0, around_0).message
    by_units = replace(RANKS, effect=Effect(size=5.0, relative=False))
    assert _ranks(around_0, around_0, by_units).phase is AnalysisPhase.SUCCESSFUL


def test_few_values_are_no_evidence() -> None:
    """Whatever they are."""
    found = _ranks([9.0] * 9, [1.0] * 20)

    assert found.phase is AnalysisPhase.INCONCLUSIVE
    assert "9 of the 10 values" in found.message


def test_without_scipy_ranks_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install; nothing else needs it."""
    monkeypatch.setitem(__import__("sys").modules, "scipy.stats", None)

    found = _ranks([9.0] * 20, [1.0] * 20)

    assert found.phase is AnalysisPhase.ERROR
    assert "requirements-stats.lock" in found.message and "rollouts-dev[stats]" in found.message


def test_no_text_of_a_server_comes_into_a_measurement() -> None:
    """Neither of an answer nor of an error."""
    said = json.dumps({"status": "error", "errorType": "MARKER", "error": "MARKER"}).encode()
    at = look()

    for answer in (answered(said), answered(prometheus("MARKER", []))):
        found = measured(at, answer, answer, answer, answer)
        assert "MARKER" not in f"{found.message}{found.value}"

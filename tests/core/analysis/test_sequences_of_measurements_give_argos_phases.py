"""Promise: a sequence of measurements gives a metric and its run the phases that it gives them in Argo Rollouts, or better ones.

Better where Argo Rollouts calls success what nothing shows: these rows have a table of their own.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.analysis.measurement import MetricResult, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.run import decide_run, with_measurement
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from tests.core.analysis.tapes import T0, VERDICTS, finished, play

PHASES = {**VERDICTS, "R": AnalysisPhase.RUNNING, "P": AnalysisPhase.PENDING}
ENDLESS = {"interval_s": 60.0}
FIVE = {"interval_s": 60.0, "count": 5}
STREAK = {"interval_s": 60.0, "failure_limit": -1, "consecutive_success_limit": 3}
BOTH = {"interval_s": 60.0, "failure_limit": 2, "consecutive_success_limit": 3}

ONE_METRIC: list[tuple[dict[str, Any], str, str]] = [
    # neither interval nor count: a single one
    ({}, "", "P"), ({}, "S", "S"), ({}, "F", "F"), ({}, "I", "I"), ({}, "E", "R"), ({}, "ES", "S"),
    ({}, "EEEES", "S"), ({}, "EEEEE", "E"), ({}, "R", "R"), ({}, "RRS", "S"), ({}, "RF", "F"), ({}, "RE", "R"),
    ({"count": 0}, "S", "S"), ({"count": 1}, "S", "S"), ({"consecutive_error_limit": 0}, "E", "E"),
    ({"consecutive_error_limit": 1}, "EE", "E"),
    # an interval alone: until something ends it
    (ENDLESS, "S" * 30, "R"), ({**ENDLESS, "count": 0}, "S" * 30, "R"), (ENDLESS, "SSF", "F"), (ENDLESS, "SSI", "I"),
    (ENDLESS, "SSS!", "S"), (ENDLESS, "SEEEE!", "S"), (ENDLESS, "SEEEEE", "E"), (ENDLESS, "EEEESEEEES", "R"),
    (ENDLESS, "EEEESEEEEE", "E"), ({**ENDLESS, "failure_limit": 2}, "FSFS", "R"),
    ({**ENDLESS, "failure_limit": 2}, "FSFS!", "S"), ({**ENDLESS, "failure_limit": 2}, "FSFSF", "F"),
    ({**ENDLESS, "inconclusive_limit": 2}, "ISIS", "R"), ({**ENDLESS, "inconclusive_limit": 2}, "ISISI", "I"),
    # a count
    (FIVE, "SSSS", "R"), (FIVE, "SSSSS", "S"), (FIVE, "SSESSS", "S"), (FIVE, "SSSSE", "R"),
    ({**FIVE, "failure_limit": 1}, "SFSSS", "S"), ({**FIVE, "failure_limit": 1}, "SFSSF", "F"),
    ({**FIVE, "inconclusive_limit": 1}, "SISSS", "S"), ({**FIVE, "inconclusive_limit": 1}, "SISI", "I"),
    ({**FIVE, "failure_limit": 4}, "FFFFS", "S"),
    ({**FIVE, "failure_limit": 2, "inconclusive_limit": 2}, "FIFIS", "S"), (FIVE, "SS!", "S"),
    # so many successes in a row
    (STREAK, "SSS", "S"), (STREAK, "FSSFSS", "R"), (STREAK, "FFFFFFSSS", "S"), (STREAK, "SSES", "R"),
    (STREAK, "SSESSS", "S"), (STREAK, "SSISSS", "I"), (STREAK, "FSSF!", "S"), ({**STREAK, "count": 4}, "FSSF", "F"),
    ({**STREAK, "count": 4}, "FSSS", "S"), ({**STREAK, "count": 4}, "SSS", "S"),
    ({**STREAK, "count": 4}, "FSS!", "S"),
    # that, and failures
    (BOTH, "FSFSS", "R"), (BOTH, "FSFSS!", "S"), (BOTH, "FSFSSS", "S"), (BOTH, "FSSFSF", "F"),
    ({**BOTH, "count": 5}, "FSFSS", "I"), ({**BOTH, "count": 5}, "FFSSS", "S"), ({**BOTH, "count": 5}, "FFF", "F"),
    ({**BOTH, "count": 5}, "SSFF!", "S"),
    # failures beside inconclusive ones
    ({"interval_s": 60.0, "failure_limit": 0, "inconclusive_limit": 0}, "F", "F"),
    ({"interval_s": 60.0, "failure_limit": 1, "inconclusive_limit": 1}, "FIFS", "F"),
    # without a verdict: measured again, whatever the count
    ({}, "WWWWWWWWS", "S"), ({}, "WWW", "R"), (FIVE, "SWSWSWSWS", "S"), (STREAK, "SWSWS", "S"),
    (ENDLESS, "EEWEEW", "R"), (ENDLESS, "EEWEEWE", "E"),
]  # fmt: skip

NO_SUCCESS: list[tuple[dict[str, Any], str, str]] = [
    ({"initial_delay_s": 20.0}, "!", "I"), (ENDLESS, "EEEE!", "E"), ({**ENDLESS, "failure_limit": 3}, "FFF!", "F"),
    ({**ENDLESS, "inconclusive_limit": 3}, "III!", "I"),
    ({**ENDLESS, "inconclusive_limit": 1, "failure_limit": 1}, "FIE!", "F"),
    ({**ENDLESS, "inconclusive_limit": 1}, "IE!", "E"), ({"failure_limit": 1}, "F", "F"),
    ({"inconclusive_limit": 1}, "I", "I"), ({"interval_s": 60.0, "count": 3, "failure_limit": 3}, "FFF", "F"),
    ({"interval_s": 60.0, "count": 3, "inconclusive_limit": 3}, "III", "I"),
    ({"interval_s": 60.0, "count": 3, "inconclusive_limit": 3, "failure_limit": 3}, "IFI", "F"),
    ({"interval_s": 60.0, "count": 2, "inconclusive_limit": 2}, "IEI", "E"), (STREAK, "FFFF!", "F"),
    (ENDLESS, "WWW!", "I"), ({}, "R!", "I"),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "tape", "phase"), ONE_METRIC)
def test_a_metric_alone(rules: dict[str, Any], tape: str, phase: str) -> None:
    """The run of one metric has its phase; one that goes on is Running from its first pass."""
    played = play((MetricRules(name="m", **rules),), {"m": tape})

    expected = PHASES[phase]
    assert played.result().phase is expected
    assert played.status.phase is (expected if expected.over else AnalysisPhase.RUNNING)


@pytest.mark.parametrize(("rules", "tape", "phase"), NO_SUCCESS)
def test_without_one_success_a_metric_does_not_succeed(rules: dict[str, Any], tape: str, phase: str) -> None:
    """Argo Rollouts calls each of these Successful, though no measurement was: a promotion would follow from nothing."""
    played = play((MetricRules(name="m", **rules),), {"m": tape})

    assert played.result().phase is PHASES[phase]
    assert played.status.phase is PHASES[phase]


SEVERAL: list[tuple[dict[str, dict[str, Any]], dict[str, str], str, str]] = [
    # every metric must be over
    ({"a": {}, "b": ENDLESS}, {"a": "S", "b": "SSS"}, "R", "SR"),
    ({"a": {}, "b": {}}, {"a": "S", "b": "S"}, "S", "SS"),
    # the worst decides, and ends the others
    ({"a": {}, "b": ENDLESS}, {"a": "F", "b": "S"}, "F", "FS"),
    ({"a": {}, "b": ENDLESS}, {"a": "I", "b": "S"}, "I", "IS"),
    ({"a": {"consecutive_error_limit": 0}, "b": ENDLESS}, {"a": "E", "b": "S"}, "E", "ES"),
    ({"a": {}, "b": {}}, {"a": "I", "b": "F"}, "F", "IF"),
    ({"a": {"consecutive_error_limit": 0}, "b": {}}, {"a": "E", "b": "F"}, "F", "EF"),
    ({"a": {"consecutive_error_limit": 0}, "b": {}}, {"a": "E", "b": "I"}, "E", "EI"),
    ({"a": {}, "b": ENDLESS}, {"a": "F", "b": "R"}, "F", "FI"),
    ({"a": {}, "b": {"initial_delay_s": 60.0}}, {"a": "F", "b": "S"}, "F", "FI"),
    # a dry run is measured, and decides nothing
    ({"a": {"dry_run": True}, "b": {}}, {"a": "F", "b": "S"}, "S", "FS"),
    ({"a": {"dry_run": True}}, {"a": "F"}, "S", "F"),
    ({"a": {"dry_run": True}, "b": {"dry_run": True}}, {"a": "F", "b": "I"}, "S", "FI"),
    ({"a": {"dry_run": True, **ENDLESS}, "b": {}}, {"a": "SSS", "b": "S"}, "R", "RS"),
    ({"a": {"dry_run": True, **ENDLESS}, "b": {}}, {"a": "S", "b": "F"}, "F", "SF"),
    ({"a": {"dry_run": True, **ENDLESS}, "b": ENDLESS}, {"a": "F", "b": "SS"}, "R", "FR"),
    ({"a": {"dry_run": True, "initial_delay_s": 20.0}}, {"a": "!"}, "S", "I"),
    # told to end
    ({"a": ENDLESS, "b": ENDLESS}, {"a": "SS", "b": "SS!"}, "S", "SS"),
    ({"a": ENDLESS, "b": {"initial_delay_s": 600.0}}, {"a": "SS!", "b": ""}, "I", "SI"),
    ({"a": ENDLESS, "b": ENDLESS}, {"a": "R", "b": "S!"}, "I", "IS"),
]


@pytest.mark.parametrize(("rules", "tapes", "run", "metrics"), SEVERAL)
def test_several_metrics(rules: dict[str, dict[str, Any]], tapes: dict[str, str], run: str, metrics: str) -> None:
    """A run is as good as the worst of the metrics that count."""
    played = play(tuple(MetricRules(name=name, **more) for name, more in rules.items()), tapes)

    assert played.status.phase is PHASES[run]
    assert [result.phase for result in played.status.results] == [PHASES[each] for each in metrics]


@pytest.mark.parametrize(
    "recorded", [AnalysisPhase.SUCCESSFUL, AnalysisPhase.INCONCLUSIVE, AnalysisPhase.ERROR, AnalysisPhase.FAILED]
)
@pytest.mark.parametrize("letter", "SFIE")
def test_a_verdict_on_record_stays_whatever_its_counts_say(recorded: AnalysisPhase, letter: str) -> None:
    """Limits may have been others when it was judged; what was acted on is not taken back."""
    rules = MetricRules(name="m", interval_s=60.0)
    result = with_measurement(rules, MetricResult(name="m"), finished(letter))
    status = RunStatus(phase=AnalysisPhase.RUNNING, started_at_s=T0, results=(replace(result, phase=recorded),))

    decided = decide_run((rules,), status, measured={}, asked=(), terminate="", now_s=T0 + 600)

    assert decided.status.phase is recorded
    assert decided.due == ()

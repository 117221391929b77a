"""Promise: a run that is over says when and why; its measurements and itself are kept as long as its spec says."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.analysis.measurement import MetricResult, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.run import TERMINATED, decide_run, with_measurement
from rollouts.core.analysis.run_spec import TimeToLive, expires_at_s
from rollouts.core.model.analysis import AnalysisPhase
from tests.core.analysis.tapes import T0, finished, play

ENDLESS: dict[str, Any] = {"interval_s": 60.0}

SAID: list[tuple[dict[str, Any], str, str]] = [
    ({}, "S", ""),
    ({}, "F", 'Metric "m" assessed Failed due to failed (1) > failureLimit (0)'),
    ({}, "I", 'Metric "m" assessed Inconclusive due to inconclusive (1) > inconclusiveLimit (0)'),
    ({}, "EEEEE", 'Metric "m" assessed Error due to consecutiveErrors (5) > consecutiveErrorLimit (4)'),
    ({"failure_limit": 1}, "F", 'Metric "m" assessed Failed due to no successful measurement: failed (1)'),
    ({"inconclusive_limit": 1}, "I",
        'Metric "m" assessed Inconclusive due to no successful measurement: inconclusive (1)'),
    ({**ENDLESS, "count": 2, "consecutive_success_limit": 2, "failure_limit": 0}, "SS", ""),
    ({**ENDLESS, "count": 3, "consecutive_success_limit": 2, "failure_limit": 1}, "SFS",
        'Metric "m" assessed Inconclusive due to consecutiveSuccess (1) < consecutiveSuccessLimit (2)'),
    (ENDLESS, "SS!", TERMINATED),
    (ENDLESS, "EE!", 'Run Terminated; Metric "m" assessed Error due to no successful measurement: errors (2)'),
    ({"initial_delay_s": 20.0}, "!",
        'Run Terminated; Metric "m" assessed Inconclusive due to no measurement with evidence'),
    ({"dry_run": True}, "F", ""),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "tape", "message"), SAID)
def test_the_message_says_why(rules: dict[str, Any], tape: str, message: str) -> None:
    """In Argo Rollouts' words where it has any; tools and people look for them."""
    status = play((MetricRules(name="m", **rules),), {"m": tape}).status

    assert status.message == message
    assert status.completed_at_s is not None


def test_the_first_of_equally_bad_metrics_is_named() -> None:
    """As in Argo Rollouts; and the worst before all of them."""
    rules = tuple(MetricRules(name=name) for name in "abc")

    status = play(rules, {"a": "I", "b": "F", "c": "F"}).status

    assert status.message == 'Metric "b" assessed Failed due to failed (1) > failureLimit (0)'


@pytest.mark.parametrize(
    ("letter", "message", "told", "over"),
    [
        ("F", "0.91 is not >= 0.95", "failed (1) > failureLimit (0): 0.91 is not >= 0.95", True),
        ("E", "no answer within 30 s", "no answer within 30 s", False),
    ],
    ids=["the limit says that something went wrong, the measurement what", "an error that is borne is worth a look"],
)
def test_what_the_measurement_says_is_passed_on(letter: str, message: str, told: str, over: bool) -> None:
    """In the metric's result, and where it ends the run in the run's message."""
    measured = {"m": finished(letter, message=message)}

    status = decide_run(
        (MetricRules(name="m"),), RunStatus(), measured=measured, asked=(), terminate="", now_s=T0
    ).status

    assert (status.results[0].message, status.phase.over) == (told, over)
    assert status.message.endswith(f"due to {told}") is over


def test_a_run_without_metrics_is_an_error() -> None:
    """Nothing was shown by it."""
    status = decide_run((), RunStatus(), measured={}, asked=(), terminate="", now_s=T0).status

    assert (status.phase, status.message, status.completed_at_s) == (AnalysisPhase.ERROR, "no metrics specified", T0)


@pytest.mark.parametrize(("kept", "expected"), [(10, 10), (3, 3), (30, 12), (1, 1), (0, 1)])
def test_the_latest_measurements_are_kept(kept: int, expected: int) -> None:
    """The counts are of all of them; and the last one is needed to know what is next."""
    rules = MetricRules(name="m", interval_s=60.0, kept=kept)

    result = play((rules,), {"m": "S" * 12}).result()

    assert len(result.measurements) == expected
    assert result.count == 12
    assert result.measurements[-1].started_at_s == T0 + 11 * 60


def test_one_without_a_verdict_makes_room_for_the_next() -> None:
    """A metric that waits for its data for a day must not push out what was measured before."""
    rules = MetricRules(name="m", interval_s=60.0)
    result = MetricResult(name="m")
    for letter in "SWWWS":
        result = with_measurement(rules, result, finished(letter))

    assert [each.phase for each in result.measurements] == [AnalysisPhase.SUCCESSFUL, AnalysisPhase.SUCCESSFUL]


DAY_S = 86_400.0
KEPT: list[tuple[dict[str, float], AnalysisPhase, float | None]] = [
    ({}, AnalysisPhase.SUCCESSFUL, None),
    ({"after_completion_s": DAY_S}, AnalysisPhase.SUCCESSFUL, DAY_S),
    ({"after_completion_s": DAY_S}, AnalysisPhase.FAILED, DAY_S),
    ({"after_completion_s": DAY_S}, AnalysisPhase.ERROR, DAY_S),
    ({"after_completion_s": DAY_S}, AnalysisPhase.INCONCLUSIVE, DAY_S),
    ({"after_success_s": DAY_S}, AnalysisPhase.SUCCESSFUL, DAY_S),
    ({"after_success_s": DAY_S}, AnalysisPhase.FAILED, None),
    ({"after_failure_s": DAY_S}, AnalysisPhase.FAILED, DAY_S),
    ({"after_failure_s": DAY_S}, AnalysisPhase.SUCCESSFUL, None),
    ({"after_failure_s": DAY_S}, AnalysisPhase.ERROR, None),
    ({"after_completion_s": 100_000.0, "after_success_s": DAY_S}, AnalysisPhase.SUCCESSFUL, DAY_S),
    ({"after_completion_s": 100_000.0, "after_failure_s": DAY_S}, AnalysisPhase.FAILED, DAY_S),
    ({"after_completion_s": DAY_S, "after_failure_s": 1.0}, AnalysisPhase.SUCCESSFUL, DAY_S),
    ({"after_completion_s": 0.0}, AnalysisPhase.SUCCESSFUL, 0.0),
]


@pytest.mark.parametrize(("kept", "phase", "after_s"), KEPT)
def test_a_run_is_kept_as_long_as_it_was_told(
    kept: dict[str, float], phase: AnalysisPhase, after_s: float | None
) -> None:
    """The rule of its end comes before the rule of every end."""
    status = RunStatus(phase=phase, completed_at_s=T0)

    assert expires_at_s(TimeToLive(**kept), status) == (None if after_s is None else T0 + after_s)


def test_a_run_that_goes_on_does_not_expire() -> None:
    """However long it takes."""
    assert expires_at_s(TimeToLive(after_completion_s=0.0), RunStatus(phase=AnalysisPhase.RUNNING)) is None

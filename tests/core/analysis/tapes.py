"""Runs that are played from a tape: one letter for each measurement of a metric.

S, F, I, E are the four verdicts; W is an end without one; R runs on for 30 s; `!` tells the run to end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.run import TERMINATED, Due, Task, decide_run
from rollouts.core.model.analysis import AnalysisPhase

T0 = 1_800_000_000.0
VERDICTS = {
    "S": AnalysisPhase.SUCCESSFUL,
    "F": AnalysisPhase.FAILED,
    "I": AnalysisPhase.INCONCLUSIVE,
    "E": AnalysisPhase.ERROR,
    "W": AnalysisPhase.PENDING,
}
RESUME_S = 30.0


def finished(letter: str, at_s: float = T0, message: str = "") -> Measurement:
    """A measurement that ended."""
    return Measurement(phase=VERDICTS[letter], started_at_s=at_s, finished_at_s=at_s, message=message)


def running(at_s: float = T0, resume_at_s: float | None = None) -> Measurement:
    """A measurement in flight."""
    return Measurement(phase=AnalysisPhase.RUNNING, started_at_s=at_s, resume_at_s=resume_at_s)


@dataclass
class Played:
    """What became of a run: its statuses in order, and what it asked for, with the seconds since it began."""

    statuses: list[RunStatus] = field(default_factory=list)
    asked: list[tuple[float, Due]] = field(default_factory=list)

    @property
    def status(self) -> RunStatus:
        """The last one."""
        return self.statuses[-1]

    def result(self, name: str = "m") -> MetricResult:
        """The last one of a metric."""
        return next(result for result in self.status.results if result.name == name)


def play(rules: tuple[MetricRules, ...], tapes: Mapping[str, str]) -> Played:
    """Runs until it is over, or nothing more can be told of it. A metric without a letter left is asked and does not answer."""
    played = Played()
    letters = {name: list(tape) for name, tape in tapes.items()}
    status, now_s, terminate = RunStatus(), T0, ""
    measured: dict[str, Measurement] = {}
    silent: set[str] = set()
    while True:
        if any(tape[:1] == ["!"] for tape in letters.values()):
            terminate = TERMINATED
            silent.clear()
        decision = decide_run(rules, status, measured=measured, asked=silent, terminate=terminate, now_s=now_s)
        status = decision.status
        played.statuses.append(status)
        played.asked += [(now_s - T0, due) for due in decision.due]
        measured = {}
        for due in decision.due:
            if due.task is Task.STOP:
                measured[due.metric] = finished("W", now_s)
            elif letters[due.metric] and letters[due.metric][0] != "!":
                letter = letters[due.metric].pop(0)
                resume = running(now_s, now_s + RESUME_S)
                measured[due.metric] = resume if letter == "R" else finished(letter, now_s)
            else:
                silent.add(due.metric)
        if not measured:
            if decision.wake_at_s is None:
                return played
            now_s = decision.wake_at_s

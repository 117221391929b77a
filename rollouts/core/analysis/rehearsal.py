"""How a run would end if every measurement came out as the one that was just taken. Pure; the rules are those of real runs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement, RunStatus
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.analysis.run import decide_run
from rollouts.core.model.frozen import replace

LOOKS_MAX = 2_000
"""Looks at one run, each with a measurement of some metric. A run that is not over by then is taken for one without an end."""


class RunRehearsal(Struct, frozen=True, kw_only=True):
    """What would become of a run.

    Args:
        status: at its end; where it has none, after `LOOKS_MAX` looks.
        measurements: taken until then, of all metrics together.
        took_s: from its beginning.
    """

    status: RunStatus
    measurements: int
    took_s: float

    @property
    def ends(self) -> bool:
        """It ends by itself. A background analysis may go on until the update is over."""
        return self.status.phase.over


def rehearsed(rules: tuple[MetricRules, ...], like: Mapping[str, Measurement]) -> RunRehearsal:
    """Plays a run in virtual time.

    Args:
        rules: of the run's metrics.
        like: by metric: the measurement that each of its measurements repeats; all of them finished.
    """
    status, now_s, taken = RunStatus(), 0.0, 0
    measured: dict[str, Measurement] = {}
    for _ in range(LOOKS_MAX):
        decision = decide_run(rules, status, measured=measured, asked=(), terminate="", now_s=now_s)
        status = decision.status
        if status.phase.over:
            break
        metrics = [due.metric for due in decision.due]
        measured = {name: replace(like[name], started_at_s=now_s, finished_at_s=now_s) for name in metrics}
        taken += len(metrics)
        if not metrics:
            assert decision.wake_at_s is not None  # noqa: S101 - nothing is asked, so what is not over has a time
            now_s = decision.wake_at_s
    return RunRehearsal(status=status, measurements=taken, took_s=now_s)

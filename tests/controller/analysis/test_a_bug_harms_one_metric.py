"""Promise: whatever a source does, its metric ends with words of ours; no text of its own is told, and no run is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from rollouts.api.spec.analysis.run import parse_run
from rollouts.controller.analysis.measuring import MEASUREMENT_DEADLINE_S, Measuring
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.run import Due, Task
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.errors import ApiForbidden, ApiUnavailable
from rollouts.objects import Key
from rollouts.sim.clock import SimClock
from rollouts.telemetry import Telemetry

pytestmark = pytest.mark.virtual_time

KEY = Key("shop", "run")
RUN = MeasuredRun(namespace="shop", name="run", uid="uid", rollout="", revision="", started_at_s=0.0)
(WEB,) = parse_run({"metrics": [{"name": "m", "provider": {"web": {"url": "https://a.example"}}}]}).metrics
(JOB,) = parse_run({"metrics": [{"name": "m", "provider": {"job": {"spec": {"template": {}}}}}]}).metrics
GOOD = Measurement(phase=AnalysisPhase.SUCCESSFUL, started_at_s=1.0, finished_at_s=2.0)
BEGUN = Measurement(phase=AnalysisPhase.RUNNING, started_at_s=1.0)


class Does:
    """A source that does something with each call."""

    def __init__(self, *steps: Callable[[], Measurement] | Exception | float) -> None:
        self._steps = list(steps)
        self.calls = 0

    async def measure(self, run: MeasuredRun, metric: Metric, due: Due, *, now_s: float) -> Measurement:
        """Raises, waits for so many seconds, or answers."""
        assert run is RUN
        assert metric in (WEB, JOB)
        assert due.metric == "m"
        assert now_s > 0
        self.calls += 1
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, float):
            await asyncio.sleep(step)
            return GOOD
        return step()


async def taken(
    source: Does, metric: Metric, task: Task, *, after_s: float = 1_000.0
) -> tuple[Measurement | None, list[Key]]:
    """What came of one measurement, and whom it woke."""
    woken: list[Key] = []
    measuring = Measuring(
        sources={"web": source, "job": source},
        clock=SimClock(asyncio.get_running_loop()),
        rng=random.Random(1),  # noqa: S311 - jitter
        telemetry=Telemetry(),
        at_once=2,
        on_taken=woken.append,
    )
    running = asyncio.create_task(measuring.run())
    measuring.ask(KEY, RUN, metric, Due(metric="m", task=task, number=1, measurement=BEGUN))
    assert measuring.asked("uid") == {"m"}
    await asyncio.sleep(after_s)
    assert measuring.asked("uid") == (frozenset() if woken else {"m"})
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    found = measuring.taken("uid").get("m")
    return None if found is None else found[1], woken


async def test_a_crash_in_a_source_tells_no_text_of_it() -> None:
    """An exception may hold what was sent, and with it a secret."""
    with capture_logs() as logs:
        found, woken = await taken(Does(ValueError("s3cret")), WEB, Task.TAKE)

    assert found is not None
    words = "the controller failed (ValueError), which is a bug in it"
    assert (found.phase, found.message) == (AnalysisPhase.ERROR, words)
    assert woken == [KEY]
    assert "s3cret" not in repr(logs)
    assert "measure:" in repr(logs), "the place in the code is told"


async def test_a_source_that_never_answers_is_given_up() -> None:
    """Its turn is for others."""
    found, _ = await taken(Does(10_000.0), WEB, Task.TAKE)

    assert found is not None
    assert found.message == f"no measurement within {MEASUREMENT_DEADLINE_S:g} s"
    assert found.finished_at_s is not None
    assert found.finished_at_s - found.started_at_s == pytest.approx(MEASUREMENT_DEADLINE_S)


@pytest.mark.parametrize("task", [Task.RESUME, Task.STOP])
async def test_what_has_begun_is_asked_about_again(task: Task) -> None:
    """Its Job may have ended well: an API server that restarts must not turn that into an Error."""
    source = Does(ApiUnavailable("away"), ApiUnavailable("away"), lambda: GOOD)

    found, _ = await taken(source, JOB, task)

    assert found is GOOD
    assert source.calls == 3


@pytest.mark.parametrize(
    ("error", "task"),
    [(ApiUnavailable("away"), Task.TAKE), (ApiForbidden("no"), Task.RESUME)],
    ids=["a new measurement while the API server is away", "what is refused"],
)
async def test_what_fails_is_an_error_and_not_asked_about_again(error: Exception, task: Task) -> None:
    """A new one is taken again, as with Argo Rollouts; and nobody changes RBAC within seconds."""
    source = Does(error, lambda: GOOD)

    found, _ = await taken(source, JOB, task)

    assert found is not None
    assert found.phase is AnalysisPhase.ERROR
    assert source.calls == 1

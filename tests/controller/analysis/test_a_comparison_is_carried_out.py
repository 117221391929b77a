"""Promise: a comparison goes on look by look, and neither restarts nor retention lose what looks have shown."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rollouts.api.times import parse_time
from rollouts.metrics.requests import HttpRequest, MetricAnswer, MetricEndpoint, NoAnswer
from rollouts.objects import Manifest
from rollouts.ports import Clock
from tests.controller.analysis.stage import Metrics, Stage, analysis_run, answer

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

SCRAPED_EVERY_S = 15.0
_ASKED = re.compile(r'(errors|requests)_total\{hash="(canary|stable)"\}\[(\d+)s\]')


class Counters(Metrics):
    """A Prometheus with two counters of each arm, requests and errors, which have grown `per_s` for an hour."""

    def __init__(self, clock: Clock, **per_s: tuple[float, float]) -> None:
        super().__init__(clock)
        self._now_s = clock.now_s
        self._began_s = clock.now_s() - 3_600.0
        self._per_s = per_s
        self.down = False

    def scraped(self, arm: str, at_s: float) -> int:
        """What the arm's counter of requests had at the scrape before."""
        return self._value(int((at_s - self._began_s) // SCRAPED_EVERY_S), self._per_s[arm][0])

    def _value(self, scrape: int, per_s: float) -> int:
        return int(scrape * SCRAPED_EVERY_S * per_s)

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:  # noqa: ARG002
        """See `ports.MetricEndpoints`."""
        values = parse_qs(urlsplit(request.url).query)
        self.asked.append((self._now_s(), values["query"][0]))
        await asyncio.sleep(0.01)
        if self.down:
            return NoAnswer(f"{endpoint.display_name}: does not answer")
        asked = _ASKED.fullmatch(values["query"][0])
        assert asked is not None
        end_s, span_s = float(values["time"][0]), int(asked[3])
        per_s = self._per_s[asked[2]][asked[1] == "errors"]
        first = int((end_s - span_s - self._began_s) // SCRAPED_EVERY_S) + 1
        last = int((end_s - self._began_s) // SCRAPED_EVERY_S)
        samples = [
            [self._began_s + place * SCRAPED_EVERY_S, str(self._value(place, per_s))]
            for place in range(first, last + 1)
        ]
        series = [{"metric": {"pod": "a"}, "values": samples}]
        return answer({"status": "success", "data": {"resultType": "matrix", "result": series}})


def comparison(**rules: Any) -> Manifest:
    """Errors of both arms, looked at every 30 s."""
    compare = {
        "canary": "canary",
        "stable": "stable",
        "of": {"prometheus": {"query": 'errors_total{hash="{{arm}}"}'}},
        "total": 'requests_total{hash="{{arm}}"}',
        "effect": "1%",
    }
    return {"name": "errors", "interval": "30s", "count": 20, "provider": {"compare": compare}, **rules}


def _carried(stage: Stage) -> dict[str, str]:
    carried: dict[str, str] = stage.result("errors").get("metadata") or {}
    return carried


@pytest.mark.parametrize(
    ("errors_per_s", "phase", "looks", "says"),
    [(0.02, "Successful", 10, "evidence"), (0.5, "Failed", 4, "the canary is worse by more than 1 %")],
)
async def test_a_bad_canary_fails_early_and_a_good_one_passes_early(
    errors_per_s: float, phase: str, looks: int, says: str, stage: Stage
) -> None:
    """The run is over long before its twenty looks are; its status says what was compared."""
    stage.metrics = Counters(stage.cluster.clock, canary=(10.0, errors_per_s), stable=(100.0, 0.2))
    stage.cluster.apply(analysis_run("run", comparison()))
    async with stage.controller():
        began_s = stage.now_s()
        assert await stage.until_over() == phase

    assert stage.now_s() - began_s < looks * 30
    last = stage.result("errors")["measurements"][-1]
    assert last["value"].startswith("canary ")
    assert says in f"{last['value']} {stage.status()}"


async def test_each_request_counts_once_whatever_happens_to_the_controller(stage: Stage) -> None:
    """Three controllers, one after the other, and a Prometheus that is down for a while: what was counted is what was sent."""
    counters = Counters(stage.cluster.clock, canary=(2.0, 0.02), stable=(2.0, 0.0))
    stage.metrics = counters
    stage.cluster.apply(analysis_run("run", comparison(count=100, consecutiveErrorLimit=100)))
    for seed in range(3):
        async with stage.controller(seed=seed):
            await asyncio.sleep(47)
            counters.down = True
            await asyncio.sleep(33)
            counters.down = False
            await asyncio.sleep(41)
        await asyncio.sleep(20)

    result, carried = stage.result("errors"), _carried(stage)
    assert result["phase"] == "Running"
    assert result["error"] > 3
    assert len(result["measurements"]) <= 10
    began_s, until_s = parse_time(stage.status()["startedAt"]), float(carried["until"])
    assert until_s - began_s > 200
    assert int(carried["canaryEvents"]) == counters.scraped("canary", until_s) - counters.scraped("canary", began_s)
    assert carried["canaryEvents"] == carried["stableEvents"]


async def test_retention_keeps_no_look_that_is_needed(stage: Stage) -> None:
    """One measurement is kept, and all looks count."""
    stage.metrics = Counters(stage.cluster.clock, canary=(1.0, 0.004), stable=(10.0, 0.0))
    retention = [{"metricName": "errors", "limit": 1}]
    stage.cluster.apply(analysis_run("run", comparison(count=6), measurementRetention=retention))
    async with stage.controller():
        assert await stage.until_over() == "Inconclusive"

    (last,) = stage.result("errors")["measurements"]
    assert last["message"].startswith("undecided after 6 looks")
    assert int(_carried(stage)["canaryEvents"]) >= 6 * 30 - 15
    assert stage.status()["metricResults"][0]["count"] == 1


async def test_a_run_that_is_told_to_end_without_an_answer_is_inconclusive(stage: Stage) -> None:
    """No evidence is never a success."""
    stage.metrics = Counters(stage.cluster.clock, canary=(0.1, 0.0), stable=(1.0, 0.0))
    stage.cluster.apply(analysis_run("run", comparison()))
    async with stage.controller():
        await asyncio.sleep(100)
        assert stage.result("errors")["phase"] == "Running"
        assert stage.edit({"spec": {"terminate": True}}) == 200
        assert await stage.until_over() == "Inconclusive"

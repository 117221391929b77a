"""A Prometheus in the simulated cluster: it scrapes, it answers, and it fails as a script says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rollouts.metrics.requests import HttpRequest, MetricAnswer, MetricEndpoint, NoAnswer, is_below, origin_of
from rollouts.sim.actors.work import World
from rollouts.sim.network.applications import Applications
from rollouts.sim.network.prometheus.faults import Hangs, PrometheusFault, PrometheusFaults, SlowAnswer, sent
from rollouts.sim.network.prometheus.http_api import answered
from rollouts.sim.network.prometheus.samples import SampleStore
from rollouts.sim.network.prometheus.scraping import Scraper, ScrapeSettings

LATENCY_S = 0.005
"""Loop seconds that an answer takes."""
DEFAULT_URL = "http://prometheus.monitoring:9090"
EVERY_15_S = ScrapeSettings()


class SimPrometheus:
    """One server, asked at `url`; faults are by the number of the question, from 0, and `faults.begin` makes others."""

    def __init__(
        self,
        world: World,
        applications: Applications,
        *,
        url: str = DEFAULT_URL,
        settings: ScrapeSettings = EVERY_15_S,
        seed: int = 0,
        faults: Mapping[int, PrometheusFault] | None = None,
    ) -> None:
        self.url = url
        self.store = SampleStore()
        self.faults = PrometheusFaults(world.loop.time, by_question={} if faults is None else faults)
        self.questions: list[str] = []
        """The URLs that were asked for so far."""
        self._world = world
        self._scraper = Scraper(
            world,
            applications,
            self.store,
            settings=settings,
            seed=seed,
            stopped=self.faults.scrapes_stop,
        )

    def start(self) -> None:
        """Starts to scrape."""
        self._scraper.start()

    def stop(self) -> None:
        """Stops to scrape; it goes on to answer."""
        self._scraper.stop()

    async def answer(self, request: HttpRequest, *, limit_s: float) -> MetricAnswer:
        """Answers within a time. Cancellation: safe. Raises: nothing."""
        fault = self.faults.of_question(len(self.questions))
        self.questions.append(request.url)
        who = origin_of(self.url)
        needed_s = LATENCY_S
        match fault:
            case Hangs():
                needed_s = limit_s
            case SlowAnswer(delay_s):
                needed_s += delay_s
            case _:
                pass
        await asyncio.sleep(min(needed_s, limit_s))
        if needed_s >= limit_s:
            return NoAnswer(f"{who}: no answer within {limit_s:g} s")
        return sent(answered(request, self.store, now_s=self._world.now_s()), fault, who=who)


class SimMetricEndpoints:
    """`ports.MetricEndpoints`: the simulated servers, by their origins. Nobody listens anywhere else."""

    def __init__(self) -> None:
        self.servers: list[SimPrometheus] = []

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """Asks the server that the URL leads to. Cancellation: safe. Raises: nothing."""
        if not is_below(request.url, endpoint.url):
            return NoAnswer("the request does not go below its endpoint's URL")
        for server in self.servers:
            if is_below(request.url, server.url):
                return await server.answer(request, limit_s=min(deadline_s, request.timeout_s))
        return NoAnswer(f"{endpoint.display_name}: connection refused")

    async def aclose(self) -> None:
        """Does nothing: there is no connection."""

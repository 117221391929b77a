"""Asks metric endpoints, and once more with newer credentials when a server refuses those that it got."""

from __future__ import annotations

import asyncio

from rollouts.controller.providers.metric_providers import MetricProviders
from rollouts.metrics.requests import ClientCredentials, HttpRequest, MetricAnswer, MetricEndpoint, NoAnswer
from rollouts.ports import Clock, MetricEndpoints

_REFUSED = (401, 403)
TIME_MIN_S = 0.5  # that a second try needs


class FreshCredentials:
    """`ports.MetricEndpoints` for runs: a Secret that was rotated costs no measurement.

    Args:
        by: who sends requests.
        providers: who reads credentials.
    """

    def __init__(self, by: MetricEndpoints, *, providers: MetricProviders, clock: Clock) -> None:
        self._by = by
        self._providers = providers
        self._clock = clock

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """As `ports.MetricEndpoints.ask`. A request that was refused had no effect, so it may be sent again."""
        until_s = self._clock.monotonic_s() + min(deadline_s, request.timeout_s)
        answer = await self._by.ask(request, endpoint, deadline_s=deadline_s)
        if not _refused(answer, endpoint):
            return answer
        try:
            async with asyncio.timeout(max(0.0, until_s - self._clock.monotonic_s())):
                fresh = await self._providers.read_again(endpoint)
        except TimeoutError:
            return answer
        left_s = until_s - self._clock.monotonic_s()
        if fresh is None or fresh == endpoint or left_s < TIME_MIN_S:
            return answer
        return await self._by.ask(request, fresh, deadline_s=left_s)


def _refused(answer: MetricAnswer, endpoint: MetricEndpoint) -> bool:
    if isinstance(answer, NoAnswer):
        # The server of its tokens may have refused the client's secret.
        return isinstance(endpoint.credentials, ClientCredentials)
    return answer.status in _REFUSED

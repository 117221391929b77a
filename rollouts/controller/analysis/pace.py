"""One pace for each metric server: one that asks to wait is left alone by all metrics, and then asked by one of them first.

So two hundred runs do not keep each other refused. It is known to this process alone; after a restart the server says it again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rollouts.core.model.frozen import replace
from rollouts.metrics.requests import HttpAnswer, HttpRequest, MetricAnswer, MetricEndpoint
from rollouts.ports import Clock, MetricEndpoints

WAIT_S = 10.0
"""After a refusal that does not say until when; doubled with each further one."""
WAIT_MAX_S = 300.0
SERVERS_KEPT = 256
TRIED_S = 5.0
"""So soon is asked again whether the server can be asked, while one metric tries."""


@dataclass(slots=True)
class _Pace:
    """What is known of a server that has refused.

    Args:
        until_s: monotonic time before which nobody asks it.
        refusals: since it has last answered.
        trying: somebody asks whether it is over.
    """

    until_s: float = 0.0
    refusals: int = 0
    trying: bool = False


@dataclass(slots=True, eq=False)
class PacedEndpoints:
    """`ports.MetricEndpoints` that heeds what servers say of their limits."""

    endpoints: MetricEndpoints
    clock: Clock
    _paces: dict[str, _Pace] = field(
        default_factory=dict, init=False
    )  # by URL of the endpoint, of those that have refused

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """As `ports.MetricEndpoints.ask`; for a server that is left alone it answers that one should wait, and how long."""
        pace = self._paces.get(endpoint.url)
        if pace is not None:
            left_s = pace.until_s - self.clock.monotonic_s()
            if left_s > 0 or pace.trying:
                return HttpAnswer(status=429, body=b"", retry_after_s=max(left_s, TRIED_S))
            pace.trying = True
        try:
            answer = await self.endpoints.ask(request, endpoint, deadline_s=deadline_s)
        finally:
            if pace is not None:
                pace.trying = False
        if not isinstance(answer, HttpAnswer) or not answer.asks_to_wait:
            if isinstance(answer, HttpAnswer):
                self._paces.pop(endpoint.url, None)
            return answer
        if len(self._paces) >= SERVERS_KEPT and endpoint.url not in self._paces:
            self._paces.pop(next(iter(self._paces)))
        pace = self._paces.setdefault(endpoint.url, _Pace())
        pace.refusals += 1
        wait_s = answer.retry_after_s or min(WAIT_S * 2 ** min(pace.refusals - 1, 8), WAIT_MAX_S)
        pace.until_s = max(pace.until_s, self.clock.monotonic_s() + wait_s)
        return replace(answer, retry_after_s=wait_s)

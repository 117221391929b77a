"""`MetricAsker` from the first question on: it needs httpx, which costs 5 MiB that a controller without metrics does not need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rollouts.metrics.addresses import TenantUrls
from rollouts.metrics.requests import HttpRequest, MetricAnswer, MetricEndpoint
from rollouts.ports import Clock

if TYPE_CHECKING:
    from rollouts.probes.metric_asker import MetricAsker


class LazyMetricAsker:
    """`ports.MetricEndpoints`; the arguments are those of `MetricAsker`.

    Raises: SettingsInvalid for a `ca_file` without a certificate in it.
    """

    def __init__(self, *, tenants: TenantUrls, clock: Clock, ca_file: Path | None = None) -> None:
        self._tenants = tenants
        self._clock = clock
        self._ca_file = ca_file
        self._asker: MetricAsker | None = None
        if ca_file is not None:
            self._made()  # a wrong file is told at the start

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """See `MetricAsker.ask`."""
        return await self._made().ask(request, endpoint, deadline_s=deadline_s)

    async def aclose(self) -> None:
        """Closes connections; safe to call twice."""
        if self._asker is not None:
            await self._asker.aclose()

    def _made(self) -> MetricAsker:
        from rollouts.probes.metric_asker import MetricAsker  # noqa: PLC0415 - see above

        if self._asker is None:
            self._asker = MetricAsker(tenants=self._tenants, clock=self._clock, ca_file=self._ca_file)
        return self._asker

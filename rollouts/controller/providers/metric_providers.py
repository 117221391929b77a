"""Watches MetricProviders, reads their credentials, and writes whether metrics may ask them.

Every controller watches them; only the one that leads reads credentials, as only it measures: a standby holds no secret. They are
read when a provider changes, every five minutes, and when a server refuses them (`FreshCredentials`). So a new value is in
use with the first refused measurement, a Secret that was taken away is found within five minutes, and all of it costs one GET for
each Secret in five minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path

import structlog

from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import ProviderObject
from rollouts.controller.providers.credentials import ProviderCredentials
from rollouts.controller.providers.declarations import server_of
from rollouts.controller.providers.declared_kind import Declaration, DeclaredKind
from rollouts.controller.providers.verdicts import MESSAGE_MAX, UNAVAILABLE_AGAIN_S, Judged, invalid
from rollouts.core.analysis.metric_server import MetricServer
from rollouts.core.analysis.source import DEFAULT_ENDPOINT
from rollouts.core.model.reasons import Reason
from rollouts.errors import SpecInvalid
from rollouts.metrics.requests import (
    ClientCredentials,
    HttpRequest,
    MetricAnswer,
    MetricEndpoint,
    NoAnswer,
    ServiceAccount,
)
from rollouts.objects import METRIC_PROVIDER, Key
from rollouts.ports import Clock, MetricEndpoints

READ_AGAIN_S = 300.0
REFUSED_AGAIN_S = 10.0
"""A server that refuses whatever it gets makes no more than one reading in this time."""
SECOND_TRY_MIN_S = 0.5

log = structlog.get_logger()


@dataclass(slots=True)
class _Declared(Declaration):
    """The current state of one MetricProvider.

    Args:
        server: None when the declaration is wrong.
        endpoint: whom metrics ask; None when they must not. Until the credentials of a new declaration are read, the former's.
        read_at_s: monotonic time of the last reading of credentials; None before the first.
    """

    server: MetricServer | None = None
    endpoint: MetricEndpoint | None = None
    read_at_s: float | None = None


@dataclass(kw_only=True, eq=False)
class MetricProviders(DeclaredKind[_Declared]):
    """Keeps `declared()` up to date with the cluster.

    Args:
        namespace: of the Secrets; the controller's own.
        folder: where files of credentials are mounted.
        prometheus_url: of the endpoint `default`; "" for none.
    """

    kind = METRIC_PROVIDER
    namespace: str
    folder: Path
    prometheus_url: str
    _fewer_unread: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _asked_for: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._default = MetricEndpoint(url=self.prometheus_url, declared=True) if self.prometheus_url else None
        self._credentials = ProviderCredentials(client=self.client, namespace=self.namespace, folder=self.folder)

    def declared(self) -> Mapping[str, MetricEndpoint]:
        """Whom metrics may ask, by name, `default` first: of two with one URL, metrics that name the URL ask the first."""
        self._asked_for = True
        endpoints = {} if self._default is None else {DEFAULT_ENDPOINT: self._default}
        for name in sorted(self._declarations):
            if (endpoint := self._declarations[name].endpoint) is not None:
                endpoints[name] = endpoint
        return endpoints

    def why_not(self, name: str) -> str:
        """Why metrics may not ask the MetricProvider of that name, for people; "" when there is none, or they may."""
        known = self._declarations.get(name)
        if known is None or known.endpoint is not None:
            return ""
        return f"MetricProvider {name} is not Ready: {'it is read' if known.judged is None else known.judged.message}"

    async def wait_known(self, most_s: float) -> None:
        """Returns when all are listed, and the credentials of each have been read once, which only a controller that leads does.

        Args:
            most_s: the longest wait: a slow Secret must not keep all runs from being measured.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._watch.listed.wait()
                while any(known.server and known.read_at_s is None for known in self._declarations.values()):
                    self._fewer_unread.clear()
                    await self._fewer_unread.wait()

    async def read_again(self, refused: MetricEndpoint) -> MetricEndpoint | None:
        """The endpoint with its credentials as they are now, after its server has refused these.

        Returns: None when nobody declares it as it is, or not any more. Cancellation: safe.
        """
        name = next((name for name, known in self._declarations.items() if known.endpoint == refused), None)
        if name is None:
            return None
        known = self._declarations[name]
        if known.read_at_s is not None and self.clock.monotonic_s() >= known.read_at_s + REFUSED_AGAIN_S:
            await self._judge(name, known)
            self._queue.add(Key("", name))
        return known.endpoint

    def _read(self, name: str, seen: ProviderObject, before: _Declared | None) -> None:
        try:
            server = server_of(name, json_object(bytes(seen.spec)), folder=self.folder, taken=self._default is not None)
        except SpecInvalid as exc:
            known = self._declarations[name] = _Declared(seen, judge_at_s=None)
            self._conclude(name, known, None, invalid(exc))
            self._fewer_unread.set()
            return
        same = before is not None and before.seen.metadata.uid == seen.metadata.uid
        endpoint = before.endpoint if same and before is not None else None
        self._declarations[name] = _Declared(seen, server=server, endpoint=endpoint)

    async def _judge(self, name: str, declaration: _Declared) -> None:
        """Reads the credentials."""
        server = declaration.server
        if server is None:
            return
        found = await self._credentials.endpoint_of(server)
        if self._declarations.get(name) is not declaration:
            return
        now_s = declaration.read_at_s = self.clock.monotonic_s()
        if isinstance(found, MetricEndpoint):
            self._conclude(name, declaration, found, Judged(True, Reason.ENDPOINT_READY, "metrics may ask it"))
        elif found.lasting or declaration.judged is None or not declaration.judged.ready:
            missing = Judged(False, Reason.CREDENTIALS_MISSING, found.why[:MESSAGE_MAX], UNAVAILABLE_AGAIN_S)
            self._conclude(name, declaration, None, missing)
        # Otherwise the API server gave no answer: what was read before still holds.
        again_in_s = None if declaration.judged is None else declaration.judged.again_in_s
        declaration.judge_at_s = now_s + (again_in_s or READ_AGAIN_S) if server.places else None
        self._fewer_unread.set()

    def _withdraw(self, name: str, why: str) -> None:
        if why:
            log.error("metric_provider_withdrawn", name=name, why=why)
        self._fewer_unread.set()

    def _listed(self, *, served: bool) -> None:  # noqa: ARG002 - those that cannot be listed are none
        self._asked_for = False

    def _is_missed(self) -> bool:
        """Whether something was measured, so that a MetricProvider may be named."""
        asked_for, self._asked_for = self._asked_for, False
        return asked_for

    def _conclude(self, name: str, declaration: _Declared, endpoint: MetricEndpoint | None, judged: Judged) -> None:
        before, declaration.judged, declaration.endpoint = declaration.judged, judged, endpoint
        if judged != before:
            declaration.unsaid = True
            log.info("metric_provider_judged", name=name, ready=judged.ready, reason=judged.reason)


@dataclass(slots=True, eq=False)
class FreshCredentials:
    """`ports.MetricEndpoints` for runs, once more with newer credentials when a server refuses those that it got.

    So a Secret that was rotated costs no measurement.

    Args:
        endpoints: who sends requests.
        providers: who reads credentials.
    """

    endpoints: MetricEndpoints
    _: KW_ONLY
    providers: MetricProviders
    clock: Clock

    async def ask(self, request: HttpRequest, endpoint: MetricEndpoint, *, deadline_s: float) -> MetricAnswer:
        """As `ports.MetricEndpoints.ask`. A request that was refused had no effect, so it may be sent again."""
        until_s = self.clock.monotonic_s() + min(deadline_s, request.timeout_s)
        answer = await self.endpoints.ask(request, endpoint, deadline_s=deadline_s)
        if isinstance(answer, NoAnswer):
            # The server of its tokens may have refused the client's secret, or the key.
            refused = isinstance(endpoint.credentials, ClientCredentials | ServiceAccount)
        else:
            refused = answer.status in (401, 403)
        if not refused:
            return answer
        try:
            async with asyncio.timeout(max(0.0, until_s - self.clock.monotonic_s())):
                fresh = await self.providers.read_again(endpoint)
        except TimeoutError:
            return answer
        left_s = until_s - self.clock.monotonic_s()
        if fresh is None or fresh == endpoint or left_s < SECOND_TRY_MIN_S:
            return answer
        return await self.endpoints.ask(request, fresh, deadline_s=left_s)

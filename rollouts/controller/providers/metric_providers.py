"""Watches MetricProviders, reads their credentials, and writes whether metrics may ask them.

Every controller watches them; only the one that leads reads credentials, as only it measures: a standby holds no secret. They are
read when a provider changes, every five minutes, and when a server refuses them (`fresh_credentials.py`). So a new value is in
use with the first refused measurement, a Secret that was taken away is found within five minutes, and all of it costs one GET for
each Secret in five minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import ProviderObject
from rollouts.controller.providers.agenda import UNAVAILABLE_AGAIN_S, Agenda
from rollouts.controller.providers.credentials import NotRead, ProviderCredentials
from rollouts.controller.providers.declarations import server_of
from rollouts.controller.providers.declared_kind import DeclaredKind
from rollouts.controller.providers.verdicts import (
    MESSAGE_MAX,
    Judged,
    generation_of,
    invalid,
    write_status,
)
from rollouts.core.analysis.metric_server import MetricServer
from rollouts.core.analysis.source import DEFAULT_ENDPOINT
from rollouts.core.model.reasons import Reason
from rollouts.errors import SpecInvalid
from rollouts.metrics.requests import MetricEndpoint
from rollouts.objects import METRIC_PROVIDER
from rollouts.ports import ApiServer, Clock

READ_AGAIN_S = 300.0
REFUSED_AGAIN_S = 10.0
"""A server that refuses whatever it gets makes no more than one reading in this time."""

_READY = Judged(True, Reason.ENDPOINT_READY, "metrics may ask it")

log = structlog.get_logger()


@dataclass(slots=True)
class _Entry:
    """The current state of one MetricProvider.

    Args:
        server: None when the declaration is wrong.
        endpoint: whom metrics ask; None when they must not. Until the credentials of a new declaration are read, the former's.
        judged: None while its credentials were not read yet.
        read_at_s: monotonic time of the last reading; None before the first.
        unsaid: whether the verdict is not in its status yet.
    """

    seen: ProviderObject
    server: MetricServer | None
    endpoint: MetricEndpoint | None = None
    judged: Judged | None = None
    read_at_s: float | None = None
    unsaid: bool = False


class MetricProviders:
    """Keeps `declared()` up to date with the cluster.

    Args:
        namespace: of the Secrets; the controller's own.
        folder: where files of credentials are mounted.
        prometheus_url: of the endpoint `default`; "" for none.
    """

    def __init__(
        self,
        *,
        api: ApiServer,
        client: Client,
        clock: Clock,
        rng: random.Random,
        namespace: str,
        folder: Path,
        prometheus_url: str,
    ) -> None:
        self._known = asyncio.Event()
        self._client = client
        self._clock = clock
        self._folder = folder
        self._default = MetricEndpoint(url=prometheus_url, declared=True) if prometheus_url else None
        self._credentials = ProviderCredentials(client=client, namespace=namespace, folder=folder)
        self._entries: dict[str, _Entry] = {}
        self._listed = False
        self._asked_for = False
        self._agenda = Agenda(METRIC_PROVIDER, clock=clock, look_after=self._look_after)
        self._watched = DeclaredKind(METRIC_PROVIDER, self, api=api, clock=clock, rng=rng)

    def declared(self) -> Mapping[str, MetricEndpoint]:
        """Whom metrics may ask, by name, `default` first: of two with one URL, metrics that name the URL ask the first."""
        self._asked_for = True
        found = {} if self._default is None else {DEFAULT_ENDPOINT: self._default}
        for name in sorted(self._entries):
            endpoint = self._entries[name].endpoint
            if endpoint is not None:
                found[name] = endpoint
        return found

    def why_not(self, name: str) -> str:
        """Why metrics may not ask the MetricProvider of that name, for people; "" when there is none, or they may."""
        entry = self._entries.get(name)
        if entry is None or entry.endpoint is not None:
            return ""
        return f"MetricProvider {name} is not Ready: {'it is read' if entry.judged is None else entry.judged.message}"

    async def watch(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        await self._watched.watch()

    async def judge(self) -> NoReturn:
        """Reads credentials and writes status while this controller leads. Cancellation: safe."""
        await self._agenda.run(self._entries, on_idle=self._all_read)

    async def wait_known(self, most_s: float) -> None:
        """Returns when this controller leads, all are listed, and the credentials of each have been read once.

        Args:
            most_s: the longest wait: a slow Secret must not keep all runs from being measured.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._known.wait()

    async def read_again(self, refused: MetricEndpoint) -> MetricEndpoint | None:
        """The endpoint with its credentials as they are now, after its server has refused these.

        Returns: None when nobody declares it as it is, or not any more. Cancellation: safe.
        """
        name = next((name for name, entry in self._entries.items() if entry.endpoint == refused), None)
        if name is None:
            return None
        entry = self._entries[name]
        if entry.read_at_s is not None and self._clock.monotonic_s() >= entry.read_at_s + REFUSED_AGAIN_S:
            await self._read(name, entry)
            self._agenda.do(name)
        return entry.endpoint

    # What the watch shows (`declared_kind.DeclarationReader`).

    def names(self) -> Collection[str]:
        """The MetricProviders that are known."""
        return self._entries.keys()

    def changed(self, name: str, seen: ProviderObject) -> None:
        """Follows one change in the cluster."""
        known = self._entries.get(name)
        if known is not None and generation_of(known.seen) == generation_of(seen):
            known.seen = seen
        else:
            self._take(name, seen, known)
        self._agenda.do(name)

    def unreadable(self, name: str, why: str) -> None:
        """Withdraws a provider whose object cannot be read: nobody knows whether its former declaration still holds."""
        log.error("metric_provider_withdrawn", name=name, why=why)
        self.gone(name)

    def gone(self, name: str) -> None:
        """Withdraws a provider that was deleted."""
        self._entries.pop(name, None)
        self._agenda.drop(name)

    def listed(self, *, served: bool) -> None:  # noqa: ARG002 - those that cannot be listed are none
        """Notes that all MetricProviders are known."""
        self._listed = True
        self._asked_for = False
        self._agenda.wake()

    def missed(self) -> bool:
        """Whether something was measured, so that a MetricProvider may be named, since this was asked last."""
        asked_for, self._asked_for = self._asked_for, False
        return asked_for

    def _all_read(self) -> None:
        if self._listed:
            self._known.set()

    def _take(self, name: str, seen: ProviderObject, before: _Entry | None) -> None:
        """Takes a new declaration."""
        try:
            server = server_of(
                name, json_object(bytes(seen.spec)), folder=self._folder, taken=self._default is not None
            )
        except SpecInvalid as exc:
            entry = self._entries[name] = _Entry(seen, None)
            self._conclude(name, entry, None, invalid(exc))
            return
        same = before is not None and before.seen.metadata.uid == seen.metadata.uid
        self._entries[name] = _Entry(seen, server, endpoint=before.endpoint if same and before is not None else None)

    async def _look_after(self, name: str) -> None:
        """Reads credentials if that is due, and writes status. Raises: what a write raises."""
        entry = self._entries.get(name)
        if entry is None:
            return
        if entry.server is not None and self._due_at_s(entry) <= self._clock.monotonic_s():
            await self._read(name, entry)
        if self._entries.get(name) is not entry:
            return  # a newer entry has replaced it
        if entry.server is not None and entry.server.places:
            self._agenda.do(name, at_s=self._due_at_s(entry))
        await write_status(METRIC_PROVIDER, entry, client=self._client, clock=self._clock)

    def _due_at_s(self, entry: _Entry) -> float:
        """Monotonic time at which its credentials are read next."""
        if entry.read_at_s is None or entry.judged is None:
            return 0.0
        return entry.read_at_s + (READ_AGAIN_S if entry.judged.again_in_s is None else entry.judged.again_in_s)

    async def _read(self, name: str, entry: _Entry) -> None:
        if entry.server is None:
            return
        found = await self._credentials.endpoint_of(entry.server)
        if self._entries.get(name) is not entry:
            return
        entry.read_at_s = self._clock.monotonic_s()
        if isinstance(found, MetricEndpoint):
            self._conclude(name, entry, found, _READY)
        elif found.lasting or entry.judged is None or not entry.judged.ready:
            self._conclude(name, entry, None, _missing(found))
        # Otherwise the API server gave no answer: what was read before still holds.

    def _conclude(self, name: str, entry: _Entry, endpoint: MetricEndpoint | None, judged: Judged) -> None:
        before, entry.judged, entry.endpoint = entry.judged, judged, endpoint
        if judged == before:
            return
        entry.unsaid = True
        log.info("metric_provider_judged", name=name, ready=judged.ready, reason=judged.reason)


def _missing(found: NotRead) -> Judged:
    return Judged(False, Reason.CREDENTIALS_MISSING, found.why[:MESSAGE_MAX], UNAVAILABLE_AGAIN_S)

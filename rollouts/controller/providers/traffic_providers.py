"""Watches TrafficProviders and judges each generation of them: first by its own tests, then by a dry run on the API server.

Every controller watches and reads them; only the leader tries them and writes their status. A generation whose status says Ready
is believed, so that a restart interrupts no rollout and costs no request.

Without the CRD, or without the right to watch cluster-scoped objects, there are none: the controller logs that once, and looks
again only while a Rollout names an unknown provider.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NoReturn

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import ProviderObject
from rollouts.controller.facts.live_providers import LiveProviders
from rollouts.controller.facts.off_loop import WorkedOut, off_loop
from rollouts.controller.providers.agenda import Agenda
from rollouts.controller.providers.declarations import provider_of, tried
from rollouts.controller.providers.declared_kind import DeclaredKind
from rollouts.controller.providers.verdicts import (
    Judged,
    generation_of,
    invalid,
    judged_before,
    write_status,
)
from rollouts.core.model.reasons import Reason
from rollouts.errors import SpecInvalid
from rollouts.objects import TRAFFIC_PROVIDER
from rollouts.ports import ApiServer, Clock
from rollouts.traffic.declared.codec import Declared

log = structlog.get_logger()


@dataclass(slots=True)
class _Entry:
    """The current state of one TrafficProvider.

    Args:
        provider: None when the declaration is wrong in itself.
        judged: None while it was not tried yet.
        try_at_s: monotonic time of the next try; None to wait for a change.
        unsaid: whether the verdict is not in its status yet.
    """

    seen: ProviderObject
    provider: Declared | None
    judged: Judged | None
    try_at_s: float | None = None
    unsaid: bool = False


class TrafficProviders:
    """Keeps `providers` up to date with the cluster.

    Args:
        answers: those of providers with expressions.
        namespace: where objects are tried; the controller's own.
        named: whether some Rollout names the provider; called rarely.
        on_change: called with a provider's name after `providers` has changed for it.
        on_ready: called with each provider that Rollouts may use from now on.
    """

    def __init__(  # noqa: PLR0913 - keyword-only: the ports, and callbacks
        self,
        *,
        api: ApiServer,
        client: Client,
        clock: Clock,
        rng: random.Random,
        providers: LiveProviders,
        answers: WorkedOut,
        namespace: str,
        named: Callable[[str], bool],
        on_change: Callable[[str], None],
        on_ready: Callable[[Declared], None],
    ) -> None:
        self.known = asyncio.Event()
        """Set when all TrafficProviders are known, even if there are none."""
        self._api = api
        self._client = client
        self._clock = clock
        self._providers = providers
        self._answers = answers
        self._namespace = namespace
        self._named = named
        self._on_change = on_change
        self._on_ready = on_ready
        self._entries: dict[str, _Entry] = {}
        self._agenda = Agenda(TRAFFIC_PROVIDER, clock=clock, look_after=self._look_after)
        self._watched = DeclaredKind(TRAFFIC_PROVIDER, self, api=api, clock=clock, rng=rng)

    async def watch(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        await self._watched.watch()

    async def judge(self) -> NoReturn:
        """Tries TrafficProviders and writes their status while this controller leads. Cancellation: safe."""
        for entry in self._entries.values():
            if entry.provider is not None and self._found_before(entry.seen) is None:
                entry.try_at_s = 0.0  # the former leader has reached another verdict since
        await self._agenda.run(self._entries)

    # What the watch shows (`declared_kind.DeclarationReader`).

    def names(self) -> Collection[str]:
        """The TrafficProviders that are known."""
        return self._entries.keys()

    def changed(self, name: str, seen: ProviderObject) -> None:
        """Follows one change in the cluster."""
        known = self._entries.get(name)
        if known is not None and generation_of(known.seen) == generation_of(seen):
            known.seen = seen
            if known.judged is None and (found := self._found_before(seen)) is not None:
                known.try_at_s = None
                self._conclude(name, known, found, said=True)  # another controller leads, and has judged it
        else:
            self._read(name, seen)
        self._agenda.do(name)

    def unreadable(self, name: str, why: str) -> None:
        """Withdraws a provider whose object cannot be read: nobody knows whether its former declaration still holds."""
        self._entries.pop(name, None)
        self._agenda.drop(name)
        self._providers.lacks(name, f"the controller cannot read it: {why}; make it smaller")
        self._on_change(name)

    def gone(self, name: str) -> None:
        """Withdraws a provider that was deleted."""
        self._entries.pop(name, None)
        self._agenda.drop(name)
        self._providers.gone(name)
        self._on_change(name)

    def listed(self, *, served: bool) -> None:
        """Notes that all TrafficProviders are known, and wakes the Rollouts that wait for this."""
        if not self.known.is_set():
            self.known.set()
            self._providers.listed()
            for name in tuple(self._providers.missed):
                self._on_change(name)
        if served:
            self._providers.missed.clear()

    def missed(self) -> bool:
        """Whether a Rollout names one that there is not."""
        missed = self._providers.missed
        for name in tuple(missed):
            if not self._named(name):
                del missed[name]
        return bool(missed)

    def _read(self, name: str, seen: ProviderObject) -> None:
        """Reads a new generation."""
        try:
            provider = provider_of(name, json_object(bytes(seen.spec)), self._providers.fixed)
        except SpecInvalid as exc:
            entry = self._entries[name] = _Entry(seen, None, None)
            self._conclude(name, entry, invalid(exc))
            return
        entry = self._entries[name] = _Entry(seen, provider, None, try_at_s=0.0)
        if (found := self._found_before(seen)) is not None:
            self._conclude(name, entry, found, said=True)
            if found.reason != Reason.NOT_TRIED:
                entry.try_at_s = None
            return
        self._providers.lacks(name, None)
        self._on_change(name)

    def _found_before(self, seen: ProviderObject) -> Judged | None:
        return judged_before(json_object(bytes(seen.status)), generation=seen.metadata.generation)

    def _conclude(self, name: str, entry: _Entry, judged: Judged, *, said: bool = False) -> None:
        """Records a verdict on the entry, and offers or withdraws its provider; `said` when the verdict is from its status."""
        before, entry.judged = entry.judged, judged
        entry.unsaid = not said and (entry.unsaid or judged != before)
        if before is not None and before.ready == judged.ready and (judged.ready or before.message == judged.message):
            return
        if judged.ready and entry.provider is not None:
            self._providers.has(off_loop(entry.provider, self._answers))
            self._on_ready(entry.provider)
        else:
            self._providers.lacks(name, judged.message)
        log.info("traffic_provider_judged", name=name, ready=judged.ready, reason=judged.reason)
        self._on_change(name)

    async def _look_after(self, name: str) -> None:
        """Tries a TrafficProvider if that is due, and writes its status. Raises: what a write raises."""
        entry = self._entries.get(name)
        if entry is None:
            return
        if entry.provider is not None and entry.try_at_s is not None and entry.try_at_s <= self._clock.monotonic_s():
            await self._try(name, entry, entry.provider)
        if self._entries.get(name) is not entry:
            return  # a newer entry has replaced it
        await write_status(TRAFFIC_PROVIDER, entry, client=self._client, clock=self._clock)
        if entry.try_at_s is not None:
            self._agenda.do(name, at_s=entry.try_at_s)

    async def _try(self, name: str, entry: _Entry, provider: Declared) -> None:
        judged = await tried(
            provider, json_object(bytes(entry.seen.spec)), api=self._api, client=self._client, namespace=self._namespace
        )
        if self._entries.get(name) is not entry:
            return
        entry.try_at_s = None if judged.again_in_s is None else self._clock.monotonic_s() + judged.again_in_s
        self._conclude(name, entry, judged)

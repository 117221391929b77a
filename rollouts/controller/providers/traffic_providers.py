"""Watches TrafficProviders and judges each of their generations: its own tests at once, then a dry run on the API server.

Every controller watches and reads them; only the one that leads tries them and writes their status. What was found Ready
before is believed for its generation, so that a restart interrupts no rollout and costs no request.

A cluster without the CRD, or a controller that may not watch cluster-scoped objects, has none: that is told once, and looked at
again only while a Rollout names a provider that nobody knows.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec
import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import UnreadableObject
from rollouts.cluster.store import Table
from rollouts.cluster.structs import TrafficProviderObject
from rollouts.cluster.watch import reflect
from rollouts.controller.facts.live_providers import LiveProviders
from rollouts.controller.providers.declarations import (
    REFUSED_AGAIN_S,
    UNAVAILABLE_AGAIN_S,
    Judged,
    invalid,
    is_shown,
    judged_before,
    provider_of,
    status_of,
    tried,
)
from rollouts.core.model.reasons import Reason
from rollouts.errors import (
    ApiConflict,
    ApiForbidden,
    ApiNotFound,
    NotLeader,
    RolloutsError,
    SpecInvalid,
    TransientError,
)
from rollouts.manifests.ownership import FIELD_MANAGER
from rollouts.objects import TRAFFIC_PROVIDER, Kind, Manifest
from rollouts.ports import MERGE_PATCH, ApiServer, Clock
from rollouts.traffic.declared.codec import Declared

LOOK_AGAIN_S = 60.0

log = structlog.get_logger()


class _NoneHere(Exception):
    """The watch was refused in a way that trying again at once does not mend."""

    def __init__(self, why: RolloutsError) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(slots=True)
class _Entry:
    """One TrafficProvider as it is now.

    Args:
        provider: None when the declaration is wrong in itself.
        judged: None while it is to be tried.
        try_at_s: monotonic time from which it is to be tried, maybe again; None for not before it changes.
        unsaid: what was judged is not in its status yet.
    """

    seen: TrafficProviderObject
    provider: Declared | None
    judged: Judged | None
    try_at_s: float | None = None
    unsaid: bool = False


class TrafficProviders:
    """Keeps `providers` as the cluster has them.

    Args:
        namespace: where objects are tried, the controller's own.
        named: whether some Rollout names the provider; asked seldom.
        on_change: told the name whenever what it means has changed, `providers` first.
        on_ready: told of each provider that Rollouts may use from now on.
    """

    def __init__(  # noqa: PLR0913 - keyword-only: the ports, and whom to tell
        self,
        *,
        api: ApiServer,
        client: Client,
        clock: Clock,
        rng: random.Random,
        providers: LiveProviders,
        namespace: str,
        named: Callable[[str], bool],
        on_change: Callable[[str], None],
        on_ready: Callable[[Declared], None],
    ) -> None:
        self.listed = asyncio.Event()
        """Set when it is known which there are, even if there are none."""
        self._api = api
        self._client = client
        self._clock = clock
        self._rng = rng
        self._providers = providers
        self._namespace = namespace
        self._named = named
        self._on_change = on_change
        self._on_ready = on_ready
        self._entries: dict[str, _Entry] = {}
        self._due_s: dict[str, float] = {}
        self._work = asyncio.Event()
        self._told = False

    async def watch(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        while True:
            table = Table(
                TRAFFIC_PROVIDER, TrafficProviderObject, clock=self._clock, labels=(), by_owner=False, scopes=("",)
            )
            listing = asyncio.create_task(self._when_listed(table))
            try:
                await reflect(
                    self._api,
                    table,
                    on_change=self._changed,
                    on_problem=self._on_problem,
                    on_unreadable=self._unreadable,
                    rng=self._rng,
                )
            except _NoneHere as exc:
                self._tell_none(exc.why)
            finally:
                listing.cancel()
            self._set_listed()
            await self._wanted()

    async def judge(self) -> NoReturn:
        """Tries what is to be tried and writes status, while this controller leads. Cancellation: safe."""
        self._due_s = dict.fromkeys(self._entries, 0.0)
        for entry in self._entries.values():
            if entry.provider is not None and self._found_before(entry.seen) is None:
                entry.try_at_s = 0.0  # whoever led before found something else since we looked
        while True:
            self._work.clear()
            now_s = self._clock.monotonic_s()
            due = [name for name, at_s in self._due_s.items() if at_s <= now_s]
            if not due:
                wait_s = min(self._due_s.values(), default=None)
                try:
                    async with asyncio.timeout(None if wait_s is None else wait_s - now_s):
                        await self._work.wait()
                except TimeoutError:
                    pass
                continue
            for name in due:
                self._due_s.pop(name, None)  # it may have gone while another one was looked after
                if name in self._entries:
                    await self._look_after(name, self._entries[name])

    def _changed(self, _kind: Kind, before: TrafficProviderObject | None, after: TrafficProviderObject | None) -> None:
        """One difference in the cluster."""
        name = (after or before or TrafficProviderObject()).metadata.name
        if after is None:
            self._gone(name)
            return
        known = self._entries.get(name)
        if known is not None and _generation(known.seen) == _generation(after):
            known.seen = after
            if known.judged is None and (found := self._found_before(after)) is not None:
                known.try_at_s = None
                self._conclude(name, known, found, said=True)  # another controller leads, and has judged it
        else:
            self._read(name, after)
        self._do(name)

    def _unreadable(self, _kind: Kind, seen: UnreadableObject) -> None:
        """Its router is not managed by what was declared before: nobody knows whether that still holds."""
        name = seen.metadata.name
        log.error("object_unreadable", kind=TRAFFIC_PROVIDER.kind, name=name, why=seen.why)
        self._entries.pop(name, None)
        self._due_s.pop(name, None)
        self._providers.lacks(name, f"it cannot be read: {seen.why}; make it smaller")
        self._on_change(name)

    def _read(self, name: str, seen: TrafficProviderObject) -> None:
        """A new generation."""
        try:
            provider = provider_of(name, _spec(seen), self._providers.fixed)
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

    def _found_before(self, seen: TrafficProviderObject) -> Judged | None:
        return judged_before(_status(seen), generation=seen.metadata.generation)

    def _conclude(self, name: str, entry: _Entry, judged: Judged, *, said: bool = False) -> None:
        """What the entry means from now on; `said` when its status is where we have it from."""
        before, entry.judged = entry.judged, judged
        entry.unsaid = not said and (entry.unsaid or judged != before)
        if before is not None and before.ready == judged.ready and (judged.ready or before.message == judged.message):
            return
        if judged.ready and entry.provider is not None:
            self._providers.has(entry.provider)
            self._on_ready(entry.provider)
        else:
            self._providers.lacks(name, judged.message)
        log.info("traffic_provider_judged", name=name, ready=judged.ready, reason=judged.reason)
        self._on_change(name)

    async def _look_after(self, name: str, entry: _Entry) -> None:
        """Tries it, unless its generation has been, and says so in its status. Raises: nothing but cancellation."""
        try:
            if (
                entry.provider is not None
                and entry.try_at_s is not None
                and entry.try_at_s <= self._clock.monotonic_s()
            ):
                await self._try(name, entry, entry.provider)
            if self._entries.get(name) is entry and entry.judged is not None:  # else another one has come meanwhile
                await self._write_status(name, entry, entry.judged)
            if entry.try_at_s is not None:
                self._do(name, at_s=entry.try_at_s)
        except (ApiConflict, ApiNotFound):
            return  # it has changed, or is gone; the watch brings that
        except NotLeader:
            self._do(name, at_s=self._clock.monotonic_s() + UNAVAILABLE_AGAIN_S)
        except RolloutsError as exc:
            again_in_s = UNAVAILABLE_AGAIN_S if isinstance(exc, TransientError) else REFUSED_AGAIN_S
            log.warning("traffic_provider_status_not_written", name=name, why=str(exc), retry_in_s=again_in_s)
            self._do(name, at_s=self._clock.monotonic_s() + again_in_s)
        except Exception:  # a bug; the others are looked after all the same
            log.exception("traffic_provider_crashed", name=name, retry_in_s=REFUSED_AGAIN_S)
            self._do(name, at_s=self._clock.monotonic_s() + REFUSED_AGAIN_S)

    async def _try(self, name: str, entry: _Entry, provider: Declared) -> None:
        judged = await tried(provider, _spec(entry.seen), api=self._api, client=self._client, namespace=self._namespace)
        if self._entries.get(name) is not entry:
            return
        entry.try_at_s = None if judged.again_in_s is None else self._clock.monotonic_s() + judged.again_in_s
        self._conclude(name, entry, judged)

    async def _write_status(self, name: str, entry: _Entry, judged: Judged) -> None:
        """Says what is new, once: another installation may judge the same object otherwise, and they must not fight over it."""
        metadata, before = entry.seen.metadata, _status(entry.seen)
        wanted = status_of(judged, generation=metadata.generation, before=before, now_s=self._clock.now_s())
        if wanted == before or (is_shown(before, generation=metadata.generation) and not entry.unsaid):
            entry.unsaid = False
            return
        body: Manifest = {
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": wanted,
        }
        await self._client.patch(
            TRAFFIC_PROVIDER, None, name, body, MERGE_PATCH, subresource="status", field_manager=FIELD_MANAGER
        )
        entry.unsaid = False

    def _do(self, name: str, *, at_s: float = 0.0) -> None:
        """It is to be looked after at that monotonic time, or before."""
        self._due_s[name] = min(at_s, self._due_s.get(name, at_s))
        self._work.set()

    # Whether there are any.

    async def _when_listed(self, table: Table[Any]) -> None:
        await table.synced.wait()
        self._told = False
        for name in [each for each in self._entries if table.get("", each) is None]:  # went while nobody watched
            self._gone(name)
        self._set_listed()
        self._providers.missed.clear()

    def _gone(self, name: str) -> None:
        self._entries.pop(name, None)
        self._due_s.pop(name, None)
        self._providers.gone(name)
        self._on_change(name)

    def _set_listed(self) -> None:
        if self.listed.is_set():
            return
        self.listed.set()
        self._providers.listed()
        for name in tuple(self._providers.missed):  # they wait for this
            self._on_change(name)

    def _on_problem(self, kind: Kind, error: RolloutsError) -> None:
        if isinstance(error, ApiNotFound | ApiForbidden):
            raise _NoneHere(error)
        log.warning("watch_trouble", kind=kind.kind, error=type(error).__name__, why=str(error))

    def _tell_none(self, why: RolloutsError) -> None:
        if isinstance(why, ApiNotFound):  # with the CRD went its objects
            for name in tuple(self._entries):
                self._gone(name)
        if not self._told:
            self._told = True
            remedy = (
                "rollouts crds | kubectl apply -f -"
                if isinstance(why, ApiNotFound)
                else "a ClusterRole with get, list and watch of trafficproviders.rollouts.dev, unless nobody is to use any"
            )
            log.info("no_traffic_providers", why=str(why), remedy=remedy)

    async def _wanted(self) -> None:
        """Returns when it is time to look again whether there are any."""
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            missed = self._providers.missed
            for name in tuple(missed):
                if not self._named(name):
                    del missed[name]
            if missed or self._entries:
                return


def _generation(seen: TrafficProviderObject) -> tuple[str, int]:
    return seen.metadata.uid, seen.metadata.generation


def _spec(seen: TrafficProviderObject) -> Manifest:
    return _object(bytes(seen.spec))


def _status(seen: TrafficProviderObject) -> Manifest:
    return _object(bytes(seen.status))


def _object(data: bytes) -> Manifest:
    try:
        value = msgspec.json.decode(data) if data else {}
    except RecursionError:  # then it lacks everything, which is told
        return {}
    return value if isinstance(value, dict) else {}

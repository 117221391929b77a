"""Watches TrafficProviders and judges each generation of them: first by its own tests, then by a dry run on the API server.

Every controller watches and reads them; only the leader tries them and writes their status. A generation whose status says Ready
is believed, so that a restart interrupts no rollout and costs no request.

Without the CRD, or without the right to watch cluster-scoped objects, there are none: the controller logs that once, and looks
again only while a Rollout names an unknown provider.
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
    """The watch was refused in a way that another try at once does not change."""

    def __init__(self, why: RolloutsError) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(slots=True)
class _Entry:
    """The current state of one TrafficProvider.

    Args:
        provider: None when the declaration is wrong in itself.
        judged: None while it was not tried yet.
        try_at_s: monotonic time of the next try; None to wait for a change.
        unsaid: whether the verdict is not in its status yet.
    """

    seen: TrafficProviderObject
    provider: Declared | None
    judged: Judged | None
    try_at_s: float | None = None
    unsaid: bool = False


class TrafficProviders:
    """Keeps `providers` up to date with the cluster.

    Args:
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
        namespace: str,
        named: Callable[[str], bool],
        on_change: Callable[[str], None],
        on_ready: Callable[[Declared], None],
    ) -> None:
        self.listed = asyncio.Event()
        """Set when all TrafficProviders are known, even if there are none."""
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
        """Tries TrafficProviders and writes their status while this controller leads. Cancellation: safe."""
        self._due_s = dict.fromkeys(self._entries, 0.0)
        for entry in self._entries.values():
            if entry.provider is not None and self._found_before(entry.seen) is None:
                entry.try_at_s = 0.0  # the former leader has reached another verdict since
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
                self._due_s.pop(name, None)  # it may have been deleted while another one was handled
                if name in self._entries:
                    await self._look_after(name, self._entries[name])

    def _changed(self, _kind: Kind, before: TrafficProviderObject | None, after: TrafficProviderObject | None) -> None:
        """Follows one change in the cluster."""
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
        """Withdraws a provider whose object cannot be read: nobody knows whether its former declaration still holds."""
        name = seen.metadata.name
        log.error("object_unreadable", kind=TRAFFIC_PROVIDER.kind, name=name, why=seen.why)
        self._entries.pop(name, None)
        self._due_s.pop(name, None)
        self._providers.lacks(name, f"the controller cannot read it: {seen.why}; make it smaller")
        self._on_change(name)

    def _read(self, name: str, seen: TrafficProviderObject) -> None:
        """Reads a new generation."""
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
        """Records a verdict on the entry, and offers or withdraws its provider; `said` when the verdict is from its status."""
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
        """Tries an entry if that is due, and writes its status. Raises: nothing but cancellation."""
        try:
            if (
                entry.provider is not None
                and entry.try_at_s is not None
                and entry.try_at_s <= self._clock.monotonic_s()
            ):
                await self._try(name, entry, entry.provider)
            if self._entries.get(name) is entry and entry.judged is not None:  # otherwise a newer entry has replaced it
                await self._write_status(name, entry, entry.judged)
            if entry.try_at_s is not None:
                self._do(name, at_s=entry.try_at_s)
        except (ApiConflict, ApiNotFound):
            return  # it has changed, or is gone; the watch shows that
        except NotLeader:
            self._do(name, at_s=self._clock.monotonic_s() + UNAVAILABLE_AGAIN_S)
        except RolloutsError as exc:
            again_in_s = UNAVAILABLE_AGAIN_S if isinstance(exc, TransientError) else REFUSED_AGAIN_S
            log.warning("traffic_provider_status_not_written", name=name, why=str(exc), retry_in_s=again_in_s)
            self._do(name, at_s=self._clock.monotonic_s() + again_in_s)
        except Exception:  # a bug; the other providers are not affected
            log.exception("traffic_provider_crashed", name=name, retry_in_s=REFUSED_AGAIN_S)
            self._do(name, at_s=self._clock.monotonic_s() + REFUSED_AGAIN_S)

    async def _try(self, name: str, entry: _Entry, provider: Declared) -> None:
        judged = await tried(provider, _spec(entry.seen), api=self._api, client=self._client, namespace=self._namespace)
        if self._entries.get(name) is not entry:
            return
        entry.try_at_s = None if judged.again_in_s is None else self._clock.monotonic_s() + judged.again_in_s
        self._conclude(name, entry, judged)

    async def _write_status(self, name: str, entry: _Entry, judged: Judged) -> None:
        """Writes a new verdict once. Another installation may judge the same object differently, and the two must not fight."""
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
        """Schedules the entry for that monotonic time, or before."""
        self._due_s[name] = min(at_s, self._due_s.get(name, at_s))
        self._work.set()

    # Whether there are any TrafficProviders.

    async def _when_listed(self, table: Table[Any]) -> None:
        await table.synced.wait()
        self._told = False
        for name in [each for each in self._entries if table.get("", each) is None]:  # deleted while the watch was down
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
        for name in tuple(self._providers.missed):  # their Rollouts wait for this
            self._on_change(name)

    def _on_problem(self, kind: Kind, error: RolloutsError) -> None:
        if isinstance(error, ApiNotFound | ApiForbidden):
            raise _NoneHere(error)
        log.warning("watch_trouble", kind=kind.kind, error=type(error).__name__, why=str(error))

    def _tell_none(self, why: RolloutsError) -> None:
        if isinstance(why, ApiNotFound):  # the CRD is gone, and its objects with it
            for name in tuple(self._entries):
                self._gone(name)
        if not self._told:
            self._told = True
            remedy = (
                "rollouts crds | kubectl apply -f -"
                if isinstance(why, ApiNotFound)
                else "to use TrafficProviders, grant get, list and watch of trafficproviders.rollouts.dev in a ClusterRole"
            )
            log.info("no_traffic_providers", why=str(why), remedy=remedy)

    async def _wanted(self) -> None:
        """Returns when it is time to look again for TrafficProviders."""
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
    except RecursionError:  # then all its fields are missing, which is reported
        return {}
    return value if isinstance(value, dict) else {}

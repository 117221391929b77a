"""Elects the process that may write, through a Lease, on the monotonic clock.

The holder renews every 2 s. It may write for 10 s after the start of its last successful renewal (`holds`, the fence); others
may take over 15 s after they last saw it renew. The 5 s between are for ending the work. Clocks of different processes are never
compared: the times in the Lease are for people, and a change of them only means "alive".

A Lease alone does not keep a paused process from writing (client-go's leaderelection says so too). The fence of each `Request`,
which is asked as its bytes are sent, does, except for bytes that the kernel already has.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any

from rollouts.cluster.client import answer_of
from rollouts.cluster.decoding import manifest_from
from rollouts.errors import (
    ApiConflict,
    ApiExists,
    ApiNotFound,
    ApiUnavailable,
    NotLeader,
    RolloutsError,
    SettingsInvalid,
)
from rollouts.objects import LEASE, Manifest
from rollouts.ports import ApiServer, Clock, Request

RELEASE_DEADLINE_S = 2.0


class Elector:
    """Takes part in the election of one leader. Give it a connection of its own, so that no other request can delay it."""

    def __init__(  # noqa: PLR0913 - the election's numbers belong together
        self,
        api: ApiServer,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        rng: random.Random | None = None,
        lease_duration_s: float = 15.0,
        renew_deadline_s: float = 10.0,
        retry_period_s: float = 2.0,
        on_trouble: Callable[[RolloutsError], None] | None = None,
    ) -> None:
        """Sends nothing yet.

        Args:
            identity: unique to this process, not only to this pod: a restarted process must differ from the one before.
            lease_duration_s: how long others wait after the last renewal; whole seconds on the wire, rounded up.
            renew_deadline_s: how long we may write after a renewal; the defaults are client-go's.
            on_trouble: called for every attempt that got no answer or a refusal.

        Raises: SettingsInvalid, when the times do not increase as they must.
        """
        if not 0 < retry_period_s < renew_deadline_s < lease_duration_s:
            raise SettingsInvalid(
                "the lease's times must increase: retry period, then renew deadline, then lease duration; they are "
                f"{retry_period_s:g}, {renew_deadline_s:g} and {lease_duration_s:g} s"
            )
        self._api = api
        self._path = (LEASE.path(namespace), LEASE.path(namespace, name))
        self._namespace, self._name = namespace, name
        self._identity = identity
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._lease_duration_s = lease_duration_s
        self._renew_deadline_s = renew_deadline_s
        self._retry_period_s = retry_period_s
        self._on_trouble = on_trouble
        self._renewed_at_s: float | None = None
        self._lease: Manifest | None = None  # as last seen; written back as a whole
        # When a renewal of another holder was first seen, on our own clock.
        self._seen: tuple[tuple[Any, ...] | None, float] = (None, 0.0)

    def holds(self) -> bool:
        """The fence: whether a write may be sent now."""
        return self._left_s() > 0

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Waits for the lease, runs `lead` while it is held, and returns when it was lost or `lead` has ended.

        When it returns or raises, `lead` has ended, and the process should exit, because its state is from the time when it led.
        A cancellation ends `lead`, releases the lease, so that a standby need not wait, and then continues.

        Raises: what `lead` raises; NotLeader, when `lead` did not end within the lease: then the process must exit at once.
        """
        # A warm standby notices a release within the retry period.
        while True:
            if await self._attempt(self._renew_deadline_s / 2) is _Outcome.HELD and self.holds():
                break
            await asyncio.sleep(self._retry_period_s * (1 + 0.2 * self._rng.random()))
        work = asyncio.ensure_future(lead())
        try:
            await self._keep(work)
        finally:
            # Others may take over when the lease ends, so the work must end before; the lease is released after that.
            await self._end(work)
        if not work.cancelled():
            work.result()

    async def _keep(self, work: asyncio.Future[None]) -> None:
        """Renews until the work has ended or the lease is lost."""
        while (left_s := self._left_s()) > 0:
            await asyncio.wait({work}, timeout=min(self._retry_period_s, left_s))
            if work.done() or (left_s := self._left_s()) <= 0:
                return
            if await self._attempt(min(left_s, self._renew_deadline_s / 2)) is _Outcome.HELD_BY_ANOTHER:
                self._renewed_at_s = None
                return

    async def _end(self, work: asyncio.Future[None]) -> None:
        lease_left_s = self._left_s() + self._lease_duration_s - self._renew_deadline_s
        if not work.done():
            work.cancel()
            # When the lease is already lost, the fence is closed, and the work still gets a moment for an orderly end.
            await asyncio.wait({work}, timeout=max(self._retry_period_s, lease_left_s))
        held = self.holds()
        self._renewed_at_s = None
        if not work.done():
            raise NotLeader("the leader's work did not end within the lease: this process must exit at once")
        if held and self._lease is not None:
            spec = self._lease["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
            try:
                await self._send("PUT", self._path[1], self._lease | {"spec": spec}, RELEASE_DEADLINE_S)
            except RolloutsError as exc:  # a courtesy: without it the standby waits until the lease expires
                self._report(exc)

    async def _attempt(self, deadline_s: float) -> _Outcome:
        """One try to take or renew the lease; the deadline is for all its requests together."""
        try:
            async with asyncio.timeout(deadline_s):
                return await self._take_or_renew(deadline_s)
        except TimeoutError:
            self._lease = None
            self._report(ApiUnavailable(f"no answer about the lease within {deadline_s:g} s"))
        except RolloutsError as exc:
            self._lease = None  # the next read shows whether our write took effect
            self._report(exc)
        return _Outcome.UNKNOWN

    async def _take_or_renew(self, deadline_s: float) -> _Outcome:
        # A holder knows the resourceVersion, so that one request renews.
        if self.holds() and self._lease is not None and await self._take(self._lease, deadline_s):
            return _Outcome.HELD
        lease: Manifest | None = None
        with suppress(ApiNotFound):
            lease = await self._send("GET", self._path[1], None, deadline_s)
        if lease is not None and self._held_by_another(lease):
            return _Outcome.HELD_BY_ANOTHER
        return _Outcome.HELD if await self._take(lease, deadline_s) else _Outcome.UNKNOWN

    async def _take(self, lease: Manifest | None, deadline_s: float) -> bool:
        """Writes us as the holder into the lease as it was seen; False when somebody was faster or has deleted it."""
        began_s = self._clock.monotonic_s()
        try:
            self._lease = await self._write(lease, deadline_s)
        except (ApiConflict, ApiExists, ApiNotFound) as exc:
            self._lease = None
            self._report(exc)
            return False
        self._renewed_at_s = began_s  # the time before the request: others may have seen the renewal that early
        return True

    def _held_by_another(self, lease: Manifest) -> bool:
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if not holder or holder == self._identity:
            return False
        if self.holds():
            return True
        record = (holder, spec.get("renewTime"), spec.get("leaseTransitions"))
        now_s = self._clock.monotonic_s()
        if record != self._seen[0]:
            self._seen = (record, now_s)
        duration_s = spec.get("leaseDurationSeconds") or self._lease_duration_s
        return now_s < self._seen[1] + float(duration_s)

    async def _write(self, lease: Manifest | None, deadline_s: float) -> Manifest:
        now = self._now()
        old = (lease or {}).get("spec") or {}
        mine = old.get("holderIdentity") == self._identity
        spec = old | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._lease_duration_s),
            "acquireTime": old.get("acquireTime", now) if mine else now,
            "renewTime": now,
            "leaseTransitions": (old.get("leaseTransitions") or 0) + (0 if mine or lease is None else 1),
        }
        if lease is not None:
            return await self._send("PUT", self._path[1], lease | {"spec": spec}, deadline_s)
        metadata = {"namespace": self._namespace, "name": self._name}
        manifest = {**LEASE.head, "metadata": metadata, "spec": spec}
        return await self._send("POST", self._path[0], manifest, deadline_s)

    async def _send(self, method: str, path: str, body: Manifest | None, deadline_s: float) -> Manifest:
        request = Request(method, path, {}, b"" if body is None else json.dumps(body).encode())
        answer = answer_of(request, await self._api.request(request, deadline_s=deadline_s))
        try:
            lease: Any = manifest_from(answer)
            lease["metadata"]["resourceVersion"]
        except (ValueError, KeyError, TypeError) as exc:
            raise ApiUnavailable(f"{method} {path}: the answer is not a Lease: {answer[:80]!r}") from exc
        return dict(lease)

    def _left_s(self) -> float:
        """Seconds for which we may still write; negative when the time has passed."""
        if self._renewed_at_s is None:
            return -self._renew_deadline_s
        return self._renewed_at_s + self._renew_deadline_s - self._clock.monotonic_s()

    def _now(self) -> str:
        """MicroTime, always UTC; for people to read."""
        return datetime.fromtimestamp(self._clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _report(self, exc: RolloutsError) -> None:
        if self._on_trouble is not None:
            self._on_trouble(exc)


class _Outcome(Enum):
    HELD = auto()
    HELD_BY_ANOTHER = auto()
    UNKNOWN = auto()

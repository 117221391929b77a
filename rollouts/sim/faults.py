"""Scripted faults between a client and an API server: decorators of `ports.ApiServer`.

A `FaultTape` says which requests fail and how; a `Faulty` server makes them fail. Another decorator, `FaultyWatches`, has the
faults of watches. All other requests pass unchanged, so decorators can be combined, and an empty tape changes nothing.
Catalogue of the faults and of the outages behind them: Sieve (OSDI 2022), etcd robustness tests.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping
from typing import TypeAlias, assert_never

import msgspec
from msgspec import Struct

from rollouts.errors import ApiUnavailable
from rollouts.ports import ApiServer, Request, Response, WatchStream
from rollouts.sim.apiserver.watches import INITIAL_EVENTS_END, RefusedWatch
from rollouts.sim.storage.refusals import Refused

WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))


class Crashed(BaseException):
    """The process under test ends here. It is no Exception, so that nothing catches and retries it."""


class CrashBefore(Struct, frozen=True):
    """The process ends before the request is sent."""


class CrashAfter(Struct, frozen=True):
    """The request takes effect, but the process ends before it gets the answer."""


class DropRequest(Struct, frozen=True):
    """The request is lost: it has no effect, and the client gets ApiUnavailable."""


class DropReply(Struct, frozen=True):
    """The request takes effect, but the client gets ApiUnavailable."""


class Conflict(Struct, frozen=True):
    """409 Conflict; the request has no effect."""


class Throttle(Struct, frozen=True):
    """429; the request has no effect. With `retry_after_s` None there is no Retry-After."""

    retry_after_s: float | None = 1.0


class Unavailable(Struct, frozen=True):
    """A 5xx; the request has no effect."""

    status: int = 503


class Slow(Struct, frozen=True):
    """The request takes effect; the answer is `delay_s` loop seconds late, or the client gets ApiUnavailable at its deadline."""

    delay_s: float


Fault: TypeAlias = CrashBefore | CrashAfter | DropRequest | DropReply | Conflict | Throttle | Unavailable | Slow


class FaultTape:
    """The faults of writes, but not of Leases and Events, by the numbers of the requests, from 0."""

    def __init__(self, faults: Mapping[int, Fault]) -> None:
        self._faults = dict(faults)
        self.seen = 0
        """How many requests have been numbered so far."""

    def next_fault(self, request: Request) -> Fault | None:
        """Returns the fault of this request, and advances the tape."""
        if not is_rollout_write(request):
            return None
        number, self.seen = self.seen, self.seen + 1
        return self._faults.get(number)


def is_rollout_write(request: Request) -> bool:
    """Whether a request is a write whose loss matters: not of a Lease or an Event, and no dry run."""
    others = any(word in request.path for word in ("/leases", "/events"))
    return request.method in WRITES and not others and "dryRun" not in request.query


class Faulty:
    """An `ApiServer` whose requests have the faults of a tape.

    After a crash every further request crashes too, because a dead process sends nothing.
    """

    def __init__(self, api: ApiServer, tape: FaultTape) -> None:
        self._api = api
        self._tape = tape
        self._dead = False

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """Carries out the request, or its fault. Raises: ApiUnavailable, Crashed."""
        if self._dead:
            raise Crashed
        fault = self._tape.next_fault(request)
        match fault:
            case None:
                return await self._api.request(request, deadline_s=deadline_s)
            case CrashBefore():
                self._dead = True
                raise Crashed
            case CrashAfter():
                await self._api.request(request, deadline_s=deadline_s)
                self._dead = True
                raise Crashed
            case DropRequest():
                raise ApiUnavailable("the request was lost")
            case DropReply():
                await self._api.request(request, deadline_s=deadline_s)
                raise ApiUnavailable("the answer was lost")
            case Conflict():
                return _refusal(
                    Refused(409, "Conflict", "the object has been modified; please apply your changes again")
                )
            case Throttle(retry_after_s):
                return _refusal(Refused(429, "TooManyRequests", "too many requests"), retry_after_s)
            case Unavailable(status):
                return _refusal(Refused(status, "ServiceUnavailable", "the server is currently unable to handle it"))
            case Slow(delay_s):
                response = await self._api.request(request, deadline_s=deadline_s)
                await asyncio.sleep(min(delay_s, deadline_s))
                if delay_s >= deadline_s:
                    raise ApiUnavailable(f"no answer within {deadline_s:g} s")
                return response
            case _:
                assert_never(fault)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """Opens a watch. Raises: Crashed after a crash."""
        if self._dead:
            raise Crashed
        return await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """Leaves the server open: it belongs to the cluster, not to the process under test."""


class WatchFaults(Struct, frozen=True, kw_only=True):
    """The faults of watches and lists; by default there are none.

    Args:
        delay_s: shortest and longest time that passes before the next event of a watch is read.
        lag_s: how late each event of a kind comes, by the kind's plural; other kinds, and what a watch begins with, are in time.
        drop: share of MODIFIED events that are lost, 0..1. Others are not lost: only a relist would show a lost deletion.
        duplicate: share of events that come twice, 0..1.
        break_after: a watch ends with a broken connection after this many events; None for never.
        stale_lists: probability, 0..1, that a list repeats the last answer to the same request, as a cache that lags does; the
            answer is never older than the request allows.
        streaming_lists: whether the server supports them; without them lists come in pages, which `stale_lists` affects.
    """

    delay_s: tuple[float, float] = (0.0, 0.0)
    lag_s: Mapping[str, float] = {}
    drop: float = 0.0
    duplicate: float = 0.0
    break_after: int | None = None
    stale_lists: float = 0.0
    streaming_lists: bool = True


class FaultyWatches:
    """An `ApiServer` whose watches and lists have `faults`, drawn from `rng`.

    `faults` may be set while it runs; open watches then have the new faults.
    """

    def __init__(self, api: ApiServer, faults: WatchFaults, rng: random.Random) -> None:
        self._api = api
        self.faults = faults
        self._rng = rng
        self._lists: dict[tuple[str, str, str], tuple[int, Response]] = {}

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """Carries out the request; the answer to a list may be an old one."""
        if request.method != "GET":
            return await self._api.request(request, deadline_s=deadline_s)
        query = dict(request.query)
        not_older_than = int(query.pop("resourceVersion", "0"))
        query.pop("resourceVersionMatch", None)
        key = (request.path, repr(sorted(query.items())), request.accept)
        version, last = self._lists.get(key, (-1, Response(0, b"")))
        if version >= not_older_than and self._rng.random() < self.faults.stale_lists:
            return last
        response = await self._api.request(request, deadline_s=deadline_s)
        listed = b'List","apiVersion"' in response.body[:120] and b'"APIResourceList"' not in response.body[:120]
        if response.status == 200 and listed:
            self._lists[key] = (int(msgspec.json.decode(response.body)["metadata"]["resourceVersion"]), response)
        return response

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """Opens a watch with faults."""
        if not self.faults.streaming_lists and "sendInitialEvents" in request.query:
            return RefusedWatch(Refused(400, "BadRequest", "sendInitialEvents is not known here"))
        stream = await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        if lag_s := self.faults.lag_s.get(request.path.rpartition("/")[2], 0.0):
            stream = _LateWatch(stream, lag_s, begins="sendInitialEvents" in request.query)
        return _LyingWatch(stream, self, self._rng)

    async def aclose(self) -> None:
        """Closes the server behind it."""
        await self._api.aclose()


class _LateWatch:
    """A watch whose lines come `lag_s` after they were sent, in their order; objects that it `begins` with come at once."""

    def __init__(self, stream: WatchStream, lag_s: float, *, begins: bool) -> None:
        self.status = stream.status
        self._begins = begins
        self._stream = stream
        self._lag_s = lag_s
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[tuple[float, bytes | ApiUnavailable]] = asyncio.Queue()
        self._reader = self._loop.create_task(self._read())

    async def _read(self) -> None:
        line: bytes | ApiUnavailable = b"."
        while line and isinstance(line, bytes):
            try:
                line = await self._stream.readline()
            except ApiUnavailable as silence:
                line = silence
            lag_s = 0.0 if self._begins else self._lag_s
            self._begins = self._begins and not (isinstance(line, bytes) and INITIAL_EVENTS_END.encode() in line)
            self._lines.put_nowait((self._loop.time() + lag_s, line))

    async def readline(self) -> bytes:
        at_s, line = await self._lines.get()
        await asyncio.sleep(max(0.0, at_s - self._loop.time()))
        if isinstance(line, bytes):
            return line
        raise line

    async def aclose(self) -> None:
        self._reader.cancel()
        await self._stream.aclose()


class _LyingWatch:
    def __init__(self, stream: WatchStream, source: FaultyWatches, rng: random.Random) -> None:
        self.status = stream.status
        self._stream = stream
        self._source = source
        self._rng = rng
        self._again: deque[bytes] = deque()
        self._events = 0

    async def readline(self) -> bytes:
        if self._again:
            return self._again.popleft()
        while True:
            faults = self._source.faults
            if faults.break_after is not None and self._events >= faults.break_after:
                await self._stream.aclose()
                raise ApiUnavailable("the connection was reset")
            line = await self._stream.readline()
            if not line:
                return line
            self._events += 1
            longest_s = faults.delay_s[1]
            if longest_s:
                await asyncio.sleep(self._rng.uniform(*faults.delay_s))
            if line.startswith(b'{"type":"MODIFIED"') and self._rng.random() < faults.drop:
                continue
            if self._rng.random() < faults.duplicate:
                self._again.append(line)
            return line

    async def aclose(self) -> None:
        await self._stream.aclose()


def _refusal(refused: Refused, retry_after_s: float | None = None) -> Response:
    return Response(refused.code, msgspec.json.encode(refused.status()), retry_after_s)

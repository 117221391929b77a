"""Faults between a client and an API server, from a script: decorators over `ports.ApiServer`.

A `FaultTape` says which requests fail and how; a `Faulty` server carries it out. Watch faults are a second decorator,
`FaultyWatches`. Everything else goes through untouched, so they can be stacked, and a tape that is empty changes nothing.
Catalogue of the faults and of the outages behind them: Sieve (OSDI 2022), etcd robustness tests.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import msgspec

from rollouts.errors import ApiUnavailable
from rollouts.ports import ApiServer, Request, Response, WatchStream
from rollouts.sim.apiserver.watches import RefusedWatch
from rollouts.sim.storage.refusals import Refused

WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))


class Crashed(BaseException):
    """The process under test ends here: nothing after this point runs. Not an Exception, so that nothing retries it."""


@dataclass(frozen=True, slots=True)
class CrashBefore:
    """The process ends before the request is sent."""


@dataclass(frozen=True, slots=True)
class CrashAfter:
    """The request takes effect, the process ends before it sees the answer."""


@dataclass(frozen=True, slots=True)
class DropRequest:
    """The request is lost on its way: no effect, the client sees ApiUnavailable."""


@dataclass(frozen=True, slots=True)
class DropReply:
    """The request takes effect, the client sees ApiUnavailable."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """409 Conflict, no effect."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """429, no effect; `retry_after_s` None leaves Retry-After out."""

    retry_after_s: float | None = 1.0


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A 5xx without effect."""

    status: int = 503


@dataclass(frozen=True, slots=True)
class Slow:
    """The answer comes `delay_s` loop seconds late, or never within the deadline: then ApiUnavailable, with effect."""

    delay_s: float


Fault: TypeAlias = CrashBefore | CrashAfter | DropRequest | DropReply | Conflict | Throttle | Unavailable | Slow


class FaultTape:
    """Which request meets which fault, by number.

    Args:
        faults: by the number of the request among those that `counts`, from 0.
        counts: which requests are numbered; writes other than Leases and Events by default.
    """

    def __init__(self, faults: Mapping[int, Fault], *, counts: Callable[[Request], bool] | None = None) -> None:
        self._faults = dict(faults)
        self._counts = counts or is_rollout_write
        self.seen = 0
        """How many requests have been numbered so far."""

    @classmethod
    def drawn(cls, rng: random.Random, *, faults: Iterable[Fault], length: int, share: float) -> FaultTape:
        """A tape by chance: each of the first `length` writes meets a fault with probability `share`, 0..1."""
        choices = tuple(faults)
        return cls({number: rng.choice(choices) for number in range(length) if rng.random() < share})

    def next_fault(self, request: Request) -> Fault | None:
        """The fault of this request; advances the tape."""
        if not self._counts(request):
            return None
        number, self.seen = self.seen, self.seen + 1
        return self._faults.get(number)


def is_rollout_write(request: Request) -> bool:
    """A write whose loss matters: no Lease, no Event, no dry run."""
    others = any(word in request.path for word in ("/leases", "/events"))
    return request.method in WRITES and not others and "dryRun" not in request.query


class Faulty:
    """An `ApiServer` whose requests meet the faults of a tape.

    After a crash every further request crashes too: a dead process sends nothing.
    """

    def __init__(self, api: ApiServer, tape: FaultTape) -> None:
        self._api = api
        self._tape = tape
        self._dead = False

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """The request, or its fault. Raises: ApiUnavailable, Crashed."""
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
        """A watch; a dead process opens none."""
        if self._dead:
            raise Crashed
        return await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """Leaves the server open: it belongs to the cluster, not to the process under test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFaults:
    """How watches and lists lie; all off by default.

    Args:
        delay_s: shortest and longest delay of an event; order within a watch is kept.
        drop: share of MODIFIED events that are lost, 0..1. Others are kept: a lost deletion needs a relist to be noticed.
        duplicate: share of events that come twice, 0..1.
        break_after: a watch ends with a broken connection after this many events; None for never.
        stale_lists: a list repeats the answer of the last one like it with this probability, 0..1, as a cache that lags
            behind does; never one that is older than the list asks for.
        streaming_lists: whether the server has them; without them lists come in pages, which `stale_lists` is about.
    """

    delay_s: tuple[float, float] = (0.0, 0.0)
    drop: float = 0.0
    duplicate: float = 0.0
    break_after: int | None = None
    stale_lists: float = 0.0
    streaming_lists: bool = True


class FaultyWatches:
    """An `ApiServer` whose watches and lists lie as `faults` say, decided by `rng`.

    `faults` may be set while it runs, to end the trouble or begin another one; open watches follow.
    """

    def __init__(self, api: ApiServer, faults: WatchFaults, rng: random.Random) -> None:
        self._api = api
        self.faults = faults
        self._rng = rng
        self._lists: dict[tuple[str, str], tuple[int, Response]] = {}

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """The request; a list may be an old one."""
        if request.method != "GET":
            return await self._api.request(request, deadline_s=deadline_s)
        query = dict(request.query)
        not_older_than = int(query.pop("resourceVersion", "0"))
        query.pop("resourceVersionMatch", None)
        key = (request.path, repr(sorted(query.items())))
        version, last = self._lists.get(key, (-1, Response(0, b"")))
        if version >= not_older_than and self._rng.random() < self.faults.stale_lists:
            return last
        response = await self._api.request(request, deadline_s=deadline_s)
        listed = b'List","apiVersion"' in response.body[:120] and b'"APIResourceList"' not in response.body[:120]
        if response.status == 200 and listed:
            self._lists[key] = (int(msgspec.json.decode(response.body)["metadata"]["resourceVersion"]), response)
        return response

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """A watch that lies."""
        if not self.faults.streaming_lists and "sendInitialEvents" in request.query:
            return RefusedWatch(Refused(400, "BadRequest", "sendInitialEvents is not known here"))
        stream = await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        return _LyingWatch(stream, self, self._rng)

    async def aclose(self) -> None:
        """Closes the server behind."""
        await self._api.aclose()


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

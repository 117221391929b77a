"""Calls pure functions in another process, one at a time, each with a limit of CPU time and memory.

Expected flow: the process starts with the first call. The kernel ends a call that reaches its limit, and the next one finds a new
child of a parent that has imported everything.

Guarantees: no call runs on the event loop, whatever the function does; tenants take turns.

Assumptions: arguments and results can be pickled, and the function is one of a module.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeVar, TypeVarTuple, Unpack, cast

import structlog

from rollouts.bounded.child import ANSWERED, ENDED, HEAD_BYTES, RAISED, READY
from rollouts.errors import CallEnded
from rollouts.ports import Clock

CPU_S = 0.1
"""For one call, ten times what `expression_cost.UNITS_MAX` allows."""
MEMORY_BYTES = 256 << 20
ANSWER_S = 10.0
"""For an answer in real time; on a machine without a free core 0.1 s of CPU may take seconds."""
START_S = 120.0
"""For the start of the process in real time: its imports take a second of CPU, which a small `limits.cpu` stretches."""
RESTS = 9
"""After a turn a tenant waits for so many times its length, so it has at most a tenth of a core."""

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

log = structlog.get_logger()


class BoundedProcess:
    """Implements `ports.BoundedCalls`.

    Args:
        imports: modules that the process imports before it answers: those of the functions, and what these import later.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        imports: tuple[str, ...] = (),
        cpu_s: float = CPU_S,
        memory_bytes: int = MEMORY_BYTES,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._arguments = (str(cpu_s), str(memory_bytes), *imports)
        self._cpu_s = cpu_s
        self._answer_s = answer_s
        self._turns = Turns(monotonic_s=clock.monotonic_s)
        self._connection: socket.socket | None = None
        self._ready: asyncio.Task[None] | None = None  # of the process behind the connection
        self._started: list[subprocess.Popen[bytes]] = []  # those that have not ended

    async def call(
        self, function: Callable[[Unpack[_Arguments]], _Result], *arguments: *_Arguments, tenant: str
    ) -> _Result:
        """See `ports.BoundedCalls`. Cancellation: safe; it costs the process, if the call has begun."""
        async with self._turns.turn(tenant):
            answer = await self._asked(pickle.dumps((function, arguments), pickle.HIGHEST_PROTOCOL))
        kind, value = answer[:1], answer[1:]
        if kind == ENDED:
            log.warning("call_ended", namespace=tenant, function=function.__name__, cpu_s=self._cpu_s)
            raise CallEnded(
                f"it took more than {self._cpu_s * 1000:g} ms of CPU time, or too much memory, and was ended"
            )
        found = pickle.loads(value)  # noqa: S301 - of the process that this one started
        if kind == RAISED:
            raise found
        assert kind == ANSWERED  # noqa: S101 - there are no others
        return cast(_Result, found)

    async def aclose(self) -> None:
        """Ends the process; safe to call twice."""
        self._end()
        for process in self._started:
            await asyncio.to_thread(process.wait)

    async def _begun(self) -> socket.socket:
        """The connection to a process that has imported everything. A call that waits no longer leaves the start to the next."""
        connection = self._connection or self._start()
        if self._ready is None:
            self._ready = asyncio.create_task(_until_ready(connection))
        try:
            await asyncio.shield(self._ready)
        except (TimeoutError, OSError) as error:
            self._end()
            raise CallEnded(f"the process that evaluates it has not started ({type(error).__name__})") from error
        return connection

    async def _asked(self, request: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        connection = await self._begun()
        whole = False
        try:
            async with asyncio.timeout(self._answer_s):
                await loop.sock_sendall(connection, len(request).to_bytes(HEAD_BYTES) + request)
                answer = await _read(connection, int.from_bytes(await _read(connection, HEAD_BYTES)))
            whole = True
        except (TimeoutError, OSError) as error:
            raise CallEnded(f"the process that evaluates it has not answered ({type(error).__name__})") from error
        finally:
            if not whole:  # also when cancelled: its answer would be taken for that of the next call
                self._end()
        return answer

    def _start(self) -> socket.socket:
        self._started = [process for process in self._started if process.poll() is None]
        self._connection, theirs = socket.socketpair()
        self._connection.setblocking(False)
        isolated = ("-I",) if sys.flags.isolated else ()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - this Python, and constants
                [sys.executable, *isolated, "-m", "rollouts.bounded.child", *self._arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the process that asks
            )
        self._started.append(process)
        return self._connection

    def _end(self) -> None:
        """Closes the connection, and so ends the process: at once, or when what it does has reached its limit."""
        if self._ready is not None:
            self._ready.cancel()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._ready = None


class Turns:
    """Turns at one thing that serves one at a time: tenants take turns, and none gets more than its part of the time."""

    def __init__(self, *, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # the tenant that was served last is the last one
        self._rests_until_s: dict[str, float] = {}
        self._taken = False
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        """A turn of the tenant's. Cancellation: safe."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(mine)
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._over()
            raise
        began_s = self._monotonic_s()
        try:
            yield
        finally:
            now_s = self._monotonic_s()
            self._rests_until_s[tenant] = now_s + RESTS * (now_s - began_s)
            self._over()

    def _over(self) -> None:
        self._taken = False
        self._next()

    def _next(self) -> None:
        """Gives the turn to the first tenant that does not rest; looks again when the first has rested."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_s = self._monotonic_s()
        self._rests_until_s = {tenant: until_s for tenant, until_s in self._rests_until_s.items() if until_s > now_s}
        if self._taken:
            return
        for tenant in [tenant for tenant in self._waiting if tenant not in self._rests_until_s]:
            line = self._waiting.pop(tenant)
            while line and line[0].done():  # cancelled
                line.popleft()
            if line:
                self._taken = True
                line.popleft().set_result(None)
                if line:
                    self._waiting[tenant] = line
                return
        if self._waiting:
            wait_s = min(self._rests_until_s[tenant] for tenant in self._waiting) - now_s
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._next)


async def _until_ready(connection: socket.socket) -> None:
    async with asyncio.timeout(START_S):
        await _read(connection, len(READY))


async def _read(connection: socket.socket, count: int) -> bytes:
    """So many bytes. Raises: ConnectionError when the other side has closed the connection."""
    loop = asyncio.get_running_loop()
    read = bytearray()
    while len(read) < count:
        some = await loop.sock_recv(connection, count - len(read))
        if not some:
            raise ConnectionError("it has ended")
        read += some
    return bytes(read)

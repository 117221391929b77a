"""The work queue: which Rollout gets the next pass. One entry for each key, one worker at a time on a key, fair to namespaces.

Namespaces that have a ready key take turns, and within a namespace keys are first in, first out. A namespace may hold up to twice
as many workers as are free, so one with slow passes (an admission webhook that takes 10 s) never holds them all: of 32 workers,
the first such namespace gets 22, the next ones keep to the same proportion, and a worker stays free. This is the dynamic
threshold of Choudhury and Hahne (IEEE/ACM ToN 6:2, 1998), which needs no setting: a single namespace still gets two thirds.

The queue knows nothing of Rollouts. It is single-threaded: call every method on the event loop that `take` runs on.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import OrderedDict, deque

from rollouts.objects import Key
from rollouts.ports import Clock

BACKOFF_FIRST_S = 0.05
BACKOFF_MAX_S = 30.0
SHARE_OF_FREE = 2  # workers that a namespace may hold for each one that is free


class WorkQueue:
    """Keys that need a pass, now or at a given time.

    Guarantees: a key added during its pass is handed out again after `done`; a key added many times while it waits is handed out
    once; no key overtakes another of its namespace that became ready before it; every operation is O(1), except that `take` skips
    the namespaces that hold their share, which are fewer than the workers.
    """

    def __init__(self, *, clock: Clock, rng: random.Random, workers: int) -> None:
        self._clock = clock
        self._rng = rng
        self._workers = workers
        self._ready: OrderedDict[str, deque[Key]] = OrderedDict()  # by namespace, in the order of turns; none is empty
        self._waiting: set[Key] = set()  # all keys in _ready
        self._held: dict[str, int] = {}  # active keys by namespace
        self._active: set[Key] = set()
        self._again: set[Key] = set()  # added while active
        self._due_s: dict[Key, float] = {}  # monotonic; earliest wins
        self._held_until_s: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._heap: list[tuple[float, str, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """Keys that are ready and wait for a worker."""
        return len(self._waiting)

    @property
    def active(self) -> int:
        """Keys that are being worked on."""
        return len(self._active)

    def add(self, key: Key) -> None:
        """Requests a pass as soon as a worker is free, but not during a hold of `failed`."""
        held_until_s = self._held_until_s.get(key, 0.0)
        if held_until_s > self._clock.monotonic_s():
            self.add_at(key, held_until_s)
        elif key in self._active:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.setdefault(key.namespace, deque()).append(key)
            self._wake_one()

    def add_at(self, key: Key, monotonic_s: float) -> None:
        """Requests a pass at `monotonic_s`, unless an earlier one was requested; `take` forgets the time."""
        if self._due_s.get(key, float("inf")) <= monotonic_s:
            return
        self._due_s[key] = monotonic_s
        heapq.heappush(self._heap, (monotonic_s, key.namespace, key.name))
        self._set_timer()

    async def take(self) -> Key | None:
        """The next key, marked as active; None once the queue is closed.

        It forgets a time set for the key: the pass that begins says when the next one is due.
        Cancellation: safe; no key is lost.
        """
        while not self._closed:
            if (key := self._next()) is not None:
                self._waiting.discard(key)
                self._active.add(key)
                self._held[key.namespace] = self._held.get(key.namespace, 0) + 1
                self._due_s.pop(key, None)
                if self._ready:
                    self._wake_one()
                return key
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()  # passes our wake-up on to another worker
                elif taker in self._takers:
                    self._takers.remove(taker)
                raise
        return None

    def done(self, key: Key) -> None:
        """Notes that the pass is over, and queues the key again if it was added meanwhile."""
        self._active.discard(key)
        self._held[key.namespace] -= 1
        if not self._held[key.namespace]:
            del self._held[key.namespace]
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        if self._ready:
            self._wake_one()  # for a namespace that held its share until now

    def succeeded(self, key: Key) -> None:
        """Forgets the failures of `key`."""
        self._failures.pop(key, None)
        self._held_until_s.pop(key, None)

    def failed(self, key: Key, *, retry_in_s: float | None = None, hold_s: float = 0.0) -> float:
        """Requests another pass after a failure; returns in how many seconds.

        Args:
            retry_in_s: None for an exponential back-off with jitter, 0.05 s to 30 s by the number of failures in a row.
            hold_s: during this time not even an event causes a pass.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if retry_in_s is None:
            # Between half of it and all of it, so that keys that failed together do not return together.
            whole_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2 ** min(failures, 16))
            retry_in_s = whole_s * self._rng.uniform(0.5, 1.0)
        now_s = self._clock.monotonic_s()
        if hold_s > 0:
            self._held_until_s[key] = now_s + hold_s
        self.add_at(key, now_s + retry_in_s)
        return retry_in_s

    def forget(self, key: Key) -> None:
        """Drops times and failures of a key whose object is gone."""
        self.succeeded(key)
        self._due_s.pop(key, None)

    def close(self) -> None:
        """Hands out no more keys: every `take` returns None. Passes that have begun continue."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._takers:
            self._wake_one()

    def _next(self) -> Key | None:
        """The first key of the next namespace that may hold one more worker; then the next namespace has its turn."""
        free = max(1, self._workers - len(self._active))
        for _ in range(len(self._ready)):
            namespace, keys = self._ready.popitem(last=False)
            key = keys.popleft() if self._held.get(namespace, 0) < SHARE_OF_FREE * free else None
            if keys:
                self._ready[namespace] = keys
            if key is not None:
                return key
        return None

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _set_timer(self) -> None:
        while self._heap and self._due_s.get(Key(*self._heap[0][1:])) != self._heap[0][0]:
            heapq.heappop(self._heap)  # forgotten, or replaced by an earlier time
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap and not self._closed:
            delay_s = max(0.0, self._heap[0][0] - self._clock.monotonic_s())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        # Event loops round their timers, so a time within the next millisecond counts as due.
        now_s = self._clock.monotonic_s() + 0.001
        while self._heap and self._heap[0][0] <= now_s:
            due_s, namespace, name = heapq.heappop(self._heap)
            key = Key(namespace, name)
            if self._due_s.get(key) == due_s:
                del self._due_s[key]
                if self._held_until_s.get(key, 0.0) <= now_s:
                    self._held_until_s.pop(key, None)
                self.add(key)
        self._set_timer()

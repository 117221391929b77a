"""The base of all actors: a queue of keys to sync, now or later, one at a time, with the loop's timers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from msgspec import Struct

from rollouts.objects import Kind, Manifest
from rollouts.sim.apiserver.server import SimServer
from rollouts.sim.apiserver.verbs import Verbs, WriteOptions
from rollouts.sim.storage.history import CommittedWrite, ObjectHistory, ObjectKey, Stored
from rollouts.sim.storage.registry import Resource


class World(Struct, frozen=True):
    """What all actors share; `rng` is the only source of randomness, so that a seed decides everything."""

    server: SimServer
    loop: asyncio.AbstractEventLoop
    rng: random.Random

    @property
    def history(self) -> ObjectHistory:
        """The server's."""
        return self.server.history

    @property
    def verbs(self) -> Verbs:
        """The server's."""
        return self.server.verbs

    def resource(self, kind: Kind) -> Resource:
        """The served type of a kind."""
        return self.server.registry.of(kind)

    def now_s(self) -> float:
        """Wall clock of the server, seconds since 1970."""
        return self.server.verbs.clock.now_s()


class Actor:
    """Syncs a key `lag_s` after something about it has changed.

    A subclass sets its name, subscribes in `start` and does the work for one key in `sync`, without waiting. An exception there
    is not caught: it is a bug of the simulation, and the loop's exception handler gets it.
    """

    name = "actor"

    def __init__(self, world: World, *, lag_s: float) -> None:
        self.world = world
        self.lag_s = lag_s
        self.options = WriteOptions(manager=self.name)
        self._timers: dict[ObjectKey, asyncio.TimerHandle] = {}
        self._unlisten: list[Callable[[], None]] = []

    def start(self) -> None:
        """Subscribes to the objects that this actor reacts to, also to those that exist already."""
        raise NotImplementedError

    def stop(self) -> None:
        """Cancels all that it was about to do."""
        for unlisten in self._unlisten:
            unlisten()
        self._unlisten.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def sync(self, key: ObjectKey) -> None:
        """Does what is due for one key."""
        raise NotImplementedError

    def listen(self, kind: Kind | None, listener: Callable[[CommittedWrite], None]) -> None:
        """Calls `listener` for every object of a kind, or of all: existing objects as ADDED, then every change."""
        self._unlisten.append(self.world.history.follow(kind, listener))

    def write_status(self, kind: Kind, stored: Stored, status: Manifest) -> Stored:
        """Writes the status, unless it says so already; returns the object with it."""
        if status == stored.manifest.get("status"):
            return stored
        manifest = {**stored.manifest, "status": status}
        return self.world.verbs.update(self.world.resource(kind), stored, manifest, self.options, "status")

    def enqueue(self, key: ObjectKey, after_s: float | None = None) -> None:
        """Syncs a key in `after_s` seconds (None: the actor's lag), or earlier if it is due earlier already."""
        when = self.world.loop.time() + (self.lag_s if after_s is None else after_s)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = self.world.loop.call_at(when, self._fire, key)

    def _fire(self, key: ObjectKey) -> None:
        self._timers.pop(key, None)
        self.sync(key)

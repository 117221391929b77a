"""Objects of a cluster-scoped kind that an administrator declares: every controller reads them, the one that leads judges them.

The kind's CRD may be missing: it is looked for again only while one of its objects is missed. A declaration that was read still
holds while the right to see the kind is missing: an update that uses it goes on.
"""

from __future__ import annotations

import contextlib
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Generic, NoReturn, TypeVar

import structlog

from rollouts.cluster.client import Client
from rollouts.cluster.decoding import UnreadableObject, json_object
from rollouts.cluster.store import Table
from rollouts.cluster.structs import ProviderObject
from rollouts.controller.providers.verdicts import REFUSED_AGAIN_S, UNAVAILABLE_AGAIN_S, Judged, is_judged, status_of
from rollouts.controller.workqueue.optional_watch import OptionalWatch
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.controller.workqueue.runtime import reconcile_loop
from rollouts.errors import ApiConflict, ApiNotFound, Delays, NotLeader, RolloutsError
from rollouts.objects import Key, Kind, Manifest
from rollouts.ports import MERGE_PATCH, ApiServer, Clock

DELAYS = Delays(
    transient_s=UNAVAILABLE_AGAIN_S,
    forbidden_s=REFUSED_AGAIN_S,
    refused_s=REFUSED_AGAIN_S,
    crashed_s=REFUSED_AGAIN_S,
    crashed_hold_s=0.0,
)

log = structlog.get_logger()


@dataclass(slots=True)
class Declaration:
    """The current state of one object.

    Args:
        judged: None while it was not judged yet.
        judge_at_s: monotonic time of the next judgement; None to wait for a change.
        unsaid: whether the verdict is new since the status was written last.
    """

    seen: ProviderObject
    judged: Judged | None = None
    judge_at_s: float | None = 0.0
    unsaid: bool = False


_D = TypeVar("_D", bound=Declaration)


@dataclass(kw_only=True, eq=False)
class DeclaredKind(ABC, Generic[_D]):
    """Keeps a declaration for each object of a kind."""

    kind: ClassVar[Kind]
    api: ApiServer
    client: Client
    clock: Clock
    rng: random.Random
    _declarations: dict[str, _D] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._queue = WorkQueue(clock=self.clock, rng=self.rng, workers=1)
        self._watch = OptionalWatch(
            Table(self.kind, ProviderObject, clock=self.clock, labels=(), by_owner=False, scopes=("",)),
            api=self.api,
            rng=self.rng,
            on_change=self._changed,
            on_unreadable=self._unreadable,
            on_seen=partial(self._listed, served=True),
            on_unseen=partial(self._listed, served=False),
            is_missed=lambda: self._is_missed() or bool(self._declarations),
            keeps_what_was_seen=True,
        )

    async def watch(self) -> NoReturn:
        """Follows the cluster until cancelled. Raises: nothing on purpose."""
        await self._watch.run()

    async def judge(self) -> None:
        """Judges objects and writes their status while this controller leads. Cancellation: safe."""
        for name in self._declarations:
            self._queue.add(Key("", name))
        await reconcile_loop(self._queue, self._reconcile, on_error=self._on_error, delays=DELAYS)

    @abstractmethod
    def _read(self, name: str, seen: ProviderObject, before: _D | None) -> None:
        """Takes a new generation of an object."""

    @abstractmethod
    async def _judge(self, name: str, declaration: _D) -> None:
        """Judges a declaration whose time has come."""

    @abstractmethod
    def _withdraw(self, name: str, why: str) -> None:
        """Follows an object that is gone, or, if `why` says so, cannot be read: nobody knows whether it still holds then."""

    @abstractmethod
    def _listed(self, *, served: bool) -> None:
        """All objects are known, even if there are none. Called after the first list, and after one that can be read again."""

    @abstractmethod
    def _is_missed(self) -> bool:
        """Whether somebody has asked for an object that there is not, since the last list; called rarely."""

    def _seen_again(self, name: str, declaration: _D) -> None:
        """Follows a change of an object in the same generation."""

    def _changed(self, _kind: Kind, before: ProviderObject | None, after: ProviderObject | None) -> None:
        if after is None:
            self._gone((before or ProviderObject()).metadata.name, "")
            return
        name = after.metadata.name
        known = self._declarations.get(name)
        version = after.metadata.uid, after.metadata.generation
        if known is not None and (known.seen.metadata.uid, known.seen.metadata.generation) == version:
            known.seen = after
            self._seen_again(name, known)
        else:
            self._read(name, after, known)
        self._queue.add(Key("", name))

    def _unreadable(self, kind: Kind, seen: UnreadableObject) -> None:
        log.error("object_unreadable", kind=kind.kind, name=seen.metadata.name, why=seen.why)
        self._gone(seen.metadata.name, seen.why)

    def _gone(self, name: str, why: str) -> None:
        self._declarations.pop(name, None)
        self._queue.forget(Key("", name))
        self._withdraw(name, why)

    async def _reconcile(self, key: Key) -> None:
        """Judges an object if that is due, and writes its status. Raises: what a write raises."""
        declaration = self._declarations.get(key.name)
        if declaration is None:
            return
        if declaration.judge_at_s is not None and declaration.judge_at_s <= self.clock.monotonic_s():
            await self._judge(key.name, declaration)
        if self._declarations.get(key.name) is not declaration:
            return  # a newer one has replaced it
        if declaration.judge_at_s is not None:
            self._queue.add_at(key, declaration.judge_at_s)
        with contextlib.suppress(ApiConflict, ApiNotFound):  # it has changed, or is gone; the watch shows that
            await self._write_status(declaration)

    async def _write_status(self, declaration: _D) -> None:
        """Writes a new verdict once. Another installation may judge the same object differently, and the two must not fight."""
        metadata, judged = declaration.seen.metadata, declaration.judged
        if judged is None:
            return
        before = json_object(bytes(declaration.seen.status))
        wanted = status_of(judged, generation=metadata.generation, before=before, now_s=self.clock.now_s())
        if wanted != before and (declaration.unsaid or not is_judged(before, generation=metadata.generation)):
            body: Manifest = {
                "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
                "status": wanted,
            }
            await self.client.patch(self.kind, None, metadata.name, body, MERGE_PATCH, subresource="status")
        declaration.unsaid = False

    def _on_error(self, key: Key, error: Exception, retry_in_s: float) -> None:
        match error:
            case NotLeader():
                pass
            case RolloutsError():
                log.warning(
                    "provider_status_not_written",
                    kind=self.kind.kind,
                    name=key.name,
                    why=str(error),
                    retry_in_s=retry_in_s,
                )
            case _:  # a bug; the other providers are not affected
                log.exception("provider_crashed", kind=self.kind.kind, name=key.name, retry_in_s=retry_in_s)

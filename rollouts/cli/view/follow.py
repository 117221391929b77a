"""Follows the objects of a few collections: one list, then a watch, no polling.

The controller's store keeps only the fields that it decides by. People also want images, Events and whole manifests, so the
command line keeps the JSON of whole objects; a dashboard's list of thousands keeps a row of each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct, field

from rollouts.cli.view.session import Session
from rollouts.cluster.client import answer_of
from rollouts.cluster.decoding import manifest_from
from rollouts.errors import (
    ApiForbidden,
    ApiGone,
    ApiInvalid,
    ApiNotFound,
    ApiUnauthenticated,
    ApiUnavailable,
    TransientError,
)
from rollouts.objects import Kind, Manifest
from rollouts.ports import Request, Response

Kept = TypeVar("Kept")
KeptKey: TypeAlias = tuple[str, str]
"""Namespace, "" for none, and name."""

_PAGE = 500  # as kubectl
_SILENCE_S = 300.0  # bookmarks come about once a minute; without any the connection is dead
_WATCH_S = 600  # then the server ends the watch and we open the next one
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0


class Collection(Struct, frozen=True, kw_only=True):
    """The objects to follow. Optional ones that may not be read are left out without an error."""

    kind: Kind
    namespace: str | None
    query: Mapping[str, str] = field(default_factory=dict)
    optional: bool = False


def named(kind: Kind, namespace: str, name: str) -> Collection:
    """The collection of the one object of this name."""
    return Collection(kind=kind, namespace=namespace, query={"fieldSelector": f"metadata.name={name}"})


class KeptSnapshot(Generic[Kept]):
    """What is kept of the objects of one kind at one moment, by namespace and name. It never changes."""

    def __init__(self, objects: Mapping[KeptKey, Kept]) -> None:
        """`objects` belongs to the snapshot from now on."""
        self.objects = objects

    def after(self, key: KeptKey, kept: Kept | None) -> KeptSnapshot[Kept]:
        """The next one, in which one object is another, or None for deleted."""
        return KeptSnapshot(self.changed(key, kept))

    def changed(self, key: KeptKey, kept: Kept | None) -> dict[KeptKey, Kept]:
        """The objects of the next one."""
        objects = {**self.objects}
        if kept is None:
            objects.pop(key, None)
        else:
            objects[key] = kept
        return objects


class KeptObjects(Generic[Kept]):
    """What is kept of objects, as they are now. `changed` is set on every change; whoever waits for it clears it."""

    def __init__(
        self,
        keep: Callable[[Manifest], Kept],
        snapshot: Callable[[Mapping[KeptKey, Kept]], KeptSnapshot[Kept]] = KeptSnapshot,
    ) -> None:
        """`keep` is called once for each version of an object, which is not kept itself; `snapshot` with each new list."""
        self.changed = asyncio.Event()
        self._keep = keep
        self._snapshot = snapshot
        self._now: dict[Kind, KeptSnapshot[Kept]] = {}

    @property
    def now(self) -> frozenset[KeptSnapshot[Kept]]:
        """The present snapshots of all kinds."""
        return frozenset(self._now.values())

    def all(self, kind: Kind) -> tuple[Kept, ...]:
        """Those of a kind, sorted by namespace and name."""
        objects = self._now[kind].objects if kind in self._now else {}
        return tuple(objects[key] for key in sorted(objects))

    async def replace(self, kind: Kind, pages: AsyncIterator[tuple[Sequence[Manifest], str]]) -> str:
        """Takes a new list of a kind, of which only one page is there at a time. Returns its resourceVersion.

        Raises: what `pages` raises; then all is as it was.
        """
        objects: dict[KeptKey, Kept] = {}
        version = ""
        async for page, page_version in pages:
            objects |= {_key(thing): self._keep(thing) for thing in page}
            version = page_version
        self._now[kind] = self._snapshot(objects)
        self.changed.set()
        return version

    def put(self, kind: Kind, thing: Manifest, *, deleted: bool) -> None:
        """Takes one object that was changed or deleted."""
        before = self._now[kind] if kind in self._now else self._snapshot({})
        self._now[kind] = before.after(_key(thing), None if deleted else self._keep(thing))
        self.changed.set()


Followed: TypeAlias = KeptObjects[Manifest]
"""Whole objects."""


async def list_all(session: Session, collection: Collection) -> tuple[tuple[Manifest, ...], str]:
    """Every object of a collection, page by page, and the resourceVersion to watch from.

    Raises: what `Client` raises.
    """
    objects: list[Manifest] = []
    version = ""
    async for page, page_version in pages_of(session, collection):
        objects += page
        version = page_version
    return tuple(objects), version


async def pages_of(session: Session, collection: Collection) -> AsyncIterator[tuple[Sequence[Manifest], str]]:
    """The objects of a collection, page by page, each with the resourceVersion to watch from after the last.

    Raises: what `Client` raises.
    """
    query = {**collection.query, "limit": str(_PAGE)}
    while True:
        path = collection.kind.path(collection.namespace)
        request = Request("GET", path, query)
        answer = await session.api.request(request, deadline_s=session.request_timeout_s)
        page = manifest_from(answer_of(request, answer))
        # Items of a list come without apiVersion and kind, and `-o yaml` shall show whole objects.
        head = {"apiVersion": collection.kind.api_version, "kind": collection.kind.kind}
        metadata = page.get("metadata") or {}
        yield [head | thing for thing in page.get("items") or ()], metadata.get("resourceVersion", "")
        if not (token := metadata.get("continue")):
            return
        query["continue"] = token


@asynccontextmanager
async def following(session: Session, *collections: Collection) -> AsyncIterator[Followed]:
    """Lists the collections, then keeps them up to date for as long as the block lasts.

    Raises: at the start what `Client` raises; in the block the first error of a watch that cannot go on.
    """
    async with following_as(session, collections, keep=lambda thing: thing) as followed:
        yield followed


@asynccontextmanager
async def following_as(
    session: Session,
    collections: Iterable[Collection],
    *,
    keep: Callable[[Manifest], Kept],
    snapshot: Callable[[Mapping[KeptKey, Kept]], KeptSnapshot[Kept]] = KeptSnapshot,
) -> AsyncIterator[KeptObjects[Kept]]:
    """As `following`, for who needs little of many objects, or shares them: see `KeptObjects`.

    Raises: as `following`.
    """
    followed = KeptObjects(keep, snapshot)

    async def first_list(collection: Collection) -> str | None:
        try:
            return await followed.replace(collection.kind, pages_of(session, collection))
        except (ApiForbidden, ApiInvalid, ApiNotFound):
            if not collection.optional:
                raise
            return None

    collections = [*collections]
    versions = await asyncio.gather(*map(first_list, collections))
    with unwrapped():
        async with asyncio.TaskGroup() as tasks:
            watches = [
                tasks.create_task(_follow(session, followed, collection, version))
                for collection, version in zip(collections, versions, strict=True)
                if version is not None
            ]
            yield followed
            for watch in watches:
                watch.cancel()


@contextlib.contextmanager
def unwrapped() -> Iterator[None]:
    """Turns a group of one exception into that exception: callers sort errors by class."""
    try:
        yield
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from group


async def _follow(session: Session, followed: KeptObjects[Kept], collection: Collection, version: str) -> None:
    """Watches for ever. Lists again when the server no longer has our resourceVersion; waits longer after each failure."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            if not version:
                version = await followed.replace(collection.kind, pages_of(session, collection))
            version = await _watch(session, followed, collection, version)
            pause_s = _FIRST_PAUSE_S
        except ApiGone:
            version = ""
        except ApiUnauthenticated:
            raise  # a person has to log in again
        except TransientError:
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311  spreads load, keeps no secret
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _watch(session: Session, followed: KeptObjects[Kept], collection: Collection, version: str) -> str:
    """Reads one watch until it ends cleanly; returns the resourceVersion from which to go on."""
    query = {
        **collection.query,
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(_WATCH_S),
    }
    request = Request("GET", collection.kind.path(collection.namespace), query)
    stream = await session.api.open_watch(request, deadline_s=session.request_timeout_s, silence_s=_SILENCE_S)
    try:
        if stream.status != 200:
            answer_of(request, Response(stream.status, await stream.readline()))
        while text := await stream.readline():
            try:
                event = manifest_from(text)
            except ValueError as broken:
                raise ApiUnavailable(f"the watch of {collection.kind.plural} was cut off") from broken
            thing = event["object"]
            if event["type"] == "ERROR":
                answer_of(request, Response(thing.get("code", 500), json.dumps(thing).encode()))
            version = thing["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                followed.put(collection.kind, thing, deleted=event["type"] == "DELETED")
    finally:
        await stream.aclose()
    return version


def _key(thing: Manifest) -> KeptKey:
    return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]

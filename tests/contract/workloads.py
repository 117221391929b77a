"""What is done to a StatefulSet or a DaemonSet in a contract test, and what is seen of it then, on both API servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from rollouts.objects import CONTROLLER_REVISION, DAEMON_SET, POD, STATEFUL_SET, Kind, Manifest
from rollouts.ports import MERGE_PATCH
from rollouts.sim.storage.registry import NODE
from tests import build
from tests.contract.conversation import Conversation
from tests.patience import PATIENCE_S

NAME = "db"
MAX_INT32 = 2**31 - 1
BROKEN = 9
"""The version whose pods never become Ready, on either server."""


@dataclass(frozen=True)
class Deleted:
    """Pods that somebody deletes: ordinals of a StatefulSet, places of their nodes for a DaemonSet."""

    places: Sequence[int]


@dataclass(frozen=True)
class Replaced:
    """A PUT of the manifest as it was made, with a template of another version and nothing that was set since."""

    version: int


@dataclass(frozen=True)
class Forgotten:
    """The ControllerRevision of a version is deleted."""

    version: int


@dataclass(frozen=True)
class Orphaned:
    """The workload is deleted without its pods, and made again as it was, but for the version."""

    version: int = 1


class Joins:
    """One more node for a DaemonSet."""


Act: TypeAlias = Manifest | Deleted | Replaced | Orphaned | Forgotten | Joins
"""A merge patch of `spec`, or one of the above."""


def pods(version: int) -> Manifest:
    """The patch to a template of this version."""
    return {"template": {"spec": {"containers": template(version)["spec"]["containers"]}}}


def template(version: int, *, of: str | None = None) -> Manifest:
    """Pods of a version: its number is the first character of the tag. Those of a DaemonSet run on the nodes `of` a namespace."""
    image = f"app:{version}-bad-never-ready" if version == BROKEN else f"app:{version}"
    metadata = {"labels": {"app": NAME}, "annotations": {"sim.rollouts.dev/startup-seconds": "0"}}
    place: Manifest = {"nodeSelector": {"of": of}, "tolerations": [{"operator": "Exists"}]} if of else {}
    return build.pod_template(NAME, image=image, metadata=metadata, terminationGracePeriodSeconds=1, **place)


def partition(number: int) -> Manifest:
    """The patch to a partition."""
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}}


def version_of(template: Any) -> str:
    """The version of a pod, or of a template."""
    return str(template["spec"]["containers"][0]["image"]).partition(":")[2][0]


@dataclass
class Watched:
    """One workload in a test's namespace; `nodes` are those of a DaemonSet, in the order of their places."""

    api: Conversation
    kind: Kind
    made: Manifest
    nodes: list[str] = field(default_factory=list)
    known: dict[str, tuple[str, str]] = field(default_factory=dict)

    async def act(self, act: Act) -> None:
        """Does it; pods of which it says nothing have to stay, unless `shows` finds another version of them."""
        match act:
            case Deleted(places):
                for each in await self._pods():
                    if self._place(each) in places:
                        self.known.pop(each["metadata"]["name"], None)
                        await self.api.delete(POD, each["metadata"]["name"])
            case Replaced(version):
                answer = await self.api.put(self.kind, NAME, {**self.kind.head, **self._of(version)})
                assert answer.status == 200, answer.body
            case Orphaned(version):
                await self.api.delete(self.kind, NAME, {"propagationPolicy": "Orphan"})
                await self.api.until(lambda answer: answer.status == 404, self.kind, NAME)
                await self.api.made(self.kind, self._of(version))
            case Forgotten(version):
                listed = (await self.api.list(CONTROLLER_REVISION)).body["items"]
                (name,) = (
                    each["metadata"]["name"]
                    for each in listed
                    if version_of(each["data"]["spec"]["template"]) == str(version)
                )
                await self.api.delete(CONTROLLER_REVISION, name)
            case Joins():
                await self.join()
            case _:
                answer = await self.api.patch(self.kind, NAME, {"spec": act}, MERGE_PATCH)
                assert answer.status == 200, answer.body

    def _of(self, version: int) -> Manifest:
        spec = self.made["spec"]
        made = {**spec["template"], "spec": {**spec["template"]["spec"], **template(version)["spec"]}}
        return {**self.made, "spec": {**spec, "template": made}}

    async def join(self) -> None:
        """Adds a node that only this test's DaemonSet selects and tolerates."""
        name, home = f"{self.api.namespace}-{len(self.nodes)}", self.api.namespace
        taint = {"key": "contract.rollouts.dev/of", "value": home, "effect": "NoSchedule"}
        node = {"metadata": {"name": name, "labels": {"of": home}}, "spec": {"taints": [taint]}}
        self.nodes.append(name)
        await self.api.made(NODE, node)

    async def shows(self, expected: str) -> None:
        """Waits until the controller has come to rest, with this to see; `?` stands for any character.

        Raises: AssertionError with what is there instead.
        """
        seen = ""
        try:
            async with asyncio.timeout(PATIENCE_S), self._changes() as changed:
                while not fnmatchcase(seen := await self._look(), expected):
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            raise AssertionError(f"{seen!r} in place of {expected!r}") from None

    @asynccontextmanager
    async def _changes(self) -> AsyncIterator[asyncio.Event]:
        """Set whenever the workload or a pod changes."""
        changed = asyncio.Event()

        async def follow(kind: Kind) -> None:
            async with self.api.watch(kind) as events:
                while (await events.next())[0] != "END":
                    changed.set()

        tasks = [asyncio.create_task(follow(kind)) for kind in (self.kind, POD)]
        try:
            yield changed
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def revisions(self) -> dict[str, int]:
        """The numbers of the ControllerRevisions by version."""
        listed = (await self.api.list(CONTROLLER_REVISION)).body["items"]
        return {version_of(each["data"]["spec"]["template"]): each["revision"] for each in listed}

    async def _look(self) -> str:
        found = (await self.api.get(self.kind, NAME)).body
        # After the status: whatever the sync that wrote it has done is seen.
        living = await self._pods()
        if found["status"].get("observedGeneration") != found["metadata"]["generation"]:
            return "not observed"
        if any("deletionTimestamp" in each["metadata"] for each in living):
            return "pods terminate"
        versions = {each["metadata"]["name"]: version_of(each) for each in living}
        ready = sum(version != str(BROKEN) for version in versions.values())
        seen = await (self._stateful if self.kind == STATEFUL_SET else self._daemons)(found, living, ready)
        if self._lost(living):
            return f"{seen}, replaced in between: {self._lost(living)}"
        return seen

    def _lost(self, living: list[Any]) -> list[str]:
        """The pods that were replaced by others of the same version."""
        lost = []
        for each in living:
            name, version, uid = each["metadata"]["name"], version_of(each), each["metadata"]["uid"]
            before, known = self.known.get(name, (version, uid))
            if before == version and uid != known:
                lost.append(name)
            else:
                self.known[name] = version, uid
        return lost

    async def _stateful(self, found: Any, living: list[Any], ready: int) -> str:
        status = found["status"]
        if [status["replicas"], status.get("readyReplicas", 0)] != [len(living), ready]:
            return f"{status} of {len(living)} pods"
        listed = (await self.api.list(CONTROLLER_REVISION)).body["items"]
        named = {each["metadata"]["name"]: version_of(each["data"]["spec"]["template"]) for each in listed}
        current = f"{named.get(status['currentRevision'], '?')}×{status.get('currentReplicas', 0)}"
        update = f"{named[status['updateRevision']]}×{status.get('updatedReplicas', 0)}"
        start = (found["spec"].get("ordinals") or {}).get("start", 0)
        versions = {self._place(each): version_of(each) for each in living}
        expected = range(start, start + found["spec"]["replicas"])
        more = "".join(versions[ordinal] for ordinal in sorted(versions.keys() - set(expected)))
        there = "".join(versions.get(ordinal, "-") for ordinal in expected)
        return f"{there}{f'+{more}' if more else ''} {current} {update}"

    async def _daemons(self, found: Any, living: list[Any], ready: int) -> str:
        status = found["status"]
        desired, scheduled = status["desiredNumberScheduled"], status["currentNumberScheduled"]
        if not desired == scheduled == len(self.nodes) or sum(map(_is_ready, living)) != ready:
            return f"{status} of {len(living)} pods"
        counts = [status.get(name, 0) for name in ("updatedNumberScheduled", "numberAvailable")]
        return f"{''.join(sorted(map(version_of, living)))} updated {counts[0]} available {counts[1]}"

    async def _pods(self) -> list[Any]:
        return list((await self.api.list(POD, labelSelector=f"app={NAME}")).body["items"])

    def _place(self, pod: Any) -> int:
        if self.kind == STATEFUL_SET:
            return int(pod["metadata"]["name"].rpartition("-")[2])
        return self.nodes.index(pod["spec"]["nodeName"])


def _is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def stateful_set(api: Conversation, **spec: Any) -> Watched:
    """Five pods of version 1, Ready."""
    usual = {
        "replicas": 5,
        "serviceName": NAME,
        "selector": {"matchLabels": {"app": NAME}},
        "template": template(1),
    }
    made = {"metadata": {"name": NAME}, "spec": {**usual, **spec}}
    await api.made(STATEFUL_SET, made)
    watched = Watched(api, STATEFUL_SET, made)
    await watched.shows("11111 1×5 1×5")
    return watched


@asynccontextmanager
async def daemon_set(api: Conversation, **spec: Any) -> AsyncIterator[Watched]:
    """A pod of version 1, Ready, on each of four nodes, which are gone afterwards."""
    usual = {"selector": {"matchLabels": {"app": NAME}}, "template": template(1, of=api.namespace)}
    watched = Watched(api, DAEMON_SET, {"metadata": {"name": NAME}, "spec": {**usual, **spec}})
    try:
        for _ in range(4):
            await watched.join()
        await api.made(DAEMON_SET, watched.made)
        await watched.shows("1111 updated 4 available 4")
        yield watched
    finally:
        await api.delete(DAEMON_SET, NAME)
        for node in watched.nodes:
            await api.delete(NODE, node)

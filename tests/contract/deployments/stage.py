"""Deployments as a play moves them and shows them: acts of people and of a controller, and one line for what comes to rest.

A line is `1=7 r1, 2!=3 r2 | 7/0/7/7/0 | Available, DeploymentPaused`: each ReplicaSet by the version of its image, with its size
and revision, and `!` when it is not the Deployment's; pods in the status: all, updated, ready, available, unavailable; whether it
is available; the reason of Progressing, or `-`.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from rollouts.objects import CONFIG_MAP, POD, REPLICA_SET, Kind, Manifest
from rollouts.ports import MERGE_PATCH, Request
from tests import build
from tests.build import DEPLOYMENT
from tests.contract.conversation import STRATEGIC, Conversation, config_map
from tests.patience import PATIENCE_S

REST_MAX_S = 60.0
NEVER_S = 2_147_483_646
HASH = "pod-template-hash"
REVISION, MAX_REPLICAS = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/max-replicas"
_WORDS = {
    "True MinimumReplicasAvailable": "Available",
    "False MinimumReplicasUnavailable": "Unavailable",
    **{f"True {reason}": reason for reason in ("NewReplicaSetAvailable", "ReplicaSetUpdated")},
    "False ProgressDeadlineExceeded": "ProgressDeadlineExceeded",
    "Unknown DeploymentPaused": "DeploymentPaused",
}
_SUMMED = ("replicas", "readyReplicas", "availableReplicas")
_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


class Watched:
    """The Deployments, ReplicaSets and pods of a namespace as watches show them, and how often those of an app have changed."""

    def __init__(self, talk: Conversation, *, quiet_s: float) -> None:
        self.talk = talk
        self.objects: dict[tuple[Kind, str], Any] = {}
        self._quiet_s = quiet_s
        self._changes: defaultdict[str, int] = defaultdict(int)
        self._changed = asyncio.Condition()

    async def follow(self, kind: Kind) -> None:
        request = Request("GET", self.talk.path(kind), {"watch": "true"})
        stream = await self.talk.api.open_watch(request, deadline_s=PATIENCE_S, silence_s=REST_MAX_S * 5)
        try:
            while line := await stream.readline():
                event = json.loads(line)
                key, found = (kind, event["object"]["metadata"]["name"]), event["object"]
                self.objects.pop(key, None)
                if event["type"] != "DELETED":
                    self.objects[key] = found
                async with self._changed:
                    self._changes[found["metadata"]["labels"]["app"]] += 1
                    self._changed.notify_all()
        finally:
            await stream.aclose()

    def of(self, app: str) -> list[Any]:
        """The ReplicaSets of an app, in the order of their names."""
        found = [one for (kind, _), one in self.objects.items() if kind == REPLICA_SET]
        of_app = [one for one in found if one["metadata"]["labels"]["app"] == app]
        return sorted(of_app, key=lambda one: str(one["metadata"]["name"]))

    def replica_set(self, app: str, version: str) -> Any:
        """The ReplicaSet with this version of the image. Raises: ValueError unless there is exactly one."""
        (found,) = [one for one in self.of(app) if _version(one) == version]
        return found

    async def rest(self, app: str) -> None:
        """Waits until everything is observed and counted, and nothing has changed for a while."""
        async with asyncio.timeout(REST_MAX_S):
            while True:
                seen = self._changes[app]
                try:
                    async with asyncio.timeout(self._quiet_s), self._changed:
                        await self._changed.wait_for(lambda: self._changes[app] != seen)  # noqa: B023  # within this turn
                except TimeoutError:
                    if self._is_settled(app):
                        return

    async def observed(self, app: str, generation: int) -> None:
        """Waits until the Deployment's controller has observed this generation."""
        async with asyncio.timeout(REST_MAX_S), self._changed:
            await self._changed.wait_for(
                lambda: self.objects[DEPLOYMENT, app].get("status", {}).get("observedGeneration", 0) >= generation
            )

    def _is_settled(self, app: str) -> bool:
        deployment, sets = self.objects[DEPLOYMENT, app], self.of(app)
        uid = deployment["metadata"]["uid"]
        own = [one["status"] for one in sets if _owner(one) == uid]
        sums = {name: sum(status.get(name, 0) for status in own) for name in _SUMMED}
        return (
            all(one["status"].get("observedGeneration") == one["metadata"]["generation"] for one in (deployment, *sets))
            and all(_pods_are_there(one) for one in sets)
            and sums == {name: deployment["status"].get(name, 0) for name in _SUMMED}
        )


class Play:
    """One Deployment, whose name is the app of its pods."""

    def __init__(self, app: str, watched: Watched) -> None:
        self.app = app
        self.watched = watched
        self.talk = watched.talk
        self.owner: Manifest = {}

    async def patch(self, patch: Manifest, kind: Kind = DEPLOYMENT, name: str = "", *, form: str = MERGE_PATCH) -> None:
        answer = await self.talk.patch(kind, name or self.app, patch, form)
        assert answer.status == 200, answer.body

    async def own(self, version: str, owner: Manifest) -> None:
        """Hands a ReplicaSet over. Watches of two kinds have no order: one taken before a pause is seen is made again."""
        deployment = (await self.talk.get(DEPLOYMENT, self.app)).body
        await self.watched.observed(self.app, deployment["metadata"]["generation"])
        name = self.watched.replica_set(self.app, version)["metadata"]["name"]
        await self.patch({"metadata": {"ownerReferences": [owner]}}, REPLICA_SET, name)

    async def reference(self) -> Manifest:
        """The Deployment as a controller."""
        found = (await self.talk.get(DEPLOYMENT, self.app)).body
        return _controller(DEPLOYMENT, found)

    def line(self) -> str:
        """What is to be seen now."""
        deployment = self.watched.objects[DEPLOYMENT, self.app]
        sets = sorted(self._shown(one) for one in self.watched.of(self.app))
        status = deployment["status"]
        conditions = {each["type"]: f"{each['status']} {each['reason']}" for each in status["conditions"]}
        words = ", ".join(
            _WORDS.get(found, found) for found in (conditions["Available"], conditions.get("Progressing", "-"))
        )
        counts = "/".join(str(status.get(name, 0)) for name in _COUNTS)
        collisions = f" | {status['collisionCount']} collision" if "collisionCount" in status else ""
        return f"{', '.join(sets)} | {counts} | {words}{collisions}"

    def _shown(self, replica_set: Any) -> str:
        metadata, spec = replica_set["metadata"], replica_set["spec"]
        owners = [each["kind"] for each in metadata.get("ownerReferences", ())]
        foreign = "" if owners == ["Deployment"] else "!"
        revision = metadata.get("annotations", {}).get(REVISION, "-")
        return f"{_version(replica_set)}{foreign}={spec['replicas']} r{revision}"


Act: TypeAlias = Callable[[Play], Awaitable[None]]


def started(replicas: int = 10, version: str = "1", **spec: Any) -> Act:
    """A Deployment, and a ConfigMap that stands for the owner of ReplicaSets that are not the Deployment's."""

    async def act(play: Play) -> None:
        await play.talk.made(DEPLOYMENT, _manifest(play.app, version, replicas=replicas, **spec))
        play.owner = _controller(CONFIG_MAP, await play.talk.made(CONFIG_MAP, config_map(f"{play.app}-owner")))

    return act


def spec(**fields: Any) -> Act:
    """A merge patch of the Deployment's spec."""
    return lambda play: play.patch({"spec": fields})


PAUSE, RESUME = spec(paused=True), spec(paused=False)


def limits(surge: int | str, unavailable: int | str) -> Manifest:
    """A strategy of a rolling update."""
    return {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


RESTORE = spec(minReadySeconds=None, progressDeadlineSeconds=None, strategy=limits("25%", "25%"))


def hold(new: int, old: int, replicas: int = 10) -> Act:
    """A step: as many pods of the new and the old version."""
    return held(limits(new + old - replicas, replicas - old))


def held(strategy: Manifest, *, paused: bool = False) -> Act:
    """These limits, with pods that are never available."""
    return spec(minReadySeconds=NEVER_S, progressDeadlineSeconds=NEVER_S + 1, strategy=strategy, paused=paused)


def image(version: str, *, annotation: str = "") -> Act:
    """Another version, as `kubectl set image` or an undo writes it; with an annotation, as a restart does."""

    async def act(play: Play) -> None:
        metadata = {"annotations": {"restarted": annotation or None}}
        containers = template(play.app, version)["spec"]["containers"]
        patch = {"spec": {"template": {"metadata": metadata, "spec": {"containers": containers}}}}
        await play.patch(patch, form=STRATEGIC)

    return act


def scale(replicas: int) -> Act:
    """By the scale subresource, as `kubectl scale` and autoscalers do."""

    async def act(play: Play) -> None:
        answer = await play.talk.patch(DEPLOYMENT, play.app, {"spec": {"replicas": replicas}}, MERGE_PATCH, "scale")
        assert answer.status == 200, answer.body

    return act


def beside(version: str, replicas: int, *, owner: str = "other", name: str = "ours1", most: int | None = None) -> Act:
    """A ReplicaSet that somebody else makes, labelled as the Deployment's are.

    Args:
        owner: its controller: `other`, `deployment` or `none`.
        most: how many pods might exist when it got its size, as the Deployment's controller notes it.
    """

    async def act(play: Play) -> None:
        pods = template(play.app, version)
        labels = pods["metadata"]["labels"]
        labels[HASH] = name
        owners = {"other": [play.owner], "deployment": [await play.reference()], "none": []}[owner]
        noted = {} if most is None else {"annotations": {MAX_REPLICAS: str(most)}}
        metadata = {"labels": labels, "ownerReferences": owners, **noted}
        selector = {"matchLabels": labels}
        manifest = build.replica_set(
            f"{play.app}-{name}", replicas=replicas, metadata=metadata, selector=selector, template=pods
        )
        await play.talk.made(REPLICA_SET, manifest)

    return act


def resized(version: str, replicas: int) -> Act:
    """Somebody else resizes a ReplicaSet."""

    async def act(play: Play) -> None:
        name = play.watched.replica_set(play.app, version)["metadata"]["name"]
        await play.patch({"spec": {"replicas": replicas}}, REPLICA_SET, name)

    return act


def inflated(version: str, seconds: int | None = NEVER_S) -> Act:
    """A ReplicaSet's pods are no longer available, and never will be."""

    async def act(play: Play) -> None:
        name = play.watched.replica_set(play.app, version)["metadata"]["name"]
        await play.patch({"spec": {"minReadySeconds": seconds}}, REPLICA_SET, name)

    return act


def uninflated(version: str) -> Act:
    """They count as available again once they are ready."""
    return inflated(version, None)


def given(version: str) -> Act:
    """A ReplicaSet changes hands: it becomes the Deployment's."""

    async def act(play: Play) -> None:
        await play.own(version, await play.reference())

    return act


def taken(version: str) -> Act:
    """A ReplicaSet changes hands: it is taken out of the Deployment."""
    return lambda play: play.own(version, play.owner)


def unselected(version: str) -> Act:
    """A ReplicaSet's own labels are no longer what the Deployment selects."""

    async def act(play: Play) -> None:
        name = play.watched.replica_set(play.app, version)["metadata"]["name"]
        await play.patch({"metadata": {"labels": {"part": "other"}}}, REPLICA_SET, name)

    return act


def replaced(version: str, **fields: Any) -> Act:
    """`kubectl replace` of a manifest that knows nothing of what others have written."""

    async def act(play: Play) -> None:
        answer = await play.talk.put(DEPLOYMENT, play.app, _manifest(play.app, version, **fields))
        assert answer.status == 200, answer.body

    return act


async def deleted(play: Play) -> None:
    """Somebody deletes the Deployment, and somebody else's finalizer keeps it."""
    await play.patch({"metadata": {"finalizers": ["contract.rollouts.dev/stay"]}})
    assert (await play.talk.delete(DEPLOYMENT, play.app)).status == 200


def applied(version: str) -> Act:
    """A GitOps tool applies its manifest again, which names neither limits nor a pause."""

    async def act(play: Play) -> None:
        manifest = _manifest(play.app, version)
        manifest["spec"].pop("replicas")
        answer = await play.talk.apply(DEPLOYMENT, play.app, manifest, by="gitops", force=True)
        assert answer.status == 200, answer.body

    return act


def pods_deleted(**versions: int) -> Act:
    """So many pods of a version (`v1=2`) are deleted."""

    async def act(play: Play) -> None:
        for version, count in versions.items():
            uid = play.watched.replica_set(play.app, version[1:])["metadata"]["uid"]
            pods = [
                name
                for (kind, name), one in play.watched.objects.items()
                if kind == POD and one["metadata"]["ownerReferences"][0]["uid"] == uid
            ]
            for name in pods[:count]:
                assert (await play.talk.delete(POD, name)).status == 200

    return act


def both(*acts: Act) -> Act:
    """One after the other, without waiting for rest."""

    async def act(play: Play) -> None:
        for each in acts:
            await each(play)

    return act


def template(app: str, version: str) -> Manifest:
    """Pods of a version; those of a version with `bad` in it are never ready."""
    name = "never-ready" if "bad" in version else "app"
    metadata = {"labels": {"app": app, "part": "main"}}
    return build.pod_template(app, image=f"{name}:{version}", metadata=metadata, terminationGracePeriodSeconds=1)


async def played(app: str, acts: Iterable[Act], watched: Watched) -> list[str]:
    """The line after each act, when everything has come to rest."""
    play, lines = Play(app, watched), []
    for act in acts:
        await act(play)
        await watched.rest(app)
        lines.append(play.line())
    return lines


@asynccontextmanager
async def watching(talk: Conversation, *, quiet_s: float) -> AsyncIterator[Watched]:
    """Follows the three kinds while plays go on."""
    watched = Watched(talk, quiet_s=quiet_s)
    tasks = [asyncio.create_task(watched.follow(kind)) for kind in (DEPLOYMENT, REPLICA_SET, POD)]
    try:
        yield watched
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _manifest(app: str, version: str, **spec: Any) -> Manifest:
    labels = {"app": app, "part": "main"}
    fields = {"selector": {"matchLabels": labels}, "template": template(app, version), **spec}
    return build.deployment(app, metadata={"labels": labels}, **fields)


def _controller(kind: Kind, owner: Any) -> Manifest:
    own = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {**kind.head, **own, "controller": True, "blockOwnerDeletion": kind == DEPLOYMENT}


def _version(replica_set: Any) -> str:
    pods = replica_set["spec"]["template"]
    tag = pods["spec"]["containers"][0]["image"].rpartition(":")[2]
    return f"{tag}{'+' if pods['metadata'].get('annotations') else ''}"


def _owner(replica_set: Any) -> str:
    return next((str(each["uid"]) for each in replica_set["metadata"].get("ownerReferences", ())), "")


def _pods_are_there(replica_set: Any) -> bool:
    """Whether each pod that is wanted is there and ready, and no other, unless they never become ready."""
    status, wanted = replica_set["status"], replica_set["spec"]["replicas"]
    ready = 0 if "bad" in _version(replica_set) else wanted
    counts = (status["replicas"], status.get("readyReplicas", 0), status.get("terminatingReplicas", 0))
    return counts == (wanted, ready, 0)

"""An update under constant requests, and everything that happened to Services, ReplicaSets, pods and requests meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from rollouts.manifests.ownership import REVISION
from rollouts.objects import POD, REPLICA_SET, SERVICE, Manifest
from rollouts.sim.network.traffic import ClientTraffic
from rollouts.sim.storage.history import CommittedWrite
from tests.behaviour.scenarios import ACTIVE_AND_PREVIEW, STABLE_AND_CANARY, rollout, service
from tests.behaviour.stage import KEY, Run, Script, Stage, play

SLICE_LAG_S = 0.3
SETTLING_S = 20.0
RATE_PER_S = 40.0


@dataclass
class Watched:
    """What happened to Services, ReplicaSets and requests while a script was played.

    Args:
        selected: for each Service, the revisions that its selector named, each change an entry, with its loop time.
        shrunk: for each revision, when its ReplicaSet was told to have fewer pods, and how many.
        cut: for each revision, when a pod of it began to end.
    """

    clients: list[ClientTraffic] = field(default_factory=list)
    selected: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    shrunk: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    cut: dict[str, list[float]] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)

    @property
    def run(self) -> Run:
        return self.runs[0]

    @property
    def sent(self) -> int:
        return sum(each.tally.sent.total() for each in self.clients)

    @property
    def lost(self) -> int:
        return sum(each.tally.lost.total() for each in self.clients)

    def follow(self, change: CommittedWrite) -> None:
        now_s, old, new = asyncio.get_running_loop().time(), change.old, change.new
        if change.kind == SERVICE:
            named = self.selected.setdefault(new.metadata["name"], [])
            revision = new.manifest["spec"]["selector"].get(REVISION, "")
            if revision and (not named or named[-1][1] != revision):
                named.append((now_s, revision))
        revision = new.labels.get(REVISION, "")
        if change.kind == REPLICA_SET and old is not None:
            before, after = old.manifest["spec"]["replicas"], new.manifest["spec"]["replicas"]
            if after < before:
                self.shrunk.setdefault(revision, []).append((now_s, after))
        if change.kind == POD and old is not None and not is_ending(old.manifest) and is_ending(new.manifest):
            self.cut.setdefault(revision, []).append(now_s)


def is_ending(pod: Manifest) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def watched(
    strategy: Manifest,
    script: Script,
    *services: str,
    replicas: int = 4,
    alongside: Script | None = None,
    drain: Manifest | None = None,
    pre_stop_s: int = 0,
    there: tuple[Manifest, ...] = (),
    kernel: str = "6.1.0",
    rate_per_s: float = RATE_PER_S,
    duration_s: float = 0.02,
    seed: int = 1,
    slice_lag_s: float = SLICE_LAG_S,
    **clients: Any,
) -> Watched:
    """Plays `script` under constant requests to `services`, from the first revision's readiness to well after the end.

    Args:
        alongside: what somebody else does meanwhile.
        there: what else is in the cluster from the beginning.
        pre_stop_s: of the user's own sleep.
        kernel: of the nodes.
        duration_s: of one request.
        clients: other options of `ClientTraffic`.
    """
    seen = Watched()

    async def with_clients(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        await asyncio.sleep(2.0)
        for kind in (SERVICE, REPLICA_SET, POD):
            stage.cluster.api.history.listen(kind, seen.follow)
        for name in services:
            options = {"rate_per_s": rate_per_s, "duration_s": duration_s, **clients}
            seen.clients.append(stage.cluster.clients(namespace=KEY.namespace, service=name, **options))
        await script(stage)
        await asyncio.sleep(SETTLING_S + duration_s)
        for each in seen.clients:
            each.stop()
        await asyncio.sleep(duration_s)

    app = rollout(strategy, replicas=replicas, drain=drain or {}, pre_stop_s=pre_stop_s)
    manifests = (*there, service("web"), *STABLE_AND_CANARY, *ACTIVE_AND_PREVIEW, app)
    run = play(manifests, with_clients, seed=seed, alongside=alongside, slice_lag_s=slice_lag_s, kernel=kernel)
    seen.runs.append(run)
    return seen

"""Promise: a Service that somebody makes again, or mends, brings nobody to pods that leave.

While one that the spec names is missing, or finds other pods, it is read again before a revision shrinks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from rollouts.manifests.ownership import REVISION
from rollouts.objects import REPLICA_SET, SERVICE, Manifest
from rollouts.ports import Request
from rollouts.sim.storage.history import CommittedWrite
from tests import build
from tests.behaviour.scenarios import HALF, MANUAL, blue_green, canary, rollout, service
from tests.behaviour.stage import KEY, Run, Stage, play

CANARY = canary(HALF, MANUAL, services=True, trafficRouting={}, abortScaleDownDelaySeconds=40)
BLUE_GREEN = blue_green(autoPromotionEnabled=False, abortScaleDownDelaySeconds=40)
LOST = [(CANARY, "canary"), (CANARY, "stable"), (BLUE_GREEN, "active")]
NAMED = pytest.mark.parametrize(("strategy", "name"), LOST, ids=["canaryService", "stableService", "activeService"])


@dataclass
class Aborted:
    """Played once: an update whose Service is lost, and which is aborted then.

    Args:
        made_at_s: when the Service is made again; None for never.
        selecting: what it selects besides the user's labels.
        lost: the Service is deleted.
        of_others: it is made anew at once, and selects other pods.
        shrunk_at_s: when the aborted revision lost its pods.
        read_at_s: when a Service was read for the last time before that.
    """

    strategy: Manifest
    name: str
    made_at_s: float | None = None
    selecting: str = ""
    lost: bool = True
    of_others: bool = False
    shrunk_at_s: float = 0.0
    read_at_s: float = 0.0

    def __post_init__(self) -> None:
        names = ("active", "preview") if "blueGreen" in self.strategy else ("stable", "canary")
        self.run: Run = play((*map(service, names), rollout(self.strategy)), self._script)

    async def _script(self, stage: Stage) -> None:
        loop = asyncio.get_running_loop()

        def shrinks(write: CommittedWrite) -> None:
            sizes = [each.manifest["spec"]["replicas"] for each in (write.old, write.new) if each is not None]
            if len(sizes) == 2 and sizes[0] > sizes[1]:
                self.shrunk_at_s = loop.time()
                self.read_at_s = max(each.at_s for each in stage.witness.arrivals if each.what == "GET services")

        await stage.until_phase("Healthy", "1")
        stage.image("2")
        await stage.until(lambda: stage.available("2") > 0 and "waitingFor" in stage.status)
        await asyncio.sleep(2)
        if self.lost:
            stage.cluster.api.answer(Request("DELETE", SERVICE.path(KEY.namespace, self.name)))
        if self.of_others:
            stage.cluster.apply(build.service(self.name, KEY.namespace, app="till"))
        stage.cluster.api.history.listen(REPLICA_SET, shrinks)
        stage.annotate("abort", "true")
        if self.made_at_s is not None:
            await asyncio.sleep(self.made_at_s - loop.time())
            more = {REVISION: stage.status["currentRevision"]} if self.selecting == REVISION else {}
            stage.cluster.apply(build.service(self.name, KEY.namespace, app="web", **more))
        await stage.until(lambda: stage.sizes().get("2") == 0)


@NAMED
@pytest.mark.parametrize("selecting", ["", REVISION], ids=["every pod", "the aborted revision"])
def test_a_service_made_again_keeps_the_pods_that_it_finds(strategy: Manifest, name: str, selecting: str) -> None:
    """Made by hand it finds pods of the aborted revision, until the controller has switched it and its slices show that.

    What is missing is read every 10 s at last. However long before the shrink it is made, the shrink waits.
    """
    due_s = Aborted(strategy, name).shrunk_at_s

    for before_s in (9.5, 6.5, 5.0, 3.5, 2.0, 1.2, 0.1):
        again = Aborted(strategy, name, made_at_s=due_s - before_s, selecting=selecting)
        assert (again.run.violations, again.run.unexpected) == ([], []), f"made {before_s} s before"


@NAMED
def test_a_service_mended_by_hand_keeps_the_pods_that_it_finds(strategy: Manifest, name: str) -> None:
    """It selected other pods: it is read every 10 s, as no mark of the controller's makes the watch show it."""
    due_s = Aborted(strategy, name, of_others=True).shrunk_at_s

    for before_s in (9.5, 6.5, 3.5, 1.2, 0.1):
        again = Aborted(strategy, name, made_at_s=due_s - before_s, of_others=True)
        assert (again.run.violations, again.run.unexpected) == ([], []), f"mended {before_s} s before"


@NAMED
@pytest.mark.parametrize("of_others", [False, True], ids=["missing", "of other pods"])
def test_a_service_that_stays_so_keeps_no_pods(strategy: Manifest, name: str, of_others: bool) -> None:
    """The aborted revision leaves after one more read; a second before, at most, nothing had changed."""
    aborted = Aborted(strategy, name, of_others=of_others)

    aborted.run.assert_clean()
    assert aborted.shrunk_at_s - aborted.read_at_s <= 1.0


@NAMED
def test_services_that_are_there_are_not_read(strategy: Manifest, name: str) -> None:
    """Their watch shows them."""
    aborted = Aborted(strategy, name, lost=False)

    assert aborted.shrunk_at_s - aborted.read_at_s > 40

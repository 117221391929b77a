"""Promise: the source `kubernetes` needs no server: it sees the pods of the run's revision, and says what is missing."""

from __future__ import annotations

from rollouts.manifests.ownership import NAME, REVISION
from rollouts.objects import POD, ROLLOUT, Manifest
from rollouts.ports import ApiServer, Request, Response, WatchStream
from tests.controller.analysis.stage import BUSY, Stage, analysis_run, play
from tests.controller.analysis.test_one_run_harms_no_other import healthy_after_s
from tests.controller.test_the_process_outlives_what_objects_hold import FORBIDDEN

PODS = {"name": "pods", "consecutiveErrorLimit": 0, "provider": {"kubernetes": {}}}


def labelled(run: Manifest, **labels: str) -> Manifest:
    """A run in the Rollout's namespace, about a revision."""
    run["metadata"] |= {"namespace": BUSY, "labels": {f"rollouts.dev/{name}": value for name, value in labels.items()}}
    return run


class NoPods:
    """An API server that does not let pods be listed."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As the cluster, but for pods."""
        if request.path.endswith(f"/{POD.plural}"):
            return Response(403, FORBIDDEN)
        return await self._api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """As the cluster."""
        return await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    async def aclose(self) -> None:
        """Nothing of its own is open."""


def test_the_pods_of_a_revision_are_evidence() -> None:
    """Only those that carry its labels: neighbours in the namespace say nothing about it."""

    async def scenario(stage: Stage) -> None:
        async with stage.controller():
            await healthy_after_s(stage)
            rollout = stage.cluster.get(ROLLOUT, BUSY, "web") or {}
            revision = rollout["status"]["stableRevision"]
            stage.cluster.apply(labelled(analysis_run("run", PODS), name="web", revision=revision))
            stage.cluster.apply(labelled(analysis_run("none", PODS), name="web", revision="nobody"))
            assert await stage.until_over(namespace=BUSY) == "Successful"
            assert await stage.until_over("none", namespace=BUSY) == "Inconclusive"
        (result,) = stage.status(namespace=BUSY)["metricResults"]
        assert result["measurements"][0]["value"] == "[0, 2, 2]"
        assert not stage.metrics.asked
        (pod, *_) = stage.cluster.list(POD, BUSY)
        assert {NAME, REVISION} <= pod["metadata"]["labels"].keys()

    play(scenario)


def test_a_run_without_labels_says_which_it_needs() -> None:
    """Somebody made it by hand: nobody can know which pods are meant."""

    async def scenario(stage: Stage) -> None:
        stage.cluster.apply(analysis_run("run", PODS))
        async with stage.controller():
            assert await stage.until_over() == "Error"
        assert "rollouts.dev/name and rollouts.dev/revision" in stage.status()["message"]

    play(scenario)


def test_a_controller_that_may_not_list_pods_says_so() -> None:
    """What the API server said in full is in the log; a status is for tenants."""

    async def scenario(stage: Stage) -> None:
        stage.cluster.apply(labelled(analysis_run("run", PODS), name="web", revision="abc"))
        async with stage.controller(api=NoPods(stage.cluster.api)):
            assert await stage.until_over(namespace=BUSY) == "Error"
        assert "may not list pods" in stage.status(namespace=BUSY)["message"]

    play(scenario)

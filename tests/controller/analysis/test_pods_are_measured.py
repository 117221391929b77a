"""Promise: the source `kubernetes` needs no server: it sees the pods of the run's revision, and says what is missing."""

from __future__ import annotations

import pytest

from rollouts.manifests.ownership import NAME, REVISION
from rollouts.objects import POD, ROLLOUT, Manifest
from tests.controller.analysis.stage import BUSY, Stage, analysis_run
from tests.controller.analysis.test_one_run_harms_no_other import healthy_after_s
from tests.controller.door import Door, refusal

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

PODS = {"name": "pods", "consecutiveErrorLimit": 0, "provider": {"kubernetes": {}}}


def labelled(run: Manifest, **labels: str) -> Manifest:
    """A run in the Rollout's namespace, about a revision."""
    run["metadata"] |= {"namespace": BUSY, "labels": {f"rollouts.dev/{name}": value for name, value in labels.items()}}
    return run


async def test_the_pods_of_a_revision_are_evidence(stage: Stage) -> None:
    """Only those that carry its labels: neighbours in the namespace say nothing about it."""
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


async def test_a_run_without_labels_says_which_it_needs(stage: Stage) -> None:
    """Somebody made it by hand: nobody can know which pods are meant."""
    stage.cluster.apply(analysis_run("run", PODS))
    async with stage.controller():
        assert await stage.until_over() == "Error"
    assert "rollouts.dev/name and rollouts.dev/revision" in stage.status()["message"]


async def test_a_controller_that_may_not_list_pods_says_so(stage: Stage) -> None:
    """What the API server said in full is in the log; a status is for tenants."""
    stage.cluster.apply(labelled(analysis_run("run", PODS), name="web", revision="abc"))
    refused = refusal(403, "Forbidden", "may not watch")
    no_pods = Door(stage.cluster.api, lambda request: refused if request.path.endswith(f"/{POD.plural}") else None)
    async with stage.controller(api=no_pods):
        assert await stage.until_over(namespace=BUSY) == "Error"
    assert "may not list pods" in stage.status(namespace=BUSY)["message"]

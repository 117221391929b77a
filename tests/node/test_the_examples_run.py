"""The examples of this repository do on a real node what their comments say, with the image that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.stage import Stage
from tests.node.moves import DONE_WITHIN_S
from tests.node.real_node import RealNode
from tests.node.traffic import traffic

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RATE = 100


@pytest.mark.parametrize(("file", "name"), [("canary", "podinfo"), ("blue-green", "podinfo-blue-green")])
def test_an_example_is_applied_and_updated_and_its_clients_lose_nothing(
    node: RealNode, stage: Stage, file: str, name: str
) -> None:
    """The first thing that people try; podinfo is an app that ends in order, and nothing is configured beyond the file."""
    stage.kubectl("apply", "-f", str(EXAMPLES / f"{file}.yaml"))
    first = stage.until_phase(name, "Healthy")["status"]["currentRevision"]
    address = stage.get("service", name)["spec"]["clusterIP"]
    with traffic(node, f"http://{address}/version", rate=RATE, name=f"load-{name}") as running:
        stage.patch(name, {"template": {"metadata": {"annotations": {"release": "2"}}}})
        if file == "canary":
            stage.until_at(name, "PromotionNeeded", step=1)
            stage.annotate(name, "promote", "true")
        done = stage.until(
            "rollouts",
            name,
            lambda one: one["status"].get("stableRevision") not in {None, first},
            within_s=DONE_WITHIN_S,
        )
        stage.until_pods(name, {done["status"]["stableRevision"]: done["spec"]["replicas"]}, within_s=DONE_WITHIN_S)

    assert running.outcome.failed == {}, running.outcome.failures

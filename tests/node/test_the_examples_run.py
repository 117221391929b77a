"""The examples of this repository do on a real node what their comments say, with the image that they name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.stage import Stage
from tests.node.lanes import Job, seen_of
from tests.node.moves import DONE_WITHIN_S, until_phase, until_waiting_for
from tests.node.real_node import RealNode
from tests.node.traffic import Outcome, traffic_of

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RATE = 100


@dataclass(frozen=True, kw_only=True)
class Example(Job):
    """A file of the examples, applied and updated while clients use its Service."""

    file: str
    name: str

    def __str__(self) -> str:
        return self.file

    def run(self, node: RealNode, stage: Stage) -> Outcome:
        """As a person would who has read the comments: apply, change the template, promote what waits for it."""
        stage.kubectl("apply", "-f", str(EXAMPLES / f"{self.file}.yaml"))
        first = until_phase(stage, "Healthy", name=self.name)["status"]["currentRevision"]
        with traffic_of(node, stage, self.name, ask="/version", rate=RATE) as running:
            stage.patch(self.name, {"template": {"metadata": {"annotations": {"release": "2"}}}})
            if self.file == "canary":
                until_waiting_for(stage, "PromotionNeeded", name=self.name)
                stage.annotate(self.name, "promote", "true")
            done = stage.until_stable(self.name, lambda stable: stable not in ("", first), within_s=DONE_WITHIN_S)
            pods = {done["status"]["stableRevision"]: done["spec"]["replicas"]}
            stage.until_pods(self.name, pods, within_s=DONE_WITHIN_S)
        return running.outcome


@seen_of(Example(file="canary", name="podinfo"), Example(file="blue-green", name="podinfo-blue-green"))
def test_an_example_is_applied_and_updated_and_its_clients_lose_nothing(seen: Outcome) -> None:
    """The first thing that people try; podinfo is an app that ends in order, and nothing is configured beyond the file."""
    assert seen.failed == {}, seen.failures

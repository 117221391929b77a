"""Every file of examples/ is what it says: applied as it is, and carried to its next image."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.e2e.stage import Stage, current

pytestmark = pytest.mark.controlplane

DRAINED_WITHIN_S = 120
"""Two pauses of 5 s, and half a minute for the longest request after the stable Service has moved."""

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_rolls_out(stage: Stage, example: Path) -> None:
    """The first thing that people try: it must work unchanged, and wait for a person only where the file says so."""
    text = example.read_text()
    rollout = next(one for one in yaml.safe_load_all(text) if one["kind"] == "Rollout")
    name, replicas = rollout["metadata"]["name"], rollout["spec"].get("replicas", 1)
    image = "ghcr.io/stefanprodan/podinfo:6.9.1"
    stage.kubectl("apply", "-f", str(example))
    first = current(stage.wait_ready(name))

    stage.set_image(name, image)
    if "rollouts.dev/promote=true" in text or "rollouts promote" in text:
        stage.until_at(name, "PromotionNeeded", image=image)
        stage.annotate(name, "promote", "true")
    if rollout["spec"].get("autoscaling"):  # this control plane has no metrics, which the example needs
        held = stage.until_at(name, "AutoscalingUnknown", image=image)
        stage.annotate(name, "promote", f"{current(held)}@full")
    stage.until_stable(name, lambda stable: stable != first, within_s=DRAINED_WITHIN_S)
    done = stage.until_phase(name, "Healthy", within_s=DRAINED_WITHIN_S)

    assert current(done) == done["status"]["stableRevision"] != first
    new = stage.all("pods", f"rollouts.dev/revision={current(done)}")
    assert Counter(pod["spec"]["containers"][0]["image"] for pod in new)[image] >= replicas

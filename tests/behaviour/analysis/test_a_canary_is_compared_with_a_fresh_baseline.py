"""Promise: with `baseline: true` an Experiment compares the canary with pods of stable that are as young and as many.

The template and the step are those of docs/compare.md.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.core.model.frozen import replace
from rollouts.manifests.ownership import EXPERIMENT_TEMPLATE, REVISION
from rollouts.objects import ANALYSIS_RUN, POD, Manifest
from rollouts.sim.network.applications import Behaviour
from rollouts.sim.network.prometheus.server import DEFAULT_URL
from tests import build
from tests.architecture.tracked import ROOT
from tests.behaviour.analysis import experiment_steps as steps
from tests.behaviour.stage import EVERY_SECOND
from tests.controller.analysis.stage import CONTROLLER, NAMESPACE, Stage, play
from tests.pages.blocks import blocks_of

COLD = Behaviour(error_ratio=0.08)
"""Of pods that have just begun: stable's long-running ones fail nothing."""
WORSE = Behaviour(error_ratio=0.3)
RATE_PER_S = 60.0


def shown() -> tuple[Manifest, Manifest]:
    """The template and the strategy that the page shows."""
    blocks = [each.text for each in blocks_of(ROOT / "docs" / "compare.md")]
    (template,) = [yaml.safe_load(each) for each in blocks if "baseline: true" in each]
    (strategy,) = [yaml.safe_load(each)["strategy"] for each in blocks if "specRef: stable" in each]
    return {**template, "metadata": {**template["metadata"], "namespace": NAMESPACE}}, strategy


def played(template: Manifest, strategy: Manifest, *, canary: Behaviour) -> dict[str, Any]:
    """How an update ends of which both versions are cold at first, and what was compared."""
    seen: dict[str, Any] = {}

    async def scenario(stage: Stage) -> None:
        prometheus = stage.cluster.prometheus(settings=EVERY_SECOND, faults={})
        stage.endpoints = stage.cluster.metrics
        for name, behaviour in (("baseline", COLD), ("canary", canary)):
            stage.cluster.applications.behave(behaviour, labels={EXPERIMENT_TEMPLATE: name})
        clients = stage.cluster.clients(namespace=NAMESPACE, service="web", rate_per_s=RATE_PER_S)
        async with stage.controller(settings=replace(CONTROLLER, prometheus_url=DEFAULT_URL)):
            rollout = build.rollout(strategy, namespace=NAMESPACE, image="web:1", replicas=2)
            await steps.begin(stage, rollout, template, build.service("web", NAMESPACE, app="web"))
            await steps.until_running(stage)
            await steps.until_run(stage)
            (run,) = stage.cluster.list(ANALYSIS_RUN, NAMESPACE)
            compare = run["spec"]["metrics"][0]["provider"]["compare"]
            pods = stage.cluster.list(POD, NAMESPACE)
            for arm in ("canary", "stable"):
                of_arm = [each for each in pods if each["metadata"]["labels"][REVISION] == compare[arm]]
                seen[arm] = [each["spec"]["containers"][0]["image"] for each in of_arm]
            await steps.until(stage, lambda each: bool(each.get("abort")) or steps.stable(each))
            (run,) = stage.cluster.list(ANALYSIS_RUN, NAMESPACE)
            seen.update(promoted=steps.end(stage)["promoted"], verdict=run["status"]["phase"])
            seen["counted"] = run["status"]["metricResults"][0]["metadata"]
            seen["sent"] = [clients.tally.sent[compare[arm]] for arm in ("canary", "stable")]
        clients.stop()
        prometheus.stop()

    play(scenario)
    return seen


@pytest.mark.parametrize(
    ("canary", "promoted", "verdict"),
    [(COLD, True, "Successful"), (WORSE, False, "Failed")],
    ids=["a canary that is as cold as the baseline", "a canary that is worse than cold"],
)
def test_a_cold_start_is_no_fault_of_the_canary(canary: Behaviour, promoted: bool, verdict: str) -> None:
    """Both arms begin at the same time, with as many pods, and get as many requests."""
    seen = played(*shown(), canary=canary)

    assert (seen["canary"], seen["stable"]) == (["web:2"] * 2, ["web:1"] * 2)
    assert (seen["promoted"], seen["verdict"]) == (promoted, verdict)
    to_canary, to_stable = seen["sent"]
    assert to_canary == pytest.approx(to_stable, rel=0.2)
    for arm, sent in (("canary", to_canary), ("stable", to_stable)):
        assert 50 < int(seen["counted"][f"{arm}Events"]) <= sent


def test_the_stable_that_has_run_for_long_would_have_aborted_it() -> None:
    """The same canary, the same requests, and the arm that a comparison has without a baseline."""
    template, strategy = shown()
    compare = template["spec"]["metrics"][0]["provider"]["compare"]
    del compare["baseline"]
    compare |= {"canary": "{{args.canary}}", "stable": "{{args.stable}}"}
    template["spec"]["args"] = [{"name": "canary"}, {"name": "stable"}]
    (analysis,) = strategy["canary"]["steps"][0]["experiment"]["analyses"]
    analysis["args"] = [
        {"name": "canary", "value": "{{templates.canary.podTemplateHash}}"},
        {"name": "stable", "valueFrom": {"podTemplateHashValue": "Stable"}},
    ]

    seen = played(template, strategy, canary=COLD)

    assert (seen["promoted"], seen["verdict"]) == (False, "Failed")

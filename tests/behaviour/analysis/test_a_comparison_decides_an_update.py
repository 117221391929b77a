"""Promise: an update is judged by what clients meet at the canary beside what they meet at stable at the same time."""

from __future__ import annotations

import pytest

from rollouts.objects import Manifest
from rollouts.sim.network.applications import Behaviour
from tests.behaviour.analysed import RATE_PER_S, TEMPLATE_NAME, runs, template
from tests.behaviour.scenarios import HALF, canary, rollout, service
from tests.behaviour.stage import KEY, Script, Stage, play

OUTAGE = Behaviour(error_ratio=0.1)
LOOKS_MAX = 60


def _compared() -> Manifest:
    errors = {"query": 'http_requests_total{rollouts_dev_revision="{{arm}}",code=~"5.."}', "timeout": 2}
    compare = {
        "canary": "{{args.latest}}",
        "stable": "{{args.stable}}",
        "effect": "3%",
        "of": {"prometheus": errors},
        "total": 'http_requests_total{rollouts_dev_revision="{{arm}}"}',
    }
    metric = {"name": TEMPLATE_NAME, "interval": "5s", "count": LOOKS_MAX, "provider": {"compare": compare}}
    arms = [{"name": "latest"}, {"name": "stable"}]
    return {**template(), "spec": {"args": arms, "metrics": [metric]}}


def _played(script: Script) -> list[Manifest]:
    """The runs of an update of which half of the requests go to the canary while it is compared."""
    arms = {"latest": "Latest", "stable": "Stable"}
    args = [{"name": name, "valueFrom": {"podTemplateHashValue": of}} for name, of in arms.items()]
    analysis = {"analysis": {"templates": [{"templateName": TEMPLATE_NAME}], "args": args}}
    found: list[Manifest] = []

    async def whole(stage: Stage) -> None:
        await stage.until_phase("Healthy", "1")
        clients = stage.cluster.clients(namespace=KEY.namespace, service="web", rate_per_s=2 * RATE_PER_S)
        await script(stage)
        found.extend(runs(stage))
        clients.stop()
        stage.prometheus.stop()

    play((service("web"), _compared(), rollout(canary(HALF, analysis))), whole, prometheus={}).assert_clean()
    return found


def _ends(phase: str, **behaviours: Behaviour) -> Script:
    async def script(stage: Stage) -> None:
        for tag, behaviour in behaviours.items():
            stage.cluster.applications.behave(behaviour, image=f"web:{tag.removeprefix('tag')}")
        stage.image("2")
        await stage.until_phase(phase, "2")

    return script


@pytest.mark.parametrize(
    ("phase", "verdict", "behaviours"),
    [
        ("Healthy", "Successful", {}),
        ("Healthy", "Successful", {"tag1": OUTAGE, "tag2": OUTAGE}),
        ("Aborted", "Failed", {"tag2": Behaviour(error_ratio=0.2)}),
    ],
    ids=["a good canary", "a good canary in an outage behind both", "a bad canary"],
)
def test_the_canary_is_judged_beside_stable(phase: str, verdict: str, behaviours: dict[str, Behaviour]) -> None:
    """An outage that both have aborts nothing; a threshold could not know."""
    (run,) = _played(_ends(phase, **behaviours))

    (result,) = run["status"]["metricResults"]
    assert run["status"]["phase"] == verdict
    assert int(result["metadata"]["looks"]) < LOOKS_MAX
    assert int(result["metadata"]["canaryEvents"]) > 50
    assert int(result["metadata"]["stableEvents"]) > 50

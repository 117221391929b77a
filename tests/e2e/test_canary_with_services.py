"""A canary with a Service for each side: each shows its revision, and the stable one is never without a pod."""

from __future__ import annotations

import pytest

from tests.e2e.manifests import Manifest, canary, service
from tests.e2e.stage import Stage, served, slices_of

pytestmark = pytest.mark.controlplane

SERVICES = [service(name, app="web") for name in ("web", "web-stable", "web-canary")]


def _canary() -> Manifest:
    return canary(
        "web",
        replicas=5,
        stableService="web-stable",
        canaryService="web-canary",
        stableMetadata={"labels": {"role": "stable"}},
        canaryMetadata={"labels": {"role": "canary"}},
        steps=[{"setWeight": 20}, {"pause": {}}, {"setWeight": 60}, {"pause": {"duration": "1s"}}],
    )


def _roles(stage: Stage) -> dict[str, int]:
    roles = [pod["metadata"]["labels"].get("role", "") for pod in stage.all("pods", "app=web")]
    return {role: roles.count(role) for role in roles}


def test_each_service_shows_its_side_and_the_stable_one_is_never_empty(stage: Stage) -> None:
    """Dashboards and clients look through these Services: an empty one is an outage, a mixed one a wrong graph."""
    first = stage.rolled_out(_canary(), *SERVICES)
    stage.until_endpoints("web-stable", {first: 5})
    with stage.history("endpointslices", slices_of("web-stable")) as changes:
        second = stage.gated("web", "web:2", step=1)
        stage.until_pods("web", {first: 4, second: 1})
        stage.until_endpoints("web-stable", {first: 4})
        stage.until_endpoints("web-canary", {second: 1})
        stage.until_endpoints("web", {first: 4, second: 1})
        gated = _roles(stage)
        stage.annotate("web", "promote", "true")
        stage.wait_ready("web")
        for name in ("web", "web-stable", "web-canary"):
            stage.until_endpoints(name, {second: 5})

    assert gated == {"stable": 4, "canary": 1}
    assert all(sum(state.values()) for state in served(changes))
    stage.until(
        "pods", stage.all("pods")[0]["metadata"]["name"], lambda pod: pod["metadata"]["labels"]["role"] == "stable"
    )

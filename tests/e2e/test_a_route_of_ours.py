"""A route that the Rollout brings along, on a real API server with the real CRD: made, moved, changed, and gone with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rollouts.sim.network.gateway_types import gateway_crds
from tests.e2e.controllers import charts_controller
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Stage, current
from tests.e2e.test_the_chart_grants_enough import accepted
from tests.lab.chart import CONTROLLER_USER, install_crds
from tests.lab.control_plane import ControlPlane, condition

pytestmark = pytest.mark.controlplane

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "gateways" / "traffic-own-route.yaml"
NAME = "podinfo-own-route"
OWN = "/spec/strategy/canary/trafficRouting/own/0"
WITHIN_S = 60


@pytest.fixture
def stage(modules_plane: ControlPlane) -> Iterator[Stage]:
    """A cluster with the Gateway API, and the chart with the right to make routes."""
    install_crds(modules_plane, *gateway_crds())
    with charts_controller(modules_plane, "--set", "ownRoutes=true") as stage:
        yield stage


def weights(route: Manifest) -> list[int]:
    return [each["weight"] for each in route["spec"]["rules"][0]["backendRefs"]]


def shared(stage: Stage, canary: int) -> list[int]:
    """What the gateways are told, once the canary has that share."""
    return weights(stage.until("httproutes", NAME, lambda one: weights(one)[1] == canary, within_s=WITHIN_S))


def test_the_example_makes_its_route_and_takes_it_along(stage: Stage) -> None:
    """Applied as it is: no object but the Rollout and its Services is the user's, and nothing was refused."""
    begins = stage.plane.audit_mark()
    stage.kubectl("apply", "--validate=strict", "-f", str(EXAMPLE))
    stage.kubectl("wait", f"httproute/{NAME}", "--for=create", "--timeout=55s")
    accepted(stage, NAME, parent="web")
    first = current(stage.wait_ready(NAME))
    made = stage.get("httproutes", NAME)

    stage.set_image(NAME, "ghcr.io/stefanprodan/podinfo:6.9.1")
    told = [shared(stage, share) for share in (5, 50, 100)]
    stage.until_stable(NAME, lambda stable: stable != first, within_s=WITHIN_S * 2)
    added = [{"op": "add", "path": f"{OWN}/spec/hostnames/-", "value": "also.example.com"}]
    stage.kubectl("patch", "rollout", NAME, "--type=json", "-p", yaml.safe_dump(added))
    changed = stage.until("httproutes", NAME, lambda one: "also.example.com" in one["spec"]["hostnames"])
    stage.kubectl("delete", "rollout", NAME, "--timeout=55s")
    stage.kubectl("wait", f"httproute/{NAME}", "--for=delete", "--timeout=55s")

    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Rollout", NAME, True)
    assert told == [[95, 5], [50, 50], [0, 100]]
    assert weights(changed)[1] == 0
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    creations = [
        event["responseStatus"]["code"]
        for event in stage.plane.audit_events(since=begins, user=CONTROLLER_USER)
        if event.get("objectRef", {}).get("resource") == "httproutes" and event["verb"] == "create"
    ]
    assert creations == [201]


def test_a_field_that_the_router_does_not_have_is_told_not_dropped(stage: Stage) -> None:
    """The API server drops what it does not know, and a route without its host names would take everybody's requests."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    (own,) = documents[0]["spec"]["strategy"]["canary"]["trafficRouting"]["own"]
    own["spec"]["hostnmes"] = own["spec"].pop("hostnames")
    stage.apply(*documents)

    stopped = stage.until("rollouts", NAME, lambda one: one.get("status", {}).get("phase") == "Degraded")

    assert condition(stopped, "Stalled") == ("True", "ApiRefused")
    assert "spec.hostnmes" in stopped["status"]["message"]
    assert stage.all("httproutes") == []

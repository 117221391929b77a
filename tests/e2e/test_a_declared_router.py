"""A router that only a TrafficProvider knows, on a real API server with the router's real CRD, from apply to delete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from rollouts.traffic.rules.ledger import NOTHING, ledger_of
from tests.e2e.controllers import charts_controller
from tests.e2e.manifests import Manifest
from tests.e2e.stage import Stage, current
from tests.lab.chart import install_crds
from tests.lab.control_plane import ControlPlane, condition
from tests.lab.loopback import Answer, answering
from tests.lab.pytest_plugin import refused_to_the_controller
from tests.traffic.cases.case import Crd
from tests.traffic.crds import manifests

pytestmark = pytest.mark.controlplane

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "gateways" / "traffic-declared.yaml"
NAME = "podinfo-declared"
SPLIT_CRD = Crd("github.com/servicemeshinterface/smi-sdk-go@v0.5.0", "crds/split.yaml")
DECLARED = ("--set", "declaredRoutes[0].group=split.smi-spec.io,declaredRoutes[0].resource=trafficsplits")
SETTLED_WITHIN_S = 60  # the example gives its router 10 s for each share


@pytest.fixture
def stage(modules_plane: ControlPlane) -> Iterator[Stage]:
    """A cluster with that router's CRD, and the chart with the right to change its objects."""
    (crd,) = manifests(SPLIT_CRD, "TrafficSplit")
    install_crds(modules_plane, crd)
    with charts_controller(modules_plane, *DECLARED) as stage:
        yield stage
    modules_plane.kubectl("delete", "trafficprovider", "--all")


def provider(stage: Stage) -> Manifest:
    """The router's TrafficProvider, which has no namespace."""
    found = stage.plane.api.get("/apis/rollouts.dev/v1alpha1/trafficproviders/traffic-split")
    declared: Manifest = found.raise_for_status().json()
    return declared


def weights(split: Manifest) -> list[int]:
    return [each["weight"] for each in split["spec"]["backends"]]


def shared(stage: Stage, canary: int) -> list[int]:
    """What the router is told, once the canary has that share."""
    split = stage.until("trafficsplits", NAME, lambda one: weights(one)[1] == canary, within_s=SETTLED_WITHIN_S)
    return weights(split)


def test_the_example_moves_weights_that_no_code_knows(stage: Stage) -> None:
    """Applied as it is; tried by dry run; managed in steps; given back when the Rollout goes; and nothing was refused."""
    (written,) = [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] == "TrafficSplit"]
    stage.kubectl("apply", "--validate=strict", "-f", str(EXAMPLE))
    stage.kubectl("wait", "trafficprovider/traffic-split", "--for=condition=Ready", "--timeout=55s")
    tried = provider(stage)
    first = current(stage.wait_ready(NAME))

    stage.set_image(NAME, "ghcr.io/stefanprodan/podinfo:6.9.1")
    told = [shared(stage, share) for share in (5, 50, 100)]
    done = stage.until_stable(NAME, lambda stable: stable != first, within_s=SETTLED_WITHIN_S * 2)
    stage.kubectl("delete", "rollout", NAME, "--timeout=55s")
    left = stage.until("trafficsplits", NAME, lambda one: ledger_of(one) == NOTHING and "labels" not in one["metadata"])

    assert (condition(tried, "Ready"), tried["status"]["observedGeneration"]) == (("True", "Tried"), 1)
    assert told == [[95, 5], [50, 50], [0, 100]]
    assert done["status"]["traffic"]["verifiedBy"] == "SettleTime"
    assert left["spec"] == written["spec"]
    shown = stage.kubectl("get", "trafficproviders", "--no-headers").split()
    assert shown[:3] == ["traffic-split", "True", "TrafficSplit"]
    assert refused_to_the_controller(stage.plane.audit_events()) == []


@dataclass
class Router:
    """A router's own interface on loopback: what share it gives, which the test decides."""

    weight: float = 0
    url: str = ""
    asked: set[str] = field(default_factory=set)


@pytest.fixture
def router() -> Iterator[Router]:
    """One that answers while the test runs."""
    told = Router()

    def answer(path: str) -> Answer:
        told.asked.add(path)
        return 200, {"canary": told.weight}

    with answering(answer) as port:
        told.url = f"http://127.0.0.1:{port}"
        yield told


def test_a_router_that_can_be_asked_decides_when_a_step_is_done(stage: Stage, router: Router) -> None:
    """However long it takes: its objects say 5 %, and the step waits until the router says so too."""
    documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
    spec = next(one["spec"] for one in documents if one["kind"] == "TrafficProvider")
    path = "'/splits/' + object.metadata.namespace + '/' + object.metadata.name"
    spec["live"] = {"http": {"url": router.url, "path": {"cel": path}}, "cel": "body.canary == want"}
    spec["tests"][0]["answers"] = [{"body": {"canary": 5}, "live": True}, {"body": {"canary": 0}, "live": False}]
    stage.kubectl("apply", "--validate=strict", "-f", "-", input=yaml.safe_dump_all(documents))
    stage.kubectl("wait", "trafficprovider/traffic-split", "--for=condition=Ready", "--timeout=55s")
    first = current(stage.wait_ready(NAME))

    stage.set_image(NAME, "ghcr.io/stefanprodan/podinfo:6.9.1")
    shared(stage, 5)
    told = "not true yet: body.canary == want"
    waiting = stage.until("rollouts", NAME, lambda one: told in json.dumps(one["status"].get("waitingFor")))
    router.weight = 5
    for share in (50, 100):
        shared(stage, share)
        router.weight = share
    stage.until("trafficsplits", NAME, lambda one: weights(one)[1] == 0, within_s=SETTLED_WITHIN_S)
    router.weight = 0
    done = stage.until_stable(NAME, lambda stable: stable != first, within_s=SETTLED_WITHIN_S)

    assert waiting["status"]["currentStepIndex"] == 0
    assert done["status"]["traffic"]["verifiedBy"] == "Config"
    assert router.asked == {f"/splits/{stage.namespace}/{NAME}"}


def test_a_field_that_the_routers_crd_does_not_know_is_found_by_the_dry_run(stage: Stage) -> None:
    """Its own tests pass: only the API server knows that such an object would lose what is written."""
    (wrong,) = [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] == "TrafficProvider"]
    text = json.dumps(wrong["spec"]["tests"]).replace('"weight"', '"share"')
    wrong["spec"] |= {"weight": {"path": "share"}, "tests": json.loads(text)}

    stage.kubectl("apply", "-f", "-", input=json.dumps(wrong))
    stage.kubectl("wait", "trafficprovider/traffic-split", "--for=condition=Ready=false", "--timeout=55s")

    found = provider(stage)
    assert condition(found, "Ready") == ("False", "TestRefused")
    assert "share" in json.dumps(found["status"]["conditions"])

"""A router that only a TrafficProvider knows, on a real API server with the router's real CRD, from apply to delete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rollouts.traffic.ledger import NOTHING, ledger_of
from tests.e2e.controllers import Controller
from tests.e2e.manifests import KUBE_PROXY, Manifest
from tests.e2e.stage import Stage, current
from tests.lab.chart import CONTROLLER_USER, install_chart, wait_established
from tests.lab.control_plane import ControlPlane
from tests.traffic.cases.case import Crd
from tests.traffic.crds import manifests

pytestmark = pytest.mark.controlplane

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "gateways" / "traffic-declared.yaml"
NAME = "podinfo-declared"
SPLIT_CRD = Crd("github.com/servicemeshinterface/smi-sdk-go@v0.5.0", "crds/split.yaml")
DECLARED = ("--set", "declaredRoutes[0].group=split.smi-spec.io,declaredRoutes[0].resource=trafficsplits")
SETTLED_WITHIN_S = 60  # the example gives its router 10 s for each share


@pytest.fixture
def stage(own_plane: ControlPlane) -> Iterator[Stage]:
    """A cluster with that router's CRD, and the chart with the right to change its objects."""
    crd = as_v1(manifests(SPLIT_CRD, "TrafficSplit")[0])
    own_plane.apply(KUBE_PROXY, crd)
    wait_established(own_plane, crd["metadata"]["name"])
    kubeconfig = install_chart(own_plane, *DECLARED)
    log = Path(own_plane.folder, "logs", "controller.log")
    with own_plane.fresh_namespace() as namespace, Controller(kubeconfig, log=log, arguments=["--no-leader-elect"]):
        yield Stage(own_plane, namespace)


def as_v1(crd: Manifest) -> Manifest:
    """The CRD in the version of the API that servers have today; what it says of the objects is untouched."""
    spec = crd["spec"]
    schema = {"type": "object", **spec["validation"]["openAPIV3Schema"]}
    any_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {**each, "schema": {"openAPIV3Schema": schema if each["served"] else any_schema}} for each in spec["versions"]
    ]
    kept = {name: spec[name] for name in ("group", "scope", "names")}
    metadata = {"name": crd["metadata"]["name"], "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": crd["kind"], "metadata": metadata}
    return {**head, "spec": {**kept, "versions": versions}}


def weights(split: Manifest) -> list[int]:
    """What the router is told."""
    return [each["weight"] for each in split["spec"]["backends"]]


def shared(stage: Stage, canary: int) -> list[int]:
    """What the router is told, once the canary has that share."""

    def holds(split: Manifest) -> bool:
        return weights(split)[1] == canary

    return weights(stage.until("trafficsplits", NAME, holds, within_s=SETTLED_WITHIN_S))


def test_the_example_moves_weights_that_no_code_knows(stage: Stage) -> None:
    """Applied as it is; tried by dry run; steered in steps; given back when the Rollout goes; and nothing was refused."""
    (written,) = [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] == "TrafficSplit"]
    stage.kubectl("apply", "--validate=strict", "-f", str(EXAMPLE))
    stage.kubectl("wait", "trafficprovider/traffic-split", "--for=condition=Ready", "--timeout=30s")
    provider = stage.get("trafficprovider", "traffic-split")
    first = current(stage.wait_ready(NAME))

    stage.set_image(NAME, "ghcr.io/stefanprodan/podinfo:6.9.1")
    told = [shared(stage, share) for share in (5, 50, 100)]
    done = stage.until(
        "rollouts", NAME, lambda one: one["status"]["stableRevision"] != first, within_s=SETTLED_WITHIN_S * 2
    )
    stage.kubectl("delete", "rollout", NAME, "--timeout=20s")
    left = stage.until("trafficsplits", NAME, lambda one: ledger_of(one) == NOTHING and "labels" not in one["metadata"])

    (ready,) = [each for each in provider["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["reason"], provider["status"]["observedGeneration"]) == ("Tried", 1)
    assert told == [[95, 5], [50, 50], [0, 100]]
    assert done["status"]["traffic"]["verifiedBy"] == "SettleTime"
    assert left["spec"] == written["spec"]
    shown = stage.kubectl("get", "trafficproviders", "--no-headers").split()
    assert shown[:3] == ["traffic-split", "True", "TrafficSplit"]
    refused = [
        event["requestURI"]
        for event in stage.plane.audit_events(user=CONTROLLER_USER)
        if event.get("responseStatus", {}).get("code") == 403
    ]
    assert refused == []


def test_a_field_that_the_routers_crd_does_not_know_is_found_by_the_dry_run(stage: Stage) -> None:
    """Its own tests pass: only the API server knows that such an object would lose what is written."""
    (provider,) = [one for one in yaml.safe_load_all(EXAMPLE.read_text()) if one["kind"] == "TrafficProvider"]
    text = json.dumps(provider["spec"]["tests"]).replace('"weight"', '"share"')
    provider["spec"] |= {"weight": {"path": "share"}, "tests": json.loads(text)}

    stage.kubectl("apply", "-f", "-", input=json.dumps(provider))
    stage.kubectl("wait", "trafficprovider/traffic-split", "--for=condition=Ready=false", "--timeout=30s")

    found = stage.get("trafficprovider", "traffic-split")
    (ready,) = [each for each in found["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "TestRefused")
    assert "share" in ready["message"]

"""Promise: what `rollouts gitops` prints is what the controller writes over in users' objects, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests import build
from tests.api.specs import Spec, blue_green, canary, manifest
from tests.cli.command_line import CommandLine

HTTP_ROUTES = {"httpRoutes": [{"name": "cart"}, {"name": "edge", "namespace": "gateways"}]}


def routed(**routing: Any) -> Spec:
    """A canary between two Services by these routers."""
    return canary(stableService="cart", canaryService="cart-canary", trafficRouting=routing)


def printed(typed: CommandLine, spec: Spec, *arguments: str) -> list[Any]:
    """The documents that are printed for one Rollout in namespace shop."""
    rollout = manifest(spec)
    rollout["metadata"]["namespace"] = "shop"
    return list(yaml.safe_load_all(typed("gitops", "-f", typed.file(rollout), *arguments).out))


def argo_cd(typed: CommandLine, spec: Spec) -> dict[str, Any]:
    """Argo CD's rules by `Kind namespace/name`."""
    (application,) = printed(typed, spec, "--for", "argocd")
    assert application["spec"]["syncPolicy"] == {"syncOptions": ["RespectIgnoreDifferences=true"]}
    rules = application["spec"]["ignoreDifferences"]
    return {f"{each['kind']} {each['namespace']}/{each['name']}": each["jqPathExpressions"] for each in rules}


def test_weights_of_routes_and_selectors_of_services_are_left_alone(typed: CommandLine) -> None:
    """The rest of a route stays under Git's eye: a rule that hides too much hides real drift."""
    weight = ".spec.rules[]?.backendRefs[]?.weight"
    selector = '.spec.selector["rollouts.dev/revision"]'

    assert argo_cd(typed, routed(gatewayAPI=HTTP_ROUTES)) == {
        "Service shop/cart": [selector],
        "Service shop/cart-canary": [selector],
        "HTTPRoute shop/cart": [weight],
        "HTTPRoute gateways/edge": [weight],
    }
    managed = argo_cd(typed, routed(gatewayAPI=HTTP_ROUTES, managedRoutes=[{"name": "beta"}]))
    assert managed["HTTPRoute shop/cart"] == [".spec.rules"], "to Git a header route is one rule too many"


IN_PLACE = {
    "Deployment": [".spec.strategy", ".spec.minReadySeconds", ".spec.progressDeadlineSeconds"],
    "StatefulSet": [".spec.updateStrategy"],
    "DaemonSet": [".spec.updateStrategy.type"],
}


@pytest.mark.parametrize("kind", IN_PLACE)
def test_fields_by_which_a_workload_in_place_is_stepped_are_left_alone(typed: CommandLine, kind: str) -> None:
    """Where a policy keeps them, Git may go on to say them."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "cart", "mode": "InPlace"}
    of_kind = {"workloadRef": reference, "strategy": {"canary": {"steps": [{"setWeight": 20}]}}}
    by_policy = {**of_kind, "workloadRef": {**reference, "hold": "Policy"}}

    assert argo_cd(typed, of_kind) == {f"{kind} shop/cart": IN_PLACE[kind]}
    assert argo_cd(typed, by_policy) == {}


ALB = {"ingress": "cart", "servicePort": 80}
ACTION = '.metadata.annotations["{}/actions.{}"]'


@pytest.mark.parametrize(
    ("routing", "name", "path"),
    [
        ({"istio": {"virtualService": {"name": "cart", "routes": ["main"]}}}, "VirtualService", ".spec.http[]?.route[]?.weight"),
        ({"traefik": {"weightedTraefikServiceName": "cart"}}, "TraefikService", ".spec.weighted.services[]?.weight"),
        ({"alb": ALB}, "Ingress", ACTION.format("alb.ingress.kubernetes.io", "cart")),
        ({"alb": {**ALB, "rootService": "root", "annotationPrefix": "x.io"}}, "Ingress", ACTION.format("x.io", "root")),
    ],
)  # fmt: skip
def test_each_router_has_its_own_place(typed: CommandLine, routing: Any, name: str, path: str) -> None:
    """What is not written over is not left alone."""
    assert path in argo_cd(typed, routed(**routing))[f"{name} shop/cart"]


def test_subsets_are_left_alone_label_by_label(typed: CommandLine) -> None:
    """Nothing but our label of a subset is ours, whatever the steps make of the VirtualService; and no Service is managed."""
    rule = {"name": "cart", "stableSubsetName": "stable", "canarySubsetName": "canary"}
    istio = {"virtualService": {"name": "cart"}, "destinationRule": rule}
    spec = canary(trafficRouting={"istio": istio, "managedRoutes": [{"name": "beta"}]})

    found = argo_cd(typed, spec)

    assert found["DestinationRule shop/cart"] == ['.spec.subsets[]?.labels["rollouts.dev/revision"]']
    assert not any(name.startswith("Service ") for name in found)
    of_nginx = argo_cd(typed, routed(nginx={"stableIngress": "cart"}))
    assert not any(name.startswith("Ingress") for name in of_nginx), "the canary Ingress is ours, and not in Git"


def test_flux_gets_json_pointers_to_whole_lists(typed: CommandLine) -> None:
    """A JSON pointer has no wildcard; and to server-side apply a selector and a list of rules are one value each."""
    kustomization, release = printed(typed, routed(gatewayAPI=HTTP_ROUTES), "--for", "flux")

    rules = kustomization["spec"]["ignore"]
    assert release["spec"]["driftDetection"]["ignore"] == rules
    assert rules[0] == {
        "target": {"kind": "^Service$", "name": "^cart$", "namespace": "^shop$"},
        "paths": ["/spec/selector"],
    }
    assert rules[2]["target"]["group"] == "^gateway.networking.k8s.io$"
    assert rules[2]["paths"] == ["/spec/rules"]


def test_a_blue_green_needs_its_services_alone(typed: CommandLine) -> None:
    """It has no routes. Both tools are printed without --for."""
    application, *flux = printed(typed, blue_green())

    assert [each["name"] for each in application["spec"]["ignoreDifferences"]] == ["cart", "cart-preview"]
    assert len(flux) == 2


@pytest.mark.parametrize("scaler", ["HorizontalPodAutoscaler", "ScaledObject"])
def test_the_number_of_pods_is_left_alone_where_an_autoscaler_sets_it(scaler: str, typed: CommandLine) -> None:
    """Each sync would else take back what it has scaled. Without the field in Git there is nothing to ignore."""
    rollout = manifest(blue_green())
    autoscaler = build.autoscaler(rollout["metadata"]["name"])
    if scaler == "ScaledObject":
        autoscaler |= {"apiVersion": "keda.sh/v1alpha1", "kind": scaler}
    beside, alone = (
        list(yaml.safe_load_all(typed("gitops", "-f", typed.file(rollout, *more)).out)) for more in ([autoscaler], [])
    )

    rule, *rest = beside[0]["spec"]["ignoreDifferences"]
    names = {"group": "rollouts.dev", "kind": "Rollout", "name": rollout["metadata"]["name"]}
    assert rule == {**names, "jqPathExpressions": [".spec.replicas"]}
    assert beside[1]["spec"]["ignore"][0]["paths"] == ["/spec/replicas"]
    assert rest == alone[0]["spec"]["ignoreDifferences"]
    del rollout["spec"]["replicas"]
    assert list(yaml.safe_load_all(typed("gitops", "-f", typed.file(rollout, autoscaler)).out)) == alone


def test_a_spec_that_the_controller_refuses_prints_its_problems(typed: CommandLine) -> None:
    """Settings for a Rollout that cannot run would be for nothing."""
    said = typed("gitops", "-f", typed.file(manifest(routed(plugins={"mine": {}}))), code=1)

    assert said.out == ""
    assert "trafficRouting.plugins.mine" in said.err

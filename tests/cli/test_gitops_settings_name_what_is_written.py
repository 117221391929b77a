"""Promise: what `rollouts gitops` prints is what the controller writes over in users' objects, and nothing beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.cli.main import main
from tests.api.specs import Spec, blue_green, canary, manifest

HTTP_ROUTES = {"httpRoutes": [{"name": "cart"}, {"name": "edge", "namespace": "gateways"}]}


def routed(**routing: Any) -> Spec:
    """A canary between two Services by these routers."""
    return canary(stableService="cart", canaryService="cart-canary", trafficRouting=routing)


def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: Spec, *arguments: str) -> list[Any]:
    """The documents that are printed for one Rollout in namespace shop."""
    file = tmp_path / "cart.yaml"
    rollout = manifest(spec)
    rollout["metadata"]["namespace"] = "shop"
    file.write_text(yaml.safe_dump(rollout))
    assert main(["gitops", "-f", str(file), *arguments]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def argo_cd(tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: Spec) -> dict[str, Any]:
    """Argo CD's rules by `Kind namespace/name`."""
    (application,) = printed(tmp_path, capsys, spec, "--for", "argocd")
    assert application["spec"]["syncPolicy"] == {"syncOptions": ["RespectIgnoreDifferences=true"]}
    rules = application["spec"]["ignoreDifferences"]
    return {f"{each['kind']} {each['namespace']}/{each['name']}": each["jqPathExpressions"] for each in rules}


def test_weights_of_routes_and_selectors_of_services_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest of a route stays under Git's eye: a rule that hides too much hides real drift."""
    weight = ".spec.rules[]?.backendRefs[]?.weight"
    selector = '.spec.selector["rollouts.dev/revision"]'

    assert argo_cd(tmp_path, capsys, routed(gatewayAPI=HTTP_ROUTES)) == {
        "Service shop/cart": [selector],
        "Service shop/cart-canary": [selector],
        "HTTPRoute shop/cart": [weight],
        "HTTPRoute gateways/edge": [weight],
    }


def test_with_managed_routes_the_whole_list_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header route is a rule of its own: to Git it is one too many."""
    found = argo_cd(tmp_path, capsys, routed(gatewayAPI=HTTP_ROUTES, managedRoutes=[{"name": "beta"}]))

    assert found["HTTPRoute shop/cart"] == [".spec.rules"]


@pytest.mark.parametrize(
    ("routing", "name", "path"),
    [
        (
            {"istio": {"virtualService": {"name": "cart", "routes": ["main"]}}},
            "VirtualService shop/cart",
            ".spec.http[]?.route[]?.weight",
        ),
        (
            {"traefik": {"weightedTraefikServiceName": "cart"}},
            "TraefikService shop/cart",
            ".spec.weighted.services[]?.weight",
        ),
        (
            {"alb": {"ingress": "cart", "servicePort": 80}},
            "Ingress shop/cart",
            '.metadata.annotations["alb.ingress.kubernetes.io/actions.cart"]',
        ),
        (
            {"alb": {"ingress": "cart", "servicePort": 80, "rootService": "root", "annotationPrefix": "x.io"}},
            "Ingress shop/cart",
            '.metadata.annotations["x.io/actions.root"]',
        ),
    ],
)
def test_each_router_has_its_own_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], routing: Any, name: str, path: str
) -> None:
    """What is not written over is not left alone."""
    assert path in argo_cd(tmp_path, capsys, routed(**routing))[name]


def test_subsets_are_left_alone_label_by_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing but our label of a subset is ours, whatever the steps make of the VirtualService; and no Service is managed."""
    rule = {"name": "cart", "stableSubsetName": "stable", "canarySubsetName": "canary"}
    istio = {"virtualService": {"name": "cart"}, "destinationRule": rule}
    spec = canary(trafficRouting={"istio": istio, "managedRoutes": [{"name": "beta"}]})

    found = argo_cd(tmp_path, capsys, spec)

    assert found["DestinationRule shop/cart"] == ['.spec.subsets[]?.labels["rollouts.dev/revision"]']
    assert not any(name.startswith("Service ") for name in found)


def test_a_route_whose_weights_are_in_an_object_of_ours_needs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The canary Ingress is not in Git; the user's own stays as it is."""
    found = argo_cd(tmp_path, capsys, routed(nginx={"stableIngress": "cart"}))

    assert [name for name in found if name.startswith("Ingress")] == []


def test_flux_gets_json_pointers_to_whole_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A JSON pointer has no wildcard; and to server-side apply a selector and a list of rules are one value each."""
    kustomization, release = printed(tmp_path, capsys, routed(gatewayAPI=HTTP_ROUTES), "--for", "flux")

    rules = kustomization["spec"]["ignore"]
    assert release["spec"]["driftDetection"]["ignore"] == rules
    assert rules[0] == {
        "target": {"kind": "^Service$", "name": "^cart$", "namespace": "^shop$"},
        "paths": ["/spec/selector"],
    }
    assert rules[2]["target"]["group"] == "^gateway.networking.k8s.io$"
    assert rules[2]["paths"] == ["/spec/rules"]


def test_a_blue_green_needs_its_services_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no routes. Both tools are printed without --for."""
    application, *flux = printed(tmp_path, capsys, blue_green())

    assert [each["name"] for each in application["spec"]["ignoreDifferences"]] == ["cart", "cart-preview"]
    assert len(flux) == 2


def test_a_spec_that_the_controller_refuses_prints_its_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings for a Rollout that cannot run would be for nothing."""
    file = tmp_path / "cart.yaml"
    file.write_text(yaml.safe_dump(manifest(routed(plugins={"mine": {}}))))

    assert main(["gitops", "-f", str(file)]) == 1

    said = capsys.readouterr()
    assert said.out == ""
    assert "trafficRouting.plugins.mine" in said.err

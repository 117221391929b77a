"""Promise: a TrafficProvider is checked like a Rollout, and the commands know those of the files and of the cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rollouts.objects import Manifest
from tests.api.specs import canary, manifest
from tests.cli.command_line import CommandLine
from tests.cli.shop import Shop
from tests.cli.test_the_plan_follows_routes_and_analyses import BACKENDS, ROUTE, ROUTED, written
from tests.cli.test_the_plan_tells_what_will_happen import rules
from tests.controller.providers.test_traffic_providers_are_judged import NAME, TEST, provider
from tests.linted import lint_text

ROUTING = {"plugins": {NAME: {"name": "cart"}}}


def using(**routing: Any) -> Manifest:
    """A Rollout with these routers."""
    rollout: Manifest = manifest(canary(stableService="cart", canaryService="next", trafficRouting=routing))
    return rollout


@pytest.mark.parametrize("order", [1, -1], ids=["provider first", "rollout first"])
def test_a_rollout_may_use_what_stands_in_the_same_file(order: int) -> None:
    """Wherever in it: `kubectl apply` has no order either."""
    report = lint_text(yaml.safe_dump_all([provider(), using(**ROUTING)][::order]))

    assert (report.problems, report.counts) == ([], {"Rollout": 1, "TrafficProvider": 1})


def test_its_own_tests_are_run_and_every_problem_has_its_line() -> None:
    """Before it is applied, and without a cluster."""
    broken = provider("istio", service={"cel": "item."}, x=1)
    text = yaml.safe_dump_all([provider(tests=[{**TEST, "canaryPercent": 20}]), broken])

    found = {(each.subject, each.message.split(": ")[0]): each.line for each in lint_text(text).problems}

    lines = text.splitlines()
    assert found.keys() == {
        ("TrafficProvider my-apisix", "spec.tests[0].result"),
        ("TrafficProvider istio", "metadata.name"),
        ("TrafficProvider istio", "spec.service.cel"),
        ("TrafficProvider istio", "spec.x"),
    }
    assert lines[found["TrafficProvider istio", "spec.service.cel"] - 1].strip() == "cel: item."
    assert lines[found["TrafficProvider istio", "metadata.name"] - 1].strip() == "name: istio"


def test_what_is_wrong_with_the_provider_is_wrong_with_who_uses_it() -> None:
    """Else a file would pass of which the controller carries out nothing."""
    report = lint_text(yaml.safe_dump_all([provider(tests=[]), using(**ROUTING)]))

    assert {each.subject.split()[0] for each in report.problems} == {"TrafficProvider", "Rollout"}


def test_several_files_are_one_application(typed: CommandLine) -> None:
    """The administrator's file is seldom the team's; the exit code counts."""
    theirs, ours = typed.file(provider(), name="provider.yaml"), typed.file(using(**ROUTING), name="cart.yaml")

    assert "write a TrafficProvider my-apisix" in typed("lint", "-f", ours, code=1).out
    assert "1 Rollout and 1 TrafficProvider checked, no problems" in typed("lint", "-f", ours, "-f", theirs).out


def test_gitops_names_the_field_that_is_declared(typed: CommandLine) -> None:
    """Not the whole spec: the declaration says where the weights are."""
    said = typed("gitops", "-f", typed.file(provider(), using(**ROUTING)), "--for", "argocd").out

    (application,) = yaml.safe_load_all(said)
    (rule,) = [each for each in application["spec"]["ignoreDifferences"] if each["kind"] == "ApisixRoute"]
    assert rule["jqPathExpressions"] == [".spec.http[]?.backends[]?.weight"]


async def test_a_plan_knows_the_providers_of_the_cluster(empty: Shop) -> None:
    """People who plan a Rollout seldom have the administrator's file at hand."""
    strategy = {"canary": {**ROUTED["canary"], "trafficRouting": {"plugins": {"plain": {"name": "cart"}}}}}
    tested = {"spec": {"rules": [{"backendRefs": [{"name": "stable", "weight": 1}, {"name": "canary", "weight": 0}]}]}}
    result = json.loads(json.dumps(tested).replace("1", "3").replace("0", "1"))
    plain = provider(
        "plain",
        match={"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "plural": "httproutes", "versions": ["v1"]},
        backends="spec.rules[].backendRefs[]",
        service={"path": "name"},
        weight={},
        tests=[{"object": tested, "canaryPercent": 25, "result": result}],
    )
    del plain["spec"]["accepted"]
    assert empty.stage.sim is not None
    empty.stage.sim.apply(plain)
    plan = await empty.planned(*written(empty, ROUTE, strategy=strategy))

    assert "Stuck" not in rules(plan, "unsafe"), plan["findings"]
    assert [each["name"] for each in BACKENDS] == ["cart", "cart-canary"]
    assert 5 in [step["weightPercent"] for step in plan["steps"]]

"""Promise: the chart brings the policies that hold workloads for the kinds that were chosen, in a version that the server has.

What they do is in tests/contract/test_workloads_are_held.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lab.chart import SERVED, render

pytestmark = pytest.mark.controlplane

GROUP = "admissionregistration.k8s.io"
OLDER = SERVED[:4]  # as Kubernetes 1.30 to 1.35
BETA = [*OLDER, "--api-versions", f"{GROUP}/v1beta1/MutatingAdmissionPolicy"]
MUTATES, DENIES = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"


def policies(helm: Path, values: str, served: list[str] = SERVED) -> list[dict[str, Any]]:
    """Those of the hold, with their bindings."""
    return [one for one in render(helm, "--set", values, served=served) if ".hold-" in one["metadata"]["name"]]


def found(helm: Path, values: str, served: list[str] = SERVED) -> list[tuple[str, str, str]]:
    """Version, kind, and what of."""
    rows = [(one["apiVersion"], one["kind"], one["metadata"]["name"]) for one in policies(helm, values, served)]
    return sorted(
        (version.removeprefix(f"{GROUP}/"), kind, name.rpartition(".hold-")[2])
        for version, kind, name in rows
        if not kind.endswith("Binding")
    )


def test_each_kind_has_its_policy(helm: Path) -> None:
    """None by default: the controller has no right to a workload then."""
    assert found(helm, "admission.holds=true") == []
    assert found(helm, "workloads={deployments}") == [("v1", MUTATES, "deployments"), ("v1", DENIES, "deployments")]
    assert found(helm, "workloads={statefulsets,daemonsets}") == [
        ("v1", MUTATES, "daemonsets"),
        ("v1", MUTATES, "statefulsets"),
    ]
    assert found(helm, "workloads={deployments},admission.holds=false") == []


def test_an_older_server_gets_what_it_has(helm: Path) -> None:
    """What only denies needs no MutatingAdmissionPolicy."""
    chosen = "workloads={deployments,statefulsets}"

    assert found(helm, chosen, OLDER) == [("v1", DENIES, "deployments")]
    assert found(helm, chosen, BETA) == [
        ("v1", DENIES, "deployments"),
        ("v1beta1", MUTATES, "deployments"),
        ("v1beta1", MUTATES, "statefulsets"),
    ]


@pytest.mark.parametrize("served", [SERVED, BETA])
def test_each_policy_is_bound_where_the_controller_works(helm: Path, served: list[str]) -> None:
    """A policy without its binding does nothing."""
    chosen = policies(helm, "workloads={deployments,statefulsets,daemonsets},watchNamespaces={shop,cart}", served)
    kinds = {(one["apiVersion"], one["kind"].removesuffix("Binding"), one["metadata"]["name"]): one for one in chosen}
    bindings = [one for one in chosen if one["kind"].endswith("Binding")]

    assert len(chosen) == 2 * len(kinds) == 2 * len(bindings)
    for one in bindings:
        (names,) = one["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert (one["spec"]["policyName"], names["values"]) == (one["metadata"]["name"], ["shop", "cart"])
    for one in chosen:
        if not one["kind"].endswith("Binding"):
            (rule,) = one["spec"]["matchConstraints"]["resourceRules"]
            assert (one["spec"]["failurePolicy"], rule["operations"]) == ("Fail", ["UPDATE"])
            assert [each for each in rule["resources"] if "/" in each] == []
            assert "userInfo" not in str(one["spec"])

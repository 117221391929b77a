"""Promise: what is written to a DestinationRule, a real API server with Istio's real CRD takes; a stale write is a conflict."""

from __future__ import annotations

import secrets
from typing import Any

import httpx
import pytest

from rollouts.objects import Manifest
from rollouts.traffic.codec import Op, PatchUser
from rollouts.traffic.istio.subsets import RULE_KINDS, pointed, released, subset_of
from tests.build import manifest
from tests.lab.chart import install_crds
from tests.traffic.cases.case import Crd
from tests.traffic.crds import created, manifests, patched

pytestmark = pytest.mark.controlplane
CRD = Crd("istio.io/api@v1.28.0", "kubernetes/customresourcedefinitions.gen.yaml")


class Rule:
    """A user's DestinationRule, whose canary subset has no labels."""

    def __init__(self, plane: Any, namespace: str) -> None:
        self.api: httpx.Client = plane.api
        name = f"cart-{secrets.token_hex(3)}"
        self.path = RULE_KINDS[0].path(namespace, name)
        subsets = [{"name": "stable", "labels": {"app": "cart"}}, {"name": "canary"}]
        policy = {"connectionPool": {"tcp": {"maxConnections": 100}}}
        spec = {"host": "cart", "trafficPolicy": policy, "subsets": subsets}
        created(self.api, RULE_KINDS[0].path(namespace), manifest(RULE_KINDS[0], name, namespace, spec=spec))

    def read(self) -> Manifest:
        found: Manifest = self.api.get(self.path).raise_for_status().json()
        return found

    def write(self, read: Manifest, ops: tuple[Op, ...]) -> httpx.Response:
        (op,) = ops
        assert isinstance(op, PatchUser)
        return patched(self.api, self.path, op, read)


@pytest.fixture
def rule(control_plane: Any, namespace: str) -> Rule:
    """One, in a namespace of its own."""
    install_crds(control_plane, *manifests(CRD, RULE_KINDS[0].kind))
    return Rule(control_plane, namespace)


def test_subsets_are_pointed_and_given_back(rule: Rule) -> None:
    """Each change passes the CRD's schema with strict validation, and the user's spec is as it was in the end."""
    before = rule.read()["spec"]
    for name, revision in (("stable", "r1"), ("canary", "r1"), ("canary", "r2"), ("stable", "r2")):
        read = rule.read()
        answer = rule.write(read, pointed(read, name, revision))
        assert answer.status_code == 200, answer.text
        assert subset_of(rule.read(), name).revision == revision

    read = rule.read()
    assert rule.write(read, released(read)).status_code == 200

    after = rule.read()
    assert after["spec"] == before
    assert "annotations" not in after["metadata"]


def test_a_change_on_an_old_view_is_a_conflict(rule: Rule) -> None:
    """Two changes planned on one view: the second is refused, so each pass makes one."""
    read = rule.read()
    assert rule.write(read, pointed(read, "stable", "r1")).status_code == 200

    assert rule.write(read, pointed(read, "canary", "r1")).status_code == 409

"""Promise: routes of the Gateway API behave on the simulated server as on a real one with the same types.

What the types themselves say is compared with those that the products ship in tests/sim; how servers hold schemas, immutable
fields and subresources, in the other files of this folder.
"""

from __future__ import annotations

import asyncio

import pytest

from rollouts.objects import Kind, Manifest
from rollouts.ports import APPLY_PATCH, JSON_PATCH, Request
from rollouts.sim.network.gateway_types import GRPC_ROUTE, HTTP_ROUTE, gateway_crds
from tests.contract.conversation import CRD, Conversation
from tests.patience import PATIENCE_S

BACKENDS = [{"name": "stable", "port": 80, "weight": 100}, {"name": "canary", "port": 80, "weight": 0}]
WEIGHT = "/spec/rules/0/backendRefs/1/weight"


@pytest.fixture
async def routes(api: Conversation) -> Conversation:
    for crd in gateway_crds():
        assert (await api.send("POST", CRD.path(), crd)).status in (201, 409)
    kinds = (HTTP_ROUTE, GRPC_ROUTE)
    async with asyncio.timeout(PATIENCE_S):
        while True:  # a real server serves a new type a moment after its CRD, and says so in no event
            requests = [Request("GET", api.path(kind)) for kind in kinds]
            if {(await api.api.request(each, deadline_s=PATIENCE_S)).status for each in requests} == {200}:
                return api
            await asyncio.sleep(0.05)


def route(*rules: Manifest, name: str = "web") -> Manifest:
    """A route with these rules, or with one that splits."""
    rules = rules or ({"backendRefs": BACKENDS},)
    return {"metadata": {"name": name}, "spec": {"parentRefs": [{"name": "public"}], "rules": list(rules)}}


async def test_what_the_user_left_out_is_filled_in(routes: Conversation) -> None:
    """A plan is made for what is stored, defaults and all: the guards of a JSON Patch would fail on less."""
    backend = {"backendRefs": [{"name": "stable", "port": 80}]}
    made = await routes.made(HTTP_ROUTE, route({**backend, "matches": [{"headers": [{"name": "x", "value": "1"}]}]}))

    any_path = {"type": "PathPrefix", "value": "/"}
    assert made["spec"]["rules"] == [
        {
            "matches": [{"path": any_path, "headers": [{"name": "x", "value": "1", "type": "Exact"}]}],
            "backendRefs": [{"name": "stable", "port": 80, "group": "", "kind": "Service", "weight": 1}],
        }
    ]
    group = "gateway.networking.k8s.io"
    assert made["spec"]["parentRefs"] == [{"name": "public", "group": group, "kind": "Gateway"}]
    other = await routes.made(HTTP_ROUTE, route(backend, name="other"))
    assert other["spec"]["rules"][0]["matches"] == [{"path": any_path}]


@pytest.mark.parametrize("kind", [HTTP_ROUTE, GRPC_ROUTE])
@pytest.mark.parametrize(
    ("rules", "cause"),
    [
        ([{"backendRefs": [{"name": "a", "weight": 1.5}]}], "spec.rules[0].backendRefs[0].weight"),
        ([{"backendRefs": [{"name": "a", "weight": 1_000_001}]}], "spec.rules[0].backendRefs[0].weight"),
        ([{"backendRefs": [{"name": "a", "weight": -1}]}], "spec.rules[0].backendRefs[0].weight"),
        ([{"backendRefs": [{"weight": 1}]}], "spec.rules[0].backendRefs[0].name"),
        ([{"backendRefs": [{"name": "a"}] * 17}], "spec.rules[0].backendRefs"),
        ([{"backendRefs": [{"name": "a"}]}] * 17, "spec.rules"),
    ],
)
async def test_limits_are_held(routes: Conversation, kind: Kind, rules: list[Manifest], cause: str) -> None:
    """16 rules, 16 backends, weights from 0 to a million, whole: what a plan must keep to."""
    answer = await routes.create(kind, route(*rules))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert cause in [field for _, field in answer.causes]


async def test_rules_have_one_owner(routes: Conversation) -> None:
    """They are one atomic value: an apply of one weight would take all rules, and who owns them gets a conflict."""
    applied = {"apiVersion": HTTP_ROUTE.api_version, "kind": HTTP_ROUTE.kind, **route()}
    await routes.patch(HTTP_ROUTE, "web", applied, APPLY_PATCH, fieldManager="gitops")

    rules = [{"backendRefs": [{**BACKENDS[0], "weight": 95}, {**BACKENDS[1], "weight": 5}]}]
    ours = {**applied, "spec": {"rules": rules}}
    answer = await routes.patch(HTTP_ROUTE, "web", ours, APPLY_PATCH, fieldManager="rollouts")
    weight = [{"op": "replace", "path": WEIGHT, "value": 5}]
    patched = await routes.patch(HTTP_ROUTE, "web", weight, JSON_PATCH, fieldManager="rollouts")
    again = await routes.patch(HTTP_ROUTE, "web", applied, APPLY_PATCH, fieldManager="gitops", force="true")

    assert (answer.status, answer.causes) == (409, [("FieldManagerConflict", ".spec.rules")])
    owners = {each["manager"]: each["fieldsV1"].get("f:spec", {}) for each in patched.metadata["managedFields"]}
    assert "f:rules" in owners["rollouts"] and "f:rules" not in owners["gitops"]
    assert again.body["spec"]["rules"][0]["backendRefs"][1]["weight"] == 0

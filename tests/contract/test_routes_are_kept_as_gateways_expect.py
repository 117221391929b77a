"""Promise: routes of Gateway API, Traefik and Contour behave on the simulated server as on a real one with the same types.

What the types themselves say is compared with those that the products ship in tests/gateways.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rollouts.objects import Kind, Manifest
from rollouts.ports import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Request
from rollouts.sim.network.gateway_types import (
    GATEWAY_CLASS,
    GRPC_ROUTE,
    HTTP_PROXY,
    HTTP_ROUTE,
    TRAEFIK_SERVICE,
    gateway_crds,
)
from tests.contract.conversation import CRD, DEADLINE_S, Conversation

BACKENDS = [{"name": "stable", "port": 80, "weight": 100}, {"name": "canary", "port": 80, "weight": 0}]
WEIGHT = "/spec/rules/0/backendRefs/{}/weight"


@pytest.fixture
async def routes(api: Conversation) -> Conversation:
    """A server that serves the types."""
    for crd in gateway_crds():
        assert (await api.send("POST", CRD.path(), crd)).status in (201, 409)
    kinds = (GATEWAY_CLASS, HTTP_ROUTE, GRPC_ROUTE, TRAEFIK_SERVICE, HTTP_PROXY)
    async with asyncio.timeout(DEADLINE_S):
        while True:  # a real server serves a new type a moment after its CRD, and says so in no event
            requests = [Request("GET", api.path(kind)) for kind in kinds]
            if {(await api.api.request(each, deadline_s=DEADLINE_S)).status for each in requests} == {200}:
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


async def test_status_is_another_door_and_no_new_generation(routes: Conversation) -> None:
    """A gateway writes what it has accepted; `observedGeneration` says of which spec."""
    await routes.made(HTTP_ROUTE, route())
    condition = {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "observedGeneration": 1,
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    parent = {"parentRef": {"name": "public"}, "controllerName": "example.com/gateway", "conditions": [condition]}

    status = await routes.patch(HTTP_ROUTE, "web", {"status": {"parents": [parent]}}, MERGE_PATCH, part="status")
    spec = [{"op": "replace", "path": WEIGHT.format(1), "value": 5}]
    changed = await routes.patch(HTTP_ROUTE, "web", spec, JSON_PATCH)

    assert (status.status, status.metadata["generation"]) == (200, 1)
    assert (changed.status, changed.metadata["generation"]) == (200, 2)
    assert changed.body["status"]["parents"][0]["conditions"] == [condition]


async def test_rules_have_one_owner(routes: Conversation) -> None:
    """They are one atomic value: an apply of one weight would take all rules, and who owns them gets a conflict."""
    applied = {"apiVersion": HTTP_ROUTE.api_version, "kind": HTTP_ROUTE.kind, **route()}
    await routes.patch(HTTP_ROUTE, "web", applied, APPLY_PATCH, fieldManager="gitops")

    ours = {
        **applied,
        "spec": {"rules": [{"backendRefs": [{**BACKENDS[0], "weight": 95}, {**BACKENDS[1], "weight": 5}]}]},
    }
    answer = await routes.patch(HTTP_ROUTE, "web", ours, APPLY_PATCH, fieldManager="rollouts")
    weight = [{"op": "replace", "path": WEIGHT.format(1), "value": 5}]
    patched = await routes.patch(HTTP_ROUTE, "web", weight, JSON_PATCH, fieldManager="rollouts")
    again = await routes.patch(HTTP_ROUTE, "web", applied, APPLY_PATCH, fieldManager="gitops", force="true")

    assert (answer.status, answer.causes) == (409, [("FieldManagerConflict", ".spec.rules")])
    owners = {each["manager"]: each["fieldsV1"].get("f:spec", {}) for each in patched.metadata["managedFields"]}
    assert "f:rules" in owners["rollouts"] and "f:rules" not in owners["gitops"]
    assert again.body["spec"]["rules"][0]["backendRefs"][1]["weight"] == 0


async def test_a_class_never_changes_its_controller(routes: Conversation) -> None:
    """Immutable: a GatewayClass is what tells whose gateway it is."""
    name = routes.namespace  # cluster-scoped: unique
    path = GATEWAY_CLASS.path(None, name)
    made = {"metadata": {"name": name}, "spec": {"controllerName": "example.com/gateway"}}
    manifest = {"apiVersion": GATEWAY_CLASS.api_version, "kind": GATEWAY_CLASS.kind, **made}
    assert (await routes.send("POST", GATEWAY_CLASS.path(), manifest)).status == 201

    answer = await routes.send("PATCH", path, {"spec": {"controllerName": "example.com/b"}}, content_type=MERGE_PATCH)
    await routes.send("DELETE", path)

    assert (answer.status, answer.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("kind", "spec", "path"),
    [
        (TRAEFIK_SERVICE, {"weighted": {"services": [{"name": "stable", "port": 80, "weight": 1}]}},
         "/spec/weighted/services/0/weight"),
        (
            HTTP_PROXY,
            {"virtualhost": {"fqdn": "x.io"}, "routes": [{"services": [{"name": "stable", "port": 80, "weight": 1}]}]},
            "/spec/routes/0/services/0/weight",
        ),
    ],
)  # fmt: skip
async def test_other_routers_weights_are_patched_in_place(
    routes: Conversation, kind: Kind, spec: Any, path: str
) -> None:
    """Their lists carry no list type, which means atomic too."""
    await routes.made(kind, {"metadata": {"name": "web"}, "spec": spec})

    answer = await routes.patch(kind, "web", [{"op": "replace", "path": path, "value": 3}], JSON_PATCH)

    assert (answer.status, answer.metadata["generation"]) == (200, 2)

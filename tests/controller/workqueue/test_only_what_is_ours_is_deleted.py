"""Promise: what stands beside a route is deleted only when its mark and its owner reference both say that it is ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode_route
from rollouts.cluster.structs import RouteObject
from rollouts.controller.act.orphans import Orphans
from rollouts.controller.workqueue.managed import ManagedServices
from rollouts.objects import Kind
from rollouts.ports import Request
from rollouts.sim.clock import run_virtual
from tests.controller.routes import Reading
from tests.controller.world import CART, CART_UID, World, error, metadata, ok, says

INGRESS = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
OURS = [{"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "cart", "uid": CART_UID, "controller": True}]


@pytest.mark.parametrize(
    ("metadata_of_beside", "deleted"),
    [
        ({}, False),
        ({"annotations": {"rollouts.dev/managed-by": "cart"}}, False),
        ({"annotations": {"rollouts.dev/managed-by": "other"}, "ownerReferences": OURS}, False),
        (
            {"annotations": {"rollouts.dev/managed-by": "cart"}, "ownerReferences": [{**OURS[0], "name": "other"}]},
            False,
        ),
        ({"annotations": {"rollouts.dev/managed-by": "cart"}, "ownerReferences": OURS}, True),
    ],
    ids=["nobody's", "a mark alone", "another mark", "another owner", "ours"],
)
def test_what_stands_beside_a_route_is_deleted_only_when_it_is_ours(metadata_of_beside: Any, deleted: bool) -> None:
    """The annotation `beside` is anybody's text: it made the controller delete whatever Ingress it named."""
    sent: list[Request] = []

    async def main() -> None:
        answers = (says(error(404, "NotFound")), says(ok(8)), says(ok(9)))
        world = World(*answers)
        reading = Reading(world)
        world.kinds.learn((INGRESS,), INGRESS)
        table = world.store.add(INGRESS, RouteObject)
        marks = {"managed-by": "cart", "router": "nginx", "beside": "victim"}
        annotations = {f"rollouts.dev/{name}": text for name, text in marks.items()}
        user = metadata("mine", labels={"rollouts.dev/managed": "true"}, annotations=annotations)
        for meta in (user, metadata("victim", **metadata_of_beside)):
            seen = decode_route(msgspec.json.encode({"metadata": meta, "spec": {}}))
            table.put("", seen)
            reading.managed_routes.learn(INGRESS, None, seen)
        world.rollouts.replace("", [], "5")
        world.services.replace("", [], "5")
        orphans = Orphans(
            client=world.client,
            store=world.store,
            barrier=world.barrier,
            managed=ManagedServices(),
            routes=reading.reader,
        )
        await orphans.release(CART)
        sent.extend(world.api.requests)

    run_virtual(main())
    assert ("DELETE" in [each.method for each in sent]) is deleted

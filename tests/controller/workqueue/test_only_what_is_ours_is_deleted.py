"""Promise: what stands beside a route is deleted only when its mark and its owner reference both say that it is ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode_route
from rollouts.cluster.structs import RouteObject
from rollouts.objects import Kind
from tests.controller.routes import Reading, release
from tests.controller.world import World, error, metadata, owned, says

pytestmark = pytest.mark.virtual_time

INGRESS = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
OURS = owned()


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
async def test_what_stands_beside_a_route_is_deleted_only_when_it_is_ours(
    metadata_of_beside: Any, deleted: bool, world: World, reading: Reading
) -> None:
    """The annotation `beside` is anybody's text: it made the controller delete whatever Ingress it named."""
    world.api.answers = [says(error(404, "NotFound"))]
    world.kinds.learn((INGRESS,), INGRESS)
    table = world.store.add(INGRESS, RouteObject)
    marks = {"managed-by": "cart", "router": "nginx", "beside": "victim"}
    annotations = {f"rollouts.dev/{name}": text for name, text in marks.items()}
    user = metadata("mine", labels={"rollouts.dev/managed": "true"}, annotations=annotations)
    for meta in (user, metadata("victim", **metadata_of_beside)):
        seen = decode_route(msgspec.json.encode({"metadata": meta, "spec": {}}))
        table.put("", seen)
        reading.managed_routes.learn(INGRESS, None, seen)
    await release(reading)
    assert ("DELETE" in [each.method for each in world.api.requests]) is deleted

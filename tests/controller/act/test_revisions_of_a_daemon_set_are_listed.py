"""Promise: the revision of a DaemonSet's template is known from a list that belongs to it alone; a template comes back whole."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rollouts.cluster.structs import WorkloadObject
from rollouts.controller.act.answers import REVISIONS_AGAIN_S
from rollouts.controller.act.performer import Performer
from rollouts.controller.observe.in_place import template_hash_of
from rollouts.core.model.in_place_intents import RevertTemplate
from rollouts.core.model.intents import AskChosenNodes, AskRevisions
from rollouts.errors import ApiConflict, ApiInvalid
from rollouts.objects import DAEMON_SET
from rollouts.ports import Response
from tests import build
from tests.controller.world import CART, World, error, ok, says

pytestmark = pytest.mark.virtual_time

ASK = AskRevisions("agent", "app=agent")


def daemon_set(image: str = "agent:1", *, generation: int = 3) -> bytes:
    """As the API server has it."""
    metadata = {"name": "agent", "namespace": "shop", "uid": "d-1", "resourceVersion": "7", "generation": generation}
    return json.dumps({"metadata": metadata, "spec": {"template": build.pod_template("agent", image=image)}}).encode()


def revision(number: int, hashed: str, *, owner: str = "d-1") -> dict[str, Any]:
    """A ControllerRevision."""
    owners = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": owner, "controller": True}]
    labels = {"app": "agent", "controller-revision-hash": hashed}
    return {"metadata": {"name": f"agent-{hashed}", "labels": labels, "ownerReferences": owners}, "revision": number}


def listed(*revisions: dict[str, Any]) -> Response:
    """A page of them."""
    return Response(200, json.dumps({"metadata": {"resourceVersion": "9"}, "items": revisions}).encode())


def _watched(world: World, data: bytes) -> str:
    """The store shows that DaemonSet; the hash of its template."""
    shown = msgspec.json.decode(data, type=WorkloadObject)
    world.store.add(DAEMON_SET, WorkloadObject).put("", shown)
    return template_hash_of(shown)


async def test_the_newest_revision_is_that_of_the_template(world: World, performer: Performer) -> None:
    """By its number, which one that comes back gets anew; those of others do not count."""
    template = _watched(world, daemon_set())
    found = listed(revision(3, "b"), revision(4, "a"), revision(9, "x", owner="d-2"))
    world.api.answers = [says(found), says(Response(200, daemon_set()))]
    await performer.perform(world.target(), [ASK])
    assert await world.queue.take() == CART

    known = world.inbox.revisions(CART, "d-1", template)
    assert [(each.revision, each.number, each.name) for each in known] == [("b", 3, "agent-b"), ("a", 4, "agent-a")]
    assert world.inbox.revisions(CART, "d-2", template) == ()
    assert world.inbox.revisions(CART, "d-1", "another template") == ()


@pytest.mark.parametrize("after", [daemon_set("agent:2", generation=4), daemon_set(generation=4)])
async def test_a_list_during_a_change_of_the_daemon_set_says_nothing(
    after: bytes, world: World, performer: Performer
) -> None:
    """Its newest revision may be of another template: it is asked for again when the watch shows that."""
    template = _watched(world, daemon_set())
    world.api.answers = [says(listed(revision(4, "c"))), says(Response(200, after))]
    asked_s = world.clock.monotonic_s()
    await performer.perform(world.target(), [ASK])
    assert await world.queue.take() == CART

    assert world.inbox.revisions(CART, "d-1", template) == ()
    assert world.clock.monotonic_s() - asked_s >= REVISIONS_AGAIN_S


async def test_nodes_are_listed_by_their_labels_in_the_whole_cluster(world: World, performer: Performer) -> None:
    """Another selector is another question."""
    page = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n4"}}]}
    world.api.answers = [says(Response(200, json.dumps(page).encode()))]
    await performer.perform(world.target(), [AskChosenNodes("tier=canary")])
    assert await world.queue.take() == CART

    (request,) = world.api.requests
    assert (request.path, request.query["labelSelector"]) == ("/api/v1/nodes", "tier=canary")
    chosen = world.inbox.nodes(CART, "tier=canary")
    assert chosen is not None
    assert (chosen.names, chosen.refused) == ({"n1", "n4"}, "")
    assert world.inbox.nodes(CART, "tier=other") is None


async def test_a_controller_that_may_not_list_nodes_says_what_grants_it(world: World, performer: Performer) -> None:
    """With `watchNamespaces` it has rights in these namespaces alone."""
    world.api.answers = [says(error(403, "Forbidden"))]
    await performer.perform(world.target(), [AskChosenNodes("tier=canary")])
    assert await world.queue.take() == CART

    chosen = world.inbox.nodes(CART, "tier=canary")
    assert chosen is not None
    assert "without `watchNamespaces`" in chosen.refused


REVERT = RevertTemplate(name="agent", uid="d-1", resource_version="7", controller_revision="agent-a")


async def test_a_template_that_comes_back_is_read_and_written_in_one_pass(world: World, performer: Performer) -> None:
    """The patch holds the version that was decided on, so a newer template is not overwritten."""
    template = build.pod_template("agent", image="agent:1")
    kept = {"data": {"spec": {"template": {"$patch": "replace", **template}}}}
    world.api.answers = [says(Response(200, json.dumps(kept).encode())), says(ok(8))]
    assert await performer.perform(world.target(), [REVERT]) == 1

    read, written = world.api.requests
    assert read.path.endswith("/controllerrevisions/agent-a")
    assert written.path.endswith("/daemonsets/agent")
    assert {"op": "replace", "path": "/spec/template", "value": template} in json.loads(written.body or b"")


@pytest.mark.parametrize(
    ("reply", "raises"), [(error(404, "NotFound"), ApiConflict), (Response(200, b'{"data": {}}'), ApiInvalid)]
)
async def test_a_template_that_is_gone_is_not_written(
    reply: Response, raises: type[Exception], world: World, performer: Performer
) -> None:
    """The pass ends; the next one sees what there is."""
    world.api.answers = [says(reply)]
    with pytest.raises(raises):
        await performer.perform(world.target(), [REVERT])

    assert [request.method for request in world.api.requests] == ["GET"]

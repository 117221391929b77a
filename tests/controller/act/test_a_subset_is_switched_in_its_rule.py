"""Render: a subset selects another revision by one guarded patch of its DestinationRule; the host is marked where it is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode_route
from rollouts.controller.act.calls import Patch, ReadRoute
from rollouts.controller.act.render import render
from rollouts.controller.observe.observer import Seen
from rollouts.controller.workqueue.inbox import RouteAnswer
from rollouts.core.model.intents import AskService, Intent, SwitchService
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.traffic import RouteName
from rollouts.errors import ApiConflict
from rollouts.objects import Kind, Manifest
from rollouts.ports import JSON_PATCH, MERGE_PATCH
from rollouts.sim.storage.patches import json_patch
from tests.controller.routes import Reading
from tests.controller.world import CART, World, metadata, rollout, service, spec_of

pytestmark = pytest.mark.virtual_time

DESTINATION_RULE = Kind("networking.istio.io", "v1", "DestinationRule", "destinationrules")
RULE = RouteName("istio", "DestinationRule", "shop", "cart-rule")
STABLE = SubsetName("cart-rule", "stable")
SUBSETS = {"name": "cart-rule", "stableSubsetName": "stable", "canarySubsetName": "canary"}
ROUTING = {"istio": {"virtualService": {"name": "cart"}, "destinationRule": SUBSETS}}
MARKS: Manifest = {
    "labels": {"rollouts.dev/managed": "true"},
    "annotations": {"rollouts.dev/managed-by": "cart", "rollouts.dev/router": "istio"},
}
SWITCH = SwitchService(name=STABLE, uid="cart-rule-uid", resource_version="3/5", revision="v2")


def rule_manifest(**more: Any) -> Manifest:
    """A DestinationRule of Service web whose stable subset has a label of its user's."""
    subsets = [{"name": "stable", "labels": {"app": "cart"}}, {"name": "canary"}]
    return {"metadata": metadata("cart-rule", version=3, **more), "spec": {"host": "web", "subsets": subsets}}


def seen_with(world: World, rule: Manifest | None, **host: Any) -> Seen:
    """What is observed while the API server has that rule, and the watch shows its host."""
    user = None if rule is None else decode_route(msgspec.json.encode(rule))
    world.rollouts.put("", rollout(spec=spec_of({"setWeight": 50}, trafficRouting=ROUTING)))
    world.inbox.put_route(CART, RULE, RouteAnswer(asked_s=0.0, kind=DESTINATION_RULE, user=user))
    world.services.put("", service("web", version=5, **host))
    return Reading(world).seen()


async def test_the_first_switch_writes_the_label_and_our_marks_into_the_rule_and_marks_its_host(world: World) -> None:
    """In this order: from the first write on the subset leads to one revision, whatever else its host selects."""
    before = rule_manifest()
    seen = seen_with(world, before)

    of_rule, of_host = render(seen.snapshot, SWITCH, seen.routes)

    assert isinstance(of_rule, Patch) and isinstance(of_host, Patch)
    assert (of_rule.kind, of_rule.namespace, of_rule.name) == (DESTINATION_RULE, "shop", "cart-rule")
    assert (of_rule.content_type, of_rule.route) == (JSON_PATCH, RULE)
    after: Manifest = json_patch(before, list(of_rule.body))
    assert next(iter(of_rule.body)) == {"op": "replace", "path": "/metadata/resourceVersion", "value": "3"}
    assert after["metadata"]["labels"] == MARKS["labels"]
    assert after["metadata"]["annotations"].items() >= MARKS["annotations"].items()
    subsets = {each["name"]: each.get("labels") for each in after["spec"]["subsets"]}
    assert subsets == {"stable": {"app": "cart", "rollouts.dev/revision": "v2"}, "canary": None}
    assert (of_host.name, of_host.uid, of_host.content_type) == ("web", "web-uid", MERGE_PATCH)
    assert isinstance(of_host.body, dict)
    assert of_host.body["spec"]["selector"].items() >= {"rollouts.dev/revision": None}.items()
    assert "app" not in of_host.body["spec"]["selector"], "what its user wrote"


@pytest.mark.parametrize(
    ("host", "writes"),
    [
        ({"managed_by": "cart"}, 1),
        ({"managed_by": "cart", "rollouts.dev/revision": "v1"}, 2),
        ({"managed_by": "other"}, 2),
    ],
    ids=["marked", "of one revision", "another's"],
)
async def test_a_host_that_is_as_it_must_be_is_not_written(host: dict[str, str], writes: int, world: World) -> None:
    """The cluster is asked for nothing it need not do."""
    seen = seen_with(world, rule_manifest(**MARKS), **host)

    assert len(render(seen.snapshot, SWITCH, seen.routes)) == writes


@pytest.mark.parametrize(
    ("intent", "read", "words"),
    [
        (SWITCH, False, "has not read"),
        (msgspec.structs.replace(SWITCH, resource_version="2/5"), True, "has changed since the decision"),
        (msgspec.structs.replace(SWITCH, resource_version="3/4"), True, "has changed since the decision"),
    ],
)
async def test_a_decision_on_another_view_is_a_conflict(intent: Intent, read: bool, words: str, world: World) -> None:
    """Of either object: the next pass decides on what is there."""
    seen = seen_with(world, rule_manifest() if read else None)

    with pytest.raises(ApiConflict, match=words):
        render(seen.snapshot, intent, seen.routes)


async def test_a_question_about_it_is_one_about_its_host_once_the_rule_is_read(world: World) -> None:
    """Before that nobody knows which Service that is."""
    before, after = (seen_with(world, rule) for rule in (None, rule_manifest()))

    (first,) = render(before.snapshot, AskService(STABLE), before.routes)
    (second,) = render(after.snapshot, AskService(STABLE), after.routes)

    assert isinstance(first, ReadRoute)
    assert (first.route, second) == (RULE, AskService("web"))

"""Observe: the core sees a subset of a DestinationRule as a Service, read from the rule and from the Service that is its host.

Requests reach the pods that are in both, so the subset says what is missing of either, and which other Rollout has either.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollouts.cluster.decoding import decode_route
from rollouts.cluster.structs import RouteObject
from rollouts.controller.workqueue.inbox import RouteAnswer, ServiceAnswer
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.snapshot import Service, ServiceAbsent, ServiceSeen, ServiceUnasked
from rollouts.core.model.traffic import RouteName
from rollouts.sim.clock import EPOCH_S
from tests.controller.routes import Reading
from tests.controller.world import CART, metadata, replica_set, rollout, service, slice_of, spec_of

pytestmark = pytest.mark.virtual_time

RULE = RouteName("istio", "DestinationRule", "shop", "cart-rule")
STABLE, CANARY = SubsetName("cart-rule", "stable"), SubsetName("cart-rule", "canary")
SUBSETS = {"name": "cart-rule", "stableSubsetName": "stable", "canarySubsetName": "canary"}
ROUTING = {"istio": {"virtualService": {"name": "cart"}, "destinationRule": SUBSETS}}
ABSENT = "DestinationRule cart-rule does not exist; create it or remove it from trafficRouting"


def _rule(*, host: str = "web", managed_by: str = "", stable: Any = None, version: int = 3) -> RouteObject:
    """A DestinationRule whose stable subset has those labels."""
    managed = {"labels": {"rollouts.dev/managed": "true"}, "annotations": {"rollouts.dev/managed-by": managed_by}}
    meta = metadata("cart-rule", version=version, **(managed if managed_by else {}))
    subsets = [{"name": "stable", "labels": {"app": "cart"} if stable is None else stable}, {"name": "canary"}]
    return decode_route(msgspec.json.encode({"metadata": meta, "spec": {"host": host, "subsets": subsets}}))


def _subset(reading: Reading, name: SubsetName = STABLE, *, rule: RouteObject | None = None, why: str = "") -> Service:
    """What is seen of a subset, once the API server has answered for the rule: None for one that is not there, and why."""
    reading.world.rollouts.put("", rollout(spec=spec_of({"setWeight": 50}, trafficRouting=ROUTING)))
    reading.world.inbox.put_route(CART, RULE, RouteAnswer(asked_s=0.0, user=rule, message=why))
    return reading.seen().snapshot.services[name]


def _read(reading: Reading, name: SubsetName = STABLE, *, rule: RouteObject) -> ServiceSeen:
    found = _subset(reading, name, rule=rule)
    assert isinstance(found, ServiceSeen), found
    return found


async def test_before_anybody_asked_for_the_rule_or_for_its_host_nothing_is_known_of_it(reading: Reading) -> None:
    """An object that is in no filtered watch may be there."""
    reading.world.rollouts.put("", rollout(spec=spec_of({"setWeight": 50}, trafficRouting=ROUTING)))
    assert reading.seen().snapshot.services[CANARY] == ServiceUnasked(CANARY)
    assert _subset(reading, CANARY, rule=_rule()) == ServiceUnasked(CANARY)


@pytest.mark.parametrize(("why", "told"), [("", ABSENT), ("no kind DestinationRule", "no kind DestinationRule")])
async def test_without_the_rule_it_is_absent_with_what_to_do(why: str, told: str, reading: Reading) -> None:
    """The API server's own words where it has some: a missing CRD needs another remedy than a missing rule."""
    assert _subset(reading, why=why) == ServiceAbsent(STABLE, EPOCH_S, told)


async def test_without_the_rules_host_it_is_absent_and_the_host_is_named(reading: Reading) -> None:
    """The rule is there, so its own name would send people to the wrong object."""
    reading.world.inbox.put_service(CART, "web", ServiceAnswer(None, asked_s=0.0))
    found = _subset(reading, rule=_rule())

    assert isinstance(found, ServiceAbsent)
    assert "Service web, the host of " in found.message
    assert found.message.endswith("does not exist; create it")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (_rule(host="web.other.svc"), "is not a Service in namespace shop"),
        (
            decode_route(msgspec.json.encode({"metadata": metadata("cart-rule"), "spec": {"host": "web"}})),
            "no subset stable",
        ),
    ],
    ids=["host elsewhere", "no such subset"],
)
async def test_a_rule_that_cannot_be_used_says_why(rule: RouteObject, why: str, reading: Reading) -> None:
    """Its user mends it; nobody creates anything."""
    assert why in _read(reading, rule=rule).problem


OURS: dict[str, Any] = {"managed_by": "cart"}
THEIRS: dict[str, Any] = {"managed_by": "other"}


@pytest.mark.parametrize(
    ("rule", "host", "managed_by", "watched"),
    [
        (OURS, OURS, "cart", True),
        (OURS, {}, "", False),
        ({}, OURS, "", False),
        (OURS, THEIRS, "other", True),
        (THEIRS, OURS, "other", True),
        (OURS, OURS | {"rollouts.dev/revision": "v1"}, "cart", False),
    ],
    ids=[
        "both",
        "the rule alone",
        "the host alone",
        "another has the host",
        "another has the rule",
        "a host of one revision",
    ],
)
async def test_it_is_managed_and_watched_when_both_objects_are(
    rule: dict[str, Any], host: dict[str, Any], managed_by: str, watched: bool, reading: Reading
) -> None:
    """A change of either must wake the Rollout; who else has one of them is named before it is written to."""
    reading.world.services.put("", service("web", **host))
    found = _read(reading, rule=_rule(**rule))

    assert (found.managed_by, found.watched) == (managed_by, watched)


@pytest.mark.parametrize(
    ("labels", "revision", "ready", "selects"),
    [
        ({"app": "cart", "rollouts.dev/revision": "v2"}, "v2", {"v2": 1}, True),
        ({"app": "cart", "rollouts.dev/revision": "v3"}, "v3", {"v3": 0}, True),
        ({"app": "cart"}, "", {"v1": 2, "v2": 1}, True),
        ({"app": "web"}, "", {"v1": 2, "v2": 1}, False),
    ],
    ids=["its pods", "none ready", "any pods", "other pods"],
)
async def test_its_ready_pods_are_those_of_the_host_that_have_its_labels(
    labels: dict[str, str], revision: str, ready: dict[str, int], selects: bool, reading: Reading
) -> None:
    """Its version counts the writes to both objects."""
    for number, name in enumerate(("cart-v1", "cart-v2", "cart-v3"), 1):
        reading.world.replica_sets.put("", replica_set(name, version=number))
    reading.world.services.put("", service("web", version=8, managed_by="cart"))
    reading.world.slices.put("", slice_of("web", "cart-v1-aaaaa", "cart-v1-bbbbb", "cart-v2-ccccc"))
    found = _read(reading, rule=_rule(stable=labels, managed_by="cart"))

    assert (found.revision, found.ready_by_revision) == (revision, ready)
    assert (found.has_selector, found.selects_template, found.resource_version) == (True, selects, "3/8")

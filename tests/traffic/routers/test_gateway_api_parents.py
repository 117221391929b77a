"""Promise: a route of the Gateway API is accepted when each of its parents says so, however it is written; else one is named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rollouts.core.model.traffic import Acceptance, Answer
from rollouts.objects import Manifest
from rollouts.traffic.codec import Objects
from rollouts.traffic.gateway_api.codec import PROVIDER
from tests.traffic.routers.test_gateway_api_routes import GOOD, condition, parent, route, rule

MESH = parent(*GOOD, name="mesh", kind="Service", group="")


ENTRIES = {
    "all": ([parent(*GOOD), MESH], Answer.YES),
    "one missing": ([parent(*GOOD)], Answer.UNKNOWN),
    "none": ([], Answer.UNKNOWN),
    "old generation": ([parent(condition("Accepted", "True", 3), condition("ResolvedRefs", "True", 3)), MESH], Answer.UNKNOWN),
    "refused": ([parent(condition("Accepted", "False", reason="NoMatchingParent")), MESH], Answer.NO),
    "unresolved": ([parent(GOOD[0], condition("ResolvedRefs", "False")), MESH], Answer.NO),
    "in part": ([parent(*GOOD, condition("PartiallyInvalid", "True")), MESH], Answer.NO),
    "whole": ([parent(*GOOD, condition("PartiallyInvalid", "False")), MESH], Answer.YES),
    "dead one": ([parent(condition("Accepted", "True", 1)), parent(*GOOD), MESH], Answer.YES),
    "namesake": ([parent(*GOOD, namespace="elsewhere"), MESH], Answer.UNKNOWN),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "answer"), ENTRIES.values(), ids=ENTRIES)
def test_accepted_is_what_every_parent_says_of_this_generation(entries: list[Manifest], answer: Answer) -> None:
    """A controller that is gone leaves its entry for ever, and a parent of the same name elsewhere is another one."""
    situation = route(rule(), status={"parents": entries})

    assert PROVIDER.accepted(situation.objects, situation.target).answer is answer


def attached(*parents: Manifest, entries: Sequence[Manifest]) -> Acceptance:
    """What the status of a route with these parents is taken for."""
    one = route(rule(), status={"parents": list(entries)})
    user = {**one.objects.user, "spec": {**one.objects.user["spec"], "parentRefs": list(parents)}}
    return PROVIDER.accepted(Objects(user), one.target)


MESHES: Sequence[Manifest] = [
    {"group": group, "kind": "Service", "name": "cart", **more}
    for group in ("", "core")
    for more in ({}, {"namespace": "shop"}, {"port": 80}, {"sectionName": ""})
]


@pytest.mark.parametrize("reported", MESHES, ids=str)
@pytest.mark.parametrize("parent_ref", MESHES, ids=str)
def test_a_service_as_a_parent_is_the_same_with_every_way_to_write_it(parent_ref: Manifest, reported: Manifest) -> None:
    """Linkerd reports `group: core` for the group that people write as "", and controllers differ in which defaults they repeat.

    An entry that names a port says nothing about the whole Service; one without speaks for all of its ports.
    """
    found = attached(parent_ref, entries=[{"parentRef": reported, "conditions": GOOD}])

    part_of_it = "port" in reported and "port" not in parent_ref
    assert found.answer is (Answer.UNKNOWN if part_of_it else Answer.YES)


@pytest.mark.parametrize(
    ("parent_ref", "reported"),
    [
        (
            {"name": "web"},
            {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "shop", "name": "web"},
        ),
        ({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}, {"name": "web"}),
        ({"name": "web", "sectionName": "https"}, {"name": "web", "sectionName": "https", "namespace": "shop"}),
        ({"name": "web", "sectionName": "https"}, {"name": "web"}),
        ({"name": "web", "port": 443}, {"name": "web"}),
        ({"name": "web", "namespace": None, "sectionName": None, "port": None}, {"name": "web", "namespace": ""}),
    ],
    ids=str,
)
def test_defaults_of_a_parent_may_be_written_out_or_not(parent_ref: Manifest, reported: Manifest) -> None:
    """A controller may report what the API server would have filled in, or leave out what is the default."""
    assert attached(parent_ref, entries=[{"parentRef": reported, "conditions": GOOD}]).answer is Answer.YES


@pytest.mark.parametrize(
    "reported",
    [
        {"name": "other"},
        {"name": "web", "namespace": "elsewhere"},
        {"name": "web", "kind": "Service", "group": ""},
        {"name": "web", "group": ""},
        {"name": "web", "sectionName": "http"},
        {"name": "web", "sectionName": "https", "port": 80},
    ],
    ids=str,
)
def test_another_parent_is_not_taken_for_it(reported: Manifest) -> None:
    """What one listener took says nothing about another one."""
    wanted = {"name": "web", "sectionName": "https", "port": 443}

    assert attached(wanted, entries=[{"parentRef": reported, "conditions": GOOD}]).answer is Answer.UNKNOWN


def test_the_parent_that_has_not_reported_is_named() -> None:
    """One of two has taken the route: who looks for the other must not look at the one that works."""
    two = [{"name": "inside"}, {"name": "web", "namespace": "edge", "sectionName": "https"}]

    found = attached(*two, entries=[{"parentRef": two[0], "conditions": GOOD}])

    assert found.answer is Answer.UNKNOWN
    assert found.message.startswith("Gateway edge/web (https) has not reported anything yet")

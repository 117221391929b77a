"""Each field of a Service that bends a canary's share or makes a cutover unsafe is told, with what it does.

So is a weight that reaches no client of the Service that is switched: Argo's users write `stableService` and `canaryService`
without a router, and take `setWeight` for a share of requests (argo-rollouts issue 1760).
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.advice.findings import Rule, Severity
from rollouts.core.advice.service_findings import (
    Relation,
    relation_of,
    service_findings,
    service_without_weight,
    weight_findings,
)
from rollouts.core.decide import decide
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Strategy, TrafficRouting
from rollouts.core.model.service_traits import ServiceTraits, read_traits
from rollouts.core.model.status import Condition
from rollouts.core.model.steps import PauseUntilPromoted, SetWeight
from tests.core.model import World, snapshot, spec
from tests.core.model import service as seen_service
from tests.core.worlds import edited, running, settled

LABELS = {"app": "cart", "tier": "web"}
SERVICES = Canary(steps=(SetWeight(50),), max_surge=1, max_unavailable=0, stable_service="cart", canary_service="new")
STICKY = ServiceTraits(client_ip_s=60)


def service(name: str = "cart", **fields: Any) -> dict[str, Any]:
    """A Service of the pods labelled `app: cart`."""
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "cart"}, **fields}}


def severities(relation: Relation, **fields: Any) -> dict[Rule, Severity]:
    """What is found in a Service with these fields; each finding says where, what, and what helps."""
    findings = service_findings(service(**fields), relation=relation)
    assert all(each.path and each.what and each.fix for each in findings)
    return {each.rule: each.severity for each in findings}


MANAGED, SHARED, BESIDE = Relation.MANAGED, Relation.SHARED, Relation.BESIDE
UNSAFE, WARNING = Severity.UNSAFE, Severity.WARNING
OUTSIDE = {"externalTrafficPolicy": "Local", "type": "LoadBalancer"}
DEFAULTS = {
    "type": "ClusterIP", "clusterIP": "10.96.0.7", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
    "publishNotReadyAddresses": False, "externalTrafficPolicy": "Cluster",
}  # fmt: skip
FOUND: dict[str, tuple[dict[str, Any], dict[Relation, dict[Rule, Severity]]]] = {
    "defaults that the API server writes out are nobody's choice": (DEFAULTS, {MANAGED: {}, SHARED: {}}),
    **{
        f"{value}: a zone whose only pod is the canary sends it everything": ({"trafficDistribution": value},
            {SHARED: {Rule.TRAFFIC_DISTRIBUTION: UNSAFE}, MANAGED: {Rule.TRAFFIC_DISTRIBUTION: WARNING}})
        for value in ("PreferClose", "PreferSameZone", "PreferSameNode")
    },
    "there is no way to another node where the last pod leaves": ({"internalTrafficPolicy": "Local"},
        {MANAGED: {Rule.INTERNAL_TRAFFIC_LOCAL: UNSAFE}, SHARED: {Rule.INTERNAL_TRAFFIC_LOCAL: UNSAFE}}),
    "the load balancer learns after the connections were dropped": (OUTSIDE,
        {MANAGED: {Rule.EXTERNAL_TRAFFIC_LOCAL: UNSAFE}, SHARED: {Rule.EXTERNAL_TRAFFIC_LOCAL: WARNING}}),
    "a ClusterIP has no outside": ({**OUTSIDE, "type": "ClusterIP"}, {SHARED: {}}),
    "headless: clients hold addresses of pods": ({"clusterIP": "None"},
        {MANAGED: {Rule.HEADLESS: UNSAFE}, SHARED: {Rule.HEADLESS: WARNING}}),
    "the slices call every pod ready": ({"publishNotReadyAddresses": True}, {MANAGED: {Rule.PUBLISHES_NOT_READY: UNSAFE}}),
    "the revision is a key of the selector": ({"selector": None}, {MANAGED: {Rule.NO_SELECTOR: UNSAFE}}),
    "its clients meet a revision that nobody promoted": ({}, {BESIDE: {Rule.BESIDE_THE_SWITCH: WARNING}}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), FOUND.values(), ids=list(FOUND))
def test_each_field_that_does_harm_is_found(
    fields: dict[str, Any], expected: dict[Relation, dict[Rule, Severity]]
) -> None:
    """By what the Service has to do with the Rollout: where it has one revision there is no share to bend."""
    assert {relation: severities(relation, **fields) for relation in expected} == expected


def test_a_service_outside_the_cluster_is_told_as_one() -> None:
    """A selector would not help an ExternalName: it has no pods."""
    there = settled(running(SERVICES))
    outside = replace(there.services["cart"], traits=ServiceTraits(type="ExternalName"), has_selector=False)
    status = decide(snapshot(replace(there, services={**there.services, "cart": outside}))).status

    assert status.waiting_for is not None
    assert status.waiting_for.reason is Reason.SERVICE_NOT_USABLE
    assert "is of type ExternalName" in status.waiting_for.message
    assert "selector of" not in status.waiting_for.message


@pytest.mark.parametrize(("config", "seconds"), [(None, "10800"), ({"clientIP": {"timeoutSeconds": 60}}, "60")])
def test_session_affinity_is_told_with_its_timeout(config: dict[str, Any] | None, seconds: str) -> None:
    """So long a client sticks to its pod; three hours when nobody said otherwise."""
    (finding,) = service_findings(
        service(sessionAffinity="ClientIP", sessionAffinityConfig=config), relation=Relation.SHARED
    )

    assert (finding.rule, finding.severity) == (Rule.SESSION_AFFINITY, Severity.WARNING)
    assert f"{seconds} s" in finding.what


@pytest.mark.parametrize(
    ("strategy", "name", "relation"),
    [
        (Canary(), "cart", Relation.SHARED),
        (Canary(stable_service="cart", canary_service="other"), "cart", Relation.MANAGED),
        (Canary(stable_service="other"), "cart", Relation.SHARED),
        (Canary(traffic_routing=TrafficRouting(), stable_service="other"), "cart", Relation.BESIDE),
        (BlueGreen(active_service="cart"), "cart", Relation.MANAGED),
        (BlueGreen(active_service="other"), "cart", Relation.BESIDE),
    ],
)
def test_what_a_service_has_to_do_with_a_rollout(strategy: Strategy, name: str, relation: Relation) -> None:
    """Named: it is switched. Not named, and of the same pods: it shows both revisions, which a switch must not be mixed with."""
    assert relation_of(service(name), spec(strategy, template_labels=LABELS)) is relation


@pytest.mark.parametrize("selector", [{"app": "other"}, {"app": "cart", "tier": "db"}, {}, None])
def test_a_service_of_other_pods_is_nobodys_business(selector: dict[str, str] | None) -> None:
    """A namespace has many Services."""
    assert relation_of(service(selector=selector), spec(Canary(), template_labels=LABELS)) is None


def test_the_revision_in_a_selector_is_ours() -> None:
    """A Service that was managed by an earlier spec still selects these pods."""
    managed = service(selector={"app": "cart", "rollouts.dev/revision": "a"})

    assert relation_of(managed, spec(Canary(), template_labels=LABELS)) is Relation.SHARED


@pytest.mark.parametrize("broken", [{}, {"spec": 3}, {"spec": {"selector": 3, "sessionAffinity": "ClientIP"}}])
def test_a_broken_service_raises_nothing(broken: dict[str, Any]) -> None:
    """As in pod templates."""
    assert isinstance(service_findings(broken, relation=Relation.SHARED), tuple)


def with_services(there: World, **traits: ServiceTraits) -> World:
    """The world with those traits given to its Services."""
    given = {name: replace(each, traits=traits.get(str(name), each.traits)) for name, each in there.services.items()}
    return replace(there, services=given)


def unsafe_services(there: World) -> list[Condition]:
    """The condition, if it is there."""
    return [each for each in there.status.conditions if each.type == "ServiceUnsafe"]


def test_a_condition_tells_what_is_found_in_the_services_that_are_switched() -> None:
    """Who does not run `plan` or `lint` reads it from `kubectl describe`: which Service, which field, and the fix.

    A chart gives two Services the same fields: that is said once, as a message of a page is not read.
    """
    there = settled(with_services(running(SERVICES), cart=STICKY, new=ServiceTraits(headless=True)))

    (condition,) = unsafe_services(there)

    assert (condition.status, condition.reason) == (True, Reason.SERVICE_UNSAFE)
    assert "Service cart: spec.sessionAffinity: a client stays with its pod for 60 s" in condition.message
    assert "Service new: spec.clusterIP: a headless Service has no proxy" in condition.message

    (both,) = unsafe_services(settled(with_services(running(SERVICES), cart=STICKY, new=STICKY)))
    assert both.message.startswith("Service cart and new: spec.sessionAffinity: ")
    assert both.message.count("sessionAffinity") == 1


def test_one_event_tells_what_was_found_for_as_long_as_nothing_else_is() -> None:
    """Each Event is a write, and the same one all through an update would be noise."""
    there = settled(edited(with_services(running(SERVICES), cart=STICKY), revision="b"))
    told = [each for each in there.notices if each.reason is Reason.SERVICE_UNSAFE]
    more = settled(with_services(there, cart=replace(STICKY, publish_not_ready_addresses=True)))

    assert [each.warning for each in told] == [True]
    assert len([each for each in more.notices if each.reason is Reason.SERVICE_UNSAFE]) == 2


def test_the_condition_goes_with_its_cause() -> None:
    """There only while it is: not for what is mended, given back, or an address or a type of its own, which is no write."""
    sticky = settled(with_services(running(SERVICES), cart=STICKY))
    mended = settled(with_services(sticky, cart=ServiceTraits(type="LoadBalancer")))
    given_back = settled(edited(sticky, strategy=Canary(steps=(SetWeight(50),))))

    assert [len(unsafe_services(there)) for there in (sticky, mended, given_back)] == [1, 0, 0]
    assert decide(snapshot(mended)).status == mended.status


def test_a_manifest_and_a_watch_say_the_same() -> None:
    """`plan` reads manifests, the controller structs: what the API server fills in is no trait."""
    assert read_traits(DEFAULTS) == read_traits({}) == seen_service("cart").traits


BY_PODS = Canary(steps=(SetWeight(90), PauseUntilPromoted()), max_surge=1, max_unavailable=0)
WITH_SERVICES = replace(BY_PODS, stable_service="cart", canary_service="cart-canary")


@pytest.mark.parametrize(
    ("strategy", "service"),
    [
        (WITH_SERVICES, "cart"),
        (replace(BY_PODS, stable_service="cart"), "cart"),
        (BY_PODS, None),
        (replace(BY_PODS, canary_service="cart-canary"), None),
        (replace(WITH_SERVICES, steps=(PauseUntilPromoted(),)), None),
        (replace(WITH_SERVICES, steps=(SetWeight(0), SetWeight(100))), None),
        (replace(WITH_SERVICES, traffic_routing=TrafficRouting()), None),
        (BlueGreen(active_service="cart"), None),
    ],
)
def test_which_weights_reach_nobody(strategy: Strategy, service: str | None) -> None:
    """Those between 0 and 100 % of a strategy that switches a Service and names no router."""
    assert service_without_weight(spec(strategy)) == service
    assert bool(weight_findings(spec(strategy), severity=Severity.WARNING)) is (service is not None)


@pytest.mark.parametrize(("strategy", "told"), [(WITH_SERVICES, True), (BY_PODS, False)])
def test_a_condition_says_it_and_what_to_write(strategy: Canary, told: bool) -> None:
    """It is there before the first step: whoever looks at the Rollout sees it, and nothing is held up by it."""
    there = settled(running(strategy))
    status = decide(snapshot(there)).status

    found = [each for each in status.conditions if each.type == "WeightWithoutEffect"]
    assert [(each.status, each.reason) for each in found] == [(True, Reason.WEIGHT_WITHOUT_EFFECT)] * told
    assert all("Service cart selects the stable revision alone" in each.message for each in found)
    assert all("name the router" in each.message for each in found)
    assert status.phase == "Healthy"

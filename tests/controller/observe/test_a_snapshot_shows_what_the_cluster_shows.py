"""Observe: store and inbox to core values, nothing guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.controller.observe.observer import Gone, Observer, Seen, Unreadable
from rollouts.controller.workqueue.inbox import ServiceAnswer
from rollouts.controller.workqueue.managed import ManagedServices
from rollouts.core.model.service_traits import ServiceTraits, read_traits
from rollouts.core.model.snapshot import ServiceAbsent, ServiceSeen, ServiceUnasked, Snapshot
from rollouts.objects import REPLICA_SET, SERVICE
from rollouts.sim.clock import EPOCH_S, run_virtual
from tests.controller.world import CART, World, metadata, obj, owned, replica_set, rollout, service, slice_of

SPEC = {
    "replicas": 2,
    "selector": {"matchLabels": {"app": "cart"}},
    "strategy": {"blueGreen": {"activeService": "web"}},
    "template": {"metadata": {"labels": {"app": "cart"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}},
}


def observed(arrange: Callable[[World, ManagedServices], None]) -> Any:
    """What is observed of Rollout cart after `arrange`."""
    found: list[Any] = []

    async def main() -> None:
        world, managed = World(), ManagedServices()
        arrange(world, managed)
        observer = Observer(store=world.store, inbox=world.inbox, managed=managed, clock=world.clock)
        found.append(observer.observe(CART))

    run_virtual(main())
    return found[0]


def snapshot(arrange: Callable[[World, ManagedServices], None]) -> Snapshot:
    """The same for a Rollout that can be carried out."""
    seen = observed(arrange)
    assert isinstance(seen, Seen)
    return seen.snapshot


def test_no_rollout_is_gone() -> None:
    """A key may outlive its object."""
    assert observed(lambda _world, _managed: None) == Gone()


def test_a_spec_that_cannot_be_read_is_a_value() -> None:
    """A user's mistake is no exception: status, and nothing else, is written about it."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec={"replicas": -1}, status={"stableRevision": "v1"}))

    seen = observed(arrange)

    assert isinstance(seen, Unreadable)
    assert seen.snapshot.status.stable_revision == "v1"
    assert "spec.replicas" in [problem.path for problem in seen.problems]


def test_replica_sets_are_those_that_the_rollout_s_uid_controls() -> None:
    """A Rollout that was deleted and made again must not take over its namesake's pods."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC, uid="new-uid"))
        world.replica_sets.put("", replica_set("cart-v1"))

    assert snapshot(arrange).replica_sets == ()


@pytest.mark.parametrize(
    "lie",
    [
        {"name": "other"},
        {"kind": "Deployment"},
        {"apiVersion": "apps/v1"},
        {"apiVersion": "rollouts.development/v1"},
        {"controller": False},
        {"uid": "someone's"},
    ],
)
def test_a_replica_set_whose_owner_reference_lies_is_nobodys(lie: dict[str, Any]) -> None:
    """All of a reference has to be true, not its uid alone, which whoever may read the Rollout knows."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC))
        references = [{**owned()[0], **lie}]
        world.replica_sets.put("", replica_set("cart-v1", ownerReferences=references))

    assert snapshot(arrange).replica_sets == ()


def test_a_replica_set_in_another_namespace_is_nobodys() -> None:
    """Owner references are of one namespace; from elsewhere one blocked an update, and shrank the stable revision."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC))
        world.replica_sets.put("", replica_set("cart-v1", namespace="mallory"))

    assert snapshot(arrange).replica_sets == ()


def test_a_replica_set_has_the_grace_period_with_which_it_was_admitted() -> None:
    """A policy may cap it on the way: what was asked for is in the spec, what its pods get is here."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC))
        capped = {"template": {"spec": {"terminationGracePeriodSeconds": 20}}}
        labels = {"rollouts.dev/name": "cart", "rollouts.dev/revision": "v1"}
        meta = metadata("cart-v1", version=1, ownerReferences=owned(), labels=labels)
        world.replica_sets.put("", obj(REPLICA_SET, {"metadata": meta, "spec": capped}))
        world.replica_sets.put("", replica_set("cart-v2"))

    assert [each.grace_s for each in sorted(snapshot(arrange).replica_sets, key=lambda each: each.name)] == [20, None]


def test_a_replica_set_is_stale_until_its_controller_has_seen_its_spec() -> None:
    """Counts of the size before are no evidence about the size that was asked for."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        status = {"observedGeneration": 1, "replicas": 3, "readyReplicas": 2, "availableReplicas": 1}
        failed = [{"type": "ReplicaFailure", "status": "True", "message": "quota"}]
        world.rollouts.put("", rollout(spec=SPEC))
        world.replica_sets.put("", replica_set("cart-v1", generation=2, status=status))
        world.replica_sets.put("", replica_set("cart-v2", status=status | {"conditions": failed}))

    stale, failing = sorted(snapshot(arrange).replica_sets, key=lambda each: each.name)

    assert (stale.observed, stale.replicas, stale.ready, stale.available) == (False, 3, 2, 1)
    assert (failing.observed, failing.failure) == (True, "quota")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(None, ServiceUnasked("web")), (ServiceAnswer(None, 0.0), ServiceAbsent("web", EPOCH_S))],
)
def test_a_service_that_is_not_watched_is_known_only_by_asking(
    answer: ServiceAnswer | None, expected: ServiceUnasked | ServiceAbsent
) -> None:
    """Not to be in our filtered watch is not to be absent."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC))
        if answer is not None:
            world.inbox.put_service(CART, "web", answer)

    assert snapshot(arrange).services == {"web": expected}


def test_ready_endpoints_are_counted_once_a_pod_and_by_revision() -> None:
    """A dual-stack Service has two slices with the same pods; pods of nobody count as strangers."""

    def arrange(world: World, managed: ManagedServices) -> None:
        selector: dict[str, Any] = {"rollouts.dev/revision": "v2"}
        web = service("web", managed_by="cart", **selector)
        world.rollouts.put("", rollout(spec=SPEC))
        world.replica_sets.put("", replica_set("cart-v1"))
        world.replica_sets.put("", replica_set("cart-v2"))
        world.services.put("", web)
        managed.learn(None, web)
        pods = ("cart-v1-abcde", "cart-v2-fghij", "cart-v2-klmno", "cart-v2-else-pqrst")
        world.slices.put("", slice_of("web", *pods, name="web-ipv4"))
        world.slices.put("", slice_of("web", *pods, name="web-ipv6"))

    seen = snapshot(arrange).services["web"]

    assert isinstance(seen, ServiceSeen)
    assert (seen.revision, seen.managed_by, seen.watched, seen.selects_template) == ("v2", "cart", True, True)
    assert seen.ready_by_revision == {"v1": 1, "v2": 2, "": 1}


def test_the_fields_that_bend_traffic_are_seen_as_a_manifest_has_them() -> None:
    """`rollouts plan` reads them from a manifest: a condition that said something else would be one too many."""
    fields = {
        "selector": {"app": "cart"},
        "type": "NodePort",
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "internalTrafficPolicy": "Local",
        "externalTrafficPolicy": "Local",
        "trafficDistribution": "PreferClose",
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
    }

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC))
        world.services.put("", obj(SERVICE, {"metadata": metadata("web"), "spec": fields}))

    seen = snapshot(arrange).services["web"]

    assert isinstance(seen, ServiceSeen)
    assert seen.traits == read_traits(fields)
    assert seen.traits == ServiceTraits(
        type="NodePort",
        headless=True,
        publish_not_ready_addresses=True,
        internal_traffic_policy="Local",
        external_traffic_policy="Local",
        traffic_distribution="PreferClose",
        client_ip_s=60,
    )


def test_a_service_that_we_steer_is_seen_though_the_spec_no_longer_names_it() -> None:
    """It has to be given back."""

    def arrange(world: World, managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC))
        old = service("old", managed_by="cart")
        world.services.put("", old)
        managed.learn(None, old)

    assert set(snapshot(arrange).services) == {"web", "old"}


def test_a_selector_that_does_not_match_the_template_is_seen() -> None:
    """Steering it would take it away from the pods that it was made for."""

    def arrange(world: World, _managed: ManagedServices) -> None:
        world.rollouts.put("", rollout(spec=SPEC))
        world.services.put("", service("web", managed_by="cart", tier="front"))

    seen = snapshot(arrange).services["web"]

    assert isinstance(seen, ServiceSeen)
    assert (seen.selects_template, seen.has_selector) == (False, True)

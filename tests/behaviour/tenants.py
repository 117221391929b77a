"""A tenant who may write anything in a namespace of his own, and means harm to the one in `KEY.namespace`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from rollouts.manifests.ownership import ALLOW_FROM, BESIDE, MANAGED, MANAGED_BY, NAME, REVISION, ROUTER
from rollouts.objects import ENDPOINT_SLICE, POD, REPLICA_SET, ROLLOUT, Kind, Manifest
from rollouts.traffic.codec import LEDGER
from tests import build
from tests.behaviour.routed import http_route
from tests.behaviour.scenarios import canary, rollout, service
from tests.behaviour.stage import KEY, Stage

MALLORY = "mallory"
VICTIM = f"{KEY.namespace}/{KEY.name}"

Attack: TypeAlias = Callable[[Stage], tuple[Manifest, ...]]
"""What the attacker writes, given what he can see: everything."""


def at_home(manifest: Manifest, **metadata: Any) -> Manifest:
    """The same object in the attacker's namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": MALLORY, **metadata}}


def _owner(of: Kind, name: str, uid: str) -> Manifest:
    return {"apiVersion": of.api_version, "kind": of.kind, "name": name, "uid": uid, "controller": True}


def _marks(managed_by: str, **more: str) -> Manifest:
    annotations = {MANAGED_BY: managed_by, ROUTER: "gatewayAPI", **more}
    return {"labels": {MANAGED: "true"}, "annotations": annotations}


EVIL = [{"name": "app", "image": "evil:1"}]


def replica_sets(stage: Stage) -> tuple[Manifest, ...]:
    """One for every revision of the victim's, and one of a revision of his own, with the victim's uid as its owner."""
    theirs = [each["metadata"] for each in stage.cluster.list(REPLICA_SET, KEY.namespace)]
    named = {each["name"]: each["labels"][REVISION] for each in theirs} | {"web-evil": "evil"}
    victim = stage.cluster.get(ROLLOUT, KEY.namespace, KEY.name) or {"metadata": {"uid": "unknown"}}
    owner = {**_owner(ROLLOUT, KEY.name, victim["metadata"]["uid"]), "blockOwnerDeletion": True}

    def of(name: str, revision: str) -> Manifest:
        labels = {"app": "web", NAME: KEY.name, REVISION: revision}
        template = {"metadata": {"labels": labels}, "spec": {"containers": EVIL}}
        selector, metadata = {"matchLabels": {REVISION: revision}}, {"labels": labels, "ownerReferences": [owner]}
        return build.replica_set(name, MALLORY, replicas=3, metadata=metadata, selector=selector, template=template)

    return tuple(of(name, revision) for name, revision in named.items())


def marked_route(stage: Stage) -> tuple[Manifest, ...]:
    """A route that says it is managed by the victim's Rollout, half of it on the canary."""
    return (at_home(http_route(stable=50, canary=50), **_marks(VICTIM)),)


def consenting_route(stage: Stage) -> tuple[Manifest, ...]:
    """The same, and its owner, the attacker, even allows it."""
    marks = _marks(VICTIM, **{ALLOW_FROM: KEY.namespace, LEDGER: '{"between":["stable","canary"]}'})
    return (at_home(http_route(stable=0, canary=100), **marks),)


def route_beside(stage: Stage) -> tuple[Manifest, ...]:
    """A route that names the victim's as what is ours beside it, and a Rollout that never was as the one that manages it."""
    marks = _marks("ghost", **{BESIDE: KEY.name})
    return (at_home(http_route(stable=50, canary=50), **marks),)


def services(stage: Stage) -> tuple[Manifest, ...]:
    """Services of the victim's names, with marks of every form."""
    return tuple(
        at_home(service(name), labels={MANAGED: "true"}, annotations={MANAGED_BY: by})
        for name, by in (("stable", KEY.name), ("canary", VICTIM), ("other", VICTIM))
    )


def endpoint_slices(stage: Stage) -> tuple[Manifest, ...]:
    """Slices of the victim's Services, with his pods in them."""
    targets = [
        {"kind": "Pod", "name": name, "namespace": KEY.namespace, "uid": f"uid-of-{name}"}
        for name in (each["metadata"]["name"] for each in stage.cluster.list(POD, KEY.namespace))
    ]
    endpoints = [{"addresses": ["10.9.9.9"], "conditions": {"ready": True}, "targetRef": each} for each in targets]
    shown: Manifest = {"addressType": "IPv4", "endpoints": endpoints, "ports": []}
    marks = {name: {"kubernetes.io/service-name": name, MANAGED: "true"} for name in ("stable", "canary")}
    return tuple(
        build.manifest(ENDPOINT_SLICE, f"{name}-evil", MALLORY, metadata={"labels": labels}, **shown)
        for name, labels in marks.items()
    )


def pods(stage: Stage) -> tuple[Manifest, ...]:
    """Pods that the victim's ReplicaSets are said to own, and that no node will ever run."""

    def of(metadata: Manifest) -> Manifest:
        owner = _owner(REPLICA_SET, metadata["name"], metadata["uid"])
        said = {"labels": metadata["labels"], "ownerReferences": [owner]}
        return build.manifest(POD, f"{metadata['name']}-evil1", MALLORY, metadata=said, spec={"containers": EVIL})

    return tuple(of(each["metadata"]) for each in stage.cluster.list(REPLICA_SET, KEY.namespace))


def _steering(routing: Manifest) -> tuple[Manifest, ...]:
    steps: tuple[Manifest, ...] = ({"setWeight": 90}, {"pause": {}})
    app = rollout(canary(*steps, services=True, trafficRouting=routing))
    return (*(at_home(service(name)) for name in ("stable", "canary")), at_home(app))


def rollout_of_their_route(stage: Stage) -> tuple[Manifest, ...]:
    """A Rollout of the same name, with Services of the same names, that names the victim's route."""
    return _steering({"gatewayAPI": {"httpRoutes": [{"name": KEY.name, "namespace": KEY.namespace}]}})


def rollout_of_their_route_as_declared(stage: Stage) -> tuple[Manifest, ...]:
    """The same through a router that an administrator declared."""
    return _steering({"plugins": {"plain-http": {"name": KEY.name, "namespace": KEY.namespace}}})


def rollout_of_a_path(stage: Stage) -> tuple[Manifest, ...]:
    """A name that leads out of its namespace where it is put into a URL as it is."""
    return _steering({"gatewayAPI": {"httpRoutes": [{"name": f"../../{KEY.namespace}/httproutes/{KEY.name}"}]}})


def namesake(stage: Stage) -> tuple[Manifest, ...]:
    """A Rollout of the same name that is harmless in itself: what is told of one may not be told of the other."""
    return (at_home(rollout(canary({"setWeight": 50}, {"pause": {}}), replicas=1)),)


ATTACKS: dict[str, Attack] = {
    "replica sets with their owner": replica_sets,
    "a route with their mark": marked_route,
    "a route with their mark, allowed": consenting_route,
    "a route with theirs beside it": route_beside,
    "services with their marks": services,
    "endpoint slices of their services": endpoint_slices,
    "pods of their replica sets": pods,
    "a rollout of their route": rollout_of_their_route,
    "a rollout of their route by a declared router": rollout_of_their_route_as_declared,
    "a rollout of a path": rollout_of_a_path,
    "a rollout of the same name": namesake,
}


def strike(stage: Stage, attack: Attack) -> None:
    """The attacker writes it; what the API server refuses, as a name that is none, never comes to be."""
    stage.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MALLORY}})
    for manifest in attack(stage):
        with suppress(ValueError):
            stage.cluster.apply(manifest, manager=MALLORY)

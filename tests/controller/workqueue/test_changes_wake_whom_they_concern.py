"""Triggers: from one change in the cluster to the Rollouts whose decision it may change."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from rollouts.cluster.structs import ConfigMapObject, Metadata, WorkloadObject
from rollouts.controller.configs import contents
from rollouts.controller.workqueue.askers import Askers
from rollouts.controller.workqueue.inbox import ServiceAnswer
from rollouts.controller.workqueue.managed import ManagedNames
from rollouts.controller.workqueue.triggers import Watched
from rollouts.core.model.config import ConfigKind
from rollouts.manifests.ownership import name_label
from rollouts.objects import CONFIG_MAP, DEPLOYMENT, SERVICE, Key
from tests.controller.world import (
    CART,
    World,
    analysis_run,
    metadata,
    obj,
    owned,
    replica_set,
    rollout,
    service,
    slice_of,
    template,
)

pytestmark = pytest.mark.virtual_time

COPY = {"rollouts.dev/name": "cart"}


def woken(
    world: World, before: Watched | None, after: Watched | None, *, managed: str = "", asked: str = ""
) -> set[Key]:
    """Who is woken in a world where Service web is managed by `managed`, and `asked` has asked about it."""
    if managed:
        world.services.put("", service("web", managed_by=managed))
    if asked:
        world.inbox.put_service(Key("shop", asked), "web", ServiceAnswer(None, 0.0))
    return set(world.triggers().keys(before, after))


def config_copy(*, version: int = 1, labels: dict[str, str] | None = COPY) -> ConfigMapObject:
    """A ConfigMap: a copy of Rollout cart's, or, without the label, somebody's."""
    metadata = {"name": "settings-abc", "namespace": "shop", "uid": "m", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": {**metadata, "labels": labels}}, ConfigMapObject)


def deployment(
    *, version: int = 1, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> WorkloadObject:
    """The Deployment that Rollout cart manages."""
    marks = {"annotations": {"rollouts.dev/managed-by": "cart"} | (annotations or {}), "labels": labels or {}}
    return cast(WorkloadObject, obj(DEPLOYMENT, {"metadata": metadata("web", version=version) | marks}))


def running(value: str, phase: str = "Failed") -> dict[str, Any]:
    """The status of a run that has measured this."""
    measurement = {"phase": phase, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:00Z"}
    result = {"name": "a", "phase": "Running", "count": 1, "measurements": [{**measurement, "value": value}]}
    return {"phase": "Running", "startedAt": "2026-01-01T00:00:00Z", "metricResults": [result]}


MEASURED, AGAIN, SUCCESSFUL = running("0.1"), running("0.2"), running("0.1", "Successful")
OF_A_DEPLOYMENT, OF_A_JOB = (
    [{"apiVersion": version, "kind": kind, "name": "cart", "uid": "d", "controller": True}]
    for version, kind in (("apps/v1", "Deployment"), ("batch/v1", "Job"))
)
TILL = Key("shop", "till")
UNREAD = {"deployment.kubernetes.io/desired-replicas": "2", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
BESIDE = {"rollouts.dev/analysis": "background"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, rollout()),
        (rollout(), None),
        (rollout(), rollout(version=2, generation=2)),
        (rollout(), rollout(version=2, annotations={"rollouts.dev/abort": "x"})),
        (rollout(), rollout(version=2, status={"phase": "Healthy"})),
        (None, replica_set()),
        (replica_set(), None),
        (replica_set(), replica_set(version=2, status={"availableReplicas": 1})),
        (None, replica_set(ownerReferences=None)),
        (None, replica_set(ownerReferences=OF_A_DEPLOYMENT)),
        (replica_set(), replica_set(version=2, ownerReferences=None)),
        (None, service("web", managed_by="cart")),
        (service("web", managed_by="cart"), service("web", managed_by="cart", version=2, extra="1")),
        (service("web", managed_by="cart"), None),
        (deployment(), deployment(version=2, annotations={"deployment.kubernetes.io/revision": "2"})),
        (deployment(), deployment(version=2, labels={"rollouts.dev/own-fields": "s1"})),
        (None, config_copy()),
        (config_copy(), None),
        (config_copy(), config_copy(version=2)),
        (None, analysis_run()),
        (analysis_run(), None),
        (analysis_run(), analysis_run(version=2, status={"phase": "Running"})),
        (analysis_run(), analysis_run(version=2, spec={"terminate": True})),
        (analysis_run(), analysis_run(version=2, deletionTimestamp="2026-01-01T00:00:00Z")),
        (analysis_run(), analysis_run(version=2, labels={})),
        (analysis_run(ownerReferences=[]), analysis_run(version=2)),
        (analysis_run(), analysis_run(version=2, ownerReferences=[])),
        (analysis_run(status=MEASURED), analysis_run(version=2, status=AGAIN)),
    ],
)
async def test_a_change_of_what_a_decision_reads_wakes_its_rollout(before: Any, after: Any, world: World) -> None:
    """A missed wake-up is a Rollout that stands still."""
    assert woken(world, before, after) == {CART}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (rollout(), rollout(version=2)),
        (rollout(), rollout(version=2, managedFields=[{"manager": "somebody"}])),
        (replica_set(), replica_set(version=2)),
        (replica_set(), replica_set(version=2, status={"fullyLabeledReplicas": 2})),
        (replica_set(), replica_set(version=2, annotations=UNREAD)),
        (deployment(), deployment(version=2, annotations=UNREAD)),
        (deployment(), deployment(version=2, labels={"team": "shop"})),
        (None, replica_set(ownerReferences=OF_A_DEPLOYMENT, labels={})),
        (None, replica_set(ownerReferences=None, labels={})),
        (None, analysis_run(ownerReferences=OF_A_JOB)),
        (service(managed_by="cart"), service(managed_by="cart", version=2)),
        (slice_of("web", "a"), slice_of("web", "a", version=2)),
        (analysis_run(), analysis_run(version=2)),
        (analysis_run(), analysis_run(version=2, annotations={"a": "b"}, status={"runSummary": {"count": 1}})),
        (analysis_run(labels=BESIDE, status=MEASURED), analysis_run(labels=BESIDE, version=2, status=AGAIN)),
        (analysis_run(status=SUCCESSFUL), analysis_run(version=2, status=running("0.2", "Successful"))),
        (None, analysis_run(ownerReferences=[])),
        (None, config_copy(labels=None)),
        (config_copy(labels=None), config_copy(labels=None, version=2)),
    ],
)
async def test_a_change_that_no_decision_reads_wakes_nobody(before: Any, after: Any, world: World) -> None:
    """Every pass costs CPU; managedFields change with every write of anybody, and a Deployment's pods may have our label."""
    assert woken(world, before, after, managed="cart") == set()


async def test_a_rollout_whose_name_is_too_long_for_a_label_is_woken_too(world: World) -> None:
    """Its ReplicaSets carry the beginning of its name and a hash."""
    name = "cart" * 20
    labels = {"rollouts.dev/name": name_label(name), "rollouts.dev/revision": "v1"}
    world.rollouts.put("", rollout(name))

    assert woken(world, None, replica_set(ownerReferences=None, labels=labels)) == {Key("shop", name)}


@pytest.mark.parametrize(
    ("before", "after", "known", "wakes"),
    [
        (service(managed_by="cart"), service(managed_by="till", version=2), {}, {CART, TILL}),
        (None, service("web", managed_by="till"), {"asked": "cart"}, {CART, TILL}),
        (slice_of("web", "a"), slice_of("web", "a", "b", version=2), {"managed": "cart"}, {CART}),
        (None, analysis_run(ownerReferences=owned("other", "o")), {}, {Key("shop", "other")}),
    ],
    ids=["a Service changes hands", "one that somebody asked about", "endpoints of one that is steered", "a run"],
)
async def test_a_change_wakes_whoever_has_to_do_with_the_object(
    before: Any, after: Any, known: dict[str, str], wakes: set[Key], world: World
) -> None:
    """The one that lost a Service must say so; that it has switched is confirmed by its EndpointSlices."""
    assert woken(world, before, after, **known) == wakes


async def test_what_cannot_be_read_wakes_whom_its_version_before_names(world: World) -> None:
    """Its annotations may be the part that cannot be read."""
    world.services.put("", service(managed_by="cart"))

    assert world.triggers().keys_of_unreadable(SERVICE, Metadata(name="web", namespace="shop")) == {CART}
    assert world.triggers().keys_of_unreadable(SERVICE, Metadata(name="other", namespace="shop")) == frozenset()


def test_the_index_of_managed_services_follows_every_change() -> None:
    """It replaces a scan over all Services in every pass."""
    managed = ManagedNames()
    mine, yours = service(managed_by="cart"), service(managed_by="till", version=2)
    managed.learn(None, mine)
    managed.learn(None, service("api", managed_by="cart"))

    assert managed.of(CART) == ("api", "web")
    managed.learn(mine, yours)
    assert (managed.of(CART), managed.of(TILL)) == (("api",), ("web",))
    managed.learn(yours, None)
    assert managed.of(TILL) == ()


async def test_a_run_of_somebody_elses_under_a_name_that_is_needed_wakes_who_needs_it(world: World) -> None:
    """The Rollout says "delete it": when somebody does, the update goes on at once."""
    world.analyses.askers.asks(CART, [("shop", "cart-run")])
    assert woken(world, analysis_run(ownerReferences=[]), None) == {CART}
    assert woken(world, analysis_run("other-run", ownerReferences=[]), None) == set()


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        (None, template(), {CART}),
        (template(), None, {CART}),
        (template(), template(version=2, dryRun=[]), {CART}),
        (template(), template(version=2), set()),
        (None, template("latency"), set()),
        (None, template(cluster=True), set()),
    ],
)
async def test_a_template_wakes_whoever_depends_on_it(before: Any, after: Any, wakes: set[Key], world: World) -> None:
    """Nobody else: there may be a thousand Rollouts, and a template may be edited every second."""
    world.analyses.askers.asks(CART, [("shop", "errors")])
    assert woken(world, before, after) == wakes


def test_who_depends_on_a_template_no_longer_is_forgotten() -> None:
    """Updates come and go for years in one process."""
    askers, other = Askers[tuple[str, str]](), Key("shop", "other")
    askers.asks(CART, [("shop", "a"), ("", "b")])
    askers.asks(other, [("shop", "a")])

    askers.asks(CART, [("", "b"), ("", "c")])

    assert [askers.of(("shop", "a")), askers.of(("", "b")), askers.of(("", "c"))] == [{other}, {CART}, {CART}]
    askers.asks(CART, ())
    askers.asks(other, ())
    askers.asks(other, ())
    assert [askers.of(("shop", "a")), askers.of(("", "b")), askers.of(("", "c"))] == [set(), set(), set()]


@pytest.mark.parametrize(
    ("before", "after", "wakes"),
    [
        (None, {}, {CART}),
        ({}, None, {CART}),
        ({}, {"resourceVersion": "2"}, {CART}),
        (None, {"name": "other"}, set()),
        (None, {"name": "other", "labels": {"rollouts.dev/name": "web"}}, {Key("shop", "web")}),
        (None, {"namespace": "elsewhere"}, set()),
    ],
    ids=["comes", "goes", "another version", "nobody names it", "a copy", "in another namespace"],
)
async def test_a_configmap_wakes_who_names_it_and_whose_copy_it_is(
    before: dict[str, str] | None, after: dict[str, Any] | None, wakes: set[Key], world: World
) -> None:
    """The watch shows no content: whether another version has another one is what a read says."""

    def config_map(more: dict[str, Any] | None) -> Any:
        return None if more is None else obj(CONFIG_MAP, {"metadata": metadata("app-config") | more})

    world.contents.askers.asks(CART, [(ConfigKind.CONFIG_MAP, "shop", "app-config")])
    assert woken(world, config_map(before), config_map(after)) == wakes


def test_what_was_read_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again when it is needed."""
    monkeypatch.setattr(contents, "KEPT_MAX", 2)
    known = contents.Contents()
    read = contents.ContentRead(uid="u", resource_version="1", content="abc", immutable=False)
    a, b, c = ((ConfigKind.CONFIG_MAP, "shop", name) for name in "abc")
    known.put(a, read)
    known.put(b, read)
    known.get(a)

    known.put(c, read)

    assert [known.get(each) for each in (a, b, c)] == [read, None, read]

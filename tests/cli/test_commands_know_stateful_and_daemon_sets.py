"""Promise: commands show and plan the pods of a StatefulSet and of a DaemonSet in place, and name kubectl's commands for them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from rollouts.objects import CONTROLLER_REVISION, DAEMON_SET, POD, ROLLOUT, STATEFUL_SET, Kind, Manifest
from rollouts.sim.storage.registry import NODE
from tests import build
from tests.cli.in_place import LABELS, apply, objects
from tests.cli.shop import Shop

pytestmark = pytest.mark.parametrize("kind", [STATEFUL_SET, DAEMON_SET], ids=lambda kind: kind.kind)

STEPS = [{"setWeight": 25}, {"pause": {}}, {"setWeight": 100}, {"pause": {}}]
SIZES = {
    STATEFUL_SET: [(1, 3), (1, 3), (3, 1), (3, 1), (4, 0)],  # cart-0 stays until the steps are over
    DAEMON_SET: [(1, 3), (1, 3), (4, 0), (4, 0), (4, 0)],
}
LEFT = {
    STATEFUL_SET: ("with its partition", '{"rollingUpdate": {"partition": 0}}'),
    DAEMON_SET: ("with OnDelete", '{"type": "RollingUpdate"}'),
}
"""As what a workload stays when its Rollout goes in a step, and the fields with which it goes on."""

HOME = {"daemons": "here"}


def workload(kind: Kind, tag: str) -> Manifest:
    """The user's manifest of four pods, or of a pod on each of four nodes."""
    on_nodes = {"nodeSelector": HOME} if kind is DAEMON_SET else {}
    spec: Manifest = {
        "selector": {"matchLabels": LABELS},
        "template": build.pod_template("cart", image=f"cart:{tag}", **on_nodes),
    }
    if kind is STATEFUL_SET:
        spec |= {"replicas": 4, "serviceName": "cart"}
    return build.manifest(kind, "cart", metadata={"labels": LABELS}, spec=spec)


def rollout(kind: Kind) -> Manifest:
    """The Rollout that steps it."""
    named = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "cart", "mode": "InPlace"}
    return build.manifest(ROLLOUT, "cart", spec={"workloadRef": named, "strategy": {"canary": {"steps": STEPS}}})


async def at_rest(shop: Shop, kind: Kind) -> Shop:
    """The shop with the workload rolled out, and its Rollout."""
    assert shop.stage.sim is not None
    for number in range(4 if kind is DAEMON_SET else 0):
        shop.stage.sim.apply(build.manifest(NODE, f"d{number}", None, metadata={"labels": HOME}))
    apply(shop, workload(kind, "1"))
    apply(shop, rollout(kind))
    await shop.reaches("Healthy")
    return shop


def revisions(shop: Shop) -> list[str]:
    """The revisions of the workload by their labels on its pods, the newest first."""
    found = Counter(each["metadata"]["labels"]["controller-revision-hash"] for each in objects(shop, POD))
    numbers = {each["metadata"]["name"]: each["revision"] for each in objects(shop, CONTROLLER_REVISION)}
    return sorted(found, key=lambda each: -next(number for name, number in numbers.items() if name.endswith(each)))


def sizes(plan: dict[str, Any]) -> list[tuple[int, int]]:
    """New and old pods at the end of each step."""
    return [(step["pods"]["new"], step["pods"]["old"]) for step in plan["steps"]]


async def test_what_is_planned_is_what_happens(empty: Shop, kind: Kind) -> None:
    """From the file alone, at rest, and in a step; only a cluster says on how many nodes a DaemonSet runs."""
    if kind is DAEMON_SET:
        said = await empty.plan(workload(kind, "1"), rollout(kind), code=4)
        assert "DaemonSet cart is not in the cluster" in said.err
    else:
        assert sizes(await empty.planned(workload(kind, "1"), rollout(kind))) == SIZES[kind]
    shop = await at_rest(empty, kind)
    (old,) = revisions(shop)
    plan = await shop.planned(workload(kind, "2"), rollout(kind))
    assert (plan["inPlace"], plan["replicas"], sizes(plan)) == (f"{kind.kind} cart", 4, SIZES[kind])
    assert plan["revision"] == {
        "template": "(next)", "current": old, "stable": old, "target": "(next)", "changes": True,
    }  # fmt: skip
    same = await shop.planned(workload(kind, "1"), rollout(kind))
    assert (same["revision"]["changes"], same["supposed"], sizes(same)) == (False, True, SIZES[kind])
    apply(shop, workload(kind, "2"))
    await shop.reaches("Paused")
    new, _ = revisions(shop)
    plan = await shop.planned(rollout(kind))
    assert (plan["revision"]["target"], plan["revision"]["stable"], sizes(plan)) == (new, old, SIZES[kind][1:])
    found = Counter(each["metadata"]["labels"]["controller-revision-hash"] for each in objects(shop, POD))
    assert (found[new], found[old]) == SIZES[kind][1]


async def test_commands_show_its_pods_and_revisions(empty: Shop, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to type where kubectl does the work."""
    monkeypatch.setenv("COLUMNS", "200")
    shop = await at_rest(empty, kind)
    apply(shop, workload(kind, "2"))
    await shop.reaches("Paused")
    new, old = revisions(shop)
    tree = (await shop.run("get", "cart")).out
    assert f"Updates  {kind.kind} cart in place" in tree
    assert "4 desired, 4 ready, 4 available, 1 updated" in tree
    assert [name for each in objects(shop, POD) if (name := each["metadata"]["name"]) not in tree] == []
    history = (await shop.run("history", "cart")).out
    assert [line.split()[:2] for line in history.splitlines()[1:]] == [["#2", new], ["#1", old]]
    assert "+  - image: cart:2" in (await shop.run("diff", "cart", code=1)).out
    of_kubectl = f"{kind.kind.lower()}/cart"
    assert f"kubectl rollout restart {of_kubectl}" in (await shop.run("restart", "cart", code=1)).err
    await (_taken_back if kind is STATEFUL_SET else _kept_by_an_abort)(shop, new, old)
    goes_on, fields = LEFT[kind]
    patch = f'{{"spec": {{"updateStrategy": {fields}}}}}'
    kubectl = f"kubectl patch {kind.kind.lower()} cart -n {shop.namespace} --type merge -p '{patch}'"
    deleted = (await shop.run("delete", "cart", "--yes")).out
    assert f"{kind.kind} cart is left {goes_on} in its update: to go on with it: {kubectl}" in deleted


async def _taken_back(shop: Shop, new: str, old: str) -> None:
    """A StatefulSet goes back by its partition; names of its revisions have a hyphen, and are told whole."""
    assert f"rolls back from revision {new} to revision {old}" in (await shop.run("undo", "cart")).out
    await shop.reaches("RolledBack")
    tree = (await shop.run("get", "cart")).out
    assert re.search(rf"rolled back from revision {new} to {old} \(RolledBack\)", tree)
    assert f"rollback cart -n {shop.namespace} --to {new}" in tree


async def _kept_by_an_abort(shop: Shop, new: str, old: str) -> None:
    """Nodes of a DaemonSet keep what they have until it has the template of before."""
    undo = "kubectl rollout undo daemonset/cart --to-revision=1"
    assert undo in (await shop.run("rollback", "cart", "--to", old, code=1)).err
    said = (await shop.run("abort", "cart")).out
    assert f"aborts revision {new}; the nodes that have it keep it, and no other node gets it" in said
    await shop.reaches("Aborted")

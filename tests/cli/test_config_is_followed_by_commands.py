"""Promise: an edit of a ConfigMap is seen, compared, promoted and taken back by commands, with the real controller."""

from __future__ import annotations

import json
from collections.abc import Callable

from rollouts.cli.demo.manifests import rollout
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.objects import RolloutObjects, revision_of, status_of
from rollouts.core.model.status import RolloutStatus
from rollouts.objects import CONFIG_MAP, Manifest
from rollouts.ports import MERGE_PATCH
from tests.cli.configured import config_map
from tests.cli.shop import STEPS, Shop
from tests.patience import PATIENCE_S

APP = config_map("app", {"LEVEL": "info", "SAME": "1"})


def configured() -> Manifest:
    """The Rollout cart, whose pods take their environment from the ConfigMap app."""
    manifest = rollout("", "cart", STEPS)
    manifest["spec"] |= {"replicas": 2, "configVersioning": {"settleSeconds": 0}}
    manifest["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "app"}}]
    return manifest


async def begun(there: Shop) -> None:
    """The Rollout of the stage reads the ConfigMap, and is Healthy."""
    await there.stage.session.client.create(CONFIG_MAP, there.namespace, APP)
    await there.stage.change("cart", [{"op": "replace", "path": "/spec", "value": configured()["spec"]}])
    await there.reaches("Paused")
    await there.run("promote", "cart", "--full")
    await there.reaches("Healthy")


async def edit(there: Shop, level: str) -> None:
    """What `kubectl edit configmap app` does."""
    patch = {"data": {"LEVEL": level}}
    await there.stage.session.client.patch(CONFIG_MAP, there.stage.namespace, "app", patch, MERGE_PATCH)


def copies(seen: RolloutObjects) -> dict[str, str]:
    """The copy of the ConfigMap app that each revision has."""
    return {revision_of(each): use.copy for each in seen.replica_sets for use in uses_of(each)}


async def reaches(there: Shop, what: str, holds: Callable[[RolloutStatus, dict[str, str]], bool]) -> RolloutObjects:
    """Waits until this holds of the status, and of the copy that each revision has."""
    return await there.stage.until(
        "cart", lambda now: holds(status_of(now.rollout), copies(now)), deadline_s=PATIENCE_S, what=what
    )


async def test_an_edit_is_planned_seen_compared_and_taken_back(healthy: Shop) -> None:
    """What docs/config.md promises to a person at a terminal, command by command."""
    await begun(healthy)
    edited = {**APP, "data": {"LEVEL": "debug", "SAME": "1"}}
    (impact,) = json.loads((await healthy.plan(edited, words=("-o", "json"))).out)["configMaps"]
    assert (impact["changedKeys"], impact["starts"]) == (["LEVEL"], ["cart"])

    await edit(healthy, "debug")
    seen = await reaches(
        healthy, "a canary with the new content", lambda now, of: now.phase == "Paused" and len(set(of.values())) == 2
    )
    status = status_of(seen.rollout)
    stable, canary = (copies(seen)[each] for each in (status.stable_revision, status.current_revision))

    tree = (await healthy.run("get", "cart")).out
    assert f"ConfigMap app → {canary}" in tree and f"ConfigMap app → {stable}" in tree
    shown = (await healthy.run("config", "diff", "cart", "stable", "canary", code=1)).out.splitlines()
    assert {"-LEVEL: info", "+LEVEL: debug"} <= set(shown) and "SAME" not in "".join(shown)

    await healthy.run("promote", "cart")
    await healthy.reaches("Healthy")
    newest = (await healthy.run("history", "cart")).out.splitlines()[1]
    assert newest.split()[0] == "#3" and "app" in newest.split()

    await healthy.run("rollback", "cart")
    back = await reaches(
        healthy, "the old content", lambda now, of: now.phase == "Paused" and of.get(now.current_revision) == stable
    )
    assert status_of(back.rollout).current_revision == status.stable_revision

    await edit(healthy, "trace")
    known = set(copies(back).values())
    after = await reaches(
        healthy, "an edit ends a rollback", lambda now, of: of.get(now.current_revision, stable) not in known
    )
    assert status_of(after.rollout).stable_revision == status.current_revision


async def test_a_plan_of_what_is_there_is_no_update(healthy: Shop) -> None:
    """The plan and the controller work the same revision out of the same contents."""
    manifest = configured()
    del manifest["metadata"]["namespace"]
    await begun(healthy)
    document = json.loads((await healthy.plan(manifest, APP, words=("-o", "json"))).out)

    (plan,) = document["plans"]
    assert plan["revision"]["changes"] is False and plan["revision"]["target"] == plan["revision"]["stable"]
    assert [each["starts"] for each in document["configMaps"]] == [[]]

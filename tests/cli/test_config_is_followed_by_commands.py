"""Promise: an edit of a ConfigMap is seen, compared, promoted and taken back by commands, with the real controller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rollouts.cli.demo.manifests import rollout
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.objects import RolloutObjects, revision_of, status_of
from rollouts.objects import CONFIG_MAP, Manifest
from rollouts.ports import MERGE_PATCH
from tests.cli.configured import config_map
from tests.cli.test_commands_on_a_cluster import PATIENCE_S, STEPS, Shop, shop

Printed = pytest.CaptureFixture[str]
APP = config_map("app", {"LEVEL": "info", "SAME": "1"})


def configured() -> Manifest:
    """The Rollout cart, whose pods take their environment from the ConfigMap app."""
    manifest = rollout("", "cart", STEPS)
    manifest["spec"] |= {"replicas": 2, "configVersioning": {"settleSeconds": 0}}
    manifest["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "app"}}]
    return manifest


async def begun(there: Shop) -> None:
    """The Rollout of the stage reads the ConfigMap, and is Healthy."""
    client, namespace = there.stage.session.client, there.stage.namespace
    await client.create(CONFIG_MAP, namespace, APP)
    spec = configured()["spec"]
    await there.stage.change("cart", [{"op": "replace", "path": "/spec", "value": spec}])
    await there.reaches("Paused")
    assert await there.run("promote", "cart", "--full") == 0
    await there.reaches("Healthy")


async def edit(there: Shop, level: str) -> None:
    """What `kubectl edit configmap app` does."""
    patch = {"data": {"LEVEL": level}}
    await there.stage.session.client.patch(CONFIG_MAP, there.stage.namespace, "app", patch, MERGE_PATCH)


async def waits_with(there: Shop, content: str) -> RolloutObjects:
    """Waits until the canary of a revision with this content is at its pause."""

    def holds(seen: RolloutObjects) -> bool:
        status = status_of(seen.rollout)
        uses = [
            use for each in seen.replica_sets if revision_of(each) == status.current_revision for use in uses_of(each)
        ]
        return status.phase == "Paused" and content in [use.copy for use in uses]

    return await there.stage.until("cart", holds, deadline_s=PATIENCE_S, what=f"a canary with {content}")


def copies(seen: RolloutObjects) -> dict[str, str]:
    """The copy of the ConfigMap app that each revision has."""
    return {revision_of(each): use.copy for each in seen.replica_sets for use in uses_of(each)}


async def test_an_edit_is_planned_seen_compared_and_taken_back(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What docs/config.md promises to a person at a terminal, command by command."""
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "app.yaml"
    file.write_text(yaml.safe_dump({**APP, "data": {"LEVEL": "debug", "SAME": "1"}}), encoding="utf-8")
    async with shop(tmp_path) as there:
        await begun(there)
        capsys.readouterr()
        assert await there.run("plan", "-f", str(file), "-o", "json") == 0
        (impact,) = json.loads(capsys.readouterr().out)["configMaps"]
        assert (impact["changedKeys"], impact["starts"]) == (["LEVEL"], ["cart"])

        await edit(there, "debug")
        seen = await there.stage.until(
            "cart",
            lambda now: status_of(now.rollout).phase == "Paused" and len(set(copies(now).values())) == 2,
            deadline_s=PATIENCE_S,
            what="a canary with the new content",
        )
        status = status_of(seen.rollout)
        stable, canary = (copies(seen)[each] for each in (status.stable_revision, status.current_revision))

        assert await there.run("get", "cart") == 0
        tree = capsys.readouterr().out
        assert f"ConfigMap app → {canary}" in tree and f"ConfigMap app → {stable}" in tree
        assert await there.run("config", "diff", "stable", "canary", "cart") == 1
        shown = capsys.readouterr().out.splitlines()
        assert {"-LEVEL: info", "+LEVEL: debug"} <= set(shown) and "SAME" not in "".join(shown)

        assert await there.run("promote", "cart") == 0
        await there.reaches("Healthy")
        capsys.readouterr()
        assert await there.run("history", "cart") == 0
        newest = capsys.readouterr().out.splitlines()[1]
        assert newest.split()[0] == "3" and "app" in newest.split()

        assert await there.run("rollback", "cart") == 0
        back = await waits_with(there, stable)
        assert status_of(back.rollout).current_revision == status.stable_revision

        await edit(there, "trace")
        known = set(copies(back).values())
        after = await there.stage.until(
            "cart",
            lambda now: copies(now).get(status_of(now.rollout).current_revision, stable) not in known,
            deadline_s=PATIENCE_S,
            what="another revision: an edit ends a rollback",
        )
        assert status_of(after.rollout).stable_revision == status.current_revision


async def test_a_plan_of_what_is_there_is_no_update(tmp_path: Path, capsys: Printed) -> None:
    """The plan and the controller work the same revision out of the same contents."""
    manifest = configured()
    del manifest["metadata"]["namespace"]
    file = tmp_path / "cart.yaml"
    file.write_text(yaml.safe_dump_all([manifest, APP]), encoding="utf-8")
    async with shop(tmp_path) as there:
        await begun(there)
        capsys.readouterr()
        await there.run("plan", "-f", str(file), "-o", "json")
        document = json.loads(capsys.readouterr().out)

    (plan,) = document["plans"]
    assert plan["revision"]["changes"] is False and plan["revision"]["target"] == plan["revision"]["stable"]
    assert [each["starts"] for each in document["configMaps"]] == [[]]

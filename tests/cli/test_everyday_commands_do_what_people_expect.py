"""undo, set image, diff, create, delete and version on a simulated cluster: what they say, what they do, and their exit codes."""

from __future__ import annotations

import re

import pytest

from rollouts.cli.commands.set_image import changes_of, parse_images
from rollouts.cli.commands.version import Versions, lines_of
from rollouts.cli.demo.manifests import FIRST, IMAGE, SECOND, rollout
from rollouts.cli.view.objects import RolloutObjects, images_of, revision_of, status_of
from rollouts.objects import ROLLOUT, Manifest
from tests.cli.command_line import Said
from tests.cli.shop import STEPS, Shop
from tests.cli.test_commands_on_a_cluster import terminal


def image_of_stable(seen: RolloutObjects) -> str:
    """The image that serves."""
    stable = status_of(seen.rollout).stable_revision
    return next(images_of(each)[0] for each in seen.replica_sets if revision_of(each) == stable)


async def updated(there: Shop) -> str:
    """Rolls the second image out by `set image`, to the end; what that has printed."""
    said = await there.run("set", "image", "cart", f"app={IMAGE}:{SECOND}")
    await there.reaches("Paused")
    await there.run("promote", "cart", "--full")
    await there.reaches("Healthy")
    return said.out


async def test_a_bad_release_is_undone_step_by_step_or_at_once(healthy: Shop) -> None:
    """Before anything is written, undo says from where to where, how many steps, how long, and where it stops."""
    said = await updated(healthy)
    assert f"cart: app: {IMAGE}:{FIRST} → {IMAGE}:{SECOND}\n→ kubectl rollouts get cart -w\n" in said

    said = (await healthy.run("undo", "cart")).out
    assert re.match(r"cart: v2 → v1, 2 steps, about \d+ s; it stops at step 1 \(pause until promoted\)\n", said)
    seen = await healthy.reaches("Paused")
    assert image_of_stable(seen) == f"{IMAGE}:{SECOND}", "the steps hold here too"

    assert "goes forward to revision" in (await healthy.run("undo", "cart", "--to-revision", "v2")).out
    await healthy.reaches("Healthy")

    said = (await healthy.run("undo", "cart", "--full")).out
    assert "without its steps" in said and "pass every step" in said
    assert image_of_stable(await healthy.reaches("RolledBack")) == f"{IMAGE}:{FIRST}"


async def test_there_is_nothing_to_undo_before_the_second_revision(healthy: Shop) -> None:
    """A refusal names the reason, and nothing is written."""

    assert "is kept: it is the first one" in (await healthy.run("undo", "cart", code=1)).err
    assert "rollouts.dev/rollback" not in (await healthy.reaches("Healthy")).rollout["metadata"].get("annotations", {})


async def test_revisions_and_files_are_compared(healthy: Shop) -> None:
    """What changed with a revision, and what a file would change, before anybody applies it."""
    await updated(healthy)

    said = (await healthy.run("diff", "cart", code=1)).out
    assert f"-  - image: {IMAGE}:{FIRST}\n+  - image: {IMAGE}:{SECOND}\n" in said
    assert "rollouts.dev/revision" not in said
    assert "are the same" in (await healthy.run("diff", "cart", "2", "stable")).out
    assert "revision 9 is not kept" in (await healthy.run("diff", "cart", "9", code=2)).err

    manifest = rollout(healthy.namespace, "cart", STEPS)
    file = healthy.file({**manifest, "spec": {**manifest["spec"], "replicas": 3}})
    said = (await healthy.run("diff", "-f", file, code=1)).out
    assert "-  replicas: 2\n+  replicas: 3\n" in said and "status" not in said
    assert (await healthy.reaches("Healthy")).rollout["spec"]["replicas"] == 2, "nothing is written"


async def test_files_are_created_unless_lint_finds_a_problem(healthy: Shop) -> None:
    """All or nothing, as far as that can be known beforehand."""
    manifest = rollout(healthy.namespace, "web", STEPS)
    wrong = rollout(healthy.namespace, "mail", {"canary": {"steps": [{"setWeight": 200}]}})
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}

    async def created(*objects: Manifest, code: int = 0) -> Said:
        return await healthy.run("create", "-f", healthy.file(*objects), code=code)

    assert "spec.strategy.canary.steps[0].setWeight" in (await created(manifest, wrong, code=1)).err
    refused = (await created(manifest, other, code=2)).err
    assert "Deployment d is not created here, nor is anything else: use `kubectl create -f`" in refused
    assert "Rollout web created" in (await created(manifest)).out
    again = (await created(manifest, code=4)).err
    assert 'error: the API server refuses it: rollouts.rollouts.dev "web" already exists\n' in again


async def test_a_deletion_says_what_is_lost_and_asks(healthy: Shop) -> None:
    """Enter alone deletes nothing, and a script must say --yes."""
    assert "no terminal to confirm the deletion: add --yes" in (await healthy.run("delete", "cart", code=2)).err
    async with terminal(healthy, "delete", "cart") as asked:
        await asked.shows("with 2 pods, which serve no requests any more, 1 revision, their history and AnalysisRuns")
        asked.types("\n")
        await asked.shows("nothing was deleted")
        assert await asked.ends() == 1
    await healthy.run("delete", "cart", "nobody", "--yes", code=4)  # nothing is deleted when one is not there
    assert healthy.stage.sim is not None and healthy.stage.sim.get(ROLLOUT, healthy.stage.namespace, "cart") is not None
    await healthy.run("delete", "cart", "--yes")
    assert healthy.stage.sim.get(ROLLOUT, healthy.stage.namespace, "cart") is None


async def test_the_versions_are_shown(healthy: Shop) -> None:
    """`--client` asks nobody; else what can be seen of the cluster is beside it."""
    assert len((await healthy.run("version", "--client")).out.splitlines()) == 1
    client, controller, server = (await healthy.run("version")).out.splitlines()

    assert client.startswith("client ") and server.startswith("API server  v1.")
    assert "kubectl rollouts doctor" in controller, "this one runs in the test's process, and no Deployment shows it"


def test_another_version_of_the_controller_is_told_with_the_fix() -> None:
    """A newer program may use fields that an older controller refuses."""
    found = Versions("0.2.0", (("rollouts-system/rollouts", "0.1.0"), ("team/rollouts", "0.2.0")), server="v1.36.1")

    assert lines_of(found, client_only=False)[-1] == (
        "rollouts-system/rollouts and this program have different versions: helm upgrade, or make cli in its source tree"
    )
    hidden = Versions("0.2.0", unseen="cannot be seen: you may not list deployments", server="v1.36.1")
    assert "controller  cannot be seen: you may not list deployments" in lines_of(hidden, client_only=False)


def with_containers(**images: str) -> Manifest:
    """A Rollout with an init container `wait`, and these containers."""
    containers = [{"name": name, "image": image} for name, image in images.items()]
    pod = {"initContainers": [{"name": "wait", "image": "busybox:1"}], "containers": containers}
    return {"metadata": {"name": "cart"}, "spec": {"template": {"spec": pod}}}


def test_every_container_gets_an_image_but_not_the_init_containers() -> None:
    """As `kubectl set image`: a star is for those that run; an init container is named."""
    found = changes_of(with_containers(app="app:1", proxy="envoy:1"), {"*": "app:2", "wait": "busybox:2"})

    assert not isinstance(found, str)
    assert [(each.path.rpartition("spec/")[2], each.before, each.after) for each in found] == [
        ("initContainers/0", "busybox:1", "busybox:2"), ("containers/0", "app:1", "app:2"), ("containers/1", "envoy:1", "app:2"),
    ]  # fmt: skip
    assert found[0].operations()[0] == {
        "op": "test",
        "path": "/spec/template/spec/initContainers/0/name",
        "value": "wait",
    }


def test_an_image_for_no_container_is_refused_with_the_names() -> None:
    """A typo must not become a container."""
    assert changes_of(with_containers(app="app:1"), {"ap": "app:2"}) == (
        "there is no container ap; the containers are wait, app"
    )
    with pytest.raises(ValueError, match="not 'app='"):
        parse_images(["app="])

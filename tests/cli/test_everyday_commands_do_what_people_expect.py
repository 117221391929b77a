"""undo, set image, diff, create, delete and version on a simulated cluster: what they say, what they do, and their exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rollouts.cli.commands.set_image import changes_of, parse_images
from rollouts.cli.commands.version import Versions, lines_of
from rollouts.cli.demo.manifests import FIRST, IMAGE, SECOND, rollout
from rollouts.cli.view.objects import RolloutObjects, images_of, revision_of, status_of
from rollouts.objects import ROLLOUT, Manifest
from tests.cli.test_commands_on_a_cluster import STEPS, Shop, shop, terminal


def image_of_stable(seen: RolloutObjects) -> str:
    """The image that serves."""
    stable = status_of(seen.rollout).stable_revision
    return next(images_of(each)[0] for each in seen.replica_sets if revision_of(each) == stable)


async def updated(there: Shop) -> None:
    """Rolls the second image out by `set image`, to the end."""
    assert await there.run("set", "image", "cart", f"app={IMAGE}:{SECOND}") == 0
    await there.reaches("Paused")
    assert await there.run("promote", "cart", "--full") == 0
    await there.reaches("Healthy")


async def test_a_bad_release_is_undone_step_by_step_or_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is written, undo says from where to where, how many steps, how long, and where it stops."""
    async with shop(tmp_path) as there:
        await updated(there)
        said = capsys.readouterr().out
        assert f"cart: app: {IMAGE}:{FIRST} → {IMAGE}:{SECOND}\n→ kubectl rollouts get cart -w\n" in said

        assert await there.run("undo", "cart") == 0
        said = capsys.readouterr().out
        assert re.match(r"cart: v2 → v1, 2 steps, about \d+ s; it stops at step 1 \(pause until promoted\)\n", said)
        seen = await there.reaches("Paused")
        assert image_of_stable(seen) == f"{IMAGE}:{SECOND}", "the steps hold here too"

        assert await there.run("undo", "cart", "--to-revision", "v2") == 0
        assert "goes forward to revision" in capsys.readouterr().out
        await there.reaches("Healthy")

        assert await there.run("undo", "cart", "--full") == 0
        said = capsys.readouterr().out
        assert "without its steps" in said and "pass every step" in said
        assert image_of_stable(await there.reaches("RolledBack")) == f"{IMAGE}:{FIRST}"


async def test_there_is_nothing_to_undo_before_the_second_revision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refusal names the reason, and nothing is written."""
    async with shop(tmp_path) as there:
        capsys.readouterr()

        assert await there.run("undo", "cart") == 1
        assert "is kept: it is the first one" in capsys.readouterr().err
        assert "rollouts.dev/rollback" not in (await there.reaches("Healthy")).rollout["metadata"].get(
            "annotations", {}
        )


async def test_revisions_and_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What changed with a revision, and what a file would change, before anybody applies it."""
    async with shop(tmp_path) as there:
        await updated(there)
        capsys.readouterr()

        assert await there.run("diff", "cart") == 1
        said = capsys.readouterr().out
        assert f"-  - image: {IMAGE}:{FIRST}\n+  - image: {IMAGE}:{SECOND}\n" in said
        assert "rollouts.dev/revision" not in said
        assert await there.run("diff", "cart", "2", "stable") == 0
        assert "are the same" in capsys.readouterr().out
        assert await there.run("diff", "cart", "9") == 2
        assert "revision 9 is not kept" in capsys.readouterr().err

        file = tmp_path / "cart.yaml"
        manifest = rollout(there.stage.namespace, "cart", STEPS)
        file.write_text(yaml.safe_dump({**manifest, "spec": {**manifest["spec"], "replicas": 3}}))
        assert await there.run("diff", "-f", str(file)) == 1
        said = capsys.readouterr().out
        assert "-  replicas: 2\n+  replicas: 3\n" in said and "status" not in said
        assert (await there.reaches("Healthy")).rollout["spec"]["replicas"] == 2, "nothing is written"


async def test_files_are_created_unless_lint_finds_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All or nothing, as far as that can be known beforehand."""
    async with shop(tmp_path) as there:
        file = tmp_path / "web.yaml"
        manifest = rollout(there.stage.namespace, "web", STEPS)
        wrong = rollout(there.stage.namespace, "mail", {"canary": {"steps": [{"setWeight": 200}]}})
        file.write_text(yaml.safe_dump_all([manifest, wrong]))
        capsys.readouterr()

        assert await there.run("create", "-f", str(file)) == 1
        assert "spec.strategy.canary.steps[0].setWeight" in capsys.readouterr().err
        file.write_text(
            yaml.safe_dump_all([manifest, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}])
        )
        assert await there.run("create", "-f", str(file)) == 2
        assert (
            "Deployment d is not created here, nor is anything else: use `kubectl create -f`" in capsys.readouterr().err
        )
        file.write_text(yaml.safe_dump(manifest))
        assert await there.run("create", "-f", str(file)) == 0
        assert "Rollout web created" in capsys.readouterr().out
        assert await there.run("create", "-f", str(file)) == 4
        assert (
            'error: the API server refuses it: rollouts.rollouts.dev "web" already exists\n' in capsys.readouterr().err
        )


async def test_a_deletion_says_what_is_lost_and_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Enter alone deletes nothing, and a script must say --yes."""
    async with shop(tmp_path) as there:
        assert await there.run("delete", "cart") == 2
        assert "no terminal to confirm the deletion: add --yes" in capsys.readouterr().err
        async with terminal(there, "delete", "cart") as asked:
            await asked.shows(
                "with 2 pods, which serve no requests any more, 1 revision, their history and AnalysisRuns"
            )
            asked.types("\n")
            await asked.shows("nothing was deleted")
            assert await asked.ends() == 1
        assert await there.run("delete", "cart", "nobody", "--yes") == 4, "nothing is deleted when one is not there"
        assert there.stage.sim is not None and there.stage.sim.get(ROLLOUT, there.stage.namespace, "cart") is not None
        assert await there.run("delete", "cart", "--yes") == 0
        assert there.stage.sim.get(ROLLOUT, there.stage.namespace, "cart") is None


async def test_the_versions_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--client` asks nobody; else what can be seen of the cluster is beside it."""
    async with shop(tmp_path) as there:
        capsys.readouterr()
        assert await there.run("version", "--client") == 0
        assert len(capsys.readouterr().out.splitlines()) == 1
        assert await there.run("version") == 0
        client, controller, server = capsys.readouterr().out.splitlines()

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

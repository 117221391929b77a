"""The commands as people type them, on a simulated cluster with the real controller: what they say, do, and exit with."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import AbstractAsyncContextManager

import pytest
import yaml

from rollouts.cli.commands.set_image import changes_of, parse_images
from rollouts.cli.commands.version import Versions, lines_of
from rollouts.cli.demo.manifests import BAD, FIRST, IMAGE, SECOND, rollout, with_image
from rollouts.cli.view.objects import RolloutObjects, images_of, revision_of, status_of
from rollouts.objects import ROLLOUT, Manifest
from tests.cli.command_line import Said
from tests.cli.pseudo_terminal import Terminal, on_a_terminal
from tests.cli.shop import STEPS, Shop


async def test_an_update_is_watched_promoted_and_rolled_back(healthy: Shop) -> None:
    """The life of an update by commands alone, with the exit codes that a script would go by."""
    await healthy.run("status", "cart")
    await healthy.stage.change("cart", with_image(SECOND))
    await healthy.reaches("Paused")

    assert "step 2 of 2 (pause until promoted), weight 50 %" in (await healthy.run("status", "cart", code=3)).out
    assert "not finished after 1 s" in (await healthy.run("status", "cart", "-w", "--timeout", "1s", code=3)).out

    said = (await healthy.run("promote", "cart")).out
    assert "@1: lets revision" in said and "the controller has recorded the command" in said
    await healthy.run("status", "cart", "-w")
    assert "possible" in (await healthy.run("history", "cart")).out
    await healthy.run("rollback", "cart", "--to", "1")
    await healthy.reaches("Paused")
    await healthy.run("promote", "cart", "--full")
    seen = await healthy.reaches("RolledBack")
    assert "rolled back from revision" in (await healthy.run("status", "cart", code=1)).out
    assert image_of_stable(seen) != f"{IMAGE}:{SECOND}"


async def test_an_update_is_aborted_and_retried(healthy: Shop) -> None:
    """No question comes before an abort: it is urgent, a pipeline has nobody to answer, and a retry takes it back."""
    await healthy.stage.change("cart", with_image(BAD))
    await healthy.reaches("Progressing")

    said = (await healthy.run("abort", "cart")).out
    assert "lost: 0 of 2 steps, " in said and "a retry begins again at its first step" in said
    await healthy.run("status", "cart", "-w", code=1)
    await healthy.run("abort", "cart", "--yes")  # an abort that stands is as good as done
    assert "retry it first" in (await healthy.run("promote", "cart", code=1)).err
    await healthy.run("retry", "cart")
    await healthy.run("status", "cart", code=3)


async def test_pause_resume_and_restart_are_recorded(healthy: Shop) -> None:
    """Each command's record is what the CLI waits for, also the absence of one."""
    for words in (("pause", "cart"), ("resume", "cart"), ("restart", "cart")):
        assert "the controller has recorded the command" in (await healthy.run(*words)).out
    await healthy.run("resume", "cart", code=1)


async def test_rollouts_are_listed_and_printed(healthy: Shop) -> None:
    """A table for people, whole manifests for programs."""
    header, row = (await healthy.run("get")).out.splitlines()
    assert header.startswith("NAME") and row.split()[:2] == ["cart", "Healthy"]

    none = await healthy.run("list", "-l", "app=other")
    assert "no Rollouts found in namespace rollouts-demo with labels app=other" in none.err
    await healthy.stage.change("cart", [{"op": "add", "path": "/metadata/labels", "value": {"tier": "web"}}])
    chosen = await healthy.run("list", "-A", "-l", "tier=web")
    assert chosen.out.splitlines()[1].split()[:2] == ["rollouts-demo", "cart"]

    listed = json.loads((await healthy.run("get", "-A", "-o", "json")).out)
    assert [(item["kind"], item["metadata"]["name"]) for item in listed["items"]] == [("Rollout", "cart")]
    document = yaml.safe_load((await healthy.run("get", "cart", "-o", "yaml")).out)
    assert document["status"]["phase"] == "Healthy"
    assert "managedFields" not in document["metadata"]

    tree = (await healthy.run("get", "cart")).out
    assert "stable  2/2 ready" in tree and tree.count(" Ready ") == 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("get", "nobody"), 4, "there is no Rollout nobody in namespace rollouts-demo"),
        (("status", "nobody", "-w"), 4, "there is no Rollout nobody"),
        (("promote", "nobody"), 4, "there is no Rollout nobody in namespace rollouts-demo, nor any other"),
        (("undo", "nobody"), 4, "there is no Rollout nobody"),
        (("set", "image", "nobody", "app=x:1"), 4, "there is no Rollout nobody"),
        (("set", "image", "cart", "app"), 2, "write CONTAINER=IMAGE"),
        (("delete", "nobody"), 2, "no terminal to confirm the deletion: add --yes"),
        (("diff",), 2, "name a Rollout, or give -f FILE"),
        (("promote", "cart", "--full", "--step", "1"), 2, "cannot be combined"),
        (("promote", "cart", "--full", "--gate", "background"), 2, "cannot be combined"),
        (("get", "cart", "-A"), 2, "remove -A"),
        (("get", "cart", "-l", "a=b"), 2, "remove -l"),
        (("get", "-w", "-o", "yaml"), 2, "cannot be combined"),
        (("status", "cart", "--timeout", "soon"), 2, "not a duration"),
        (("get", "--context", "elsewhere"), 4, "elsewhere"),
        (("analysis", "get", "nobody"), 4, "not found"),
        (("analysis", "get", "nobody", "-w"), 4, "there is no AnalysisRun nobody in namespace rollouts-demo"),
        (("analysis", "terminate", "nobody"), 4, "not found"),
        (("analysis", "get", "nobody", "-o", "wide"), 2, "json or yaml"),
        (("analysis", "get", "nobody", "-w", "-o", "json"), 2, "cannot be combined"),
    ],
)
async def test_each_failure_has_an_exit_code(empty: Shop, words: tuple[str, ...], code: int, said: str) -> None:
    """2 is the caller's command line, 4 the cluster's answer; a script may retry only one of them."""
    assert said in (await empty.run(*words, code=code)).error


@pytest.mark.long
async def test_on_a_terminal_the_tree_lives_and_an_abort_does_not_ask(healthy: Shop) -> None:
    """A real pseudo-terminal: the live tree is drawn again when the Rollout moves."""
    async with terminal(healthy, "get", "cart", "-w") as live:
        await live.shows("cart  rollouts-demo  Canary  Healthy")
        await healthy.stage.change("cart", with_image(SECOND))
        await live.shows("▶ pause until promoted")
        await live.shows("canary  1/1 ready")

        async with terminal(healthy, "abort", "cart") as asked:
            await asked.shows("the controller has recorded the command")
            assert await asked.ends() == 0
        await live.shows("Aborted")
        live.types("\x03")
        assert await live.ends() == 130


def terminal(there: Shop, *words: str) -> AbstractAsyncContextManager[Terminal]:
    """Runs a command on a terminal."""
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1", "NO_COLOR": "1"}
    environment.pop("CI", None)
    command = (sys.executable, "-m", "rollouts", words[0], "--kubeconfig", str(there.kubeconfig), *words[1:])
    return on_a_terminal(*command, env=environment)


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
    assert re.match(r"cart: #2 \w+ → #1 \w+, 2 steps, about \d+ s; it stops at step 2 \(pause until promoted\)\n", said)
    seen = await healthy.reaches("Paused")
    assert image_of_stable(seen) == f"{IMAGE}:{SECOND}", "the steps hold here too"

    assert "goes forward to revision" in (await healthy.run("undo", "cart", "--to-revision", "#2")).out
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
    """All or nothing, as far as that can be known beforehand; what stands beside a Rollout in its file is created with it."""
    manifest = rollout(healthy.namespace, "web", STEPS)
    wrong = rollout(healthy.namespace, "mail", {"canary": {"steps": [{"setWeight": 200}]}})
    other = {"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "w"}}
    scaler = {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"maxReplicas": 4, "scaleTargetRef": {"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "web"}},
    }  # fmt: skip

    async def created(*objects: Manifest, code: int = 0) -> Said:
        return await healthy.run("create", "-f", healthy.file(*objects), code=code)

    assert "spec.strategy.canary.steps[0].setWeight" in (await created(manifest, wrong, code=1)).err
    refused = (await created(manifest, other, code=4)).err
    assert "Widget w: the cluster has no shop.example/v1 Widget; nothing was created" in refused
    assert (await created(manifest, scaler)).out == "Rollout web created\nHorizontalPodAutoscaler web created\n"
    again = (await created(manifest, code=4)).err
    assert 'error: the API server refuses it: rollouts.rollouts.dev "web" already exists\n' in again


async def test_a_deletion_says_what_is_lost_and_asks(healthy: Shop) -> None:
    """Enter alone deletes nothing, and a script must say --yes."""
    assert "no terminal to confirm the deletion: add --yes" in (await healthy.run("delete", "cart", code=2)).err
    async with terminal(healthy, "delete", "cart") as asked:
        await asked.shows("with 2 pods, of which 2 are ready, 1 revision, their history and AnalysisRuns")
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
    path = "/spec/template/spec/initContainers/0/name"
    assert found[0].operations()[0] == {"op": "test", "path": path, "value": "wait"}


def test_an_image_for_no_container_is_refused_with_the_names() -> None:
    """A typo must not become a container."""
    assert changes_of(with_containers(app="app:1"), {"ap": "app:2"}) == (
        "there is no container ap; the containers are wait, app"
    )
    with pytest.raises(ValueError, match="not 'app='"):
        parse_images(["app="])

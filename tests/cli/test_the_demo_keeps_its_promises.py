"""`rollouts demo` is what people try first: under 90 s, every outcome as promised, and honest when one is not."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from rollouts.cli.demo import acts as acts_module
from rollouts.cli.demo import command as demo_module
from rollouts.cli.demo.acts import ACTS, Act, Say, install, measured, promise_share
from rollouts.cli.demo.command import demo
from rollouts.cli.demo.manifests import CANARY_APP, canary_app
from rollouts.cli.demo.stage import GATEWAY, DemoStage, NotAsPromised, simulated_stage
from rollouts.cli.exits import Exit
from rollouts.cli.picture import NOW_S, example
from rollouts.cli.terminal.fitting import fitting
from rollouts.cli.view.objects import RolloutObjects, status_of
from rollouts.cli.view.session import Options
from rollouts.core.model.status import Phase
from rollouts.objects import POD
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.storage.registry import NAMESPACE

LIMIT_S = 90.0


async def test_the_whole_demo_succeeds_in_time_and_loses_nothing(tmp_path: Path) -> None:
    """As a process of its own, in lines because its output is no terminal; it also serves kubectl while it runs."""
    kubeconfig = tmp_path / "kubeconfig"
    began_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rollouts", "demo", "--serve", str(kubeconfig),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env={**os.environ, "COLUMNS": "150"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT_S):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode()

    assert process.returncode == 0, text
    assert time.monotonic() - began_s < LIMIT_S
    assert "Every outcome was as promised; no request was lost.\nnext: kubectl rollouts doctor" in text
    rows = {words[0]: words for line in text.splitlines() if (words := line.split()) and words[0] in ("all", "install")}
    assert int(rows["all"][1]) > 1_000, "requests"
    assert int(rows["all"][2]) == 0, "lost"
    measured = re.findall(r"measured: success-rate \[(\S+)\], condition result\[0\] >= 0.99: (\w+)", text)
    good, bad = ([float(number) for number, phase in measured if phase == how] for how in ("Successful", "Failed"))
    assert (len(bad), min(good) >= 0.99 > max(bad)) == (3, True), measured
    assert "its analysis has aborted it" in text
    assert "\x1b" not in text, "no escapes where there is no terminal"
    assert json.loads(kubeconfig.read_text())["current-context"] == "simulated"


async def played(monkeypatch: pytest.MonkeyPatch, *acts: Act, cluster: Options | None = None) -> tuple[Exit, str]:
    """The exit code of a demo of these acts, and what it has printed."""
    monkeypatch.setattr(demo_module, "ACTS", acts)
    console = Console(file=io.StringIO(), width=200)
    return await demo(cluster, console=console, lines=True), shown(console)


def shown(console: Console) -> str:
    """Everything that was written to the console."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def healthy(stage: DemoStage, gateway: str = "") -> RolloutObjects:
    """Installs the canary and waits for it."""
    await stage.install(canary_app(stage.namespace, gateway=gateway))

    def holds(seen: RolloutObjects) -> bool:
        return status_of(seen.rollout).phase is Phase.HEALTHY

    return await stage.until(CANARY_APP, holds, deadline_s=20, what="healthy")


async def test_an_analysis_that_finds_nothing_wrong_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """The act must be able to fail: without errors in the new version nothing aborts it."""
    monkeypatch.setattr(acts_module, "ERROR_PERCENT", 0)
    monkeypatch.setattr(acts_module, "ABORTED_WITHIN_S", 8.0)

    code, text = await played(monkeypatch, *(each for each in ACTS if each.play in (install, measured)))

    assert code is Exit.BAD
    assert "expected within 8 s that the analysis has aborted the update" in text


async def kills_pods(stage: DemoStage, say: Say) -> tuple[int, str]:
    """An act that takes pods away without warning, as nothing of ours may."""
    say("install, then kill")
    await healthy(stage)
    stage.send_requests(CANARY_APP)
    await asyncio.sleep(0.2)
    assert stage.sim is not None
    resource = stage.sim.world.resource(POD)
    for pod in stage.followed.all(POD):
        stage.sim.world.verbs.delete(resource, stage.namespace, pod["metadata"]["name"], DeleteOptions(grace_s=0))
    return 0, "killed"


async def breaks(stage: DemoStage, say: Say) -> tuple[int, str]:
    """An act whose promise does not hold."""
    raise NotAsPromised("the moon is not full")


async def never(stage: DemoStage, say: Say) -> tuple[int, str]:
    """An act that must not be played any more."""
    raise AssertionError("played after a broken promise")


async def overstates(stage: DemoStage, say: Say) -> tuple[int, str]:
    """An act that promises the share that a revision has, and then one that it has not."""
    say("install, then count")
    seen = await healthy(stage, GATEWAY)
    stage.send_requests(CANARY_APP)
    await asyncio.sleep(1.2)
    promise_share(stage, status_of(seen.rollout).current_revision, 100)
    promise_share(stage, status_of(seen.rollout).current_revision, 25)
    return 0, "counted"


@pytest.mark.parametrize(
    ("acts", "words"),
    [
        ((Act("killing", kills_pods),), "killing: lost "),
        ((Act("moon", breaks), Act("after", never)), "moon: the moon is not full"),
        ((Act("counting", overstates),), "counting: the canary got 100 % of the requests instead of 25 %"),
    ],
    ids=["lost requests", "another promise", "a share that is not the step's"],
)
async def test_a_broken_promise_is_the_end(monkeypatch: pytest.MonkeyPatch, acts: tuple[Act, ...], words: str) -> None:
    """Exit code 1 with the name of the act and what was not so. What is counted can count, and is not believed."""
    code, text = await played(monkeypatch, *acts)

    assert code is Exit.BAD, text
    assert f"NOT as promised: {words}" in text


async def test_a_terminal_sees_one_live_picture_with_progress_and_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tree, progress bar and the clients' counts in one frame; the table stays when the picture goes."""
    drawn: list[str] = []

    async def looks(stage: DemoStage, say: Say) -> tuple[int, str]:
        await kills_pods(stage, say)
        drawn.append(shown(console))
        return 0, "looked"

    monkeypatch.setattr(demo_module, "ACTS", (Act("looking", looks),))
    console = Console(file=io.StringIO(), width=120, height=50, force_terminal=True, color_system=None, _environ={})

    await demo(console=console, lines=False)

    assert "rollouts demo" in drawn[0] and "█░" in drawn[0]
    assert "clients of shop:" in drawn[0]
    assert "stable  4/4 ready" in drawn[0]


async def test_ctrl_c_gives_the_screen_back_and_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture is on a screen of its own, of 24 lines here; what stays says in which act it was, and what comes next."""
    playing = asyncio.Event()

    async def waits(stage: DemoStage, say: Say) -> tuple[int, str]:
        say("waiting")
        playing.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    monkeypatch.setattr(demo_module, "ACTS", (Act("install", install), Act("waiting", waits)))
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system=None, _environ={})
    running = asyncio.create_task(demo(console=console, lines=False))
    begun = asyncio.create_task(playing.wait())
    await asyncio.wait({running, begun}, return_when=asyncio.FIRST_COMPLETED)
    assert begun.done(), "the demo ended before its second act"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    picture, left, after = shown(console).partition("\x1b[?1049l")
    assert picture.count("\x1b[?1049h") == 1 and left, "another screen, and back"
    assert "Stopped in `waiting` after" in after and "1 of 2 acts finished" in after
    assert after.rstrip().splitlines()[-2].startswith("next: ")


def test_a_picture_drops_events_and_pods_before_it_is_higher_than_the_screen() -> None:
    """On 24 lines what it waits for, the weight and the revisions are still there."""
    console = Console(file=io.StringIO(), width=80, height=24)
    for lines in (24, 14, 12):
        drawn = console.render_lines(fitting(example(), console, lines=lines, now_s=NOW_S), pad=False)
        text = "\n".join("".join(segment.text for segment in row) for row in drawn)

        assert len(drawn) <= lines
        assert "kubectl rollouts promote cart" in text and "stable" in text


async def test_on_another_cluster_it_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--cluster` works in a namespace of its own, brings a controller where none answers, and deletes the namespace."""
    taken: list[str] = []

    async def installs(stage: DemoStage, say: Say) -> tuple[int, str]:
        taken.append(stage.namespace)
        assert stage.controller is not None, "no controller looks after that namespace"
        await healthy(stage)
        return 0, "installed"

    kubeconfig = tmp_path / "kubeconfig"
    async with simulated_stage(serve=kubeconfig, seed=1) as elsewhere:
        there = Options(kubeconfig=kubeconfig)

        code, text = await played(monkeypatch, Act("installing", installs), cluster=there)

        assert code is Exit.OK, text
        assert "requests were not counted on a real cluster" in text
        row = next(line.split() for line in text.splitlines() if line.split()[:1] == ["installing"])
        assert row[1:3] == ["-", "-"], "what was not counted is not 0"
        assert elsewhere.sim is not None
        namespace = elsewhere.sim.get(NAMESPACE, "", taken[0])
        assert namespace is None or "deletionTimestamp" in namespace["metadata"]

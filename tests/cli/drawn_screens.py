"""What commands show on terminals and in pipes: `python -m tests.cli.drawn_screens` writes tests/cli/screens."""

from __future__ import annotations

import asyncio
import copy
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from rollouts.cli.commands.lint_routes import providers
from rollouts.cli.demo.command import clients_line, draw_head
from rollouts.cli.demo.manifests import BLUE_GREEN_APP, CANARY_APP, IMAGE, SECOND, blue_green_app, canary_app
from rollouts.cli.demo.stage import GATEWAY, Sent, simulated_stage
from rollouts.cli.picture import NOW_S, analysed, example
from rollouts.cli.plan.command import PIPED_WIDTH, plan_of
from rollouts.cli.plan.config import SourceReader
from rollouts.cli.plan.draw import draw_plan
from rollouts.cli.plan.live import read_facts
from rollouts.cli.plan.report import PlanReport
from rollouts.cli.terminal.fitting import fitting
from rollouts.cli.terminal.listing import print_drawn
from rollouts.cli.terminal.table import ActRow, act_table, history_table, rollout_table
from rollouts.cli.terminal.tree import draw, lines_of
from rollouts.cli.view.history import HistoryRow
from rollouts.cli.view.objects import RolloutObjects, status_of, wait_line
from rollouts.cli.view.tree import ConditionLine, EventLine, PodLine, RolloutView
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.autoscaling import AutoscalerRecord, AutoscalingRecord, UseRecord
from rollouts.core.model.drain import ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import RolloutStatus, WaitingFor
from rollouts.objects import Manifest
from rollouts.sim.clock import SimClock, run_virtual

FOLDER = Path(__file__).parent / "screens"
WIDTHS = (60, 80, 120, 200)
LINES = 24  # of a terminal
PIPE = 0  # no terminal
PATIENCE_S = 60.0
UNDER_WAY = RolloutStatus(current_revision="f7w2k9xq4c", stable_revision="b8n5t6zr2d")
PULL = (
    "waiting for 1 pod of revision f7w2k9xq4c to be available; 0 are; pod checkout-f7w2k9xq4c-8zxkd: ImagePullBackOff"
)
UNSCHEDULABLE = "Unschedulable: 0/12 nodes are available: 12 Insufficient cpu. preemption: 0/12 nodes are available"


def waits(view: RolloutView, reason: Reason, message: str, *, since_s: float, left_s: float | None) -> RolloutView:
    """The Rollout with another wait."""
    status = replace(UNDER_WAY, stable_revision="") if view.steps_skipped else UNDER_WAY
    wait = WaitingFor(reason, message, NOW_S - since_s, NOW_S + left_s if left_s is not None else None)
    return replace(view, waiting=wait_line(wait, status, namespace=view.namespace, name=view.name))


def views() -> tuple[RolloutView, ...]:
    """Rollouts in every phase, one of them with a name as long as a Service may have."""
    cart = example()
    moving = replace(cart, name="recommendations-for-returning-customers-europe-west", phase="Progressing", step_index=2,
                     weight_percent=50, live_percent=25)  # fmt: skip
    stuck = replace(cart, name="checkout", phase="Degraded", step_index=0, weight_percent=25, live_percent=0, ready=3)
    first = replace(cart, name="search", phase="Progressing", weight_percent=100, live_percent=None, step_index=4,
                    stable="", steps_skipped=True, ready=0, available=0)  # fmt: skip
    done = replace(cart, name="web", phase="Healthy", message="", waiting=None, weight_percent=100, live_percent=0,
                   stable=cart.revision, step_index=4, at_rest=True, desired=12, ready=12, available=12)  # fmt: skip
    wrong = replace(cart, name="mail", phase="Degraded", waiting=None, problems=(
        "spec.strategy.canary.steps[2].setWeight: must be 0 to 100",))  # fmt: skip
    small = replace(
        cart, name="api", phase="Progressing", weight_percent=Fraction("0.5"), live_percent=None, step_index=0
    )
    return (
        cart,
        waits(moving, Reason.TRAFFIC_SWITCHING, "waiting until 50 % is live on 2 of 3 proxies", since_s=4, left_s=None),
        waits(stuck, Reason.PODS_NOT_AVAILABLE, PULL, since_s=300, left_s=300),
        waits(first, Reason.PODS_NOT_AVAILABLE, "waiting for 4 pods of revision f7w2k9xq4c to be available; 0 are",
              since_s=3, left_s=597),
        done,
        wrong,
        waits(small, Reason.TIMED_PAUSE, "step 1: pause of 10 m", since_s=60, left_s=540),
    )  # fmt: skip


def scaled() -> RolloutView:
    """A canary whose container burns, held by the autoscaling gate; the autoscaler calls the average fine."""
    burns = (
        "container app of revision f7w2k9xq4c uses 173 % of its cpu request (limit 90 %); to go on nevertheless: "
        "rollouts promote cart -n shop; to go back: rollouts abort cart -n shop"
    )
    held = waits(replace(example(), phase="Progressing", step_index=0, events=()), Reason.CONTAINER_OVER_LIMIT, burns,
                 since_s=80, left_s=None)  # fmt: skip
    autoscaler = AutoscalerRecord(
        name="cart", desired=4, max_replicas=5, headroom_percent=20, settled_since_s=NOW_S - 700
    )
    uses = (
        UseRecord(revision="f7w2k9xq4c", utilization_percent=173, measured=1, pods=1, oldest_at_s=NOW_S - 12),
        UseRecord(revision="b8n5t6zr2d", measured=2, pods=3, oldest_at_s=NOW_S - 40),
    )
    scaling = AutoscalingRecord(at_s=NOW_S - 12, autoscalers=(autoscaler,), container="app", resource="cpu", use=uses)
    return replace(held, scaling=scaling)


def failed() -> RolloutView:
    """The analysis beside the steps has just ended an update; three good runs, all pods and Events are there as well."""
    before = analysed()
    canary, stable = before.revisions
    step, background = canary.runs
    why = "failed (3) > failureLimit (2): the success condition does not hold: result[0] >= 0.99"
    (rate,), (latency,) = background.metrics, step.metrics
    rate = replace(rate, phase=AnalysisPhase.FAILED, message=why, counts="3 successful, 3 failed")
    latency = replace(latency, phase=AnalysisPhase.SUCCESSFUL, message="", counts="4 successful")
    bad = replace(background, phase=AnalysisPhase.FAILED, completed_at_s=NOW_S - 3, metrics=(rate,),
                  message=f'Metric "{rate.name}" assessed Failed due to {why}')  # fmt: skip
    good = replace(step, phase=AnalysisPhase.SUCCESSFUL, message="", decides=False, metrics=(latency,))
    older = tuple(replace(good, name=f"{good.name[:-10]}{end}") for end in ("2dpf6r8sck", "4nwz7b5xqt", "9kq8mv4lhd"))
    ended = f"background analysis of revision f7w2k9xq4c: AnalysisRun {bad.name} ended Failed: {bad.message}"
    said = f"{ended}; the stable revision takes its place"
    message = f"{said}; to try revision f7w2k9xq4c again: rollouts retry cart -n shop"
    pods = (*stable.pods, replace(stable.pods[0], name="cart-b8n5t6zr2d-x8f6p", created_at_s=NOW_S - 9))
    view = replace(
        before,
        phase="Aborted",
        message=message,
        weight_percent=0,
        live_percent=0,
        traffic="confirmed (Config)",
        step_index=0,
        ready=5,
        available=5,
        revisions=(
            replace(canary, runs=(bad, *older), leaves_at_s=NOW_S + 27),
            replace(stable, ready=4, desired=4, pods=pods, runs=older),
        ),
        conditions=(ConditionLine("Ready, Stalled, Aborted, Progressing", Reason.ANALYSIS_FAILED, message, NOW_S - 3),),
        events=(
            *example().events,
            EventLine(NOW_S - 3, "AnalysisFailed", ended, warning=True),
            EventLine(NOW_S - 3, "RolloutAborted", said, warning=True),
        ),
    )
    return waits(view, Reason.RETRY_NEEDED, message, since_s=3, left_s=None)


def crowded() -> RolloutView:
    """A failing update of a large Rollout: many steps, revisions, pods without a node, sources of configuration."""
    before = failed()
    canary, stable = before.revisions
    unwell = PodLine(name="cart-f7w2k9xq4c-0", created_at_s=NOW_S - 90, ready=False, problem=UNSCHEDULABLE)
    pods = (*canary.pods, *(replace(unwell, name=f"cart-f7w2k9xq4c-{n}") for n in range(20)))
    older = [
        replace(stable, revision=f"{n}9xq4cf7w2", number=n, roles=(), ready=2, desired=2, pods=stable.pods[:2])
        for n in (5, 4, 3)
    ]
    rate = replace(canary.runs[0].metrics[0], phase=AnalysisPhase.RUNNING, message="", counts="3 successful")
    running = replace(canary.runs[0], name="cart-f7w2k9xq4c-step-4-8mz4rt2xkd", phase=AnalysisPhase.RUNNING, message="",
                      completed_at_s=None, metrics=(rate,))  # fmt: skip
    return replace(
        before,
        steps=tuple(f"{word} {n}" for n in range(1, 15) for word in ("setWeight", "pause")),
        step_index=9,
        revisions=(replace(canary, ready=1, desired=21, pods=pods, runs=(*canary.runs, running)), stable, *older),
    )


def listing(*, wide: bool = False, all_namespaces: bool = False) -> RenderableType:
    """`list`; with every namespace also one with a long name."""
    shown = [each for each in views() if all_namespaces or len(each.name) < 20]
    rows = [replace(each, created_at_s=NOW_S - 270_000) for each in shown]
    return rollout_table(rows, now_s=NOW_S, wide=wide, all_namespaces=all_namespaces)


def history() -> RenderableType:
    """`history`."""
    kept = HistoryRow(number=7, revision="f7w2k9xq4c", roles=("canary",), outcome="", images=("ghcr.io/acme/cart:1.5.0",),
                      kept=True, ready=1, desired=1, finished_at_s=None, took_s=None, config="cart-settings")  # fmt: skip
    rows = (
        kept,
        replace(kept, number=6, revision="b8n5t6zr2d", roles=("stable",), outcome="Promoted", finished_at_s=NOW_S - 270_000,
                took_s=412.0, config="", images=("ghcr.io/acme/cart:1.4.2",)),
        replace(kept, number=5, revision="c4x9v7pm2s", roles=(), outcome="RolledBack", finished_at_s=NOW_S - 400_000,
                took_s=88.0, ready=0, desired=0, images=("ghcr.io/acme/cart:1.4.1", "docker.io/envoyproxy/envoy:v1.31.0")),
    )  # fmt: skip
    return history_table(rows, now_s=NOW_S)


def followed(view: RolloutView, console: Console) -> RenderableType:
    """`get NAME -w`: what fits on the screen, and where there is none the lines of the first moment."""
    if not console.is_terminal:
        return Text("\n".join(lines_of(view, now_s=NOW_S)))
    return fitting(view, console, lines=console.height - 1, now_s=NOW_S)  # the last line is the cursor's


@cache
def plans() -> dict[str, PlanReport]:
    """`routed` has an analysis, `blue-green` is a first one. In virtual time: all take less than a second of CPU, once."""
    return run_virtual(_plans(), limit_s=600.0)


async def _plans() -> dict[str, PlanReport]:
    clock = SimClock(asyncio.get_running_loop())
    async with simulated_stage(serve=None, seed=3, clock=clock) as stage:
        canary, pay = canary_app(stage.namespace, gateway=GATEWAY), blue_green_app(stage.namespace)
        await stage.install(canary)
        await stage.until(CANARY_APP, _healthy, deadline_s=PATIENCE_S, what="it is Healthy")
        facts = await read_facts(stage.session, proxy_mode=ProxyMode.IPTABLES)

        async def planned(rollout: Manifest, services: tuple[Manifest, ...] = ()) -> PlanReport:
            reader = SourceReader(stage.session, (rollout,))
            return await plan_of(reader, rollout, services, facts, providers())

        updated, unsafe = copy.deepcopy(canary[-1]), copy.deepcopy(pay[-1])
        updated["spec"]["template"]["spec"]["containers"][0]["image"] = f"{IMAGE}:{SECOND}"
        unsafe["spec"] |= {"replicas": 1, "strategy": {"canary": {"maxSurge": 0, "maxUnavailable": 1}}}
        return {
            "routed": await planned(updated),
            "blue-green": await planned(pay[-1], pay[:-1]),
            "unsafe": await planned(unsafe, tuple(each for each in pay if each["metadata"]["name"] == BLUE_GREEN_APP)),
        }


def _healthy(seen: RolloutObjects) -> bool:
    return status_of(seen.rollout).phase == "Healthy"


def planned(name: str, console: Console, *, wide: bool = False) -> RenderableType:
    """`plan`."""
    return draw_plan(plans()[name], wide=wide, lines=console.is_terminal)


def demo(console: Console) -> RenderableType:
    """The demo while its canary moves."""
    said = ("promote: rollouts.dev/promote=f7w2k9xq4c@1",
            "measured: success-rate [0.990014], condition result[0] >= 0.99: Successful")  # fmt: skip
    return _with_clients(analysed(), said, console)


def demo_failed(console: Console) -> RenderableType:
    """The demo when an analysis has just failed."""
    said = ("measured: success-rate [0.977006], condition result[0] >= 0.99: Failed",
            "its analysis has aborted it: 7 of 92 requests to 6.9.2 failed")  # fmt: skip
    return _with_clients(failed(), said, console)


def _with_clients(view: RolloutView, said: Sequence[str], console: Console) -> RenderableType:
    shares = {"f7w2k9xq4c": 0.24, "b8n5t6zr2d": 0.76}
    clients = clients_line("cart", shares, Sent(sent=2998, lost=0, failed=5))
    head = draw_head("5 % errors", took_s=31.0, said=said, clients=clients, width=console.width)
    left = console.height - len(console.render_lines(head, pad=False))
    return Group(head, fitting(view, console, lines=left, now_s=NOW_S))


def acts(console: Console) -> RenderableType:
    """The table at the end of the demo."""
    rows = (
        ActRow(title="install", sent=158, lost=0, steps=0, seconds=2.5, writes=19, outcome="shop, pay Healthy at 6.9.0"),
        ActRow(title="5 % errors", sent=1106, lost=0, steps=0, seconds=10.5, writes=36, outcome="aborted at 0.976 of 0.99"),
        ActRow(title="blue-green", sent=950, lost=2, steps=1, seconds=8.9, writes=22, outcome="",
               problem="lost 2 requests"),
    )  # fmt: skip
    return act_table(rows, width=console.width if console.is_terminal else None)


@dataclass(frozen=True, slots=True)
class Screen:
    """What one command shows.

    Args:
        live: it is redrawn in its place, and rich leaves out what is below the terminal's last line.
        piped_width: cells of a picture in a pipe.
    """

    draw: Callable[[Console], RenderableType]
    live: bool = False
    piped_width: int = 10_000


DRAWN: dict[str, Screen] = {
    "list": Screen(lambda _: listing()),
    "list-all": Screen(lambda _: listing(all_namespaces=True)),
    "list-wide": Screen(lambda _: listing(wide=True)),
    "list-watch": Screen(lambda _: listing(), live=True),
    "get-paused": Screen(lambda _: draw(example(), now_s=NOW_S)),
    "get-moving": Screen(lambda _: draw(views()[1], now_s=NOW_S)),
    "get-held": Screen(lambda _: draw(analysed(), now_s=NOW_S)),
    "get-first": Screen(lambda _: draw(views()[3], now_s=NOW_S)),
    "get-scaled": Screen(lambda _: draw(scaled(), now_s=NOW_S)),
    "get-watch-moving": Screen(lambda console: followed(views()[1], console), live=True),
    "get-watch-held": Screen(lambda console: followed(analysed(), console), live=True),
    "get-failed": Screen(lambda _: draw(failed(), now_s=NOW_S)),
    "get-watch-failed": Screen(lambda console: followed(failed(), console), live=True),
    "get-watch-crowded": Screen(lambda console: followed(crowded(), console), live=True),
    "plan-routed": Screen(lambda console: planned("routed", console), piped_width=PIPED_WIDTH),
    "plan-blue-green": Screen(lambda console: planned("blue-green", console), piped_width=PIPED_WIDTH),
    "plan-unsafe": Screen(lambda console: planned("unsafe", console), piped_width=PIPED_WIDTH),
    "plan-wide": Screen(lambda console: planned("routed", console, wide=True), piped_width=PIPED_WIDTH),
    "demo-live": Screen(demo, live=True),
    "demo-failed": Screen(demo_failed, live=True),
    "demo-acts": Screen(acts),
    "history": Screen(lambda _: history()),
}


@cache
def screen(name: str, width: int, *, colour: bool = False) -> str:
    """What a command prints on a terminal of that width and of LINES lines; PIPE for none."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=width or 80,
        height=LINES,
        force_terminal=bool(width),
        color_system="truecolor" if colour else None,
        no_color=not colour,
    )
    shown = DRAWN[name]
    if shown.live and width:
        console.print(shown.draw(console))
    else:
        print_drawn(console, shown.draw(console), piped_width=shown.piped_width)
    lines = out.getvalue().splitlines()
    return "".join(f"{line.rstrip()}\n" for line in (lines[:LINES] if shown.live and width else lines))


def screens() -> Iterator[tuple[Path, str, int]]:
    """The file, the name and the width of each screen."""
    for name in DRAWN:
        for width in (PIPE, *WIDTHS):
            if width or name not in (
                "demo-live",
                "demo-failed",
            ):  # a pipe gets lines, see test_the_demo_keeps_its_promises
                yield FOLDER / f"{name}-{width or 'pipe'}.txt", name, width


if __name__ == "__main__":
    for path, name, width in screens():
        path.write_text(screen(name, width), encoding="utf-8")
        sys.stdout.write(f"{path}\n")

"""`rollouts demo`: canary, aborts by hand and by analysis, and blue-green under client traffic, with a verdict at the end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rollouts.cli.demo.acts import ACTS, LAST_REQUESTS_S, Act
from rollouts.cli.demo.stage import REQUESTS_PER_S, DemoStage, NotAsPromised, Sent, real_stage, simulated_stage
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.fitting import fitting
from rollouts.cli.terminal.listing import can_redraw, print_drawn, print_line
from rollouts.cli.terminal.table import ActRow, act_table
from rollouts.cli.terminal.text import plain
from rollouts.cli.terminal.tree import line, weight_bar
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.follow import unwrapped
from rollouts.cli.view.objects import view_of
from rollouts.cli.view.session import Options
from rollouts.ports import Clock

NEXT = (
    "next: kubectl rollouts doctor    what your cluster lacks, and how to install it",
    "      kubectl rollouts --help    all commands",
)
_REDRAW_S = 0.25
_SEED = 7
EXPECTED_S = 50.0  # the time at which the progress bar is full
_SAID_SHOWN = 2  # a screen may have 24 lines only


async def demo(
    cluster: Options | None = None,
    *,
    serve: Path | None = None,
    console: Console,
    lines: bool,
    clock: Clock | None = None,
) -> Exit:
    """Plays the acts.

    Args:
        cluster: the real cluster to play on; None for a simulated one.
        serve: where to write a kubeconfig of the simulated cluster.
        lines: prints lines instead of the live tree, even on a terminal.
        clock: of the simulated cluster; None for real time.

    Returns: OK only when every outcome was as promised; the table and the last line say what was not.
    Raises: what `Client` raises on a real cluster.
    """
    live = can_redraw(console) and not lines
    screen = _Screen(console, live=live)
    rows: list[ActRow] = []
    opened: AbstractAsyncContextManager[DemoStage] = (
        simulated_stage(serve=serve, seed=_SEED, clock=clock) if cluster is None else real_stage(cluster)
    )
    problem = ""
    began_s = _loop_s()
    acts = [act for act in ACTS if cluster is None or not act.needs_clients]
    try:
        with unwrapped():
            async with opened as stage, screen.showing(stage):
                screen.say(_introduction(stage))
                if serve is not None:
                    screen.say(
                        f"look into the cluster with: kubectl --kubeconfig {serve} get rollouts,pods,endpointslices"
                    )
                for act in acts:
                    rows.append(await _play(act, stage, screen))
                    if rows[-1].problem:
                        break
    except NotAsPromised as broken:
        problem = str(broken)
    except asyncio.CancelledError:
        _tell_how_far(rows, acts, _loop_s() - began_s, console=console)
        raise
    if len(rows) < len(acts) and not problem and not any(row.problem for row in rows):
        problem = "not every act was played"
    return _verdict(rows, problem, console=console, counted=cluster is None)


def _introduction(stage: DemoStage) -> str:
    if stage.sim is not None:
        return (
            f"a simulated cluster in real time, with the real controller; {REQUESTS_PER_S:g} requests/s go to each app"
        )
    who = "the controller in the cluster" if stage.controller is None else "a controller in this process"
    return f"namespace {stage.namespace} of the current cluster, with {who}; no client requests are sent there"


async def _play(act: Act, stage: DemoStage, screen: _Screen) -> ActRow:
    sent, writes, began_s = stage.sent, stage.writes, _loop_s()
    steps, outcome, problem = 0, "", ""
    screen.act = act.title
    try:
        steps, outcome = await act.play(stage, screen.say)
    except NotAsPromised as broken:
        problem = str(broken)
    took_s = _loop_s() - began_s
    await asyncio.sleep(LAST_REQUESTS_S)  # until the clients have counted those that the act may have lost
    now = stage.sent
    lost = now.lost - sent.lost
    if lost and not problem:
        problem = f"lost {count_of(lost, 'request')}"
    return ActRow(
        title=act.title,
        sent=now.sent - sent.sent if stage.sim is not None else None,
        lost=lost if stage.sim is not None else None,
        steps=steps,
        seconds=took_s,
        writes=stage.writes - writes if stage.controller is not None else None,
        outcome=outcome,
        problem=problem,
    )


def _tell_how_far(rows: list[ActRow], acts: list[Act], took_s: float, *, console: Console) -> None:
    if rows:
        print_drawn(console, act_table(rows, width=console.width if console.is_terminal else None))
    at = f" in `{acts[len(rows)].title}`" if len(rows) < len(acts) else ""
    done = f"{len(rows)} of {count_of(len(acts), 'act')} finished"
    print_line(console, f"Stopped{at} after {took_s:.0f} s; {done}.", style="bold yellow")
    _tell_next(console)


def _tell_next(console: Console) -> None:
    for text in NEXT:
        print_line(console, text)


def _verdict(rows: list[ActRow], problem: str, *, console: Console, counted: bool) -> Exit:
    print_drawn(console, act_table(rows, width=console.width if console.is_terminal else None))
    problems = [f"{row.title}: {row.problem}" for row in rows if row.problem] + ([problem] if problem else [])
    for told in problems:
        print_line(console, f"NOT as promised: {told}", style="bold red")
    if problems:
        return Exit.BAD
    lost = "no request was lost" if counted else "requests were not counted on a real cluster"
    console.print(f"Every outcome was as promised; {lost}.", style="bold green", highlight=False)
    _tell_next(console)
    return Exit.OK


def _loop_s() -> float:
    """Seconds of the event loop: real ones, but for a loop of virtual time."""
    return asyncio.get_running_loop().time()


def draw_head(
    act: str, *, took_s: float, said: Sequence[str], clients: RenderableType, width: int, ascii_only: bool = False
) -> RenderableType:
    """The lines above the tree: the act's title, the time since the demo began, the last announcements, and the clients' line.

    Of the last two announcements only the last one, if the terminal is too narrow for a line each: the tree needs the room.
    """
    grid = Table.grid(padding=(0, 1))
    bar = weight_bar(min(99, int(100 * took_s / EXPECTED_S)), ascii_only=ascii_only)
    grid.add_row(Text("rollouts demo", "bold"), bar, Text(f"{took_s:.0f} s  {act}"))
    last = [plain(text) for text in said[-_SAID_SHOWN:]]
    fits = all(cell_len(text) <= width for text in last)
    shown = Text("\n".join(last if fits else last[-1:]), "italic", overflow="fold")
    return Group(grid, shown, clients, Text(""))


def clients_line(name: str, shares: Mapping[str, float], total: Sent) -> Text:
    """The shares of the revisions, 0 to 1, as the clients of an app count them, and the requests of all apps."""
    parts = ", ".join(f"{revision or 'nobody'} {share:.0%}" for revision, share in sorted(shares.items()))
    text = Text(f"clients of {name}: {parts or 'none yet'}; {total.sent} sent, ")
    text.append(f"{total.lost} lost", "bold red" if total.lost else "green")
    if total.failed:
        text.append(f", {count_of(total.failed, 'error')}", "yellow")
    return text


class _Screen:
    """The output: on a terminal one live picture, otherwise a line for each announcement and each change."""

    def __init__(self, console: Console, *, live: bool) -> None:
        self.act = ""
        self._console = console
        # On a screen of its own: the one that was there before is there again afterwards, also after Ctrl-C.
        self._live = Live(console=console, auto_refresh=False, screen=True) if live else None
        self._began_s = _loop_s()
        self._said: list[str] = []
        self._last = ""
        self._stage: DemoStage | None = None

    def say(self, text: str) -> None:
        """Announces what happens next."""
        self._said.append(text)
        if self._live is None:
            self._line(f"== {text}")
        else:
            self.draw()

    @asynccontextmanager
    async def showing(self, stage: DemoStage) -> AsyncIterator[None]:
        """Draws the stage's changes for as long as the block lasts."""
        self._stage = stage
        stage.changed = self.draw
        with self._live or contextlib.nullcontext():
            async with asyncio.TaskGroup() as tasks:
                redraw = tasks.create_task(self._redraw())
                try:
                    yield
                finally:
                    redraw.cancel()

    def draw(self) -> None:
        """Shows the current state."""
        stage = self._stage
        seen = stage.seen(stage.watched) if stage is not None and stage.watched else None
        if stage is None or seen is None:
            return
        view, now_s = view_of(seen), stage.session.clock.now_s()
        if self._live is not None:
            clients = Text("")
            if stage.sim is not None:
                clients = clients_line(stage.watched, stage.shares(stage.watched), stage.sent)
            ascii_only, took_s = self._console.options.ascii_only, _loop_s() - self._began_s
            width = self._console.width
            head = draw_head(
                self.act, took_s=took_s, said=self._said, clients=clients, width=width, ascii_only=ascii_only
            )
            left = self._console.height - len(self._console.render_lines(head, pad=False))
            tree = fitting(view, self._console, lines=left, now_s=now_s, ascii_only=ascii_only)
            self._live.update(Group(head, tree), refresh=True)
        elif (same := line(view, now_s=0.0)) != self._last:
            self._last = same
            self._line(line(view, now_s=now_s))

    async def _redraw(self) -> None:
        """Redraws at intervals, because counts and countdowns change without an event of the cluster."""
        while self._live is not None:
            self.draw()
            await asyncio.sleep(_REDRAW_S)

    def _line(self, text: str) -> None:
        took_s = _loop_s() - self._began_s
        print_line(self._console, f"{took_s:5.1f}s  {text}")

"""`rollouts status`: one line and an exit code, as `kubectl rollout status` gives them."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.commands.get import changes
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import NameArgument, duration, on_cluster
from rollouts.cli.terminal.text import plain
from rollouts.cli.terminal.tree import line, verdict_text
from rollouts.cli.view.follow import following, named
from rollouts.cli.view.missing import no_rollout
from rollouts.cli.view.objects import RolloutObjects, view_of
from rollouts.cli.view.session import Options, open_session
from rollouts.cli.view.tree import RolloutView
from rollouts.core.model.status import Phase
from rollouts.errors import ApiNotFound
from rollouts.objects import ROLLOUT


@on_cluster
async def status(
    options: Options,
    name: NameArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is Healthy or bad.")] = False,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout", parser=duration, metavar="DURATION", help="As --watch, for this long at most (5m, 90s)."
        ),
    ] = None,
) -> Exit:
    """Show the state of a Rollout and what it waits for, for people and scripts.

    Exit code 0: Healthy. 1: Degraded, Aborted or an invalid spec. 2: usage.
    3: progressing or paused, or --timeout passed.
    4: the API server cannot be reached, refuses, or has no such Rollout.
    """
    console, verdict = Console(), Exit.UNFINISHED
    watch = watch or timeout_s is not None
    async with (
        open_session(options) as session,
        following(session, named(ROLLOUT, session.namespace, name)) as followed,
    ):
        said = ""
        told: set[str] = set()
        try:
            async with asyncio.timeout(timeout_s if watch else None):
                async for _ in changes(followed, at_least_every_s=3_600.0):
                    found = followed.all(ROLLOUT)
                    if not found:
                        if not said:
                            raise await no_rollout(session, name)
                        raise ApiNotFound(f"there is no Rollout {name} in namespace {session.namespace} any more")
                    view = view_of(RolloutObjects(rollout=found[0]))
                    verdict = verdict_of(view)
                    if watch and (said or verdict is not Exit.OK):  # what is over is no news
                        _tell_verdicts(view, told, console)
                    # At time 0 two texts that differ only in their ages are equal.
                    if (same := line(view, now_s=0.0)) != said:
                        said = same
                        now = line(view, now_s=session.clock.now_s())
                        print_line(console, now)
                    if verdict is not Exit.UNFINISHED or not watch:
                        break
        except TimeoutError:
            console.print(f"not finished after {timeout_s:g} s", markup=False, highlight=False)
    return verdict


def _tell_verdicts(view: RolloutView, told: set[str], console: Console) -> None:
    """Prints how analyses of this update ended, each once."""
    for verdict in view.verdicts:
        text = plain(f"{view.namespace}/{view.name} {verdict_text(verdict)}")
        if text not in told:
            told.add(text)
            print_line(console, text)


def verdict_of(view: RolloutView) -> Exit:
    """The exit code for scripts: OK, BAD, or UNFINISHED."""
    if view.stale:
        return Exit.UNFINISHED
    if view.problems or view.phase in (Phase.DEGRADED, Phase.ABORTED, Phase.ROLLED_BACK):
        return Exit.BAD
    return Exit.OK if view.phase == Phase.HEALTHY else Exit.UNFINISHED

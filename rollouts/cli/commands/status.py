"""`rollouts status`: one line and an exit code, as `kubectl rollout status` gives them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.console import Console

from rollouts.api.status.scalars import weight_to_json
from rollouts.api.times import format_time
from rollouts.cli.commands.get import verdict_of
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import DataOption, NameArgument, duration, note, on_cluster, print_data
from rollouts.cli.terminal.text import plain
from rollouts.cli.terminal.tree import line
from rollouts.cli.view.follow import following, named
from rollouts.cli.view.missing import no_rollout
from rollouts.cli.view.objects import RolloutObjects, view_of
from rollouts.cli.view.reading import changes
from rollouts.cli.view.session import Options, open_session
from rollouts.cli.view.tree import RolloutView
from rollouts.cli.view.words import verdict_text
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
            "-t", "--timeout", parser=duration, metavar="DURATION", help="As --watch, for this long at most (5m, 90s)."
        ),
    ] = None,
    output: DataOption = None,
) -> Exit:
    """Show the state of a Rollout and what it waits for, for people and scripts.

    Exit code 0: Healthy. 1: Degraded, Aborted or an invalid spec. 2: usage.
    3: progressing or paused, or --timeout passed.
    4: the API server cannot be reached, refuses, or has no such Rollout.
    """
    # Data comes once, at the end; the way there goes where it harms no program that reads it.
    console, verdict, last = Console(stderr=output is not None), Exit.UNFINISHED, None
    watch = watch or timeout_s is not None
    async with (
        open_session(options) as session,
        following(session, named(ROLLOUT, session.namespace, name)) as followed,
    ):
        said = ""
        told: set[str] = set()
        try:
            async with asyncio.timeout(timeout_s or None):
                async for _ in changes(followed, at_least_every_s=3_600.0):
                    found = followed.all(ROLLOUT)
                    if not found:
                        if not said:
                            raise await no_rollout(session, name)
                        raise ApiNotFound(f"there is no Rollout {name} in namespace {session.namespace} any more")
                    last = view = view_of(RolloutObjects(rollout=found[0]))
                    verdict = verdict_of(view)
                    if watch and (said or verdict is not Exit.OK):  # what is over is no news
                        _tell_verdicts(view, told, console)
                    # At time 0 two texts that differ only in their ages are equal.
                    if (same := line(view, now_s=0.0)) != said and (watch or output is None):
                        print_line(console, line(view, now_s=session.clock.now_s()))
                    said = same
                    if verdict is not Exit.UNFINISHED or not watch:
                        break
        except TimeoutError:
            console.print(f"not finished after {timeout_s:g} s", markup=False, highlight=False)
    if output is not None and last is not None:
        print_data(_document(last), output)
    elif verdict is Exit.UNFINISHED and not watch:
        note(f"not finished; to wait for the end: kubectl rollouts status {name} -n {session.namespace} -w")
    return verdict


def _document(view: RolloutView) -> dict[str, Any]:
    """For programs: with the names of the Rollout's own status where it has them."""
    wait = view.waiting
    waits_for = None
    if wait is not None:
        times = {"since": wait.since_s, "deadline": wait.deadline_s}
        waits_for = {"reason": wait.reason, "message": wait.message}
        waits_for |= {key: format_time(at_s) for key, at_s in times.items() if at_s is not None}
    return {
        "namespace": view.namespace,
        "name": view.name,
        "phase": view.phase or "Unknown",
        "message": view.message,
        "currentRevision": view.revision,
        "stableRevision": view.stable,
        "currentStepIndex": view.step_index,
        "steps": list(view.steps),
        "weight": None if view.weight_percent is None else weight_to_json(view.weight_percent),
        "replicas": {
            "desired": view.desired,
            "updated": view.updated,
            "ready": view.ready,
            "available": view.available,
        },
        "waitingFor": waits_for,
        "problems": list(view.problems),
        "observed": not view.stale,
    }


def _tell_verdicts(view: RolloutView, told: set[str], console: Console) -> None:
    """Prints how analyses of this update ended, each once."""
    for verdict in view.verdicts:
        text = plain(f"{view.namespace}/{view.name} {verdict_text(verdict)}")
        if text not in told:
            told.add(text)
            print_line(console, text)

"""`rollouts get` and `rollouts history`: read, draw, and with `-w` stay and draw every change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer
from msgspec import Struct
from rich.console import Console, Group, RenderableType
from rich.live import Live

from rollouts.api.times import format_time
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.fitting import fitting
from rollouts.cli.terminal.listing import can_redraw, print_drawn, print_line
from rollouts.cli.terminal.options import (
    DataOption,
    DataOutput,
    NameArgument,
    Output,
    duration,
    note,
    on_cluster,
    print_data,
    rollout_name,
)
from rollouts.cli.terminal.table import history_document, history_table, rollout_table
from rollouts.cli.terminal.text import marks_for
from rollouts.cli.terminal.tree import draw, line, lines_of
from rollouts.cli.view.follow import Collection, Followed, following, list_all
from rollouts.cli.view.history import history_rows
from rollouts.cli.view.missing import no_rollout, the_rollout
from rollouts.cli.view.objects import (
    RolloutObjects,
    controlled_by,
    view_of,
)
from rollouts.cli.view.reading import changes, collections_of, read, seen_in
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cli.view.tree import RolloutView
from rollouts.core.model.status import Phase
from rollouts.manifests.ownership import NAME
from rollouts.objects import REPLICA_SET, ROLLOUT, Key, Manifest

T = TypeVar("T")
REDRAW_S = 1.0  # ages and countdowns on the screen; the API server is not asked


_AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="List every namespace.")]
_Watch = Annotated[bool, typer.Option("-w", "--watch", help="Keep running and show every change.")]
_Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        parser=duration,
        metavar="DURATION",
        help="As --watch, for this long at most; of one Rollout the exit code is then that of `status`.",
    ),
]
_Selector = Annotated[
    str,
    typer.Option("-l", "--selector", metavar="LABELS", help="Only Rollouts with these labels: `app=cart,tier!=test`."),
]
_Output = Annotated[Output | None, typer.Option("-o", "--output", help="More columns, names, or the manifest.")]


class _Listed(Struct, frozen=True, kw_only=True):
    """What a list shows, and how."""

    name: str | None = None
    all_namespaces: bool
    selector: str
    watch: bool
    timeout_s: float | None
    timestamps: bool = False
    output: Output | None


@on_cluster
async def get(
    options: Options,
    name: Annotated[
        str | None,
        typer.Argument(help="Name of one Rollout; default: list all.", parser=rollout_name, metavar="[NAME]"),
    ] = None,
    all_namespaces: _AllNamespaces = False,
    watch: _Watch = False,
    timeout_s: _Timeout = None,
    selector: _Selector = "",
    output: _Output = None,
) -> Exit:
    """Show a list of Rollouts, or the tree of one: its revisions, pods, weight and steps, and what it waits for."""
    watch = watch or timeout_s is not None
    if name is None:
        shown = _Listed(
            all_namespaces=all_namespaces, selector=selector, watch=watch, timeout_s=timeout_s, output=output
        )
        return await _list(options, shown)
    if all_namespaces or selector:
        raise typer.BadParameter(f"a Rollout's name needs no choice: remove {'-A' if all_namespaces else '-l'}")
    _check_ends(output, watch=watch)
    console = Console()
    async with open_session(options) as session:
        key = Key(session.namespace, name)
        if output not in (None, Output.WIDE):
            print_manifests(await the_rollout(session, name), output, console)
        elif watch:
            return await watch_one(session, key, console=console, timeout_s=timeout_s)
        else:
            view, now_s = view_of(await read(session, key)), session.clock.now_s()
            print_drawn(console, draw(view, now_s=now_s, ascii_only=console.options.ascii_only))
        return Exit.OK


@on_cluster
async def list_(
    options: Options,
    *,
    name: Annotated[
        str | None, typer.Argument(help="Only this one.", parser=rollout_name, metavar="[NAME]", show_default=False)
    ] = None,
    all_namespaces: _AllNamespaces = False,
    watch: _Watch = False,
    timeout_s: _Timeout = None,
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="With -w: a line for each change, with its time.")
    ] = False,
    selector: _Selector = "",
    output: _Output = None,
) -> Exit:
    """List Rollouts, one line each, as `get` without a name."""
    shown = _Listed(
        name=name,
        all_namespaces=all_namespaces,
        selector=selector,
        watch=watch or timeout_s is not None,
        timeout_s=timeout_s,
        timestamps=timestamps,
        output=output,
    )
    return await _list(options, shown)


@on_cluster
async def history(options: Options, name: NameArgument, output: DataOption = None) -> Exit:
    """List the revisions of a Rollout, and which of them it can go back to."""
    async with open_session(options) as session:
        rows = history_rows(await read(session, Key(session.namespace, name)))
        if output is not None:
            print_data([history_document(row) for row in rows], output)
        else:
            print_drawn(Console(), history_table(rows, now_s=session.clock.now_s()))
        return Exit.OK


async def watch_one(session: Session, key: Key, *, console: Console, timeout_s: float | None = None) -> Exit:
    """The live tree; lines instead where it cannot be redrawn. Ends when the Rollout is deleted, or when the time is over.

    Returns: OK for a deleted Rollout; else how it was at the end.
    """
    async with following(session, *await collections_of(session, key)) as followed:
        if seen_in(followed, key) is None:
            raise await no_rollout(session, key.name)

        def seen() -> RolloutView | None:
            objects = seen_in(followed, key)
            return view_of(objects) if objects is not None else None

        def picture(view: RolloutView, now_s: float) -> RenderableType:
            return fitting(view, console, lines=console.height - 1, now_s=now_s, ascii_only=console.options.ascii_only)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s or None):
                await show(session, followed, console=console, seen=seen, picture=picture, text=lines_of)
        if (last := seen()) is not None:
            return verdict_of(last)
        console.print(f"{key.namespace}/{key.name} was deleted", highlight=False, markup=False)
    return Exit.OK


def verdict_of(view: RolloutView) -> Exit:
    """The exit code for scripts: OK, BAD, or UNFINISHED."""
    if view.stale:
        return Exit.UNFINISHED
    if view.problems or view.phase in (Phase.DEGRADED, Phase.ABORTED, Phase.ROLLED_BACK):
        return Exit.BAD
    return Exit.OK if view.phase == Phase.HEALTHY else Exit.UNFINISHED


async def _list(options: Options, shown: _Listed) -> Exit:
    _check_ends(shown.output, watch=shown.watch)
    if shown.name is not None and shown.all_namespaces:
        raise typer.BadParameter("a Rollout's name needs no choice: remove -A")
    console, wide = Console(), shown.output is Output.WIDE
    async with open_session(options) as session:
        namespace = None if shown.all_namespaces else session.namespace
        query = {"labelSelector": shown.selector} if shown.selector else {}
        query |= {"fieldSelector": f"metadata.name={shown.name}"} if shown.name else {}
        rollouts = Collection(kind=ROLLOUT, namespace=namespace, query=query)
        if shown.output not in (None, Output.WIDE):
            print_manifests((await list_all(session, rollouts))[0], shown.output, console)
            return Exit.OK
        replica_sets = Collection(kind=REPLICA_SET, namespace=namespace, query={"labelSelector": NAME})
        async with following(session, rollouts, *([replica_sets] if wide else [])) as followed:

            def picture(views: list[RolloutView], now_s: float) -> RenderableType:
                arrow = marks_for(ascii_only=console.options.ascii_only).arrow
                return rollout_table(views, now_s=now_s, wide=wide, all_namespaces=shown.all_namespaces, arrow=arrow)

            def text(views: list[RolloutView], now_s: float) -> list[str]:
                return [line(view, now_s=now_s) for view in views]

            if shown.watch:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(shown.timeout_s or None):
                        await show(
                            session,
                            followed,
                            console=console,
                            seen=lambda: _views(followed),
                            picture=picture,
                            text=text,
                            timestamps=shown.timestamps,
                        )
            elif views := _views(followed):
                print_drawn(console, picture(views, session.clock.now_s()))
            elif shown.name is not None:
                raise await no_rollout(session, shown.name)
            else:
                where = f" in namespace {namespace}" if namespace else ""
                note(f"no Rollouts found{where}{f' with labels {shown.selector}' if shown.selector else ''}")
    return Exit.OK


def _check_ends(output: Output | None, *, watch: bool) -> None:
    """Raises: typer.BadParameter when data is asked for that never ends."""
    if watch and output not in (None, Output.WIDE):
        raise typer.BadParameter(f"-w cannot be combined with -o {output}")


async def show(
    session: Session,
    followed: Followed,
    *,
    console: Console,
    seen: Callable[[], T | None],
    picture: Callable[[T, float], RenderableType],
    text: Callable[[T, float], list[str]],
    ended: Callable[[T], bool] = lambda _: False,
    timestamps: bool = False,
) -> None:
    """Shows every change until there is nothing to show: live where it can be redrawn, otherwise every line that is new.

    Args:
        seen: what is followed, as it is now; None when it is gone.
        picture, text: of that at a time; lines that are equal at time 0 differ only in ages and countdowns.
        ended: whether what is shown is the last.
        timestamps: lines also where a picture could be drawn, each with its time before it.
    """
    if timestamps or not can_redraw(console):
        last: set[str] = set()
        async for _ in changes(followed, at_least_every_s=3_600.0):
            if (now := seen()) is None:
                return
            same, now_s = text(now, 0.0), session.clock.now_s()
            for mark, new in zip(same, text(now, now_s), strict=True):
                if mark not in last:
                    print_line(console, f"{format_time(float(int(now_s)))} {new}" if timestamps else new)
            last = set(same)
            if ended(now):
                return
        return
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        last_drawn: RenderableType = ""
        try:
            async for _ in changes(followed, at_least_every_s=REDRAW_S):
                if (now := seen()) is None:
                    return
                last_drawn = picture(now, session.clock.now_s())
                # The cursor stays on an empty line: at the end of a full one the terminal's echo of Ctrl-C would begin another.
                live.update(Group(last_drawn, ""), refresh=True)
                if ended(now):
                    return
        finally:
            live.update(last_drawn)  # drawn when the block ends


def _views(followed: Followed) -> list[RolloutView]:
    views = []
    for rollout in followed.all(ROLLOUT):
        own = tuple(replica_set for replica_set in followed.all(REPLICA_SET) if controlled_by(replica_set, rollout))
        views.append(view_of(RolloutObjects(rollout=rollout, replica_sets=own)))
    return views


def print_manifests(found: Manifest | Sequence[Manifest], output: Output, console: Console) -> None:
    """Prints one object, or several as one List, as kubectl does: without managedFields, which few people want to see."""
    if output is Output.NAME:
        for thing in [found] if isinstance(found, dict) else found:
            group = thing["apiVersion"].partition("/")[0]
            console.out(f"{thing['kind'].lower()}.{group}/{thing['metadata']['name']}", highlight=False)
        return

    def shown(thing: Manifest) -> Manifest:
        metadata = {name: part for name, part in thing["metadata"].items() if name != "managedFields"}
        return {**thing, "metadata": metadata}

    if isinstance(found, dict):
        document = shown(found)
    else:
        document = {"apiVersion": "v1", "kind": "List", "items": [shown(thing) for thing in found]}
    print_data(document, DataOutput(output))

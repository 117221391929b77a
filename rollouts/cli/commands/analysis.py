"""`rollouts analysis list|get|terminate`: the AnalysisRuns of a cluster, whoever made them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console, RenderableType

from rollouts.cli.commands.get import print_manifests, show
from rollouts.cli.commands.verbs import FIELD_MANAGER
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_drawn, print_line
from rollouts.cli.terminal.options import Output, fail, on_cluster
from rollouts.cli.terminal.runs import draw_run, runs_table
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.follow import Collection, following, list_all, named
from rollouts.cli.view.runs import RunLine, run_line, run_text
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.errors import ApiNotFound
from rollouts.manifests.ownership import NAME, name_label
from rollouts.objects import ANALYSIS_RUN, Manifest
from rollouts.ports import MERGE_PATCH

app = typer.Typer(
    help="See and end AnalysisRuns: those that Rollouts make, and those that people make.", no_args_is_help=True
)
_RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name of the AnalysisRun.", show_default=False)]


@app.command("list")
@on_cluster
async def list_runs(
    options: Options,
    rollout: Annotated[str | None, typer.Option("--rollout", help="Only the runs about this Rollout.")] = None,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="List every namespace.")] = False,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="More columns, or the manifests.")] = None,
) -> Exit:
    """List AnalysisRuns, the newest first: what each is about, its verdict and why."""
    console = Console()
    async with open_session(options) as session:
        namespace = None if all_namespaces else session.namespace
        query = {"labelSelector": f"{NAME}={name_label(rollout)}"} if rollout else {}
        found, _ = await list_all(session, Collection(kind=ANALYSIS_RUN, namespace=namespace, query=query))
        if output in (Output.JSON, Output.YAML):
            print_manifests(found, output, console)
        elif not found:
            where = f" in namespace {namespace}" if namespace else ""
            fail(f"no AnalysisRuns found{f' of Rollout {rollout}' if rollout else ''}{where}")
        else:
            runs = sorted(map(run_line, found), key=lambda run: (-run.created_at_s, run.namespace, run.name))
            wide, now_s = output is Output.WIDE, session.clock.now_s()
            print_drawn(console, runs_table(runs, now_s=now_s, wide=wide, all_namespaces=all_namespaces))
    return Exit.OK


@app.command("get")
@on_cluster
async def get_run(
    options: Options,
    name: _RunArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is over.")] = False,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="`json` or `yaml`: the manifest.")] = None,
) -> Exit:
    """Show one AnalysisRun: each metric, its condition and its measurements.

    Exit code with -w: 0 when the run ended Successful, otherwise 1.
    """
    if output is Output.WIDE:
        raise typer.BadParameter("-o takes json or yaml here")
    if watch and output is not None:
        raise typer.BadParameter(f"-w cannot be combined with -o {output}")
    console = Console()
    async with open_session(options) as session:
        if watch:
            return await follow_run(session, name, console=console)
        run = await _read(session, name)
        if output is not None:
            print_manifests(run, output, console)
        else:
            ascii_only = console.options.ascii_only
            print_drawn(console, draw_run(run_line(run), now_s=session.clock.now_s(), ascii_only=ascii_only))
    return Exit.OK


@app.command("terminate")
@on_cluster
async def terminate(
    options: Options,
    name: _RunArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is over.")] = False,
) -> Exit:
    """End an AnalysisRun now: nothing new is measured, and what was measured is judged.

    Exit code 1 for a run that is over already. With -w: 0 when the run ended Successful, otherwise 1.
    """
    console = Console()
    async with open_session(options) as session:
        run = await _read(session, name)
        line = run_line(run)
        if line.phase.over:
            fail(f"{name} is over already: {line.phase}")
            return Exit.BAD
        if line.ending:
            print_line(console, f"{name} is told to end already")
        else:
            patch: Manifest = {"metadata": {"uid": run["metadata"]["uid"]}, "spec": {"terminate": True}}
            await session.client.patch(
                ANALYSIS_RUN, session.namespace, name, patch, MERGE_PATCH, field_manager=FIELD_MANAGER
            )
            print_line(console, f"{name} is told to end: nothing new is measured, and what was measured is judged")
        return await follow_run(session, name, console=console) if watch else Exit.OK


async def follow_run(session: Session, name: str, *, console: Console) -> Exit:
    """Shows every change of a run until it is over.

    Returns: OK if it ended Successful, else BAD.

    Raises: ApiNotFound, also when it is deleted meanwhile; what `Client` raises.
    """
    async with following(session, named(ANALYSIS_RUN, session.namespace, name)) as followed:

        def seen() -> RunLine | None:
            return next(map(run_line, followed.all(ANALYSIS_RUN)), None)

        def picture(run: RunLine, now_s: float) -> RenderableType:
            return draw_run(run, now_s=now_s, ascii_only=console.options.ascii_only)

        def text(run: RunLine, _: float) -> list[str]:
            return [plain(run_text(run))]

        if seen() is None:
            raise ApiNotFound(f"there is no AnalysisRun {name} in namespace {session.namespace}")
        await show(
            session, followed, console=console, seen=seen, picture=picture, text=text, ended=lambda run: run.phase.over
        )
        if (last := seen()) is None:
            raise ApiNotFound(f"AnalysisRun {name} was deleted before it was over")
        return Exit.OK if last.phase is AnalysisPhase.SUCCESSFUL else Exit.BAD


async def _read(session: Session, name: str) -> Manifest:
    return manifest_from(await session.client.get(ANALYSIS_RUN, session.namespace, name))

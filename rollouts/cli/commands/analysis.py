"""`rollouts analyze`, and `rollouts analysis list|get|terminate`: the AnalysisRuns of a cluster, whoever made them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from rollouts.cli.commands.get import print_manifests
from rollouts.cli.commands.verdicts import follow_verdict, read_one
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.command_line import CliCommand
from rollouts.cli.terminal.listing import print_drawn, print_line
from rollouts.cli.terminal.options import (
    CommandRun,
    Output,
    RunArgument,
    duration,
    fail,
    note,
    on_cluster,
    read_manifests,
    rollout_name,
)
from rollouts.cli.terminal.runs import draw_run, runs_table
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.runs import RunLine, run_line, run_text
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.cli.view.verb_plans import FIELD_MANAGER
from rollouts.manifests.ownership import NAME, name_label
from rollouts.objects import ANALYSIS_RUN, Manifest
from rollouts.ports import MERGE_PATCH

app = typer.Typer(help="See and end AnalysisRuns: those that Rollouts make, and those that people make.")
_TemplatesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEMPLATE…",
        help="Names of templates; default: all of the files that no other template names.",
        show_default=False,
    ),
]
_TemplateFilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help="YAML or JSON with templates, which come before those of the cluster; - for stdin.",
    ),
]
_AboutOption = Annotated[
    str | None,
    typer.Option(
        "--rollout",
        parser=rollout_name,
        metavar="NAME",
        help="The Rollout that the run is about, and takes arguments from.",
    ),
]


@on_cluster
def analyze(  # noqa: PLR0913 - each is an option of the command
    options: Options,
    *,
    templates: _TemplatesArgument = None,
    files: _TemplateFilesOption = None,
    rollout: _AboutOption = None,
    cluster_scope: Annotated[
        bool, typer.Option("--cluster-scope", help="The names are of ClusterAnalysisTemplates.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Measure now, from here, and write nothing.")] = False,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until the run is over.")] = False,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="NAME=VALUE", help="Value of an argument, with --dry-run also of a secret one."),
    ] = None,
    prometheus_url: Annotated[
        str, typer.Option(help="With --dry-run: the Prometheus of metrics that name none.", show_default=False)
    ] = "",
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca", help="With --dry-run: certificates of authorities to trust besides the public ones, PEM."),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(parser=duration, metavar="DURATION", help="With --dry-run: the longest wait for one answer."),
    ] = "30s",  # type: ignore[assignment]
    keep: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long the run stays after its end; `forever` until you delete it."),
    ] = "24h",
    output: Annotated[Output | None, typer.Option("-o", "--output", help="With --dry-run: `json`.")] = None,
) -> CommandRun:
    """Make an AnalysisRun about a Rollout; with --dry-run measure now and tell how a run would end.

    Without --rollout and with files, --dry-run needs no cluster.

    Exit code 1: no run can be made, the run that -w follows did not end Successful,
    or with --dry-run: a run with such measurements would not.
    """
    from rollouts.cli.commands import analyze as measuring  # noqa: PLC0415 - the HTTP client is for it only
    from rollouts.cli.commands import analyze_run, metric_servers  # noqa: PLC0415 - so are models of templates
    from rollouts.cli.commands import templates as known  # noqa: PLC0415

    _check(dry_run=dry_run, rollout=rollout, watch=watch, output=output, prometheus_url=prometheus_url)
    if not files and not templates:
        raise typer.BadParameter("name a template of the cluster, or give -f FILE")
    manifests = read_manifests(files or ())
    in_files = known.templates_in(manifests)
    in_cluster = rollout is not None or not files
    names = known.chosen(in_files, templates or (), cluster_scope=cluster_scope, in_cluster=in_cluster)
    if isinstance(names, str):
        fail(names)
        raise typer.Exit(Exit.USAGE)
    values, console = _arguments(arguments or ()), Console()
    if rollout is not None and not dry_run:
        kept_s = None if keep == "forever" else math.ceil(duration(keep))
        return analyze_run.make_run(
            options, rollout, names, files=in_files, arguments=values, kept_s=kept_s, watch=watch
        )
    servers = metric_servers.servers_in(manifests)
    how = measuring.AnalyzeOptions(
        arguments=values, prometheus_url=prometheus_url, deadline_s=timeout, ca_file=ca_file, servers=servers
    )
    output_json = output is Output.JSON
    if not in_cluster:
        return measuring.analyze(in_files, names, how, console=console, output_json=output_json)
    return measuring.analyze_in_cluster(
        options, in_files, names, how, rollout=rollout, console=console, output_json=output_json
    )


def _check(*, dry_run: bool, rollout: str | None, watch: bool, output: Output | None, prometheus_url: str) -> None:
    """Raises: typer.BadParameter."""
    from rollouts.metrics.addresses import ADMINISTRATORS, url_problem  # noqa: PLC0415 - for this command only

    if not dry_run and rollout is None:
        raise typer.BadParameter("say --rollout NAME to make an AnalysisRun, or --dry-run to measure now")
    if watch and dry_run:
        raise typer.BadParameter("-w follows an AnalysisRun, and --dry-run makes none")
    if output not in (None, Output.JSON):
        raise typer.BadParameter("-o takes json here")
    if output is not None and not dry_run:
        raise typer.BadParameter("-o needs --dry-run; for the run see `rollouts analysis get RUN -o json`")
    if prometheus_url and url_problem(prometheus_url, ADMINISTRATORS):
        raise typer.BadParameter(f"--prometheus-url takes http[s]://HOST[:PORT][/PATH], not {prometheus_url!r}")


def _arguments(given: Sequence[str]) -> dict[str, str]:
    pairs = [argument.partition("=") for argument in given]
    if wrong := [name for name, sign, _ in pairs if not name or not sign]:
        raise typer.BadParameter(f"--arg takes NAME=VALUE, not {wrong[0]!r}")
    return {name: value for name, _, value in pairs}


@app.command("list", cls=CliCommand)
@on_cluster
async def list_runs(
    options: Options,
    rollout: Annotated[
        str | None,
        typer.Option("--rollout", parser=rollout_name, metavar="NAME", help="Only the runs about this Rollout."),
    ] = None,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="List every namespace.")] = False,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="More columns, or the manifests.")] = None,
) -> Exit:
    """List AnalysisRuns, the newest first: what each is about, its verdict and why."""
    console = Console()
    async with open_session(options) as session:
        namespace = None if all_namespaces else session.namespace
        query = {"labelSelector": f"{NAME}={name_label(rollout)}"} if rollout else {}
        found, _ = await list_all(session, Collection(kind=ANALYSIS_RUN, namespace=namespace, query=query))
        if output not in (None, Output.WIDE):
            print_manifests(found, output, console)
        elif not found:
            where = f" in namespace {namespace}" if namespace else ""
            note(f"no AnalysisRuns found{f' of Rollout {rollout}' if rollout else ''}{where}")
        else:
            runs = sorted(map(run_line, found), key=lambda run: (-run.created_at_s, run.namespace, run.name))
            wide, now_s = output is Output.WIDE, session.clock.now_s()
            print_drawn(console, runs_table(runs, now_s=now_s, wide=wide, all_namespaces=all_namespaces))
    return Exit.OK


@app.command("get", cls=CliCommand)
@on_cluster
async def get_run(
    options: Options,
    name: RunArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is over.")] = False,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="The manifest, or its name.")] = None,
) -> Exit:
    """Show one AnalysisRun: each metric, its condition and its measurements.

    Exit code with -w: 0 when the run ended Successful, otherwise 1.
    """
    if output is Output.WIDE:
        raise typer.BadParameter("-o takes name, json or yaml here")
    if watch and output is not None:
        raise typer.BadParameter(f"-w cannot be combined with -o {output}")
    console = Console()
    async with open_session(options) as session:
        if watch:
            return await follow_run(session, name, console=console)
        run = await read_one(session, ANALYSIS_RUN, name)
        if output is not None:
            print_manifests(run, output, console)
        else:
            ascii_only = console.options.ascii_only
            print_drawn(console, draw_run(run_line(run), now_s=session.clock.now_s(), ascii_only=ascii_only))
    return Exit.OK


@app.command("terminate", cls=CliCommand)
@on_cluster
async def terminate(
    options: Options,
    name: RunArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is over.")] = False,
) -> Exit:
    """End an AnalysisRun now: nothing new is measured, and what was measured is judged.

    Exit code 1 for a run that is over already. With -w: 0 when the run ended Successful, otherwise 1.
    """
    console = Console()
    async with open_session(options) as session:
        run = await read_one(session, ANALYSIS_RUN, name)
        line = run_line(run)
        if line.phase.over:
            fail(f"{name} is over already: {line.phase}")
            return Exit.BAD
        if line.ending:
            print_line(console, f"{name} is ending already")
        else:
            patch: Manifest = {"metadata": {"uid": run["metadata"]["uid"]}, "spec": {"terminate": True}}
            await session.client.patch(
                ANALYSIS_RUN, session.namespace, name, patch, MERGE_PATCH, field_manager=FIELD_MANAGER
            )
            print_line(console, f"{name} is ending: nothing new is measured, and what was measured is judged")
        return await follow_run(session, name, console=console) if watch else Exit.OK


@app.command("providers", cls=CliCommand)
@on_cluster
def providers(
    options: Options,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f", "--filename", metavar="FILE", help="YAML or JSON with MetricProviders and Secrets; - for stdin."
        ),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask each an empty question, from here; as -f does.")] = False,
    controller_namespace: Annotated[
        str, typer.Option(metavar="NAME", help="With --ask: where the controller runs, and has its Secrets.")
    ] = "rollouts-system",
    ca_file: Annotated[
        Path | None, typer.Option("--ca", help="Certificates of authorities to trust besides the public ones, PEM.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(parser=duration, metavar="DURATION", help="The longest wait for one answer.")
    ] = "10s",  # type: ignore[assignment]
) -> CommandRun:
    """List the metric servers that MetricProviders declare; with --ask or -f, tell what each answers.

    Exit code 1: one is not Ready, or gives no answer that a metric could use.
    """
    from rollouts.cli.commands import metric_providers as known  # noqa: PLC0415 - the HTTP client is for it only
    from rollouts.cli.commands.metric_servers import servers_in  # noqa: PLC0415 - so are models of templates
    from rollouts.clock import SystemClock  # noqa: PLC0415

    clock = SystemClock()
    if files:
        manifests = read_manifests(files)
        servers = servers_in(manifests)
        return known.show_providers(manifests, servers, clock=clock, ca_file=ca_file, deadline_s=timeout)

    async def in_cluster() -> Exit:
        async with open_session(options) as session:
            found = await known.cluster_providers(session)
            servers = await known.with_secrets(session, found, namespace=controller_namespace) if ask else None
            return await known.show_providers(found, servers, clock=clock, ca_file=ca_file, deadline_s=timeout)

    return in_cluster()


async def follow_run(session: Session, name: str, *, console: Console) -> Exit:
    """`follow_verdict` of an AnalysisRun."""

    def picture(run: RunLine, now_s: float) -> RenderableType:
        return draw_run(run, now_s=now_s, ascii_only=console.options.ascii_only)

    return await follow_verdict(
        session, ANALYSIS_RUN, name, console=console, line_of=run_line, picture=picture, text=run_text
    )

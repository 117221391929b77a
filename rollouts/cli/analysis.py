"""`rollouts analyze`: its options and exit codes. What it does is in `commands/`, which it imports when it runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import CommandRun, Output, duration, fail, on_cluster, read_manifests
from rollouts.cli.view.session import Options

TemplatesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEMPLATE…",
        help="Names of templates; default: all of the files that no other template names.",
        show_default=False,
    ),
]
TemplateFilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help="YAML or JSON with templates, which come before those of the cluster; - for stdin.",
    ),
]


@on_cluster
def analyze(  # noqa: PLR0913 - each is an option of the command
    options: Options,
    *,
    templates: TemplatesArgument = None,
    files: TemplateFilesOption = None,
    rollout: Annotated[
        str | None,
        typer.Option("--rollout", metavar="NAME", help="The Rollout that the run is about, and takes arguments from."),
    ] = None,
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
    from rollouts.cli.commands import analyze_run  # noqa: PLC0415 - so are models of templates
    from rollouts.cli.commands import templates as known  # noqa: PLC0415

    _check(dry_run=dry_run, rollout=rollout, watch=watch, output=output, prometheus_url=prometheus_url)
    if not files and not templates:
        raise typer.BadParameter("name a template of the cluster, or give -f FILE")
    in_files = known.templates_in(read_manifests(files or ()))
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
    how = measuring.AnalyzeOptions(arguments=values, prometheus_url=prometheus_url, deadline_s=timeout, ca_file=ca_file)
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

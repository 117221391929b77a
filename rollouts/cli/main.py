"""`rollouts` and `kubectl rollouts`: the commands in their order, with the options of those whose modules cost time to import.

Nothing here decides anything about a Rollout: `promote` and the like write annotations, and the controller acts on them.

What checks specs is imported by the commands that do: it takes a third of the time in which `get` prints its first line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli import analysis, completion, updates
from rollouts.cli.commands import analysis as runs
from rollouts.cli.commands import config
from rollouts.cli.commands import drain_report as drain_command
from rollouts.cli.commands import get as get_command
from rollouts.cli.commands import status as status_command
from rollouts.cli.commands.own_version import own_version
from rollouts.cli.exits import EXIT_HELP, Exit
from rollouts.cli.migrate import command as migrate
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import (
    CommandRun,
    FilesOption,
    LintOutput,
    Output,
    Tool,
    fail,
    finish,
    note,
    on_cluster,
    read_file,
    result_of,
)
from rollouts.cli.view.session import Options
from rollouts.core.model.drain import ProxyMode
from rollouts.objects import Manifest

KUBECTL_PLUGIN = "kubectl-rollouts"  # the executable's name by which kubectl finds a plugin


app = typer.Typer(
    help="Progressive delivery for Kubernetes: see Rollouts, promote and abort them, try them without a cluster. "
    "For the controller's options see `rollouts controller --help`.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LintedFilesOption = Annotated[
    list[str],
    typer.Option(
        "-f", "--filename", metavar="FILE", help="A file of YAML or JSON, or a folder; repeatable; - for stdin."
    ),
]
_REVISION = "A revision, its number (`4`), its role (stable, canary, active, preview), `current` or `previous`."


def main(argv: Sequence[str]) -> int:
    """Runs one command and returns its exit code (`exits.Exit`).

    Args:
        argv: the command line without the program's name.
    """
    if argv and argv[0] == "__complete":
        sys.stdout.write(completion.complete(typer.main.get_command(app), argv[1:]))
        return Exit.OK
    try:
        app(args=list(argv), prog_name=program_name(sys.argv[0] if sys.argv else ""))
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else Exit.OK if done.code is None else Exit.USAGE
    return Exit.OK


def program_name(executable: str) -> str:
    """The name in help texts: `kubectl rollouts` when kubectl runs us as its plugin, else `rollouts`."""
    return "kubectl rollouts" if Path(executable).stem == KUBECTL_PLUGIN else "rollouts"


app.command("get")(get_command.get)
app.command("list")(get_command.list_)
app.command("status")(status_command.status)
app.command("history")(get_command.history)
app.command("drain-report")(drain_command.drain_report)


@app.command("lint")
def lint(
    files: LintedFilesOption,
    prometheus_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Warn of metrics in queries of templates that this Prometheus does not have."),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--ca", help="Certificates of the authorities that Prometheus' is from, PEM.")
    ] = None,
    silenced: Annotated[
        list[str] | None,
        typer.Option(
            "--silence", metavar="RULE", help="Leave out one piece of advice, by its rule's name; repeatable."
        ),
    ] = None,
    output: Annotated[
        LintOutput | None, typer.Option("-o", "--output", help="For programs: all findings with their rules.")
    ] = None,
) -> None:
    """Report every problem of Rollouts, TrafficProviders and analysis templates, with line and path; exit code 1 for problems.

    Needs no cluster. Runs the tests that a TrafficProvider contains; Rollouts in the same files may use it.
    Analyses are checked with the templates in the files, and keys with the ConfigMaps and Secrets; what is not there
    may be in the cluster. A file without an object, and an object with a wrong apiVersion, are problems too.

    It also reports what loses requests although the controller can carry it out:
    findings of the graceful-exit checklist, and Services in the same file that do not fit a gradual update.
    Each of them is unsafe, a warning or a note, and does not change the exit code.
    With --prometheus-url it warns of metrics that are not there, with the names next to them; 4 when it does not answer.
    """
    from rollouts.cli.commands.lint_output import as_text, files_in, lint_files, print_reports  # noqa: PLC0415
    from rollouts.cli.commands.metric_names import metric_names  # noqa: PLC0415

    found = files_in(files)
    if found.patches:
        merged = f"not checked, because Kustomize merges them into others: {', '.join(found.patches)}"
        note(f"{merged}; check what comes out: kubectl kustomize FOLDER | rollouts lint -f -")
    texts = [read_file(file) for file in found.checked]
    if not texts:
        fail(f"there is no .yaml, .yml or .json file in {', '.join(files)}")
        raise typer.Exit(Exit.USAGE)
    metrics = result_of(metric_names(prometheus_url, deadline_s=30.0, ca_file=ca_file)) if prometheus_url else None
    reports = lint_files(texts, metrics=metrics, silenced=silenced or ())
    if output is None:
        print_reports(reports, Console(), Console(stderr=True))
    else:
        sys.stdout.write(f"{as_text(output, reports, version=own_version())}\n")
    raise typer.Exit(Exit.BAD if any(report.report.problems for report in reports) else Exit.OK)


updates.register(app)
app.command("analyze")(analysis.analyze)
app.add_typer(runs.app, name="analysis")
app.add_typer(config.app, name="config")
app.command("migrate")(migrate.migrate)


@app.command("gitops")
def gitops(
    files: FilesOption,
    tools: Annotated[
        list[Tool] | None, typer.Option("--for", help="Print for this tool; repeatable; default: both.")
    ] = None,
) -> None:
    """Print which fields Argo CD and Flux must ignore in the objects that the Rollouts in files manage. Needs no cluster.

    A tool that resets weights or selectors to their values in Git during an update moves traffic.
    """
    from rollouts.cli.commands import lint as lint_command  # noqa: PLC0415
    from rollouts.cli.commands.gitops import gitops_text, ignored_in  # noqa: PLC0415
    from rollouts.cli.kubernetes.yaml_text import read_text  # noqa: PLC0415

    manifests: list[Manifest] = []
    problems = 0
    texts = [(source, read_text(text)) for source, text in map(read_file, files)]
    known = lint_command.known_in(*(text for _, text in texts))
    for source, text in texts:
        report = lint_command.lint(text, known)
        problems += len(report.problems)
        for remark in report.problems:
            print_line(Console(stderr=True), remark.text(source))
        manifests += [] if report.problems else text.manifests
    if problems:
        raise typer.Exit(Exit.BAD)
    sys.stdout.write(gitops_text(ignored_in(manifests, known.providers), tools or list(Tool)))


@app.command("rbac")
def rbac(
    files: FilesOption,
    account: Annotated[
        str, typer.Option("--service-account", metavar="NAMESPACE/NAME", help="The controller's ServiceAccount.")
    ] = "rollouts-system/rollouts",
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "-n", "--namespace", metavar="NAME", help="Where objects without a namespace are used; repeatable."
        ),
    ] = None,
) -> None:
    """Print the Roles with which the controller may read the Secrets that analyses and Rollouts in files name. Needs no cluster.

    Of Rollouts those count that have `configVersioning.secrets: true`. Each object has a Role of its own, which says each Secret
    by name; for copies of a Rollout's Secrets there is the right to create Secrets, too. Apply them by:
    `rollouts rbac -f FILE | kubectl apply -f -`.
    """
    from rollouts.api.schema import yaml_text  # noqa: PLC0415
    from rollouts.cli.commands import lint as lint_command  # noqa: PLC0415
    from rollouts.cli.commands import rbac as rbac_command  # noqa: PLC0415

    try:
        manifests = [manifest for file in files for manifest in lint_command.manifests_in(*read_file(file))]
        named = rbac_command.secrets_named(manifests, namespaces or ())
        versioned = rbac_command.config_secrets_named(manifests, namespaces or ())
        who = rbac_command.parse_account(account)
        made = [*rbac_command.roles(named, who), *rbac_command.config_roles(versioned, who)]
    except ValueError as wrong:
        fail(str(wrong))
        raise typer.Exit(Exit.USAGE) from None
    if not made:
        nothing = "no argument of an analysis in the files names a Secret, and no Rollout versions one"
        note(nothing)
    sys.stdout.write("---\n".join(yaml_text(each) for each in made))


@app.command("plan")
@on_cluster
def plan(
    options: Options,
    file: Annotated[
        str,
        typer.Option(
            "-f", "--filename", metavar="FILE", help="YAML or JSON with Rollouts, ConfigMaps, Secrets; - for stdin."
        ),
    ],
    output: Annotated[Output | None, typer.Option("-o", "--output", help="More columns, or all of it as data.")] = None,
    proxy_mode: Annotated[
        ProxyMode | None,
        typer.Option(help="How nodes proxy Services, as in the controller's --proxy-mode; default: asks the cluster."),
    ] = None,
) -> CommandRun:
    """Show what the next update of the Rollouts in a file would do in this cluster, and what makes it unsafe.

    Shows the revision, the ConfigMaps and Secrets that change with it and their copies, the steps with their pods and Services,
    the waits with the reason for each number, and findings with the fix.
    For ConfigMaps and Secrets in the file it says which Rollouts they start. Reads only.
    Exit code 0: nothing unsafe was found. 5: something is unsafe. 1: a spec in the file is invalid.
    2: usage. 4: the API server cannot be reached or refuses.
    """
    from rollouts.cli.plan import command as plan_command  # noqa: PLC0415 - the controller's policy is for it only

    source, text = read_file(file)
    return plan_command.plan(options, text, source=source, proxy_mode=proxy_mode, output=output, console=Console())


@app.command("doctor")
@on_cluster
def doctor(
    options: Options,
    controller_namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where the controller runs; default: looks in every namespace."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> CommandRun:
    """Look whether the cluster has everything that Rollouts need, and say of each fault what repairs it. Reads only.

    Looks at the CRDs, the controller, its leader and its rights, versions, the proxy mode, routers and Gateway classes,
    metrics APIs of autoscalers, Prometheus, TrafficProviders and MetricProviders.
    Exit code 0: no fault. 1: a fault. 4: the API server cannot be reached or refuses.
    """
    from rollouts.cli.commands import doctor as doctor_command  # noqa: PLC0415 - the controller's facts are for it only

    return doctor_command.doctor(options, controller_namespace=controller_namespace, as_json=as_json, console=Console())


@app.command("diff")
@on_cluster
def diff(
    options: Options,
    name: Annotated[str | None, typer.Argument(help="Name of the Rollout.", show_default=False)] = None,
    before: Annotated[str, typer.Argument(metavar="[REV]", help=_REVISION)] = "previous",
    after: Annotated[str, typer.Argument(metavar="[REV]", help=_REVISION)] = "current",
    file: Annotated[
        str | None, typer.Option("-f", "--filename", metavar="FILE", help="What applying this file would change.")
    ] = None,
) -> CommandRun:
    """Show how the pod templates of two revisions differ, or with -f what applying a file would change. Reads only.

    Exit code 0: no difference. 1: they differ. 2: usage, or a revision that is not kept.
    """
    from rollouts.cli.commands import diff as diff_command  # noqa: PLC0415 - for it only

    if (name is None) == (file is None):
        raise typer.BadParameter("name a Rollout, or give -f FILE")
    if file is not None:
        source, text = read_file(file)
        return diff_command.diff_file(options, text, source=source, console=Console())
    return diff_command.diff_revisions(options, name or "", (before, after), console=Console())


@app.command("version")
@on_cluster
def version(
    options: Options,
    client: Annotated[bool, typer.Option("--client", help="Only of this program; asks no cluster.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
) -> CommandRun:
    """Show the versions of this program, of the controllers and of the API server, and whether they fit."""
    from rollouts.cli.commands import version as version_command  # noqa: PLC0415 - the controller's facts are for it only

    return version_command.version(options, client_only=client, as_json=as_json, console=Console())


@app.command("completion")
def completion_(
    shell: Annotated[completion.Shell, typer.Argument(help="Which shell.", show_default=False)],
) -> None:
    """Print what a shell needs to complete commands and names: `source <(rollouts completion bash)`.

    kubectl completes `kubectl rollouts` itself, by the program `kubectl_complete-rollouts`.
    """
    sys.stdout.write(completion.script(shell))


@app.command("crds")
def crds() -> None:
    """Print the CustomResourceDefinitions: `rollouts crds | kubectl apply -f -`."""
    from rollouts.api.schema import crd_manifests, yaml_text  # noqa: PLC0415

    sys.stdout.write("---\n".join(yaml_text(crd) for crd in crd_manifests()))


@app.command("demo")
def demo(
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Use the current kubeconfig's cluster, not a simulated one.")
    ] = False,
    serve: Annotated[
        Path | None,
        typer.Option("--serve", metavar="FILE", help="Write a kubeconfig of the simulated cluster here, for kubectl."),
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="With --cluster: kubeconfig file.")] = None,
    context: Annotated[str | None, typer.Option(help="With --cluster: context of the kubeconfig.")] = None,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Print lines, not the live tree; the default without a terminal or with $CI."),
    ] = False,
) -> None:
    """See it work in a minute: canary, aborts and blue-green under traffic, on a cluster inside this process.

    Exit code 0 only if every outcome was as promised and no request was lost.
    """
    from rollouts.cli.demo import command as demo_command  # noqa: PLC0415 - the simulated cluster and the controller are for it only

    if cluster and serve:
        raise typer.BadParameter("--serve cannot be combined with --cluster: it is for the simulated cluster")
    if (kubeconfig or context) and not cluster:
        raise typer.BadParameter("--kubeconfig and --context need --cluster")
    real = Options(kubeconfig=kubeconfig, context=context) if cluster else None
    finish(demo_command.demo(real, serve=serve, console=Console(), lines=plain or bool(os.environ.get("CI"))))

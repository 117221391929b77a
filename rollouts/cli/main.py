"""`rollouts` and `kubectl rollouts`: the commands in their order.

Nothing here decides anything about a Rollout: `promote` and the like write annotations, and the controller acts on them.

What checks specs, and what the controller knows, is imported by the commands that need it: it takes a third of the time in which
`get` prints its first line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli import completion
from rollouts.cli.commands import (
    analysis,
    config,
    create,
    delete,
    diff,
    doctor,
    drain_report,
    get,
    lint_output,
    rbac,
    set_image,
    status,
    verbs,
    version,
)
from rollouts.cli.exits import EXIT_HELP, Exit
from rollouts.cli.migrate import command as migrate
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import (
    CommandRun,
    FilesOption,
    NameArgument,
    Output,
    Tool,
    finish,
    on_cluster,
    read_file,
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


def main(argv: Sequence[str]) -> int:
    """Runs one command line, without the program's name, and returns its exit code (`exits.Exit`)."""
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


app.command("get")(get.get)
app.command("list")(get.list_)
app.command("status")(status.status)
app.command("history")(get.history)
app.command("drain-report")(drain_report.drain_report)
app.command("lint")(lint_output.lint)
app.command("promote")(verbs.promote)
app.command("abort")(verbs.abort)
app.command("retry")(verbs.retry)
app.command("pause")(verbs.pause)
app.command("resume")(verbs.resume)


@app.command("rollback")
@on_cluster
def rollback(
    options: Options,
    name: NameArgument,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="REVISION", help="A revision or its number (see history); default: the previous one."
        ),
    ] = None,
    wait: verbs.WaitOption = True,
) -> CommandRun:
    """Go back to an earlier revision that is kept, without changing the spec; holds until the template changes."""
    return _undo(options, name, to=to, full=False, wait=wait)


@app.command("undo")
@on_cluster
def undo(
    options: Options,
    name: NameArgument,
    to_revision: Annotated[
        str | None,
        typer.Option(metavar="REVISION", help="A revision or its number (see history); default: the previous one."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Pass every step and every analysis on the way back.")] = False,
    wait: verbs.WaitOption = True,
) -> CommandRun:
    """Go back to an earlier revision that is kept, and say what that takes: how many steps, how long, where it stops.

    The spec stays as it is; the rollback holds until the template changes. It is the same as `rollback`.
    """
    return _undo(options, name, to=to_revision, full=full, wait=wait)


def _undo(options: Options, name: str, *, to: str | None, full: bool, wait: bool) -> CommandRun:
    from rollouts.cli.plan import undo as undo_command  # noqa: PLC0415 - the controller's policy is for it only

    return undo_command.undo(options, name, to=to, full=full, wait=wait, console=Console())


app.command("restart")(verbs.restart)
app.command("create")(create.create)
app.command("delete")(delete.delete)
app.add_typer(set_image.app, name="set")
app.command("analyze")(analysis.analyze)
app.add_typer(analysis.app, name="analysis")
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


app.command("rbac")(rbac.rbac)


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


app.command("doctor")(doctor.doctor)
app.command("diff")(diff.diff)
app.command("version")(version.version)
app.command("completion")(completion.completion)


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
    from rollouts.cli.demo import command as demo_command  # noqa: PLC0415 - the controller is for it only

    if cluster and serve:
        raise typer.BadParameter("--serve cannot be combined with --cluster: it is for the simulated cluster")
    if (kubeconfig or context) and not cluster:
        raise typer.BadParameter("--kubeconfig and --context need --cluster")
    real = Options(kubeconfig=kubeconfig, context=context) if cluster else None
    finish(demo_command.demo(real, serve=serve, console=Console(), lines=plain or bool(os.environ.get("CI"))))

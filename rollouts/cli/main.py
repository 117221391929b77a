"""`rollouts` and `kubectl rollouts`: the commands in their order.

Nothing here decides anything about a Rollout: `promote` and the like write annotations, and the controller acts on them.

What checks specs, and what the controller knows, is imported by the commands that need it: it takes a third of the time in which
`get` prints its first line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
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
    experiment,
    explain,
    get,
    lint_output,
    rbac,
    set_image,
    status,
    verbs,
    version,
)
from rollouts.cli.dashboard import command as dashboard
from rollouts.cli.exits import Exit
from rollouts.cli.migrate import command as migrate
from rollouts.cli.terminal.command_line import CliCommand, CliGroup, write_cluster_options
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import (
    CommandRun,
    FilesOption,
    NameArgument,
    Output,
    Tool,
    fail,
    finish,
    on_cluster,
    read_file,
)
from rollouts.cli.view.session import Options
from rollouts.core.model.drain import ProxyMode
from rollouts.objects import Manifest

KUBECTL_PLUGIN = "kubectl-rollouts"  # the executable's name by which kubectl finds a plugin
NO_COLOR = "--no-color"
SEE, CHANGE, ANALYSES, FILES, CLUSTER = (
    "See Rollouts",
    "Change Rollouts",
    "Analyses",
    "Check and convert files",
    "Install and learn",
)
_Decorator = Callable[[Callable[..., None]], Callable[..., None]]

app = typer.Typer(
    cls=CliGroup,
    help="Progressive delivery for Kubernetes: see Rollouts, promote and abort them, try them without a cluster. "
    "For the controller's options see `rollouts controller --help`.",
    rich_markup_mode=None,
    subcommand_metavar="COMMAND",
    options_metavar="",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def main(argv: Sequence[str]) -> int:
    """Runs one command line, without the program's name, and returns its exit code (`exits.Exit`)."""
    if argv and argv[0] == "__complete":
        sys.stdout.write(completion.complete(typer.main.get_command(app), argv[1:]))
        return Exit.OK
    words, colours = [word for word in argv if word != NO_COLOR], os.environ.get("NO_COLOR")
    program = program_name(sys.argv[0] if sys.argv else "")
    try:
        if len(words) < len(argv):
            os.environ["NO_COLOR"] = "1"  # rich reads it
        code = typer.main.get_command(app).main(words, prog_name=program, standalone_mode=False)
    except typer.TyperException as wrong:
        message = wrong.format_message().removeprefix("Invalid value: ").rstrip(".")
        ctx = getattr(wrong, "ctx", None)
        fail(f"{message}; see `{ctx.command_path if ctx is not None else program} --help`")
        return Exit.USAGE
    except SystemExit as done:  # a closed pipe
        return done.code if isinstance(done.code, int) else Exit.USAGE
    finally:
        if len(words) < len(argv) and colours is None:
            del os.environ["NO_COLOR"]
    return code if isinstance(code, int) else Exit.OK


def program_name(executable: str) -> str:
    """The name in help texts: `kubectl rollouts` when kubectl runs us as its plugin, else `rollouts`."""
    return "kubectl rollouts" if Path(executable).stem == KUBECTL_PLUGIN else "rollouts"


_REVISION_HELP = "A revision or its number (see history); default: the previous one."


def _command(name: str, group: str, about: str) -> _Decorator:
    return app.command(name, cls=CliCommand, rich_help_panel=group, short_help=about)


_command("get", SEE, "one Rollout: revisions, pods, weight, steps, what it waits for")(get.get)
_command("list", SEE, "all Rollouts, a line each")(get.list_)
_command("status", SEE, "one line and an exit code, for scripts")(status.status)
_command("history", SEE, "the revisions, and which you can go back to")(get.history)
_command("diff", SEE, "how two revisions differ, or what applying a file would change")(diff.diff)
_command("drain-report", SEE, "what the last cutover waited for")(drain_report.drain_report)
app.add_typer(
    config.app, name="config", cls=CliGroup, rich_help_panel=SEE, short_help="ConfigMaps and Secrets of each revision"
)
_command("dashboard", SEE, "all of it in a browser, live, with buttons")(dashboard.dashboard)
_command("promote", CHANGE, "pass the gate where the update waits")(verbs.promote)
_command("abort", CHANGE, "give the stable revision all traffic")(verbs.abort)
_command("retry", CHANGE, "try an aborted revision again")(verbs.retry)
_command("pause", CHANGE, "pause the steps")(verbs.pause)
_command("resume", CHANGE, "end a pause that `pause` began")(verbs.resume)


@_command("rollback", CHANGE, "the same as undo")
@on_cluster
def rollback(
    options: Options,
    name: NameArgument,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="REVISION", help=_REVISION_HELP),
    ] = None,
    wait: verbs.WaitOption = True,
) -> CommandRun:
    """Go back to an earlier revision that is kept, without changing the spec; holds until the template changes."""
    return _undo(options, name, to=to, full=False, wait=wait)


@_command("undo", CHANGE, "go back to an earlier revision")
@on_cluster
def undo(
    options: Options,
    name: NameArgument,
    to_revision: Annotated[
        str | None,
        typer.Option(metavar="REVISION", help=_REVISION_HELP),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Pass every step and every analysis on the way back.")] = False,
    wait: verbs.WaitOption = True,
) -> CommandRun:
    """Go back to an earlier revision that is kept, and say what that takes: how many steps, how long, where it stops.

    The spec stays as it is; the rollback holds until the template changes. It is the same as `rollback`.
    """
    # 0 is kubectl's word for the previous one.
    return _undo(options, name, to=None if to_revision == "0" else to_revision, full=full, wait=wait)


def _undo(options: Options, name: str, *, to: str | None, full: bool, wait: bool) -> CommandRun:
    from rollouts.cli.plan import undo as undo_command  # noqa: PLC0415 - the controller's policy is for it only

    return undo_command.undo(options, name, to=to, full=full, wait=wait, console=Console())


_command("restart", CHANGE, "replace the pods, a few at a time")(verbs.restart)
app.add_typer(
    set_image.app, name="set", cls=CliGroup, rich_help_panel=CHANGE, short_help="set an image, which starts an update"
)
_command("create", CHANGE, "create the objects of files, after a lint")(create.create)
_command("delete", CHANGE, "delete Rollouts with their pods")(delete.delete)
_command("analyze", ANALYSES, "make an AnalysisRun, or measure now without one")(analysis.analyze)
app.add_typer(
    analysis.app, name="analysis", cls=CliGroup, rich_help_panel=ANALYSES, short_help="see and end AnalysisRuns"
)
app.add_typer(
    experiment.app, name="experiment", cls=CliGroup, rich_help_panel=ANALYSES, short_help="see and end Experiments"
)
_command("lint", FILES, "every problem of the objects in files")(lint_output.lint)
_command("migrate", FILES, "Deployments, Argo Rollouts and Flagger Canaries to Rollouts")(migrate.migrate)


@_command("gitops", FILES, "what Argo CD and Flux must ignore")
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
    from rollouts.cli.commands.gitops import gitops_text, ignored_in, ignored_sizes  # noqa: PLC0415
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
    ignored = *ignored_sizes(manifests, known.autoscalers), *ignored_in(manifests, known.providers)
    sys.stdout.write(gitops_text(ignored, tools or list(Tool)))


_command("rbac", FILES, "Roles for the Secrets that analyses and Rollouts name")(rbac.rbac)


@_command("plan", FILES, "what the next update would do in this cluster")
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
    if output is Output.NAME:
        raise typer.BadParameter("-o takes wide, json or yaml here")
    from rollouts.cli.plan import command as plan_command  # noqa: PLC0415 - the controller's policy is for it only

    source, text = read_file(file)
    return plan_command.plan(options, text, source=source, proxy_mode=proxy_mode, output=output, console=Console())


_command("doctor", CLUSTER, "whether the cluster has all that Rollouts need")(doctor.doctor)
_command("version", CLUSTER, "of this program, the controllers and the API server")(version.version)
_command("completion", CLUSTER, "a script for bash, zsh or fish")(completion.completion)
_command("explain", CLUSTER, "what a reason, or a rule of lint, means")(explain.explain)


@_command("crds", CLUSTER, "print the CustomResourceDefinitions")
def crds() -> None:
    """Print the CustomResourceDefinitions: `rollouts crds | kubectl apply --server-side --force-conflicts -f -`."""
    from rollouts.api.schema import crd_manifests, yaml_text  # noqa: PLC0415

    sys.stdout.write("---\n".join(yaml_text(crd) for crd in crd_manifests()))


@_command("demo", CLUSTER, "a canary under traffic, in a minute, without a cluster")
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


@_command("help", CLUSTER, "how a command is used, with examples")
def help_(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]", help="A command, or `options`.", show_default=False)
    ] = None,
) -> None:
    """Show how a command is used, with examples; `help options` shows the options that choose a cluster."""
    if words == ["options"]:
        formatter = ctx.make_formatter()
        write_cluster_options(ctx.find_root(), formatter)
        sys.stdout.write(formatter.getvalue())
        return
    raise typer.Exit(main([*(words or ()), "--help"]))

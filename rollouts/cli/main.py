"""`rollouts` and `kubectl rollouts`: the commands, their options and exit codes. What they do is in the modules beside this one.

Nothing here decides anything about a Rollout: `promote` and the like write annotations, and the controller acts on them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rollouts.api.schema import crd_manifests, yaml_text
from rollouts.cli import analysis, config
from rollouts.cli.commands import drain_report as drain_command
from rollouts.cli.commands import get as get_command
from rollouts.cli.commands import lint as lint_command
from rollouts.cli.commands import status as status_command
from rollouts.cli.commands import verbs
from rollouts.cli.commands.gitops import Tool, gitops_text, ignored_in
from rollouts.cli.commands.metric_names import metric_names
from rollouts.cli.exits import EXIT_HELP, Exit
from rollouts.cli.terminal.options import CommandRun, Output, duration, fail, finish, on_cluster, read_file, result_of
from rollouts.cli.view.session import Options
from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.drain import ProxyMode
from rollouts.objects import Manifest

KUBECTL_PLUGIN = "kubectl-rollouts"  # the executable's name by which kubectl finds a plugin


app = typer.Typer(
    help="Progressive delivery for Kubernetes: see Rollouts, promote and abort them, try them without a cluster. "
    "For the controller's options see `rollouts controller --help`.",
    epilog=EXIT_HELP,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

NameArgument = Annotated[str, typer.Argument(help="Name of the Rollout.", show_default=False)]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait up to 10 s until a controller has recorded the command.")
]


def main(argv: Sequence[str]) -> int:
    """Runs one command and returns its exit code (`exits.Exit`).

    Args:
        argv: the command line without the program's name.
    """
    try:
        app(args=list(argv), prog_name=program_name(sys.argv[0] if sys.argv else ""))
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else Exit.OK if done.code is None else Exit.USAGE
    return Exit.OK


def program_name(executable: str) -> str:
    """The name in help texts: `kubectl rollouts` when kubectl runs us as its plugin, else `rollouts`."""
    return "kubectl rollouts" if Path(executable).stem == KUBECTL_PLUGIN else "rollouts"


@app.command("get")
@on_cluster
def get(
    options: Options,
    name: Annotated[str | None, typer.Argument(help="Name of one Rollout; default: list all.")] = None,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="List every namespace.")] = False,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running and show every change.")] = False,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="More columns, or the manifest.")] = None,
) -> CommandRun:
    """Show a list of Rollouts, or the tree of one: its revisions, pods, weight and steps, and what it waits for."""
    if name and all_namespaces:
        raise typer.BadParameter("a Rollout's name needs one namespace: remove -A")
    if watch and output in (Output.JSON, Output.YAML):
        raise typer.BadParameter(f"-w cannot be combined with -o {output}")
    what = get_command.What(name=name, all_namespaces=all_namespaces, watch=watch, output=output)
    return get_command.get(options, what, console=Console())


@app.command("status")
@on_cluster
def status(
    options: Options,
    name: NameArgument,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Keep running until it is Healthy or bad.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(parser=duration, metavar="DURATION", help="As --watch, for this long at most (5m, 90s)."),
    ] = None,
) -> CommandRun:
    """Show the state of a Rollout and what it waits for, for people and scripts.

    Exit code 0: Healthy. 1: Degraded, Aborted or an invalid spec. 2: usage.
    3: progressing or paused, or --timeout passed.
    4: the API server cannot be reached, refuses, or has no such Rollout.
    """
    return status_command.status(options, name, watch=watch, timeout_s=timeout, console=Console())


@app.command("promote")
@on_cluster
def promote(
    options: Options,
    name: NameArgument,
    full: Annotated[bool, typer.Option("--full", help="Pass every step and every analysis that is left.")] = False,
    step: Annotated[
        int | None,
        typer.Option(help="Pass this step, counted from 0 as in currentStepIndex; default: the current one."),
    ] = None,
    gate: Annotated[
        AnalysisKind | None,
        typer.Option(help="Pass the verdict of this analysis, and nothing else; `step` is that of the current step."),
    ] = None,
    wait: WaitOption = True,
) -> CommandRun:
    """Let the current revision pass the gate where it waits: a verdict that holds it, else the current step.

    A promotion past a verdict names the analysis, so it never passes a pause, nor the verdict of another analysis.
    """
    if sum((full, step is not None, gate is not None)) > 1:
        raise typer.BadParameter("--full, --step and --gate cannot be combined")
    return _verb(options, name, lambda seen: verbs.plan_promote(seen, full=full, step=step, gate=gate), wait=wait)


@app.command("abort")
@on_cluster
def abort(
    options: Options,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")] = False,
    wait: WaitOption = True,
) -> CommandRun:
    """Abort the current revision: the stable revision gets all traffic. Asks for confirmation on a terminal."""
    if not yes and not sys.stdin.isatty():
        fail("there is no terminal to confirm the abort: add --yes")
        raise typer.Exit(Exit.USAGE)
    return _verb(options, name, verbs.plan_abort, wait=wait, confirm=None if yes else _confirm)


@app.command("retry")
@on_cluster
def retry(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Try the aborted revision again from its first step."""
    return _verb(options, name, verbs.plan_retry, wait=wait)


@app.command("pause")
@on_cluster
def pause(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Pause the steps; scaling goes on."""
    return _verb(options, name, verbs.plan_pause, wait=wait)


@app.command("resume")
@on_cluster
def resume(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """End a pause that `pause` began. To pass a step that waits for promotion, use `promote`."""
    return _verb(options, name, verbs.plan_resume, wait=wait)


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
    wait: WaitOption = True,
) -> CommandRun:
    """Go back to an earlier revision that is kept, without changing the spec; holds until the template changes."""
    return _verb(options, name, lambda seen: verbs.plan_rollback(seen, to=to), wait=wait)


@app.command("restart")
@on_cluster
def restart(options: Options, name: NameArgument, wait: WaitOption = True) -> CommandRun:
    """Replace the pods that exist now, a few at a time."""
    now_s = time.time()
    return _verb(options, name, lambda seen: verbs.plan_restart(seen, now_s=now_s), wait=wait)


@app.command("history")
@on_cluster
def history(options: Options, name: NameArgument) -> CommandRun:
    """List the revisions of a Rollout, and which of them it can go back to."""
    return get_command.history(options, name, console=Console())


@app.command("drain-report")
@on_cluster
def drain_report(options: Options, name: NameArgument) -> CommandRun:
    """Show what the last cutover waited for, for how long, and what confirmed it.

    Exit code 0: no request was cut, as far as is known. 1: requests may have been cut. 3: a wait goes on.
    """
    return drain_command.drain_report(options, name, console=Console())


@app.command("lint")
def lint(
    files: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON, any number of documents; - for stdin."),
    ],
    prometheus_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Warn of metrics in queries of templates that this Prometheus does not have."),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--ca", help="Certificates of the authorities that Prometheus' is from, PEM.")
    ] = None,
) -> None:
    """Report every problem of Rollouts, TrafficProviders and analysis templates, with line and path; exit code 1 for problems.

    Needs no cluster. Runs the tests that a TrafficProvider contains; Rollouts in the same files may use it.
    Analyses are checked with the templates in the files, and keys with the ConfigMaps and Secrets; what is not there
    may be in the cluster.

    It also reports what loses requests although the controller can carry it out:
    findings of the graceful-exit checklist, and Services in the same file that do not fit a gradual update.
    Each of them is unsafe, a warning or a note, and does not change the exit code.
    With --prometheus-url it warns of metrics that are not there, with the names next to them; 4 when it does not answer.
    """
    console, reports = Console(), []
    texts = [read_file(file) for file in files]
    known = lint_command.providers(*(text for _, text in texts))
    templates = lint_command.templates_in(*(text for _, text in texts))
    configs = lint_command.configs_in(*(text for _, text in texts))
    metrics = result_of(metric_names(prometheus_url, deadline_s=30.0, ca_file=ca_file)) if prometheus_url else None
    for source, text in texts:
        report = lint_command.lint_text(text, known, templates, configs, metrics=metrics)
        reports.append(report)
        for remark in (*report.problems, *report.advice):
            console.print(remark.text(source), markup=False, highlight=False, soft_wrap=True)
        for remark in report.skipped:
            fail_free = Console(stderr=True)
            fail_free.print(remark.text(source), style="dim", markup=False, highlight=False, soft_wrap=True)
    problems = sum(len(each.problems) for each in reports)
    console.print(lint_command.summary(reports), highlight=False)
    raise typer.Exit(Exit.BAD if problems else Exit.OK)


app.command("analyze")(analysis.analyze)
app.add_typer(analysis.app, name="analysis")
app.add_typer(config.app, name="config")


@app.command("gitops")
def gitops(
    files: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON, any number of documents; - for stdin."),
    ],
    tools: Annotated[
        list[Tool] | None, typer.Option("--for", help="Print for this tool; repeatable; default: both.")
    ] = None,
) -> None:
    """Print which fields Argo CD and Flux must ignore in the objects that the Rollouts in files manage. Needs no cluster.

    A tool that resets weights or selectors to their values in Git during an update moves traffic.
    """
    manifests: list[Manifest] = []
    problems = 0
    texts = [read_file(file) for file in files]
    known = lint_command.providers(*(text for _, text in texts))
    for source, text in texts:
        report = lint_command.lint_text(text, known)
        problems += len(report.problems)
        for remark in report.problems:
            Console(stderr=True).print(remark.text(source), markup=False, highlight=False, soft_wrap=True)
        manifests += [] if report.problems else lint_command.manifests_of(text)
    if problems:
        raise typer.Exit(Exit.BAD)
    sys.stdout.write(gitops_text(ignored_in(manifests, known), tools or list(Tool)))


@app.command("rbac")
def rbac(
    files: Annotated[
        list[str],
        typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON, any number of documents; - for stdin."),
    ],
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
    """Print the Roles with which the controller may read the Secrets that arguments of analyses in files name. Needs no cluster.

    Apply them by: `rollouts rbac -f templates.yaml | kubectl apply -f -`.
    """
    from rollouts.cli.commands import rbac as rbac_command  # noqa: PLC0415 - for it only

    try:
        manifests = [each for file in files for each in lint_command.manifests_of(read_file(file)[1])]
        named = rbac_command.secrets_named(manifests, namespaces or ())
        made = rbac_command.roles(named, rbac_command.parse_account(account))
    except ValueError as wrong:
        fail(str(wrong))
        raise typer.Exit(Exit.USAGE) from None
    if not made:
        Console(stderr=True).print("no argument of an analysis in the files names a Secret", style="dim")
    sys.stdout.write("---\n".join(yaml_text(each) for each in made))


@app.command("plan")
@on_cluster
def plan(
    options: Options,
    file: Annotated[
        str,
        typer.Option(
            "-f", "--filename", metavar="FILE", help="YAML or JSON with Rollouts, ConfigMaps or both; - for stdin."
        ),
    ],
    output: Annotated[Output | None, typer.Option("-o", "--output", help="More columns, or all of it as data.")] = None,
    proxy_mode: Annotated[
        ProxyMode | None,
        typer.Option(help="How nodes proxy Services, as in the controller's --proxy-mode; default: asks the cluster."),
    ] = None,
) -> CommandRun:
    """Show what the next update of the Rollouts in a file would do in this cluster, and what makes it unsafe.

    Shows the revision, the ConfigMaps that change with it and their copies, the steps with their pods and Services,
    the waits with the reason for each number, and findings with the fix.
    For ConfigMaps in the file it says which Rollouts they start. Reads only.
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


@app.command("crds")
def crds() -> None:
    """Print the CustomResourceDefinitions: `rollouts crds | kubectl apply -f -`."""
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
    where = demo_command.Where(cluster=cluster, serve=serve, options=Options(kubeconfig=kubeconfig, context=context))
    finish(demo_command.demo(where, console=Console(), lines=plain or bool(os.environ.get("CI"))))


def _verb(
    options: Options, name: str, plan: verbs.PlannedWrite, *, wait: bool, confirm: Callable[[str], bool] | None = None
) -> CommandRun:
    return verbs.carry_out(options, name, plan, wait=wait, console=Console(), confirm=confirm)


def _confirm(meaning: str) -> bool:
    return typer.confirm(f"{meaning}. Go on?")

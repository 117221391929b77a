"""The options that every command with a cluster has, declared once, and how such a command is run to its exit code."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.errors import error_text
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.view.durations import seconds_of
from rollouts.cli.view.session import Options
from rollouts.errors import RolloutsError
from rollouts.objects import Manifest

CommandRun = Coroutine[Any, Any, Exit]
T = TypeVar("T")
_KINDS = ("rollout", "rollouts", "rollouts.rollouts.dev")
FilesOption = Annotated[
    list[str],
    typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON, any number of documents; - for stdin."),
]


def rollout_name(text: str) -> str:
    """`typer` parser of a Rollout's name.

    Raises: typer.BadParameter for what no object can have as its name, such as a script's empty variable: the API server takes a
        request without a name as one about all Rollouts of the namespace.
    """
    kind, slash, name = text.rpartition("/")
    if slash and kind in _KINDS and name:
        raise typer.BadParameter(f"write {name}: names stand here without {kind}/")
    if not text or not text.isprintable() or set(text) & set("/% ") or text in (".", ".."):
        raise typer.BadParameter(f"{text!r} is not the name of a Rollout")
    return text


NameArgument = Annotated[
    str, typer.Argument(help="Name of the Rollout.", show_default=False, parser=rollout_name, metavar="NAME")
]


class Output(StrEnum):
    """The values of `-o`."""

    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class Tool(StrEnum):
    """The values of `--for` of `gitops`."""

    ARGO_CD = "argocd"
    FLUX = "flux"


def duration(text: str) -> float:
    """`typer` parser of an option's duration, in seconds.

    Raises: typer.BadParameter.
    """
    try:
        return seconds_of(text)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def on_cluster(command: Callable[..., CommandRun]) -> Callable[..., None]:
    """Makes a typer command of a function whose first parameter is `options: Options`, and runs the coroutine that it returns.

    On the command line, the parameters of `_options_of_cluster` replace that parameter.
    """
    signature, common = (inspect.signature(function, eval_str=True) for function in (command, _options_of_cluster))

    def invoked(**given: Any) -> None:
        options = _options_of_cluster(**{name: given.pop(name) for name in common.parameters})
        finish(command(options=options, **given))

    own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *common.parameters.values())
    ]
    invoked.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    invoked.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    invoked.__name__, invoked.__doc__ = command.__name__, command.__doc__
    return invoked


def _options_of_cluster(
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", help="Namespace; default: the context's.", rich_help_panel="Cluster"),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the pod's own account.",
            rich_help_panel="Cluster",
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(help="Context of the kubeconfig; default: the current one.", rich_help_panel="Cluster"),
    ] = None,
    request_timeout: Annotated[
        float,
        typer.Option(
            help="The longest time to wait for one answer of the API server.",
            parser=duration,
            metavar="DURATION",
            rich_help_panel="Cluster",
        ),
    ] = "10s",  # type: ignore[assignment]
) -> Options:
    return Options(kubeconfig=kubeconfig, context=context, namespace=namespace, request_timeout_s=request_timeout)


def finish(command: CommandRun) -> None:
    """Runs a command to its exit code, as `result_of` does."""
    raise typer.Exit(result_of(command))


def result_of(work: Coroutine[Any, Any, T]) -> T:
    """Runs work to its result; an error that we raise on purpose becomes one line on stderr and exit code 4.

    Raises: typer.Exit.
    """
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None  # 128 + SIGINT, as shells say it
    except RolloutsError as error:
        fail(error_text(error))
    raise typer.Exit(Exit.FAILED)


def read_file(file: str) -> tuple[str, str]:
    """The display name of a file (`-` is stdin), and its text. Raises: typer.Exit, when it cannot be read."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        fail(f"{file}: {unreadable}")
        raise typer.Exit(Exit.USAGE) from None
    return ("stdin" if file == "-" else file), text


def read_manifests(files: Iterable[str], *, code: Exit = Exit.USAGE) -> list[Manifest]:
    """The objects of files, Lists taken apart, for commands that do not lint them first.

    Raises: typer.Exit with `code`, when a document cannot be read: nothing may be left out in silence. Else as `read_file`.
    """
    from rollouts.cli.kubernetes.yaml_text import read_text  # noqa: PLC0415 - most commands read no files

    manifests: list[Manifest] = []
    for source, text in map(read_file, files):
        file = read_text(text)
        if file.broken is not None:
            fail(f"{source}:{file.broken.line}: YAML: {file.broken.why}")
            raise typer.Exit(code)
        manifests += file.manifests
    return manifests


def fail(message: str) -> None:
    """Prints an error to stderr."""
    print_line(Console(stderr=True), f"error: {message}", style="red")


def note(message: str) -> None:
    """Prints to stderr what is no error and nothing for scripts."""
    print_line(Console(stderr=True), message, style="dim")

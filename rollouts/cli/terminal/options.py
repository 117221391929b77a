"""The options that every command with a cluster has, declared once, and how such a command is run to its exit code."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Coroutine
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


class LintOutput(StrEnum):
    """The values of `-o` of `lint`."""

    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


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

    On the command line, `--kubeconfig`, `--context`, `-n` and `--request-timeout` replace that parameter.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "options"]

    def invoked(**given: Any) -> None:
        options = Options(
            kubeconfig=given.pop("kubeconfig"),
            context=given.pop("context"),
            namespace=given.pop("namespace"),
            request_timeout_s=given.pop("request_timeout"),
        )
        finish(command(options=options, **given))

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in [*own, *_COMMON]]
    invoked.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    invoked.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    invoked.__name__, invoked.__doc__ = command.__name__, command.__doc__
    return invoked


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


def fail(message: str) -> None:
    """Prints an error to stderr."""
    print_line(Console(stderr=True), f"error: {message}", style="red")


def note(message: str) -> None:
    """Prints to stderr what is no error and nothing for scripts."""
    print_line(Console(stderr=True), message, style="dim")


def _option(name: str, annotation: Any, default: Any, *flags: str, help: str, **more: Any) -> inspect.Parameter:  # noqa: A002  typer's word
    declared = Annotated[annotation, typer.Option(*flags, help=help, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=declared)


_PANEL = "Cluster"
_COMMON = (
    _option(
        "namespace",
        str | None,
        None,
        "-n",
        "--namespace",
        help="Namespace; default: the context's.",
        rich_help_panel=_PANEL,
    ),
    _option(
        "kubeconfig",
        Path | None,
        None,
        "--kubeconfig",
        help="Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the pod's own account.",
        rich_help_panel=_PANEL,
    ),
    _option(
        "context",
        str | None,
        None,
        "--context",
        help="Context of the kubeconfig; default: the current one.",
        rich_help_panel=_PANEL,
    ),
    _option(
        "request_timeout",
        float,
        "10s",
        "--request-timeout",
        help="The longest time to wait for one answer of the API server.",
        parser=duration,
        metavar="DURATION",
        rich_help_panel=_PANEL,
    ),
)

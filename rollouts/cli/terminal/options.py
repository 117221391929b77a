"""The options that every command with a cluster has, declared once, and how such a command is run to its exit code."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
import sys
from collections.abc import Callable, Collection, Coroutine, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.elsewhere import EXPERIMENT_WORDS, ROLLOUT_WORDS, RUN_WORDS
from rollouts.cli.terminal.errors import error_text
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.view.durations import seconds_of
from rollouts.cli.view.session import Options
from rollouts.cluster.target import AccessFlags
from rollouts.errors import RolloutsError
from rollouts.objects import Manifest
from rollouts.ports import Request
from rollouts.secret import Secret

CommandRun = Coroutine[Any, Any, Exit]
NewLoop = Callable[[], asyncio.AbstractEventLoop]
T = TypeVar("T")
CLUSTER = "Cluster"  # the part of help in which the options stand that choose a cluster
KINDS = {"NAME": ROLLOUT_WORDS, "RUN": RUN_WORDS}
"""What an argument with such a metavar may have before it, as a word or with a slash."""
REQUESTS_FROM = 6  # the level of `-v` from which kubectl prints requests
FilesOption = Annotated[
    list[str],
    typer.Option("-f", "--filename", metavar="FILE", help="YAML or JSON, any number of documents; - for stdin."),
]


def rollout_name(text: str) -> str:
    """`typer` parser of a Rollout's name, with or without its kind: `cart`, `rollout/cart`, `ro/cart`.

    Raises: typer.BadParameter for what no object can have as its name, such as a script's empty variable: the API server takes a
        request without a name as one about all Rollouts of the namespace.
    """
    return _name(text, ROLLOUT_WORDS, "a Rollout")


def run_name(text: str) -> str:
    """`typer` parser of an AnalysisRun's name, as `rollout_name`."""
    return _name(text, RUN_WORDS, "an AnalysisRun")


def experiment_name(text: str) -> str:
    """`typer` parser of an Experiment's name, as `rollout_name`."""
    return _name(text, EXPERIMENT_WORDS, "an Experiment")


def _name(text: str, kinds: Collection[str], of: str) -> str:
    kind, slash, name = text.rpartition("/")
    name = name if slash and kind in kinds else text
    if not name or not name.isprintable() or set(name) & set("/% ") or name in (".", ".."):
        raise typer.BadParameter(f"{text!r} is not the name of {of}")
    return name


NameArgument = Annotated[
    str, typer.Argument(help="Name of the Rollout.", show_default=False, parser=rollout_name, metavar="NAME")
]
RunArgument = Annotated[
    str, typer.Argument(help="Name of the AnalysisRun.", show_default=False, parser=run_name, metavar="RUN")
]
ExperimentArgument = Annotated[
    str,
    typer.Argument(help="Name of the Experiment.", show_default=False, parser=experiment_name, metavar="EXPERIMENT"),
]


class Output(StrEnum):
    """The values of `-o` of commands that list or show objects."""

    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class DataOutput(StrEnum):
    """The values of `-o` of commands that show what no one object is."""

    JSON = "json"
    YAML = "yaml"


DataOption = Annotated[DataOutput | None, typer.Option("-o", "--output", help="All of it as data.")]


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


def on_cluster(command: Callable[..., CommandRun], *, new_loop: NewLoop | None = None) -> Callable[..., None]:
    """Makes a typer command of a function whose first parameter is `options: Options`, and runs the coroutine that it returns.

    On the command line, the parameters of `_options_of_cluster` replace that parameter. `new_loop` makes the event loop; None for
    asyncio's.
    """
    signature, common = (inspect.signature(function, eval_str=True) for function in (command, _options_of_cluster))

    def invoked(**given: Any) -> None:
        options = _options_of_cluster(**{name: given.pop(name) for name in common.parameters})
        finish(command(options=options, **given), new_loop=new_loop)

    own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *common.parameters.values())
    ]
    invoked.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    invoked.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    invoked.__name__, invoked.__doc__ = command.__name__, command.__doc__
    return invoked


def _cluster_option(*names: str, text: str, metavar: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=CLUSTER, **more)


_Namespace = Annotated[
    str | None, _cluster_option("-n", "--namespace", metavar="NAME", text="Namespace; default: the context's.")
]
_Context = Annotated[
    str | None,
    _cluster_option("--context", metavar="NAME", text="Context of the kubeconfig; default: the current one."),
]
_KUBECONFIG = "Kubeconfig file; default: $KUBECONFIG, ~/.kube/config, or the pod's own account."
_Kubeconfig = Annotated[Path | None, _cluster_option("--kubeconfig", metavar="FILE", text=_KUBECONFIG)]
_TIMEOUT = "The longest time to wait for one answer of the API server; 0 for no limit."
_Timeout = Annotated[float, _cluster_option("--request-timeout", metavar="DURATION", text=_TIMEOUT, parser=duration)]
_Cluster = Annotated[str | None, _cluster_option("--cluster", metavar="NAME", text="Cluster of the kubeconfig.")]
_User = Annotated[str | None, _cluster_option("--user", metavar="NAME", text="User of the kubeconfig.")]
_Server = Annotated[str | None, _cluster_option("-s", "--server", metavar="URL", text="Address of the API server.")]
_Token = Annotated[str | None, _cluster_option("--token", metavar="TOKEN", text="Bearer token to sign in with.")]
_As = Annotated[str | None, _cluster_option("--as", metavar="USER", text="User or service account to impersonate.")]
_AsGroup = Annotated[
    list[str] | None, _cluster_option("--as-group", metavar="GROUP", text="Group to impersonate; repeatable.")
]
_AsUid = Annotated[str | None, _cluster_option("--as-uid", metavar="UID", text="UID to impersonate.")]
_AUTHORITY = "Certificate of the API server's authority, PEM."
_Authority = Annotated[Path | None, _cluster_option("--certificate-authority", metavar="FILE", text=_AUTHORITY)]
_Certificate = Annotated[
    Path | None, _cluster_option("--client-certificate", metavar="FILE", text="Client certificate, PEM.")
]
_Key = Annotated[
    Path | None, _cluster_option("--client-key", metavar="FILE", text="Key of the client certificate, PEM.")
]
_ServerName = Annotated[
    str | None, _cluster_option("--tls-server-name", metavar="NAME", text="Name in the API server's certificate.")
]
_INSECURE = "Do not check the API server's certificate: anybody can answer."
_Insecure = Annotated[bool, _cluster_option("--insecure-skip-tls-verify", text=_INSECURE)]
_Verbosity = Annotated[
    int, _cluster_option("-v", "--v", "--kloglevel", metavar="LEVEL", text="From 6 on: print each request to stderr.")
]


def _options_of_cluster(  # noqa: PLR0913 - kubectl has as many
    *,
    namespace: _Namespace = None,
    context: _Context = None,
    kubeconfig: _Kubeconfig = None,
    request_timeout: _Timeout = "10s",  # type: ignore[assignment]
    cluster: _Cluster = None,
    user: _User = None,
    server: _Server = None,
    token: _Token = None,
    as_user: _As = None,
    as_group: _AsGroup = None,
    as_uid: _AsUid = None,
    certificate_authority: _Authority = None,
    client_certificate: _Certificate = None,
    client_key: _Key = None,
    tls_server_name: _ServerName = None,
    insecure_skip_tls_verify: _Insecure = False,
    verbosity: _Verbosity = 0,
) -> Options:
    flags = AccessFlags(
        cluster=cluster,
        user=user,
        server=server,
        token=Secret(token) if token is not None else None,
        certificate_authority=certificate_authority,
        client_certificate=client_certificate,
        client_key=client_key,
        tls_server_name=tls_server_name,
        insecure_skip_tls_verify=insecure_skip_tls_verify,
        as_user=as_user,
        as_groups=tuple(as_group or ()),
        as_uid=as_uid,
    )
    return Options(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        request_timeout_s=request_timeout or math.inf,
        flags=flags,
        on_answer=_print_request if verbosity >= REQUESTS_FROM else None,
    )


def _print_request(request: Request, status: int, took_s: float) -> None:
    query = f"?{urlencode(request.query)}" if request.query else ""
    note(f"{request.method} {request.path}{query} {status} in {took_s * 1_000:.0f} ms")


def finish(command: CommandRun, *, new_loop: NewLoop | None = None) -> None:
    """Runs a command to its exit code, as `result_of` does."""
    raise typer.Exit(result_of(command, new_loop=new_loop))


def result_of(work: Coroutine[Any, Any, T], *, new_loop: NewLoop | None = None) -> T:
    """Runs work to its result; an error that we raise on purpose becomes one line on stderr and exit code 4.

    Raises: typer.Exit.
    """
    import structlog  # noqa: PLC0415 - what talks to servers has imported it

    # What a controller would log is nothing to whoever types a command, and would stand in its output.
    before, level = structlog.get_config(), structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=level, logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None  # 128 + SIGINT, as shells say it
    except RolloutsError as error:
        fail(error_text(error))
    finally:
        structlog.configure(**before)
    raise typer.Exit(Exit.FAILED)


def read_file(file: str) -> tuple[str, str]:
    """The display name of a file (`-` is stdin), and its text. Raises: typer.Exit, when it cannot be read."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        why = "is not UTF-8 text" if isinstance(unreadable, UnicodeDecodeError) else unreadable.strerror
        fail(f"{file}: {why}")
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


def print_data(document: Any, output: DataOutput) -> None:
    """Prints a document for programs."""
    if output is DataOutput.JSON:
        text = json.dumps(document, indent=2, ensure_ascii=True)
    else:
        import yaml  # noqa: PLC0415 - most commands print none

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=False)
    Console().out(text.rstrip("\n"), highlight=False)


def fail(message: str) -> None:
    """Prints an error to stderr."""
    print_line(Console(stderr=True), f"error: {message}", style="red")


def note(message: str) -> None:
    """Prints to stderr what is no error and nothing for scripts."""
    print_line(Console(stderr=True), message, style="dim")

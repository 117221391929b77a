"""`rollouts dashboard`: serves the pages until it is stopped, to one person on their machine or to all who sign in."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import fail, note, on_cluster
from rollouts.cli.view.session import Options, Session, bearers_of, open_session
from rollouts.errors import ApiForbidden
from rollouts.objects import ROLLOUT

PORT = 3100  # as Argo's
ADDRESS = "127.0.0.1"


class Auth(StrEnum):
    """How people are known."""

    TOKEN = "token"  # noqa: S105 - no password


def ip_address(text: str) -> str:
    """`typer` parser of an address to listen on. Raises: typer.BadParameter."""
    try:
        return str(ipaddress.ip_address(ADDRESS if text == "localhost" else text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an IP address: write 127.0.0.1 or ::1") from None


@on_cluster
async def dashboard(
    options: Options,
    port: Annotated[int, typer.Option("-p", "--port", min=0, max=65_535, help="Port; 0 for any that is free.")] = PORT,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            parser=ip_address,
            metavar="ADDRESS",
            help="Address to listen on; default: 127.0.0.1, and with --auth all of the machine.",
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="List every namespace, or fail; default: if you may.")
    ] = False,
    auth: Annotated[
        Auth | None,
        typer.Option("--auth", help="Let people sign in, each with a token of the cluster and with its rights."),
    ] = None,
    hosts: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="NAME", help="With --auth: a name by which browsers reach it; repeatable."),
    ] = None,
    command_rights: Annotated[
        bool, typer.Option("--command-rights", help="Lock buttons by the verbs that the chart's policy asks for.")
    ] = False,
) -> Exit:
    """Show all Rollouts in a browser, live, and promote, abort or roll back there, with your own rights.

    Lists every namespace if you may, else the context's. It listens on this machine alone, and the address that it prints is
    good for one browser. With `--auth token` it is for many people: each signs in with a bearer token of the cluster, and
    nothing is read or written with other rights; put TLS before it. Ends with Ctrl-C.
    """
    if all_namespaces and (options.namespace or auth):
        raise typer.BadParameter(
            "-A and -n cannot be combined" if options.namespace else "-A has no meaning with --auth"
        )
    if hosts and auth is None:
        raise typer.BadParameter("--host is for --auth: without it, only the printed address is served")
    if auth is None and not ipaddress.ip_address(address or ADDRESS).is_loopback:
        why = "whoever reaches the dashboard acts with your rights, so it listens on this machine alone"
        raise typer.BadParameter(
            f"{address}: {why}; from another one: ssh -L {PORT}:127.0.0.1:{PORT} THIS-MACHINE, or --auth token"
        )
    try:
        from rollouts.cli.dashboard.app import serving  # noqa: PLC0415 - a server and its pages are for this command only
    except ImportError:
        fail("this command needs the extra `dashboard`: in the source tree, pip install '.[cli,dashboard]'")
        return Exit.USAGE
    if auth is Auth.TOKEN:
        everywhere = (address or "", port)
        return await _serve_people(options, everywhere, hosts=hosts or [], rights_of_commands=command_rights)
    async with open_session(options) as session:
        namespace = options.namespace or await _scope(session, all_namespaces=all_namespaces)
        where, by_verb = address or ADDRESS, command_rights
        async with serving(session, namespace=namespace, address=where, port=port, rights_of_commands=by_verb) as url:
            print_line(Console(), f"open {url}")
            note("it acts with your rights in the cluster, and ends with Ctrl-C")
            await asyncio.Event().wait()
    return Exit.OK


async def _serve_people(
    options: Options, where: tuple[str, int], *, hosts: list[str], rights_of_commands: bool
) -> Exit:
    from rollouts.cli.dashboard import app, doors, sessions, sites  # noqa: PLC0415 - as above

    try:
        names = [sites.named_site(text) for text in hosts]
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    connect = await bearers_of(options)
    people = sessions.Sessions(
        connect,
        namespace=options.namespace,
        request_timeout_s=options.request_timeout_s,
        rights_of_commands=rights_of_commands,
    )
    stopped = asyncio.Event()
    with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; a thread
        # The first process of a pod has no default for it.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    door, (address, port) = doors.ManyPeople(sites.Sites(names), people), where
    async with app.serving_people(door, address=address, port=port) as served:
        for origin in [site.origin for site in names] or [f"http://localhost:{served}"]:
            print_line(Console(), f"sign in at {origin}")
        note("each person acts with the rights of their own token; it ends with Ctrl-C")
        await stopped.wait()
    return Exit.OK


async def _scope(session: Session, *, all_namespaces: bool) -> str | None:
    """None for all namespaces; the context's where somebody may not list all of them. Raises: what `Client` raises."""
    try:
        await session.client.list_page(ROLLOUT, None, limit=1)
    except ApiForbidden:
        if all_namespaces:
            raise
        note(f"you may not list Rollouts in every namespace, so those of {session.namespace} are listed")
        return session.namespace
    return None

"""`rollouts dashboard`: serves the pages on this machine until it is stopped."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Annotated

import typer
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import fail, note, on_cluster
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.errors import ApiForbidden
from rollouts.objects import ROLLOUT

PORT = 3100  # as Argo's
ADDRESS = "127.0.0.1"


def loopback(text: str) -> str:
    """`typer` parser of an address of this machine that no other one reaches. Raises: typer.BadParameter."""
    try:
        address = ipaddress.ip_address(ADDRESS if text == "localhost" else text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an IP address: write 127.0.0.1 or ::1") from None
    if not address.is_loopback:
        why = "whoever reaches the dashboard acts with your rights, so it listens on this machine alone"
        raise typer.BadParameter(f"{text}: {why}; from another one: ssh -L {PORT}:127.0.0.1:{PORT} THIS-MACHINE")
    return str(address)


@on_cluster
async def dashboard(
    options: Options,
    port: Annotated[int, typer.Option("-p", "--port", min=0, max=65_535, help="Port; 0 for any that is free.")] = PORT,
    address: Annotated[
        str, typer.Option("--address", parser=loopback, metavar="ADDRESS", help="Address of this machine's loopback.")
    ] = ADDRESS,
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="List every namespace, or fail; default: if you may.")
    ] = False,
) -> Exit:
    """Show all Rollouts in a browser, live, and promote, abort or roll back there, with your own rights.

    Lists every namespace if you may, else the context's. It listens on this machine alone, and the address that it prints is
    good for one browser. Ends with Ctrl-C.
    """
    if all_namespaces and options.namespace:
        raise typer.BadParameter("-A and -n cannot be combined")
    try:
        from rollouts.cli.dashboard.app import serving  # noqa: PLC0415 - a server and its pages are for this command only
    except ImportError:
        fail("this command needs the extra `dashboard`: in the source tree, pip install '.[cli,dashboard]'")
        return Exit.USAGE
    async with open_session(options) as session:
        namespace = options.namespace or await _scope(session, all_namespaces=all_namespaces)
        async with serving(session, namespace=namespace, address=address, port=port) as url:
            print_line(Console(), f"open {url}")
            note("it acts with your rights in the cluster, and ends with Ctrl-C")
            await asyncio.Event().wait()
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

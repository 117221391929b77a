"""`rollouts version`: of this program, of the controllers and of the API server, and whether they fit. Reads only."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import DataOption, on_cluster, print_data
from rollouts.cli.view.session import Options, open_session
from rollouts.cluster.discovery import server_version
from rollouts.errors import RolloutsError


def own_version() -> str:
    """The version of this program; "unknown" in a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - most commands do not ask

    try:
        return version("rollouts-dev")
    except PackageNotFoundError:
        return "unknown"


class Versions(Struct, frozen=True):
    """What is known; `unseen` is why there may be other controllers."""

    client: str
    controllers: tuple[tuple[str, str], ...] = ()
    unseen: str = ""
    server: str = ""

    @property
    def skewed(self) -> tuple[str, ...]:
        """The controllers of another version than the client."""
        return tuple(where for where, version in self.controllers if version != self.client)


@on_cluster
async def version(
    options: Options,
    client: Annotated[bool, typer.Option("--client", help="Only of this program; asks no cluster.")] = False,
    output: DataOption = None,
) -> Exit:
    """Show the versions of this program, of the controllers and of the API server, and whether they fit."""
    console, found, failed = Console(), Versions(own_version()), None
    if not client:
        try:
            found = await _seen(options)
        except RolloutsError as error:  # what this program is can be told without a cluster
            failed = error
    if output is not None:
        document = {"client": found.client, "server": found.server, "controllers": dict(found.controllers)}
        print_data({"client": found.client} if client else document, output)
    else:
        for line in lines_of(found, client_only=client or failed is not None):
            print_line(console, line)
    if failed is not None:
        raise failed
    return Exit.OK


async def _seen(options: Options) -> Versions:
    from rollouts.cli.commands.doctor_reads import Installed, installed_controllers  # noqa: PLC0415 - main.py says why

    async with open_session(options) as session:
        server = await server_version(session.api, deadline_s=session.request_timeout_s)
        deployments, refused = await installed_controllers(session)
    controllers = tuple((controller.where, controller.version) for controller in map(Installed, deployments))
    unseen = f"cannot be seen: you may not {refused[0]}" if refused else ""
    return Versions(own_version(), controllers, unseen, server.git_version)


def lines_of(found: Versions, *, client_only: bool) -> list[str]:
    """The text for people."""
    lines = [f"client      {found.client}"]
    if client_only:
        return lines
    lines += [f"controller  {version or 'unknown'}  {where}" for where, version in found.controllers]
    if not found.controllers:
        lines.append(f"controller  {found.unseen or 'none: helm install rollouts, see `kubectl rollouts doctor`'}")
    lines.append(f"API server  {found.server}")
    if found.skewed:
        others = ", ".join(found.skewed)
        lines.append(f"{others} and this program have different versions: helm upgrade, or make cli in its source tree")
    return lines

"""`rollouts dashboard`: serves the pages until it is stopped, to one person on their machine or to all who sign in."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from rollouts.cli.dashboard.links import LinkTemplate, link_template
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import print_line
from rollouts.cli.terminal.options import fail, note, on_cluster
from rollouts.cli.view.session import Options, Session, bearers_of, impersonating, open_session
from rollouts.errors import ApiForbidden
from rollouts.event_loop import give_large_blocks_back, new_event_loop
from rollouts.objects import ROLLOUT

if TYPE_CHECKING:  # a server and its pages are loaded for this command only
    from rollouts.cli.dashboard.doors import Door
    from rollouts.cli.dashboard.sessions import Sessions
    from rollouts.cli.dashboard.sites import Sites

PORT = 3100  # as Argo's
ADDRESS = "127.0.0.1"


class Auth(StrEnum):
    """How people are known."""

    TOKEN = "token"  # noqa: S105 - no password
    PROXY = "proxy"


def named_link(text: str) -> LinkTemplate:
    """`typer` parser of a link. Raises: typer.BadParameter."""
    try:
        return link_template(text)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None


def ip_address(text: str) -> str:
    """`typer` parser of an address to listen on. Raises: typer.BadParameter."""
    try:
        return str(ipaddress.ip_address(ADDRESS if text == "localhost" else text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an IP address: write 127.0.0.1 or ::1") from None


_PROXY = "Behind a proxy"
_Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        parser=ip_address,
        metavar="ADDRESS",
        help="Address to listen on; default: 127.0.0.1, and with --auth all of the machine.",
    ),
]
_Auth = Annotated[
    Auth | None,
    typer.Option(
        "--auth",
        help="Serve many people, each with their own rights: they sign in with tokens, or a proxy knows them.",
    ),
]
_Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="NAME", help="With --auth: a name by which browsers reach it; repeatable."),
]
_Links = Annotated[
    list[LinkTemplate] | None,
    typer.Option(
        "--link",
        parser=named_link,
        metavar="LABEL=URL",
        help="A link on pages, with {namespace}, {rollout}, {experiment}, {revision} and {pod}; repeatable.",
    ),
]
_Secret = Annotated[
    Path | None,
    typer.Option(
        "--proxy-secret",
        metavar="FILE",
        help="A line that the proxy sends as X-Rollouts-Proxy-Secret; several while it is replaced.",
        rich_help_panel=_PROXY,
    ),
]
_UserHeader = Annotated[
    str | None,
    typer.Option("--user-header", metavar="NAME", help="Default: X-Forwarded-User.", rich_help_panel=_PROXY),
]
_GroupsHeader = Annotated[
    str | None,
    typer.Option(
        "--groups-header",
        metavar="NAME",
        help="Groups with commas between them; default: X-Forwarded-Groups.",
        rich_help_panel=_PROXY,
    ),
]
_Users = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-user",
        metavar="NAME",
        help="Who may come in; repeatable; default: whoever the proxy names.",
        rich_help_panel=_PROXY,
    ),
]
_Groups = Annotated[
    list[str] | None,
    typer.Option("--allow-group", metavar="NAME", help="A group that counts; repeatable.", rich_help_panel=_PROXY),
]


class _OfProxy(NamedTuple):
    """The options of a proxy; None for those that were not given."""

    secret: Path | None
    user_header: str | None
    groups_header: str | None
    users: list[str] | None
    groups: list[str] | None


@partial(on_cluster, new_loop=new_event_loop)
async def dashboard(  # noqa: PLR0913, PLR0917 - each is an option of the command
    options: Options,
    port: Annotated[int, typer.Option("-p", "--port", min=0, max=65_535, help="Port; 0 for any that is free.")] = PORT,
    address: _Address = None,
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="List every namespace, or fail; default: if you may.")
    ] = False,
    auth: _Auth = None,
    hosts: _Hosts = None,
    command_rights: Annotated[
        bool, typer.Option("--command-rights", help="Lock buttons by the verbs that the chart's policy asks for.")
    ] = False,
    links: _Links = None,
    proxy_secret: _Secret = None,
    user_header: _UserHeader = None,
    groups_header: _GroupsHeader = None,
    allow_users: _Users = None,
    allow_groups: _Groups = None,
) -> Exit:
    """Show all Rollouts in a browser, live, and promote, abort or roll back there, with your own rights.

    Lists every namespace if you may, else the context's. It listens on this machine alone, and the address that it prints is
    good for one browser. With `--auth token` it is for many people: each signs in with a bearer token of the cluster, and
    nothing is read or written with other rights; put TLS before it. With `--auth proxy` a proxy that authenticates people names
    each of them, and their requests are made by impersonation. Ends with Ctrl-C.
    """
    if all_namespaces and (options.namespace or auth):
        raise typer.BadParameter(
            "-A and -n cannot be combined" if options.namespace else "-A has no meaning with --auth"
        )
    of_proxy = _OfProxy(proxy_secret, user_header, groups_header, allow_users, allow_groups)
    _refuse_what_has_no_meaning(auth, hosts, of_proxy)
    if auth is None and not ipaddress.ip_address(address or ADDRESS).is_loopback:
        why = "whoever reaches the dashboard acts with your rights, so it listens on this machine alone"
        raise typer.BadParameter(
            f"{address}: {why}; from another one: ssh -L {PORT}:127.0.0.1:{PORT} THIS-MACHINE, or --auth token"
        )
    try:
        from rollouts.cli.dashboard import sessions  # noqa: PLC0415 - a server and its pages are for this command only
        from rollouts.cli.dashboard.app import serving  # noqa: PLC0415
    except ImportError:
        fail("this command needs the extra `dashboard`: in the source tree, pip install '.[cli,dashboard]'")
        return Exit.USAGE
    shown = tuple(links or ())
    if auth is not None:
        everywhere, by_proxy = (address or "", port), of_proxy if auth is Auth.PROXY else None
        people = sessions.Sessions(
            namespace=options.namespace,
            request_timeout_s=options.request_timeout_s,
            rights_of_commands=command_rights,
            links=shown,
        )
        return await _serve_people(options, everywhere, people, by_proxy, hosts=hosts or [])
    async with open_session(options) as session:
        namespace = options.namespace or await _scope(session, all_namespaces=all_namespaces)
        async with serving(
            session,
            namespace=namespace,
            address=address or ADDRESS,
            port=port,
            rights_of_commands=command_rights,
            links=shown,
        ) as url:
            print_line(Console(), f"open {url}")
            note("it acts with your rights in the cluster, and ends with Ctrl-C")
            await asyncio.Event().wait()
    return Exit.OK


def _refuse_what_has_no_meaning(auth: Auth | None, hosts: list[str] | None, of_proxy: _OfProxy) -> None:
    """Raises: typer.BadParameter, for what has no meaning with this way to know people."""
    if hosts and auth is None:
        raise typer.BadParameter("--host is for --auth: without it, only the printed address is served")
    if auth is not Auth.PROXY and any(of_proxy):
        raise typer.BadParameter("the options of a proxy are for --auth proxy")


async def _serve_people(
    options: Options, where: tuple[str, int], people: Sessions, by_proxy: _OfProxy | None, *, hosts: list[str]
) -> Exit:
    from rollouts.cli.dashboard import app, sites  # noqa: PLC0415 - as above

    try:
        names = [sites.named_site(text) for text in hosts]
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    give_large_blocks_back()
    door = await _door(options, sites.Sites(names), people, by_proxy)
    stopped = asyncio.Event()
    with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; a thread
        # The first process of a pod has no default for it.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    address, port = where
    async with app.serving_people(door, address=address, port=port) as served:
        way, whose = (
            ("sign in at", "their own token")
            if by_proxy is None
            else ("the proxy leads to", "the user whom the proxy names")
        )
        for origin in [site.origin for site in names] or [f"http://localhost:{served}"]:
            print_line(Console(), f"{way} {origin}")
        note(f"each person acts with the rights of {whose}; it ends with Ctrl-C")
        await stopped.wait()
    return Exit.OK


async def _door(options: Options, sites: Sites, people: Sessions, by_proxy: _OfProxy | None) -> Door:
    """Who is let in. Raises: typer.BadParameter; SettingsInvalid."""
    from rollouts.cli.dashboard import doors, identity, proxy  # noqa: PLC0415 - as above

    if by_proxy is None:
        return doors.ManyPeople(sites, people, await bearers_of(options))
    if by_proxy.secret is None:
        why = "anybody who reaches the dashboard could say who they are"
        raise typer.BadParameter(f"--auth proxy needs --proxy-secret FILE: without it, {why}")
    rules = identity.IdentityRules(
        user_header=by_proxy.user_header or identity.USER_HEADER,
        groups_header=by_proxy.groups_header or identity.GROUPS_HEADER,
        users=frozenset(by_proxy.users or ()),
        groups=frozenset(by_proxy.groups or ()),
    )
    problem = rules.problem()
    if problem is not None:
        raise typer.BadParameter(problem)
    secret, connect = proxy.ProxySecret(by_proxy.secret), await impersonating(options)
    return proxy.BehindProxy(sites, people, lambda who: connect(who.user, who.groups), secret=secret, rules=rules)


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

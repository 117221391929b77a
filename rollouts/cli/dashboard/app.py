"""The server: which address shows what, and what an error becomes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib import resources

from aiohttp import web

from rollouts.cli.dashboard.answers import NEW_COOKIE, SIGNED_IN, error_page, page_answer
from rollouts.cli.dashboard.ask_page import TERMINATE
from rollouts.cli.dashboard.connections import ConnectionBound
from rollouts.cli.dashboard.doors import STATIC, Door, OnePerson
from rollouts.cli.dashboard.experiments import ExperimentPages
from rollouts.cli.dashboard.guard import HEADERS, AccessGuard
from rollouts.cli.dashboard.hub import Hub, SharedDrawings, TooManyLook
from rollouts.cli.dashboard.links import LinkTemplate
from rollouts.cli.dashboard.pages import EXPERIMENTS, message
from rollouts.cli.dashboard.person import PersonPages
from rollouts.cli.view.session import Session
from rollouts.errors import (
    ApiConflict,
    ApiForbidden,
    ApiNotFound,
    ApiUnauthenticated,
    RolloutsError,
    SettingsInvalid,
)

BODY_MAX_BYTES = 16 * 1024
BODY_WITHIN_S = 10.0
FORM = "application/x-www-form-urlencoded"
_STOP_S = 1.0
_KEPT_ALIVE_S = 15.0
_STATIC = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
_STATUS = {ApiNotFound: HTTPStatus.NOT_FOUND, ApiForbidden: HTTPStatus.FORBIDDEN, ApiConflict: HTTPStatus.CONFLICT}
_WHY: dict[int, str] = {
    HTTPStatus.REQUEST_TIMEOUT: "The form took too long to come.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The form is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "This is no form of ours.",
}
_PAGES = web.RequestKey("pages", PersonPages)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(
    session: Session,
    *,
    namespace: str | None,
    address: str,
    port: int,
    rights_of_commands: bool = False,
    links: tuple[LinkTemplate, ...] = (),
) -> AsyncIterator[str]:
    """Serves the pages to one person for as long as the block lasts.

    Args:
        namespace: whose Rollouts are listed; None for all.
        address: an IP address of this machine's loopback.
        port: 0 for any that is free.
        rights_of_commands: each command needs a verb of its own.
        links: to other servers, on the pages of Rollouts and Experiments.

    Yields: the address to open, with the key.
    Raises: SettingsInvalid, when the port cannot be used.
    """
    listening = _listening(address, port)
    guard = AccessGuard(address, listening.getsockname()[1])
    door = OnePerson(guard, Hub(session, namespace, SharedDrawings(links)), rights_of_commands=rights_of_commands)
    async with _answering(door, listening):
        yield guard.address


@contextlib.asynccontextmanager
async def serving_people(door: Door, *, address: str, port: int) -> AsyncIterator[int]:
    """Serves the pages to everybody whom the door lets in, for as long as the block lasts.

    Args:
        address: an IP address of this machine; "" for all.
        port: 0 for any that is free.

    Yields: the port.
    Raises: SettingsInvalid, when the port cannot be used.
    """
    listening = _listening(address, port)
    async with _answering(door, listening):
        yield listening.getsockname()[1]


def _listening(address: str, port: int) -> socket.socket:
    try:
        if not address and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError as taken:
        where = f" of {address}" if address else ""
        why = f"cannot listen on port {port}{where}: {taken.strerror}; --port 0 takes a free one"
        raise SettingsInvalid(why) from None


@contextlib.asynccontextmanager
async def _answering(door: Door, listening: socket.socket) -> AsyncIterator[None]:
    dashboard = Dashboard(door)
    runner = web.AppRunner(dashboard.app(), access_log=None, shutdown_timeout=_STOP_S, keepalive_timeout=_KEPT_ALIVE_S)
    try:
        await runner.setup()
        assert runner.server is not None  # noqa: S101 - it is set up
        dashboard.connections = ConnectionBound(runner.server)
        server = await asyncio.get_running_loop().create_server(dashboard.connections, sock=listening)
        try:
            yield
        finally:
            await door.close()
            server.close()
    finally:
        await runner.cleanup()
        listening.close()


class Dashboard:
    """The pages by their addresses."""

    connections: ConnectionBound

    def __init__(self, door: Door) -> None:
        self._door = door
        folder = resources.files(__package__) / "static"
        self._static = {name: (folder / name).read_bytes() for name in _STATIC}

    def app(self) -> web.Application:
        """The application."""

        async def with_headers(request: web.Request, answer: web.StreamResponse) -> None:
            answer.headers.update(HEADERS)
            if NEW_COOKIE in request:
                site, key = request[NEW_COOKIE]
                answer.headers.add("Set-Cookie", site.session_cookie(key))

        def of(page: Callable[[PersonPages, web.Request], Awaitable[web.StreamResponse]]) -> Handler:
            async def answered(request: web.Request) -> web.StreamResponse:
                return await page(request[_PAGES], request)

            return answered

        def of_experiments(page: Callable[[ExperimentPages, web.Request], Awaitable[web.StreamResponse]]) -> Handler:
            return of(lambda pages, request: page(pages.experiments, request))

        app = web.Application(middlewares=[self._judged], client_max_size=BODY_MAX_BYTES)
        app.on_response_prepare.append(with_headers)
        below, experiment = "/r/{namespace}/{name}", f"{EXPERIMENTS}/{{namespace}}/{{name}}"
        app.add_routes(
            [
                *self._door.routes(),
                web.get(f"{STATIC}{{file}}", self._file),
                web.get("/", of(PersonPages.list)),
                web.get("/events", of(PersonPages.list_stream)),
                web.get(EXPERIMENTS, of_experiments(ExperimentPages.list)),
                web.get(f"{EXPERIMENTS}/events", of_experiments(ExperimentPages.list_stream)),
                web.get(experiment, of_experiments(ExperimentPages.one)),
                web.get(f"{experiment}/events", of_experiments(ExperimentPages.one_stream)),
                web.get(f"{experiment}/runs/{{run}}", of_experiments(ExperimentPages.run)),
                web.get(f"{experiment}/runs/{{run}}/events", of_experiments(ExperimentPages.run_stream)),
                web.get(f"{experiment}/{TERMINATE}", of_experiments(ExperimentPages.ask)),
                web.post(f"{experiment}/{TERMINATE}", of_experiments(ExperimentPages.end)),
                web.get(below, of(PersonPages.one)),
                web.get(f"{below}/events", of(PersonPages.one_stream)),
                web.get(f"{below}/runs/{{run}}", of(PersonPages.run)),
                web.get(f"{below}/runs/{{run}}/events", of(PersonPages.run_stream)),
                web.get(f"{below}/diff", of(PersonPages.diff)),
                web.get(f"{below}/plan", of(PersonPages.plan)),
                web.get(f"{below}/{{act}}", of(PersonPages.ask)),
                web.post(f"{below}/{{act}}", of(PersonPages.act)),
            ]
        )
        return app

    @web.middleware
    async def _judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        SIGNED_IN.set(None)  # whoever asked before on this connection may be somebody else: a proxy keeps them open
        try:
            admitted = await self._door.admit(request)
            if isinstance(admitted, web.StreamResponse):
                return admitted
            if admitted is not None:
                request[_PAGES] = admitted
            await _read_form(request)
            with self.connections.answering(request):
                return await handler(request)
        except web.HTTPException as known:
            if known.status < HTTPStatus.BAD_REQUEST:
                raise
            why = _WHY.get(known.status, "There is no such page.")
            return page_answer(message(f"{known.status} {known.reason}", why), known.status)
        except TooManyLook as full:
            return page_answer(message("Too many pages are open", f"{full}."), HTTPStatus.SERVICE_UNAVAILABLE)
        except ApiUnauthenticated as error:
            again = await self._door.admit(request)  # where people sign in, that session is over
            return again if isinstance(again, web.StreamResponse) else _error_answer(error)
        except RolloutsError as error:
            return _error_answer(error)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as mistake:
            sys.stderr.write(f"error: {request.method} {request.path}: {mistake!r}\n")
            said = message("This page cannot be shown", "It is our mistake; the terminal has more about it.")
            return page_answer(said, HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["file"]
        if name not in self._static:
            raise web.HTTPNotFound
        return web.Response(body=self._static[name], content_type=_STATIC[name], charset="utf-8")


def _error_answer(error: RolloutsError) -> web.Response:
    return page_answer(error_page(error), _STATUS.get(type(error), HTTPStatus.BAD_GATEWAY))


async def _read_form(request: web.Request) -> None:
    """Waits for the body of a form, which does not hold the connection's place yet. Raises: web.HTTPException."""
    if request.method != "POST":
        return
    if request.content_type != FORM:
        raise web.HTTPUnsupportedMediaType
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout from None

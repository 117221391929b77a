"""The server: who may ask, which address shows what, and what an error becomes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from importlib import resources

from aiohttp import web

from rollouts.cli.dashboard.answers import error_page, page_answer, refusal_answer
from rollouts.cli.dashboard.guard import HEADERS, LOGIN, AccessGuard, RefusedRequest
from rollouts.cli.dashboard.hub import Hub, TooManyLook
from rollouts.cli.dashboard.pages import message
from rollouts.cli.dashboard.person import PersonPages
from rollouts.cli.view.session import Session
from rollouts.errors import ApiConflict, ApiForbidden, ApiNotFound, RolloutsError, SettingsInvalid

BODY_MAX_BYTES = 16 * 1024
_STOP_S = 1.0
_STATIC = {"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"}
_STATUS = {ApiNotFound: HTTPStatus.NOT_FOUND, ApiForbidden: HTTPStatus.FORBIDDEN, ApiConflict: HTTPStatus.CONFLICT}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(session: Session, *, namespace: str | None, address: str, port: int) -> AsyncIterator[str]:
    """Serves the pages for as long as the block lasts.

    Args:
        namespace: whose Rollouts are listed; None for all.
        address: an IP address of this machine's loopback.
        port: 0 for any that is free.

    Yields: the address to open, with the key.
    Raises: SettingsInvalid, when the port cannot be used.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listening = socket.create_server((address, port), family=family)
    except OSError as taken:
        why = f"cannot listen on port {port} of {address}: {taken.strerror}; --port 0 takes a free one"
        raise SettingsInvalid(why) from None
    guard, hub = AccessGuard(address, listening.getsockname()[1]), Hub(session, namespace)
    runner = web.AppRunner(Dashboard(PersonPages(hub), guard).app(), access_log=None, shutdown_timeout=_STOP_S)
    try:
        await runner.setup()
        await web.SockSite(runner, listening).start()
        yield guard.address
    finally:
        await hub.close()
        await runner.cleanup()
        listening.close()


class Dashboard:
    """The pages by their addresses."""

    def __init__(self, person: PersonPages, guard: AccessGuard) -> None:
        self._person = person
        self._guard = guard
        folder = resources.files(__package__) / "static"
        self._static = {name: (folder / name).read_bytes() for name in _STATIC}

    def app(self) -> web.Application:
        """The application."""

        async def with_headers(_: web.Request, answer: web.StreamResponse) -> None:
            answer.headers.update(HEADERS)

        app = web.Application(middlewares=[self._judged], client_max_size=BODY_MAX_BYTES)
        app.on_response_prepare.append(with_headers)
        below = "/r/{namespace}/{name}"
        app.add_routes(
            [
                web.get(LOGIN, self._login),
                web.get("/static/{file}", self._file),
                web.get("/", self._person.list),
                web.get("/events", self._person.list_stream),
                web.get(below, self._person.one),
                web.get(f"{below}/events", self._person.one_stream),
                web.get(f"{below}/runs/{{run}}", self._person.run),
                web.get(f"{below}/runs/{{run}}/events", self._person.run_stream),
                web.get(f"{below}/diff", self._person.diff),
                web.get(f"{below}/plan", self._person.plan),
                web.get(f"{below}/{{act}}", self._person.ask),
                web.post(f"{below}/{{act}}", self._person.act),
            ]
        )
        return app

    @web.middleware
    async def _judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._guard.refusal(request)
        if refusal is not None:
            return refusal_answer(refusal)
        try:
            return await handler(request)
        except web.HTTPException as known:
            if known.status < HTTPStatus.BAD_REQUEST:
                raise
            return page_answer(message(f"{known.status} {known.reason}", "There is no such page."), known.status)
        except TooManyLook as full:
            return page_answer(message("Too many pages are open", f"{full}."), HTTPStatus.SERVICE_UNAVAILABLE)
        except RolloutsError as error:
            status = _STATUS.get(type(error), HTTPStatus.BAD_GATEWAY)
            return page_answer(error_page(error), status)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as mistake:
            sys.stderr.write(f"error: {request.method} {request.path}: {mistake!r}\n")
            said = message("This page cannot be shown", "It is our mistake; the terminal has more about it.")
            return page_answer(said, HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        outcome = self._guard.exchange(request.query.get("key", ""))
        return refusal_answer(outcome) if isinstance(outcome, RefusedRequest) else outcome

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["file"]
        if name not in self._static:
            raise web.HTTPNotFound
        return web.Response(body=self._static[name], content_type=_STATIC[name], charset="utf-8")

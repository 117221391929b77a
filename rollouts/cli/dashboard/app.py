"""The server: which address shows what, and the bounds of what it does for whom."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from importlib import resources

import htpy as h
from aiohttp import web
from msgspec.structs import replace

from rollouts.cli.dashboard import acts
from rollouts.cli.dashboard.diff_page import diff_page
from rollouts.cli.dashboard.guard import HEADERS, LOGIN, AccessGuard, RefusedRequest, same
from rollouts.cli.dashboard.hub import STREAMS_MAX, Feed, Hub, TooManyLook
from rollouts.cli.dashboard.list_page import Listed, ListQuery, list_page
from rollouts.cli.dashboard.pages import DashboardPage, document, fragment, message, notice, when
from rollouts.cli.dashboard.rights import ON_LOAD_S, WHILE_OPEN_S, KnownRights
from rollouts.cli.dashboard.rollout_page import ask_page, rollout_page
from rollouts.cli.terminal.errors import error_text, may_not_text
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.config_reading import source_changes
from rollouts.cli.view.difference import CURRENT, PREVIOUS, revision_named
from rollouts.cli.view.follow import Kept
from rollouts.cli.view.giving import unanswered
from rollouts.cli.view.objects import view_of
from rollouts.cli.view.reading import look, seen_in
from rollouts.cli.view.session import Session
from rollouts.cli.view.verb_plans import CommandWrite
from rollouts.errors import ApiConflict, ApiForbidden, ApiNotFound, RolloutsError, SettingsInvalid, SpecInvalid
from rollouts.objects import ROLLOUT, Key, Manifest

BODY_MAX_BYTES = 16 * 1024
REDRAWN_EVERY_S = 5.0  # ages and countdowns
AT_MOST_EVERY_S = 0.2  # a page is drawn so often, however often its objects change
_STOP_S = 1.0
_TOLD_KEPT = 32
_WORD_MAX = 200  # characters of a search
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
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
    runner = web.AppRunner(Dashboard(hub, guard).app(), access_log=None, shutdown_timeout=_STOP_S)
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

    def __init__(self, hub: Hub, guard: AccessGuard) -> None:
        self._hub = hub
        self._guard = guard
        self._rights = KnownRights(hub.session)
        self._told: deque[tuple[str, Key, str, str]] = deque(maxlen=_TOLD_KEPT)
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
                web.get("/", self._list),
                web.get("/events", self._list_stream),
                web.get(below, self._one),
                web.get(f"{below}/events", self._one_stream),
                web.get(f"{below}/diff", self._diff),
                web.get(f"{below}/plan", self._plan),
                web.get(f"{below}/{{act}}", self._ask),
                web.post(f"{below}/{{act}}", self._act),
            ]
        )
        return app

    @web.middleware
    async def _judged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._guard.refusal(request)
        if refusal is not None:
            return _refused(refusal)
        try:
            return await handler(request)
        except web.HTTPException as known:
            if known.status < HTTPStatus.BAD_REQUEST:
                raise
            return _answer(message(f"{known.status} {known.reason}", "There is no such page."), known.status)
        except TooManyLook as full:
            return _answer(message("Too many pages are open", f"{full}."), HTTPStatus.SERVICE_UNAVAILABLE)
        except RolloutsError as error:
            status = _STATUS.get(type(error), HTTPStatus.BAD_GATEWAY)
            return _answer(message("The API server did not give it", error_text(error)), status)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as mistake:
            sys.stderr.write(f"error: {request.method} {request.path}: {mistake!r}\n")
            said = message("This page cannot be shown", "It is our mistake; the terminal has more about it.")
            return _answer(said, HTTPStatus.INTERNAL_SERVER_ERROR)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        outcome = self._guard.exchange(request.query.get("key", ""))
        return _refused(outcome) if isinstance(outcome, RefusedRequest) else outcome

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["file"]
        if name not in self._static:
            raise web.HTTPNotFound
        return web.Response(body=self._static[name], content_type=_STATIC[name], charset="utf-8")

    async def _list(self, request: web.Request) -> web.StreamResponse:
        async with self._hub.looking_at_list() as feed:
            return _answer(await self._list_now(feed, request))

    async def _list_stream(self, request: web.Request) -> web.StreamResponse:
        return await self._stream(request, self._hub.looking_at_list(), lambda feed: self._list_now(feed, request))

    async def _one(self, request: web.Request) -> web.StreamResponse:
        key = _key(request)
        async with self._hub.looking(key) as feed:
            told = self._told_about(key, request.query.get("told", ""))
            return _answer(await self._one_now(feed, key, told, newer_than_s=ON_LOAD_S))

    async def _one_stream(self, request: web.Request) -> web.StreamResponse:
        key = _key(request)
        told = self._told_about(key, request.query.get("told", ""))
        return await self._stream(
            request, self._hub.looking(key), lambda feed: self._one_now(feed, key, told, newer_than_s=WHILE_OPEN_S)
        )

    async def _diff(self, request: web.Request) -> web.StreamResponse:
        key = _key(request)
        session = self._hub.session_in(key.namespace)
        seen = await look(session, key.name)
        words = (request.query.get("from") or PREVIOUS, request.query.get("to") or CURRENT)
        before, after = (revision_named(seen, word[:_WORD_MAX]) for word in words)
        changes = []
        if before is not None and after is not None:
            changes = [each async for each in source_changes(session, uses_of(before), uses_of(after))]
        return _answer(diff_page(seen, before, after, changes))

    async def _plan(self, request: web.Request) -> web.StreamResponse:
        from rollouts.cli.dashboard.plan_page import plan_page  # noqa: PLC0415 - the controller's policy is for it only
        from rollouts.cli.plan.command import plan_of_live  # noqa: PLC0415

        key = _key(request)
        session = self._hub.session_in(key.namespace)
        seen = await look(session, key.name)
        try:
            report = await plan_of_live(session, seen.rollout)
        except SpecInvalid as invalid:
            said = message("Its spec cannot be carried out", f"{invalid}.", back=f"/r/{key.namespace}/{key.name}")
            return _answer(said, HTTPStatus.CONFLICT)
        return _answer(plan_page(view_of(seen), report))

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        key, word = _key(request), _act_in(request)
        asked, seen = await acts.ask(
            self._hub.session_in(key.namespace), key.name, word, _to(request.query.get("to", ""))
        )
        missing = await self._missing(key, newer_than_s=ON_LOAD_S)
        form_field = self._guard.form_field
        return _answer(ask_page(asked, view_of(seen), form_field=form_field, changed=False, missing=missing))

    async def _act(self, request: web.Request) -> web.StreamResponse:
        key, word, form = _key(request), _act_in(request), await request.post()
        fields = {name: str(form.get(name, "")) for name in ("form", "version", "mark", "to")}
        if not same(fields["form"], self._guard.form_field):
            return _refused(
                RefusedRequest(HTTPStatus.FORBIDDEN, "this form is not from this run of `rollouts dashboard`")
            )
        session = self._hub.session_in(key.namespace)
        asked, seen = await acts.ask(session, key.name, word, _to(fields["to"]))
        if not isinstance(asked.planned, CommandWrite) or not same(fields["mark"], asked.mark):
            return _answer(ask_page(asked, view_of(seen), form_field=self._guard.form_field, changed=True))
        metadata = {**seen.rollout["metadata"], "resourceVersion": fields["version"]}
        shown = replace(seen, rollout={**seen.rollout, "metadata": metadata})
        answer = await acts.carry_out(session, key.name, asked.plan, asked.planned, shown)
        label = f"{asked.act.label}: "
        if answer is None:
            colour, said = "wait", unanswered(key.name)
        elif answer:
            colour, said = "bad", f"the controller refused the command: {answer}"
        else:
            colour, said = "good", f"the controller has recorded the command; it {asked.planned.words}"
        mark = secrets.token_urlsafe(8)
        self._told.append((mark, key, colour, label + said))
        raise web.HTTPSeeOther(f"/r/{key.namespace}/{key.name}?told={mark}")

    async def _list_now(self, feed: Feed[Listed], request: web.Request) -> DashboardPage:
        rows = (await feed.objects()).all(ROLLOUT)
        page = request.query.get("page", "1")
        query = ListQuery(
            q=request.query.get("q", "")[:_WORD_MAX],
            ns=request.query.get("ns", "")[:_WORD_MAX],
            only=request.query.get("only", "") if request.query.get("only") in ("needs", "bad", "moving") else "",
            page=int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 6 and int(page) else 1,
        )
        now_s = self._hub.session.clock.now_s()
        return list_page(rows, query, now_s=now_s, lost=self._lost(now_s), scope=self._hub.namespace or "")

    async def _one_now(self, feed: Feed[Manifest], key: Key, told: h.Node, *, newer_than_s: float) -> DashboardPage:
        seen = seen_in(await feed.objects(), key)
        if seen is None:
            return message(
                f"{key.name} was deleted", f"There is no Rollout {key.name} in namespace {key.namespace} any more."
            )
        missing = await self._missing(key, newer_than_s=newer_than_s)
        now_s = self._hub.session.clock.now_s()
        return rollout_page(seen, now_s=now_s, lost=self._lost(now_s), told=told, missing=missing)

    async def _missing(self, key: Key, *, newer_than_s: float) -> str:
        """Why nobody can give commands with these rights; "" where they can, or where that is not known."""
        lacking = await self._rights.lacking(key.namespace, newer_than_s=newer_than_s)
        return may_not_text(lacking.verb, lacking.resource, lacking.namespace) if lacking is not None else ""

    def _told_about(self, key: Key, mark: str) -> h.Node:
        found = next((each for each in self._told if each[:2] == (mark, key)), None)
        return notice(found[2], found[3]) if found is not None else None

    def _lost(self, now_s: float) -> h.Node:
        since_s = self._hub.reached.lost_since_s
        if since_s is None:
            return None
        text = h.p["What is shown may be old. It has not answered since ", when(since_s, now_s), "."]
        return notice("bad", "The API server cannot be reached", text)

    async def _stream(
        self,
        request: web.Request,
        looking: AbstractAsyncContextManager[Feed[Kept]],
        draw: Callable[[Feed[Kept]], Awaitable[DashboardPage]],
    ) -> web.StreamResponse:
        """Sends the page whenever it has changed, until the browser or the server goes."""
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        if self._hub.streams >= STREAMS_MAX:
            await _send(answer, "full", f"no live updates: {STREAMS_MAX} pages are open, which is the most")
            return answer
        self._hub.streams += 1
        try:
            async with looking as feed:
                await self._send_pages(request, answer, feed, draw)
        except ConnectionError:
            pass  # the browser has gone
        finally:
            self._hub.streams -= 1
        return answer

    async def _send_pages(
        self,
        request: web.Request,
        answer: web.StreamResponse,
        feed: Feed[Kept],
        draw: Callable[[Feed[Kept]], Awaitable[DashboardPage]],
    ) -> None:
        sent = ""
        while not self._hub.closing and request.transport is not None and not request.transport.is_closing():
            changed = feed.changed
            try:
                page = await draw(feed)
            except RolloutsError as error:
                page = message("The API server did not give it", error_text(error))
            html = fragment(page)
            if html != sent:
                sent = html
                await _send(answer, "page", {"title": page.title, "html": html})
            else:
                await answer.write(b": still here\n\n")  # finds out whether the browser has gone
            if feed.error is not None:
                return
            await asyncio.sleep(AT_MOST_EVERY_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REDRAWN_EVERY_S):
                    await changed.wait()


async def _send(answer: web.StreamResponse, event: str, data: object) -> None:
    await answer.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())


def _answer(page: DashboardPage, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=document(page), status=status, content_type="text/html", charset="utf-8")


def _refused(refusal: RefusedRequest) -> web.Response:
    return web.Response(text=f"{refusal.why}\n", status=refusal.status)


def _key(request: web.Request) -> Key:
    """The Rollout that the address names. Raises: web.HTTPNotFound, for what no object can be called."""
    key = Key(request.match_info["namespace"], request.match_info["name"])
    if not _NAME.fullmatch(key.namespace) or not _NAME.fullmatch(key.name):
        raise web.HTTPNotFound
    return key


def _act_in(request: web.Request) -> str:
    word = request.match_info["act"]
    if word not in acts.ACTS:
        raise web.HTTPNotFound
    return word


def _to(text: str) -> str:
    return text if _NAME.fullmatch(text) else ""

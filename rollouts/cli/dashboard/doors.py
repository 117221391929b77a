"""Who may come in: one person with a printed key, or all who sign in with a token of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

from aiohttp import web

from rollouts.cli.dashboard.answers import NEW_COOKIE, SIGNED_IN, page_answer, refusal_answer
from rollouts.cli.dashboard.guard import (
    LOGIN,
    AccessGuard,
    RefusedRequest,
    is_from_elsewhere,
    is_opened,
    refusal_of_others,
    same,
)
from rollouts.cli.dashboard.hub import Hub
from rollouts.cli.dashboard.person import PersonPages
from rollouts.cli.dashboard.sessions import SessionEnd, Sessions, SignedIn
from rollouts.cli.dashboard.sign_in_page import LOGOUT, again_page, sign_in_page, signed_in_part
from rollouts.cli.dashboard.sites import Site, Sites
from rollouts.cli.dashboard.tokens import sign_in
from rollouts.clock import SystemClock
from rollouts.ports import ApiServer, Clock
from rollouts.recent import Recent
from rollouts.secret import Secret

STATIC = "/static/"
HEALTH = "/healthz"
FAILURES_MAX = 10
FAILURES_WITHIN_S = 60.0
_ADDRESSES_KEPT = 1_000
_OPENED_AGAIN = "rollouts-opened-again"  # once is enough, also for a browser that names the other site again
_BACK = re.compile(r"/(?!/)[!-\[\]-~]{0,2000}")  # a path of this site: one slash first, no backslash, no control
_FOUND = web.RequestKey("session", SignedIn)
_SITE = web.RequestKey("site", Site)


class Door(Protocol):
    """Judges each request before anything else does."""

    def routes(self) -> Sequence[web.RouteDef]:
        """The addresses of its own."""
        ...

    async def admit(self, request: web.Request) -> PersonPages | web.StreamResponse | None:
        """The pages of whoever asks, or an answer in their place; None for addresses that need to know nobody."""
        ...

    async def close(self) -> None:
        """Ends what its people have open."""
        ...


class OnePerson:
    """Implements `Door` for the laptop: the rights are those of whoever started it."""

    def __init__(self, guard: AccessGuard, hub: Hub, *, rights_of_commands: bool = False) -> None:
        self._guard = guard
        self._hub = hub
        self._pages = PersonPages(hub, rights_of_commands=rights_of_commands)

    def routes(self) -> Sequence[web.RouteDef]:
        """Where the key is exchanged."""
        return [web.get(LOGIN, self._exchange)]

    async def admit(self, request: web.Request) -> PersonPages | web.StreamResponse | None:
        """See `Door`."""
        refusal = self._guard.refusal(request)
        return refusal_answer(refusal) if refusal is not None else self._pages

    async def close(self) -> None:
        """See `Door`."""
        await self._hub.close()

    async def _exchange(self, request: web.Request) -> web.StreamResponse:
        outcome = self._guard.exchange(request.query.get("key", ""))
        return refusal_answer(outcome) if isinstance(outcome, RefusedRequest) else outcome


class ManyPeople:
    """Implements `Door` for a cluster: each signs in, and has the rights of their own token."""

    def __init__(
        self, sites: Sites, sessions: Sessions, connect: Callable[[Secret], ApiServer], *, clock: Clock | None = None
    ) -> None:
        """`connect` is to the API server with a token, and with no other credentials."""
        self._connect = connect
        self._sites = sites
        self._sessions = sessions
        self._clock = clock or SystemClock()
        self._failures: Recent[str, tuple[float, int]] = Recent(_ADDRESSES_KEPT)

    def routes(self) -> Sequence[web.RouteDef]:
        """Where people come in and go out, and what the kubelet asks."""
        return [
            web.get(LOGIN, self._ask),
            web.post(LOGIN, self._sign_in),
            web.post(LOGOUT, self._sign_out),
            HEALTH_ROUTE,
        ]

    async def admit(self, request: web.Request) -> PersonPages | web.StreamResponse | None:
        """See `Door`."""
        if request.path == HEALTH:
            return None  # the kubelet names the pod's address, and learns nothing
        site = site_of(self._sites, request)
        if isinstance(site, RefusedRequest):
            return refusal_answer(site)
        request[_SITE] = site
        if request.path == LOGIN or request.path.startswith(STATIC):
            return None
        cookie = request.cookies.get(site.cookie, "")
        found = await self._sessions.find(cookie, site.host) if cookie else None
        if isinstance(found, SignedIn):
            request[_FOUND] = found
            SIGNED_IN.set(signed_in_part(found.name, found.pages.form_field))
            return found.pages
        return self._unknown(request, site, found)

    async def close(self) -> None:
        """See `Door`."""
        await self._sessions.close()

    def _unknown(self, request: web.Request, site: Site, why: SessionEnd | None) -> web.StreamResponse:
        """The answer to somebody without a session: the way in, and why they are here."""
        reads = request.method in ("GET", "HEAD")
        again = opened_again(request, site) if why is None else None
        if again is not None:
            return again
        if not is_opened(request):
            return refusal_answer(RefusedRequest(HTTPStatus.UNAUTHORIZED, why.value if why else "sign in first"))
        said = why.value if why is not None else ""
        if not reads:
            said = f"{said} Nothing was written.".lstrip()
        return self._way_in(site, said, back=request.path_qs, status=HTTPStatus.UNAUTHORIZED)

    def _way_in(
        self, site: Site, said: str, *, back: str, status: HTTPStatus = HTTPStatus.OK, colour: str = "wait"
    ) -> web.Response:
        SIGNED_IN.set(None)
        page = sign_in_page(
            action=LOGIN,
            back=_back(back),
            said=said,
            colour=colour,
            in_clear=not site.secure and not site.is_loopback,
        )
        return page_answer(page, status)

    async def _ask(self, request: web.Request) -> web.StreamResponse:
        return self._way_in(request[_SITE], "", back="/")

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        site, form = request[_SITE], await request.post()
        back = _back(str(form.get("next", "")))
        address = request.remote or ""
        if self._has_failed_too_often(address):
            said = f"Too many tokens were not accepted: try again in {FAILURES_WITHIN_S:.0f} seconds."
            return self._way_in(site, said, back=back, status=HTTPStatus.TOO_MANY_REQUESTS, colour="bad")
        outcome = await sign_in(self._sessions, self._connect, str(form.get("token", "")), site.host)
        if isinstance(outcome, RefusedRequest):
            if outcome.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED):
                self._note_failure(address)
            return self._way_in(site, outcome.why, back=back, status=outcome.status, colour="bad")
        before = await self._sessions.find(request.cookies.get(site.cookie, ""), site.host)
        if isinstance(before, SignedIn):
            self._sessions.end(before, SessionEnd.SIGNED_OUT)
        request[NEW_COOKIE] = (site, outcome[1])
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": back})

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        session, form = request[_FOUND], await request.post()
        if not same(str(form.get("form", "")), session.pages.form_field):
            return refusal_answer(RefusedRequest(HTTPStatus.FORBIDDEN, "this form is not of your session"))
        self._sessions.end(session, SessionEnd.SIGNED_OUT)
        site = request[_SITE]
        answer = self._way_in(site, SessionEnd.SIGNED_OUT.value, back="/", colour="good")
        answer.del_cookie(site.cookie, path="/", secure=site.secure, httponly=True, samesite="Strict")
        return answer

    def _has_failed_too_often(self, address: str) -> bool:
        since_s, count = self._failures.get(address, (0.0, 0))
        return count >= FAILURES_MAX and self._clock.monotonic_s() - since_s < FAILURES_WITHIN_S

    def _note_failure(self, address: str) -> None:
        """Counts it, from zero where the first of those before is long ago."""
        now_s = self._clock.monotonic_s()
        since_s, count = self._failures.get(address, (now_s, 0))
        self._failures[address] = (since_s, count + 1) if now_s - since_s < FAILURES_WITHIN_S else (now_s, 1)


def site_of(sites: Sites, request: web.Request) -> Site | RefusedRequest:
    """The name by which a request has found us; why it is refused when that is not ours, or a page of others has sent it."""
    site = sites.of(request)
    if site is None:
        why = "the dashboard is not known by this name: start it with --host NAME, or set dashboard.hosts of the chart"
        return RefusedRequest(HTTPStatus.MISDIRECTED_REQUEST, why)
    return refusal_of_others(request, site.origin) or site


def opened_again(request: web.Request, site: Site) -> web.StreamResponse | None:
    """For a page to which one of others leads: what opens it once more from here, with the cookie; None for any other."""
    reads = request.method in ("GET", "HEAD")
    if not reads or not is_from_elsewhere(request) or request.cookies.get(_OPENED_AGAIN):
        return None
    again = web.Response(body=again_page(), content_type="text/html", charset="utf-8")
    again.set_cookie(_OPENED_AGAIN, "1", max_age=5, httponly=True, samesite="Lax", secure=site.secure)
    return again


async def _health(_: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")


HEALTH_ROUTE = web.get(HEALTH, _health)
"""It is answered to everybody, and says nothing."""


def _back(text: str) -> str:
    return text if _BACK.fullmatch(text) and not text.startswith((LOGIN, LOGOUT)) else "/"

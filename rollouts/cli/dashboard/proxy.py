"""The door of a dashboard behind a proxy that authenticates people, and that proves by a secret that it is the one.

Each person's requests to the API server are made by impersonation, so that the API server decides on them as if they were that
person's own. A session belongs to one browser and one identity: under another one it ends, with its live pages.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

from aiohttp import web

from rollouts.cli.dashboard.answers import NEW_COOKIE, SIGNED_IN, refusal_answer
from rollouts.cli.dashboard.doors import HEALTH, HEALTH_ROUTE, STATIC, opened_again, site_of
from rollouts.cli.dashboard.guard import RefusedRequest, is_opened, same
from rollouts.cli.dashboard.identity import SECRET_HEADER, IdentityRules, PersonIdentity, identity_in, single
from rollouts.cli.dashboard.person import PersonPages
from rollouts.cli.dashboard.sessions import SessionEnd, Sessions, SignedIn
from rollouts.cli.dashboard.sign_in_page import known_part
from rollouts.cli.dashboard.sites import Site, Sites
from rollouts.errors import ApiForbidden, ApiUnauthenticated, RolloutsError, SettingsInvalid
from rollouts.ports import ApiServer
from rollouts.secret import Secret

SECRET_MIN_CHARACTERS = 32
READ_AGAIN_S = 10.0
_MAKE = "`openssl rand -hex 32` makes one"


class ProxySecret:
    """What the proxy proves itself by: each line of a file, which is read again, so that a secret can be replaced."""

    def __init__(self, path: Path) -> None:
        """Needs a running event loop. Raises: SettingsInvalid, when the file has no secret, or one that can be guessed."""
        self._path = path
        self._lines = self._read()
        self._read_at_s = asyncio.get_running_loop().time()

    def is_known(self, given: str) -> bool:
        """Whether this is one of the lines, in a time that says nothing about them. Nothing is while the file cannot be used."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._read_at_s >= READ_AGAIN_S:
            self._read_at_s = now_s
            try:
                self._lines = self._read()
            except SettingsInvalid as problem:
                if self._lines:
                    sys.stderr.write(f"error: nobody is let in: {problem}\n")
                self._lines = ()
        return any(same(given, line.reveal()) for line in self._lines)

    def _read(self) -> tuple[Secret, ...]:
        try:
            lines = self._path.read_text(encoding="ascii").split()
        except (OSError, UnicodeDecodeError) as exc:
            # The error about an undecodable byte contains the bytes around it, so its text is not used.
            why = exc.strerror if isinstance(exc, OSError) else "it is not ASCII"
            raise SettingsInvalid(f"cannot read the proxy's secret {self._path}: {why}") from None
        if not lines or min(map(len, lines)) < SECRET_MIN_CHARACTERS:
            what = f"each line of it needs {SECRET_MIN_CHARACTERS} characters or more, and it needs one"
            raise SettingsInvalid(f"the proxy's secret {self._path} can be guessed: {what}; {_MAKE}")
        return tuple(map(Secret, lines))


class BehindProxy:
    """Implements `Door` for a proxy that knows people."""

    def __init__(
        self,
        sites: Sites,
        sessions: Sessions,
        connect: Callable[[PersonIdentity], ApiServer],
        *,
        secret: ProxySecret,
        rules: IdentityRules,
    ) -> None:
        """`connect` is to the API server by an account that may impersonate, as this person."""
        self._sites = sites
        self._sessions = sessions
        self._connect = connect
        self._secret = secret
        self._rules = rules

    def routes(self) -> Sequence[web.RouteDef]:
        """What the kubelet asks."""
        return [HEALTH_ROUTE]

    async def admit(self, request: web.Request) -> PersonPages | web.StreamResponse | None:
        """See `Door`."""
        if request.path == HEALTH:
            return None
        given = single(request.raw_headers, SECRET_HEADER)
        if isinstance(given, RefusedRequest):
            return refusal_answer(given)
        if not self._secret.is_known(given):
            why = f"this has not come through the proxy, which sends its secret as {SECRET_HEADER}: open the proxy's address"
            return refusal_answer(RefusedRequest(HTTPStatus.FORBIDDEN, why))
        site = site_of(self._sites, request)
        if isinstance(site, RefusedRequest):
            return refusal_answer(site)
        if request.path.startswith(STATIC):
            return None
        identity = identity_in(request.raw_headers, self._rules)
        if isinstance(identity, RefusedRequest):
            return refusal_answer(identity)
        found = await self._session_of(request, site, identity)
        if isinstance(found, web.StreamResponse):
            return found
        SIGNED_IN.set(known_part(found.name))
        return found.pages

    async def close(self) -> None:
        """See `Door`."""
        await self._sessions.close()

    async def _session_of(
        self, request: web.Request, site: Site, identity: PersonIdentity
    ) -> SignedIn | web.StreamResponse:
        """The browser's session of this person, or a new one; one of somebody else ends with what it has open."""
        cookie = request.cookies.get(site.cookie, "")
        found = await self._sessions.find(cookie, site.host) if cookie else None
        if isinstance(found, SignedIn):
            if found.as_whom == identity:
                return found
            self._sessions.end(found, SessionEnd.SIGNED_OUT)
        elif found is None and (again := opened_again(request, site)) is not None:
            return again  # it may have a cookie that the browser has not sent with a link of others
        if not is_opened(request):  # part of a page that was opened by somebody else, or before a restart
            return refusal_answer(
                RefusedRequest(HTTPStatus.UNAUTHORIZED, "this page is of a session that is over: open it again")
            )
        begun = await self._begin(identity, site)
        if isinstance(begun, RefusedRequest):
            return refusal_answer(begun)
        request[NEW_COOKIE] = (site, begun[1])
        return begun[0]

    async def _begin(self, identity: PersonIdentity, site: Site) -> tuple[SignedIn, str] | RefusedRequest:
        try:
            begun = await self._sessions.begin(lambda: self._connect(identity), site.host, as_whom=identity)
        except RolloutsError as error:
            sys.stderr.write(f"error: {identity.user} cannot be let in: {error}\n")
            match error:
                case ApiForbidden():
                    why = "its account may not `impersonate` your user or one of your groups: see dashboard.proxy of the chart"
                case ApiUnauthenticated():
                    why = "the API server does not accept the token of its own account"
                case _:
                    why = "the API server cannot be reached"
            why = f"the dashboard cannot act for you: {why}; its log has more"
            return RefusedRequest(HTTPStatus.BAD_GATEWAY, why)
        why = f"the API server is asked for {identity.user} and names somebody else: something between removes Impersonate-User"
        return begun or RefusedRequest(HTTPStatus.BAD_GATEWAY, why)

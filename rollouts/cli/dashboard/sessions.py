"""The sessions of people, each on a connection that reads and writes with the rights of one person alone.

A session is shown only what its own connection brought (`drawing`). Tokens are in the memory of this process and in no answer,
cookie or log; the cookie is a key drawn for the session, of which only the hash is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import secrets
from collections.abc import Callable, Coroutine
from enum import Enum
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from rollouts.cli.dashboard.guard import RefusedRequest
from rollouts.cli.dashboard.hub import Hub, SharedDrawings
from rollouts.cli.dashboard.identity import PersonIdentity
from rollouts.cli.dashboard.links import LinkTemplate
from rollouts.cli.dashboard.person import PersonPages
from rollouts.cli.view.rights import OWN_IDENTITY
from rollouts.cli.view.session import Session, session_on
from rollouts.clock import SystemClock
from rollouts.cluster.decoding import manifest_from
from rollouts.errors import ApiForbidden, ApiUnauthenticated, RolloutsError
from rollouts.objects import ROLLOUT, mapping
from rollouts.ports import ApiServer, Clock, Request, Response, WatchStream
from rollouts.recent import Recent

SESSIONS_MAX = 200
SESSIONS_OF_ONE_MAX = 10
CHECKS_AT_ONCE = 8
LASTS_S = 8 * 3_600.0
IDLE_S = 3_600.0  # without a page that is open or loaded
LOOKED_AFTER_EVERY_S = 5.0
CONFIRMED_ON_LOAD_S = 10.0
CONFIRMED_WHILE_OPEN_S = 60.0
STREAMS_LAST_S = 60.0  # where a proxy knows people: the browser then asks through it again
_KEY_BYTES = 32
_ENDED_KEPT = 1_000
_ANONYMOUS = "system:anonymous"
_SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:([a-z0-9][-a-z0-9]{0,62}):.+")
_NAMESPACE = "default"  # as kubectl's


class SessionEnd(Enum):
    """Why a session is over, for whoever comes back to it."""

    TOKEN = "Your token has expired, or was withdrawn."  # noqa: S105 - not a password
    IDLE = "You were signed out after an hour without a page that was open."
    OVER = "You were signed out: a session lasts eight hours."
    REPLACED = f"You were signed out: you have signed in {SESSIONS_OF_ONE_MAX} times since."
    SIGNED_OUT = "You are signed out."
    UNKNOWN = "Your session is not known any more: the dashboard was started again, or it ended a while ago."


class Person(Struct, frozen=True):
    """Whose a connection is, and the namespace to begin with; None for all of them."""

    name: str
    namespace: str | None


class SignedIn:
    """One session.

    Args:
        host: of the address at which the person signed in; the session is good for no other one.
        as_whom: as whom its requests are made by impersonation; None where they are made with the person's own token.
    """

    ends_at_s: float
    """On the wall clock: with the token, or when it has lasted long enough."""
    ends_by: SessionEnd
    """Why it ends then."""

    def __init__(
        self,
        key: bytes,
        name: str,
        host: str,
        api: _OwnApi,
        hub: Hub,
        pages: PersonPages,
        as_whom: PersonIdentity | None,
    ) -> None:
        self.key = key
        self.name = name
        self.host = host
        self.hub = hub
        self.pages = pages
        self.as_whom = as_whom
        self.used_at_s = self._confirmed_at_s = asyncio.get_running_loop().time()
        self._api = api

    async def confirm(self, *, older_than_s: float) -> None:
        """Asks the API server whether it still knows the token, which ends the session if not, at most so often."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._confirmed_at_s < older_than_s:
            return
        self._confirmed_at_s = now_s
        with contextlib.suppress(RolloutsError):  # without an answer, pages say that there is none
            await _own_name(self.hub.session)

    async def close(self) -> None:
        """Ends everything that it has open."""
        self._api.over = True
        await self.hub.close()
        await self._api.aclose()


class _OwnApi:
    """Implements `ports.ApiServer` for one session: tells when the API server does not know its token any more."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.over = False
        self.when_refused: Callable[[], None] = lambda: None

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As in the port."""
        self._go_on()
        answer = await self._api.request(request, deadline_s=deadline_s)
        self._look_at(answer.status)
        return answer

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """As in the port."""
        self._go_on()
        stream = await self._api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        self._look_at(stream.status)
        return stream

    async def aclose(self) -> None:
        """As in the port."""
        await self._api.aclose()

    def _go_on(self) -> None:
        if self.over:
            raise ApiUnauthenticated("the session is over")

    def _look_at(self, status: int) -> None:
        if status == HTTPStatus.UNAUTHORIZED:
            self.over = True
            self.when_refused()


class Sessions:
    """All sessions of one dashboard."""

    def __init__(
        self,
        *,
        namespace: str | None,
        request_timeout_s: float,
        clock: Clock | None = None,
        rights_of_commands: bool = False,
        links: tuple[LinkTemplate, ...] = (),
    ) -> None:
        """No session yet.

        Args:
            namespace: is shown first to whoever may not list all of them; None for the one of their service account.
            rights_of_commands: each command needs a verb of its own.
            links: to other servers, on the pages of Rollouts.
        """
        self._rights_of_commands = rights_of_commands
        self._namespace = namespace
        self._request_timeout_s = request_timeout_s
        self._clock = clock or SystemClock()
        self._shared = SharedDrawings(links)
        self._checks = asyncio.Semaphore(CHECKS_AT_ONCE)
        self._open: dict[bytes, SignedIn] = {}
        self._ended: Recent[bytes, SessionEnd] = Recent(_ENDED_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open(self) -> tuple[SignedIn, ...]:
        """Those that are open, in the order in which they began."""
        return tuple(self._open.values())

    async def begin(
        self,
        connect: Callable[[], ApiServer],
        host: str,
        *,
        expires_s: float | None = None,
        as_whom: PersonIdentity | None = None,
    ) -> tuple[SignedIn, str] | RefusedRequest | None:
        """A new session with the value of its cookie, or why there is no room for one.

        Args:
            connect: to the API server, with the rights of one person.
            host: of the address at which the session is good.
            expires_s: when the credentials end, in seconds since 1970; None where they do not say.
            as_whom: the person whom the API server has to name; None for any.

        Returns: None when the API server does not name that person, or nobody.
        Raises: what `Client` raises.
        """
        if self._checks.locked():
            return RefusedRequest(HTTPStatus.SERVICE_UNAVAILABLE, "Too many sign in at once: try again.")
        async with self._checks:
            api = _OwnApi(connect())
            session = session_on(
                api, namespace=_NAMESPACE, request_timeout_s=self._request_timeout_s, clock=self._clock
            )
            found: Person | None = None
            try:
                found = await self._person_of(session, as_whom)
            finally:
                if found is None:
                    await api.aclose()
        if found is None:
            return None
        full = self._room_for(found.name)
        if full is not None:
            await api.aclose()
            return full
        cookie, over_s = secrets.token_urlsafe(_KEY_BYTES), self._clock.now_s() + LASTS_S
        last_s = STREAMS_LAST_S if as_whom is not None else None
        hub = Hub(session, found.namespace, self._shared, streams_last_s=last_s)
        chooses, by_verb = hub.namespace is not None, self._rights_of_commands
        pages = PersonPages(hub, chooses_namespace=chooses, rights_of_commands=by_verb)
        signed_in = SignedIn(_hash(cookie), found.name, host, api, hub, pages, as_whom)
        signed_in.ends_at_s, signed_in.ends_by = over_s, SessionEnd.OVER
        if expires_s is not None and expires_s < over_s:
            signed_in.ends_at_s, signed_in.ends_by = expires_s, SessionEnd.TOKEN
        self._open[signed_in.key] = signed_in
        api.when_refused = lambda: self.end(signed_in, SessionEnd.TOKEN)
        self._look_after(signed_in)
        return signed_in, cookie

    async def find(self, cookie: str, host: str) -> SignedIn | SessionEnd:
        """The session of a cookie, which counts as used now, or why there is none.

        A token that the API server has not seen for a while is shown to it again: what is shown of the session may be older.
        """
        key = _hash(cookie)
        found = self._open.get(key)
        if found is None:
            return self._ended.get(key, SessionEnd.UNKNOWN)
        if found.host != host:
            return SessionEnd.UNKNOWN
        why = self._why_over(found)
        if why is not None:
            self.end(found, why)
            return why
        found.used_at_s = asyncio.get_running_loop().time()
        await found.confirm(older_than_s=CONFIRMED_ON_LOAD_S)
        return found if key in self._open else self._ended.get(key, SessionEnd.UNKNOWN)

    def end(self, session: SignedIn, why: SessionEnd) -> None:
        """Ends a session at once; what it has open is closed meanwhile."""
        if self._open.pop(session.key, None) is None:
            return
        self._ended[session.key] = why
        self._go_on_with(session.close())

    async def close(self) -> None:
        """Ends all sessions."""
        for session in self.open:
            self.end(session, SessionEnd.UNKNOWN)
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def _go_on_with(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _room_for(self, name: str) -> RefusedRequest | None:
        """Makes room for one more session of a person; why there is none for anybody, else None."""
        own = [each for each in self.open if each.name == name]
        if len(own) >= SESSIONS_OF_ONE_MAX:
            self.end(own[0], SessionEnd.REPLACED)
        if len(self._open) < SESSIONS_MAX:
            return None
        why = f"{SESSIONS_MAX} sessions are open, which is the most: try again when somebody has signed out."
        return RefusedRequest(HTTPStatus.SERVICE_UNAVAILABLE, why)

    async def _person_of(self, session: Session, as_whom: PersonIdentity | None) -> Person | None:
        """Whose rights the session has, as the API server says; None where it does not, or names another one."""
        name = await _own_name(session)
        if name in ("", _ANONYMOUS) or (as_whom is not None and name != as_whom.user):
            return None
        return Person(name, await self._scope(session, name))

    async def _scope(self, session: Session, name: str) -> str | None:
        """None for all namespaces; else the one to begin with."""
        try:
            await session.client.list_page(ROLLOUT, None, limit=1)
        except ApiForbidden:
            own = _SERVICE_ACCOUNT.fullmatch(name)
            return self._namespace or (own[1] if own else _NAMESPACE)
        return None

    def _why_over(self, session: SignedIn) -> SessionEnd | None:
        if self._clock.now_s() >= session.ends_at_s:
            return session.ends_by
        if not session.hub.streams and asyncio.get_running_loop().time() - session.used_at_s >= IDLE_S:
            return SessionEnd.IDLE
        return None

    def _look_after(self, session: SignedIn) -> None:
        """Ends the session when it is due, also where nobody asks for anything: its live pages end with it."""
        if self._open.get(session.key) is not session:
            return
        loop = asyncio.get_running_loop()
        if session.hub.streams:
            session.used_at_s = loop.time()
            self._go_on_with(session.confirm(older_than_s=CONFIRMED_WHILE_OPEN_S))
        why = self._why_over(session)
        if why is not None:
            self.end(session, why)
        else:
            loop.call_later(LOOKED_AFTER_EVERY_S, self._look_after, session)


async def _own_name(session: Session) -> str:
    """As whom the API server knows the session. Raises: what `Client` raises."""
    asked = {"apiVersion": OWN_IDENTITY.api_version, "kind": OWN_IDENTITY.kind}
    answer = manifest_from(await session.client.create(OWN_IDENTITY, None, asked))
    name = mapping(mapping(answer.get("status")).get("userInfo")).get("username")
    return name if isinstance(name, str) else ""


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="replace")).digest()

"""An API server that knows people by bearer tokens and what each may do, before the simulated one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import cast

from aiohttp import web

from rollouts.cli.dashboard.app import serving_people
from rollouts.cli.dashboard.doors import ManyPeople
from rollouts.cli.dashboard.identity import IdentityRules
from rollouts.cli.dashboard.proxy import BehindProxy, ProxySecret
from rollouts.cli.dashboard.sessions import Sessions
from rollouts.cli.dashboard.sites import Sites, named_site
from rollouts.cli.view.session import Options, bearers_of, impersonating
from rollouts.clock import SystemClock
from rollouts.cluster.target import AccessFlags
from rollouts.ports import Clock, Request, Response, WatchStream
from rollouts.secret import Secret
from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.apiserver.server import SimServer
from tests.cli.dashboards import Answer, Visitor
from tests.cli.runs import Served
from tests.controller.door import Door, refusal

EVERYWHERE = "*"
_PATH = re.compile(r"/apis?/(?:(?P<group>[^/]+)/)?v[^/]+(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[a-z]+)")
_WHO: ContextVar[str] = ContextVar("_WHO", default="")
_AS: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("_AS", default=())
PROXY_SECRET = "0123456789abcdef0123456789abcdef"
IMPERSONATOR = "token.of.the.dashboard"


@dataclass(frozen=True)
class Tenant:
    """Somebody with rights in namespaces; `EVERYWHERE` among them for all."""

    name: str
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def may(self, verb: str, namespace: str) -> bool:
        """Whether a role of theirs allows it."""
        allowed = self.reads if verb in ("get", "list", "watch") else self.writes
        return EVERYWHERE in allowed or (namespace != "" and namespace in allowed)


@dataclass
class Tenancy:
    """Authentication and authorization: the tokens that are valid now.

    Args:
        members: the rights of users and groups, for the people as whom `IMPERSONATOR` asks.
        may_impersonate: the names for which it has the right.
        drops_impersonation: something between removes the headers.
    """

    api: SimServer
    people: dict[str, Tenant] = field(default_factory=dict)
    members: dict[str, Tenant] = field(default_factory=dict)
    may_impersonate: Callable[[str], bool] = lambda _: True
    impersonated: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    drops_impersonation: bool = False
    other_headers: set[str] = field(default_factory=set)
    asked: list[tuple[str, Request]] = field(default_factory=list)

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        """As the API server answers the caller."""
        return self._answer(request) or await self.api.request(request, deadline_s=deadline_s)

    async def open_watch(self, request: Request, *, deadline_s: float, silence_s: float) -> WatchStream:
        """The same for a watch."""
        told = self._answer(request)
        if told is not None:
            return await Door(self.api, lambda _: told).open_watch(request, deadline_s=deadline_s, silence_s=silence_s)
        return await self.api.open_watch(request, deadline_s=deadline_s, silence_s=silence_s)

    def end_watches(self) -> None:
        """As the server."""
        self.api.end_watches()

    def _answer(self, request: Request) -> Response | None:
        kind, _, token = _WHO.get().partition(" ")
        who = self.people.get(token)
        if token == IMPERSONATOR and not self.drops_impersonation:
            user = next(value for name, value in _AS.get() if name == "Impersonate-User")
            self.other_headers |= {name for name, _ in _AS.get()} - {"Impersonate-User", "Impersonate-Group"}
            groups = tuple(value for name, value in _AS.get() if name == "Impersonate-Group")
            self.impersonated.append((user, groups))
            for resource, name in (("users", user), *(("groups", group) for group in groups)):
                if not self.may_impersonate(name):
                    why = f'User "dashboard" cannot impersonate resource "{resource}" in API group ""'
                    return refusal(403, "Forbidden", f'{resource} "{name}" is forbidden: {why}')
            of = [self.members[each] for each in (user, *groups) if each in self.members]
            reads, writes = (
                frozenset().union(*parts) for parts in ([each.reads for each in of], [each.writes for each in of])
            )
            who = Tenant(user, reads, writes)
        self.asked.append((who.name if who else "", request))
        if kind != "Bearer" or who is None:
            return refusal(401, "Unauthorized", "Unauthorized")
        if request.path.endswith("/selfsubjectreviews"):
            return Response(201, json.dumps({"status": {"userInfo": {"username": who.name}}}).encode())
        if request.path.endswith("/selfsubjectaccessreviews"):
            wanted = json.loads(request.body)["spec"]["resourceAttributes"]
            allowed = who.may(wanted["verb"], wanted["namespace"])
            return Response(201, json.dumps({"status": {"allowed": allowed}}).encode())
        found = _PATH.match(request.path)
        assert found is not None, request.path
        verb = {"GET": "list", "PATCH": "patch", "POST": "create", "DELETE": "delete", "PUT": "update"}[request.method]
        namespace, group = found["ns"] or "", found["group"] or ""
        if who.may(verb, namespace):
            return None
        where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
        what = f'cannot {verb} resource "{found["plural"]}" in API group "{group}"{where}'
        return refusal(403, "Forbidden", f'{found["plural"]}.{group} is forbidden: User "{who.name}" {what}')


class TenantHttp(SimHttp):
    """Serves a `Tenancy`, which sees who asks."""

    async def _serve(self, incoming: web.Request) -> web.StreamResponse:
        _WHO.set(incoming.headers.get("Authorization", ""))
        _AS.set(tuple(pair for pair in incoming.headers.items() if pair[0].startswith(("Impersonate-", "X-"))))
        return await super()._serve(incoming)


def token_of(name: str, *, expires_s: float | None = None) -> str:
    """A JSON Web Token as the API server signs them, but for the signature."""
    claims = {"sub": name, **({"exp": expires_s} if expires_s is not None else {})}
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({}, claims)]
    return ".".join([*parts, "c2lnbmVk"])


@dataclass
class Guest(Visitor):
    """A browser without a screen, at a dashboard on which people sign in."""

    async def sign_in(self, token: str, *, back: str = "/", **headers: str) -> Answer:
        """Sends the form of the page, and keeps the cookie if there is one."""
        answer = await self.post("/login", {"token": token, "next": back}, **headers)
        cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        self.cookie = cookie if answer.status == 303 else self.cookie
        return answer


@dataclass
class PeoplesDashboard:
    """A dashboard on which people sign in, with its API server."""

    url: str
    tenancy: Tenancy
    sessions: Sessions
    stop_api: Callable[[], Awaitable[None]]

    @property
    def streams(self) -> int:
        """How many pages have live updates."""
        return sum(each.hub.streams for each in self.sessions.open)

    def guest(self) -> Guest:
        """Somebody who has not signed in."""
        return Guest(self.url)

    async def signed_in(self, token: str) -> Guest:
        """Somebody who has."""
        guest = self.guest()
        answer = await guest.sign_in(token)
        assert answer.status == 303, answer
        return guest


@dataclass
class ProxyGuest(Visitor):
    """A browser behind a proxy, which adds what it says of the person."""

    proxied: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Answer:
        """As the proxy passes it on; the browser keeps the cookie."""
        return self._kept(await super().get(path, **{**self.proxied, **headers}))

    async def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """The same for a form."""
        return self._kept(await super().post(path, fields, **{**self.proxied, **headers}))

    @contextlib.asynccontextmanager
    async def stream(self, path: str, **headers: str) -> AsyncIterator[asyncio.StreamReader]:
        """The same for live updates."""
        async with super().stream(path, **{**self.proxied, **headers}) as reader:
            yield reader

    def _kept(self, answer: Answer) -> Answer:
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0] or self.cookie
        return answer


@dataclass
class ProxiedDashboard(PeoplesDashboard):
    """One behind a proxy."""

    def person(self, user: str, *groups: str, **headers: str) -> ProxyGuest:
        """Somebody's browser, behind the proxy."""
        said = {"X_Forwarded_User": user, "X_Forwarded_Groups": ",".join(groups)}
        return ProxyGuest(self.url, proxied={"X_Rollouts_Proxy_Secret": PROXY_SECRET, **said, **headers})


@contextlib.asynccontextmanager
async def proxied_dashboard(
    there: Served, members: Mapping[str, Tenant], rules: IdentityRules, *hosts: str, clock: Clock | None = None
) -> AsyncIterator[ProxiedDashboard]:
    """A dashboard behind a proxy, before an API server on which it may impersonate."""
    tenancy = Tenancy(there.api, members=dict(members))
    secret = there.folder / "proxy-secret"
    secret.write_text(f"{PROXY_SECRET}\n")
    async with TenantHttp(cast(SimServer, tenancy)) as http:
        flags = AccessFlags(server=http.url, token=Secret(IMPERSONATOR))
        connect = await impersonating(Options(flags=flags))
        sessions = Sessions(namespace=None, request_timeout_s=2.0, clock=clock or SystemClock())
        door = BehindProxy(
            Sites(map(named_site, hosts)),
            sessions,
            lambda who: connect(who.user, who.groups),
            secret=ProxySecret(secret),
            rules=rules,
        )
        async with serving_people(door, address="127.0.0.1", port=0) as found:
            yield ProxiedDashboard(
                f"http://127.0.0.1:{found}", tenancy, sessions, lambda: http.__aexit__(None, None, None)
            )


@contextlib.asynccontextmanager
async def peoples_dashboard(
    there: Served, people: Mapping[str, Tenant], *hosts: str, clock: Clock | None = None, port: int = 0
) -> AsyncIterator[PeoplesDashboard]:
    """A dashboard before an API server that knows these people by their tokens."""
    tenancy = Tenancy(there.api, dict(people))
    async with TenantHttp(cast(SimServer, tenancy)) as http:
        kubeconfig = http.write_kubeconfig(there.folder / "of-nobody")
        connect = await bearers_of(Options(kubeconfig=kubeconfig))
        clock = clock or SystemClock()
        sessions = Sessions(namespace=None, request_timeout_s=2.0, clock=clock)
        door = ManyPeople(Sites(map(named_site, hosts)), sessions, connect, clock=clock)
        async with serving_people(door, address="127.0.0.1", port=port) as found:
            yield PeoplesDashboard(
                f"http://127.0.0.1:{found}", tenancy, sessions, lambda: http.__aexit__(None, None, None)
            )

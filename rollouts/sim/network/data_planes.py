"""The admin API of simulated gateways: what each proxy really does, as the controller can ask a real data plane.

It has the interface of `rollouts.probes.planes.NamedDataPlanes`, which the controller uses on a real cluster; neither imports the
other. An answer takes time, a proxy may not answer, and a proxy that is late answers with what it does, not what it should do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import (
    IDLE_HEADER,
    LiveSeen,
    MatchKind,
    RequestMatch,
    RouteName,
    TextMatch,
    VerifiedBy,
)
from rollouts.ports import Clock, DrainQuestion, LiveQuestion
from rollouts.sim.network.gateway import Gateway, Proxy
from rollouts.sim.network.route_table import ProxyRule, RouteTable, ServiceKey, WebRequest

LATENCY_S = 0.005
"""Loop seconds that an answer takes."""
_ASKED_KINDS = frozenset({"HTTPRoute", "GRPCRoute"})


class SimDataPlanes:
    """Answers questions about gateways."""

    def __init__(self, gateways: Iterable[Gateway], *, clock: Clock) -> None:
        self._gateways = {"/".join(gateway.key): gateway for gateway in gateways}
        self._clock = clock
        self.questions = 0
        """The number of questions so far."""

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """Config when the proxies of all these gateways can be asked; None otherwise, or when the route names no gateway."""
        known = route.kind in _ASKED_KINDS and bool(gateways) and all(gateway in self._gateways for gateway in gateways)
        return VerifiedBy.CONFIG if known else None

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """Whether every proxy does what the route says; unknown when a proxy does not answer. Cancellation: safe."""
        self.questions += 1
        await asyncio.sleep(min(LATENCY_S, deadline_s))
        proxies = [(name, proxy) for name in question.gateways for proxy in self._gateways[name].proxies]
        problems = [
            f"proxy {proxy.number} of {name} {why}" for name, proxy in proxies if (why := _problem(proxy, question))
        ]
        at_s, version, message = self._clock.now_s(), question.resource_version, "; ".join(problems)
        return LiveSeen(at_s=at_s, resource_version=version, live=not problems, by=VerifiedBy.CONFIG, message=message)

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """The requests that proxies still wait for; unknown when a proxy does not answer. Cancellation: safe."""
        self.questions += 1
        await asyncio.sleep(min(LATENCY_S, deadline_s))
        names = question.gateways or tuple(self._gateways)
        proxies = [proxy for name in names for proxy in self._gateways[name].proxies]
        silent = [f"proxy {proxy.number} does not answer" for proxy in proxies if not proxy.answers]
        in_flight = None if silent else sum(proxy.active[question.revision] for proxy in proxies)
        return DrainSeen(at_s=self._clock.now_s(), in_flight=in_flight, message="; ".join(silent))

    async def aclose(self) -> None:
        """Does nothing: there is no connection."""


def _problem(proxy: Proxy, question: LiveQuestion) -> str:
    if not proxy.answers:
        return "does not answer"
    where = question.namespace or question.route.namespace
    stable, canary = (where, question.stable_service), (where, question.canary_service)
    every = list(proxy.table.rules_of((question.route.namespace, question.route.name)))
    rules = [rule for rule in every if not rule.asks_for(IDLE_HEADER)]
    if question.split.idle > sum(proxy.is_warm(rule) for rule in every if rule not in rules):
        return "does not have what is to be made first"
    if not rules:
        return "does not know the route"
    told = _told(question)
    if told and [_as_told(rule) for rule in rules] != told:
        return _first_difference(rules, told)
    experiments = [(where, each.service) for each in question.split.experiments]
    splits = [[rule.weight_of(service) for service in (stable, canary, *experiments)] for rule in rules]
    both = [weights for rule, weights in zip(rules, splits, strict=True) if {stable, canary} <= _services(rule)]
    both = both or [weights for weights in splits if weights[0]]
    wanted_shares = [question.split.share, *(each.share for each in question.split.experiments)]
    if not any(sum(weights) and weights[1:] == [share * sum(weights) for share in wanted_shares] for weights in both):
        return f"splits {both[0][0]}:{both[0][1]}" if both else "does not know the route"
    only_canary = [rule for rule in rules if _services(rule) == {canary}]
    if not told and bool(only_canary) != bool(question.split.matches):
        return "has a rule for some requests" if only_canary else "has no rule for some requests"
    for managed in question.split.matches:
        request = request_that(managed.match)
        if request is not None and proxy.service_shares(request) != {canary: 1}:
            return f"does not send what {managed.name} takes to the canary"
    copied = {copy.part * 100 for rule in rules for copy in rule.copies if copy.service == canary}
    wanted = {mirror.percent for mirror in question.split.mirrors}
    if not told and copied != wanted:
        return f"copies {', '.join(f'{percent} %' for percent in sorted(copied)) or 'nothing'}"
    return ""


def _told(question: LiveQuestion) -> list[tuple[Any, ...]]:
    """The rules of the route as it was read, as `_as_told` writes them; [] when the question does not have it."""
    table = RouteTable([manifest for manifest in question.objects if manifest.get("kind") == question.route.kind])
    rules = table.rules_of((question.route.namespace, question.route.name))
    return [_as_told(rule) for rule in rules if not rule.asks_for(IDLE_HEADER)]


def _as_told(rule: ProxyRule) -> tuple[Any, ...]:
    """What a rule does with which requests. A proxy that follows a route does all that its rules say, the user's own too."""
    return rule.matches, rule.shares(), rule.copies


def _first_difference(rules: list[ProxyRule], told: list[tuple[Any, ...]]) -> str:
    for rule in rules:
        if _as_told(rule) not in told:
            percents = ", ".join(f"{100 * share} % for {service[1]}" for service, share in rule.shares().items())
            return f"has rule {rule.number} with {percents or 'no Service'}, which the route does not say"
    return "lacks a rule of the route"


def _services(rule: ProxyRule) -> set[ServiceKey]:
    return {backend.service for backend in rule.backends}


def request_that(match: RequestMatch) -> WebRequest | None:
    """A request that matches; None for a regular expression, for which none can be made."""
    texts: list[TextMatch] = [named.value for named in (*match.headers, *match.cookies, *match.query)]
    texts += [text for text in (match.method, match.path) if text is not None]
    if any(text.kind is MatchKind.REGEX for text in texts):
        return None
    given = {"method": match.method, "path": match.path}
    options: dict[str, Any] = {name: text.value for name, text in given.items() if text is not None}
    headers = [(header.name.lower(), header.value.value) for header in match.headers]
    if match.cookies:
        headers.append(("cookie", "; ".join(f"{cookie.name}={cookie.value.value}" for cookie in match.cookies)))
    query = tuple((parameter.name, parameter.value.value) for parameter in match.query)
    return WebRequest(headers=tuple(headers), query=query, **options)

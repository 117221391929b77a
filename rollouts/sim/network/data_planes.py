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

_ASKED_KINDS = frozenset({"HTTPRoute", "GRPCRoute"})


class SimDataPlanes:
    """Answers questions about gateways.

    Args:
        gateways: the gateways that can be asked.
        clock: for the times in answers.
        latency_s: loop seconds that an answer takes.
    """

    def __init__(self, gateways: Iterable[Gateway], *, clock: Clock, latency_s: float = 0.005) -> None:
        self._gateways = {f"{each.key[0]}/{each.key[1]}": each for each in gateways}
        self._clock = clock
        self._latency_s = latency_s
        self.questions = 0
        """The number of questions so far."""

    def asked_by(self, route: RouteName, gateways: tuple[str, ...]) -> VerifiedBy | None:
        """Config when the proxies of all these gateways can be asked; None otherwise, or when the route names no gateway."""
        known = route.kind in _ASKED_KINDS and bool(gateways) and all(each in self._gateways for each in gateways)
        return VerifiedBy.CONFIG if known else None

    async def live(self, question: LiveQuestion, *, deadline_s: float) -> LiveSeen:
        """Whether every proxy does what the route says; unknown when a proxy does not answer. Cancellation: safe."""
        self.questions += 1
        await asyncio.sleep(min(self._latency_s, deadline_s))
        proxies = [(name, proxy) for name in question.gateways for proxy in self._gateways[name].proxies]
        problems = [
            f"proxy {proxy.number} of {name} {why}" for name, proxy in proxies if (why := _problem(proxy, question))
        ]
        return LiveSeen(
            at_s=self._clock.now_s(),
            resource_version=question.resource_version,
            live=not problems,
            by=VerifiedBy.CONFIG,
            message="; ".join(problems),
        )

    async def drained(self, question: DrainQuestion, *, deadline_s: float) -> DrainSeen:
        """The requests that proxies still wait for; unknown when a proxy does not answer. Cancellation: safe."""
        self.questions += 1
        await asyncio.sleep(min(self._latency_s, deadline_s))
        names = question.gateways or tuple(self._gateways)
        proxies = [proxy for name in names for proxy in self._gateways[name].proxies]
        silent = [f"proxy {each.number} does not answer" for each in proxies if not each.answers]
        in_flight = None if silent else sum(each.active[question.revision] for each in proxies)
        return DrainSeen(at_s=self._clock.now_s(), in_flight=in_flight, message="; ".join(silent))

    async def aclose(self) -> None:
        """Does nothing: there is no connection."""


def _problem(proxy: Proxy, question: LiveQuestion) -> str:
    """How a proxy differs from what it should do; "" when it does not."""
    if not proxy.answers:
        return "does not answer"
    where = question.namespace or question.route.namespace
    stable, canary = (where, question.stable_service), (where, question.canary_service)
    every = list(proxy.table.rules_of((question.route.namespace, question.route.name)))
    rules = [each for each in every if not each.asks_for(IDLE_HEADER)]
    if question.split.idle > sum(proxy.is_warm(each) for each in every if each not in rules):
        return "does not have what is to be made first"
    if not rules:
        return "does not know the route"
    told = _told(question)
    if told and [_as_told(each) for each in rules] != told:
        return _first_difference(rules, told)
    splits = [_weights(each, stable, canary) for each in rules]
    both = [weights for rule, weights in zip(rules, splits, strict=True) if {stable, canary} <= _services(rule)]
    both = both or [weights for weights in splits if weights[0]]
    if not any(sum(weights) and weights[1] == question.split.share * sum(weights) for weights in both):
        return f"splits {both[0][0]}:{both[0][1]}" if both else "does not know the route"
    only_canary = [each for each in rules if _services(each) == {canary}]
    if not told and bool(only_canary) != bool(question.split.matches):
        return "has a rule for some requests" if only_canary else "has no rule for some requests"
    for each in question.split.matches:
        request = request_that(each.match)
        if request is not None and proxy.service_shares(request) != {canary: 1}:
            return f"does not send what {each.name} takes to the canary"
    copied = {copy.part * 100 for rule in rules for copy in rule.copies if copy.service == canary}
    wanted = {each.percent for each in question.split.mirrors}
    if not told and copied != wanted:
        return f"copies {', '.join(f'{each} %' for each in sorted(copied)) or 'nothing'}"
    return ""


def _told(question: LiveQuestion) -> list[tuple[Any, ...]]:
    """The rules of the route as it was read, as `_as_told` writes them; [] when the question does not have it."""
    table = RouteTable([each for each in question.objects if each.get("kind") == question.route.kind])
    rules = table.rules_of((question.route.namespace, question.route.name))
    return [_as_told(each) for each in rules if not each.asks_for(IDLE_HEADER)]


def _as_told(rule: ProxyRule) -> tuple[Any, ...]:
    """What a rule does with which requests. A proxy that follows a route does all that its rules say, the user's own too."""
    return rule.matches, rule.shares(), rule.copies


def _first_difference(rules: list[ProxyRule], told: list[tuple[Any, ...]]) -> str:
    for rule in rules:
        if _as_told(rule) not in told:
            return f"has rule {rule.number} with {_percents(rule)}, which the route does not say"
    return "lacks a rule of the route"


def _percents(rule: ProxyRule) -> str:
    return ", ".join(f"{100 * share} % for {service[1]}" for service, share in rule.shares().items()) or "no Service"


def _services(rule: ProxyRule) -> set[ServiceKey]:
    return {each.service for each in rule.backends}


def _weights(rule: ProxyRule, stable: ServiceKey, canary: ServiceKey) -> tuple[int, int]:
    return (
        sum(each.weight for each in rule.backends if each.service == stable),
        sum(each.weight for each in rule.backends if each.service == canary),
    )


def request_that(match: RequestMatch) -> WebRequest | None:
    """A request that matches; None for a regular expression, for which none can be made."""
    texts: list[TextMatch] = [each.value for each in (*match.headers, *match.cookies, *match.query)]
    texts += [each for each in (match.method, match.path) if each is not None]
    if any(each.kind is MatchKind.REGEX for each in texts):
        return None
    options: dict[str, Any] = {}
    if match.method is not None:
        options["method"] = match.method.value
    if match.path is not None:
        options["path"] = match.path.value
    headers = [(each.name.lower(), each.value.value) for each in match.headers]
    if match.cookies:
        headers.append(("cookie", "; ".join(f"{each.name}={each.value.value}" for each in match.cookies)))
    query = tuple((each.name, each.value.value) for each in match.query)
    return WebRequest(headers=tuple(headers), query=query, **options)

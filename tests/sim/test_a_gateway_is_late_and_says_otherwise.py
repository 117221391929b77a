"""Promise: simulated gateways have the lags and the faults that fool controllers, and lose the requests that real ones lose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction

import pytest

from rollouts.core.model.traffic import (
    IDLE_HEADER,
    IDLE_VALUE,
    LiveSeen,
    MatchRoute,
    MirrorRoute,
    RouteName,
    Split,
    VerifiedBy,
)
from rollouts.objects import SERVICE
from rollouts.sim.apiserver.verbs import DeleteOptions
from rollouts.sim.cluster import SimulatedCluster
from rollouts.sim.network.data_planes import SimDataPlanes
from rollouts.sim.network.gateway import ENVOY, TRAEFIK, Gateway, GatewaySettings
from rollouts.sim.network.gateway_clients import RESET, GatewayClients
from rollouts.sim.network.gateway_types import GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, gateway_crds
from rollouts.sim.network.route_table import WebRequest
from tests.build import backend
from tests.build import http_rule as rule
from tests.probes.dumps import question
from tests.sim.manifests import GATEWAY_NAME, replica_set, service, split, stored
from tests.traffic.situation import by_header

pytestmark = pytest.mark.virtual_time
BETA = WebRequest(headers=(("x-beta", "1"),))
BETA_RULE = rule(backend("canary"), matches=[{"headers": [{"name": "X-Beta", "value": "1"}]}])
MIRROR = {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "canary", "port": 80}, "percent": 50}}


@dataclass(frozen=True)
class Shop:
    """Two revisions of an app behind a gateway."""

    cluster: SimulatedCluster
    gateway: Gateway
    planes: SimDataPlanes

    def clients(self, request: WebRequest = WebRequest(), *, duration_s: float = 0.02) -> GatewayClients:  # noqa: B008
        """100 requests a second."""
        return self.cluster.gateway_clients(self.gateway, rate_per_s=100, request=request, duration_s=duration_s)

    def shares(self) -> list[Fraction]:
        """What each proxy sends to revision r2."""
        return [each.shares().get("r2", Fraction(0)) for each in self.gateway.proxies]

    async def live(self, want: Split) -> LiveSeen:
        route = RouteName("gatewayAPI", "HTTPRoute", "default", "web")
        services = {"stable_service": "stable", "canary_service": "canary"}
        asked = question(want, route=route, gateways=("default/public",), objects=(), **services)
        return await self.planes.live(asked, deadline_s=1.0)


@asynccontextmanager
async def in_the_shop(settings: GatewaySettings = ENVOY, *, pre_stop_s: int = 5) -> AsyncIterator[Shop]:
    """Two pods of each revision and all weight on `stable`."""
    async with SimulatedCluster(seed=3, crds=gateway_crds()) as cluster:
        gateway = cluster.gateway(namespace="default", name=GATEWAY_NAME, settings=settings)
        for name, revision in (("stable", "r1"), ("canary", "r2")):
            cluster.apply(service(name, set=name))
            cluster.apply(replica_set(name, replicas=2, revision=revision, pre_stop_s=pre_stop_s))
        cluster.apply(split(100, 0))
        await asyncio.sleep(10)
        yield Shop(cluster, gateway, SimDataPlanes([gateway], clock=cluster.clock))


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    """Behind an Envoy."""
    async with in_the_shop() as found:
        yield found


async def test_status_is_there_long_before_the_proxies_obey() -> None:
    """The trap: Accepted for the new generation after 10 ms, the old weights for two seconds more. Measured with Traefik."""
    async with in_the_shop(TRAEFIK) as shop:
        seen = []
        shop.cluster.apply(split(50, 50))
        for wait_s in (0.05, 1.6, 0.4):
            await asyncio.sleep(wait_s)
            (parent,) = stored(shop.cluster, HTTP_ROUTE, "web")["status"]["parents"]
            assert {each["status"] for each in parent["conditions"]} == {"True"}
            seen.append((parent["conditions"][0]["observedGeneration"], shop.shares()))

        assert seen == [
            (2, [Fraction(0), Fraction(0)]),
            (2, [Fraction(0), Fraction(0)]),
            (2, [Fraction(1, 2), Fraction(1, 2)]),
        ]


async def test_each_proxy_has_its_own_lag() -> None:
    """Between the first and the last of them a route is both: a client's next connection may see the older one again."""
    async with in_the_shop(GatewaySettings(proxies=3)) as shop:
        seen = set()
        shop.gateway.loaded.append(lambda _: seen.add(sum(share > 0 for share in shop.shares())))
        shop.cluster.apply(split(50, 50))
        await asyncio.sleep(1)

        assert seen == {1, 2, 3}


async def test_a_version_that_came_later_never_arrives_first(shop: Shop) -> None:
    """Lags are drawn for each change, and yet the last word is the last version's."""
    for weight in range(0, 101, 5):
        shop.cluster.apply(split(100 - weight, weight))
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)

    assert set(shop.shares()) == {Fraction(1)}


async def test_every_request_is_accounted_for_by_revision(shop: Shop) -> None:
    """Shares are exact at every proxy, so over 1,000 requests they hold to a few requests."""
    shop.cluster.apply(split(75, 25))
    await asyncio.sleep(1)
    clients = shop.clients()
    await asyncio.sleep(10)
    clients.stop()
    await asyncio.sleep(1)

    assert 990 <= clients.tally.sent.total() <= 1_000
    assert abs(clients.tally.sent["r2"] - 250) <= 4
    assert clients.tally.lost.total() == 0


async def test_headers_and_copies_reach_the_canary_at_weight_zero(shop: Shop) -> None:
    """That is what they are for: people who try it, and requests that nobody waits for."""
    route = split(100, 0, BETA_RULE)
    route["spec"]["rules"][1]["filters"] = [MIRROR]
    shop.cluster.apply(route)
    await asyncio.sleep(1)
    plain, beta = shop.clients(), shop.clients(BETA)
    await asyncio.sleep(10)

    assert set(plain.tally.sent) == {"r1"}
    assert set(beta.tally.sent) == {"r2"}
    assert abs(plain.copies["r2"] - 500) <= 4 and plain.copies["r1"] == 0
    assert beta.copies.total() == 0


async def test_a_rule_at_a_new_place_gets_requests_before_it_has_endpoints() -> None:
    """Measured with Envoy Gateway: 27 of 40 additions of a header rule answered 503; none when it was there idle before."""
    idle = {**BETA_RULE, "matches": [{"headers": [{"name": IDLE_HEADER, "value": IDLE_VALUE}]}]}
    lost = []
    for rules in ([BETA_RULE], [idle, BETA_RULE]):
        async with in_the_shop(GatewaySettings(cluster_lag_s=(0.2, 0.2))) as shop:
            route = split(100, 0)
            shop.cluster.apply(route)
            await asyncio.sleep(1)
            beta = shop.clients(BETA)
            for last in rules:
                await asyncio.sleep(1)
                shop.cluster.apply({**route, "spec": {**route["spec"], "rules": [*route["spec"]["rules"], last]}})
            await asyncio.sleep(1)
            beta.stop()
            lost.append(beta.causes[503])

    assert lost[0] > 10
    assert lost[1] == 0


async def test_a_share_that_leads_nowhere_is_lost(shop: Shop) -> None:
    """Measured: a missing Service answers 500 for its share, one without ready pods 503, 0/0 for all."""
    found = {}
    for what, route in (("503", split(90, 10)), ("500", split(90, 10)), ("0/0", split(0, 0))):
        if what == "503":
            shop.cluster.apply(replica_set("canary", replicas=0, revision="r2", pre_stop_s=5))
        if what == "500":
            resource = shop.cluster.world.resource(SERVICE)
            shop.cluster.world.verbs.delete(resource, "default", "canary", DeleteOptions())
        shop.cluster.apply(route)
        await asyncio.sleep(10)
        clients = shop.clients()
        await asyncio.sleep(10)
        clients.stop()
        found[what] = {status: round(count, -1) for status, count in clients.causes.items()}

    assert found == {"503": {503: 100}, "500": {500: 100}, "0/0": {500: 1_000}}


async def test_a_missing_service_shows_in_the_status(shop: Shop) -> None:
    """ResolvedRefs False, as the specification wants; and True again when it comes."""
    seen = []
    resource = shop.cluster.world.resource(SERVICE)
    shop.cluster.world.verbs.delete(resource, "default", "canary", DeleteOptions())
    for _ in range(2):
        await asyncio.sleep(1)
        (parent,) = stored(shop.cluster, HTTP_ROUTE, "web")["status"]["parents"]
        seen.append(next(each["status"] for each in parent["conditions"] if each["type"] == "ResolvedRefs"))
        shop.cluster.apply(service("canary", set="canary"))

    assert seen == ["False", "True"]


async def test_pods_that_end_under_a_request_lose_it() -> None:
    """And without a preStop sleep so do pods that a proxy has not yet heard the end of: the tally can count."""
    async with in_the_shop(pre_stop_s=0) as shop:
        clients = shop.clients(duration_s=1.0)
        await asyncio.sleep(5)
        shop.cluster.apply(replica_set("stable", replicas=1, revision="r1", pre_stop_s=0))
        await asyncio.sleep(5)

        assert clients.causes[RESET] > 10


async def test_a_proxy_that_is_cut_off_goes_on_with_what_it_knows(shop: Shop) -> None:
    """One stale replica of two: half of the clients see the old weights for as long as that lasts."""
    shop.gateway.proxies[1].freeze()
    shop.cluster.apply(split(0, 100))
    await asyncio.sleep(5)
    seen = [shop.shares()]
    shop.gateway.proxies[1].thaw()

    assert [*seen, shop.shares()] == [[Fraction(1), Fraction(0)], [Fraction(1), Fraction(1)]]


async def test_the_data_plane_is_asked_what_it_does_not_what_it_was_told() -> None:
    """Live only when every proxy does it; a proxy that is silent is no evidence, and says so by number."""
    half = Split(Fraction(1, 2))
    async with in_the_shop(TRAEFIK) as shop:
        answers = []
        shop.cluster.apply(split(50, 50))
        answers.append(await shop.live(half))
        await asyncio.sleep(3)
        answers.append(await shop.live(half))
        shop.gateway.proxies[1].answers = False
        answers.append(await shop.live(half))

        assert [(each.live, each.message) for each in answers] == [
            (False, "proxy 0 of default/public splits 100:0; proxy 1 of default/public splits 100:0"),
            (True, ""),
            (False, "proxy 1 of default/public does not answer"),
        ]


async def test_header_and_mirror_rules_are_part_of_the_answer(shop: Shop) -> None:
    """Neither their absence nor their presence passes for a split that says otherwise."""
    beta, other = (MatchRoute("beta", by_header(name)) for name in ("x-beta", "x-other"))
    mirror = MirrorRoute("copy", percent=50)
    none = Fraction(0)
    route = split(100, 0, BETA_RULE)
    route["spec"]["rules"][1]["filters"] = [MIRROR]
    shop.cluster.apply(route)
    await asyncio.sleep(1)
    wanted = (
        Split(none, (beta,), (mirror,)),
        Split(none, (), (mirror,)),
        Split(none, (beta,), ()),
        Split(none, (other,), (mirror,)),
        Split(none, (beta,), (MirrorRoute("copy", percent=10),)),
    )

    assert [(await shop.live(each)).live for each in wanted] == [True, False, False, False, False]


@pytest.mark.parametrize(("settings", "tells"), [(ENVOY, True), (GatewaySettings(features=None), False)])
async def test_the_gateway_and_its_class_say_what_they_can(settings: GatewaySettings, tells: bool) -> None:
    """Controllers read `supportedFeatures`; a class that tells nothing is the rule rather than the exception."""
    async with in_the_shop(settings) as shop:
        found = shop.cluster.get(GATEWAY_CLASS, "", GATEWAY_NAME)
        gateway = stored(shop.cluster, GATEWAY, GATEWAY_NAME)
        asked_by = shop.planes.asked_by(RouteName("gatewayAPI", "HTTPRoute", "default", "cart"), ("default/public",))

    assert found is not None
    assert gateway["spec"]["gatewayClassName"] == GATEWAY_NAME
    assert ("supportedFeatures" in found["status"], asked_by) == (tells, VerifiedBy.CONFIG)

"""Promise: a data plane that is down, slow, broken or somebody else is told as such within the deadline, and is no evidence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rollouts.clock import SystemClock
from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import LiveSeen, RouteName, VerifiedBy
from rollouts.errors import SettingsInvalid
from rollouts.probes import exchange
from rollouts.probes.counter_series import Counters
from rollouts.probes.exchange import REPLICAS_MAX, Asker
from rollouts.probes.named_planes import CountedPlane, DataPlane, PlaneKind, parse_data_planes
from rollouts.probes.planes import NamedDataPlanes
from tests.hostile.work import lines_of
from tests.probes.dumps import NOTHING, ROUTE, contour_route, question, routes, share
from tests.probes.servers import needs_openssl, ok, raw, redirect, served_as, serving

ROUTES = "/config_dump?resource=dynamic_route_configs"
ENDPOINTS = "/config_dump?include_eds"
GOOD = {ROUTES: ok(routes(contour_route(("cart", 90), ("cart-canary", 10)))), ENDPOINTS: ok(NOTHING)}
OLD = {**GOOD, ROUTES: ok(routes(contour_route(("cart", 100), ("cart-canary", 0))))}
DEADLINE_S = 5.0


async def seen_at(url: str, *, resolve: Any = None, deadline_s: float = DEADLINE_S, **asked: Any) -> LiveSeen:
    """What is seen of the Envoys of a gateway that should give the canary a tenth."""
    planes = NamedDataPlanes({"infra/web": DataPlane(PlaneKind.ENVOY, (url,))}, clock=SystemClock())
    if resolve is not None:
        planes._asker = Asker(tls=False, resolve=resolve)
    async with contextlib.aclosing(planes):
        return await planes.live(question(share(10), **asked), deadline_s=deadline_s)


async def said(answers: Mapping[str, bytes | None], *, deadline_s: float = DEADLINE_S) -> LiveSeen:
    async with serving(answers) as server:
        seen = await seen_at(server.url(), deadline_s=deadline_s)
    assert seen.live or f"envoy 127.0.0.1:{server.port}: " in seen.message
    return seen


async def test_a_proxy_that_does_what_the_route_says_is_live() -> None:
    """By its own configuration, for the version of the route that was asked about."""
    before_s = time.time()
    seen = await said(GOOD)

    assert (seen.live, seen.by, seen.resource_version, seen.message) == (True, "Config", "7", "")
    assert before_s <= seen.at_s <= time.time()


async def test_every_replica_counts() -> None:
    """One name, two addresses: the one that lags is told, and the split is not live."""
    async with serving(GOOD) as new, serving(OLD, host="127.0.0.2", port=new.port):

        async def both(host: str, port: int) -> Sequence[str]:
            assert (host, port) == ("envoys.infra", new.port)
            return ["127.0.0.1", "127.0.0.2"]

        seen = await seen_at(new.url("envoys.infra"), resolve=both)

    assert not seen.live
    assert seen.message.startswith(f"envoy 127.0.0.2:{new.port}: ")
    assert "127.0.0.1" not in seen.message
    assert new.hosts == [f"envoys.infra:{new.port}"] * 2


BROKEN = {
    "503": ({ROUTES: raw(b"", status="503 Service Unavailable")}, "answers 503"),
    "redirect": ({**GOOD, ROUTES: redirect("http://169.254.169.254/")}, "redirect (302), which is not followed"),
    "truncated": ({**GOOD, ROUTES: raw(b'{"configs": [', length=500)}, "peer closed connection"),
    "HTML": ({**GOOD, ROUTES: raw(b"<html>welcome</html>")}, "cannot be read"),
    "wrong type": ({**GOOD, ROUTES: ok({"configs": "none"})}, "cannot be read"),
    "wrong JSON": ({**GOOD, ROUTES: ok([1, 2])}, "cannot be read"),
    "no HTTP": ({**GOOD, ROUTES: b"SSH-2.0-OpenSSH_9.2\r\n"}, "disconnected"),
    "too deep": ({**GOOD, ROUTES: raw(b"[" * 100_000)}, "cannot be read"),
    "no UTF-8": ({**GOOD, ROUTES: raw(b'{"configs":[{"route_config":{"name":"\xff"}}]}')}, "cannot be read"),
    "half of it": ({**GOOD, ENDPOINTS: raw(b"", status="404 Not Found")}, "answers 404"),
    "silence": ({**GOOD, ROUTES: None}, "no answer within 0.3 s"),  # a frozen process keeps its connections open
}


@pytest.mark.parametrize(("answers", "words"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_answer_is_not_live_and_says_why(answers: dict[str, bytes | None], words: str) -> None:
    """Whatever stands at the address: the rollout waits and people read the reason in status."""
    began_s = time.monotonic()
    seen = await said(answers, deadline_s=0.3 if None in answers.values() else DEADLINE_S)

    assert not seen.live
    assert words in seen.message
    assert time.monotonic() - began_s < DEADLINE_S


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (OSError("Name or service not known"), "DNS gives no address: Name or service not known"),
        (UnicodeError("label too long"), "is no name of a host"),
        ([], "has 0 addresses"),
        ([f"10.0.0.{number}" for number in range(REPLICAS_MAX + 1)], f"the controller asks 1 to {REPLICAS_MAX}"),
    ],
    ids=["no such name", "no name at all", "nobody", "too many"],
)
async def test_a_name_without_an_address_is_not_live(found: Exception | list[str], words: str) -> None:
    """A Service that was deleted, or one of half of the cluster's pods."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        if isinstance(found, Exception):
            raise found
        return found

    seen = await seen_at("http://gone.infra:19000", resolve=resolve)

    assert not seen.live
    assert "gone.infra: " in seen.message and words in seen.message


async def test_a_huge_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is the controller's: who answers without end is told so."""
    monkeypatch.setattr(exchange, "BODY_MAX_BYTES", 1 << 20)
    seen = await said({**GOOD, ROUTES: raw(b" " * (2 << 20))})

    assert not seen.live
    assert "more than 1 MiB" in seen.message


@pytest.mark.parametrize("many", [2_000, 4_000])
def test_a_gateway_with_thousands_of_routes_holds_up_nobody(many: int) -> None:
    """They are those of all tenants together; 10,000 took 0.3 s in which no pass ran. So their reading is not the loop's."""
    mine = contour_route(("cart", 90), ("cart-canary", 10))
    others = [contour_route(("web", 90), ("web-canary", 10))] * many
    answers = {**GOOD, ROUTES: ok(routes(mine, *others))}
    seen: list[LiveSeen] = []

    assert lines_of(lambda: seen.append(asyncio.run(said(answers, deadline_s=60.0)))) < 3_000
    assert [each.live for each in seen] == [True]


async def _here(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@needs_openssl
async def test_an_authority_that_was_not_named_is_not_believed(tmp_path: Path) -> None:
    """Without `--data-plane-ca` a cluster's own authority is nobody; with it the split is found live over TLS."""
    served = served_as("envoys.infra", tmp_path)
    seen = []
    async with serving(GOOD, tls=served) as server:
        for ca_file in (None, tmp_path / "cert.pem"):
            plane = DataPlane(PlaneKind.ENVOY, (f"https://envoys.infra:{server.port}",))
            planes = NamedDataPlanes({"infra/web": plane}, ca_file=ca_file, clock=SystemClock())
            assert planes._asker is not None
            planes._asker._resolve = _here
            seen.append(await planes.live(question(share(10)), deadline_s=DEADLINE_S))
            await planes.aclose()

    stranger, known = seen
    assert not stranger.live
    assert "certificate verify failed" in stranger.message
    assert (known.live, known.by) == (True, VerifiedBy.CONFIG)


@pytest.mark.parametrize(
    "text", [None, "", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_without_certificates_is_refused_at_the_start(tmp_path: Path, text: str | None) -> None:
    """Else every question would fail, in the middle of the first rollout."""
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)

    with pytest.raises(SettingsInvalid, match="--data-plane-ca"):
        NamedDataPlanes({"*": DataPlane(PlaneKind.ENVOY, ("https://a",))}, ca_file=path, clock=SystemClock())


async def test_a_gateway_that_nobody_named_cannot_be_asked() -> None:
    """Then the declared settle time holds; a question all the same is answered with the remedy."""
    seen = await seen_at("http://127.0.0.1:1", gateways=("infra/other",))

    assert (seen.live, seen.message) == (False, "no --data-plane names infra/other")


async def test_nobody_is_asked_where_nothing_is_named() -> None:
    """And httpx is not even imported for it."""
    async with contextlib.aclosing(NamedDataPlanes({}, clock=SystemClock())) as planes:
        assert planes.asked_by(ROUTE, ()) is None
        assert not (await planes.live(question(), deadline_s=DEADLINE_S)).live


def test_counters_are_asked_of_the_prometheus_that_is_asked_anyway() -> None:
    """Whose counters they are is all that the flag says; without a Prometheus it is refused."""
    planes = parse_data_planes(["istio=prometheus:istio", "*=envoy:http://a"])

    assert planes["istio"] == CountedPlane(Counters.ISTIO)
    with pytest.raises(SettingsInvalid, match="istio needs Prometheus; set --prometheus-url too"):
        NamedDataPlanes(planes, clock=SystemClock())


STAR = ["*=envoy:http://envoys:19000"]
NAMED = ["infra/web=envoy:http://a", "infra/in=prometheus:contour", "nginx=prometheus:nginx", "istio=prometheus:istio"]
INGRESS, MESH = RouteName("nginx", "Ingress", "shop", "cart"), RouteName("istio", "VirtualService", "shop", "cart")
CONFIG, COUNTERS = VerifiedBy.CONFIG, VerifiedBy.COUNTERS


@pytest.mark.parametrize(
    ("flags", "route", "gateways", "by"),
    [
        (STAR, ROUTE, (), CONFIG),
        (STAR, ROUTE, ("infra/web", "infra/other"), CONFIG),
        ([NAMED[2], *STAR], INGRESS, (), COUNTERS),
        ([NAMED[2], *STAR], ROUTE, (), CONFIG),
        (NAMED[:1], ROUTE, ("infra/web",), CONFIG),
        (NAMED[:1], ROUTE, ("infra/web", "infra/other"), None),
        (NAMED[:1], ROUTE, (), None),
        (NAMED[:1], replace(ROUTE, kind="TCPRoute"), ("infra/web",), None),
        (NAMED, ROUTE, ("infra/web",), CONFIG),
        (NAMED, ROUTE, ("infra/web", "infra/in"), COUNTERS),
        (NAMED, ROUTE, ("infra/other",), None),
        (NAMED, INGRESS, (), COUNTERS),
        (NAMED, MESH, ("infra/ingress",), COUNTERS),
        ([NAMED[0], "infra/mesh=prometheus:istio"], MESH, ("infra/web", "infra/mesh"), None),
        (NAMED, MESH, ("infra/web",), None),  # an Envoy of another product does not know VirtualServices
    ],
)
async def test_a_gateway_goes_before_its_router_and_a_star_is_for_the_rest(
    flags: list[str], route: RouteName, gateways: tuple[str, ...], by: VerifiedBy | None
) -> None:
    """An Ingress or a VirtualService of the mesh names no gateway; of several ways the least good one is told."""
    planes = NamedDataPlanes(parse_data_planes(flags), prometheus_url="http://p:9090", clock=SystemClock())

    assert planes.asked_by(route, gateways) is by
    await planes.aclose()


def test_data_planes_are_read_from_flags() -> None:
    """Several URLs are one data plane; each address of each is a replica."""
    planes = parse_data_planes(["infra/web=envoy:http://a:19000,http://b:19000/admin/", "shop/in=traefik:https://t"])

    assert planes == {
        "infra/web": DataPlane(PlaneKind.ENVOY, ("http://a:19000", "http://b:19000/admin")),
        "shop/in": DataPlane(PlaneKind.TRAEFIK, ("https://t",)),
    }


@pytest.mark.parametrize(
    "text",
    [
        "envoy:http://a:19000", "infra/web=nginx:http://a", "infra/web=envoy:", "infra/web=envoy:a:19000",
        "infra/web=envoy:http://user:word@a", "infra/web=envoy:http://a:port", "infra/web=envoy:http://a?x=1",
        "infra/web=envoy:http://[::1", "infra/web=envoy:http://a,", "infra/web=prometheus:",
        "infra/web=prometheus:haproxy", "infra/web=prometheus:http://prometheus:9090", "=envoy:http://a", "",
    ],
)  # fmt: skip
def test_a_flag_that_cannot_be_used_names_the_remedy(text: str) -> None:
    """At the start of the process, not in the middle of a rollout."""
    with pytest.raises(SettingsInvalid, match="--data-plane"):
        parse_data_planes([text])
    with pytest.raises(SettingsInvalid, match="twice"):  # the second would silently win
        parse_data_planes(["a/b=envoy:http://a", "a/b=envoy:http://b"])


@pytest.mark.parametrize("url", ["prometheus:9090", "file:///etc/passwd", "http://user@prometheus", "http://p/api?x"])
def test_a_prometheus_has_an_address_that_can_be_used(url: str) -> None:
    """The same as for data planes; a user's name or word in it would end up in messages."""
    with pytest.raises(SettingsInvalid, match="--prometheus-url"):
        NamedDataPlanes({}, prometheus_url=url, clock=SystemClock())

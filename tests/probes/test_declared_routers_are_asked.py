"""Promise: a router that is declared with a way to ask is asked so, and live only when each of its addresses says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from rollouts.bounded.here import Here
from rollouts.clock import SystemClock
from rollouts.controller.facts.data_planes import AllDataPlanes
from rollouts.controller.facts.live_providers import LiveProviders
from rollouts.core.model.snapshot import DrainSeen
from rollouts.core.model.traffic import RouteName, VerifiedBy
from rollouts.ports import DrainQuestion, LiveQuestion
from rollouts.probes.declared_probes import ANSWER_MAX_BYTES, DeclaredProbes
from rollouts.probes.exchange import Asker
from rollouts.probes.named_planes import parse_data_planes
from rollouts.probes.planes import NamedDataPlanes
from rollouts.traffic.declared.codec import Declared, declared
from rollouts.traffic.declared.probe import DeclaredProbe
from tests.probes.dumps import ROUTE, question, share
from tests.probes.servers import ok, raw, redirect, refused_port, serving
from tests.traffic.cases.declared import APISIX

PATH = "/api/routes/cart"
DEADLINE_S = 5.0
OBJECT = {"metadata": {"namespace": "shop", "name": "cart"}, "spec": {}}
DECLARED_ROUTE = RouteName("my-apisix", "ApisixRoute", "shop", "cart")


def provider(url: str) -> Declared:
    answers = [{"body": {"weight": 10}, "live": True}, {"body": {"weight": 0}, "live": False}]
    path = {"cel": "'/routes/' + object.metadata.name"}
    live = {"http": {"url": f"{url}/api", "path": path}, "cel": "body.weight == want"}
    return declared({**APISIX, "live": live, "tests": [{**APISIX["tests"][0], "answers": answers}]})


def probe(url: str) -> DeclaredProbe:
    found = provider(url).live
    assert found is not None
    return found


def asked(percent: int = 20, **changes: Any) -> LiveQuestion:
    return question(share(percent), **{"route": DECLARED_ROUTE, "gateways": (), "objects": (OBJECT,), **changes})


@pytest.fixture
async def probes() -> AsyncIterator[DeclaredProbes]:
    """They are closed afterwards."""
    made = DeclaredProbes(None, bounded=Here(), clock=SystemClock())
    yield made
    for _ in range(2):
        await made.aclose()


async def test_a_router_that_says_so_is_live(probes: DeclaredProbes) -> None:
    """It is asked for the object, and the answer is about the version that was asked about."""
    async with serving({PATH: ok({"weight": 20})}) as server:
        seen = await probes.live(probe(server.url()), asked(), deadline_s=DEADLINE_S)

        assert server.asked == [PATH]
    assert (seen.live, seen.by, seen.resource_version, seen.message) == (True, VerifiedBy.CONFIG, "7", "")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ok([]), "body.weight == want"),
        (raw(b"<html>"), "not valid JSON"),
        (raw(b"", status="500 Internal Server Error"), "answers 500"),
        (raw(b"{}", status="204 No Content"), "answers 204"),
        (redirect("http://127.0.0.1:1/"), "redirect (302), which is not followed"),
        (ok({"weight": 20, "more": "x" * ANSWER_MAX_BYTES}), "more than 256 KiB"),
        (raw(json.dumps({"weight": 20}).encode(), length=900), ""),
        (None, "no answer within 0.1 s"),
    ],
)
async def test_an_answer_that_is_none_is_not_known(probes: DeclaredProbes, answer: bytes | None, told: str) -> None:
    """Whatever went wrong, the wait goes on, and status says why. A silent router costs its deadline: others wait."""
    async with serving({PATH: answer}) as server:
        deadline_s = 0.1 if answer is None else DEADLINE_S
        seen = await probes.live(probe(server.url()), asked(), deadline_s=deadline_s)

    assert (seen.live, seen.evidence) == (False, False)
    assert seen.message.startswith("unknown: ")
    assert told in seen.message


async def test_a_router_that_is_not_there_is_not_known(probes: DeclaredProbes) -> None:
    """Nobody listens, or the name has no address."""
    urls = ("http://no-such-name.invalid:1", f"http://127.0.0.1:{await refused_port()}", "http://999.1.1.1")
    seen = [await probes.live(probe(url), asked(), deadline_s=DEADLINE_S) for url in (*urls, "http://\u2603.invalid")]

    assert [(each.live, each.evidence) for each in seen] == [(False, False)] * 4
    assert "no address" in seen[0].message


async def test_an_object_without_what_the_path_is_made_of_is_not_known(probes: DeclaredProbes) -> None:
    """Nor is a route that was not read."""
    async with serving({PATH: ok({"weight": 20})}) as server:
        nameless = await probes.live(probe(server.url()), asked(objects=({},)), deadline_s=DEADLINE_S)
        unread = await probes.live(probe(server.url()), asked(objects=()), deadline_s=DEADLINE_S)

        assert server.asked == []
    assert not (nameless.live or nameless.evidence or unread.live or unread.evidence)


async def test_every_address_of_the_host_must_say_so(probes: DeclaredProbes) -> None:
    """A headless Service has one for each pod of the router: the slowest counts."""

    async def both(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1", "127.0.0.2"]

    probes._askers[False] = Asker(tls=False, resolve=both)
    async with (
        serving({PATH: ok({"weight": 20})}) as first,
        serving({PATH: ok({"weight": 10})}, host="127.0.0.2", port=first.port),
    ):
        seen = await probes.live(probe(f"http://router:{first.port}"), asked(), deadline_s=DEADLINE_S)

    assert (seen.live, seen.evidence) == (False, True)
    assert seen.message == f"127.0.0.2:{first.port}: not true yet: body.weight == want"


async def test_who_declares_a_way_to_ask_is_asked_so_and_others_as_before(probes: DeclaredProbes) -> None:
    """From the moment that the provider is there; `--data-plane *` says nothing of a router that says it itself."""
    providers = LiveProviders({})
    planes = NamedDataPlanes(parse_data_planes(["*=envoy:http://127.0.0.1:1"]), clock=SystemClock())
    both = AllDataPlanes(planes, probes=probes, providers=providers)
    before = both.asked_by(DECLARED_ROUTE, ())
    async with serving({PATH: ok({"weight": 20})}) as server:
        providers.has(provider(server.url()))
        seen = await both.live(asked(), deadline_s=DEADLINE_S)
        other = await both.live(asked(route=ROUTE, gateways=("infra/web",)), deadline_s=DEADLINE_S)
    drain = DrainQuestion(namespace="shop", rollout="cart", revision="a", service="cart", probes=())
    drained = await both.drained(drain, deadline_s=DEADLINE_S)
    await planes.aclose()

    assert (before, both.asked_by(DECLARED_ROUTE, ())) == (None, VerifiedBy.CONFIG)
    assert both.asked_by(ROUTE, ("infra/web",)) is VerifiedBy.CONFIG
    assert both.asked_by(RouteName("nginx", "Ingress", "shop", "cart"), ()) is None
    assert (seen.live, other.live, other.message[:5]) == (True, False, "envoy")
    assert isinstance(drained, DrainSeen)

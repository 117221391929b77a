"""Promise: a split is live only when the proxy's own configuration says all of it; at 0 nothing of it leads to the canary.

Real ones are recorded from Envoy Gateway 1.9.1 and Contour 1.33.8 (both with Envoy 1.40.0) and Traefik 3.7.12 by
`tests/gateways/record.py`: the route as its user wrote it, and the data plane while clients saw its effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import (
    ALL_TO_STABLE,
    IDLE_HEADER,
    IDLE_VALUE,
    ExperimentShare,
    MatchKind,
    MatchRoute,
    MirrorRoute,
    RouteName,
    Split,
)
from rollouts.ports import LiveQuestion
from rollouts.probes import envoy, traefik
from rollouts.probes.verdict import Entry, Judgement, RequestCondition, judged
from tests.build import backend
from tests.probes.dumps import BETA, NOTHING, OBJECT, contour_route, endpoints, locality, question, routes, share
from tests.probes.dumps import traefik as traefik_dump
from tests.traffic.situation import by_header

RECORDED = Path(__file__).parent / "recorded"
HEADER = {"name": "x-canary", "string_match": {"exact": "always"}}
RULE = "httproute/shop/cart/rule/0"


def _envoy(asked: LiveQuestion, routes: Mapping[str, Any], endpoints: Mapping[str, Any] = NOTHING) -> Judgement:
    return envoy.live_share(json.dumps(routes).encode(), json.dumps(endpoints).encode(), asked)


def _traefik(asked: LiveQuestion, dump: Mapping[str, Any]) -> Judgement:
    return traefik.live_share(json.dumps(dump).encode(), asked)


def _replaced(dump: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(dump).replace(old, new))


def _contour(asked: LiveQuestion, *entries: Mapping[str, Any]) -> Judgement:
    return _envoy(asked, routes(*entries))


def _gateway(asked: LiveQuestion, *localities: Mapping[str, Any], **action: Any) -> Judgement:
    entry = {"name": f"{RULE}/match/0/*", "match": {"prefix": "/"}, "route": {"cluster": RULE, **action}}
    return _envoy(asked, routes(entry), endpoints(**{RULE: localities}))


@pytest.mark.parametrize(
    ("stable", "canary", "wanted"),
    [(100, 0, "0"), (95, 5, "5"), (3, 1, "25"), (0, 100, "100"), (999, 1, "1/10"), (2, 1, "100/3")],
)
def test_the_share_that_was_asked_for_is_live_and_no_other(stable: int, canary: int, wanted: str) -> None:
    """Exactly, over whatever total the user wrote: a tenth of a percent is not nearly nothing."""
    good, other = question(share(wanted)), question(share(50))
    pair = ("cart", stable), ("cart-canary", canary)
    both = [locality(f"{RULE}/backend/{at}", weight, f"10.0.0.{at}") for at, (_, weight) in enumerate(pair) if weight]

    for asked, live in ((good, True), (other, False)):
        assert _contour(asked, contour_route(*pair)).live is live
        assert _gateway(asked, *both).live is live
        assert _traefik(asked, traefik_dump(*pair)).live is live


THREE = ("cart", "cart-canary", "cart-try")
WITH_THREE = {**OBJECT, "spec": {"rules": [{"backendRefs": [backend(each) for each in THREE]}]}}


def _beside(canary: int, service: str, percent: int) -> Split:
    return replace(share(canary), experiments=(ExperimentShare(service, Fraction(percent, 100)),))


def _with_experiment(percent: int, *, canary: int = 20) -> LiveQuestion:
    return question(_beside(canary, "cart-try", percent), objects=(WITH_THREE,))


def _three(asked: LiveQuestion, *weights: int) -> list[bool]:
    """Whether it is live in a Contour, an Envoy Gateway and a Traefik with those weights."""
    named = list(zip(THREE, weights, strict=True))
    localities = [
        locality(f"{RULE}/backend/{at}", weight, f"10.0.0.{at}") for at, weight in enumerate(weights) if weight
    ]
    judgements = (
        _contour(asked, contour_route(*named)),
        _gateway(asked, *localities),
        _traefik(asked, traefik_dump(*named)),
    )
    return [each.live for each in judgements]


@pytest.mark.parametrize("canary", [0, 20, 95])
def test_the_share_of_an_experiment_is_a_part_of_the_split(canary: int) -> None:
    """It is live when every request that it is to get goes there, and has ended when none does."""
    rest = 95 - canary

    assert _three(_with_experiment(5, canary=canary), rest, canary, 5) == [True] * 3
    assert _three(_with_experiment(5, canary=canary), rest + 4, canary, 1) == [False] * 3
    assert _three(_with_experiment(5, canary=canary), rest + 5, canary, 0) == [False] * 3
    assert _three(_with_experiment(0, canary=canary), rest, canary, 5) == [False] * 3
    assert _three(_with_experiment(0, canary=canary), rest + 5, canary, 0) == [True] * 3


def test_a_rule_for_an_experiment_alone_is_no_part_of_the_split() -> None:
    """Nobody asked for it: it is told with its shares."""
    main, alone = contour_route(("cart", 75), ("cart-canary", 20), ("cart-try", 5)), contour_route(("cart-try", 1))

    told = _contour(_with_experiment(5), main, alone).message
    assert told.endswith("gives the canary 0 % and Service cart-try 100 %, not 20 % and 5 %")


def test_a_service_that_is_to_get_requests_must_be_known_first() -> None:
    """Contour names Services of weight 0 as well. An Envoy Gateway leaves them out, and has one cluster for the whole rule."""
    told = _contour(_with_experiment(0), contour_route(("cart", 80), ("cart-canary", 20)))

    assert not told.live
    assert told.message == "ingress_http: no rule has the Services of the Experiment yet"


def test_an_experiment_that_the_route_has_no_more_is_not_overlooked() -> None:
    """An Envoy Gateway that still sends requests to a third backend, of which the object knows nothing."""
    localities = [locality(f"{RULE}/backend/{at}", weight, f"10.0.0.{at}") for at, weight in ((0, 95), (2, 5))]

    assert not _gateway(question(), *localities).live


def test_what_a_proxy_does_instead_is_told() -> None:
    """With its own name for the route, so that people find it in the dump. An empty proxy answers just as readily."""
    told = _contour(question(share(50)), contour_route(("cart", 90), ("cart-canary", 10))).message

    assert told.startswith("route 0 of ingress_http/shop.example gives the canary 10 %, not 50 %")
    assert _contour(question()).message == "it does not have the route yet"
    assert not _traefik(question(), {}).live


def test_a_managed_header_route_must_be_there_and_be_the_only_one() -> None:
    """Asked for and missing, there and not asked for, there for another header: all of them are not what the route says."""
    with_beta = question(Split(Fraction(0), matches=(BETA,)))
    beta = contour_route(("cart-canary", 1), headers=[HEADER])
    other = contour_route(("cart-canary", 1), headers=[{**HEADER, "name": "x-other"}])
    main = contour_route(("cart", 100))

    assert _contour(with_beta, beta, main).live
    assert "header route beta is not there" in _contour(with_beta, main).message
    assert not _contour(with_beta, beta, other, main).live
    assert not _contour(with_beta, other, main).live


def test_a_rule_that_is_to_be_made_first_must_be_there_with_its_endpoints() -> None:
    """Only then is it given its requests; and while it is idle, that it leads to the canary alone is nobody's business."""
    header = {"name": IDLE_HEADER, "string_match": {"exact": IDLE_VALUE}}
    idle = contour_route(("cart-canary", 1), headers=[header])
    main = contour_route(("cart", 100), ("cart-canary", 0))
    there = question(replace(ALL_TO_STABLE, idle=1))

    assert _contour(there, idle, main).live
    assert _contour(question(ALL_TO_STABLE), idle, main).live
    assert "the idle rule is not there yet" in _contour(there, main).message

    place = f"{RULE.removesuffix('0')}1"
    entry = {"name": f"{place}/match/0/*", "match": {"prefix": "/", "headers": [header]}, "route": {"cluster": place}}
    whole = {"name": f"{RULE}/match/0/*", "match": {"prefix": "/"}, "route": {"cluster": RULE}}
    first = locality(f"{RULE}/backend/0", 1, "10.0.0.1")
    cold = _envoy(there, routes(entry, whole), endpoints(**{RULE: [first]}))
    assert not cold.live
    assert "the Service of its endpoints cannot be known" in cold.message


def test_a_header_route_by_a_pattern_is_live_with_a_note() -> None:
    """Proxies write patterns in their own way; that it was not compared is said, not hidden."""
    pattern = by_header(value="a.*", kind=MatchKind.REGEX)
    asked = question(Split(Fraction(0), matches=(MatchRoute("beta", pattern),)))
    regex = {"name": "x-canary", "string_match": {"safe_regex": {"regex": "a.*"}}}

    judged = _contour(asked, contour_route(("cart-canary", 1), headers=[regex]), contour_route(("cart", 1)))

    assert judged == Judgement(True, "the matches of paths, cookies and patterns in beta were not compared")


def test_copies_are_judged_by_whom_they_go_to_and_how_many() -> None:
    """A mirror that outlived its step doubles every write of the users."""
    mirrored = question(Split(Fraction(0), mirrors=(MirrorRoute("shadow", percent=50),)))

    def at(percent: int, service: str = "cart-canary") -> Mapping[str, Any]:
        fraction = {"default_value": {"numerator": percent * 10_000, "denominator": "MILLION"}}
        policy = {"cluster": f"shop/{service}/80/da39a3ee5e", "runtime_fraction": fraction}
        return contour_route(("cart", 100), request_mirror_policies=[policy])

    assert _contour(mirrored, at(50)).live
    assert "copies 100 %" in _contour(mirrored, at(100)).message
    assert "mirror route shadow is not there" in _contour(mirrored, contour_route(("cart", 100))).message
    assert not _contour(question(ALL_TO_STABLE), at(50)).live
    assert _contour(question(ALL_TO_STABLE), at(50, "audit")).live


def test_a_rule_that_the_user_keeps_for_stable_is_nobodys_business() -> None:
    """`/static` goes to stable alone, whatever the canary's share is."""
    main, static = contour_route(("cart", 90), ("cart-canary", 10)), contour_route(("cart", 1))

    assert _contour(question(share(10)), main, static).live
    assert not _contour(question(share(10)), static).live


def test_each_listener_must_have_it() -> None:
    """Envoy replaces the routes of one listener at a time."""
    new, old = contour_route(("cart", 90), ("cart-canary", 10)), contour_route(("cart", 100), ("cart-canary", 0))
    http, https = routes(new), routes(old, config="https/shop.example")

    judged = _envoy(question(share(10)), {"configs": [*http["configs"], *https["configs"]]})

    assert not judged.live
    assert judged.message.startswith("https/shop.example: no rule gives the canary 10 %")


def test_an_entry_that_does_not_tell_its_route_counts_as_ours_when_it_leads_to_the_pair() -> None:
    """Weight 0 live means that nothing of that proxy leads to the canary, as far as anybody can tell."""
    nameless = {key: value for key, value in contour_route(("cart-canary", 1)).items() if key != "metadata"}
    foreign = {key: value for key, value in contour_route(("audit", 1)).items() if key != "metadata"}

    assert not _contour(question(ALL_TO_STABLE), contour_route(("cart", 1)), nameless).live
    assert _contour(question(ALL_TO_STABLE), contour_route(("cart", 1)), foreign).live


def test_what_we_own_beside_the_route_is_part_of_it() -> None:
    """A header rule as a route of its own."""
    beside = contour_route(("cart-canary", 1), headers=[HEADER])
    beside["metadata"]["filter_metadata"]["envoy.access_loggers.file"]["io.projectcontour.name"] = "cart-managed"
    split = Split(Fraction(0), matches=(BETA,))
    owned = {"kind": "HTTPRoute", "metadata": {"name": "cart-managed"}}

    assert _contour(question(split, objects=(OBJECT, owned)), beside, contour_route(("cart", 1))).live
    assert not _contour(question(split), beside, contour_route(("cart", 1))).live


def test_a_route_may_be_in_another_namespace_than_its_services() -> None:
    """An edge team keeps the routes; a Service of the same name in their namespace is not the Rollout's."""
    pair = ("cart", 90), ("cart-canary", 10)
    main = _replaced(contour_route(*pair), 'namespace": "shop', 'namespace": "edge')
    backends = [{"name": each, "namespace": "shop"} for each in ("cart", "cart-canary")]
    edge = RouteName("gatewayAPI", "HTTPRoute", "edge", "cart")
    route = {"kind": "HTTPRoute", "metadata": {"name": "cart"}, "spec": {"rules": [{"backendRefs": backends}]}}
    asked = question(share(10), route=edge, namespace="shop", objects=(route,))
    place = "httproute/edge/cart/rule/0"
    entry = {"name": f"{place}/match/0/*", "route": {"cluster": place}}
    localities = [locality(f"{place}/backend/0", 90, "10.0.0.1"), locality(f"{place}/backend/1", 10, "10.0.0.2")]

    assert _contour(asked, main).live
    assert _envoy(asked, routes(entry), endpoints(**{place: localities})).live
    assert _traefik(asked, _replaced(traefik_dump(*pair), "httproute-shop-", "httproute-edge-")).live
    assert not _contour(replace(asked, namespace=""), main).live


def test_an_envoy_gateway_without_the_route_is_not_understood_and_so_not_live() -> None:
    """It numbers backends; what cannot be told is never taken for what was wanted."""
    judged = _gateway(question(ALL_TO_STABLE, objects=()), locality(f"{RULE}/backend/0", 100, "10.0.0.1"))

    assert not judged.live
    assert "the Service of its endpoints cannot be known" in judged.message


def test_a_cluster_for_each_backend_is_told_by_its_name() -> None:
    """Envoy Gateway makes them where backends have filters of their own."""
    weighted = {"clusters": [{"name": f"{RULE}/backend/0", "weight": 80}, {"name": f"{RULE}/backend/1", "weight": 20}]}

    assert _gateway(question(share(20)), cluster="", weighted_clusters=weighted).live
    assert not _gateway(question(share(10)), cluster="", weighted_clusters=weighted).live


def test_the_services_of_a_neighbour_with_a_like_name_are_not_the_pair() -> None:
    """`cart` begins `cart-canary` and `cart-api` too."""
    services: dict[str, Any] = {
        f"{name}-80@kubernetescrd": {"loadBalancer": {}} for name in ("shop-cart-api", "shop-cart")
    }
    asked = question(route=RouteName("traefik", "IngressRoute", "shop", "in"))

    def leads_to(first: str) -> Mapping[str, Any]:
        routers = {
            f"shop-in-{at}@kubernetescrd": {"rule": "Host(`a`)", "service": f"{name}-80", "status": "enabled"}
            for at, name in enumerate((first, "shop-cart"))
        }
        return {"routers": routers, "services": services}

    assert _traefik(asked, leads_to("shop-cart-api")) == Judgement(True)
    assert not _traefik(asked, leads_to("shop-cart-canary")).live


def test_a_traefik_service_is_followed_to_its_end() -> None:
    """Weights within weights multiply; only routers that pass through it are its."""
    name = "shop-cart-split"
    routers = {"shop-in-1@kubernetescrd": {"rule": "Host(`a`)", "service": name, "status": "enabled"}}
    outer = [{"name": "shop-inner", "weight": 1}, {"name": "shop-cart-80", "weight": 1}]
    inner = [{"name": "shop-cart-80", "weight": 3}, {"name": "shop-cart-canary-80", "weight": 1}]
    services = {
        f"{name}@kubernetescrd": {"weighted": {"services": outer}},
        "shop-inner@kubernetescrd": {"weighted": {"services": inner}},
    }
    route = RouteName("traefik", "TraefikService", "shop", "cart-split")
    dump = {"routers": routers, "services": services}

    assert _traefik(question(share("12.5"), route=route), dump).live
    assert not _traefik(question(share(25), route=route), dump).live
    other = _traefik(question(route=replace(route, name="other")), dump)
    assert other.message == "it does not have the route yet"


def test_a_traefik_that_lost_a_service_says_so() -> None:
    """Its share would be answered with errors."""
    dump = traefik_dump(("cart", 100))
    router = dump["routers"]["httproute-shop-cart-gw-infra-web-ep-web-0-1c0cf64bde51d9d0df06@kubernetesgateway"]
    router["service"] = "nowhere"

    assert "service nowhere@kubernetesgateway is unknown" in _traefik(question(), dump).message


@pytest.mark.parametrize("header", ["Header(`X-Canary`,`always`)", 'Header("x-canary","always")'])
def test_a_header_of_a_traefik_rule_is_read(header: str) -> None:
    """Rules are text there: between backticks as people write them, between quotes as its Gateway provider does (3.7.12)."""
    beta = _replaced(traefik_dump(("cart-canary", 1), rule=f"PathPrefix(`/`) && {header}"), "-web-0-", "-web-1-")
    dump = traefik_dump(("cart", 1), **beta)

    assert _traefik(question(Split(Fraction(0), matches=(BETA,))), dump).live
    assert not _traefik(question(ALL_TO_STABLE), dump).live


def test_a_real_traefiks_idle_rule_is_understood() -> None:
    """Recorded from Traefik 3.7.12 at 1 % with a rule that no request matches yet."""
    said = (RECORDED / "traefik" / "httproute-idle.json").read_bytes()
    web = RouteName("gatewayAPI", "HTTPRoute", "shop", "web")
    asked = question(replace(share(1), idle=1), route=web, stable_service="web-stable", canary_service="web-canary")

    assert traefik.live_share(said, asked).live
    for other in (replace(share(5), idle=1), replace(share(1), matches=(BETA,))):
        assert not traefik.live_share(said, replace(asked, split=other)).live


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"7", b'{"configs": [{}]}', b'{"configs": [{"route_config": 5}]}'])
def test_what_is_no_dump_is_an_error_of_one_kind(junk: bytes) -> None:
    """The asker turns it into "not live"; nothing else may come out of a reader."""
    with pytest.raises(msgspec.DecodeError):
        envoy.live_share(junk, b'{"configs": []}', question())


ENTRIES = st.lists(
    st.builds(
        Entry,
        where=st.just("x"),
        group=st.sampled_from(["http", "https"]),
        stable=st.integers(0, 3).map(Fraction),
        canary=st.integers(0, 3).map(Fraction),
        conditions=st.sampled_from([frozenset(), frozenset({RequestCondition("x-canary", "always")})]),
        mirror_percents=st.sampled_from([(), (Fraction(50),)]),
        unknown=st.sampled_from(["", "", "", "something"]),
    ),
    max_size=4,
)
SPLITS = st.builds(
    Split,
    st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1, 4), Fraction(1)]),
    matches=st.sampled_from([(), (BETA,)]),
    mirrors=st.sampled_from([(), (MirrorRoute("shadow", percent=50),)]),
)


@settings(max_examples=400, deadline=None)
@given(entries=ENTRIES, split=SPLITS)
def test_whatever_is_called_live_keeps_the_promise(entries: list[Entry], split: Split) -> None:
    """No more of the users' requests reach the canary than the route says, by any entry; and what it says is there."""
    judgement = judged(entries, split)

    assert bool(judgement.message) or judgement.live
    if not judgement.live:
        return
    assert entries
    for entry in entries:
        beta = bool(entry.conditions) and split.matches != () and entry.stable == 0
        assert not entry.unknown
        assert entry.canary == 0 or entry.canary == split.share * (entry.canary + entry.stable) or beta
        assert bool(split.mirrors) or not entry.mirror_percents
    for group in {each.group for each in entries}:
        here = [each for each in entries if each.group == group]
        assert any(
            each.canary + each.stable and each.canary == split.share * (each.canary + each.stable) for each in here
        )
        assert not split.mirrors or any(each.mirror_percents for each in here)


SITUATIONS: Mapping[str, Split] = {
    "weight-0": ALL_TO_STABLE,
    "weight-5": share(5),
    "weight-100": share(100),
    "header-route": Split(Fraction(5, 100), matches=(BETA,)),
    "mirror": Split(Fraction(10, 100), mirrors=(MirrorRoute("shadow", percent=50),)),
    "experiment-5": _beside(5, "web-experiment", 5),
}
OF_ALL = "mirror of all"
WANTED: Mapping[str, Split] = {
    **SITUATIONS,
    OF_ALL: Split(Fraction(10, 100), mirrors=(MirrorRoute("shadow", percent=100),)),
}
INSTEAD = {"contour/httproute-mirror": OF_ALL}  # it accepts half in an HTTPRoute and copies all
ROUTERS = {"HTTPRoute": "gatewayAPI", "HTTPProxy": "contour", "TraefikService": "traefik"}
ALL = sorted(each for situation in SITUATIONS for each in RECORDED.glob(f"*/*-{situation}.json"))


def _judged(said: Mapping[str, Any], asked: LiveQuestion) -> Judgement:
    if "raw" in said:
        return _traefik(asked, said["raw"])
    # All endpoints were recorded; an Envoy is asked for some.
    names = unquote(envoy.endpoints_path(asked).partition("name_regex=")[2])
    told = [
        each for each in said["endpoints"]["configs"] if re.fullmatch(names, each["endpoint_config"]["cluster_name"])
    ]
    return _envoy(asked, said["routes"], {"configs": told})


def _question(said: Mapping[str, Any], split: Split) -> LiveQuestion:
    user = said["object"]
    name = RouteName(ROUTERS[user["kind"]], user["kind"], user["metadata"]["namespace"], user["metadata"]["name"])
    services = {"stable_service": "web-stable", "canary_service": "web-canary"}
    return question(split, route=name, gateways=("gateways/any",), objects=(user,), **services)


def _done(file: Path) -> str:
    """What the proxy did: nearly always what its route said."""
    wanted = next(each for each in SITUATIONS if file.stem.endswith(f"-{each}"))
    return INSTEAD.get(f"{file.parent.name}/{file.stem}", wanted)


@pytest.mark.parametrize("file", ALL, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_real_proxy_is_believed_for_what_it_does_and_for_nothing_else(file: Path) -> None:
    """Each product writes weights, headers and copies in its own way, and kinds of one product differ, too."""
    said = json.loads(file.read_text())
    own = _done(file)

    judged = {name: _judged(said, _question(said, split)) for name, split in WANTED.items()}

    assert {name for name, each in judged.items() if each.live} == {own}, judged
    assert judged[own].message == ""


@pytest.mark.parametrize("percent", [0, 5])
def test_a_real_proxy_shows_when_an_experiment_may_begin_and_when_it_has_ended(percent: int) -> None:
    """At 0 its backend is in the route and no request goes there."""
    said = json.loads((RECORDED / f"envoy-gateway/httproute-experiment-{percent}.json").read_text())

    judged = {each: _judged(said, _question(said, _beside(5, "web-experiment", each))).live for each in (0, 1, 5)}

    assert judged == {each: each == percent for each in (0, 1, 5)}


@pytest.mark.parametrize("file", ALL, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_same_words_about_another_route_are_not_believed(file: Path) -> None:
    """A neighbour's route with the same two Services is not the one that is asked about."""
    said = json.loads(file.read_text())
    asked = _question(said, WANTED[_done(file)])
    other = replace(asked, route=replace(asked.route, name="other"), objects=())

    assert not _judged(said, other).live


def test_every_data_plane_that_is_asked_has_been_recorded() -> None:
    """A missing folder would take its cases away without a word."""
    told = {f"{file.parent.name} {file.stem}" for file in ALL}
    weights = ["weight-0", "weight-5", "weight-100"]
    of_contour = [*weights, "header-route", "mirror"]
    expected = {
        "envoy-gateway httproute": SITUATIONS,
        "contour httproute": of_contour,
        "contour httpproxy": of_contour,
        "traefik httproute": [*weights, "header-route"],
        "traefik traefikservice": weights,
    }

    assert told == {f"{name}-{situation}" for name, situations in expected.items() for situation in situations}

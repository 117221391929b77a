"""Promise: counters of requests make a split live only with requests enough, of every proxy; what is missing is no evidence."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.clock import SystemClock
from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import ALL_TO_STABLE, ExperimentShare, LiveSeen, RouteName, Split, VerifiedBy
from rollouts.metrics.prometheus import Series, series_of
from rollouts.ports import LiveQuestion
from rollouts.probes.counter_series import Counters, SentTo, selectors, side_of
from rollouts.probes.counters import judged_by_requests, requests_needed, window_s
from rollouts.probes.named_planes import CountedPlane
from rollouts.probes.planes import NamedDataPlanes
from rollouts.probes.verdict import Judgement
from tests.probes.dumps import question, share
from tests.probes.servers import ok, raw, redirect, refused_port, serving

WROTE_S = 1_790_000_000.0
EVERY_S = 15.0
MESH = RouteName("istio", "VirtualService", "shop", "cart")
DEADLINE_S = 5.0


def _asked(split: Split = ALL_TO_STABLE, *, before: int | str | None = 50, **changes: Any) -> LiveQuestion:
    """About VirtualService cart, written at WROTE_S."""
    given: dict[str, Any] = {"route": MESH, "since_s": WROTE_S}
    return question(split, **{**given, "before": None if before is None else Fraction(before) / 100, **changes})


def _counter(service: str, values: Sequence[float], *, proxy: str = "a", from_s: float = 0.0, **labels: str) -> Series:
    """A counter that a proxy had at its scrapes, 15 s apart, the first one `from_s` after the write."""
    names = {"destination_service_name": service, "destination_service_namespace": "shop", "job": "mesh"}
    samples = tuple((WROTE_S + from_s + index * EVERY_S, value) for index, value in enumerate(values))
    return Series({**names, "instance": proxy, **labels}, samples)


def _pair(*counts: tuple[float, float], proxy: str = "a", from_s: float = 0.0) -> list[Series]:
    """The counters of a proxy that grew by `(stable, canary)` from scrape to scrape."""
    stable, canary = [1_000.0], [200.0]
    for more_stable, more_canary in counts:
        stable.append(stable[-1] + more_stable)
        canary.append(canary[-1] + more_canary)
    both = ("cart", stable), ("cart-canary", canary)
    return [_counter(service, values, proxy=proxy, from_s=from_s) for service, values in both]


def _judged(series: Sequence[Series], asked: LiveQuestion, *, later_s: float = 0.0) -> Judgement:
    """At the moment of the last scrape, or so long after it."""
    last_s = max((at_s for each in series for at_s, _ in each.samples), default=WROTE_S)
    return judged_by_requests(series, asked, Counters.ISTIO, now_s=last_s + later_s)


@pytest.mark.parametrize(
    ("stable", "canary", "wanted", "before"),
    [(950, 50, 5, 0), (500, 500, 50, 5), (0, 1000, 100, 50), (1000, 0, 0, 50), (9990, 10, "1/10", 10)],
)
def test_the_share_that_was_counted_is_live_and_no_other(stable: int, canary: int, wanted: Any, before: int) -> None:
    """By what was done with requests since the routes said it: the old share's, counted just the same, is not the new one."""
    now = _asked(share(wanted), before=before)
    other = _asked(share(before), before=wanted)
    series = _pair((0, 0), (stable, canary))

    assert _judged(series, now) == Judgement(True)
    assert _judged(series, other).live is False
    assert _judged(series, other).evidence


@pytest.mark.parametrize(
    ("wanted", "before"), [(1, 0), (5, 1), (25, 5), (50, 25), (100, 50), (0, 50), (0, 1), (50, None)]
)
def test_chance_hardly_ever_makes_the_old_share_the_new_one(wanted: int, before: int | None) -> None:
    """A proxy that picks by lot: with as many requests as are needed, 1 of 1,000 is mistaken, either way."""
    asked, lot = _asked(share(wanted), before=before), random.Random(7)  # noqa: S311 - a lot, not a secret
    needed, old = requests_needed(asked.split.share, asked.before), 1 if before is None else before

    def live(percent: float) -> int:
        drawn = [sum(lot.random() * 100 < percent for _ in range(needed)) for _ in range(100)]
        return sum(_judged(_pair((0, 0), (needed - each, each)), asked).live for each in drawn)

    assert live(wanted) >= 98
    assert live(old) <= 2


NOTHING = "no requests were counted since the last change"


@pytest.mark.parametrize(
    ("series", "message"),
    [
        pytest.param([], NOTHING, id="no series"),
        pytest.param([_counter("cart", [])], NOTHING, id="no samples"),
        pytest.param(_pair((0, 0), (0, 0), (0, 0)), NOTHING, id="no requests"),
        pytest.param(_pair((0, 0), (4, 0)), "4 of the 135 requests that are needed were counted", id="few requests"),
    ],
)
def test_few_requests_are_no_evidence(series: list[Series], message: str) -> None:
    """At night nothing moves, and four of four to stable may be chance. How many are needed is told."""
    assert _judged(series, _asked(before=5)) == Judgement(False, message, evidence=False)
    assert _judged(_pair((0, 0), (50, 0), (50, 0), (50, 0)), _asked(before=5)).live  # they add up


def test_requests_of_before_do_not_count() -> None:
    """Nor those of the first seconds, in which clocks differ and proxies may still be told."""
    old = _pair((500, 500), (500, 500), (500, 500), from_s=-60.0)

    assert _judged(old, _asked(share(50), before=5)).evidence is False
    assert _judged(_pair((0, 0), (5_000, 5_000), (1_000, 0), from_s=-20.0), _asked()).live


def test_the_latest_requests_count() -> None:
    """A proxy that obeyed 20 s late had some of both kinds; what it did since is what it does now."""
    late = _pair((0, 0), (500, 500), (1_000, 0), (1_000, 0))

    assert not _judged(late[:2] + _pair((0, 0), (500, 500), proxy="b"), _asked(share(5), before=50)).live
    assert _judged(late, _asked()).live
    assert not _judged(_pair((0, 0), (1_000, 0), (999, 1)), _asked()).live


def test_one_request_to_a_service_that_is_to_have_none_is_enough() -> None:
    """Pods are about to go: with weight 0 a single request there, however few there are in all, is not chance."""
    stray = _judged(_pair((0, 0), (2, 1)), _asked())

    assert (stray.live, stray.evidence) == (False, True)
    assert "gave the canary 33.3 % of 3 requests, not 0 %" in stray.message
    assert _judged(_pair((0, 0), (2, 1)), _asked(share(100))).evidence


def test_a_proxy_that_lags_is_not_hidden_by_others() -> None:
    """Nine of ten requests through the proxy that obeys: together they would pass."""
    both = [*_pair((0, 0), (45_000, 5_000), proxy="new"), *_pair((0, 0), (1_000, 0), proxy="old")]

    judged = _judged(both, _asked(share(10), before=0))

    # with the proxy's address, so that people find it
    assert judged == Judgement(False, "old gave the canary 0 % of 1000 requests, not 10 %")


def test_proxies_with_few_requests_are_judged_together() -> None:
    """A mesh has a hundred callers that say little each."""
    asked = _asked(share(50), before=5)
    many = [series for number in range(40) for series in _pair((0, 0), (3, 3), proxy=str(number))]
    wrong = [series for number in range(40) for series in _pair((0, 0), (6, 0), proxy=str(number))]

    assert _judged(many, asked).live
    assert "the proxies with few requests gave the canary 0 % of " in _judged(wrong, asked).message


def test_few_requests_beside_many_do_not_hold_the_rest() -> None:
    """One caller that made three requests must not keep the verdict on ten thousand; fifty of a thousand do."""
    asked = _asked(share(50), before=5)

    assert _judged([*_pair((0, 0), (5_000, 5_000)), *_pair((0, 0), (3, 0), proxy="b")], asked).live
    assert not _judged([*_pair((0, 0), (500, 500)), *_pair((0, 0), (20, 5), proxy="b")], asked).live


def test_a_counter_that_is_new_began_at_nothing() -> None:
    """`increase()` leaves out what a series appears with: with weight 0 it would not see the canary's first request."""
    appears = [_counter("cart", [0, 100, 1_200]), _counter("cart-canary", [3], from_s=30.0)]

    judged = _judged(appears, _asked())

    assert not judged.live
    assert "gave the canary 0.272 % of 1103 requests" in judged.message


def test_a_counter_that_fell_began_anew() -> None:
    """A proxy that restarts counts from nothing; what it has then is new."""
    restarted = [_counter("cart", [9_000, 9_100, 1_000]), _counter("cart-canary", [9_000, 9_010, 1_000])]

    assert _judged(restarted, _asked(share(50), before=5)).live


def test_a_proxy_that_is_not_scraped_any_more_may_do_anything() -> None:
    """It may serve on, with the old weights; after three intervals its numbers are of the past."""
    series = _pair((0, 0), (1_000, 0), (1_000, 0))

    assert _judged(series, _asked(), later_s=40.0).live
    stale = _judged(series, _asked(), later_s=60.0)
    assert stale == Judgement(False, "Prometheus has not scraped a for 3 intervals", evidence=False)


def test_every_proxy_must_have_been_scraped_twice_since() -> None:
    """One that is scraped less often than the others would else be left out, with all of its requests."""
    quick = _pair((0, 0), (1_000, 0))
    slow = _counter("cart", [5_000, 6_000], proxy="slow", from_s=-10.0)  # at -10 s and at 5 s

    judged = _judged([*quick, slow], _asked())

    assert judged == Judgement(False, "Prometheus has not scraped slow twice since the last change", evidence=False)


def test_a_proxy_that_was_gone_before_is_not_waited_for() -> None:
    """Samples of the two minutes before the write are looked at, and pods come and go."""
    gone = _pair((500, 500), proxy="gone", from_s=-110.0)

    assert _judged([*gone, *_pair((0, 0), (1_000, 0))], _asked(), later_s=5.0).live


@pytest.mark.parametrize(("requests", "wanted", "live"), [(10, 50, True), (400, 50, False), (10, 0, False)])
def test_callers_that_come_and_go_hold_nothing_unless_they_matter(requests: int, wanted: int, live: bool) -> None:
    """In a mesh there is always one that ended, and one that has just begun. But with weight 0 each single request matters."""
    much = (5_000, 5_000) if wanted else (10_000, 0)
    gateway = _pair(much, much, much, from_s=-20.0)
    ended = [_counter("cart", [0, requests / 2, requests], proxy="ended", from_s=-45.0)]
    begun = [_counter("cart-canary", [requests], proxy="begun", from_s=24.0)]
    asked = _asked(share(wanted), before=5)

    judged = [_judged([*gateway, *others], asked) for others in (ended, begun, [*ended, *begun])]

    assert [each.live for each in judged] == [live] * 3
    assert live or {each.message for each in judged} == {
        "Prometheus has not scraped ended twice since the last change",
        "Prometheus has not scraped begun twice since the last change",
    }


def test_samples_are_asked_for_as_far_back_as_they_are_of_use() -> None:
    """Two minutes before the write, to know the proxies; ten minutes at most, as a step may wait for a day."""
    assert window_s(_asked(), now_s=WROTE_S) == 120
    assert window_s(_asked(), now_s=WROTE_S + 30.2) == 151
    assert window_s(_asked(), now_s=WROTE_S + 86_400) == 600
    assert window_s(_asked(), now_s=WROTE_S - 5) == 120  # a clock that was set back


SCRAPED = st.lists(
    st.builds(
        Series,
        labels=st.builds(
            lambda service, proxy: {"destination_service_name": service, "instance": proxy},
            st.sampled_from(["cart", "cart-canary", "other"]),
            st.sampled_from(["a", "b"]),
        ),
        samples=st.lists(
            st.tuples(
                st.sampled_from([WROTE_S + 10 * index for index in range(-6, 7)]),
                st.sampled_from([0.0, 1.0, 700.0, 10_000.0]),
            ),
            max_size=6,
            unique_by=lambda each: each[0],
        ).map(lambda each: tuple(sorted(each))),
    ),
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(series=SCRAPED, wanted=st.sampled_from([0, 10, 50, 100]), before=st.sampled_from([None, 0, 50, 100]))
def test_whatever_was_scraped_weight_zero_means_zero(series: list[Series], wanted: int, before: int | None) -> None:
    """Holes, restarts, series that come and go: an answer each time, and never "live" over a request that went astray."""
    judged = judged_by_requests(series, _asked(share(wanted), before=before), Counters.ISTIO, now_s=WROTE_S + 60)

    assert judged.live is (judged.message == "")
    if not judged.live or wanted not in (0, 100):
        return
    none = "cart-canary" if wanted == 0 else "cart"
    for proxy in ("a", "b"):
        ours = [each for each in series if each.labels["instance"] == proxy]
        times = sorted(
            {at_s for each in ours for at_s, _ in each.samples if each.labels["destination_service_name"] != "other"}
        )
        for each in ours:
            values = dict(each.samples)
            if each.labels["destination_service_name"] == none and len(times) > 1 and times[-2] >= WROTE_S + 5:
                last = max((at_s for at_s in values if at_s <= times[-2]), default=None)
                assert values.get(times[-1], 0.0) in (0.0, values.get(last, 0.0) if last is not None else 0.0)


LABELS: Mapping[Counters, Sequence[tuple[Mapping[str, str], SentTo | None]]] = {
    Counters.ISTIO: [({"destination_service_name": "cart"}, SentTo.STABLE),
        ({"destination_service_name": "cart-canary"}, SentTo.CANARY),
        ({"destination_service_name": "PassthroughCluster"}, None), ({}, None)],
    Counters.CONTOUR: [({"envoy_cluster_name": "shop_cart_80"}, SentTo.STABLE),
        ({"envoy_cluster_name": "shop_cart-canary_80"}, SentTo.CANARY),
        ({"envoy_cluster_name": "shop_cart-canary-two_80"}, None), ({"envoy_cluster_name": "shopping_cart_80"}, None),
        ({"envoy_cluster_name": "xds"}, None)],
    Counters.NGINX: [
        ({"namespace": "shop", "ingress": "cart", "service": "cart", "canary": ""}, SentTo.STABLE),
        ({"exported_namespace": "shop", "namespace": "nginx", "ingress": "cart", "exported_service": "cart"}, SentTo.STABLE),
        ({"namespace": "shop", "ingress": "cart", "service": "cart", "canary": "shop-cart-canary-http-web"}, SentTo.CANARY),
        ({"namespace": "shop", "ingress": "cart", "service": "static", "canary": "-"}, None),
        ({"namespace": "other", "ingress": "cart", "service": "cart", "canary": ""}, None),
        ({"exported_namespace": "other", "namespace": "shop", "ingress": "cart", "exported_service": "cart"}, None),
    ],
    Counters.TRAEFIK: [
        ({"service": "shop-cart-80@kubernetescrd"}, SentTo.STABLE),
        ({"service": "traefik", "exported_service": "shop-cart-canary-http@kubernetescrd"}, SentTo.CANARY),
        ({"service": "httproute-shop-cart-gw-infra-web-ep-web-0-1c0c-svc-shop-cart-canary-1@kubernetesgateway"}, SentTo.CANARY),
        ({"service": "httproute-shop-other-gw-infra-web-ep-web-0-1c0c-svc-shop-cart-0@kubernetesgateway"}, None),
        ({"service": "shop-cart-canary-grpcweb@kubernetescrd"}, SentTo.UNKNOWN),
        ({"service": "shop-audit-80@kubernetescrd"}, None),
    ],
}  # fmt: skip


@pytest.mark.parametrize("counters", Counters)
def test_series_are_told_by_their_labels(counters: Counters) -> None:
    """Also where Prometheus renamed a label that it found on the target already; Services that are called alike are others."""
    routes = {Counters.NGINX: RouteName("nginx", "Ingress", "shop", "cart"), Counters.TRAEFIK: question().route}
    route = routes.get(counters, MESH)

    for labels, side in LABELS[counters]:
        assert side_of(counters, labels, _asked(route=route)) is side, labels


def test_requests_of_an_experiment_count_for_neither_of_the_pair() -> None:
    """In Traefik its service has a name like theirs."""
    asked = _asked(Split(Fraction(1, 5), experiments=(ExperimentShare("cart-try", Fraction(1, 20)),)))

    sides = [
        side_of(Counters.TRAEFIK, {"service": f"shop-{name}-80@kubernetescrd"}, asked)
        for name in ("cart", "cart-canary", "cart-try")
    ]
    assert sides == [SentTo.STABLE, SentTo.CANARY, None]


def test_a_series_that_may_be_the_canarys_is_not_left_out() -> None:
    """With weight 0 a counter that nobody looks at does not move."""
    labels = {"service": "shop-cart-canary-grpcweb@kubernetescrd"}
    series = [Series(labels, ((WROTE_S + 20, 1.0), (WROTE_S + 35, 9.0)))]

    judged = judged_by_requests(series, _asked(route=question().route), Counters.TRAEFIK, now_s=WROTE_S + 36)

    assert (judged.live, judged.evidence) == (False, False)
    assert "shop-cart-canary-grpcweb" in judged.message


IN_SHOP = 'reporter=~"source|waypoint",destination_service_namespace="shop",'


@pytest.mark.parametrize(
    ("counters", "selector"),
    [
        (Counters.ISTIO, f'istio_requests_total{{{IN_SHOP}destination_service_name=~"cart|cart[.]canary"}}'),
        (Counters.CONTOUR, 'envoy_cluster_upstream_rq_total{envoy_cluster_name=~"shop_(cart|cart[.]canary)_[0-9]+"}'),
        (Counters.NGINX, 'nginx_ingress_controller_requests{ingress="cart"}'),
        (Counters.TRAEFIK, 'traefik_service_requests_total{service=~".*shop-(cart|cart[.]canary)-.*"}'),
    ],
)
def test_only_the_two_services_series_are_asked_for(counters: Counters, selector: str) -> None:
    """A mesh has a hundred thousand series; a dot in a name is a dot and not any letter."""
    assert selectors(counters, _asked(canary_service="cart.canary"))[0] == selector


@pytest.mark.parametrize("name", ["cart", "", 'cart"} or up{a="', "cart|.*", "cart/canary", "Cart"])
@pytest.mark.parametrize("counters", Counters)
def test_names_that_cannot_be_said_are_not_asked_about(counters: Counters, name: str) -> None:
    """Nothing of an object's may end a string of the query; one Service with two subsets has one name in all counters."""
    assert selectors(counters, _asked(canary_service=name)) == ()


def _matrix(*series: tuple[Mapping[str, str], Sequence[tuple[Any, Any]]], **more: Any) -> Any:
    result = [{"metric": dict(labels), "values": [list(each) for each in values]} for labels, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}, **more}


def test_samples_are_read_as_they_are() -> None:
    """Raw, with their own times."""
    body = json.dumps(_matrix(({"instance": "a"}, [(1.5, "3"), (16.5, "4e3")]))).encode()

    assert series_of(body) == ((Series({"instance": "a"}, ((1.5, 3.0), (16.5, 4000.0))),), "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_matrix(({}, [(1, "NaN")])), "not a count"),
        (_matrix(({}, [(1, "+Inf")])), "not a count"),
        (_matrix(({}, [(1, "-1")])), "not a count"),
        (_matrix(({}, [(1, "many")])), "not a count"),
        (_matrix(({}, [(1, "1")]), warnings=["a store did not answer"]), "may be incomplete"),
        ({"status": "success", "data": {"resultType": "vector", "result": []}}, "a vector, not samples"),
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, "the query failed: bad_data"),
    ],
)
def test_samples_that_are_none_are_refused(answer: Any, words: str) -> None:
    """Prometheus has many ways of saying nothing, and none of them is a counter that stood still."""
    found, why = series_of(json.dumps(answer).encode())

    assert found is None
    assert words in why


async def _live(asked: LiveQuestion, url: str, *, deadline_s: float = DEADLINE_S) -> LiveSeen:
    planes = NamedDataPlanes({"istio": CountedPlane(Counters.ISTIO)}, prometheus_url=url, clock=SystemClock())
    async with contextlib.aclosing(planes):
        return await planes.live(asked, deadline_s=deadline_s)


def _recent(stable: float, canary: float) -> tuple[LiveQuestion, Any]:
    """A question about a write of a minute ago, and what Prometheus has of the minute since."""
    now_s = SystemClock().now_s()
    labels = {"destination_service_namespace": "shop", "job": "mesh", "instance": "10.0.0.9:15020"}
    times = [now_s - 50, now_s - 35, now_s - 20, now_s - 5]
    series = [
        ({**labels, "destination_service_name": name}, [(at_s, str(index * count)) for index, at_s in enumerate(times)])
        for name, count in (("cart", stable), ("cart-canary", canary))
    ]
    return replace(_asked(share(10), before=0), since_s=now_s - 60), _matrix(*series)


async def test_prometheus_is_asked_and_told_by_counters() -> None:
    """`verifiedBy: Counters`: it is less than a proxy's own word, and people see it."""
    asked, answer = _recent(900, 100)
    async with serving({"/api/v1/query?": ok(answer)}) as server:
        seen = await _live(asked, server.url())

    assert (seen.live, seen.by, seen.resource_version, seen.message) == (True, VerifiedBy.COUNTERS, "7", "")
    (query,) = parse_qs(urlsplit(server.asked[0]).query)["query"]
    assert query.startswith("istio_requests_total{")
    assert query.endswith(("}[180s]", "}[181s]"))


async def test_what_contradicts_the_route_is_evidence() -> None:
    """Then nobody goes on because time went by."""
    asked, answer = _recent(1_000, 0)
    async with serving({"/api/v1/query?": ok(answer)}) as server:
        seen = await _live(asked, server.url())

    assert (seen.live, seen.evidence) == (False, True)
    assert seen.message == "10.0.0.9:15020 gave the canary 0 % of 1000 requests, not 10 %"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raw(b"", status="503 Service Unavailable"), "answers 503"),
        (redirect("http://169.254.169.254/"), "redirect"),
        (raw(b"<html>"), "cannot be read"),
        (ok(_matrix(({}, [("now", 1)]))), "cannot be read"),
        (ok(_matrix()), "no requests were counted"),
        (None, "no answer within"),
    ],
    ids=["503", "redirect", "HTML", "no samples", "empty", "silent"],
)
async def test_a_prometheus_that_tells_nothing_is_no_evidence(answer: bytes | None, words: str) -> None:
    """And its reason is told: the rollout goes by the settle time then, and people want to know why."""
    asked, _ = _recent(900, 100)
    async with serving({"/api/v1/query?": answer}) as server:
        seen = await _live(asked, server.url(), deadline_s=0.5)
    gone = await _live(asked, f"http://127.0.0.1:{await refused_port()}")

    assert (seen.live, seen.evidence, gone.live, gone.evidence) == (False, False, False, False)
    assert words in seen.message


async def test_one_service_for_both_is_no_evidence() -> None:
    """One Service with two subsets has one name in all counters, so nobody is asked."""
    seen = await _live(_asked(share(10), canary_service="cart"), "http://127.0.0.1:1")

    assert (seen.live, seen.evidence) == (False, False)
    assert seen.message.endswith("the counters do not distinguish requests to its two Services")

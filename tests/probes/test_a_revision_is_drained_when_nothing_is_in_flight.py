"""Promise: what is in flight at a revision's pods is counted where it can be; NaN, no series and no answer are not nothing."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rollouts.clock import SystemClock
from rollouts.core.drain.query import filled_query, query_problem
from rollouts.core.model.drain import DrainProbe, EnvoyProbe, PrometheusProbe
from rollouts.core.model.snapshot import DrainSeen
from rollouts.metrics.prometheus import in_flight
from rollouts.ports import DrainQuestion
from rollouts.probes.envoy_drain import requests_in_flight
from rollouts.probes.named_planes import DataPlane, PlaneKind
from rollouts.probes.planes import NamedDataPlanes
from tests.probes.servers import Server, ok, raw, refused_port, serving

RECORDED = Path(__file__).parent / "recorded"
OLD, NEW = "10.0.0.1", "10.0.0.2"
CLUSTER = "httproute/shop/cart/rule/0"
QUERY = 'sum(in_flight{pod=~"{{rollout}}-{{revision}}-.*", namespace="{{ namespace }}"})'
APP = PrometheusProbe(name="app", query=QUERY, age_s=15.0)
GATEWAY = EnvoyProbe(name="gateway")
DEADLINE_S = 5.0


def _question(*probes: DrainProbe, **changes: Any) -> DrainQuestion:
    given: dict[str, Any] = {
        "namespace": "shop", "rollout": "cart", "revision": "a1b2", "service": "cart", "probes": probes or (APP,),
        "addresses": frozenset({OLD}), "others": frozenset({NEW}),
    }  # fmt: skip
    return DrainQuestion(**{**given, **changes})


def _hosts(*hosts: tuple[str, int], name: str = CLUSTER) -> dict[str, Any]:
    """`/clusters` with one cluster; a host that has nothing in flight has no value for it, as protobuf leaves zeros out."""
    statuses = [
        {
            "address": {"socket_address": {"address": ip, "port_value": 8080}},
            "stats": [
                {"name": "cx_active", "value": "23"},
                {"name": "rq_active", **({"value": str(count)} if count else {})},
            ],
        }
        for ip, count in hosts
    ]
    return {"cluster_statuses": [{"name": name, "observability_name": name, "host_statuses": statuses}]}


def _active(count: int, name: str = CLUSTER) -> dict[str, Any]:
    stats = [
        {"name": f"cluster.{name}.upstream_rq_active", "value": count},
        {"name": "cluster.xds.upstream_rq_active", "value": 1},
    ]
    return {"stats": [*stats, {"histograms": {"supported_quantiles": [50]}}]}


def _count(before: Any, active: Any, after: Any, **changes: Any) -> int | None:
    return requests_in_flight(
        before=json.dumps(before).encode(),
        active=json.dumps(active).encode(),
        after=json.dumps(after).encode(),
        question=_question(**changes),
    )


OTHER, OF_CONTOUR = "httproute/shop/other/rule/0", "shop/cart/80/da39a3ee5e"


@pytest.mark.parametrize(
    ("before", "active", "after", "count"),
    [
        pytest.param(_hosts((NEW, 5)), _active(8), _hosts((NEW, 5)), 3, id="of hosts that Envoy lists no more"),
        pytest.param(_hosts((NEW, 5)), _active(5), _hosts((NEW, 5)), 0, id="all are at the new pods"),
        pytest.param(_hosts((OLD, 2), (NEW, 5)), _active(7), _hosts((OLD, 2), (NEW, 5)), 2, id="of hosts still listed"),
        pytest.param(_hosts((NEW, 5)), _active(6), _hosts((NEW, 9)), 1, id="more begin at the new pods meanwhile"),
        pytest.param(_hosts((NEW, 9)), _active(6), _hosts((NEW, 5)), 1, id="some end at the new pods meanwhile"),
        pytest.param(_hosts((NEW, 0)), _active(0), _hosts((NEW, 0)), 0, id="idle connections are no requests"),
        pytest.param(
            _hosts(("10.9.9.9", 0), name=OTHER),
            *(_active(0, OTHER), _hosts(("10.9.9.9", 0), name=OTHER), None),
            id="zero of a cluster that is not ours is no evidence",
        ),
        pytest.param(_hosts(), _active(0), _hosts(), None, id="nor is a cluster without hosts"),
        pytest.param(
            _hosts(name=OF_CONTOUR),
            *(_active(4, OF_CONTOUR), _hosts(name=OF_CONTOUR), 4),
            id="Contour's is known by its name, without endpoints too",
        ),
    ],
)
def test_requests_in_flight_are_counted(before: Any, active: Any, after: Any, count: int | None) -> None:
    """The gauges are read one after the other, so too much is found rather than too little."""
    assert _count(before, active, after) == count


@pytest.mark.parametrize(("moment", "count"), [("listed", 2), ("left", 2), ("over", 0)])
def test_a_real_envoy_tells_what_a_host_that_left_still_has(moment: str, count: int) -> None:
    """Recorded from Envoy 1.40: two requests to a host, which then leaves the cluster; another host takes one; the two end."""
    said = json.loads((RECORDED / "envoy-drain.json").read_text())[moment]

    assert _count(**said, addresses=frozenset({"127.0.0.11"}), others=frozenset({"127.0.0.13"})) == count


def _vector(*values: str, **more: Any) -> bytes:
    result = [{"metric": {}, "value": [1_790_000_000.1, value]} for value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}, **more}).encode()


@pytest.mark.parametrize(
    ("body", "count", "words"),
    [
        (_vector("0"), 0, ""),
        (_vector("7"), 7, ""),
        (_vector("0.2"), 1, ""),  # a rate: something is there
        (b'{"status":"success","data":{"resultType":"scalar","result":[1790000000,"3"]}}', 3, ""),
        (_vector("NaN"), None, "nan"),
        (_vector("+Inf"), None, "inf"),
        (_vector("-1"), None, "-1"),
        (_vector(), None, "no series"),
        (_vector("0", "4"), None, "2 series"),
        (_vector("0", warnings=["a store did not answer"]), None, "may be incomplete"),
        (b'{"status":"error","errorType":"bad_data","error":"parse error"}', None, "the query failed: bad_data"),
        (b'{"status":"error","errorType":"<secret>","error":"<secret>"}', None, "the query failed: unknown error"),
        (b'{"status":"success","data":{"resultType":"<secret>","result":[]}}', None, "an unknown type"),
        (b'{"status":"success","data":{"resultType":"matrix","result":[]}}', None, "a matrix"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{"value":[1]}]}}', None, "not return a number"),
        (b'{"status":"success","data":{"resultType":"vector","result":["x"]}}', None, "not return a number"),
        (b'{"status":"success"}', None, "failed"),
    ],
)
def test_only_one_number_is_a_count(body: bytes, count: int | None, words: str) -> None:
    """Prometheus has many ways of saying nothing, and none of them is zero."""
    found, why = in_flight(body)

    assert found == count
    assert words in why
    assert bool(why) is (count is None)
    assert "secret" not in why
    assert "store" not in why


async def _drained(question: DrainQuestion, *urls: str, prometheus: str = "", any_query: bool = False) -> DrainSeen:
    """What Envoys at these addresses and a Prometheus say."""
    planes = {"infra/web": DataPlane(PlaneKind.ENVOY, urls)} if urls else {}
    asked = NamedDataPlanes(planes, prometheus_url=prometheus, any_query=any_query, clock=SystemClock())
    async with contextlib.aclosing(asked):
        return await asked.drained(question, deadline_s=DEADLINE_S)


async def _said(answer: bytes, *probes: DrainProbe, any_query: bool = False) -> tuple[DrainSeen, Server]:
    """What a Prometheus that answers so makes known, and what it was asked."""
    async with serving({"/api/v1/query?": answer}) as server:
        return await _drained(_question(*probes), prometheus=server.url(), any_query=any_query), server


async def test_the_query_names_the_revision() -> None:
    """Its own, not the tenant's wish for another address: the Prometheus is the operator's."""
    seen, server = await _said(raw(_vector("2")))

    query = 'sum(in_flight{pod=~"cart-a1b2-.*", namespace="shop"})'
    assert (seen.in_flight, seen.streams, seen.message, seen.age_s) == (2, 0, "", 15.0)
    assert parse_qs(urlsplit(server.asked[0]).query)["query"] == [query]


BEYOND = PrometheusProbe(name="app", query='sum(secrets{revision!="{{revision}}"})', age_s=15.0)


async def test_a_query_that_looks_beyond_its_namespace_is_never_asked() -> None:
    """A Prometheus has the series of every tenant, and a number in a status is all it takes to read them, bit by bit."""
    seen, server = await _said(raw(_vector("0")), BEYOND)

    assert server.asked == []
    assert seen.in_flight is None
    assert 'the selector {revision != "a1b2"} may read beyond namespace shop' in seen.message
    assert 'namespace="{{namespace}}"' in seen.message
    assert "--drain-queries any" in seen.message


async def test_an_administrator_may_allow_any_query() -> None:
    """Gateways have their series in a namespace of their own."""
    seen, server = await _said(raw(_vector("0")), BEYOND, any_query=True)

    assert (seen.in_flight, len(server.asked)) == (0, 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raw(b"<secret>"), "cannot be read"),
        (raw(b"", status="500 <secret>"), "answers 500"),
        (b"<secret>\r\n\r\n", ""),
        (b"HTTP/1.1 302 Found\r\nLocation: http://secret/\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: <secret>\r\n\r\n", ""),
        (ok({"status": ["<secret>"]}), "cannot be read"),
        (ok([]), "cannot be read"),
        (raw(b'{"status":"success","x":"' + b"a" * (1 << 20) + b'"}'), "more than 1 MiB"),  # one number needs 100 bytes
    ],
)
async def test_a_prometheus_that_fails_is_told_and_nothing_that_it_answers(answer: bytes, words: str) -> None:
    """By name and reason. What a status says a tenant reads: fixed words and numbers; the rest is for the operator's log."""
    seen, server = await _said(answer)

    assert seen.in_flight is None
    assert seen.message.startswith(f"probe app: prometheus 127.0.0.1:{server.port}: ")
    assert words in seen.message
    assert "secret" not in seen.message


async def test_streams_are_counted_apart_from_requests() -> None:
    """A websocket that goes on all day must not look like a request that never ends."""
    query = 'open_sockets{namespace="{{namespace}}",r="{{revision}}"}'
    sockets = PrometheusProbe(name="sockets", query=query, max_s=900.0, age_s=5.0)
    answers = {"/api/v1/query?query=open_sockets": raw(_vector("4")), "/api/v1/query?": raw(_vector("0"))}
    async with serving(answers) as server:
        seen = await _drained(_question(APP, sockets), prometheus=server.url())
        only = await _drained(_question(sockets), prometheus=server.url())

    assert (seen.in_flight, seen.streams) == (0, 4)
    assert (only.in_flight, only.streams) == (None, 4)


async def test_one_probe_that_does_not_answer_makes_the_whole_unknown() -> None:
    """The other may not see what this one would."""
    seen, _ = await _said(raw(_vector("0")), APP, GATEWAY)

    assert seen.in_flight is None
    assert seen.message == "probe gateway: no --data-plane of kind envoy is set for it"


async def test_without_an_address_for_prometheus_the_remedy_is_told() -> None:
    """It is the operator's setting, so the tenant must learn whom to ask."""
    assert (await _drained(_question(APP))).message == "probe app: the controller has no --prometheus-url"


def _envoy(count: int) -> dict[str, bytes]:
    return {"/clusters": ok(_hosts((NEW, 1))), "/stats": ok(_active(1 + count))}


async def test_every_envoy_is_asked_and_what_they_have_is_added() -> None:
    """Each replica of the gateway has requests of its own."""
    async with serving(_envoy(2)) as one, serving(_envoy(3)) as two:
        seen = await _drained(_question(GATEWAY), one.url(), two.url())
        unknown = await _drained(_question(GATEWAY, addresses=frozenset()), one.url(), two.url())

    assert (seen.in_flight, seen.message, seen.age_s) == (5, "", 0.0)
    assert unknown.in_flight is None
    assert unknown.message == "probe gateway: the addresses of the revision's pods are unknown"


async def test_an_envoy_is_not_asked_for_more_than_it_must_be() -> None:
    """A gateway has thousands of clusters, and it is asked every second: once for all of them, then for those that matter."""
    other = {"/clusters": ok(_hosts(("10.9.9.9", 4), name="httproute/shop/other/rule/0")), "/stats": ok(_active(9))}
    async with serving(_envoy(2)) as one, serving(other) as two:
        seen = await _drained(_question(GATEWAY), one.url(), two.url())

    assert seen.in_flight == 2
    assert [parse_qs(urlsplit(each).query).get("filter") for each in one.asked] == [
        None,
        [r"\.upstream_rq_active$"],
        ["^(httproute/shop/cart/rule/0)$"],
    ]
    assert len(two.asked) == 1


async def test_an_envoy_that_is_down_may_have_the_last_request() -> None:
    """Nine of ten is not all."""
    async with serving(_envoy(0)) as one:
        seen = await _drained(_question(GATEWAY), one.url(), f"http://127.0.0.1:{await refused_port()}")

    assert seen.in_flight is None
    assert seen.message.startswith("probe gateway: envoy 127.0.0.1:")


def test_a_query_gets_names_and_nothing_else() -> None:
    """What could end a string of PromQL, or mean anything to it, is no name of Kubernetes, so it is never put in."""
    good = {"namespace": "shop", "rollout": "cart.v2", "revision": "a1b2", "service": "cart"}

    assert filled_query(QUERY, good) == 'sum(in_flight{pod=~"cart.v2-a1b2-.*", namespace="shop"})'
    for name in ('x"} or vector(0) #', "a|b", "A", "", "a{{revision}}", "a\n"):
        assert filled_query(QUERY, {**good, "rollout": name}) is None
    assert filled_query(QUERY, {"revision": "a1b2"}) is None


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (QUERY, ""),
        ("sum(x)", "needs {{revision}}"),
        ("x{{revision}}{{Pod}}", "{{Pod}}"),
        ("x{{revision}}{{", "without a }}"),
    ],
)
def test_a_query_is_checked_before_it_is_needed(query: str, words: str) -> None:
    """At `kubectl apply` and in `rollouts lint`, not in the middle of a cutover."""
    problem = query_problem(query)

    assert bool(problem) is bool(words)
    assert words in problem

"""Promise: whatever stands in whichever field of an analysis, the controller connects to no private address that nobody declared.

The fields are those of the schema. A new one has to stand in `whole_metrics.py`, or among those that are refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import re
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.v1alpha1.analysis_template import PLANNED, AnalysisRunSpecWire, AnalysisTemplateSpec
from rollouts.bounded.here import Here
from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.controller.analysis.cluster_measurements import cluster_sources
from rollouts.controller.analysis.http_measurements import HttpMeasurements
from rollouts.controller.analysis.sources import MeasuredRun
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.core.analysis.metric import SecretReference
from rollouts.core.analysis.recipe import ADDRESS, HOST, fields_with
from rollouts.core.analysis.recipes import RECIPES
from rollouts.core.analysis.run import Due, Task
from rollouts.core.analysis.source import Comparison, HttpSource, MetricSource
from rollouts.core.model.frozen import replace
from rollouts.errors import SpecInvalid
from rollouts.metrics.addresses import TenantUrls
from rollouts.metrics.requests import MetricEndpoint
from rollouts.probes.metric_asker import MetricAsker
from tests.controller.analysis.whole_metrics import Path, field_at, fields_of, leaves_of, planted, whole_runs
from tests.controller.world import ScriptedApi, error
from tests.probes.servers import Server, redirect, serving

RUN = MeasuredRun(namespace="shop", name="run", uid="u", rollout="cart", revision="abc", started_at_s=0.0)
BASE = "/base"
NOWHERE = "http://127.0.0.1:1"  # only to count the fields
FIELDS = fields_of(AnalysisRunSpecWire)
REFUSED = {
    *(f"metrics[].provider.{name}" for name in PLANNED),
    *(f"metrics[].provider.compare.of.{name}" for name in ("job", "kubernetes", "hpa")),
    *(
        field
        for field in FIELDS
        for name, recipe in RECIPES.items()
        if field.startswith(f"metrics[].provider.compare.of.{name}.")
        and (recipe.not_compared or field.endswith(".interval"))
    ),
    *(
        f"metrics[].provider.{of}{source}.authentication.sigv4.{name}"
        for of in ("", "compare.of.")
        for source in ("prometheus", "web")
        for name in ("region", "profile", "roleArn")
    ),
}
"""Fields that no template may have."""
NOT_IN_RUNS = {"args[].valueFrom.fieldRef.fieldPath"}
"""Taken from the Rollout when a run is made; a run that has one is refused."""
NOT_METRICS = {"templates[].templateName"}
"""Of templates, besides those of runs: names an object of the cluster."""
URLS = {
    f"metrics[].provider.{of}{place}"
    for of in ("", "compare.of.")
    for place in (
        *("prometheus.address", "web.url"),
        *("prometheus.authentication.oauth2.tokenUrl", "web.authentication.oauth2.tokenUrl"),
    )
} | {
    f"metrics[].provider.{of}{name}.{address}"
    for of in ("", "compare.of.")
    for name, recipe in RECIPES.items()
    if not (of and recipe.not_compared)
    for mark in (ADDRESS, HOST)
    for address in fields_with(mark, recipe.fields)
}
"""Fields that name whom a request goes to: the only ones."""


@dataclass
class Trap:
    """A server of the loopback that nobody declared. Connections count, not requests: a scanner needs no answer."""

    port: int = 0
    connections: int = 0


@dataclass
class Cluster:
    """A declared server, which redirects everybody into the trap, the trap, and who asks."""

    declared: Server
    trap: Trap
    by: MetricAsker
    looked_up: list[str] = field(default_factory=list)

    async def measure(self, spec: Mapping[str, Any], secret: str = "") -> None:
        """Measures the spec's metric once, if it is one."""
        try:
            run = parse_run(spec)
        except SpecInvalid:
            return

        async def secrets(_namespace: str, wanted: tuple[SecretReference, ...]) -> Mapping[str, str]:
            return {each.argument: secret for each in wanted}

        base = MetricEndpoint(url=self.declared.url() + BASE, declared=True, methods=("GET", "POST", "PUT"))
        servers = {
            name.lower(): replace(base, kind=name, settings=tuple((each.name, "1") for each in recipe.settings))
            for name, recipe in RECIPES.items()
        }
        source = HttpMeasurements(
            endpoints=self.by,
            declared=lambda: {"default": base, **servers},
            secret_values=secrets,
            bounded=Here(),
            clock=SystemClock(),
            deadline_s=2.0,
        )
        for metric in run.metrics:
            if _is_http(metric.source):
                due = Due(metric=metric.rules.name, task=Task.TAKE, number=1)
                await source.measure(RUN, metric, due, now_s=SystemClock().now_s())

    def check(self, what: object) -> None:
        """Nobody was in the trap, and the declared server was asked below its URL, as itself, only."""
        assert self.trap.connections == 0, what
        for path, host in zip(self.declared.asked, self.declared.hosts, strict=True):
            assert path.partition("?")[0].startswith(f"{BASE}/"), (what, path)
            assert ".." not in path.partition("?")[0].split("/"), (what, path)
            assert host == f"127.0.0.1:{self.declared.port}", (what, host)


def _is_http(source: MetricSource) -> bool:
    return isinstance(source.of if isinstance(source, Comparison) else source, HttpSource)


@contextlib.asynccontextmanager
async def a_cluster(tenants: Callable[[int, int], TenantUrls]) -> AsyncIterator[Cluster]:
    """What templates may try; `tenants` is what is open to them, by the ports of the trap and of the declared server."""
    trap = Trap()

    async def caught(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        trap.connections += 1
        writer.transport.abort()

    listener = await asyncio.start_server(caught, "127.0.0.1", 0)
    trap.port = listener.sockets[0].getsockname()[1]
    looked_up: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        if host.removesuffix(".").endswith(".trap.example") or host == "localhost":
            return ["127.0.0.1"]
        # As the system reads a number that is written as a name; no name server is asked.
        numeric = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
        return [str(address[0]) for *_, address in numeric]

    try:
        async with serving({"/": redirect(f"http://127.0.0.1:{trap.port}/in")}) as declared:
            by = MetricAsker(tenants=tenants(trap.port, declared.port), clock=SystemClock(), resolve=resolve)
            async with contextlib.aclosing(by):
                yield Cluster(declared, trap, by, looked_up)
    finally:
        listener.close()
        await listener.wait_closed()


def wide(trap: int, declared: int) -> TenantUrls:
    """All that an administrator can open to templates."""
    return TenantUrls(allowed=True, plain_http=True, ports=frozenset({80, 443, trap, declared}))


def closed(_trap: int, _declared: int) -> TenantUrls:
    """What is the case without a flag."""
    return TenantUrls()


def texts(trap: int, declared: int) -> list[str]:
    """Ways to write an address of the trap, alone and within what was declared."""
    base = f"http://127.0.0.1:{declared}{BASE}"
    hosts = [
        *("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1"),  # noqa: S104
        *("017700000001", "127.0.0.1.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "a.trap.example", "a.trap.example."),
        *("user@127.0.0.1", f"127.0.0.1:{declared}@127.0.0.1", f"127.0.0.1\\@a.trap.example:{trap}/@127.0.0.1"),
        *("127.0.0.1%2f@127.0.0.1", "127.0.0.1#@127.0.0.1", "①②⑦.0.0.1"),
    ]
    return [
        *(f"http://{host}:{trap}/x" for host in hosts),
        *(f"https://127.0.0.1:{trap}/", f"HTTP://127.0.0.1:{trap}/", f"http:127.0.0.1:{trap}", f"//127.0.0.1:{trap}/"),
        *(f"127.0.0.1:{trap}", f"@127.0.0.1:{trap}/", f":{trap}/", f".trap.example:{trap}/", f"http://a\r\nb:{trap}/"),
        *(f"{base}@127.0.0.1:{trap}/", f"{base}/../../x", f"{base}/%2e%2e/x", f"{base}/..;/x"),
        *(f"{base}/a/%252e%252e/x", f"{base}/x\r\nHost: 127.0.0.1:{trap}\r\nX: ", f"{base}//127.0.0.1:{trap}/"),
        f"{base}.trap.example:{trap}/",
        *("../../x", "x\r\nHost: evil", f"x@127.0.0.1:{trap}", f"/../..//127.0.0.1:{trap}/", "..", "/..\\..\\x"),
    ]


def places(declared: str = NOWHERE) -> list[tuple[str, Path]]:
    """Every place of every metric that takes a text."""
    return [
        (name, path)
        for name, spec in whole_runs(declared).items()
        for path in leaves_of(spec)
        if field_at(path, FIELDS) is not None
    ]


FIRST = {str(field_at(path, FIELDS)): (name, path) for name, path in reversed(places())}
"""One place of each field."""


def test_every_field_of_the_schema_is_tried() -> None:
    """A new field that can hold a URL, a host, a port or a path is one of these, or this fails."""
    tried = {field_at(path, FIELDS) for _, path in places()}

    assert tried | REFUSED | NOT_IN_RUNS == FIELDS
    assert tried & REFUSED == set()
    assert fields_of(AnalysisTemplateSpec) - FIELDS == NOT_METRICS


@pytest.mark.parametrize("name", whole_runs(NOWHERE))
def test_every_metric_that_is_tried_is_one(name: str) -> None:
    """Else nothing would be asked, whatever stands in it."""
    assert parse_run(whole_runs(NOWHERE)[name]).metrics


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_field_that_is_not_tried_is_refused(name: str) -> None:
    """By name, so nothing in it is ever asked."""
    _, _, below = name.partition("provider.")
    source, *parts = below.split(".")
    runs = whole_runs(NOWHERE)
    spec = runs["compare: web"] if source == "compare" else runs["web"]
    provider = spec["metrics"][0]["provider"]
    if "sigv4" not in parts:
        part: Any = {"url": NOWHERE}
        changed = {"compare": {**provider["compare"], "of": {parts[-1]: part}}} if parts else {source: part}
    else:
        changed = copy.deepcopy(runs["prometheus by its address"]["metrics"][0]["provider"] | provider)
        inner = changed[source]["of"] if source == "compare" else changed
        inner.setdefault(parts[1] if source == "compare" else source, {"query": "up"})["authentication"] = {
            "sigv4": {parts[-1]: NOWHERE}
        }
    spec["metrics"][0]["provider"] = changed

    with pytest.raises(SpecInvalid):
        parse_run(spec)


@pytest.mark.parametrize(
    ("tenants", "field"), [*((wide, field) for field in sorted(FIRST)), *((closed, field) for field in sorted(URLS))]
)
async def test_no_text_in_any_field_opens_a_connection(tenants: Callable[[int, int], TenantUrls], field: str) -> None:
    """Written into the field, put in by an argument, and put in by a Secret, right before the request is sent."""
    name, path = FIRST[field]
    async with a_cluster(tenants) as cluster:
        spec = whole_runs(cluster.declared.url() + BASE)[name]
        before = str(_at(spec, path))
        tried = texts(cluster.trap.port, cluster.declared.port)
        for text in tried if field in URLS else tried[:: len(tried) // 6]:
            for written in (text, before + text):
                await cluster.measure(planted(spec, path, written))
            for written in ("{{args.x}}", f"{before}{{{{args.x}}}}"):
                argued = planted(spec, path, written)
                argued["args"][0]["value"] = text
                await cluster.measure(argued)
            for written in ("{{args.s}}", f"{before}{{{{args.s}}}}"):
                await cluster.measure(planted(spec, path, written), secret=text)
            cluster.check((name, path, text))


async def test_only_a_url_names_whom_a_request_goes_to() -> None:
    """A name of a host that stands anywhere else is looked up by nobody."""
    found = set()
    async with a_cluster(wide) as cluster:
        for name, path in places():
            cluster.looked_up.clear()
            spec = whole_runs(cluster.declared.url() + BASE)[name]
            await cluster.measure(planted(spec, path, "https://planted.example/q"))
            if "planted.example" in cluster.looked_up:
                found.add(field_at(path, FIELDS))

    assert found == URLS


ASKED_OF_THE_CLUSTER = re.compile(
    r"/apis/custom\.metrics\.k8s\.io(?:/v1beta[12]/namespaces/shop/[^/]+/[^/]+/[^/]+)?"
    r"|/apis/external\.metrics\.k8s\.io(?:/v1beta1/namespaces/shop/[^/]+)?"
    r"|/apis/metrics\.k8s\.io/v1beta1/namespaces/shop/pods|/api/v1/namespaces/shop/pods"
    r"|/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers"
    r"|/api/v[0-9a-z]+|/apis/[-.a-z0-9]+/v[0-9a-z]+"  # which kinds a group has
)


FROM_THE_CLUSTER = r"metrics\[\]\.provider\.(compare\.of\.)?(containerResource|hpa|customMetric|externalMetric)\."


@pytest.mark.parametrize("field", sorted(each for each in FIRST if re.match(FROM_THE_CLUSTER, each)))
def test_no_text_leads_to_another_path_of_the_api_server(field: str) -> None:
    """The names of metrics and objects are parts of paths there, which the controller asks with rights that tenants have not."""
    name, path = FIRST[field]
    spec = whole_runs(NOWHERE)[name]
    before = str(_at(spec, path))

    async def measured(spec: Mapping[str, Any]) -> None:
        api, clock = ScriptedApi(otherwise=lambda _: error(404, "NotFound")), SystemClock()
        client = Client(api, clock=clock, may_write=lambda: False, request_deadline_s=1.0)
        try:
            run = parse_run(spec)
        except SpecInvalid:
            return
        sources = cluster_sources(ClusterMetrics(client, clock), client=client, bounded=Here(), clock=clock)
        for metric in run.metrics:
            if (source := sources.get(metric.source.provider)) is not None:
                due = Due(metric=metric.rules.name, task=Task.TAKE, number=1)
                await source.measure(RUN, metric, due, now_s=clock.now_s())
        for request in api.requests:
            assert request.method == "GET"
            assert ASKED_OF_THE_CLUSTER.fullmatch(request.path), request.path
            assert not {"", ".", ".."} & set(map(unquote, request.path.split("/")[1:])), request.path

    for text in (*texts(1, 2), "a/b", "%2e%2e", ".", "a?b=c", "a#b", "*", "a,b=c"):
        for written in (text, before + text):
            asyncio.run(measured(planted(spec, path, written)))


PIECES = st.sampled_from(
    [
        *("http", "https", "://", ":", "//", "/", "?", "#", "@", "..", ".", "%2e", "%2f", "\\", ";", "\r\n", "\t", " "),
        *("127.0.0.1", "[::1]", "localhost", "a.trap.example", "2130706433", "TRAP", "DECLARED"),
        *("{{args.x}}", "{{args.s}}"),
        *("http://127.0.0.1:TRAP", "http://127.0.0.1:DECLARED/base", "{{", "}}", "é", "\0", '"', "a"),
    ]
)
WRITTEN = st.lists(PIECES, min_size=1, max_size=6).map("".join)
PLACES = st.sampled_from(places())


@given(changes=st.lists(st.tuples(PLACES, WRITTEN, st.booleans()), min_size=1, max_size=3), given=WRITTEN, held=WRITTEN)
@settings(max_examples=150, deadline=None)
def test_nor_does_any_mixture_of_them(changes: list[Any], given: str, held: str) -> None:
    """Several fields at once, with pieces of URLs in any order, put together by arguments and Secrets."""

    async def tried() -> None:
        async with a_cluster(wide) as cluster:

            def real(text: str) -> str:
                return text.replace("TRAP", str(cluster.trap.port)).replace("DECLARED", str(cluster.declared.port))

            spec: dict[str, Any] = {}
            for (name, path), text, after in changes:
                spec = spec or whole_runs(cluster.declared.url() + BASE)[name]
                with contextlib.suppress(KeyError, IndexError, TypeError):
                    before = str(_at(spec, path)) if after else ""
                    spec = planted(spec, path, before + real(text))
            with contextlib.suppress(KeyError, IndexError, TypeError):
                spec["args"][0]["value"] = real(given).replace("{{", "")
            await cluster.measure(spec, secret=real(held))
            cluster.check((changes, given, held))

    asyncio.run(tried())


def _at(spec: Any, path: Path) -> Any:
    for part in path:
        spec = spec[part]
    return spec

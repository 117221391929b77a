"""Promise: a Rollout, its routes and its pods give names, never addresses; only flags and providers say who is asked.

What a Rollout says reaches the askers of data planes in two questions, and each text in them is tried here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from rollouts.api.v1alpha1.metric_provider import MetricProviderSpec
from rollouts.api.v1alpha1.rollout import RolloutSpecWire
from rollouts.api.v1alpha1.traffic_provider import TrafficProviderSpec
from rollouts.api.v1alpha1.wire import Wire
from rollouts.bounded.here import Here
from rollouts.clock import SystemClock
from rollouts.core.model.drain import EnvoyProbe, PrometheusProbe
from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import RouteName
from rollouts.ports import DrainQuestion
from rollouts.probes.declared_probes import DeclaredProbes
from rollouts.probes.named_planes import parse_data_planes
from rollouts.probes.planes import NamedDataPlanes
from rollouts.traffic.declared.codec import declared
from tests.controller.analysis.whole_metrics import fields_of, leaves_of, planted
from tests.probes.dumps import question, share
from tests.probes.servers import Server, ok, redirect, serving
from tests.traffic.cases.declared import APISIX

DEADLINE_S = 2.0

ASKED_BY_ADMINISTRATORS: dict[type[Wire], set[str]] = {
    MetricProviderSpec: {"url", "oauth2.tokenUrl", "recipe.request.path"},
    TrafficProviderSpec: {"live.http.url", "live.http.path.cel"},
}
"""Fields that name whom the controller asks, or a path there. Only administrators write these kinds."""
SAID: dict[type[Wire], set[str]] = {
    MetricProviderSpec: {
        *("tls.caFile", "tls.serverName", "basic.username", "oauth2.clientId", "oauth2.scopes[]", "google.scopes[]"),
        *("headers[].name", "headers[].value", "settings{}"),
        *("sigv4.region", "sigv4.service", "sigv4.accessKeyId"),
        *("recipe.request.query[].name", "recipe.request.query[].value", "recipe.request.headers[].name"),
        *("recipe.request.headers[].value", "recipe.request.body", "recipe.answer.result", "recipe.answer.values"),
        *("recipe.answer.times", "recipe.answer.listed", "recipe.answer.refused[]", "recipe.answer.more[]"),
        *("recipe.answer.counts[]", "recipe.answer.whole[].path", "recipe.answer.whole[].values[]"),
        *(
            f"{place}.{part}"
            for place in (
                "basic.password",
                "bearer",
                "google.key",
                "oauth2.clientSecret",
                "sigv4.secretAccessKey",
                "headers[].valueFrom",
            )
            for part in ("file", "secretKeyRef.name", "secretKeyRef.key")
        ),
    },
    TrafficProviderSpec: {
        *("match.group", "match.kind", "match.plural", "match.versions[]", "backends", "service.path", "service.cel"),
        *("serviceNamespace.path", "serviceNamespace.cel", "weight.path", "accepted.conditions", "accepted.type"),
        *("accepted.cel", "header.template", "live.cel", "tests[].object", "tests[].result", "tests[].headers[].name"),
        *("tests[].headers[].exact", "tests[].headers[].prefix", "tests[].headers[].regex", "tests[].answers[].body"),
    },
}
"""Their other fields: who asks, what is made of an answer, and where something stands in an object."""
NAMES_IN_ROLLOUTS = {
    # Objects of the cluster, of the Rollout's namespace or by an owner's consent, through the API server alone.
    *("apiVersion", "name", "namespace", "canaryService", "stableService", "activeService", "previewService"),
    *("pingService", "pongService", "templateName", "ingress", "ingresses[]", "rootService", "mappings[]", "rules[]"),
    *("stableIngress", "stableIngresses[]", "weightedTraefikServiceName", "trafficSplitName", "routes[]"),
    *("canarySubsetName", "stableSubsetName", "additionalSubsetNames[]", "container", "fieldPath", "metricName"),
    # What is written into objects and matched there: the router, the kubelet and the scheduler read it.
    *("template", "spec", "metadata", "labels{}", "annotations{}", "matchLabels{}", "key", "values[]", "config"),
    *("exact", "prefix", "regex", "headerName", "cookieName", "queryParamName", "sniHosts[]", "annotationPrefix"),
    *("additionalIngressAnnotations{}", "canaryIngressAnnotations{}", "plugins{}", "features[]", "digits"),
    "requiredDuringSchedulingIgnoredDuringExecution",
    # Numbers, times, values of arguments (which are those of templates), and a query for the Prometheus of a flag.
    *("duration", "maxSurge", "maxUnavailable", "restartAt", "value", "query", "envoy"),
}
"""The last parts of the fields of a Rollout that take a text: none of them names whom the controller asks."""


def test_every_field_of_every_kind_has_an_answer() -> None:
    """A new field fails here until somebody has said whether it can be an address, and has it tried."""
    for model, asked in ASKED_BY_ADMINISTRATORS.items():
        assert fields_of(model) == asked | SAID[model]
    assert {each.rpartition(".")[2] for each in fields_of(RolloutSpecWire)} == NAMES_IN_ROLLOUTS


QUERY = 'sum(in_flight{namespace="{{namespace}}", pod=~"{{rollout}}-{{revision}}-.*"})'
LIVE = question(share(20), namespace="shop")
DRAINED = DrainQuestion(
    namespace="shop", rollout="cart", revision="a1b2", service="cart",
    probes=(PrometheusProbe(name="app", query=QUERY, age_s=15.0), EnvoyProbe(name="envoy")),
    addresses=frozenset({"10.0.0.1"}), others=frozenset({"10.0.0.2"}), gateways=("infra/web",),
)  # fmt: skip
TEXTS = (
    "http://127.0.0.1:{trap}/", "127.0.0.1:{trap}", "@127.0.0.1:{trap}/", "//127.0.0.1:{trap}/x", "../../x",
    "/%2e%2e/x", "x\r\nHost: 127.0.0.1:{trap}\r\n", "?x=y", "#", "cart@127.0.0.1:{trap}", "[::1]:{trap}", "2130706433",
)  # fmt: skip


ENCODED = ("%2e%2e/x", "a/%252e%252e/%252e%252e/x", "..;/x", "a/..%2f..%2fx", "%5c..%5cx")


@dataclass
class Asked:
    """The servers that flags and a TrafficProvider name, and the port of one that nobody names."""

    envoy: Server
    traefik: Server
    prometheus: Server
    router: Server
    trap: int
    caught: list[str]

    def check(self, what: object) -> None:
        """Each was asked what it is asked always, as itself; nobody else was."""
        paths = {"envoy": ("/config_dump", "/clusters", "/stats"), "traefik": ("/api/rawdata",)}
        paths |= {"prometheus": ("/prom/api/v1/query",), "router": ("/api/routes",)}
        assert self.caught == [], what
        for name, starts in paths.items():
            server: Server = getattr(self, name)
            for path, host in zip(server.asked, server.hosts, strict=True):
                assert path.startswith(starts), (what, path)
                assert ".." not in path.partition("?")[0], (what, path)
                assert host == f"127.0.0.1:{server.port}", (what, host)


@contextlib.asynccontextmanager
async def servers() -> AsyncIterator[Asked]:
    """All of them redirect into the trap, but for what they are asked first."""
    caught: list[str] = []

    async def catch(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caught.append("connected")
        writer.transport.abort()

    trap = await asyncio.start_server(catch, "127.0.0.1", 0)
    port = trap.sockets[0].getsockname()[1]
    away = redirect(f"http://127.0.0.1:{port}/")
    async with (
        serving({"/config_dump": ok({"configs": []}), "/": away}) as envoy,
        serving({"/": away}) as traefik,
        serving({"/": away}) as prometheus,
        serving({"/": away}) as router,
    ):
        yield Asked(envoy, traefik, prometheus, router, port, caught)
    trap.close()
    await trap.wait_closed()


def _changed(question: Any, text: str) -> Iterator[Any]:
    """The question with the text in place of each of its texts, one at a time."""
    fields = question.__struct_fields__ if isinstance(question, msgspec.Struct) else question.__dataclass_fields__
    for name in fields:
        match getattr(question, name):
            case str():
                yield replace(question, **{name: text})
            case RouteName() as route:
                yield from (
                    replace(question, **{name: replace(route, **{part: text})}) for part in ("namespace", "name")
                )
            case frozenset():
                yield replace(question, **{name: frozenset({text})})
            case (str(), *_):
                yield replace(question, **{name: (text,)})
            case (dict() as manifest, *_):
                for place in leaves_of(manifest):
                    yield replace(question, **{name: (planted(manifest, place, text),)})
            case (PrometheusProbe() as probe, *_):
                yield replace(question, **{name: (replace(probe, query=QUERY.replace("shop", text)),)})
                yield replace(question, **{name: (replace(probe, query=text),)})
            case _:
                pass


@pytest.mark.parametrize("kind", ["envoy", "traefik"])
async def test_no_text_of_a_question_is_an_address(kind: str) -> None:
    """Names of routes, Services, gateways and revisions, what stands in a route, and addresses of pods."""
    async with servers() as asked:
        server: Server = getattr(asked, kind)
        named, prometheus_url = parse_data_planes([f"*={kind}:{server.url()}"]), f"{asked.prometheus.url()}/prom"
        planes = NamedDataPlanes(named, prometheus_url=prometheus_url, clock=SystemClock())
        async with contextlib.aclosing(planes):
            for text in (each.format(trap=asked.trap) for each in TEXTS):
                for live in (LIVE, *_changed(LIVE, text)):
                    await planes.live(live, deadline_s=DEADLINE_S)
                for drained in (DRAINED, *_changed(DRAINED, text)):
                    await planes.drained(drained, deadline_s=DEADLINE_S)
                asked.check(text)
        assert server.asked
        assert asked.prometheus.asked


async def test_no_text_of_an_object_leads_up_from_the_url_of_its_router() -> None:
    """The TrafficProvider's expression makes the path of the object, whatever the author of the object writes there."""
    cel = "'/routes/' + object.metadata.annotations['path']"
    answers = [{"body": {"weight": 10}, "live": True}, {"body": {"weight": 0}, "live": False}]
    async with servers() as asked:
        http = {"url": f"{asked.router.url()}/api", "path": {"cel": cel}}
        live = {"http": http, "cel": "body.weight == want"}
        test = {**APISIX["tests"][0], "answers": answers}
        for part in ("object", "result"):
            test[part] = {**test[part], "metadata": {"annotations": {"path": "cart"}}}
        probe = declared({**APISIX, "live": live, "tests": [test]}).live
        assert probe is not None
        probes = DeclaredProbes(None, bounded=Here(), clock=SystemClock())
        async with contextlib.aclosing(probes):
            for text in ("cart", *(each.format(trap=asked.trap) for each in TEXTS), *ENCODED):
                thing = {"metadata": {"namespace": "shop", "name": "cart", "annotations": {"path": text}}}
                await probes.live(probe, replace(LIVE, objects=(thing,)), deadline_s=DEADLINE_S)
                asked.check(text)
        assert "/api/routes/cart" in asked.router.asked
        assert not any("%2e%2e" in each or ".." in each or "%252e" in each for each in asked.router.asked)

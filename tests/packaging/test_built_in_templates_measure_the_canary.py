"""Promise: of what a gateway's metrics say, its templates read the canary's part, as a real Prometheus evaluates them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.lab.binaries import LabUnavailable
from tests.lab.prometheus_history import prometheus_with
from tests.packaging.built_in_templates import query_of

LENGTH_S, STEP_S = 240, 15
RECORDED = Path(__file__).parents[1] / "probes" / "recorded"
ARGUMENTS = {"route": "web", "ingress": "web", "canary-service": "web-canary"}
P95_MS = 487.5
"""Of answers that all took between a quarter and half a second, as `histogram_quantile` takes them to be spread."""

Series = tuple[str, float]
"""A series as the exposition has it, and how much it grows in a second."""


class Told(NamedTuple):
    """What a product tells of one Service.

    Args:
        requests: their series, with a place for the code.
        durations: the series of the buckets, with a place for the limit.
        unit_ms: of the limits.
        good, bad: codes.
    """

    requests: str
    durations: str
    unit_ms: int = 1
    good: str = "200"
    bad: str = "500"


def _traefik_service(service: str) -> str:
    """The name that a real Traefik gave to a Service behind an HTTPRoute."""
    dump = json.loads((RECORDED / "traefik" / "httproute-weight-5.json").read_text(encoding="utf-8"))
    (name,) = [each for each in dump["raw"]["services"] if f"-svc-shop-{service}-" in each]
    return str(name)


def _envoy(cluster: str, namespace: str) -> Told:
    labels = f'job="envoy",envoy_cluster_name="{cluster}"'.replace("shop", namespace)
    requests = f'envoy_cluster_upstream_rq_xx{{{labels},envoy_response_code_class="%s"}}'
    return Told(requests, f'envoy_cluster_upstream_rq_time_bucket{{{labels},le="%s"}}', good="2", bad="5")


def _istio(service: str, namespace: str) -> Told:
    labels = f'reporter="source",destination_service_name="{service}",destination_service_namespace="{namespace}"'
    duration = f'istio_request_duration_milliseconds_bucket{{{labels},le="%s"}}'
    return Told(f'istio_requests_total{{{labels},response_code="%s"}}', duration)


def _traefik(label: str, name: str, namespace: str) -> Told:
    labels = f'{label}="{name}",method="GET"'.replace("shop", namespace)
    duration = f'traefik_service_request_duration_seconds_bucket{{{labels},le="%s"}}'
    return Told(f'traefik_service_requests_total{{{labels},code="%s"}}', duration, 1000)


def _nginx(canary: str, namespace: str) -> Told:
    labels = f'exported_namespace="{namespace}",exported_service="web",ingress="web",canary="{canary}"'
    duration = f'nginx_ingress_controller_request_duration_seconds_bucket{{{labels},le="%s"}}'
    return Told(f'nginx_ingress_controller_requests{{{labels},status="%s"}}', duration, 1000)


PRODUCTS: dict[str, tuple[str, Callable[[str, str], Told]]] = {
    "envoy-gateway": (
        "envoy-gateway",
        lambda namespace, side: _envoy(f"httproute/shop/web/rule/0/backend/{side == 'canary':d}", namespace),
    ),
    "contour": ("contour", lambda namespace, side: _envoy(f"shop_web-{side}_80", namespace)),
    "istio": ("istio", lambda namespace, side: _istio(f"web-{side}", namespace)),
    "traefik": ("traefik", lambda namespace, side: _traefik("service", _traefik_service(f"web-{side}"), namespace)),
    "traefik behind a target with labels": (
        "traefik",
        lambda namespace, side: _traefik("exported_service", _traefik_service(f"web-{side}"), namespace),
    ),
    "traefik with its own kinds": (
        "traefik",
        lambda namespace, side: _traefik("service", f"shop-web-{side}-80@kubernetescrd", namespace),
    ),
    "ingress-nginx": (
        "ingress-nginx",
        lambda namespace, side: _nginx(f"{namespace}-web-canary-80" if side == "canary" else "-", namespace),
    ),
}
"""The product in the template's name, and what it tells of one side of the pair in a namespace."""

NAMESPACES = {
    "mixed": {"canary": (0.9, 0.1), "stable": (0.0, 50.0)},
    "broken": {"canary": (0.0, 2.0), "stable": (50.0, 0.0)},
    "unasked": {"canary": (0.0, 0.0), "stable": (50.0, 0.0)},
}
"""Requests a second that are answered well, and with 500."""


def _series() -> Iterator[Series]:
    """A code that was never answered has no series."""
    for number, (_, told_in) in enumerate(PRODUCTS.values()):
        for kind, sides in NAMESPACES.items():
            for side, (good, bad) in sides.items():
                told = told_in(f"{kind}{number}", side)
                yield from ((told.requests % code, each) for code, each in ((told.good, good), (told.bad, bad)) if each)
                if side == "canary" and good + bad:
                    for limit_ms, grows in ((0, 0.0), (250, 0.0), (500, good + bad)):
                        yield told.durations % f"{limit_ms / told.unit_ms:g}", grows
                    yield told.durations % "+Inf", good + bad


def _exposition(now_s: float) -> str:
    samples = [
        f"{series} {grows * at_s:g} {int((now_s - LENGTH_S + at_s) * 1000)}\n"
        for series, grows in _series()
        for at_s in range(0, LENGTH_S + 1, STEP_S)
    ]
    return "".join([*samples, f"last_sample 1 {int(now_s * 1000)}\n"])


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, float]]:
    """The URL of a Prometheus that has scraped them all, and the time of the last sample."""
    now_s = time.time()
    try:
        with prometheus_with(_exposition(now_s), tmp_path_factory.mktemp("prometheus"), last="last_sample") as url:
            yield url, now_s
    except LabUnavailable as reason:
        pytest.skip(f"no real Prometheus: {reason}")


def _value(answered: tuple[str, float], query: str) -> float | None:
    """The one number of a query; None for none, or one that is not a number."""
    url, now_s = answered
    asked = f"{url}/api/v1/query?{urlencode({'query': query, 'time': now_s})}"
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - the loopback
        body: Mapping[str, Any] = json.load(answer)
    assert body["status"] == "success"
    values = [each["value"][1] for each in body["data"]["result"]]
    assert len(values) <= 1
    return float(values[0]) if values and values[0] != "NaN" else None


@pytest.mark.parametrize(
    ("kind", "rate", "latency"), [("mixed", 0.9, P95_MS), ("broken", 0.0, P95_MS), ("unasked", None, None)]
)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_template_measures_the_canary_alone(
    answered: tuple[str, float], name: str, kind: str, rate: float | None, latency: float | None
) -> None:
    """One that answers nothing but errors has no series of successes: its rate is 0, not unknown. Unasked it is unknown.

    The stable revision of the first namespace answers errors only, those of the others none: neither is seen.
    """
    arguments = {**ARGUMENTS, "namespace": f"{kind}{list(PRODUCTS).index(name)}"}
    product = PRODUCTS[name][0]

    found_rate = _value(answered, query_of(f"rollouts-success-rate-{product}", arguments))
    found_latency = _value(answered, query_of(f"rollouts-latency-{product}", arguments))

    assert found_rate == (rate if rate is None else pytest.approx(rate, abs=1e-6))
    assert found_latency == (latency if latency is None else pytest.approx(latency))

"""Promise: of what a gateway's metrics say, its templates read the canary's part, as a real Prometheus evaluates them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.packaging.built_in_templates import query_of
from tests.packaging.scraped import Scraped, scraped

LENGTH_S = 240
RECORDED = Path(__file__).parents[1] / "probes" / "recorded"
ARGUMENTS = {"route": "web", "ingress": "web", "canary-service": "web-canary"}
P95_MS = 487.5
"""Of answers that all took between a quarter and half a second, as `histogram_quantile` takes them to be spread."""


class Told(NamedTuple):
    """What a product tells of one Service."""

    requests: str  # series, with a place for the code
    durations: str  # the series of the buckets, with a place for the limit
    unit_ms: int = 1  # of the limits
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


def _series() -> Iterator[tuple[str, float, float]]:
    """A code that was never answered has no series."""
    for number, (_, told_in) in enumerate(PRODUCTS.values()):
        for kind, sides in NAMESPACES.items():
            for side, (good, bad) in sides.items():
                told = told_in(f"{kind}{number}", side)
                yield from (
                    (told.requests % code, 0.0, each) for code, each in ((told.good, good), (told.bad, bad)) if each
                )
                if side == "canary" and good + bad:
                    for limit_ms, grows in ((0, 0.0), (250, 0.0), (500, good + bad)):
                        yield told.durations % f"{limit_ms / told.unit_ms:g}", 0.0, grows
                    yield told.durations % "+Inf", 0.0, good + bad


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """It has scraped them all."""
    with scraped(tmp_path_factory.mktemp("prometheus"), _series(), length_s=LENGTH_S) as found:
        yield found


def _value(prometheus: Scraped, query: str) -> float | None:
    """The one number of a query; None for none, or one that is not a number."""
    values = [each["value"][1] for each in prometheus.found(query)]
    assert len(values) <= 1
    return float(values[0]) if values and values[0] != "NaN" else None


@pytest.mark.parametrize(
    ("kind", "rate", "latency"), [("mixed", 0.9, P95_MS), ("broken", 0.0, P95_MS), ("unasked", None, None)]
)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_template_measures_the_canary_alone(
    prometheus: Scraped, name: str, kind: str, rate: float | None, latency: float | None
) -> None:
    """One that answers nothing but errors has no series of successes: its rate is 0, not unknown. Unasked it is unknown.

    The stable revision of the first namespace answers errors only, those of the others none: neither is seen.
    """
    arguments = {**ARGUMENTS, "namespace": f"{kind}{list(PRODUCTS).index(name)}"}
    product = PRODUCTS[name][0]

    found_rate = _value(prometheus, query_of(f"rollouts-success-rate-{product}", arguments))
    found_latency = _value(prometheus, query_of(f"rollouts-latency-{product}", arguments))

    assert found_rate == (rate if rate is None else pytest.approx(rate, abs=1e-6))
    assert found_latency == (latency if latency is None else pytest.approx(latency))

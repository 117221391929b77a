"""Promise: the chart's ClusterAnalysisTemplates can be used as they are, and their page says how."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.core.analysis.metric import NoData
from rollouts.core.analysis.source import PodEvidence
from rollouts.core.promql import metrics_named_in, tokens_of
from rollouts.metrics.conditions import condition_of
from tests import build
from tests.linted import lint_text
from tests.packaging.built_in_templates import FILES, TEMPLATES, metric_of, query_of

PAGE = (Path(__file__).parents[2] / "docs" / "analysis-templates.md").read_text(encoding="utf-8")
PODS = "rollouts-steady-pods"
GIVEN = {"route": "web"}  # what the Rollout's spec cannot tell

READ = {
    "envoy-gateway": {"envoy_cluster_upstream_rq_xx", "envoy_cluster_upstream_rq_time_bucket"},
    "contour": {"envoy_cluster_upstream_rq_xx", "envoy_cluster_upstream_rq_time_bucket"},
    "istio": {"istio_requests_total", "istio_request_duration_milliseconds_bucket"},
    "traefik": {"traefik_service_requests_total", "traefik_service_request_duration_seconds_bucket"},
    "ingress-nginx": {"nginx_ingress_controller_requests", "nginx_ingress_controller_request_duration_seconds_bucket"},
}
ROUTED = {"nginx": {"stableIngress": "web"}}
STRATEGY = build.canary(canaryService="web-canary", stableService="web-stable", trafficRouting=ROUTED)
ROLLOUT = build.rollout(STRATEGY, namespace="shop")


def test_each_product_has_both() -> None:
    """The tests of each below would pass on an empty folder."""
    assert set(TEMPLATES) == {PODS} | {
        f"rollouts-{what}-{each}" for what in ("success-rate", "latency") for each in READ
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_has_no_problem(path: Path) -> None:
    """`rollouts lint` is what people judge their own by."""
    report = lint_text(path.read_text(encoding="utf-8"))

    assert report.problems == [] and report.advice == [] and report.counts.total() > 0


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_run_needs_nothing_but_what_the_rollout_does_not_say(name: str) -> None:
    """The Services and the namespace are in its spec; who must write them again writes the wrong ones in the end."""
    metric = metric_of(name, GIVEN, rollout=ROLLOUT)

    assert "{{" not in str(metric)
    assert metric.rules.effective_count is not None and metric.rules.interval_s is not None
    if name != PODS:
        assert metric.condition.success is not None
        condition_of(metric.condition.success, defaults=False)
        assert (metric.condition.no_data, metric.rules.failure_limit) == (NoData.INCONCLUSIVE, 1)
        # The rate's window: before it the numbers are those of the time before.
        assert metric.rules.initial_delay_s == 120.0


def test_without_a_count_it_is_measured_to_the_end() -> None:
    """The same templates serve a step and the background."""
    metric = metric_of(f"rollouts-success-rate-{min(READ)}", {"count": "0"}, rollout=ROLLOUT)

    assert metric.rules.effective_count is None


def test_pods_need_no_server() -> None:
    """What a canary can have for evidence on any cluster."""
    metric = metric_of(PODS, {"max-restarts": "1"})

    assert metric.source == PodEvidence(restarts_max=1)


@pytest.mark.parametrize("product", READ)
def test_queries_read_the_products_own_metrics(product: str) -> None:
    """Names as each product's documentation has them."""
    arguments = {**GIVEN, "namespace": "shop", "canary-service": "web-canary", "ingress": "web"}
    queries = [query_of(f"rollouts-{what}-{product}", arguments) for what in ("success-rate", "latency")]

    assert all(tokens_of(query) for query in queries)
    assert {name for query in queries for name in metrics_named_in(query)} == READ[product]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_and_its_page_say_what_it_needs(name: str) -> None:
    """Who lists templates with kubectl has no page beside them; the page has the defaults, which decide about updates."""
    described = TEMPLATES[name]["metadata"]["annotations"]["kubernetes.io/description"]

    assert "Prometheus must scrape" in described or name == PODS
    assert f"`{name}`" in PAGE
    for argument in TEMPLATES[name]["spec"]["args"]:
        rows = [line for line in PAGE.splitlines() if line.startswith(f"| `{argument['name']}` ")]
        assert rows
        assert any("value" not in argument or f"`{argument['value']}`" in row for row in rows)

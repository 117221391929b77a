"""A gateway's own counters decide about a canary: a real Prometheus scrapes Envoy, and no request is lost by what follows.

Envoy Gateway has both versions of a route in one cluster of its Envoy, so only its counters by address tell them apart, and which
address is which revision Prometheus knows from the pods that it scrapes. Times are counted for the cluster alone: at a quarter of
the requests, a slow version shows in the 95th percentile of all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateways.report import Case
from tests.gateways.routes import Manifest, through
from tests.gateways.shifting import APP_PORT, Shifting, finished
from tests.node.judged import STEPS
from tests.node.measuring import (
    ENOUGH,
    LATENCY,
    LONGEST_S,
    METRICS_PORT,
    SUCCESS_RATE,
    WINDOW,
    judged_by,
    metric,
    result_of,
    values,
)
from tests.node.traffic import ERROR
from tests.node.workload import NAME, new_version

pytestmark = pytest.mark.parametrize("route", [through("envoy-gateway", "HTTPRoute")], indirect=True)

_PODS = (
    'label_replace(up{namespace="{{args.namespace}}",revision="{{args.revision}}"},'
    f' "envoy_endpoint_address", "$1:{APP_PORT}", "instance", "(.*):{METRICS_PORT}")'
)
_GOOD, _BAD = (
    f"sum(rate(envoy_cluster_endpoint_rq_{kind}[{WINDOW}]) and on (envoy_endpoint_address) {_PODS})"
    for kind in ("success", "error")
)
_CLUSTER = f'envoy_cluster_name=~"httproute/{{{{args.namespace}}}}/{NAME}/.*"'
_LONGER = "15s"  # Envoy adds to its histograms every 5 s only
_TIMES = f"sum by (le) (rate(envoy_cluster_upstream_rq_time_bucket{{{_CLUSTER}}}[{_LONGER}]))"
TEMPLATE = judged_by(
    metric(SUCCESS_RATE, query=f"{_GOOD} / ({_GOOD} + {_BAD})", condition=f"result[0] >= {ENOUGH}"),
    metric(
        LATENCY,
        query=f"histogram_quantile(0.95, {_TIMES})",
        condition=f"result[0] <= {LONGEST_S * 1000:g}",
        initialDelay="12s",
    ),
)


def test_analyses_promote_a_good_version(measured: Shifting, cases: list[Case]) -> None:
    """Every measurement is a number, and those of the success rate are of the canary's requests."""
    run = updated(measured, cases, "a good version", "Healthy")

    assert run["status"]["phase"] == "Successful"
    assert values(result_of(run, SUCCESS_RATE))[-1] == 1
    assert 0 < values(result_of(run, LATENCY))[-1] <= LONGEST_S * 1000


def test_analyses_abort_a_version_with_five_percent_of_errors(measured: Shifting, cases: list[Case]) -> None:
    """The route is back at the stable version, and clients got no other errors than those that the app made."""
    run = updated(measured, cases, "5 % errors", "Aborted", errors_percent=5)

    assert_aborted(measured, run, SUCCESS_RATE)
    assert 0.9 < values(result_of(run, SUCCESS_RATE))[-1] < ENOUGH
    assert measured.outcome.failed[ERROR] > 0


def test_analyses_abort_a_slow_version(measured: Shifting, cases: list[Case]) -> None:
    """All answers are right, and a quarter of them takes a second."""
    run = updated(measured, cases, "a slow version", "Aborted", work="1s")

    assert_aborted(measured, run, LATENCY)
    assert values(result_of(run, LATENCY))[-1] > LONGEST_S * 1000


def updated(measured: Shifting, cases: list[Case], name: str, phase: str, **version: Any) -> Manifest:
    """The only AnalysisRun of an update to such a version, which lost no request until it was in that phase."""
    measured.stage.apply(TEMPLATE)
    measured.set_up(STEPS)
    measured.update(lambda moment: finished(moment, phase), version=new_version("2", **version))
    cases.append(measured.case(f"analysis: {name}"))
    assert measured.failed == 0, measured.lost
    (run,) = measured.stage.all("analysisruns")
    return run


def assert_aborted(measured: Shifting, run: Manifest, name: str) -> None:
    """By the analysis, for this metric, and no request goes to the canary once the route is back."""
    last = measured.moments[-1]
    assert run["status"]["phase"] == "Failed"
    assert result_of(run, name)["phase"] == "Failed"
    assert run["metadata"]["name"] in last.rollout["status"]["message"]
    assert max(moment.live_weight or 0 for moment in measured.moments) == 25
    assert measured.answers_after(last.at, "2") == 0

"""A gateway's own counters decide about a canary: a real Prometheus scrapes Envoy, and no request is lost by what follows.

Envoy Gateway has both versions of a route in one cluster of its Envoy, so only its counters by address tell them apart, and which
address is which revision Prometheus knows from the pods that it scrapes. Times are counted for the cluster alone: at a quarter of
the requests, a slow version shows in the 95th percentile of all of them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tests.gateways.report import Case
from tests.gateways.routes import Manifest, through
from tests.gateways.shifting import APP_PORT, Moment, Shifting, finished
from tests.lab.prometheus_server import Prometheus
from tests.node.judged import DOWN_S, STEPS
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

ALL = [through("envoy-gateway", "HTTPRoute")]
Measured = tuple[Shifting, Prometheus]

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


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_analyses_promote_a_good_version(measured: Measured, cases: list[Case]) -> None:
    """Every measurement is a number, and those of the success rate are of the canary's requests."""
    shifting, _ = measured
    set_up(shifting)

    shifting.update(lambda moment: finished(moment, "Healthy"))

    cases.append(shifting.case("analysis: a good version"))
    run = run_of(shifting)
    assert shifting.failed == 0, shifting.lost
    assert run["status"]["phase"] == "Successful"
    assert values(result_of(run, SUCCESS_RATE))[-1] == 1
    assert 0 < values(result_of(run, LATENCY))[-1] <= LONGEST_S * 1000


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_analyses_abort_a_version_with_five_percent_of_errors(measured: Measured, cases: list[Case]) -> None:
    """The route is back at the stable version, and clients got no other errors than those that the app made."""
    shifting, _ = measured
    set_up(shifting)

    shifting.update(lambda moment: finished(moment, "Aborted"), version=new_version("2", errors_percent=5))

    cases.append(shifting.case("analysis: 5 % errors"))
    assert shifting.failed == 0, shifting.lost
    assert_aborted(shifting, SUCCESS_RATE)
    assert 0.9 < values(result_of(run_of(shifting), SUCCESS_RATE))[-1] < ENOUGH
    assert shifting.outcome is not None
    assert shifting.outcome.failed[ERROR] > 0


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_analyses_abort_a_slow_version(measured: Measured, cases: list[Case]) -> None:
    """All answers are right, and a quarter of them takes a second."""
    shifting, _ = measured
    set_up(shifting)

    shifting.update(lambda moment: finished(moment, "Aborted"), version=new_version("2", work="1s"))

    cases.append(shifting.case("analysis: a slow version"))
    assert shifting.failed == 0, shifting.lost
    assert_aborted(shifting, LATENCY)
    assert values(result_of(run_of(shifting), LATENCY))[-1] > LONGEST_S * 1000


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_analyses_outlive_a_prometheus_that_is_not_always_there(measured: Measured, cases: list[Case]) -> None:
    """It is away while the analysis runs, and what counts is measured when it is back."""
    shifting, prometheus = measured
    away: list[float] = []

    def seen(moment: Moment) -> bool:
        if waits_for(moment, "AnalysisRunning") and not away:
            away.append(moment.at)
            prometheus.stop()
            threading.Event().wait(DOWN_S)
            prometheus.start()
        return finished(moment, "Healthy")

    set_up(shifting)
    shifting.update(seen)

    cases.append(shifting.case("analysis: Prometheus restarts"))
    run = run_of(shifting)
    assert shifting.failed == 0, shifting.lost
    assert run["status"]["phase"] == "Successful"
    assert result_of(run, SUCCESS_RATE)["error"] > 0, "it was noticed"


@pytest.mark.parametrize("route", ALL, indirect=True)
def test_analyses_hold_an_update_when_prometheus_is_gone_for_good(measured: Measured, cases: list[Case]) -> None:
    """The weight stays what it is until a person decides; here that is an abort."""
    shifting, prometheus = measured
    held: list[Moment] = []

    def seen(moment: Moment) -> bool:
        if waits_for(moment, "AnalysisRunning"):
            prometheus.stop()
        if waits_for(moment, "AnalysisInconclusive") and not held:
            held.append(moment)
            shifting.stage.annotate(NAME, "abort", "true")
        return finished(moment, "Aborted")

    set_up(shifting)
    shifting.update(seen)

    cases.append(shifting.case("analysis: Prometheus ends"))
    assert shifting.failed == 0, shifting.lost
    assert held[0].rollout["status"]["phase"] == "Paused"
    assert held[0].live_weight == 25
    assert max(weights(shifting)) == 25
    assert run_of(shifting)["status"]["phase"] == "Error"


def set_up(shifting: Shifting) -> None:
    """The template, and the Rollout that asks for it at a quarter of the requests."""
    shifting.stage.apply(TEMPLATE)
    shifting.set_up(STEPS)


def run_of(shifting: Shifting) -> Manifest:
    """The only AnalysisRun."""
    (one,) = shifting.stage.all("analysisruns")
    return one


def waits_for(moment: Moment, reason: str) -> bool:
    """Whether status says so."""
    return bool((moment.rollout["status"].get("waitingFor") or {}).get("reason") == reason)


def weights(shifting: Shifting) -> Sequence[float]:
    """All that were live."""
    return [moment.live_weight for moment in shifting.moments if moment.live_weight is not None]


def assert_aborted(shifting: Shifting, name: str) -> None:
    """By the analysis, for this metric, and no request goes to the canary once the route is back."""
    run, last = run_of(shifting), shifting.moments[-1]
    assert run["status"]["phase"] == "Failed"
    assert result_of(run, name)["phase"] == "Failed"
    assert run["metadata"]["name"] in last.rollout["status"]["message"]
    assert max(weights(shifting)) == 25
    assert shifting.answers_after(last.at, "2") == 0

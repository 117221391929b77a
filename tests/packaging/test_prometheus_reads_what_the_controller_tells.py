"""The whole way to an alert with a name: the controller's page, a real scrape as by the ServiceMonitor, and the chart's rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rollouts.core.model.status import Phase, RolloutStatus
from rollouts.objects import Key
from rollouts.telemetry import Telemetry
from tests.lab import binaries
from tests.lab.binaries import LabUnavailable
from tests.lab.loopback import answering, wait_for
from tests.lab.processes import Processes, free_ports
from tests.lab.prometheus_server import NAME, Prometheus
from tests.packaging.test_the_chart_can_be_adapted import ALERTS

CART = Key("shop", "cart")
HOSTILE = 'x"} 1\nup{job="y'


@pytest.fixture
def telemetry() -> Telemetry:
    """A controller's, that may name two Rollouts."""
    return Telemetry(rollout_series=2)


@pytest.fixture
def prometheus(telemetry: Telemetry, tmp_path: Path) -> Iterator[Prometheus]:
    """It scrapes that controller, with the labels that a ServiceMonitor gives, and has the chart's rules without their waits."""
    text = ALERTS.read_text().replace("JOB", "rollouts-metrics").replace("NAMESPACE", "rollouts-system")
    alerts: dict[str, Any] = yaml.safe_load(text)
    for group in alerts["groups"]:
        group["interval"] = "1s"
        for rule in group["rules"]:
            rule["for"] = "0s"
    rules = tmp_path / "alerts.yaml"
    rules.write_text(json.dumps(alerts))
    try:
        program = binaries.folder(programs=(binaries.PROMETHEUS,)) / NAME
    except LabUnavailable as reason:
        pytest.skip(f"no real Prometheus: {reason}")
    with answering(lambda _: (200, telemetry.exposition().decode())) as port:
        targets = {"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "rollouts-system", "pod": "a"}}
        jobs = [{"job_name": "rollouts-metrics", "static_configs": [targets]}]
        server = Prometheus(
            Processes(tmp_path), program=program, home=tmp_path, port=free_ports(1)[0], jobs=jobs, rules=[rules]
        )
        with server.running():
            yield server


def _summaries(prometheus: Prometheus) -> set[str]:
    rules = (rule for group in prometheus.rule_groups() for rule in group["rules"] if rule["name"] == "RolloutDegraded")
    return {alert["annotations"]["summary"] for rule in rules for alert in rule["alerts"]}


def test_an_alert_by_name_comes_and_goes_with_the_phase(telemetry: Telemetry, prometheus: Prometheus) -> None:
    """A series that stayed after its phase would keep the alert for ever; a name must not break the page for the others."""
    degraded, named = RolloutStatus(phase=Phase.DEGRADED), "Rollout cart in shop: Degraded for 15 minutes"
    telemetry.show(CART, degraded)
    telemetry.show(Key("lab", HOSTILE), RolloutStatus(phase=Phase.HEALTHY))
    wait_for(lambda: _summaries(prometheus) == {named}, "the alert", prometheus.processes)
    (hostile,) = prometheus.query('rollouts_info{exported_namespace="lab"}')
    assert hostile["metric"]["name"] == HOSTILE

    telemetry.show(Key("shop", "late"), degraded)
    without = "Rollouts in shop: Degraded for 15 minutes"
    wait_for(lambda: _summaries(prometheus) == {named, without}, "the one without a series", prometheus.processes)

    telemetry.show(CART, RolloutStatus(phase=Phase.HEALTHY))
    wait_for(lambda: _summaries(prometheus) == {without}, "the end of the alert", prometheus.processes)

    telemetry.show(Key("lab", HOSTILE), None)
    late = "Rollout late in shop: Degraded for 15 minutes"
    wait_for(lambda: _summaries(prometheus) == {late}, "its name, in the place that is free", prometheus.processes)

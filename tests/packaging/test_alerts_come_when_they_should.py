"""The chart's alerts, asked of a real Prometheus with the history of a controller that is ill, and of one that is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.packaging.scraped import Scraped, scraped
from tests.packaging.test_the_chart_can_be_adapted import ALERTS

LENGTH_S = 1_200
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]

# What a controller tells: the series, and its value as (at the start, growth a second). A release is told by its namespace.
ILL = {
    'rollouts_leader{pod="a"}': (0.0, 0.0),
    'rollouts_watch_age_seconds{pod="a",resource="rollouts"}': (400.0, 0.0),
    'rollouts_pass_errors_total{pod="a",error="ApiForbidden"}': (0.0, 1.0),
    'rollouts_api_requests_total{pod="a",verb="patch",resource="virtualservices",code="403"}': (0.0, 1.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Aborted"}': (1.0, 0.0),
}
WELL = {
    'up{pod="a"}': (1.0, 0.0),
    'rollouts_leader{pod="a"}': (1.0, 0.0),
    'rollouts_leader{pod="b"}': (0.0, 0.0),
    'rollouts_watch_age_seconds{pod="a",resource="rollouts"}': (59.0, 0.0),
    'rollouts_pass_errors_total{pod="a",error="ApiConflict"}': (3.0, 0.0),
    'rollouts_api_requests_total{pod="a",verb="patch",resource="services",code="200"}': (0.0, 1.0),
    'rollouts_api_requests_total{pod="a",verb="patch",resource="services",code="403"}': (2.0, 0.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Paused"}': (1.0, 0.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Degraded"}': (0.0, 0.0),
}


def _of_release(series: str, release: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{exported_job="JOB",namespace="{release}",{labels}'


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """It has scraped both releases."""
    series = (
        (_of_release(each, release), start, grows)
        for release, told in (("ill", ILL), ("well", WELL))
        for each, (start, grows) in told.items()
    )
    with scraped(tmp_path_factory.mktemp("prometheus"), series, length_s=LENGTH_S) as found:
        yield found


def _raised(prometheus: Scraped, expression: str, release: str) -> list[dict[str, str]]:
    """The labels of what the expression finds; the history's job is `exported_job`, as a scrape gives its own."""
    query = expression.replace('job="JOB"', 'exported_job="JOB"').replace("NAMESPACE", release)
    return [each["metric"] for each in prometheus.found(query)]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_is_raised_by_what_it_tells_of_and_by_nothing_else(prometheus: Scraped, rule: dict[str, Any]) -> None:
    """One that never comes is worse than none; one that comes on a healthy cluster is switched off."""
    raised = _raised(prometheus, rule["expr"], "ill")

    assert len(raised) == 1
    assert _raised(prometheus, rule["expr"], "well") == []
    named = {word.partition(" ")[0] for word in str(rule["annotations"]).split("$labels.")[1:]}
    assert {name.partition("}")[0] for name in named} <= raised[0].keys()

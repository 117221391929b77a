"""The chart's alerts, asked of a real Prometheus with the history of a controller that is ill, and of one that is well."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from rollouts.core.context.waits import PAUSES
from tests.lab.chart import CHART
from tests.packaging.scraped import Scraped, scraped
from tests.packaging.test_the_chart_can_be_adapted import ALERTS

LENGTH_S = 1_200
DOCS = CHART.parents[1] / "docs"
PAGE = (DOCS / "alerts.md").read_text()
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]

# What a controller tells: the series, and its value as (at the start, growth a second). A release is told by its namespace.
ILL = {
    'rollouts_leader{pod="a"}': (0.0, 0.0),
    'rollouts_credentials_refused{pod="a"}': (1.0, 0.0),
    'rollouts_unreadable_objects{pod="a",resource="rollouts"}': (2.0, 0.0),
    'rollouts_queue_depth{pod="a"}': (7.0, 0.0),
    'rollouts_watch_age_seconds{pod="a",resource="rollouts"}': (400.0, 0.0),
    'rollouts_pass_errors_total{pod="a",error="ApiForbidden"}': (0.0, 1.0),
    'rollouts_api_requests_total{pod="a",verb="patch",resource="virtualservices",code="403"}': (0.0, 1.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Degraded"}': (1.0, 0.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Aborted"}': (2.0, 0.0),
    'rollouts_info{pod="a",exported_namespace="shop",name="cart",phase="Paused",reason="PromotionNeeded"}': (1.0, 0.0),
    'rollouts_info_limit{pod="a"}': (1.0, 0.0),
    'rollouts_info_omitted{pod="a"}': (3.0, 0.0),
}
WELL = {
    'up{pod="a"}': (1.0, 0.0),
    'rollouts_leader{pod="a"}': (1.0, 0.0),
    'rollouts_leader{pod="b"}': (0.0, 0.0),
    'rollouts_credentials_refused{pod="a"}': (0.0, 0.0),
    'rollouts_unreadable_objects{pod="a",resource="rollouts"}': (0.0, 0.0),
    'rollouts_queue_depth{pod="a"}': (-1_000.0, 1.0),  # not over 0 all the time
    'rollouts_watch_age_seconds{pod="a",resource="rollouts"}': (59.0, 0.0),
    'rollouts_pass_errors_total{pod="a",error="ApiConflict"}': (3.0, 0.0),
    'rollouts_api_requests_total{pod="a",verb="patch",resource="services",code="200"}': (0.0, 1.0),
    'rollouts_api_requests_total{pod="a",verb="patch",resource="services",code="403"}': (2.0, 0.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Paused"}': (1.0, 0.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Degraded"}': (0.0, 0.0),
    'rollouts_info{pod="a",exported_namespace="shop",name="cart",phase="Paused",reason="TimedPause"}': (1.0, 0.0),
    'rollouts_info{pod="a",exported_namespace="shop",name="till",phase="Paused",reason="AutoPromotion"}': (1.0, 0.0),
    'rollouts_info{pod="a",exported_namespace="shop",name="web",phase="Healthy",reason="Healthy"}': (1.0, 0.0),
    'rollouts_info_limit{pod="a"}': (3.0, 0.0),
    'rollouts_info_omitted{pod="a"}': (0.0, 0.0),
}
# Three of four have a series; one of the Degraded ones has none.
NAMED = {
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Degraded"}': (2.0, 0.0),
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Aborted"}': (1.0, 0.0),
    'rollouts_phase{pod="a",exported_namespace="lab",phase="Degraded"}': (1.0, 0.0),
    'rollouts_info{pod="a",exported_namespace="shop",name="cart",phase="Degraded",reason="ServiceNotFound"}': (
        1.0,
        0.0,
    ),
    'rollouts_info{pod="a",exported_namespace="shop",name="till",phase="Aborted",reason="RolloutAborted"}': (1.0, 0.0),
    'rollouts_info{pod="a",exported_namespace="lab",name="cart",phase="Degraded",reason="InvalidSpec"}': (1.0, 0.0),
}
# Off is the default: nothing is told by name.
OFF = {
    'rollouts_phase{pod="a",exported_namespace="shop",phase="Degraded"}': (1.0, 0.0),
    'rollouts_info_limit{pod="a"}': (0.0, 0.0),
    'rollouts_info_omitted{pod="a"}': (2.0, 0.0),
}
RELEASES = {"ill": ILL, "well": WELL, "named": NAMED, "off": OFF}


def _of_release(series: str, release: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{exported_job="JOB",namespace="{release}",{labels}'


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """It has scraped all releases, and its rules are those of each."""
    series = (
        (_of_release(each, release), start, grows)
        for release, told in RELEASES.items()
        for each, (start, grows) in told.items()
    )
    home = tmp_path_factory.mktemp("prometheus")
    rules = [home / f"{release}.yaml" for release in RELEASES]
    for file in rules:
        at_once = [{**rule, "expr": _of(file.stem, rule["expr"]), "for": "0s"} for rule in RULES]
        labelled = [{**rule, "labels": {**rule["labels"], "release": file.stem}} for rule in at_once]
        file.write_text(json.dumps({"groups": [{"name": file.stem, "interval": "1s", "rules": labelled}]}))
    with scraped(home, series, length_s=LENGTH_S, rules=rules) as found:
        yield found


@pytest.fixture(scope="module")
def alerts(prometheus: Scraped) -> list[dict[str, Any]]:
    """What the rules raise, with their words filled in."""
    return prometheus.alerts()


def _of(release: str, expression: str) -> str:
    """The expression of that release; the history's job is `exported_job`, as a scrape gives its own."""
    return expression.replace('job="JOB"', 'exported_job="JOB"').replace("NAMESPACE", release)


def _raised(prometheus: Scraped, expression: str, release: str, *, later_s: float = 0.0) -> list[dict[str, str]]:
    """The labels of what the expression finds."""
    return [each["metric"] for each in prometheus.found(_of(release, expression), later_s=later_s)]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_is_raised_by_what_it_tells_of_and_by_nothing_else(prometheus: Scraped, rule: dict[str, Any]) -> None:
    """One that never comes is worse than none; one that comes on a healthy cluster is switched off."""
    raised = _raised(prometheus, rule["expr"], "ill")

    assert len(raised) == 1
    assert _raised(prometheus, rule["expr"], "well") == []
    named = set(re.findall(r"\$labels\.(\w+)", re.sub(r"{{ with .*?{{ end }}", "", str(rule["annotations"]))))
    assert named <= raised[0].keys()


@pytest.mark.parametrize(
    ("alert", "release", "told"),
    [
        (
            "RolloutDegraded",
            "named",
            [
                "Rollout cart in lab: Degraded for 15 minutes",
                "Rollout cart in shop: Degraded for 15 minutes",
                "Rollouts in shop: Degraded for 15 minutes",
            ],
        ),
        ("RolloutDegraded", "off", ["Rollouts in shop: Degraded for 15 minutes"]),
        ("RolloutAborted", "named", ["Rollout till in shop: update aborted"]),
        ("RolloutAborted", "off", []),
        ("RolloutsInfoOmitted", "off", []),
        ("RolloutsInfoOmitted", "ill", ["3 Rollouts have no series rollouts_info"]),
    ],
)
def test_an_alert_names_the_rollout_where_it_has_a_series(
    alerts: list[dict[str, Any]], alert: str, release: str, told: list[str]
) -> None:
    """Somebody who is woken should not begin with a search; those without a series are told by namespace, never left out."""
    raised = [each for each in alerts if (each["labels"]["alertname"], each["labels"]["release"]) == (alert, release)]

    assert sorted(each["annotations"]["summary"] for each in raised) == told


def test_what_a_page_says_to_alert_on_has_an_alert() -> None:
    """The page named metrics for which nobody was woken."""
    rows = re.findall(r"^\| `(rollouts_\w+)", (DOCS / "concepts.md").read_text(), re.MULTILINE)

    assert len(rows) >= 7
    assert [metric for metric in rows if not any(metric in rule["expr"] for rule in RULES)] == []


def test_an_abort_wakes_nobody() -> None:
    """The stable revision serves: it is a message, while Degraded needs a person."""
    severity = {rule["alert"]: rule["labels"]["severity"] for rule in RULES}

    assert (severity["RolloutAborted"], severity["RolloutPausedForADay"]) == ("info", "info")
    assert severity["RolloutDegraded"] == "warning"


def test_a_day_of_waiting_does_not_begin_again_with_a_new_leader(prometheus: Scraped) -> None:
    """The series are gone until the next process leads, and a gap resets what Prometheus has waited for."""
    rule = next(rule for rule in RULES if rule["alert"] == "RolloutPausedForADay")
    (series,) = (each for each in ILL if "PromotionNeeded" in each)

    assert _raised(prometheus, series, "ill", later_s=400) == []
    assert len(_raised(prometheus, rule["expr"], "ill", later_s=400)) == 1
    assert _raised(prometheus, rule["expr"], "ill", later_s=700) == []


def test_pauses_that_the_clock_ends_wait_for_nobody() -> None:
    """The alert leaves out two reasons by name; the core knows which they are."""
    rule = next(rule for rule in RULES if rule["alert"] == "RolloutPausedForADay")
    (left_out,) = re.findall(r'reason!~"([\w|]+)"', rule["expr"])

    assert set(left_out.split("|")) <= {reason.value for reason in PAUSES}


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_page_says_what_to_do_about_each_alert(rule: dict[str, Any]) -> None:
    """`runbook_url` leads to its heading; a reader at night finds a command there."""
    _, _, found = PAGE.partition(f"\n## {rule['alert']}\n")
    section = found.partition("\n## ")[0]

    assert "`" in section, "no heading, or no command below it"


def test_the_page_is_about_no_alert_that_is_gone() -> None:
    """In their order, so that the page can be read along with the rules."""
    assert re.findall(r"^## (Rollout\w+)$", PAGE, re.MULTILINE) == [rule["alert"] for rule in RULES]

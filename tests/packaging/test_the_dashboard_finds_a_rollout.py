"""The dashboard's questions, asked of a real Prometheus: every panel has an answer, and the table finds a Rollout by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rollouts.telemetry import Telemetry
from tests.packaging.scraped import Scraped, scraped
from tests.packaging.test_the_chart_can_be_adapted import DASHBOARD

MODEL: dict[str, Any] = json.loads(DASHBOARD.read_text())
VARIABLES: dict[str, dict[str, Any]] = {each["name"]: each for each in MODEL["templating"]["list"]}
PANELS: dict[str, dict[str, Any]] = {panel["title"]: panel for panel in MODEL["panels"]}
TABLE = PANELS["Rollouts by name"]
(TABLE_QUERY,) = TABLE["targets"]
JOB = 'exported_job="rollouts-metrics"'  # a scrape gives its own
SERIES = [
    ("shop", "cart", "Degraded", "ServiceNotFound"),
    ("shop", "till", "Healthy", "Healthy"),
    ("lab", "cart", "Paused", "PromotionNeeded"),
]
EVERYTHING = {"job": "rollouts.*", "namespace": ".*", "name": ".*", "__rate_interval": "5m"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """It has scraped a leader with three Rollouts by name, and the standby."""
    lines = [
        f'rollouts_info{{{JOB},pod="a",exported_namespace="{namespace}",name="{name}",phase="{phase}",reason="{reason}"}}'
        for namespace, name, phase, reason in SERIES
    ]
    lines += [f'rollouts_info_limit{{{JOB},pod="{pod}"}}' for pod in "ab"]
    lines.append(f'rollouts_phase{{{JOB},pod="a",exported_namespace="shop",phase="Degraded"}}')
    lines.append(f'rollouts_experiment_phase{{{JOB},pod="a",exported_namespace="shop",phase="Failed"}}')
    with scraped(tmp_path_factory.mktemp("prometheus"), ((line, 1.0, 0.0) for line in lines), length_s=60) as found:
        yield found


def _asked(query: str, **chosen: str) -> str:
    """The query with its variables filled in, as Grafana does it; the history's job is `exported_job`."""
    filled = re.sub(r"\$(\w+)", lambda variable: (EVERYTHING | chosen)[variable[1]], query)
    return filled.replace("{job=", "{exported_job=")


def _rows(prometheus: Scraped, **chosen: str) -> set[tuple[str, ...]]:
    found = (each["metric"] for each in prometheus.found(_asked(TABLE_QUERY["expr"], **chosen)))
    return {tuple(row[label] for label in ("exported_namespace", "name", "phase", "reason")) for row in found}


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [
        ({}, SERIES),
        ({"namespace": "lab"}, SERIES[2:]),
        ({"name": "cart"}, [SERIES[0], SERIES[2]]),
        ({"namespace": "(shop|lab)", "name": "till"}, [SERIES[1]]),
        ({"namespace": "lab", "name": "till"}, []),
    ],
)
def test_the_table_has_the_rollouts_that_were_chosen(
    prometheus: Scraped, chosen: dict[str, str], rows: list[tuple[str, ...]]
) -> None:
    """One row for each, whatever process told of it."""
    assert _rows(prometheus, **chosen) == set(rows)


@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS.keys())
def test_prometheus_understands_each_panel(prometheus: Scraped, panel: dict[str, Any]) -> None:
    """A query that is none shows a red corner and no numbers."""
    for target in panel["targets"]:
        prometheus.found(_asked(target["expr"]))


@pytest.mark.parametrize(("name", "label"), [("namespace", "exported_namespace"), ("name", "name")])
def test_a_list_offers_what_the_table_filters_by(prometheus: Scraped, name: str, label: str) -> None:
    """It has the values of the label, and All; without series All must still match the panels that count."""
    found = re.fullmatch(r"label_values\((.+), (\w+)\)", VARIABLES[name]["query"])
    assert found is not None and found[2] == label
    assert f'{label}=~"${name}"' in TABLE_QUERY["expr"]
    assert VARIABLES[name]["includeAll"] and VARIABLES[name]["multi"] and VARIABLES[name]["allValue"] == ".*"

    assert {each["metric"][label] for each in prometheus.found(_asked(found[1]))} <= {"shop", "lab", "cart", "till"}
    assert prometheus.found(_asked(found[1]))


def test_the_dashboard_says_that_the_series_are_off() -> None:
    """An empty table would look like a cluster without Rollouts."""
    telemetry = Telemetry()
    limit = PANELS["Limit of series by name"]
    off = limit["fieldConfig"]["defaults"]["mappings"][0]["options"]["0"]["text"]

    assert "rollouts_info_limit 0.0" in telemetry.exposition().decode()
    assert limit["targets"][0]["expr"].startswith("max(rollouts_info_limit{")
    assert off.startswith("off")
    assert "metrics.rolloutSeries" in TABLE["fieldConfig"]["defaults"]["noValue"]
    assert "rollouts_info_omitted" in PANELS["Rollouts without a series"]["targets"][0]["expr"]


def test_columns_are_named_as_people_name_them() -> None:
    """`exported_namespace`, the time and the value 1 say nothing to the reader."""
    (organize,) = (each["options"] for each in TABLE["transformations"] if each["id"] == "organize")

    assert TABLE_QUERY["format"] == "table" and TABLE_QUERY["instant"] is True
    assert organize["excludeByName"] == {"Time": True, "Value": True}
    assert organize["renameByName"] == {"exported_namespace": "namespace"}

"""Promise: templates that an installation gives to the controller are created once, and never changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from rollouts.api.schema import crd_manifests
from rollouts.core.model.frozen import replace
from rollouts.objects import CLUSTER_ANALYSIS_TEMPLATE
from rollouts.settings import MetricSettings, Settings
from tests import build
from tests.controller.analysis.stage import CONTROLLER, Stage, analysis_run

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

NAMES = ("latency", "success-rate")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two templates, as the chart's ConfigMap is mounted."""
    for name in NAMES:
        one = build.manifest(CLUSTER_ANALYSIS_TEMPLATE, name, spec={"metrics": []})
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    return tmp_path


def settings(folder: Path) -> Settings:
    """A controller that is given the folder."""
    return replace(CONTROLLER, metrics=MetricSettings(templates=folder))


def names(stage: Stage) -> list[str]:
    """Of the templates in the cluster."""
    return sorted(one["metadata"]["name"] for one in stage.cluster.list(CLUSTER_ANALYSIS_TEMPLATE))


@pytest.mark.parametrize("crds", [()], ids=["without"])
async def test_they_are_created_as_soon_as_their_kind_is_served(stage: Stage, folder: Path) -> None:
    """The API server needs a second for a new kind, or five where there are several of it."""
    stage.cluster.apply(crd_manifests()[0])
    async with stage.controller(settings=settings(folder)):
        await asyncio.sleep(30)
        assert names(stage) == []
        for crd in crd_manifests()[1:]:
            stage.cluster.apply(crd)
        await asyncio.sleep(60)

    assert names(stage) == list(NAMES)


async def test_one_that_is_there_stays_as_it_is(stage: Stage, folder: Path) -> None:
    """Somebody may have changed it; an upgrade of the chart is what sets it back."""
    changed = build.manifest(CLUSTER_ANALYSIS_TEMPLATE, NAMES[0], spec={"metrics": [], "args": [{"name": "mine"}]})
    stage.cluster.apply(changed)
    before = stage.cluster.get(CLUSTER_ANALYSIS_TEMPLATE, "", NAMES[0])

    async with stage.controller(settings=settings(folder)):
        await asyncio.sleep(30)

    assert names(stage) == list(NAMES)
    assert stage.cluster.get(CLUSTER_ANALYSIS_TEMPLATE, "", NAMES[0]) == before


async def test_one_that_cannot_be_read_stops_nothing(stage: Stage, folder: Path) -> None:
    """Runs are carried out all the same, and the log says what helps."""
    (folder / "a.json").write_text("{")
    with capture_logs() as logs:
        async with stage.controller(settings=settings(folder)):
            stage.cluster.apply(analysis_run())
            assert await stage.until_over(within_s=60) == "Successful"

    assert [line["remedy"] for line in logs if line["event"] == "templates_unreadable"] == [
        "upgrade the chart's release"
    ]

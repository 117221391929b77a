"""Promise: a MetricProvider without what its kind of server needs, or with a recipe that is none, is told so with the path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollouts.controller.providers.declarations import server_of
from rollouts.errors import SpecInvalid
from tests.metrics.servers.declared import RECIPE

URL = "https://it.example"


def _answer(**changes: Any) -> dict[str, Any]:
    return {"recipe": {**RECIPE, "answer": {**RECIPE["answer"], **changes}}}


def _request(**changes: Any) -> dict[str, Any]:
    return {"recipe": {**RECIPE, "request": {**RECIPE["request"], **changes}}}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"type": "datadog"}, "spec.headers"),
        ({"type": "datadog", "headers": [{"name": "dd-api-key", "value": "a"}]}, "spec.headers"),
        ({"type": "newRelic", "headers": [{"name": "API-Key", "value": "a"}]}, "spec.settings.accountId"),
        (
            {"type": "newRelic", "headers": [{"name": "API-Key", "value": "a"}], "settings": {"accountId": "mine"}},
            "spec.settings.accountId",
        ),
        ({"type": "influxdb"}, "spec.settings.org"),
        ({"type": "graphite", "settings": {"org": "a"}}, "spec.settings.org"),
        ({"settings": {"org": "a"}}, "spec.settings.org"),
        (_request(path="api"), "spec.recipe.request.path"),
        (_request(path="/api/%2e%2e/x"), "spec.recipe.request.path"),
        (_request(path="/api?x=1"), "spec.recipe.request.path"),
        (_request(headers=[{"name": "Host", "value": "a"}]), "spec.recipe.request"),
        (_answer(result="items[x]"), "spec.recipe.answer.result"),
        (_answer(refused=["errors", "a["]), "spec.recipe.answer.refused[1]"),
        (_answer(whole=[{"path": "a b", "values": []}]), "spec.recipe.answer.whole[0].path"),
        (_answer(times=""), "spec.recipe.answer.times"),
    ],
)
def test_what_is_missing_has_its_path(spec: dict[str, Any], path: str) -> None:
    """Before anything is measured with it."""
    with pytest.raises(SpecInvalid) as refused:
        server_of("it", {"url": URL, **spec}, folder=Path("/nowhere"), taken=False)

    assert [problem.path for problem in refused.value.problems] == [path]


@pytest.mark.parametrize(
    "host", ["metadata.google.internal", "METADATA.goog.", "169.254.169.254", "[fd00:ec2::254]", "168.63.129.16"]
)
def test_a_metadata_service_is_refused_by_name(host: str) -> None:
    """As the server, and as what gives tokens for one; before anything connects to it."""
    oauth = {"tokenUrl": f"http://{host}/token", "clientId": "a", "clientSecret": {"file": "/nowhere/a"}}
    for spec, path in (({"url": f"http://{host}"}, "spec.url"), ({"oauth2": oauth}, "spec.oauth2.tokenUrl")):
        with pytest.raises(SpecInvalid) as refused:
            server_of("it", {"url": URL, **spec}, folder=Path("/nowhere"), taken=False)

        (problem,) = refused.value.problems
        assert problem.path == path
        assert "metadata service" in problem.message


def test_a_recipe_that_is_whole_is_taken() -> None:
    """Else nothing above would mean anything."""
    assert server_of("it", {"url": URL, "recipe": RECIPE}, folder=Path("/nowhere"), taken=False).recipe is not None

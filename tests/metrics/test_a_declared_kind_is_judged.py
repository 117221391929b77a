"""Promise: a MetricProvider without what its kind of server needs, or with a recipe that is none, is told so with the path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rollouts.controller.providers.declarations import server_of
from rollouts.core.analysis.metric_server import InFile
from rollouts.errors import SpecInvalid
from tests.metrics.servers.declared import RECIPE

URL = "https://it.example"


def _answer(**changes: Any) -> dict[str, Any]:
    return {"recipe": {**RECIPE, "answer": {**RECIPE["answer"], **changes}}}


def _request(**changes: Any) -> dict[str, Any]:
    return {"recipe": {**RECIPE, "request": {**RECIPE["request"], **changes}}}


NO_PATH = "must begin with / and have no query, no # and no '..'"
HEADERS = "must have {}: {} knows its clients by them"
KEY = {"headers": [{"name": "API-Key", "value": "a"}]}
SIGNED = {"type": "cloudWatch", "bearer": {"file": "/nowhere/token"}}


@pytest.mark.parametrize(
    ("spec", "path", "why"),
    [
        ({"type": "datadog"}, "spec.headers", HEADERS.format("DD-API-KEY and DD-APPLICATION-KEY", "Datadog")),
        ({"type": "datadog", "headers": [{"name": "dd-api-key", "value": "a"}]}, "spec.headers",
            HEADERS.format("DD-APPLICATION-KEY", "Datadog")),
        ({"type": "newRelic", **KEY}, "spec.settings.accountId", "is required: the number of the account"),
        ({"type": "newRelic", **KEY, "settings": {"accountId": "mine"}}, "spec.settings.accountId",
            "must be the number of the account"),
        ({"type": "newRelic", **KEY, "settings": {"accountId": "1" * 19}}, "spec.settings.accountId",
            "must be the number of the account"),
        ({"type": "newRelic", **KEY, "settings": {"accountId": "1", "org": "a"}}, "spec.settings.org",
            "is not known; there is accountId"),
        ({"type": "influxdb"}, "spec.settings.org", "is required: the name of the organisation"),
        ({"type": "graphite", "settings": {"org": "a"}}, "spec.settings.org",
            "is not known; there are none for this type"),
        ({"settings": {"org": "a"}}, "spec.settings.org", "is not known; there are none for this type"),
        (SIGNED, "spec.sigv4", "is required: CloudWatch takes signed requests alone"),
        (_request(path="api"), "spec.recipe.request.path", NO_PATH),
        (_request(path="/api/%2e%2e/x"), "spec.recipe.request.path", NO_PATH),
        (_request(path="/api?x=1"), "spec.recipe.request.path", NO_PATH),
        (_request(path="/api#x"), "spec.recipe.request.path", NO_PATH),
        (_request(headers=[{"name": "Host", "value": "a"}]), "spec.recipe.request",
            "headers[0]: it is not for a metric to set"),
        (_answer(result="items[x]"), "spec.recipe.answer.result",
            "cannot be read at its character 6: write data[*].value"),
        (_answer(result="a" * 513), "spec.recipe.answer.result", "must have at most 512 characters"),
        (_answer(values="a." * 24 + "a"), "spec.recipe.answer.values", "must have at most 24 members and items"),
        (_answer(times="a["), "spec.recipe.answer.times", "cannot be read at its character 2: write data[*].value"),
        (_answer(listed="a["), "spec.recipe.answer.listed", "cannot be read at its character 2: write data[*].value"),
        (_answer(refused=["errors", "a["]), "spec.recipe.answer.refused[1]",
            "cannot be read at its character 2: write data[*].value"),
        (_answer(more=["a["]), "spec.recipe.answer.more[0]", "cannot be read at its character 2: write data[*].value"),
        (_answer(counts=["a["]), "spec.recipe.answer.counts[0]",
            "cannot be read at its character 2: write data[*].value"),
        (_answer(whole=[{"path": "a", "values": []}, {"path": "a b", "values": []}]), "spec.recipe.answer.whole[1].path",
            "cannot be read at its character 2: write data[*].value"),
        (_answer(times=""), "spec.recipe.answer.times", "is required with values: what is old must not be evidence"),
        (_answer(kind="all", times=""), "spec.recipe.answer.times",
            "is required with values: what is old must not be evidence"),
    ],
)  # fmt: skip
def test_what_is_missing_has_its_path(spec: dict[str, Any], path: str, why: str) -> None:
    """Before anything is measured with it."""
    with pytest.raises(SpecInvalid) as refused:
        server_of("it", {"url": URL, **spec}, folder=Path("/nowhere"), taken=False)

    assert [(problem.path, problem.message) for problem in refused.value.problems] == [(path, why)]


def test_all_that_is_wrong_is_told_at_once() -> None:
    """Of name, URLs, headers, settings, recipe and files; a place of credentials only where it is a file."""
    secret = {"secretKeyRef": {"name": "prom", "key": "token"}}
    oauth = {"tokenUrl": "login", "clientId": "me", "clientSecret": secret}
    headers = [
        {"name": "A", "valueFrom": secret},
        {"name": "a b", "value": "c"},
        {"name": "Authorization", "value": "c"},
    ]
    spec = {"url": "https://it.example/?a=b", "oauth2": oauth, "headers": headers, "settings": {"b": "1", "a": "1"}}
    with pytest.raises(SpecInvalid) as refused:
        server_of("default", spec, folder=Path("/nowhere"), taken=True)

    assert [(problem.path, problem.message) for problem in refused.value.problems] == [
        (
            "metadata.name",
            "default is the name of the endpoint that --prometheus-url gives; use another name, or leave out the flag",
        ),
        (
            "spec.oauth2.tokenUrl",
            "the URL must be https://HOST[:PORT][/PATH], in ASCII, without user, fragment and backslash",
        ),
        ("spec.url", "must have no query: each request adds its own"),
        ("spec.headers[1]", "its key is no name of a header"),
        ("spec.headers[2]", "Authorization is what basic, bearer, google or oauth2 says; give one of them"),
        ("spec.settings.a", "is not known; there are none for this type"),
        ("spec.settings.b", "is not known; there are none for this type"),
    ]


@pytest.mark.parametrize(
    ("file", "taken"),
    [("/creds/a", True), ("/creds/a/b", True), ("/creds", False), ("/credss/a", False), ("/creds/../a", False),
        ("/creds/a\0", False), ("creds/a", False)],
)  # fmt: skip
def test_a_file_of_credentials_is_below_their_folder(file: str, taken: bool) -> None:
    """Whoever declares a server gets what is sent to it, so nothing else is read."""
    spec = {"url": URL, "bearer": {"file": file}}
    if taken:
        assert server_of("it", spec, folder=Path("/creds"), taken=False).places == (InFile(file),)
        return
    with pytest.raises(SpecInvalid) as refused:
        server_of("it", spec, folder=Path("/creds"), taken=False)

    why = f"file {file} must be below /creds, the folder of credentials, without '..'"
    assert [(problem.path, problem.message) for problem in refused.value.problems] == [("spec", why)]


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

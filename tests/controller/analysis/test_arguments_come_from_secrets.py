"""Promise: the value of a Secret goes into a request and nowhere else; what is missing is told with its remedy."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import structlog

from rollouts.objects import ANALYSIS_RUN, EVENT, SECRET, Manifest
from tests import build
from tests.controller.analysis.stage import NAMESPACE, Stage, analysis_run
from tests.controller.door import Door, refusal

pytestmark = pytest.mark.virtual_time(limit_s=20_000)

TOKEN = "pl4nted-t0ken"
FORMS = (TOKEN, base64.b64encode(TOKEN.encode()).decode(), "".join(f"%{ord(each):02x}" for each in TOKEN))


def door(stage: Stage, *, status: int = 0) -> Door:
    """The API server, which refuses what is asked about Secrets if there is a status."""
    refused = refusal(status, "Forbidden", f"no {TOKEN}") if status else None
    return Door(stage.cluster.api, lambda request: refused if "/secrets" in request.path else None)


def secret(name: str = "prom", **data: str) -> Manifest:
    """A Secret."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return build.secret(name, NAMESPACE, data=encoded)


ARGUMENT = {"name": "token", "valueFrom": {"secretKeyRef": {"name": "prom", "key": "token"}}}


def asks_with(name: str, value: str, **more: Any) -> Manifest:
    """A metric that sends a header."""
    prometheus = {"query": name, "headers": [{"key": "Authorization", "value": value}]}
    return {"name": name, "successCondition": "result[0] >= 0.95", "provider": {"prometheus": prometheus}, **more}


async def test_the_value_is_sent_and_shown_to_nobody(stage: Stage) -> None:
    """Not in the run, its status, its Events and the log; two metrics that are measured together make one request."""
    api = door(stage)
    stage.cluster.apply(secret(token=f"{TOKEN}\n"))
    metrics = (asks_with("a", "Bearer {{args.token}}"), asks_with("b", "Bearer {{ args.token }}"))
    stage.cluster.apply(analysis_run("run", *metrics, args=[ARGUMENT]))
    with structlog.testing.capture_logs() as logged:
        async with stage.controller(api=api):
            assert await stage.until_over() == "Successful"
    sent = [dict(each.headers)["Authorization"].reveal() for each in stage.metrics.requests]
    assert sent == [f"Bearer {TOKEN}"] * 2
    assert [each.path for each in api.asked if "/secrets" in each.path] == [SECRET.path(NAMESPACE, "prom")]
    seen = f"{stage.run()}{stage.cluster.list(EVENT, NAMESPACE)}{stage.telemetry[0].exposition()!r}{logged}"
    assert not any(each in seen for each in FORMS)


@pytest.mark.parametrize(
    ("made", "status", "words"),
    [
        ([], 0, "there is no Secret prom in namespace default"),
        ([secret(other="a")], 0, "Secret prom in namespace default has no key token"),
        ([secret() | {"data": {"token": "/w=="}}], 0, "has no text in its key token"),
        (
            [secret(token=TOKEN)],
            403,
            "the controller may not read Secret prom in namespace default: apply what `rollouts rbac",
        ),
        ([secret(token=TOKEN)], 500, "the API server does not answer as it must"),
    ],
)
async def test_what_is_missing_is_told(made: list[Manifest], status: int, words: str, stage: Stage) -> None:
    """It is an Error, with its remedy, and nothing is asked; the words of the API server are not repeated."""
    for each in made:
        stage.cluster.apply(each)
    metric = asks_with("a", "{{args.token}}", consecutiveErrorLimit=0)
    stage.cluster.apply(analysis_run("run", metric, args=[ARGUMENT]))
    async with stage.controller(api=door(stage, status=status)):
        assert await stage.until_over() == "Error"
    assert words in stage.result("a")["message"]
    assert TOKEN not in str(stage.run())
    assert stage.metrics.requests == []


async def test_a_new_value_is_used_with_the_next_measurement(stage: Stage) -> None:
    """Secrets are rotated while runs go on."""
    stage.cluster.apply(secret(token="old"))
    metric = asks_with("a", "{{args.token}}", interval="10s", count=3)
    stage.cluster.apply(analysis_run("run", metric, args=[ARGUMENT]))
    async with stage.controller():
        await stage.cluster.until(
            lambda seen: bool(((seen or {}).get("status") or {}).get("metricResults")),
            kind=ANALYSIS_RUN, namespace=NAMESPACE, name="run", deadline_s=60,
        )  # fmt: skip
        stage.cluster.apply(secret(token="new"))
        assert await stage.until_over() == "Successful"
    sent = [dict(each.headers)["Authorization"].reveal() for each in stage.metrics.requests]
    assert sent[1:] == ["new", "new"]

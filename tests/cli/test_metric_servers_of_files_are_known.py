"""Promise: `lint` and `analyze --dry-run` know the MetricProviders of the files, each with its type, recipe and credentials."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from rollouts.cli.commands.analyze import AnalyzeOptions, analyze
from rollouts.cli.commands.metric_servers import servers_in
from rollouts.cli.commands.templates import chosen, templates_in
from rollouts.cli.exits import Exit
from rollouts.clock import SystemClock
from rollouts.objects import ANALYSIS_TEMPLATE, METRIC_PROVIDER, SECRET, Manifest
from tests import build
from tests.linted import lint_text
from tests.metrics.servers.fake import all_fakes
from tests.probes.servers import ok, serving

PAGE = Path(__file__).parents[2] / "docs" / "analysis-vendors.md"
KEYS = {"DD-API-KEY": "k1", "DD-APPLICATION-KEY": "k2"}
RECIPE = all_fakes()["declared"].recipe


def provider(name: str, **spec: Any) -> Manifest:
    return build.manifest(METRIC_PROVIDER, name, None, spec={"url": "https://it.example", **spec})


def datadog(name: str = "dd", **spec: Any) -> Manifest:
    headers = [
        {"name": header, "valueFrom": {"secretKeyRef": {"name": "keys", "key": key}}} for header, key in KEYS.items()
    ]
    return provider(name, type="datadog", headers=headers, **spec)


def template(kind: str, **asked: Any) -> Manifest:
    metric = {"name": "m", "successCondition": "result < 5", "provider": {kind: asked}}
    args = [{"name": "server", "value": "dd"}]
    return build.manifest(ANALYSIS_TEMPLATE, "t", "shop", spec={"args": args, "metrics": [metric]})


@pytest.mark.parametrize(
    ("made", "asked", "words"),
    [
        ([datadog()], template("datadog", query="q", metricProvider="dd"), ""),
        ([datadog()], template("datadog", query="q"), ""),
        ([datadog()], template("datadog", query="q", metricProvider="elsewhere"), ""),
        ([datadog(), datadog("two")], template("datadog", query="q", metricProvider="{{args.server}}"), ""),
        ([], template("datadog", query="q"), ""),
        ([datadog()], template("datadog", query="{{args.server}}", requestTimeout="{{args.server}}"), ""),
        ([datadog(), datadog("two")], template("datadog", query="q"), "there are 2, so the metric must name one"),
        ([provider("dd")], template("datadog", query="q", metricProvider="dd"), "dd is not of type datadog"),
        ([provider("dd")], template("newRelic", query="q", profile="dd"), "dd is not of type newRelic"),
        (
            [provider("own", recipe=RECIPE)],
            template("declared", query="q", metricProvider="own", fields={"plugin": "host"}),
            "a place 'offline' that the metric does not fill",
        ),
        (
            [provider("own", recipe=RECIPE)],
            template("declared", query="q", metricProvider="own", fields={"plugin": "host", "offline": "false"}),
            "",
        ),
    ],
)
def test_a_metric_fits_the_servers_of_its_files(made: Sequence[Manifest], asked: Manifest, words: str) -> None:
    """What is not in the files may be in the cluster, so it is no problem."""
    problems = [
        each for each in lint_text(yaml.safe_dump_all([*made, asked])).problems if each.rule.name == "SERVER_UNFIT"
    ]

    assert [words in each.message for each in problems] == ([True] if words else [])


def test_a_comparison_fits_the_servers_of_its_files() -> None:
    """As every metric: it asks the same server for both arms."""
    compare = {
        "canary": "{{args.server}}-1",
        "stable": "{{args.server}}-2",
        "kind": "value",
        "effect": "10%",
        "of": {"datadog": {"query": "avg:latency{version:{{arm}}}"}},
    }
    asked = template("compare")
    asked["spec"]["metrics"] = [{"name": "m", "interval": "1m", "count": 9, "provider": {"compare": compare}}]

    assert lint_text(yaml.safe_dump_all([datadog(), asked])).problems == []
    (found,) = lint_text(yaml.safe_dump_all([datadog(), datadog("two"), asked])).problems
    assert "provider.compare.of.datadog" in found.message
    assert "there are 2, so the metric must name one" in found.message


def measured(manifests: Sequence[Manifest], answers: Mapping[str, bytes | None]) -> tuple[Exit, Any, list[str]]:
    """The exit code, the metric, and the requests' headers of one template, whose server is the only MetricProvider."""
    console = Console(record=True, width=200)
    sent: list[str] = []

    async def run() -> Exit:
        async with serving(answers) as server:
            for each in manifests:
                if each["kind"] == "MetricProvider":
                    each["spec"]["url"] = server.url()
            templates = templates_in(manifests)
            names = chosen(templates, ())
            assert not isinstance(names, str)
            how = AnalyzeOptions(deadline_s=5.0, servers=servers_in(manifests))
            code = await analyze(templates, names, how, console=console, output_json=True)
            sent.extend(each.headers.get("dd-api-key", "") for each in server.sent)
            return code

    with console.capture() as printed:
        code = asyncio.run(run())
    ((metric,),) = [each["metrics"] for each in json.loads(printed.get())]
    return code, metric, sent


def _answer() -> bytes:
    at_ms = SystemClock().now_s() * 1_000 - 30_000
    return ok({"status": "ok", "message": "", "series": [{"pointlist": [[at_ms, 1.0]]}]})


@pytest.mark.parametrize("stored", ["data", "stringData"])
def test_a_service_is_asked_with_the_credentials_of_a_file(stored: str) -> None:
    """So that a query can be tried before it counts."""
    texts = {"k1": "an-api-key", "k2": "an-application-key"}
    values = (
        texts
        if stored == "stringData"
        else {key: base64.b64encode(f"{text}\n".encode()).decode() for key, text in texts.items()}
    )
    keys = build.manifest(SECRET, "keys", "rollouts-system", **{stored: values})

    code, metric, sent = measured([datadog(), template("datadog", query="q"), keys], {"/api/v1/query": _answer()})

    assert (code, metric["phase"], metric["value"]) == (Exit.OK, "Successful", "1")
    assert sent == ["an-api-key"]


def test_a_service_whose_credentials_are_not_there_is_not_asked() -> None:
    """And the key that is missing is named."""
    half = build.manifest(SECRET, "keys", "rollouts-system", stringData={"k1": "an-api-key"})
    for manifests in ([datadog(), template("datadog", query="q")], [datadog(), template("datadog", query="q"), half]):
        code, metric, sent = measured(manifests, {"/api/v1/query": _answer()})

        assert (code, metric["phase"], sent) == (Exit.BAD, "Error", [])
        assert metric["message"] == "MetricProvider dd: key k2 of Secret keys is not in the files"


def test_the_recipe_of_our_page_adds_a_server_without_code() -> None:
    """Its two objects, and an answer as the service documents it."""
    blocks = [text.partition("```")[0] for text in PAGE.read_text().split("```yaml\n")[1:]]
    objects = list(yaml.safe_load_all(next(text for text in blocks if "recipe:" in text)))
    keys = build.manifest(SECRET, "instana", "rollouts-system", stringData={"authorization": "apiToken t"})
    at_ms = SystemClock().now_s() * 1_000 - 30_000

    for value, phase in ((4, "Successful"), (5, "Failed")):
        answer = ok({"items": [{"metrics": {"errors": [[at_ms - 60_000, 9 - value], [at_ms, value]]}}]})
        _, metric, _ = measured([*objects, keys], {"/api/infrastructure-monitoring/metrics": answer})
        assert (metric["phase"], metric["value"]) == (phase, str(value))

"""Promise: `rollouts analyze --dry-run` measures now what a run would measure, tells how it would end, and writes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rollouts.api.spec.analysis.arguments import Updated
from rollouts.api.spec.analysis.templates import TemplateName
from rollouts.cli.commands.analyze import AnalyzeOptions, analysed, analyze, in_cluster, run_spec_of
from rollouts.cli.commands.templates import chosen, templates_in
from rollouts.cli.exits import Exit
from rollouts.cli.view.session import Session
from rollouts.clock import SystemClock
from rollouts.cluster.client import Client
from rollouts.metrics.addresses import TenantUrls
from rollouts.objects import Manifest
from rollouts.ports import Response
from rollouts.probes.metric_asker import MetricAsker
from rollouts.sim.clock import SimClock, run_virtual
from tests import build
from tests.build import analysis_template as template
from tests.build import metric as prometheus
from tests.cli.command_line import CommandLine
from tests.controller.world import ScriptedApi
from tests.metrics.measured_pods import NOW_S, listed, pod, sample
from tests.probes.servers import ok, raw, serving

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"


def vector(*values: float) -> Mapping[str, Any]:
    """Prometheus' answer to an instant query, of this moment."""
    now_s = SystemClock().now_s()
    result = [{"metric": {"pod": str(number)}, "value": [now_s, str(each)]} for number, each in enumerate(values)]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def tried(
    manifests: Sequence[Manifest], answers: Mapping[str, bytes | None], names: Sequence[str] = (), **asked: Any
) -> tuple[Exit, list[Any]]:
    """The exit code, and what is printed as JSON."""
    console = Console(record=True, width=200)

    async def run() -> Exit:
        async with serving(answers) as server:
            templates = templates_in(manifests)
            found = chosen(templates, names)
            assert not isinstance(found, str), found
            how = AnalyzeOptions(prometheus_url=server.url(), deadline_s=2.0, **asked)
            return await analyze(templates, found, how, console=console, output_json=True)

    with console.capture() as printed:
        code = asyncio.run(run())
    return code, json.loads(printed.get())


def test_a_good_measurement_is_a_run_that_succeeds() -> None:
    """Ten a minute apart: the rehearsal says so without anybody having to wait."""
    code, (one,) = tried([template(prometheus(interval="1m", count=10))], {"/api/v1/query": ok(vector(0.97))})

    assert (code, one["template"]) == (Exit.OK, "AnalysisTemplate/rate")
    assert (one["metrics"][0]["phase"], one["metrics"][0]["value"]) == ("Successful", "[0.97]")
    verdict = {"ends": True, "phase": "Successful", "message": "", "measurements": 10, "tookSeconds": 540.0}
    assert one["run"] == verdict


@pytest.mark.parametrize(
    ("answer", "phase"),
    [
        (lambda: ok(vector(0.5)), "Failed"),
        (lambda: ok(vector()), "Inconclusive"),
        (lambda: ok(vector(float("nan"))), "Inconclusive"),
        (lambda: ok({"status": "error", "errorType": "timeout"}), "Error"),
        (lambda: raw(b"<html>"), "Error"),
    ],
    ids=["bad", "there", "NaN", "error with 200", "a web page"],
)
def test_what_would_not_succeed_is_exit_code_1(answer: Callable[[], bytes], phase: str) -> None:
    """So a pipeline stops before anything is rolled out; no evidence is never a success."""
    code, (one,) = tried([template(prometheus())], {"/api/v1/query": answer()})

    assert (code, one["metrics"][0]["phase"], one["run"]["phase"]) == (Exit.BAD, phase, phase)
    assert one["run"]["message"].startswith(f'Metric "rate" assessed {phase}')


@pytest.mark.parametrize(
    ("fields", "values", "code"),
    [
        ({"noData": "wait"}, (), Exit.BAD),
        ({"noData": "wait"}, (float("nan"),), Exit.BAD),
        ({"noData": "wait"}, (0.97,), Exit.OK),
        ({"failureLimit": -1, "consecutiveSuccessLimit": 2}, (0.5,), Exit.BAD),
    ],
)
def test_a_run_that_would_go_on_without_a_success_is_exit_code_1(
    fields: Mapping[str, Any], values: tuple[float, ...], code: Exit
) -> None:
    """A metric of a background analysis has no count, so nothing ends it; a query that finds nothing must not pass a pipeline."""
    answer = ok(vector(*values))
    found, (one,) = tried([template(prometheus(interval="1m", **fields))], {"/api/v1/query": answer})

    assert (found, one["run"]["ends"]) == (code, False)


def test_arguments_are_put_into_queries() -> None:
    """Also those for which a Rollout or a Secret would have the value."""
    metric = prometheus(provider={"prometheus": {"query": 'up{service="{{args.service}}"}'}})
    secret = {"name": "service", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}

    answers = {"/api/v1/query?query=up%7Bservice%3D%22cart%22%7D": ok(vector(1))}
    code, (one,) = tried([template(metric, args=[secret])], answers, arguments={"service": "cart"})

    assert (code, one["metrics"][0]["phase"]) == (Exit.OK, "Successful")


def test_a_template_without_its_argument_is_told_with_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is asked."""
    metric = prometheus(provider={"prometheus": {"query": "up{{args.suffix}}"}})

    code, printed = tried([template(metric, args=[{"name": "suffix"}])], {})

    assert (code, printed) == (Exit.BAD, [])
    assert "suffix" in capsys.readouterr().err


def test_templates_that_others_take_in_are_not_measured_twice() -> None:
    """A file has one template that puts others together, as a rule; a name chooses another one."""
    whole = template(name="whole", templates=[{"templateName": "rate"}])
    answers = {"/api/v1/query": ok(vector(1))}

    _, both = tried([whole, template(prometheus())], answers)
    _, part = tried([whole, template(prometheus())], answers, ["rate"])

    assert [(each["template"], [metric["name"] for metric in each["metrics"]]) for each in (*both, *part)] == [
        ("AnalysisTemplate/whole", ["rate"]),
        ("AnalysisTemplate/rate", ["rate"]),
    ]


def test_a_comparison_is_tried_with_one_look() -> None:
    """It shows whether the queries give both arms; what follows is for all looks of a run to tell."""
    errors, total = ({"prometheus": {"query": 'errors_total{hash="{{arm}}"}'}}, 'requests_total{hash="{{arm}}"}')
    compare = {"canary": "{{args.canary}}", "stable": "5d8b", "of": errors, "total": total, "effect": "1%"}
    metric = {"name": "errors", "interval": "1m", "count": 5, "provider": {"compare": compare}}
    now_s = SystemClock().now_s()
    counted = {"metric": {}, "values": [[now_s - 200, "100"], [now_s - 40, "300"]]}
    none = {"metric": {}, "values": [[now_s - 200, "7"], [now_s - 40, "7"]]}
    answers = {
        f"/api/v1/query?query={name}": ok({"status": "success", "data": {"resultType": "matrix", "result": [series]}})
        for name, series in (("errors", none), ("requests", counted))
    }

    code, (one,) = tried([template(metric, args=[{"name": "canary"}])], answers, arguments={"canary": "7f9c"})

    assert (code, one["metrics"][0]["phase"]) == (Exit.OK, "Pending")
    assert one["metrics"][0]["value"].startswith("canary 0 % · stable 0 % · evidence ")
    assert one["run"]["ends"] is False
    empty = dict.fromkeys(answers, ok({"status": "success", "data": {"resultType": "matrix", "result": []}}))
    code, (one,) = tried([template(metric, args=[{"name": "canary"}])], empty, arguments={"canary": "7f9c"})
    assert (code, one["metrics"][0]["phase"]) == (Exit.BAD, "Pending"), "it would wait for requests in every run"


OF_PODS = {"kind": "value", "canary": "a", "stable": "b", "effect": "10%",
           "of": {"containerResource": {"container": "app", "resource": "cpu"}}}  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ({"name": "pods", "provider": {"kubernetes": {}}}, "in the cluster"),
        ({"name": "use", "interval": "1m", "count": 5, "provider": {"compare": OF_PODS}}, "say which with --rollout"),
    ],
    ids=["pods", "a comparison of pods"],
)
def test_what_only_the_cluster_can_measure_is_no_success(metric: Mapping[str, Any], words: str) -> None:
    """A Job, the pods of a revision: whoever tries the template learns that they were not looked at."""
    code, (one,) = tried([template(metric)], {})

    assert (code, one["metrics"][0]["phase"]) == (Exit.BAD, "Error")
    assert words in one["metrics"][0]["message"]


def test_a_query_without_series_is_told_what_it_may_have_meant() -> None:
    """No series is what a typing error looks like; the verdict stays what it is."""
    answers = {
        "/api/v1/query": ok(vector()),
        "/api/v1/label/__name__/values": ok({"status": "success", "data": ["up_total", "other"]}),
    }

    code, (one,) = tried([template(prometheus())], answers)

    assert (code, one["metrics"][0]["phase"]) == (Exit.BAD, "Inconclusive")
    assert one["metrics"][0]["hint"] == "Prometheus has no metric up"
    _, (silent,) = tried([template(prometheus())], {"/api/v1/query": ok(vector())})
    assert silent["metrics"][0]["hint"] == ""


@pytest.fixture
def example(typed: CommandLine) -> str:
    """The page's template, as a file."""
    return typed.file(PAGE.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0])


def test_the_pages_example_is_measured_as_the_page_says(
    example: str, typed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line as a whole, with nobody listening: errors, in words, and exit code 1."""
    monkeypatch.setenv("COLUMNS", "200")
    words = ("analyze", "-f", example, "--dry-run", "--arg", "service=cart-canary")

    printed = typed(*words, "--prometheus-url", "http://127.0.0.1:1", code=Exit.BAD).out

    assert "success-rate" in printed and "latency-p95" in printed
    assert "a run ends Error, after 10 measurements in 40s" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--dry-run"),
        (["--dry-run", "other"], "have no template other"),
        (["--dry-run", "--arg", "service"], "NAME=VALUE"),
        (["--dry-run", "-o", "yaml"], "takes json"),
        (["--dry-run", "--arg", "sevice=cart"], "no template asks for the argument sevice"),
        (["--dry-run", "--prometheus-url", "prometheus:9090"], "--prometheus-url takes http[s]://HOST"),
    ],
)
def test_a_wrong_command_says_what_to_write(arguments: list[str], words: str, example: str, typed: CommandLine) -> None:
    """Exit code 2, and one sentence."""
    assert words in typed("analyze", "-f", example, *arguments, code=Exit.USAGE).err


def test_a_file_without_a_template_is_told(typed: CommandLine) -> None:
    """A pipeline that names the wrong file must not pass."""
    file = typed.file(build.service("cart"))

    assert "no AnalysisTemplate" in typed("analyze", "-f", file, "--dry-run", code=Exit.USAGE).err


IN_PLACE = {
    "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "mode": "InPlace"}},
    "status": {"selector": "app=web"},
}


@pytest.mark.parametrize(
    ("rollout", "labels"),
    [({}, {}), (IN_PLACE, {"labels": {"app": "web", "pod-template-hash": "new"}})],
    ids=["with pods of its own", "in place"],
)
def test_what_the_cluster_measures_can_be_tried_on_a_rollout(rollout: Manifest, labels: Manifest) -> None:
    """With the rights of the person, on the pods that there are now; without a Rollout nobody knows which."""
    cpu = {"containerResource": {"container": "app", "resource": "cpu"}}
    use = prometheus("use", condition="result.utilizationPercent <= 90", provider=cpu)
    external = {"externalMetric": {"metric": {"name": "queue"}}}
    queue = prometheus("queue", condition="result.value < 10", provider=external)
    lists = {
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods": listed(sample("a", "480m")),
        "/api/v1/namespaces/shop/pods": listed(pod("a", **labels)),
    }
    missing = Response(404, b'{"kind": "Status", "reason": "NotFound"}')

    async def measured(*, cluster: bool) -> list[tuple[str, str, str]]:
        clock = SimClock(asyncio.get_running_loop(), epoch_s=NOW_S)
        api = ScriptedApi(otherwise=lambda asked: Response(200, lists[asked.path]) if asked.path in lists else missing)
        client = Client(api, clock=clock, may_write=lambda: False, request_deadline_s=1.0)
        session = Session(api=api, client=client, namespace="shop", clock=clock, request_timeout_s=1.0)
        of = Updated(manifest=rollout, stable="old", latest="new")
        spec = run_spec_of(TemplateName("rate"), templates_in([template(use, queue)]), {})
        seen = in_cluster(session, "web", of) if cluster else None
        asker = MetricAsker(tenants=TenantUrls(), clock=clock)
        found = await analysed("rate", spec, AnalyzeOptions(), endpoints=asker, clock=clock, cluster=seen)
        return [(each.phase, each.value, each.message) for each in found.measurements.values()]

    (on, gone), without = run_virtual(measured(cluster=True)), run_virtual(measured(cluster=False))

    assert on == ("Failed", "utilizationPercent=96 averageValue=0.48 value=0.48 pods=1 ageSeconds=10", on[2])
    assert (gone[0], "install an adapter" in gone[2]) == ("Error", True)
    assert {(phase, message) for phase, _, message in without} == {
        ("Error", "is about a Rollout in a cluster: say which with --rollout")
    }

"""Promise: `rollouts analyze TEMPLATE --rollout NAME` makes an AnalysisRun that no update waits for, or says why it cannot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.cli.view.runs import run_line
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ROLLOUT, Manifest
from tests.cli.runs import BAD, GOOD, Served, install, metric, rollout, said, served
from tests.cli.test_an_analysis_can_be_tried_before_it_counts import vector
from tests.probes.servers import ok, serving

Printed = pytest.CaptureFixture[str]
LATEST = {"name": "revision", "valueFrom": {"podTemplateHashValue": "Latest"}}
REGION = {"name": "region", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['region']"}}}
QUERY = {"prometheus": {"query": 'up{revision="{{args.revision}}", region="{{args.region}}"}'}}


def template(name: str = "rate", **spec: Any) -> Manifest:
    """A template that measures one revision of a Rollout, unless its spec says otherwise."""
    measured = {"metrics": [metric(provider=QUERY)], "args": [LATEST, REGION]}
    return {"metadata": {"name": name}, "spec": spec or measured}


async def made(there: Served) -> Manifest:
    """The one run of the namespace."""
    (run,) = await there.all(ANALYSIS_RUN)
    return run


async def test_a_template_of_the_cluster_becomes_a_run_about_the_rollout(tmp_path: Path, capsys: Printed) -> None:
    """With the revisions and fields of the Rollout as values, as a run of the controller's would have them."""
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())

        assert await there.command("analyze", "rate", "--rollout", "cart") == 0
        run = await made(there)
        assert run["spec"]["args"] == [
            {"name": "revision", "value": "newrev"},
            {"name": "region", "value": "north"},
        ]
        name = run["metadata"]["name"]
        assert name.startswith("cart-rate-")
        printed = capsys.readouterr().out
        assert f"AnalysisRun {name} measures revision newrev of cart" in printed
        assert f"rollouts analysis get {name} -n default" in printed


async def test_nothing_of_it_looks_like_an_analysis_of_an_update(tmp_path: Path) -> None:
    """No owner and no label by which a Rollout would wait for it, act on it, or delete it."""
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())
        await there.command("analyze", "rate", "--rollout", "cart")

        run = await made(there)
        assert "ownerReferences" not in run["metadata"]
        assert run["metadata"]["labels"] == {"rollouts.dev/name": "cart", "rollouts.dev/revision": "newrev"}
        assert run_line(run).gate is None


@pytest.mark.parametrize(
    ("words", "ttl"),
    [
        ((), {"secondsAfterCompletion": 86_400}),
        (("--keep", "1h30m"), {"secondsAfterCompletion": 5_400}),
        (("--keep", "0"), {"secondsAfterCompletion": 0}),
        (("--keep", "forever"), None),
    ],
)
async def test_a_run_goes_a_day_after_its_end(tmp_path: Path, words: tuple[str, ...], ttl: object) -> None:
    """Nobody owns it, so nobody else would delete it. Who wants to keep the evidence says so."""
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())

        assert await there.command("analyze", "rate", "--rollout", "cart", *words) == 0
        assert (await made(there))["spec"].get("ttlStrategy") == ttl


async def test_a_time_to_keep_a_run_that_is_none_makes_no_run(tmp_path: Path) -> None:
    """It is the user's command line that is wrong."""
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())

        assert await there.command("analyze", "rate", "--rollout", "cart", "--keep", "soon") == 2
        assert await there.all(ANALYSIS_RUN) == []


async def test_two_runs_of_one_template_have_two_names(tmp_path: Path) -> None:
    """People measure again; names of Jobs and labels have 63 characters at most."""
    long = "t" * 63
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template(long))
        for _ in range(2):
            assert await there.command("analyze", long, "--rollout", "cart") == 0

        names = {run["metadata"]["name"] for run in await there.all(ANALYSIS_RUN)}
        assert len(names) == 2
        assert {len(name) for name in names} == {63}


async def test_templates_of_files_come_before_those_of_the_cluster(tmp_path: Path) -> None:
    """So a change is tried in the cluster before it is applied there; what it names may be in either place."""
    file = tmp_path / "rate.yaml"
    file.write_text(
        "apiVersion: rollouts.dev/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: rate}\n"
        "spec: {templates: [{templateName: latency, clusterScope: true}], metrics: [{name: new, "
        "successCondition: 'result > 0', provider: {web: {url: http://cart.shop}}}]}\n"
    )
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())
        await there.create(CLUSTER_ANALYSIS_TEMPLATE, template("latency", metrics=[metric("latency")]))

        assert await there.command("analyze", "-f", str(file), "--rollout", "cart") == 0
        run = await made(there)
        assert [each["name"] for each in run["spec"]["metrics"]] == ["new", "latency"]


async def test_several_templates_and_arguments_make_one_run(tmp_path: Path) -> None:
    """As the list of templates in a Rollout does; a value of the command line comes before a default."""
    least = {"args": [{"name": "least", "value": "0.9"}]}
    async with served(tmp_path) as there:
        await install(there)
        for name in ("rate", "latency"):
            metrics = [metric(name, successCondition="result[0] > {{args.least}}")]
            await there.create(CLUSTER_ANALYSIS_TEMPLATE, template(name, metrics=metrics, **least))

        words = ("analyze", "rate", "latency", "--cluster-scope", "--rollout", "cart", "--arg", "least=0.5")
        assert await there.command(*words) == 0
        run = await made(there)
        assert [each["name"] for each in run["spec"]["metrics"]] == ["rate", "latency"]
        assert run["spec"]["args"] == [{"name": "least", "value": "0.5"}]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("rate", "--rollout", "nobody"), 4, "not found"),
        (("missing", "--rollout", "cart"), 1, "names AnalysisTemplate/missing, which does not exist"),
        (
            ("rate", "--cluster-scope", "--rollout", "cart"),
            1,
            "names ClusterAnalysisTemplate/rate, which does not exist",
        ),
        (("needy", "--rollout", "cart"), 1, "needs a value for 'service'"),
        (("rate", "--rollout", "cart", "--arg", "regoin=x"), 2, "no template asks for the argument regoin"),
        (("rate",), 2, "--rollout NAME"),
        (("--rollout", "cart"), 2, "name a template"),
        (("rate", "--rollout", "cart", "-o", "json"), 2, "--dry-run"),
        (("rate", "--rollout", "cart", "--dry-run", "-w"), 2, "--dry-run makes none"),
    ],
)
async def test_what_cannot_be_made_is_said_and_nothing_is_written(
    tmp_path: Path, capsys: Printed, words: tuple[str, ...], code: int, text: str
) -> None:
    """1 is the template's author's, 2 the caller's, 4 the cluster's."""
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())
        await there.create(ANALYSIS_TEMPLATE, template("needy", metrics=[metric()], args=[{"name": "service"}]))

        assert await there.command("analyze", *words) == code
        assert text in " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert await there.all(ANALYSIS_RUN) == []


async def test_a_rollout_that_nobody_has_seen_has_no_revision_to_measure(tmp_path: Path, capsys: Printed) -> None:
    """3, as for whatever is not finished: the controller may be on its way."""
    async with served(tmp_path) as there:
        await there.create(ROLLOUT, {**rollout(), "status": None})
        await there.create(ANALYSIS_TEMPLATE, template())

        assert await there.command("analyze", "rate", "--rollout", "cart") == 3
        assert "has not seen this Rollout yet" in capsys.readouterr().err


@pytest.mark.parametrize(("ended", "code"), [(GOOD, 0), (BAD, 1)])
async def test_a_run_by_hand_can_be_waited_for(tmp_path: Path, capsys: Printed, ended: Any, code: int) -> None:
    """One command of a pipeline: measure in the cluster, and exit by the verdict."""
    async with served(tmp_path) as there:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())
        waiting = asyncio.create_task(there.command("analyze", "rate", "--rollout", "cart", "-w"))
        await said(capsys, "(analysis by hand) Pending")
        run = await made(there)
        await there.put_status(ANALYSIS_RUN, run["metadata"]["name"], run_status_to_wire(ended))

        assert await waiting == code


async def test_a_dry_run_takes_templates_and_arguments_of_the_cluster(tmp_path: Path, capsys: Printed) -> None:
    """What a run would measure is measured from here, and nothing is written."""
    async with served(tmp_path) as there, serving({"/api/v1/query": ok(vector(1))}) as prometheus:
        await install(there)
        await there.create(ANALYSIS_TEMPLATE, template())

        words = ("analyze", "rate", "--dry-run", "--rollout", "cart", "--prometheus-url", prometheus.url())
        assert await there.command(*words) == 0
        assert "a run ends Successful" in capsys.readouterr().out
        asked = [each for each in prometheus.asked if "query" in each]
        assert asked and "newrev" in asked[0] and "north" in asked[0]
        assert await there.all(ANALYSIS_RUN) == []

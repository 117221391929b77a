"""Promise: `rollouts analyze TEMPLATE --rollout NAME` makes an AnalysisRun that no update waits for, or says why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.cli.view.runs import run_line
from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, ROLLOUT, Manifest
from tests.cli.runs import BAD, GOOD, Served, install, metric, rollout
from tests.cli.test_an_analysis_can_be_tried_before_it_counts import vector
from tests.probes.servers import ok, serving

LATEST = {"name": "revision", "valueFrom": {"podTemplateHashValue": "Latest"}}
REGION = {"name": "region", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['region']"}}}
QUERY = {"prometheus": {"query": 'up{revision="{{args.revision}}", region="{{args.region}}"}'}}


def template(name: str = "rate", **spec: Any) -> Manifest:
    """A template that measures one revision of a Rollout, unless its spec says otherwise."""
    measured = {"metrics": [metric(provider=QUERY)], "args": [LATEST, REGION]}
    return {"metadata": {"name": name}, "spec": spec or measured}


@pytest.fixture
async def home(there: Served) -> Served:
    """The Rollout and its template are there."""
    await install(there)
    await there.create(ANALYSIS_TEMPLATE, template())
    return there


async def made(home: Served, *words: str) -> tuple[Manifest, str]:
    """The one run of the namespace after `rollouts analyze … --rollout cart`, and what that has printed."""
    said = await home.run("analyze", *words, "--rollout", "cart")
    (run,) = await home.all(ANALYSIS_RUN)
    return run, said.out


async def test_a_template_of_the_cluster_becomes_a_run_about_the_rollout(home: Served) -> None:
    """With its revisions and fields as values; no owner and no label by which it would wait for the run, or delete it."""
    run, said = await made(home, "rate")

    assert run["spec"]["args"] == [{"name": "revision", "value": "newrev"}, {"name": "region", "value": "north"}]
    name = run["metadata"]["name"]
    assert name.startswith("cart-rate-")
    assert f"AnalysisRun {name} measures revision newrev of cart" in said
    assert f"rollouts analysis get {name} -n default" in said
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
async def test_a_run_goes_a_day_after_its_end(home: Served, words: tuple[str, ...], ttl: object) -> None:
    """Nobody owns it, so nobody else would delete it. Who wants to keep the evidence says so."""
    run, _ = await made(home, "rate", *words)

    assert run["spec"].get("ttlStrategy") == ttl


async def test_two_runs_of_one_template_have_two_names(home: Served) -> None:
    """People measure again; names of Jobs and labels have 63 characters at most."""
    long = "t" * 63
    await home.create(ANALYSIS_TEMPLATE, template(long))
    for _ in range(2):
        await home.run("analyze", long, "--rollout", "cart")

    names = {run["metadata"]["name"] for run in await home.all(ANALYSIS_RUN)}
    assert [len(name) for name in names] == [63, 63]


async def test_templates_of_files_come_before_those_of_the_cluster(home: Served) -> None:
    """So a change is tried in the cluster before it is applied there; what it names may be in either place."""
    file = home.file(
        "apiVersion: rollouts.dev/v1alpha1\nkind: AnalysisTemplate\nmetadata: {name: rate}\n"
        "spec: {templates: [{templateName: latency, clusterScope: true}], metrics: [{name: new, "
        "successCondition: 'result > 0', provider: {web: {url: http://cart.shop}}}]}\n"
    )
    await home.create(CLUSTER_ANALYSIS_TEMPLATE, template("latency", metrics=[metric("latency")]))

    run, _ = await made(home, "-f", file)
    assert [each["name"] for each in run["spec"]["metrics"]] == ["new", "latency"]


async def test_several_templates_and_arguments_make_one_run(home: Served) -> None:
    """As the list of templates in a Rollout does; a value of the command line comes before a default."""
    least = {"args": [{"name": "least", "value": "0.9"}]}
    for name in ("rate", "latency"):
        metrics = [metric(name, successCondition="result[0] > {{args.least}}")]
        await home.create(CLUSTER_ANALYSIS_TEMPLATE, template(name, metrics=metrics, **least))

    run, _ = await made(home, "rate", "latency", "--cluster-scope", "--arg", "least=0.5")
    assert [each["name"] for each in run["spec"]["metrics"]] == ["rate", "latency"]
    assert run["spec"]["args"] == [{"name": "least", "value": "0.5"}]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("rate", "--rollout", "nobody"), 4, "not found"),
        (("missing", "--rollout", "cart"), 1, "names AnalysisTemplate/missing, which does not exist"),
        (("rate", "--cluster-scope", "--rollout", "cart"), 1, "names ClusterAnalysisTemplate/rate, which does not"),
        (("needy", "--rollout", "cart"), 1, "needs a value for 'service'"),
        (("rate", "--rollout", "cart", "--arg", "regoin=x"), 2, "no template asks for the argument regoin"),
        (("rate", "--rollout", "cart", "--keep", "soon"), 2, ""),
        (("rate",), 2, "--rollout NAME"),
        (("--rollout", "cart"), 2, "name a template"),
        (("rate", "--rollout", "cart", "-o", "json"), 2, "--dry-run"),
        (("rate", "--rollout", "cart", "--dry-run", "-w"), 2, "--dry-run makes none"),
    ],
)
async def test_what_cannot_be_made_is_not_written(home: Served, words: tuple[str, ...], code: int, text: str) -> None:
    """1 is the template's author's, 2 the caller's, 4 the cluster's."""
    await home.create(ANALYSIS_TEMPLATE, template("needy", metrics=[metric()], args=[{"name": "service"}]))

    assert text in (await home.run("analyze", *words, code=code)).error
    assert await home.all(ANALYSIS_RUN) == []


async def test_a_rollout_that_nobody_has_seen_has_no_revision_to_measure(there: Served) -> None:
    """3, as for whatever is not finished: the controller may be on its way."""
    await there.create(ROLLOUT, {**rollout(), "status": None})
    await there.create(ANALYSIS_TEMPLATE, template())

    assert "has not seen this Rollout yet" in (await there.run("analyze", "rate", "--rollout", "cart", code=3)).err


@pytest.mark.parametrize(("ended", "code"), [(GOOD, 0), (BAD, 1)])
async def test_a_run_by_hand_can_be_waited_for(home: Served, ended: Any, code: int) -> None:
    """One command of a pipeline: measure in the cluster, and exit by the verdict."""
    waiting = home.begin("analyze", "rate", "--rollout", "cart", "-w")
    await home.prints("(analysis by hand) Pending")
    (run,) = await home.all(ANALYSIS_RUN)
    await home.put_status(ANALYSIS_RUN, run["metadata"]["name"], run_status_to_wire(ended))

    assert await waiting == code


async def test_a_dry_run_takes_templates_and_arguments_of_the_cluster(home: Served) -> None:
    """What a run would measure is measured from here, and nothing is written."""
    async with serving({"/api/v1/query": ok(vector(1))}) as prometheus:
        words = ("analyze", "rate", "--dry-run", "--rollout", "cart", "--prometheus-url", prometheus.url())
        assert "a run ends Successful" in (await home.run(*words)).out

    asked = [each for each in prometheus.asked if "query" in each]
    assert asked and "newrev" in asked[0] and "north" in asked[0]
    assert await home.all(ANALYSIS_RUN) == []

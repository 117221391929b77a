"""Promise: whatever tenants write, on every page of the dashboard it is text, and however much it is, the page stays small."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest

from rollouts.cli.dashboard import cards
from rollouts.cli.dashboard.experiment_list import listed_experiment
from rollouts.cli.dashboard.experiment_page import experiment_page
from rollouts.cli.dashboard.list_page import listed
from rollouts.cli.dashboard.pages import Look, document
from rollouts.cli.view.experiments import ExperimentAnalysisLine, ExperimentLine, WholeExperiment
from rollouts.cli.view.runs import MeasurementLine, MetricLine, RunLine
from rollouts.cli.view.tree import PodLine, RevisionLine, RolloutView
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.experiment.model import ExperimentStatus, RunRecord
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition
from rollouts.objects import ANALYSIS_RUN, EVENT, POD, REPLICA_SET, ROLLOUT
from tests.cli.configured import config_map, install, noted
from tests.cli.dashboards import dashboard, until_page
from tests.cli.runs import FAILED, NOW_S, OWNER, Served, measurement, metric, replica_set, result, run
from tests.cli.test_the_dashboard_is_for_one_person import HOSTILE
from tests.cli.test_the_dashboard_shows_experiments import RUNNING, TERMINATE, add, surround

PAGES = ("", "/runs/cart-newrev-step-1", "/abort", "/undo?to=oldrev", "/diff", "/diff?from=1&to=3", "/plan")
FAR_TAGS = {"iframe", "object", "embed", "img", "style", "base", "template", "foreignobject", "use", "animate", "set"}


class Markup(HTMLParser):
    """What a browser would make elements and attributes of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the tag and its attributes."""
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def assert_is_ours(text: str, *, scripts: int) -> None:
    """Every element, attribute and address of the page is one of the dashboard's own."""
    markup = Markup(text)
    assert not FAR_TAGS & set(markup.tags)
    assert markup.tags.count("script") == scripts
    assert not [name for name, _ in markup.attributes if name.startswith("on") or name == "style"]
    addresses = [value for name, value in markup.attributes if name in ("href", "src", "action")]
    assert addresses if scripts else True
    assert all(address == "#main" or (address[0] == "/" and address[1:2] != "/") for address in addresses), addresses
    assert not set(text) & set("\x1b\u202e\u0085")


async def covered_in_hostile_text(there: Served) -> None:
    """A Rollout all of whose parts have hostile text wherever the API server takes it."""
    texts = config_map("app", {"TEXT": f"one\n{HOSTILE}\n", "LINE": HOSTILE})
    await install(there, (config_map("app", {"TEXT": "one\ntwo\n", "LINE": "x"}),), (texts,))
    made = await there.object(ROLLOUT, "cart")
    owner = {**OWNER, "uid": made["metadata"]["uid"]}
    third = noted(replica_set(made), "third", 3)
    third["spec"]["template"]["spec"]["containers"][0]["image"] = HOSTILE
    await there.create(REPLICA_SET, third)
    status = RunStatus(
        phase=FAILED,
        message=HOSTILE,
        results=(
            result(
                measurement("[0.5]", FAILED, message=HOSTILE),
                measurement(HOSTILE, AnalysisPhase.ERROR, message=HOSTILE),
                phase=FAILED,
                message=HOSTILE,
            ),
        ),
        started_at_s=NOW_S - 90,
    )
    hostile = run(status=status, metrics=[metric(failureCondition=f'result[0] < 0.9 || "{HOSTILE}" == result')])
    hostile["metadata"]["ownerReferences"] = [owner]
    await there.create(ANALYSIS_RUN, hostile)
    waiting = {"name": "app", "image": HOSTILE, "ready": False, "restartCount": 0, "imageID": ""}
    state: dict[str, Any] = {"waiting": {"reason": "ErrImagePull", "message": HOSTILE}}
    labels = third["metadata"]["labels"]
    pod = {
        "metadata": {"name": "cart-1", "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "app", "image": HOSTILE}]},
        "status": {"phase": "Pending", "containerStatuses": [{**waiting, "state": state}]},
    }
    await there.create(POD, pod)
    event = {
        "metadata": {
            "name": "cart.1",
            "annotations": {"rollouts.dev/revision": "newrev", "rollouts.dev/weight": HOSTILE},
        },
        "action": "Step",
        "reportingController": "rollouts.dev",
        "reportingInstance": "one",
        "regarding": {"kind": "Rollout", "name": "cart", "namespace": "default"},
        "reason": "StepCompleted",
        "note": HOSTILE,
        "type": "Warning",
        "eventTime": "2026-11-21T10:00:00.000000Z",
    }
    await there.create(EVENT, event)
    condition = {"type": "Degraded", "status": "True", "reason": "Hostile", "message": HOSTILE}
    wait = {"reason": "Hostile", "message": HOSTILE, "since": "2026-11-21T10:00:00Z"}
    cutover = {"service": "cart", "from": HOSTILE, "to": HOSTILE, "message": f"{HOSTILE} 2026-11-21T10:00:00Z"}
    cutover |= {"confirmedAt": "2026-11-21T10:00:00Z", "until": "2026-11-21T10:00:20Z"}
    drain = {"cutovers": [cutover]}
    told = {"message": HOSTILE, "waitingFor": wait, "conditions": [condition], "drain": drain}
    await there.put_status(ROLLOUT, "cart", told)


async def test_on_every_page_hostile_text_is_text(there: Served) -> None:
    """In whole pages and in live updates; the text itself is there, so nothing was left out to pass."""
    await covered_in_hostile_text(there)
    async with dashboard(there) as visitor:
        for path in ("/", *(f"/r/default/cart{more}" for more in PAGES)):
            page = await visitor.get(path)
            assert page.status == 200, (path, page.body)
            assert_is_ours(page.body, scripts=1)
        shown = (await visitor.get("/r/default/cart")).body
        compared = (await visitor.get("/r/default/cart/diff")).body
        async with visitor.stream("/r/default/cart/events") as stream:
            live = json.loads((await until_page(stream, "onerror")).partition("data: ")[2])["html"]

    assert_is_ours(live, scripts=0)
    assert shown.count("onerror=alert(1)") >= 11
    assert shown.partition('id="drains"')[2].partition("</section>")[0].count("onerror=alert(1)") == 3
    assert "onerror=alert(1)" in compared


async def test_on_every_page_of_experiments_hostile_text_is_text(there: Served) -> None:
    """In status, images, reasons of pods, Events, runs and problems of the spec, and in live updates."""
    groups = tuple(replace(each, message=HOSTILE, service_name=HOSTILE) for each in RUNNING.groups)
    records = (*RUNNING.runs, RunRecord(name=HOSTILE, run=HOSTILE, phase=AnalysisPhase.RUNNING, message=HOSTILE))
    made = await add(there, replace(RUNNING, message=HOSTILE, groups=groups, runs=records))
    await surround(there, made, text=HOSTILE)
    wrong = Condition(
        type="InvalidSpec",
        status=True,
        reason=Reason.INVALID_SPEC,
        message=HOSTILE,
        since_s=NOW_S,
        observed_generation=1,
    )
    await add(there, ExperimentStatus(message=HOSTILE, conditions=(wrong,)), "wrong")
    below = "/experiments/default/exp"
    async with dashboard(there) as visitor:
        pages = {
            path: await visitor.get(path)
            for path in ("/experiments", below, f"{below}/runs/exp-smoke-1", TERMINATE, "/experiments/default/wrong")
        }
        async with visitor.stream(f"{below}/events") as stream:
            live = json.loads((await until_page(stream, "onerror")).partition("data: ")[2])["html"]

    assert_is_ours(live, scripts=0)
    for path, page in pages.items():
        assert page.status == 200, (path, page.body)
        assert_is_ours(page.body, scripts=1)
        assert "onerror=alert(1)" in page.body, path
    assert pages[below].body.count("onerror=alert(1)") >= 8


def test_a_rollout_that_an_experiment_claims_to_belong_to_is_text() -> None:
    """Whoever makes an Experiment names its owner, and the API server takes any name."""
    line = ExperimentLine(
        namespace="shop", name="exp", created_at_s=0.0, status=ExperimentStatus(), rollout=f"//evil/{HOSTILE}"
    )
    page = document(experiment_page(WholeExperiment(line=line), Look(now_s=9.0))).decode()

    assert_is_ours(page, scripts=1)
    assert "onerror=alert(1)" in page


@pytest.mark.parametrize("containers", [[1], "web", [{"image": 7}], {"a": 1}])
def test_a_template_of_any_shape_has_a_row(containers: Any) -> None:
    """The API server takes any pod template in an object of a CRD; one of them must not take the list away from everybody."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}}
    head = {"name": "x", "namespace": "shop", "uid": "u", "resourceVersion": "1"}

    assert listed({"metadata": head, "spec": {"template": template}}).view.name == "x"
    assert listed_experiment({"metadata": head, "spec": {"templates": [{"template": template}, 1]}}).key.name == "x"


def test_a_page_of_many_pods_shows_first_those_that_are_not_well() -> None:
    """A thousand pods that are ready would be sent with each change; that one of them is not is what people look for."""
    pods = [PodLine(name=f"cart-{index:04}", created_at_s=0.0, ready=index != 900) for index in range(1_000)]
    line = RevisionLine(
        revision="newrev", number=2, roles=("canary",), images=(), ready=999, desired=1_000, pods=tuple(pods)
    )
    text = str(cards.revisions(RolloutView(namespace="shop", name="cart", phase="Progressing", revisions=(line,)), 9.0))

    assert "cart-0900</code> Starting, 9s" in text
    assert text.count("<code>cart-") == 60
    assert "and 940 more pods" in text


def test_a_page_of_an_experiment_with_many_analyses_shows_first_those_that_went_wrong() -> None:
    """It may have 32, each with 64 metrics."""
    metrics = tuple(
        MetricLine(
            name=f"m{index}",
            measurements=tuple(MeasurementLine(at_s=float(at), phase=FAILED, number=float(at)) for at in range(1_000)),
        )
        for index in range(64)
    )
    analyses = tuple(
        ExperimentAnalysisLine(
            RunRecord(name=f"a{index}", run=f"run-{index}", phase=FAILED if index == 20 else AnalysisPhase.RUNNING),
            RunLine(namespace="shop", name=f"run-{index}", metrics=metrics),
        )
        for index in range(32)
    )
    status = ExperimentStatus(phase=AnalysisPhase.RUNNING)
    line = ExperimentLine(namespace="shop", name="exp", created_at_s=0.0, status=status)
    text = str(experiment_page(WholeExperiment(line=line, analyses=analyses), Look(now_s=2_000.0)).main)

    assert text.index("Analysis a20<") < text.index("Analysis a0<")
    assert "and 26 more analysis runs" in text
    assert len(text) < 2_500_000


def test_a_page_of_many_measurements_shows_the_latest_and_what_went_wrong() -> None:
    """A run may keep 1,000 measurements of 64 metrics, and a page is sent again with each change."""
    numbers = [MeasurementLine(at_s=float(index), phase=FAILED, number=float(index)) for index in range(1_000)]
    metrics = [
        MetricLine(name=f"m{index}", phase=AnalysisPhase.SUCCESSFUL, measurements=tuple(numbers)) for index in range(64)
    ]
    metrics[40] = MetricLine(name="m40", phase=FAILED, measurements=tuple(numbers))
    runs = tuple(
        RunLine(namespace="shop", name=f"run-{index}", revision="newrev", metrics=tuple(metrics)) for index in range(9)
    )
    line = RevisionLine(revision="newrev", number=2, roles=(), images=(), ready=1, desired=1, runs=runs)
    text = str(
        cards.analyses(RolloutView(namespace="shop", name="cart", phase="Progressing", revisions=(line,)), 2_000.0)
    )

    assert text.index("m40") < text.index("m1<")
    assert text.count("and 52 more metrics") == 6
    assert "and 3 more analysis runs" in text
    assert text.count("and 950 earlier ones") == 6 * 12
    assert "50 measured, from 950 to 999" in text
    assert len(text) < 2_500_000

"""Promise: the dashboard lists and shows Experiments as they are, and ends the one that was confirmed, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.api.status.experiment import experiment_status_to_wire
from rollouts.cli.view.verb_plans import FIELD_MANAGER
from rollouts.core.experiment.model import ExperimentStatus, GroupPhase, GroupStatus, RunRecord
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition
from rollouts.errors import APPLY_CRDS
from rollouts.manifests.ownership import controller_reference
from rollouts.objects import ANALYSIS_RUN, EVENT, EXPERIMENT, POD, REPLICA_SET, ROLLOUT, Manifest
from rollouts.ports import Request, Response
from tests import build
from tests.cli.dashboards import dashboard, until_page
from tests.cli.runs import BAD, Served, install, metric, replica_set, served
from tests.cli.test_the_dashboard_knows_rights import allows
from tests.controller.experiments.stage import experiment, group, uses

AT_S = 1_763_719_200.0  # 2025-11-21T10:00:00Z
RUNNING = ExperimentStatus(
    phase=AnalysisPhase.RUNNING,
    message="waits for the verdicts of smoke",
    started_at_s=AT_S - 60,
    available_at_s=AT_S,
    groups=(
        GroupStatus(
            name="blue", phase=GroupPhase.RUNNING, replicas=2, available_replicas=2, pod_template_hash="h4sh",
            service_name="blue-svc", since_s=AT_S,
        ),
    ),
    runs=(RunRecord(name="smoke", run="exp-smoke-1", phase=AnalysisPhase.RUNNING),),
)  # fmt: skip
FAILED = replace(RUNNING, phase=AnalysisPhase.FAILED, message="analysis smoke: bad", completed_at_s=AT_S + 60)
GOOD = replace(FAILED, phase=AnalysisPhase.SUCCESSFUL, message="all of its analyses are Successful")
TERMINATE = "/experiments/default/exp/terminate"


async def add(there: Served, status: ExperimentStatus, name: str = "exp", **spec: Any) -> Manifest:
    """An Experiment with that status."""
    await there.create(
        EXPERIMENT, experiment(group("blue", replicas=2), name=name, analyses=[uses(name="smoke")], **spec)
    )
    await there.put_status(EXPERIMENT, name, experiment_status_to_wire(status))
    return await there.object(EXPERIMENT, name)


async def surround(there: Served, made: Manifest, *, text: str = "") -> None:
    """Adds what a running Experiment has: the ReplicaSet of a template with a pod, an AnalysisRun, and an Event."""
    owners = [controller_reference(EXPERIMENT, name="exp", uid=made["metadata"]["uid"])]
    labels = {"app": "blue", "rollouts.dev/experiment": "exp", "rollouts.dev/revision": "h4sh"}
    head = {"labels": labels, "ownerReferences": owners}
    template = build.pod_template("blue", image=text or "web:1", metadata={"labels": labels})
    selector = {"matchLabels": {"app": "blue"}}
    await there.create(REPLICA_SET, build.replica_set("exp-blue", metadata=head, selector=selector, template=template))
    of_set = (await there.object(REPLICA_SET, "exp-blue"))["metadata"]["uid"]
    for name, owner in (("exp-blue-1", of_set), ("stranger", "other")):
        controller = controller_reference(REPLICA_SET, name="exp-blue", uid=owner)
        state = {"waiting": {"reason": "ErrImagePull", "message": text or "no such image"}}
        waits = {
            "name": "app",
            "image": text or "web:1",
            "ready": False,
            "restartCount": 0,
            "imageID": "",
            "state": state,
        }
        pod = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [controller]},
            "spec": template["spec"],
            "status": {"phase": "Pending", "containerStatuses": [waits]},
        }
        await there.create(POD, pod)
    run = {
        "metadata": {"name": "exp-smoke-1", "labels": {"rollouts.dev/experiment": "exp"}, "ownerReferences": owners},
        "spec": {"metrics": [metric()]},
        "status": run_status_to_wire(replace(BAD, message=text or BAD.message)),
    }
    await there.create(ANALYSIS_RUN, run)
    for name in ("exp", "other"):
        event = {
            "metadata": {"name": f"{name}.1"},
            "action": "Look",
            "reportingController": "rollouts.dev",
            "reportingInstance": "one",
            "regarding": {"kind": "Experiment", "name": name, "namespace": "default"},
            "reason": "ExperimentRunning",
            "note": text or f"about {name}",
            "type": "Normal",
            "eventTime": "2026-11-21T10:00:00.000000Z",
        }
        await there.create(EVENT, event)


async def test_what_needs_somebody_comes_first_and_is_found(there: Served) -> None:
    """Then what is under way, then what went well, the newest first; the address holds what was asked for."""
    await add(there, GOOD, "a-good")
    await add(there, RUNNING, "b-runs")
    await add(there, replace(GOOD, phase=AnalysisPhase.INCONCLUSIVE), "c-unclear")
    await add(there, FAILED, "d-failed")
    invalid = Condition(
        type="InvalidSpec",
        status=True,
        reason=Reason.INVALID_SPEC,
        message="spec.x: is wrong; spec.y: too",
        since_s=AT_S,
        observed_generation=1,
    )
    await add(there, ExperimentStatus(conditions=(invalid,)), "e-invalid")
    names = ("d-failed", "e-invalid", "c-unclear", "b-runs", "a-good")
    async with dashboard(there) as visitor:
        page = (await visitor.get("/experiments")).body
        places = [page.index(f'id="default/{name}"') for name in names]
        assert sorted(places[:2]) + places[2:] == sorted(places)
        assert "<h1>5 Experiments, 1 waits for a person, 2 went wrong</h1>" in page
        for query, shown in (
            ("?only=bad", "d-failed e-invalid"),
            ("?only=needs", "d-failed e-invalid c-unclear"),
            ("?only=moving", "c-unclear b-runs"),
            ("?q=RUNS+web:1", "b-runs"),
            ("?ns=other", ""),
        ):
            found = (await visitor.get(f"/experiments{query}")).body
            assert [name for name in names if f'id="default/{name}"' in found] == shown.split(), query
        broken = (await visitor.get("/experiments/default/e-invalid")).body
        tabs = (await visitor.get("/?q=b&ns=default")).body

    assert "waits for the verdicts of smoke" in page
    assert "<li>spec.x: is wrong</li><li>spec.y: too</li>" in broken
    assert 'href="/experiments?q=b&amp;ns=default"' in tabs


async def test_a_page_shows_pods_measurements_times_and_events(there: Served) -> None:
    """What `experiment get` shows, and the pods, in the same words; of others with the same label and name nothing."""
    await surround(there, await add(there, RUNNING))
    async with dashboard(there) as visitor:
        page = (await visitor.get("/experiments/default/exp")).body
        run = await visitor.get("/experiments/default/exp/runs/exp-smoke-1")
        for path in ("exp/runs/none", "exp/runs/UPPER", "none", "UPPER"):
            assert (await visitor.get(f"/experiments/default/{path}")).status == 404, path

    for said in (
        "Waits for the verdicts of smoke",
        "<h3>blue</h3>",
        "2 of 2 available",
        "revision h4sh · Service blue-svc",
        "<code>web:1</code>",
        "exp-blue-1</code> ErrImagePull: no such image",
        "Analysis smoke</a>",
        "failed (1) &gt; failureLimit (0)",
        "result[0] &gt;= 0.99",
        "All pods available",
        "about exp",
        f'href="{TERMINATE}"',
    ):
        assert said in page, said
    assert page.count("<svg") == 2  # of its metric, for wide and for narrow screens
    assert "stranger" not in page and "about other" not in page
    assert (run.status, "<h1>Analysis smoke</h1>" in run.body) == (200, True)
    assert 'href="/experiments/default/exp">Back to exp</a>' in run.body


async def test_an_experiment_that_is_a_step_and_its_rollout_lead_to_each_other(there: Served) -> None:
    """It is among the analyses there, and has one page: that with its pods."""
    await install(there)
    owner = controller_reference(ROLLOUT, name="cart", uid=(await there.object(ROLLOUT, "cart"))["metadata"]["uid"])
    await there.create(REPLICA_SET, replica_set(await there.object(ROLLOUT, "cart")))
    made = experiment(group("blue", replicas=2), name="cart-newrev-step-1")
    made["metadata"]["labels"] = {
        "rollouts.dev/name": "cart",
        "rollouts.dev/revision": "newrev",
        "rollouts.dev/analysis": "experiment",
        "rollouts.dev/step": "0",
    }
    made["metadata"]["ownerReferences"] = [owner]
    await there.create(EXPERIMENT, made)
    await there.put_status(EXPERIMENT, "cart-newrev-step-1", experiment_status_to_wire(RUNNING))
    async with dashboard(there) as visitor:
        page = (await visitor.get("/r/default/cart")).body
        its_own = await visitor.get("/experiments/default/cart-newrev-step-1")
        as_a_run = await visitor.get("/r/default/cart/runs/cart-newrev-step-1")

    assert '<a href="/experiments/default/cart-newrev-step-1">Experiment of step 1</a>' in page
    assert (its_own.status, 'of <a href="/r/default/cart">cart</a>' in its_own.body) == (200, True)
    assert as_a_run.status == 404


@pytest.mark.parametrize(
    ("path", "seen"), [("", "<h1>"), ("/default/exp", "<h1>exp"), ("/default/exp/runs/exp-smoke-1", "smoke")]
)
async def test_pages_are_live_by_one_list_and_one_watch(there: Served, path: str, seen: str) -> None:
    """Each sees each change, also that it was deleted, and the API server is asked once however many look."""
    await surround(there, await add(there, RUNNING))
    events = f"/experiments{path}/events"
    async with dashboard(there) as visitor, visitor.stream(events) as one, visitor.stream(events) as two:
        for stream in (one, two):
            assert seen in json.loads((await until_page(stream, "exp")).partition("data: ")[2])["html"]
        asked = len([each for each in there.door.asked if each.method == "GET"])
        await there.put_status(EXPERIMENT, "exp", experiment_status_to_wire(FAILED))
        await there.put_status(ANALYSIS_RUN, "exp-smoke-1", {"message": "it has changed", "metricResults": []})
        for stream in (one, two):
            await until_page(stream, "it has changed" if "runs" in path else "nalysis smoke: bad")
        again = len([each for each in there.door.asked if each.method == "GET"])
        await there.session.client.delete(EXPERIMENT, "default", "exp")
        for stream in (one, two):
            await until_page(stream, "was deleted" if path else "There are no Experiments here yet")

    assert again == asked


async def test_what_ending_does_is_said_before_it_is_written(there: Served) -> None:
    """`spec.terminate` by the command line's writer; after the end there is nothing to do."""
    await add(there, RUNNING, scaleDownDelaySeconds=90)
    async with dashboard(there) as visitor:
        page, form = (await visitor.get(TERMINATE)).body, await visitor.form(TERMINATE)
        assert (
            "Its analyses (smoke) are judged by what they have measured, which is how it ends; its pods go 1m30s later."
            in page
        )
        assert "kubectl rollouts experiment terminate exp -n default" in page
        assert "terminate" not in (await there.object(EXPERIMENT, "exp"))["spec"]
        answer = await visitor.post(TERMINATE, form)
        assert (answer.status, answer.headers["location"].partition("=")[0]) == (303, "/experiments/default/exp?told")
        after = (await visitor.get(answer.headers["location"])).body
        again = (await visitor.get(TERMINATE)).body
        await there.put_status(EXPERIMENT, "exp", experiment_status_to_wire(FAILED))
        async with visitor.stream("/experiments/default/exp/events") as stream:
            over = await until_page(stream, "Analysis smoke: bad")

    made = await there.object(EXPERIMENT, "exp")
    assert made["spec"]["terminate"] is True
    assert any(each["manager"] == FIELD_MANAGER for each in made["metadata"]["managedFields"])
    assert "Terminate: it was told to end; its analyses (smoke) are judged" in after
    assert "exp is ending already." in again
    assert TERMINATE not in over


async def test_what_changed_after_it_was_shown_is_asked_again(there: Served) -> None:
    """Another Experiment of the same name, or an end that would be another one, is not what was confirmed."""
    await add(there, replace(RUNNING, phase=AnalysisPhase.PENDING, available_at_s=None, runs=()))
    async with dashboard(there) as visitor:
        form = await visitor.form(TERMINATE)
        await there.put_status(EXPERIMENT, "exp", experiment_status_to_wire(RUNNING))
        answer = await visitor.post(TERMINATE, form)
        assert (answer.status, "has changed since you looked" in answer.body) == (200, True)
        form = await visitor.form(TERMINATE)
        await there.session.client.delete(EXPERIMENT, "default", "exp")
        await add(there, RUNNING)
        assert "has changed since you looked" in (await visitor.post(TERMINATE, form)).body
        foreign = await visitor.post(TERMINATE, {**await visitor.form(TERMINATE), "form": "guessed"})

    assert foreign.status == 403
    assert "terminate" not in (await there.object(EXPERIMENT, "exp"))["spec"]


async def test_whoever_may_not_end_one_sees_it_before_they_press(there: Served) -> None:
    """The button is locked, with the right that is missing; what is sent all the same the API server refuses."""
    allows(there, allowed=False)
    await add(there, RUNNING)
    async with dashboard(there) as visitor:
        page, asked = (await visitor.get("/experiments/default/exp")).body, (await visitor.get(TERMINATE)).body
        form = await visitor.form(TERMINATE)
        there.door.answers = lambda request: (
            Response(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}')
            if request.method == "PATCH"
            else None
        )
        answer = await visitor.post(TERMINATE, form)

    lacked = "You may not patch experiments in namespace default: ask for the ClusterRole <code>edit</code>"
    assert lacked in page and lacked in asked
    assert (f'href="{TERMINATE}"' in page, "<button" in page) == (False, True)
    assert '<button class="main grave" disabled>Terminate</button>' in asked
    assert answer.status == 403


async def test_whoever_may_not_list_them_reads_a_line(there: Served) -> None:
    """It is no error: their Rollouts are beside it."""
    await add(there, RUNNING)
    why = b'experiments.rollouts.dev is forbidden: User \\"eve\\" cannot list resource \\"experiments\\" in API group'

    def answers(request: Request) -> Response | None:
        if not request.path.endswith("/experiments"):
            return None
        return Response(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"' + why + b'"}')

    there.door.answers = answers
    async with dashboard(there) as visitor:
        page = await visitor.get("/experiments")
        rollouts = await visitor.get("/")

    assert (page.status, rollouts.status) == (200, 200)
    assert "These Experiments are not shown" in page.body
    assert "You may not list experiments in every namespace: ask for the ClusterRole <code>view</code>" in page.body
    assert "data-stream" not in page.body
    assert 'href="/"' in page.body


async def test_a_cluster_without_the_kind_is_told_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CRD of an older release is missing; the Rollouts are there."""
    async with served(tmp_path, capsys, without="experiments") as there, dashboard(there) as visitor:
        page = await visitor.get("/experiments")

    assert page.status == 200
    assert APPLY_CRDS in page.body

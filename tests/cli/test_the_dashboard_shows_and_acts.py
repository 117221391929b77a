"""Promise: what somebody sees in the dashboard is what there is, and what they confirm is what is written, or nothing."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys

import pytest

from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.api.times import format_time
from rollouts.cli.dashboard.list_page import ListQuery, list_page, listed
from rollouts.cli.dashboard.pages import document
from rollouts.cli.view import giving
from rollouts.cli.view.verb_plans import FIELD_MANAGER
from rollouts.objects import ANALYSIS_RUN, EVENT, REPLICA_SET, ROLLOUT, Manifest
from tests.cli.command_line import CommandLine
from tests.cli.dashboards import Visitor, dashboard, until_page
from tests.cli.runs import BAD, RUNNING, Served, install, replica_set, rollout
from tests.cli.runs import run as run_of
from tests.patience import PATIENCE_S

WAITS = {"reason": "PromotionNeeded", "message": "step 2: waiting for promotion", "since": "2026-11-21T10:00:00Z"}
TIMES = {"startedAt": "2026-11-21T09:58:00Z", "stepStartedAt": "2026-11-21T10:00:00Z"}
PAUSED = {"phase": "Paused", "waitingFor": WAITS, "currentStepIndex": 1, "weight": 25, **TIMES}
PROMOTE = "/r/default/cart/promote"
CUTOVER = {
    "service": "cart",
    "from": "oldrev",
    "to": "newrev",
    "message": "3 s of lag",
    "neededSeconds": 23,
    "confirmedAt": "2026-11-21T10:00:00Z",
    "until": "2026-11-21T10:00:20Z",
    "timedOut": True,
    "inFlight": 2,
}
"""One that ended too early."""


def named(name: str, **status: object) -> Manifest:
    """A Rollout of that name."""
    made = rollout(**status)
    return {**made, "metadata": {"name": name}}


async def annotations_of(there: Served) -> dict[str, str]:
    """The annotations of the Rollout cart."""
    return dict((await there.object(ROLLOUT, "cart"))["metadata"].get("annotations", {}))


async def test_what_needs_somebody_comes_first_and_is_found(there: Served) -> None:
    """Whether something waits is the question with which people come; the address holds the answer to what they asked."""
    await there.create(ROLLOUT, named("a-healthy", phase="Healthy", stableRevision="newrev"))
    await there.create(ROLLOUT, named("b-moving"))
    await there.create(ROLLOUT, named("c-waits", **PAUSED))
    await there.create(ROLLOUT, named("d-aborted", phase="Aborted"))
    async with dashboard(there) as visitor:
        page = (await visitor.get("/")).body
        places = [page.index(f'id="default/{name}"') for name in ("d-aborted", "c-waits", "b-moving", "a-healthy")]
        assert places == sorted(places)
        assert "<h1>4 Rollouts, 1 waits for a person, 1 went wrong</h1>" in page

        for query, names in (
            ("?only=bad", "d-aborted"),
            ("?only=needs", "d-aborted c-waits"),
            ("?only=moving", "c-waits b-moving"),
            ("?q=WAITS+cart:2", "c-waits"),
            ("?ns=other", ""),
            ("?page=99999999&only=nonsense&q=a-h", "a-healthy"),
        ):
            shown = (await visitor.get(f"/{query}")).body
            assert [
                name for name in ("d-aborted", "c-waits", "b-moving", "a-healthy") if f'id="default/{name}"' in shown
            ] == (names.split()), query


def test_another_order_is_in_the_address() -> None:
    """By name whatever the namespace, the newest first, or what has waited longest; what waits for nothing comes last there."""
    since = {"x/web": "2026-11-21T10:00:00Z", "y/api": "2026-11-20T10:00:00Z"}
    created = {"y/api": "2026-01-01T00:00:00Z", "x/web": "2026-03-01T00:00:00Z", "z/pay": "2026-02-01T00:00:00Z"}
    rows = []
    for name, at in created.items():
        made = rollout(**({"waitingFor": {**WAITS, "since": since[name]}} if name in since else {"phase": "Degraded"}))
        head = {"namespace": name[0], "name": name[2:], "creationTimestamp": at, "uid": name, "resourceVersion": "1"}
        rows.append(listed({**made, "metadata": head}))

    for sort, order in (
        ("", ["z/pay", "x/web", "y/api"]),
        ("name", ["y/api", "z/pay", "x/web"]),
        ("new", ["x/web", "z/pay", "y/api"]),
        ("wait", ["y/api", "x/web", "z/pay"]),
        ("nonsense", ["z/pay", "x/web", "y/api"]),
    ):
        query = ListQuery.read({"sort": sort, "q": "cart:2"})
        page = document(list_page(rows, query, now_s=0.0, lost=None, scope="")).decode()
        assert re.findall(r'<tr id="([^"]*)">', page) == order, sort
        assert query.address(only="bad") == ("/?q=cart%3A2&only=bad" + (f"&sort={sort}" if query.sort else "")), sort


async def test_a_revision_is_in_the_list_and_found_by_its_hash(there: Served) -> None:
    """During an update with the stable one: a hash in a log, or in the name of a pod, leads to its Rollout."""
    await there.create(ROLLOUT, named("a-moving"))
    await there.create(ROLLOUT, named("b-healthy", phase="Healthy", currentRevision="other", stableRevision="other"))
    async with dashboard(there) as visitor:
        page = (await visitor.get("/?q=newrev")).body

    assert re.findall(r'<tr id="([^"]*)">', page) == ["default/a-moving"]
    assert '<span class="mono">newrev</span><span class="under">stable oldrev</span>' in page


async def test_any_number_of_viewers_costs_the_api_server_one_list_and_one_watch(there: Served) -> None:
    """Each sees each change; nothing is asked for somebody who looks, or for what has changed."""
    await install(there)
    async with dashboard(there) as visitor, visitor.stream("/events") as one, visitor.stream("/events?q=cart") as two:
        for stream in (one, two):
            await until_page(stream, "Progressing")
        for phase in ("Paused", "Degraded"):
            await there.put_status(ROLLOUT, "cart", {"phase": phase})
            for stream in (one, two):
                await until_page(stream, phase)
        await visitor.get("/")

    asked = [("watch" in each.query, each.path) for each in there.door.asked]
    assert asked == [(False, "/apis/rollouts.dev/v1alpha1/rollouts"), (True, "/apis/rollouts.dev/v1alpha1/rollouts")]


async def test_a_page_shows_what_the_update_waits_for_and_what_was_measured(there: Served) -> None:
    """The wait with its time, the step, the analysis with its value and its reason: what `get` shows too."""
    await install(there, run_of(status=BAD))
    await there.create(REPLICA_SET, replica_set(await there.object(ROLLOUT, "cart")))
    await there.put_status(ROLLOUT, "cart", PAUSED)
    for name in ("cart", "other"):
        regarding = {"kind": "Rollout", "name": name, "namespace": "default"}
        said = {
            "reason": "StepCompleted",
            "note": f"about {name}",
            "type": "Normal",
            "eventTime": "2026-11-21T10:00:00.000000Z",
        }
        event = {
            "metadata": {"name": f"{name}.1"},
            "action": "Step",
            "reportingController": "rollouts.dev",
            "regarding": regarding,
        }
        await there.create(EVENT, {**event, **said, "reportingInstance": "one"})
    async with dashboard(there) as visitor:
        page = (await visitor.get("/r/default/cart")).body

    assert "Step 2: waiting for promotion" in page
    assert 'PromotionNeeded, for <time datetime="2026-11-21T10:00:00Z">' in page
    assert '<li aria-current="step">' in page
    assert "success-rate" in page
    assert ("about cart" in page, "about other" in page) == (True, False)
    assert "failed (1) &gt; failureLimit (0)" in page
    assert "kubectl rollouts" not in page.partition("<main")[0]
    for word, offered in (("promote", True), ("abort", True), ("pause", True), ("retry", False), ("resume", False)):
        assert (f'href="/r/default/cart/{word}"' in page) is offered, word


async def test_a_page_shows_what_drains_waited_for_and_what_autoscalers_want(there: Served) -> None:
    """In the words of `drain-report` and `get`; exact times are elements, which the browser shows in its own zone."""
    scaler = {"name": "cart", "desired": 4, "max": 5, "headroomPercent": 20}
    status = {
        **PAUSED,
        "drain": {"cutovers": [CUTOVER]},
        "autoscaling": {"at": "2026-11-21T10:00:00Z", "autoscalers": [scaler]},
    }
    await install(there)
    await there.put_status(ROLLOUT, "cart", status)
    async with dashboard(there) as visitor:
        page = (await visitor.get("/r/default/cart")).body
    drains = page.partition('id="drains"')[2].partition("</section>")[0]

    for said in (
        '<h3 class="warned">Service cart: oldrev -&gt; newrev</h3>',
        'confirmed by: EndpointSlices, <time class="exact" datetime="2026-11-21T10:00:00Z">2026-11-21T10:00:00Z</time>',
        "for: 3 s of lag",
        "TIMED OUT: 23 s were needed; requests may have been cut",
        "IN FLIGHT at the end: 2 requests",
    ):
        assert said in drains, said
    assert "autoscaler cart wants 4 of 5 pods: headroom 20 %" in page


async def test_what_was_confirmed_is_written_and_answered_by_the_controller(there: Served) -> None:
    """The same annotation as the command line's, by the same writer, and the controller's words about it."""
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    async with dashboard(there) as visitor:
        page, form = await visitor.get(PROMOTE), await visitor.form(PROMOTE)
        assert "This lets revision newrev pass step 2 (pause until promoted); no later step stops it." in page.body
        assert "kubectl rollouts promote cart -n default" in page.body
        assert await annotations_of(there) == {}
        record = {"verb": "promote", "value": "newrev@1", "revision": "newrev", "at": "2026-11-21T10:00:00Z", "step": 1}
        refused = {**record, "outcome": "Refused", "reason": "CommandInvalid", "message": "it has moved on <b>"}
        giving_it = asyncio.create_task(visitor.post(PROMOTE, form))
        while not await annotations_of(there):  # noqa: ASYNC110 - the test is the controller
            await asyncio.sleep(0)
        await there.put_status(ROLLOUT, "cart", {"commands": [refused]})
        answer = await giving_it
        assert (answer.status, answer.headers["location"].partition("=")[0]) == (303, "/r/default/cart?told")
        after = (await visitor.get(answer.headers["location"])).body
        forged = (await visitor.get("/r/default/cart?told=anything")).body

    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}
    fields = (await there.object(ROLLOUT, "cart"))["metadata"]["managedFields"]
    assert any(each["manager"] == FIELD_MANAGER for each in fields)
    assert "Promote: the controller refused the command: it has moved on &lt;b&gt;" in after
    assert "Promote: the controller refused" not in forged


async def test_one_run_has_a_page_with_all_that_was_measured(there: Served) -> None:
    """Live, and linked from its Rollout's page; a run that there is not, or that is about another Rollout, has none."""
    about_other = {"rollouts.dev/name": "pay"}
    await install(there, run_of(status=RUNNING), run_of("other", labels=about_other, owned=False))
    await there.create(REPLICA_SET, replica_set(await there.object(ROLLOUT, "cart")))
    path = "/r/default/cart/runs/cart-newrev-step-1"
    async with dashboard(there) as visitor:
        assert f'href="{path}"' in (await visitor.get("/r/default/cart")).body
        async with visitor.stream(f"{path}/events") as stream:
            await until_page(stream, "Running")
            await there.put_status(ANALYSIS_RUN, "cart-newrev-step-1", run_status_to_wire(BAD))
            await until_page(stream, "failed (1) &gt; failureLimit (0)")
        page = await visitor.get(path)
        for absent in ("other", "none", "UPPER"):
            assert (await visitor.get(f"/r/default/cart/runs/{absent}")).status == 404, absent

    assert page.status == 200
    assert "<h1>Analysis of step 2</h1>" in page.body
    assert "took 1m, " in page.body
    assert "<h2>success-rate</h2>" in page.body
    assert page.body.count("<svg") == 2
    assert '<td data-label="Took">0.50s</td>' in page.body
    assert "kubectl rollouts analysis get cart-newrev-step-1 -n default" in page.body


async def test_what_changed_after_it_was_shown_is_asked_again(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A button promotes the revision that it named, of the same object, or nothing. What only counts is no change."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    async with dashboard(there) as visitor:
        form = await visitor.form(PROMOTE)
        await there.put_status(ROLLOUT, "cart", {"currentRevision": "newest"})
        answer = await visitor.post(PROMOTE, form)
        assert (answer.status, "has changed since you looked" in answer.body) == (200, True)
        assert "lets revision newest pass step 2" in answer.body

        await there.session.client.delete(ROLLOUT, "default", "cart")
        await install(there)
        await there.put_status(ROLLOUT, "cart", PAUSED)
        assert "has changed since you looked" in (await visitor.post(PROMOTE, form)).body
        assert await annotations_of(there) == {}

        form = await visitor.form(PROMOTE)
        await there.put_status(ROLLOUT, "cart", {"replicas": 3})
        answer = await visitor.post(PROMOTE, form)
        said = (await visitor.get(answer.headers["location"])).body

    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}
    assert "no controller has recorded the command within 0.05 s" in said


async def test_a_restart_is_of_the_pods_that_were_there_when_it_was_asked_for(
    there: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time on the page is the one that is written, however long somebody looks at it; nonsense restarts nothing."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await install(there)
    restart = "/r/default/cart/restart"
    async with dashboard(there) as visitor:
        assert f'href="{restart}"' in (await visitor.get("/r/default/cart")).body
        assert (await visitor.get(f"{restart}?to=yesterday")).status == 200
        page, form = (await visitor.get(restart)).body, await visitor.form(restart)
        assert 'This replaces the pods of cart that are older than <time class="exact" datetime="20' in page
        assert "kubectl rollouts restart cart -n default" in page
        another = {**form, "to": str(int(form["to"]) - 60)}
        assert "has changed since you looked" in (await visitor.post(restart, another)).body
        assert await annotations_of(there) == {}
        assert (await visitor.post(restart, form)).status == 303

    written = await annotations_of(there)
    assert list(written) == ["rollouts.dev/restart"]
    assert written["rollouts.dev/restart"] == format_time(float(form["to"]))


async def test_what_a_person_may_not_do_is_said_in_words(there: Served) -> None:
    """The API server decides by the person's own rights; the page says which one is missing."""
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    async with dashboard(there) as visitor:
        form = await visitor.form(PROMOTE)
        there.door.refused = ("/rollouts",)
        answer = await visitor.post(PROMOTE, form)
        there.door.refused = ()
        missing = await visitor.get("/r/default/card")

    assert answer.status == 403
    assert "That did not work" in answer.body
    assert await annotations_of(there) == {}
    assert (missing.status, "did you mean cart?" in missing.body) == (404, True)


def test_without_its_library_the_command_says_what_to_install(
    typed: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the command line does not need it."""
    monkeypatch.setitem(sys.modules, "rollouts.cli.dashboard.app", None)

    assert "pip install '.[cli,dashboard]'" in typed("dashboard", code=2).error


@pytest.mark.long
async def test_the_command_prints_the_address_and_serves(there: Served) -> None:
    """The kubeconfig is the only thing that it needs."""
    await install(there)
    words = ("dashboard", "-p", "0", "--kubeconfig", str(there.kubeconfig))
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rollouts", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            visitor = Visitor((await running.stdout.readline()).decode().split()[-1])
        assert (await visitor.log_in()).status == 303
        async with visitor.stream("/events") as stream:
            await until_page(stream, "1 Rollout")
    finally:
        running.kill()
        _, errors = await running.communicate()

    assert errors.decode().splitlines() == ["it acts with your rights in the cluster, and ends with Ctrl-C"]

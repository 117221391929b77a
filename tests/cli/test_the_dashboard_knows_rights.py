"""Promise: somebody who may not give commands sees it before they press, with the right that they lack, at no cost for others."""

from __future__ import annotations

import json

import pytest

from rollouts.cli.dashboard import rights
from rollouts.cli.dashboard.acts import ACTS
from rollouts.cli.dashboard.app import serving
from rollouts.cli.view import giving
from rollouts.cli.view.objects import RolloutObjects
from rollouts.cli.view.verb_plans import CommandWrite
from rollouts.objects import ROLLOUT
from rollouts.ports import Request, Response
from tests.cli.dashboards import Visitor, dashboard, session_of, until_page
from tests.cli.runs import Served, install, rollout
from tests.cli.test_the_dashboard_shows_and_acts import PAUSED, PROMOTE, annotations_of

REVIEWS = "selfsubjectaccessreviews"
LACKED = "You may not patch rollouts in namespace default: ask for the ClusterRole <code>edit</code>, which the chart extends"
LINK = f'href="{PROMOTE}"'
LOCKED = '<button type="button" disabled>Promote</button>'


def allows(there: Served, *, allowed: bool | None) -> None:
    """What the API server says of the person's rights; None for an error."""

    def answers(request: Request) -> Response | None:
        if not request.path.endswith(REVIEWS):
            return None
        if allowed is None:
            return Response(503, b'{"kind":"Status","code":503,"reason":"ServiceUnavailable","message":"no"}')
        return Response(201, json.dumps({"status": {"allowed": allowed}}).encode())

    there.door.answers = answers


async def test_buttons_of_somebody_who_may_not_act_are_locked_and_say_why(there: Served) -> None:
    """On the page, in a live update, and on the page of the act; nothing leads anywhere."""
    allows(there, allowed=False)
    await install(there)
    async with dashboard(there) as visitor, visitor.stream("/r/default/cart/events") as stream:
        await there.put_status(ROLLOUT, "cart", PAUSED)
        live = json.loads((await until_page(stream, "waiting for promotion")).partition("data: ")[2])["html"]
        page = (await visitor.get("/r/default/cart")).body
        asked = (await visitor.get(PROMOTE)).body

    for text in (live, page):
        assert (LOCKED in text, LINK in text, LACKED in text) == (True, False, True)
    assert "lets revision newrev pass step 2" in asked
    assert '<button class="main" disabled>Promote</button>' in asked
    assert LACKED in asked
    (review, *more) = [each for each in there.door.asked if each.path.endswith(REVIEWS)]
    assert not more
    assert json.loads(review.body)["spec"]["resourceAttributes"] == {
        "group": "rollouts.dev",
        "resource": "rollouts",
        "subresource": "",
        "verb": "patch",
        "namespace": "default",
    }


async def test_a_right_that_was_just_given_counts_after_a_while(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is old after ten seconds, here at once; whoever loads the page again sees the buttons."""
    monkeypatch.setattr("rollouts.cli.dashboard.live.ON_LOAD_S", 0.0)
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    async with dashboard(there) as visitor:
        allows(there, allowed=False)
        before = (await visitor.get("/r/default/cart")).body
        allows(there, allowed=None)
        unanswered = (await visitor.get("/r/default/cart")).body
        allows(there, allowed=True)
        after = (await visitor.get("/r/default/cart")).body

    assert [LINK in text for text in (before, unanswered, after)] == [False, False, True]
    assert rights.ON_LOAD_S <= 10


async def test_without_an_answer_nothing_is_locked(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server judges the command itself, so a review that fails takes nothing from anybody."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    allows(there, allowed=None)
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    async with dashboard(there) as visitor:
        page = (await visitor.get("/r/default/cart")).body
        answer = await visitor.post(PROMOTE, await visitor.form(PROMOTE))

    assert LINK in page
    assert answer.status == 303
    assert await annotations_of(there) == {"rollouts.dev/promote": "newrev@1"}


async def test_a_form_that_is_sent_all_the_same_is_judged_by_the_api_server(there: Served) -> None:
    """Locked buttons are for people; a forged request gets the API server's own refusal, and nothing is written."""
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    async with dashboard(there) as visitor:
        allows(there, allowed=False)
        form = await visitor.form(PROMOTE)
        there.door.answers = lambda request: (
            Response(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}')
            if request.method == "PATCH"
            else None
        )
        answer = await visitor.post(PROMOTE, form)

    assert answer.status == 403
    assert await annotations_of(there) == {}


async def test_where_commands_need_verbs_each_button_is_locked_by_its_own(there: Served) -> None:
    """Whoever may promote and not abort sees that before they press; what both lack is said once."""
    allowed = {"patch", "promote"}

    def answers(request: Request) -> Response | None:
        if not request.path.endswith(REVIEWS):
            return None
        verb = json.loads(request.body)["spec"]["resourceAttributes"]["verb"]
        return Response(201, json.dumps({"status": {"allowed": verb in allowed}}).encode())

    there.door.answers = answers
    await install(there)
    await there.put_status(ROLLOUT, "cart", PAUSED)
    url = serving(session_of(there), namespace=None, address="127.0.0.1", port=0, rights_of_commands=True)
    async with url as address:
        visitor = Visitor(address)
        await visitor.log_in()
        page = (await visitor.get("/r/default/cart")).body
        promote, abort = (await visitor.get(PROMOTE)).body, (await visitor.get("/r/default/cart/abort")).body

    assert (LINK in page, LOCKED in page) == (True, False)
    assert '<button type="button" disabled>Abort</button>' in page
    assert 'href="/r/default/cart/abort"' not in page
    said = "You may not abort, pause, restart rollouts in namespace default: ask for the ClusterRole"
    assert page.count("You may not") == page.count(f"{said} <code>rollouts-commands</code> of the chart.") == 1
    assert '<button class="main">Promote</button>' in promote
    assert '<button class="main grave" disabled>Abort</button>' in abort
    verbs = [json.loads(each.body)["spec"]["resourceAttributes"]["verb"] for each in there.door.asked if each.body]
    assert sorted(verbs) == ["abort", "patch", "pause", "promote", "restart", "retry", "rollback"]


def test_a_button_asks_for_the_right_of_what_it_writes() -> None:
    """A button that is locked by another verb than the policy's would be locked for the wrong people."""
    found = set()
    for status in (PAUSED, {"phase": "Aborted", "abortedRevision": "newrev"}, {"phase": "Healthy"}):
        made = rollout(**status)
        for written in ({}, {"rollouts.dev/pause": "true"}):
            seen = RolloutObjects(rollout={**made, "metadata": {**made["metadata"], "annotations": written}})
            for word, act in ACTS.items():
                planned = act.plan("1800000000" if act.timed else "")(seen)
                if isinstance(planned, CommandWrite):
                    found.add(word)
                    assert planned.verb is act.verb, word

    assert {"promote", "pause", "resume", "abort", "restart", "promote-full"} <= found

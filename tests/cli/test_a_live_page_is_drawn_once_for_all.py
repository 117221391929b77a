"""Promise: a change costs one drawing however many people look, and nobody is shown what was drawn for other rights."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Callable

import pytest

from rollouts.api.status.experiment import experiment_status_to_wire
from rollouts.cli.dashboard import connections, drawing, hub, sessions
from rollouts.cli.dashboard.drawing import Drawn, RolloutDrawing
from rollouts.cli.dashboard.rights import NO_LOCKS
from rollouts.cli.view import giving
from rollouts.cli.view.follow import Followed, KeptObjects
from rollouts.objects import EVENT, EXPERIMENT, ROLLOUT, Key, Manifest
from tests.cli.dashboards import until_page
from tests.cli.runs import Served, rollout
from tests.cli.tenants import peoples_dashboard
from tests.cli.test_people_sign_in_to_the_dashboard import ADMIN, PEOPLE, READER, RELEASER, shared
from tests.cli.test_the_dashboard_shows_and_acts import PROMOTE
from tests.cli.test_the_dashboard_shows_experiments import FAILED as EXPERIMENT_FAILED
from tests.cli.test_the_dashboard_shows_experiments import RUNNING as EXPERIMENT_RUNS
from tests.cli.test_the_dashboard_shows_experiments import add

VIEWERS = 200
ONE = "/r/default/cart/events"


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each page was drawn. Pages are not drawn anew for their ages meanwhile."""
    monkeypatch.setattr(drawing, "REDRAWN_EVERY_S", 1e9)
    counts: Counter[str] = Counter()

    def counted(name: str) -> None:
        draw: Callable[..., object] = getattr(drawing, name)

        def drawing_it(*values: object, **named: object) -> object:
            counts[name] += 1
            return draw(*values, **named)

        monkeypatch.setattr(drawing, name, drawing_it)

    for name in ("list_page", "rollout_page", "listed", "experiment_page", "listed_experiment"):
        counted(name)
    return counts


@pytest.mark.parametrize(("path", "page"), [("/events", "list_page"), (ONE, "rollout_page")])
async def test_two_hundred_viewers_cost_one_drawing_for_each_change(
    there: Served, drawn: Counter[str], path: str, page: str
) -> None:
    """In ten sessions, each with a list and a watch of its own; the list makes one row for all of them."""
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served, contextlib.AsyncExitStack() as opened:
        guests = [await served.signed_in(ADMIN) for _ in range(sessions.SESSIONS_OF_ONE_MAX)]
        drawn.clear()
        each_has = VIEWERS // len(guests)
        streams = [await opened.enter_async_context(guest.stream(path)) for guest in guests for _ in range(each_has)]
        await asyncio.gather(*(until_page(stream, "Paused") for stream in streams))
        seen, asked = [drawn[page]], len(served.tenancy.asked)
        for phase in ("Degraded", "Progressing", "Healthy"):
            await there.put_status(ROLLOUT, "cart", {"phase": phase})
            await asyncio.gather(*(until_page(stream, phase) for stream in streams))
            seen.append(drawn[page])
        asked_meanwhile = len(served.tenancy.asked) - asked

    assert len(streams) == VIEWERS
    assert [after - before for before, after in itertools.pairwise(seen)] == [1, 1, 1]
    assert drawn["listed"] == 4 * (page == "list_page")
    assert asked_meanwhile == 0


async def test_who_has_other_rights_or_was_told_something_has_a_page_of_their_own(
    there: Served, drawn: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sees locked buttons and one sees links, each only theirs; what became of a command is told to who gave it."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served, contextlib.AsyncExitStack() as opened:
        reader, releaser, admin = [await served.signed_in(token) for token in (READER, RELEASER, ADMIN)]
        told = (await releaser.post(PROMOTE, await releaser.form(PROMOTE))).headers["location"].partition("?")[2]
        drawn.clear()
        paths = ((reader, ONE), (releaser, ONE), (admin, ONE), (releaser, f"{ONE}?{told}"), (admin, f"{ONE}?{told}"))
        streams = [await opened.enter_async_context(guest.stream(path)) for guest, path in paths]
        pages = [await until_page(stream, "waiting for promotion") for stream in streams]
        html = [json.loads(page.partition("data: ")[2])["html"] for page in pages]

    assert ["disabled>Promote</button>" in each for each in html] == [True, False, False, False, False]
    assert [f'href="{PROMOTE}"' in each for each in html] == [False, True, True, True, True]
    assert ["no controller has recorded" in each for each in html] == [False, False, False, True, False]
    assert drawn["rollout_page"] == 3


async def test_experiments_are_drawn_once_for_all_with_the_same_rights(there: Served, drawn: Counter[str]) -> None:
    """Their rows and their pages, in every session; who may not end one has a page of their own."""
    await add(there, EXPERIMENT_RUNS)
    paths = ("/experiments/events?ns=default", "/experiments/default/exp/events")
    async with peoples_dashboard(there, PEOPLE) as served, contextlib.AsyncExitStack() as opened:
        reader, *releasers = [await served.signed_in(token) for token in (READER, RELEASER, RELEASER)]
        guests = [(reader, paths[1]), *((guest, path) for path in paths for guest in releasers)]
        streams = [await opened.enter_async_context(guest.stream(path)) for guest, path in guests]
        pages = [await until_page(stream, "verdicts of smoke") for stream in streams]
        first = dict(drawn)
        await there.put_status(EXPERIMENT, "exp", experiment_status_to_wire(EXPERIMENT_FAILED))
        await asyncio.gather(*(until_page(stream, "nalysis smoke: bad") for stream in streams))

    html = [json.loads(page.partition("data: ")[2])["html"] for page in pages]
    assert ["disabled>Terminate</button>" in each for each in html] == [True, False, False, False, False]
    assert first == {"experiment_page": 2, "list_page": 1, "listed_experiment": 1}
    assert drawn == {"experiment_page": 4, "list_page": 2, "listed_experiment": 2}


async def test_who_was_given_other_objects_has_a_page_of_their_own() -> None:
    """The API server decides which objects somebody gets; equal ones are equal in every version."""
    made = {**rollout(phase="Paused"), "metadata": {**rollout()["metadata"], "uid": "u1", "resourceVersion": "1"}}
    what = RolloutDrawing(Key("default", "cart"), NO_LOCKS, None, None)
    about = {"regarding": {"kind": "Rollout", "name": "cart", "namespace": "default"}, "note": "only for some"}
    metadata = {"name": "cart.1", "namespace": "default", "uid": "e1", "resourceVersion": "2"}
    event = {"metadata": metadata, "reason": "StepCompleted", "eventTime": "2026-11-21T10:00:00.000000Z", **about}

    shown = Drawn()

    def given(*things: tuple[object, Manifest]) -> Followed:
        kept: Followed = KeptObjects(lambda thing: thing, shown.objects.of)
        for kind, thing in things:
            kept.put(kind, thing, deleted=False)  # type: ignore[arg-type]
        return kept

    all_, some, same = given((ROLLOUT, made), (EVENT, event)), given((ROLLOUT, made)), given((ROLLOUT, made))
    pages = [shown.event(what, each, 0.0) for each in (all_, some, same)]
    some.put(ROLLOUT, {**made, "metadata": {**made["metadata"], "resourceVersion": "3"}}, deleted=False)
    changed = shown.event(what, some, 0.0)

    assert [b"only for some" in page for page in pages] == [True, False, False]
    assert pages[1] is pages[2]
    assert changed is not pages[1]


async def test_nobody_takes_all_places_for_live_pages(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one person's sessions, or of everybody's: pages that are loaded and the way in always find a connection."""
    assert sessions.SESSIONS_OF_ONE_MAX * hub.STREAMS_MAX < hub.STREAMS_IN_ALL_MAX < connections.CONNECTIONS_MAX
    assert hub.STREAMS_IN_ALL_MAX >= 2 * sessions.SESSIONS_MAX
    monkeypatch.setattr(hub, "STREAMS_IN_ALL_MAX", 1)
    await shared(there)
    async with peoples_dashboard(there, PEOPLE) as served:
        one, two = await served.signed_in(ADMIN), await served.signed_in(READER)
        async with one.stream("/events") as first:
            await until_page(first, "1 Rollout")
            async with two.stream(ONE) as second:
                assert "1 pages of everybody are open, which is the most" in await until_page(second, "event: full")
            assert (await two.get("/r/default/cart")).status == 200

"""Promise: the list of thousands of Rollouts fits into little memory, and what nobody looks at is forgotten."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

import pytest

from rollouts.cli.dashboard import drawing
from rollouts.cli.dashboard import hub as hubs
from rollouts.cli.dashboard.drawing import Drawn
from rollouts.cli.dashboard.hub import Hub
from rollouts.cli.dashboard.list_page import listed
from rollouts.cli.view.follow import KeptObjects
from rollouts.objects import ROLLOUT, Key, Manifest
from tests.cli.dashboards import dashboard, session_of
from tests.cli.runs import Served, install, rollout
from tests.patience import PATIENCE_S

T = TypeVar("T")
ROLLOUTS, PAGE = 200, 50
FIELDS: Manifest = {
    "f:spec": {f"f:{name}": {} for name in ("replicas", "selector", "strategy", "template", "minReadySeconds")}
}


async def pages() -> AsyncIterator[tuple[Sequence[Manifest], str]]:
    """Rollouts of some 4 KB of JSON each, as a list brings them."""
    for first in range(0, ROLLOUTS, PAGE):
        made = []
        for index in range(first, first + PAGE):
            fields = [{"manager": name, "fieldsV1": FIELDS} for name in ("helm", "rollouts", "kubectl")]
            metadata = {"name": f"cart-{index}", "namespace": "default", "uid": f"u{index}", "managedFields": fields}
            one = {**rollout(phase="Paused"), "metadata": metadata}
            env = [{"name": f"KEY_{each}", "value": f"value-{each}"} for each in range(30)]
            one["spec"]["template"]["spec"]["containers"][0]["env"] = env
            made.append(json.loads(json.dumps(one)))
        yield made, "9"


async def taken_bytes(keep: Callable[[Manifest], T]) -> float:
    """The memory that the list takes for each Rollout."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = KeptObjects(keep)
        await kept.replace(ROLLOUT, pages())
        gc.collect()
        assert len(kept.all(ROLLOUT)) == ROLLOUTS
        return tracemalloc.get_traced_memory()[0] / ROLLOUTS
    finally:
        tracemalloc.stop()


async def test_a_row_takes_a_fraction_of_its_rollout() -> None:
    """The page has 100 rows of what may be thousands; images and messages of all are searched."""
    whole, row = await taken_bytes(lambda thing: thing), await taken_bytes(listed)

    assert row < whole / 5, (whole, row)
    assert row < 4_000


async def test_whoever_was_given_the_same_shares_it() -> None:
    """200 sessions with lists of 1,000 Rollouts; they see changes in any order, and what nobody has any more is forgotten."""
    drawn = Drawn()
    one, other = (KeptObjects(drawn.row, drawn.lists.of) for _ in range(2))
    await one.replace(ROLLOUT, pages())
    gc.collect()
    tracemalloc.start()
    try:
        await other.replace(ROLLOUT, pages())
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    before = weakref.ref(next(iter(one.now)))
    changed, gone = ({**rollout(), "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "2"}}
                     for name, uid in (("cart-1", "u1"), ("cart-2", "u2")))  # fmt: skip
    for kept, changes in ((one, (changed, gone)), (other, (gone, changed))):
        for each in changes:
            kept.put(ROLLOUT, each, deleted=each is gone)
    gc.collect()

    assert taken < 10 * ROLLOUTS, taken
    assert one.now == other.now
    assert len(one.all(ROLLOUT)) == ROLLOUTS - 1
    assert before() is None


async def test_a_row_that_cannot_be_made_ends_in_an_error_and_not_in_a_page_that_never_comes(
    there: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake of ours in one row is said on the page and in the terminal; the next load tries again."""
    monkeypatch.setattr(drawing, "listed", lambda rollout: rollout["mistake"])
    await install(there)
    async with dashboard(there) as visitor, asyncio.timeout(PATIENCE_S):
        answer = await visitor.get("/")
        monkeypatch.undo()
        again = await visitor.get("/")

    assert (answer.status, again.status) == (500, 200)
    assert "It is our mistake" in answer.body
    assert "error: GET /: KeyError('mistake')" in capsys.readouterr().err


async def test_a_page_that_is_over_is_forgotten(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its objects would stay for as long as the dashboard runs."""
    monkeypatch.setattr(hubs, "IDLE_S", 0.0)
    await install(there)
    hub = Hub(session_of(there), None)
    key = Key("default", "cart")
    async with hub.looking_at(ROLLOUT, key) as feed:
        assert (await feed.objects()).all(ROLLOUT)
    async with asyncio.timeout(PATIENCE_S):
        while hub.kept:  # noqa: ASYNC110 - nothing tells when a feed has been forgotten
            await asyncio.sleep(0)
    async with hub.looking_at(ROLLOUT, key) as again:
        assert again is not feed
        assert (await again.objects()).all(ROLLOUT)
    await hub.close()

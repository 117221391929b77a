"""Promise: each button says what it will do before it does it, and writes what it has said and nothing else."""

from __future__ import annotations

import re
from html import unescape
from typing import NamedTuple

import pytest

from rollouts.cli.dashboard.acts import ACTS
from rollouts.cli.dashboard.pages import capital
from rollouts.cli.view import giving
from rollouts.objects import REPLICA_SET, ROLLOUT, Manifest
from tests.cli.configured import noted
from tests.cli.dashboards import dashboard
from tests.cli.runs import Served, replica_set, rollout
from tests.cli.test_the_dashboard_shows_and_acts import PAUSED, annotations_of

AT = "2026-11-21T10:00:00Z"
MEASURES = {"kind": "step", "step": 1, "number": 1, "run": "cart-newrev-step-1", "phase": "Running", "at": AT}
ABORTED = {**PAUSED, "phase": "Aborted", "abort": {"revision": "newrev", "at": AT, "message": ""}}


class Said(NamedTuple):
    """What a button says in a state of the Rollout, and how the same is typed."""

    does: str
    typed: str
    status: Manifest = PAUSED
    annotations: tuple[str, ...] = ()


EACH = {
    "promote": Said(
        "This lets revision newrev pass step 2 (pause until promoted); no later step stops it.", "promote cart"
    ),
    "promote-full": Said("This lets revision newrev pass every step.", "promote cart --full"),
    "skip-analysis": Said(
        "This lets revision newrev pass its analysis of step 2 without a verdict; no later step stops it.",
        "promote cart --skip-analysis",
        {**PAUSED, "analyses": [MEASURES]},
    ),
    "pause": Said("This pauses its steps.", "pause cart"),
    "resume": Said("This resumes its steps.", "resume cart", annotations=("pause",)),
    "retry": Said("This tries revision newrev again (attempt 1).", "retry cart", ABORTED),
    "undo": Said("This rolls back from revision newrev to revision oldrev.", "undo cart"),
    "abort": Said("This aborts revision newrev; revision oldrev gets all traffic", "abort cart"),
    "restart": Said("This replaces the pods of cart that are older than", "restart cart"),
}


def test_there_is_no_other_button() -> None:
    """One that is added has to say what it does, too."""
    assert set(EACH) == set(ACTS)


@pytest.mark.parametrize("word", EACH)
async def test_it_says_what_it_does_and_does_that(there: Served, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """Where the pointer rests on it, and on a page of its own, with the annotation and the command; looking writes nothing."""
    monkeypatch.setattr(giving, "RECORDED_WITHIN_S", 0.05)
    said, label = EACH[word], ACTS[word].label
    before = {f"rollouts.dev/{verb}": "true" for verb in said.annotations}
    made = rollout(**said.status)
    await there.create(ROLLOUT, {**made, "metadata": {**made["metadata"], "annotations": before}})
    newrev = replica_set(await there.object(ROLLOUT, "cart"))
    for each in (newrev, noted(newrev, "oldrev", 1)):
        await there.create(REPLICA_SET, each)
    path = f"/r/default/cart/{word}"
    async with dashboard(there) as visitor:
        (button,) = re.findall(
            f'<a class="[^"]*" href="{path}"[^>]*>{label}</a>', (await visitor.get("/r/default/cart")).body
        )
        page, form = (await visitor.get(path)).body, await visitor.form(path)
        assert await annotations_of(there) == before
        assert (await visitor.post(path, form)).status == 303
    told = re.sub(r"<[^>]*>", "", unescape(page))

    assert said.does in told
    if word != "restart":  # which depends on when it is asked for
        assert f'title="{capital(said.does.removeprefix("This ").rstrip("."))}' in button
    assert f"kubectl rollouts {said.typed} -n default" in told
    (written,) = re.findall("as the annotation (.*), the same as:", told)
    after = await annotations_of(there)
    parts = [part.removesuffix(" removed").partition("=") for part in written.split(", ")]
    wanted = {name: value for name, is_given, value in parts if is_given}
    kept = {name: value for name, value in before.items() if name not in {name for name, *_ in parts}}
    assert after == kept | wanted
    assert after != before

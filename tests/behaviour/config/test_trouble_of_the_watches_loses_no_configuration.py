"""Promise: however late, broken or wrong watches are, pods keep the value of their revision, and every copy is there at the end.

Which copies there are, and which version a source has, is known by a watch alone. `ROLLOUTS_DEEP=1` plays all scenarios.
"""

from __future__ import annotations

import asyncio
import os
import random
from functools import cache

import pytest

from tests.behaviour.configured import CONFIGURED, MANIFESTS, watched
from tests.behaviour.stage import Run, Script, Stage, play
from tests.behaviour.troubles import TROUBLES, in_trouble

SOME = (
    ("copies_deleted", "gone"),
    ("edited", "lost events"),
    ("retained_and_not", "broken"),
    ("reverted", "stale lists"),
)
"""One of each scenario that depends on what a watch shows, and of each trouble that shows something wrong."""
ALL = [(name, trouble, seed) for name in CONFIGURED for trouble in TROUBLES for seed in (1, 2, 3)]
PLAYED = ALL if os.environ.get("ROLLOUTS_DEEP") == "1" else [(*each, 1) for each in SOME]


@cache
def _undisturbed(name: str) -> Run:
    return play(MANIFESTS, CONFIGURED[name], alongside=watched())


def _together(*scripts: Script) -> Script:
    """Scripts that run beside another one; all are cancelled when it has ended."""

    async def script(stage: Stage) -> None:
        await asyncio.gather(*(each(stage) for each in scripts))

    return script


@pytest.mark.parametrize(("name", "trouble", "seed"), PLAYED)
def test_trouble_of_the_watches_ends_as_without(name: str, trouble: str, seed: int) -> None:
    """A copy that is not shown yet is not lost, and one that is shown although it is gone is made again later."""
    what = TROUBLES[trouble]
    between, forgets = in_trouble(what, random.Random(seed))  # noqa: S311 - a test's seed
    beside = _together(watched(), forgets)

    run = play(MANIFESTS, CONFIGURED[name], seed=seed, between=between, alongside=beside, grace_s=what.late_s)

    assert run.violations == []
    assert [each for each in run.unexpected if not any(f'"{error}"' in each for error in what.explained)] == []
    assert run.end == _undisturbed(name).end

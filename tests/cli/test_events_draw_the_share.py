"""Promise: the Events of an update say what share its canary was to have, from its beginning to its promotion."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.cli.demo.manifests import SECOND, with_image
from rollouts.cli.view.objects import status_of
from rollouts.cli.view.weights import weights_of
from tests.build import canary
from tests.cli.shop import shop
from tests.patience import PATIENCE_S

STRATEGY = canary({"setWeight": 50}, {"pause": {"duration": 1}}, {"setWeight": 75}, {"pause": {}})


async def test_a_share_over_time_is_read_from_the_events_of_the_controller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody followed it: what the API server holds is enough."""
    async with shop(tmp_path, capsys, strategy=STRATEGY) as there:
        await there.stage.change("cart", with_image(SECOND))
        await there.stage.until(
            "cart",
            lambda seen: status_of(seen.rollout).step_index == 3 and status_of(seen.rollout).phase == "Paused",
            deadline_s=PATIENCE_S,
            what="the last pause",
        )
        await there.run("promote", "cart")
        await there.reaches("Healthy")
        seen = await there.stage.until(
            "cart",
            lambda seen: [mark.percent for mark in weights_of(seen)][-1:] == [100.0],
            deadline_s=PATIENCE_S,
            what="the Event of the promotion",
        )
        shares = [mark.percent for mark in weights_of(seen)]

    assert shares[-3:] == [50.0, 75.0, 100.0]
    assert shares == sorted(shares)

"""Promise: a person sees what is left of an update, with its waits, or what the next one will go through, without a file."""

from __future__ import annotations

from rollouts.cli.demo.manifests import SECOND, with_image
from tests.cli.dashboards import dashboard
from tests.cli.shop import Shop


async def test_the_rest_of_an_update_is_planned_and_then_the_next_one(healthy: Shop) -> None:
    """Of an update under way no step that is done; where none is under way, all steps of one to another template."""
    path = f"/r/{healthy.namespace}/cart/plan"
    async with dashboard(healthy) as visitor:
        before = await visitor.get(path)
        await healthy.stage.change("cart", with_image(SECOND))
        await healthy.reaches("Paused")
        during = await visitor.get(path)
        linked = (await visitor.get(f"/r/{healthy.namespace}/cart")).body

    assert (before.status, during.status) == (200, 200)
    assert "<h1>The next update of cart</h1>" in before.body
    assert "No update is under way" in before.body
    assert "setWeight 50" in before.body
    assert "<h1>What comes next for cart</h1>" in during.body
    assert "pause" in during.body
    assert "wait for a person" in during.body
    assert f'href="{path}"' in linked
    assert all(each.method == "GET" for each in healthy.door.asked if "selfsubject" not in each.path)


async def test_without_the_rollout_there_is_no_plan(healthy: Shop) -> None:
    """The address may be old."""
    async with dashboard(healthy) as visitor:
        assert (await visitor.get(f"/r/{healthy.namespace}/none/plan")).status == 404

"""What is on the screen is what the API server holds, whatever becomes of the watch."""

from __future__ import annotations

import asyncio

import pytest

from rollouts.cli.demo.manifests import rollout, service
from rollouts.cli.view.follow import Collection, Followed, following, list_all
from rollouts.errors import ApiNotFound
from rollouts.objects import ROLLOUT, SERVICE, Kind
from tests.cli.runs import Served
from tests.patience import PATIENCE_S

ALL = Collection(kind=ROLLOUT, namespace="default")
UNSERVED = Kind("example.com", "v1", "Thing", "things")


async def create(there: Served, name: str) -> None:
    """One more Rollout."""
    await there.session.client.create(ROLLOUT, "default", rollout("default", name, {"canary": {}}))


async def shows(followed: Followed, *names: str) -> None:
    """Waits until exactly these are known. Raises: TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while [each["metadata"]["name"] for each in followed.all(ROLLOUT)] != list(names):
            followed.changed.clear()
            await followed.changed.wait()


async def test_changes_and_deletions_come_by_the_watch(there: Served) -> None:
    """One list at the beginning, then only what happens."""
    await create(there, "a")
    async with following(there.session, ALL) as followed:
        await shows(followed, "a")
        await create(there, "b")
        await shows(followed, "a", "b")
        await there.session.client.delete(ROLLOUT, "default", "a")
        await shows(followed, "b")

    assert there.api.counts["GET", "rollouts", "", 200] == 1, "nothing is polled"


async def test_a_watch_that_ends_is_opened_again(there: Served) -> None:
    """API servers end every watch after some minutes, and restart."""
    async with following(there.session, ALL) as followed:
        await asyncio.sleep(0)
        there.api.end_watches()
        await create(there, "a")
        await shows(followed, "a")


async def test_a_version_that_has_expired_is_answered_by_a_new_list(there: Served) -> None:
    """410: the change in between is only in the list."""
    await create(there, "a")
    async with following(there.session, ALL) as followed:
        await create(there, "b")
        await shows(followed, "a", "b")  # the watch is open, and stands at b
        await there.session.client.create(
            SERVICE, "default", service("default", "other", app="a")
        )  # our version is old now
        there.api.compact()
        there.api.end_watches()
        await create(there, "new")
        await shows(followed, "a", "b", "new")

    assert there.api.counts["GET", "rollouts", "", 200] == 2, "the first list and the one after the 410"


async def test_every_page_of_a_long_list_is_read(there: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """`limit` is a request for pages, not for less."""
    monkeypatch.setattr("rollouts.cli.view.follow._PAGE", 2)
    for name in "abcde":
        await create(there, name)

    objects, _ = await list_all(there.session, ALL)

    assert [each["metadata"]["name"] for each in objects] == list("abcde")
    assert {(each["apiVersion"], each["kind"]) for each in objects} == {("rollouts.dev/v1alpha1", "Rollout")}


async def test_what_is_optional_may_be_missing_and_the_rest_may_not(there: Served) -> None:
    """People without the right to read Events still see their Rollouts; without Rollouts there is nothing to see."""
    await create(there, "a")
    async with following(there.session, ALL, Collection(kind=UNSERVED, namespace="default", optional=True)) as followed:
        await shows(followed, "a")
        assert followed.all(UNSERVED) == ()

    with pytest.raises(ApiNotFound):
        async with following(there.session, Collection(kind=UNSERVED, namespace="default")):
            pass

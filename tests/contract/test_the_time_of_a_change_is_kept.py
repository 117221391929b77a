"""Promise: the newest time in managedFields says when an object last changed, to the second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import time as clock
from typing import Any

import pytest

from rollouts.objects import CONFIG_MAP
from rollouts.ports import MERGE_PATCH, METADATA
from tests.contract.conversation import Answer, Conversation, config_map
from tests.patience import PATIENCE_S

Change = Callable[[Conversation], Awaitable[Answer]]


def patched(body: Any, by: str = "alice") -> Change:
    return lambda api: api.patch(CONFIG_MAP, "a", body, MERGE_PATCH, fieldManager=by)


def applied(**data: str) -> Change:
    return lambda api: api.apply(CONFIG_MAP, "a", {"data": data}, by="helm")


async def newest_time(api: Conversation) -> str:
    """As a reader of metadata alone finds it."""
    answer = await api.send("GET", api.path(CONFIG_MAP, "a"), accept=METADATA)
    return max(str(each["time"]) for each in answer.metadata["managedFields"])


async def until_after(api: Conversation, time: str) -> None:
    """Returns when the server's clock, which is this machine's, shows a later second."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await api.create(CONFIG_MAP, config_map("clock"), dryRun="All")
            if answer.metadata["creationTimestamp"] > time:
                return
            await asyncio.sleep(1.0 - clock() % 1.0)


def created(api: Conversation) -> Awaitable[Answer]:
    """By an update, too."""
    return api.create(CONFIG_MAP, config_map("a", k="1", l="1", m="1"))


# An update moves the time if it sets something: a field that only goes has no owner afterwards, whose time could say so.
CHANGES: dict[str, tuple[Change, Change, bool]] = {
    "value": (created, patched({"data": {"k": "2"}}), True),
    "new key": (created, patched({"data": {"new": "1"}}), True),
    "by another": (created, patched({"data": {"k": "2"}}, by="bob"), True),
    "nothing": (created, patched({"data": {"k": "1"}}, by="bob"), False),
    "label": (created, patched({"metadata": {"labels": {"a": "b"}}}), True),
    "one gone, one changed": (created, patched({"data": {"k": None, "l": "2"}}), True),
    "key gone": (created, patched({"data": {"k": None}}), False),
    "key gone by another": (created, patched({"data": {"k": None}}, by="bob"), False),
    "value applied": (applied(k="1", l="1"), applied(k="2", l="1"), True),
    "new key applied": (applied(k="1", l="1"), applied(k="1", l="1", m="1"), True),
    "key not applied any more": (applied(k="1", l="1"), applied(k="1"), True),
    "nothing applied": (applied(k="1", l="1"), applied(k="1", l="1"), False),
}


@pytest.mark.parametrize(("before", "change", "moves"), CHANGES.values(), ids=CHANGES)
async def test_a_change_moves_the_time_of_its_manager(
    api: Conversation, before: Change, change: Change, moves: bool
) -> None:
    """An apply does so whatever it changes, and also what it removes."""
    assert (await before(api)).status == 201
    made_at = await newest_time(api)
    await until_after(api, made_at)

    answer = await change(api)

    assert answer.status == 200
    assert (await newest_time(api) > made_at) is moves

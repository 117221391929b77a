"""Promise: a CRD that is older than the controller is told with the command that helps."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rollouts.controller.act.calls import WriteStatus
from rollouts.errors import ApiInvalid
from rollouts.ports import Response
from rollouts.sim.clock import run_virtual
from tests.controller.world import World, says

VERDICTS = WriteStatus(patch={"analyses": [{"run": "cart-b-step-1", "phase": "Pending"}]})


def written(call: WriteStatus, **answered: Any) -> None:
    """Writes a status to a server that answers with these fields of it."""

    async def main() -> None:
        body = {"metadata": {"name": "cart", "uid": "cart-uid", "resourceVersion": "8"}, "status": answered}
        world = World(says(Response(200, msgspec.json.encode(body))))
        async with asyncio.TaskGroup() as questions:
            await world.performer(questions).perform(world.target("7"), [call])

    run_virtual(main())


def test_a_server_that_drops_verdicts_has_an_old_crd() -> None:
    """It answers 200 and keeps nothing of them, so no verdict would ever count."""
    with pytest.raises(ExceptionGroup) as caught:
        written(VERDICTS, phase="Progressing")

    (error,) = caught.value.exceptions
    assert isinstance(error, ApiInvalid)
    assert "rollouts crds | kubectl apply -f -" in str(error)


def test_a_server_that_keeps_verdicts_is_believed() -> None:
    """And one that was told of none has nothing to keep."""
    written(VERDICTS, **VERDICTS.patch)
    written(WriteStatus(patch={"phase": "Healthy"}), phase="Healthy")

"""The two API servers that every contract test runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rollouts.clock import SystemClock
from rollouts.cluster.connection import connect
from rollouts.ports import ApiServer
from rollouts.sim.cluster import SimulatedCluster
from tests.contract.conversation import (
    CRD,
    NAMESPACE,
    WIDGET_CRD,
    Conversation,
    fresh_name,
    until_widgets_are_served,
)


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.controlplane)])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Conversation]:
    """A talk with each server, in a fresh namespace, with the test's CRD installed."""
    if request.param == "simulated":
        async with SimulatedCluster(clock=SystemClock()) as cluster:
            yield await _begin(cluster.api, is_simulated=True)
        return
    control_plane = request.getfixturevalue("control_plane")
    connection = await connect(kubeconfig=control_plane.kubeconfig_admin, context=None, user_agent="contract/1")
    try:
        conversation = await _begin(connection, is_simulated=False)
        yield conversation
        await conversation.send("DELETE", NAMESPACE.path(None, conversation.namespace))
    finally:
        await connection.aclose()


async def _begin(api: ApiServer, *, is_simulated: bool) -> Conversation:
    name = fresh_name()
    conversation = Conversation(api, name, is_simulated=is_simulated)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert (await conversation.send("POST", NAMESPACE.path(), namespace)).status == 201
    assert (await conversation.send("POST", CRD.path(), WIDGET_CRD)).status in (201, 409)
    await until_widgets_are_served(api)
    return conversation

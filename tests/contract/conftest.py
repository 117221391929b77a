"""The two API servers that every contract test runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rollouts.clock import SystemClock
from rollouts.cluster.connection import connect
from rollouts.sim.cluster import SimulatedCluster
from tests.contract.conversation import CRD, NAMESPACE, WIDGET_CRD, Conversation, until_widgets_are_served


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.controlplane)])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Conversation]:
    """A talk with each server, in a fresh namespace, with the test's CRD installed."""
    if request.param == "simulated":
        async with SimulatedCluster(clock=SystemClock()) as cluster:
            conversation = Conversation(cluster.api, "contract", is_simulated=True)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": conversation.namespace}}
            assert (await conversation.send("POST", NAMESPACE.path(), namespace)).status == 201
            yield await _begun(conversation)
        return
    control_plane, namespace = request.getfixturevalue("control_plane"), request.getfixturevalue("namespace")
    connection = await connect(kubeconfig=control_plane.kubeconfig_admin, context=None, user_agent="contract/1")
    try:
        yield await _begun(Conversation(connection, namespace, is_simulated=False))
    finally:
        await connection.aclose()


async def _begun(conversation: Conversation) -> Conversation:
    assert (await conversation.send("POST", CRD.path(), WIDGET_CRD)).status in (201, 409)
    await until_widgets_are_served(conversation.api)
    return conversation

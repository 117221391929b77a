"""Promise: when the simulated API server stops, every connection to it is closed, also one that it has only just accepted."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import pytest

from rollouts.sim.apiserver.http import SimHttp
from rollouts.sim.cluster import SimulatedCluster


@pytest.mark.parametrize("turns", range(5))
async def test_a_connection_is_closed_however_far_it_has_come(turns: int) -> None:
    """Accepting takes a few turns of the event loop; a connection in the middle of it was forgotten, and its socket left open."""
    cluster = SimulatedCluster()
    async with SimHttp(cluster.api) as http:
        address = urlsplit(http.url)
        client = socket.create_connection((address.hostname, address.port), timeout=1.0)
        for _ in range(turns):
            await asyncio.sleep(0)

    with client:
        try:
            rest = await asyncio.to_thread(client.recv, 1)
        except ConnectionResetError:  # it was not accepted at all
            rest = b""
    assert rest == b""

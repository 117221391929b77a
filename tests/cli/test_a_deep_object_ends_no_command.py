"""What one tenant stores, as deep as the API server takes it, ends no command that somebody else types."""

from __future__ import annotations

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands.doctor_reads import ClusterSeen, read_cluster
from rollouts.cli.view.session import session_on
from rollouts.ports import Request, Response
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests.controller.test_the_process_outlives_what_objects_hold import Spoiling, rollout


class Reviewed(Spoiling):
    """Serves reviews of rights, too, and grants all."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if request.path.endswith("accessreviews"):
            return Response(201, b'{"status":{"allowed":true}}')
        return await super().request(request, deadline_s=deadline_s)


@pytest.mark.parametrize("levels", [900, 1_100, 5_000])
def test_the_doctor_reads_the_whole_cluster(levels: int) -> None:
    """The API server keeps 10,000 levels, and Python's parser reads a tenth: the doctor ended with a traceback for everybody."""

    async def seen() -> ClusterSeen:
        async with SimulatedCluster() as cluster:
            for crd in crd_manifests():
                cluster.apply(crd)
            cluster.apply(rollout("cart", more=f"deep-{levels}"))
            session = session_on(Reviewed(cluster.api), namespace="default", request_timeout_s=5.0)
            return await read_cluster(session, controller_namespace=None)

    (read,) = run_virtual(seen()).rollouts

    assert read["metadata"]["name"] == "cart"

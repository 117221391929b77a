"""The image that `make image` builds runs on a real kubelet as the chart says: without rights, read-only, at work."""

from __future__ import annotations

from tests.e2e.stage import Stage
from tests.node.installed import PRESENT, Installed, processes
from tests.node.moves import CANARY, until_phase
from tests.node.traffic import traffic_of
from tests.node.workload import NAME

RATE = 100
USER = 65532


def test_the_image_becomes_ready_leads_and_moves_a_rollout(bare_cluster: Installed, image: str) -> None:
    """Dockerfile, chart and controller agree: ports, user, arguments, read-only root, probes, memory, rights and the Lease."""
    leader = bare_cluster.upgrade(tag=PRESENT)
    running = processes()

    assert f"localhost/rollouts:{PRESENT} is built and starts: rollouts " in image
    assert len(running) == len(bare_cluster.pods()) == 2
    assert leader in bare_cluster.pods()
    for one in running:
        assert (one.user, one.capabilities, one.seccomp) == (USER, 0, 2)
        assert one.no_new_privileges
        assert one.root_is_read_only

    with bare_cluster.plane.fresh_namespace() as name:
        stage = Stage(bare_cluster.plane, name)
        stage.apply(*CANARY.manifests("dies", "auto"))
        until_phase(stage, "Healthy")
        with traffic_of(bare_cluster.node, stage, rate=RATE) as load:
            CANARY.act(stage)
        stage.kubectl("delete", "rollout", NAME, "--timeout=55s")

    assert load.outcome.failed == {}, load.outcome.failures
    assert set(load.outcome.versions) == {"1", "2"}
    assert bare_cluster.restarts() == 0

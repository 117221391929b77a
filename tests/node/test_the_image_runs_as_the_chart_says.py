"""The image that `make image` builds runs on a real kubelet as the chart says: without rights, read-only, at work."""

from __future__ import annotations

from rollouts.cli.completion import NAMESPACE
from tests import build
from tests.e2e.stage import Stage
from tests.lab.chart import RELEASE, RELEASE_NAMESPACE
from tests.node.installed import PRESENT, Installed, processes
from tests.node.moves import CANARY, until_phase
from tests.node.traffic import traffic_of
from tests.node.workload import NAME

RATE = 100
USER = 65532
ASSIGNED = 1_000_680_000
"""What OpenShift assigns: the first of a namespace's range, which no image knows."""


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


def test_it_runs_as_any_user_in_a_namespace_of_restricted_pods(bare_cluster: Installed, image: str) -> None:
    """OpenShift's restricted SCC assigns a user of the namespace's range; `helm test` runs the same image as the same user."""
    assert image
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    bare_cluster.plane.apply(build.manifest(NAMESPACE, RELEASE_NAMESPACE, "", metadata={"labels": restricted}))

    bare_cluster.upgrade(tag=PRESENT, values={"podSecurityContext.runAsUser": ASSIGNED})
    tested = bare_cluster.plane.helm("test", RELEASE, "--namespace", RELEASE_NAMESPACE)

    running = processes()
    assert len(running) == 2
    assert {(one.user, one.capabilities, one.root_is_read_only) for one in running} == {(ASSIGNED, 0, True)}
    assert "Succeeded" in tested.stdout
    assert bare_cluster.restarts() == 0

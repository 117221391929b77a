"""The same updates of the same app under the same load, carried out by Argo Rollouts and by this controller, one after the other.

`python -m tests.node.beside_argo` builds Argo Rollouts where it is missing, and writes `build/reports/beside-argo.json`, a table
and a picture. Not a part of `make node`: run it for a new version of either controller.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace

import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.manifests import container_of
from tests.e2e.stage import Stage
from tests.lab import argo_rollouts, binaries
from tests.lab.chart import install_chart
from tests.lab.processes import Processes
from tests.node.__main__ import prepared, run_inside
from tests.node.cutover import RATE, UnderLoad
from tests.node.cutover_report import Case, draw
from tests.node.moves import DONE_WITHIN_S, wait_until_done
from tests.node.one_run import ROOT, Report
from tests.node.real_node import RealNode
from tests.node.workload import NAME, REPLICAS, Manifest, blue_green, canary, new_version, service

REPORT = Report(ROOT / "build" / "reports" / "beside-argo.json")
ROUNDS = 2
PAUSE: Manifest = {"pause": {"duration": "5s"}}
STEPS = ({"setWeight": 25}, PAUSE, {"setWeight": 50}, PAUSE, {"setWeight": 75}, PAUSE)
SLEEP_S = 5


def sleeping(rollout: Manifest) -> Manifest:
    """The same Rollout, of pods that its author lets sleep before they end."""
    container_of(rollout)["lifecycle"] = {"preStop": {"sleep": {"seconds": SLEEP_S}}}
    return rollout


@dataclass(frozen=True)
class Update:
    """An update of four pods that end at once on SIGTERM, by this controller; `number` tells it from the same one made again."""

    name: str
    rollout: Manifest
    number: int
    controller: str = "Rollouts"

    def __str__(self) -> str:
        return f"{self.name}-{self.controller}-{self.number}".replace(" ", "-")

    def carry_out(self, node: RealNode) -> Case:
        """What the clients saw of it, until all old pods were gone."""
        with node.plane.fresh_namespace() as namespace, self.running(node, namespace):
            stage = Stage(node.plane, namespace)
            stage.apply(self.rollout, service(), service(f"{NAME}-preview"))
            self.wait_until_done(stage)
            load = UnderLoad(app="dies", rate=RATE)
            row = load.seen(node, stage, lambda: self._update(stage), case=self.name).row
        return replace(row, controller=self.controller)

    def running(self, node: RealNode, namespace: str) -> AbstractContextManager[object]:
        return confined_controller(node.plane, install_chart(node.plane), namespace)

    def wait_until_done(self, stage: Stage) -> None:
        """Returns when the present version is rolled out, and no pod but its own is there."""
        wait_until_done(stage)

    def _update(self, stage: Stage) -> None:
        home = stage.plane.served(self.rollout["apiVersion"])["Rollout"].format(namespace=stage.namespace)
        stage.plane.patch(f"{home}/{NAME}", {"spec": new_version("2")})
        self.wait_until_done(stage)


@dataclass(frozen=True)
class UpdateByArgo(Update):
    """The same, by Argo Rollouts with its defaults."""

    controller: str = "Argo Rollouts"

    @contextmanager
    def running(self, node: RealNode, namespace: str) -> Iterator[None]:
        processes = Processes(node.plane.logs)
        argo_rollouts.start(processes, node.plane.kubeconfig_admin, "--namespaced", f"--namespace={namespace}")
        try:
            yield
        finally:
            processes.stop(patience_s=10.0)

    def wait_until_done(self, stage: Stage) -> None:
        def healthy(rollout: Manifest) -> bool:
            status, generation = rollout.get("status", {}), str(rollout["metadata"]["generation"])
            return (status.get("observedGeneration"), status.get("phase")) == (generation, "Healthy")

        path = argo_rollouts.ROLLOUTS.format(namespace=stage.namespace)
        stage.plane.until(path, NAME, healthy, within_s=DONE_WITHIN_S)
        stage.until_pods(NAME, {"": REPLICAS}, within_s=DONE_WITHIN_S)  # its pods have no label of ours


def by_argo(rollout: Manifest) -> Manifest:
    """The same Rollout in Argo's API, which has no field for draining."""
    spec = {key: value for key, value in rollout["spec"].items() if key != "drain"}
    return {**rollout, "apiVersion": argo_rollouts.API_VERSION, "spec": spec}


CANARY = canary("dies", "auto", steps=STEPS)
SLEEPING = sleeping(canary("dies", "auto", steps=STEPS))
# Both controllers keep the old pods of a blue-green for 30 s by default.
BLUE_GREEN = blue_green("dies", "auto", scaleDownDelaySeconds=30)

UPDATES = tuple(
    update
    for number in range(ROUNDS)
    for update in (
        UpdateByArgo("canary", by_argo(CANARY), number),
        Update("canary", CANARY, number),
        UpdateByArgo(f"canary, preStop sleeps {SLEEP_S} s", by_argo(SLEEPING), number),
        UpdateByArgo("blue-green", by_argo(BLUE_GREEN), number),
        Update("blue-green", BLUE_GREEN, number),
    )
)


def table(cases: Sequence[Case]) -> list[str]:
    """One row for each update."""
    rows = [f"| {one.case} | {one.controller} | {one.sent:,} | {one.lost} | {one.seconds:g} |" for one in cases]
    return ["| update | controller | requests | lost | seconds |", "|---|---|---:|---:|---:|", *rows]


@pytest.fixture(scope="module")
def cases(node: RealNode) -> Iterator[list[Case]]:
    """What was seen, in order; the report is written after the last test, whatever failed."""
    argo_rollouts.install(node.plane)
    seen: list[Case] = []
    yield seen
    REPORT.write(list(map(asdict, seen)), table(seen))
    canaries = [one for one in seen if one.case == "canary"]
    kindest = [  # of each controller's canaries, that which lost least
        min((one for one in canaries if one.controller == controller), key=lambda one: one.lost)
        for controller in dict.fromkeys(one.controller for one in canaries)
    ]
    draw(
        "Requests lost during the same update",
        [(one.controller, one) for one in kindest],
        REPORT.path.with_suffix(".svg"),
    )


@pytest.mark.parametrize("update", UPDATES, ids=str)
def test_an_update_under_load(update: Update, node: RealNode, cases: list[Case]) -> None:
    """What Argo Rollouts loses is recorded; this controller may lose nothing."""
    seen = update.carry_out(node)
    cases.append(seen)
    answered = {version for second in seen.timeline for version in second["versions"]}
    assert answered == {"1", "2"}
    assert seen.lost == 0 or update.controller != "Rollouts", seen.failed


def main() -> int:
    """Builds what is missing, then runs the file on a node; arguments are pytest's."""
    code = prepared("node", (*binaries.PROGRAMS, *binaries.NODE_PROGRAMS, binaries.ARGO_ROLLOUTS), {argo_rollouts.NAME})
    return run_inside(["tests/node/beside_argo.py", "-v", *sys.argv[1:]]) if code is None else code


if __name__ == "__main__":
    sys.exit(main())

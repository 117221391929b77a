"""SIGKILL of the controller at twenty places of an update: the end is the same as without, for canary and blue-green."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controllers import confined_controller
from tests.e2e.interceptor import Interceptor, Loss, Place
from tests.e2e.manifests import Manifest, blue_green, canary, services
from tests.e2e.stage import Stage
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

PLACES = {
    f"{loss.name.rpartition('_')[2].lower()}{number:02}": Place(number, loss)
    for number in range(1, 11)
    for loss in Loss
}
"""Twenty: each of the first ten writes, lost before it arrived, and after it took effect; by the name of their Rollout."""

UNDISTURBED = "undisturbed"
REPLICAS = 4
TIMES = frozenset(
    {
        *("at", "since", "deadline", "lastTransitionTime", "startedAt", "finishedAt"),
        *("stepStartedAt", "progressedAt", "gateStartedAt", "confirmedAt", "until"),
    }
)


def _canary(name: str, image: str) -> list[Manifest]:
    rollout = canary(
        name,
        image=image,
        replicas=REPLICAS,
        stableService=f"{name}-stable",
        canaryService=f"{name}-canary",
        steps=[{"setWeight": 25}, {"pause": {"duration": "1s"}}, {"setWeight": 50}, {"pause": {"duration": "1s"}}],
    )
    return [rollout, *services(name, "stable", "canary")]


def _blue_green(name: str, image: str) -> list[Manifest]:
    rollout = blue_green(
        name,
        image=image,
        replicas=REPLICAS,
        previewReplicaCount=1,
        autoPromotionSeconds=1,
        scaleDownDelaySeconds=1,
        previewMetadata={"labels": {"side": "preview"}},
        activeMetadata={"labels": {"side": "active"}},
    )
    return [rollout, *services(name, "active", "preview")]


def _is_at_rest(rollout: Manifest) -> bool:
    """Finished, with nothing to wait for and every count told."""
    status = rollout.get("status", {})
    counts = {status.get(f"{what}eplicas", 0) for what in ("r", "updatedR", "readyR", "availableR")}
    return (
        status.get("phase") == "Healthy"
        and status["observedGeneration"] == rollout["metadata"]["generation"]
        and status["stableRevision"] == status["currentRevision"]
        and counts == {REPLICAS}
        and not {"waitingFor", "scaleDowns"} & set(status)
    )


def _end_states(stage: Stage, names: list[str]) -> dict[str, str]:
    """All that each update leaves behind, but for times, with the Rollout's name and its revisions told by number."""
    for name in names:
        rollout = stage.until("rollouts", name, _is_at_rest, within_s=60)
        stage.until_pods(name, {rollout["status"]["currentRevision"]: REPLICAS})
    objects = {what: stage.all(what) for what in ("rollouts", "replicasets", "services", "pods")}
    return {
        name: _end_state(
            name, {what: [one for one in all_ if _rollout_of(one) == name] for what, all_ in objects.items()}
        )
        for name in names
    }


def _rollout_of(one: Manifest) -> str:
    return str(one["metadata"]["name"]).partition("-")[0]


def _end_state(name: str, objects: dict[str, list[Manifest]]) -> str:
    sets, rollout = sorted(objects["replicasets"], key=_number), objects["rollouts"][0]
    state = {
        "replicaSets": [(one["metadata"]["name"], one["spec"]["replicas"], _number(one)) for one in sets],
        "services": [
            (one["metadata"]["name"], one["spec"]["selector"], one["metadata"]["labels"]) for one in objects["services"]
        ],
        "pods": sorted(_labels(pod) for pod in objects["pods"]),
        "status": _without_times(rollout["status"]),
        "annotations": [key for key in rollout["metadata"].get("annotations", {}) if key.startswith("rollouts.dev/")],
    }
    text = json.dumps(state, indent=1, sort_keys=True).replace(name, "NAME")
    for number, one in enumerate(sets, 1):
        text = text.replace(one["metadata"]["labels"]["rollouts.dev/revision"], f"REVISION-{number}")
    return text


def _labels(pod: Manifest) -> str:
    """Without the zone of its node, which the API server copies: where a pod runs is the scheduler's choice."""
    labels = pod["metadata"]["labels"]
    return json.dumps({key: value for key, value in labels.items() if "topology" not in key}, sort_keys=True)


def _difference(without: str, with_kill: str) -> list[str]:
    lines = difflib.unified_diff(without.splitlines(), with_kill.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _number(replica_set: Manifest) -> int:
    return int(replica_set["metadata"]["annotations"]["rollouts.dev/revision-number"])


def _without_times(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_times(item) for key, item in value.items() if key not in TIMES}
        case list():
            return [_without_times(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize("update", [_canary, _blue_green], ids=["canary", "blue-green"])
def test_a_kill_at_any_of_twenty_places_ends_as_without(
    control_plane: ControlPlane,
    namespace: str,
    controller_kubeconfig: Path,
    update: Callable[[str, str], list[Manifest]],
) -> None:
    """All memory is in the API: whichever write was the last, and whether or not its answer was heard, the next one knows."""
    stage = Stage(control_plane, namespace)
    run = partial(confined_controller, control_plane, leader_elect=False)
    names = [*PLACES, UNDISTURBED]
    stage.apply(*(one for name in names for one in update(name, "web:1")))
    with (
        Interceptor(control_plane, PLACES) as between,
        run(between.kubeconfig(controller_kubeconfig), namespace) as first,
    ):
        for name in names:
            stage.until("rollouts", name, _is_at_rest, within_s=60)
        between.arm()
        stage.apply(*(update(name, "web:2")[0] for name in PLACES))
        between.wait_until_all_are_held(within_s=60)
        first.kill()
    with run(controller_kubeconfig, namespace):
        stage.apply(update(UNDISTURBED, "web:2")[0])
        ends = _end_states(stage, names)

    without = ends[UNDISTURBED]
    assert "REVISION-2" in without
    assert {PLACES[name]: _difference(without, ends[name]) for name in PLACES if ends[name] != without} == {}

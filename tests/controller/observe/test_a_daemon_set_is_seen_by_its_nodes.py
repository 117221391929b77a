"""Promise: what an update in place reads of a DaemonSet is what its controller makes of it: nodes, limits, its user's type."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rollouts.cluster.structs import WorkloadObject
from rollouts.controller.observe.in_place import spec_in_place
from rollouts.controller.observe.workloads import workload_seen
from rollouts.core.model.rollout import Canary
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.ownership import HELD
from tests import build
from tests.core.model import spec

STATUS = {"desiredNumberScheduled": 7, "currentNumberScheduled": 6, "updatedNumberScheduled": 2, "numberReady": 5}


def _seen(strategy: dict[str, Any], *, held: str | None = None, **more: Any) -> Any:
    annotations = {} if held is None else {HELD: held}
    metadata = {"name": "agent", "namespace": "shop", "uid": "d-1", "annotations": annotations}
    made = {"template": build.pod_template("agent", image="agent:1"), "updateStrategy": strategy, **more}
    wire = {"metadata": metadata, "spec": made, "status": {**STATUS, "numberAvailable": 4}}
    return workload_seen(WorkloadKind.DAEMON_SET, msgspec.json.decode(json.dumps(wire), type=WorkloadObject))


@pytest.mark.parametrize(("limit", "nodes"), [(1, 1), (3, 3), ("30%", 3), ("1%", 1), ("100%", 7), (None, 1)])
def test_max_unavailable_is_in_nodes_and_a_percentage_rounds_up(limit: object, nodes: int) -> None:
    """30 % of 7 nodes are 2.1. OnDelete has no limit of its own: one node at a time."""
    rolling = {} if limit is None else {"rollingUpdate": {"maxUnavailable": limit, "maxSurge": 0}}
    seen = _seen({"type": "RollingUpdate" if rolling else "OnDelete", **rolling}, minReadySeconds=5)

    joined = spec_in_place(spec(Canary()), seen, revision="abc")

    assert (joined.strategy.max_surge, joined.strategy.max_unavailable) == (0, nodes)
    assert (joined.replicas, joined.min_ready_s, joined.revision) == (7, 5, "abc")


def test_its_nodes_are_counted_by_its_status() -> None:
    """Two of the six that have a pod have one of the newest template, so its pods must be looked at."""
    seen = _seen({"type": "OnDelete"})
    found = seen.daemon_set

    assert (seen.replicas, seen.available) == (7, 4)
    assert (found.current, found.updated, found.ready, found.available) == (6, 2, 5, 4)
    assert found.needs_pods
    assert not found.in_update


@pytest.mark.parametrize(
    ("strategy", "held", "own_on_delete", "is_stopped"),
    [
        ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}, None, False, False),
        ({"type": "OnDelete"}, None, True, False),
        ({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}, None, False, True),
        ({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}, "RollingUpdate", False, True),
        ({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}, "OnDelete", True, True),
    ],
    ids=["as it is", "OnDelete", "stopped by a policy", "in an update", "in an update of OnDelete"],
)
def test_the_users_own_type_is_known_also_where_a_hold_has_changed_it(
    strategy: dict[str, Any], held: str | None, own_on_delete: bool, is_stopped: bool
) -> None:
    """Nobody else writes OnDelete beside a `rollingUpdate`."""
    note = None if held is None else json.dumps({"number": 1, "own": {"type": held}})
    found = _seen(strategy, held=note).daemon_set

    assert (found.own_on_delete, found.update.is_stopped) == (own_on_delete, is_stopped)
    assert found.in_update is (held is not None)


def test_a_note_that_cannot_be_read_makes_it_unusable() -> None:
    """What its user wrote is not known then, and nothing is guessed."""
    seen = _seen({"type": "OnDelete"}, held="{}")

    assert HELD in seen.problem
    assert "repair it" in seen.problem

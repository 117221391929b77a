"""A Deployment that is updated in place as one pass sees it, and the writes that may follow."""

from __future__ import annotations

from typing import Any

from rollouts.core.carrier.deployment import carried
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import MoveReplicaSet, StepDeployment
from rollouts.core.model.intents import CreateReplicaSet, Decision, Intent, PatchReplicaSet
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import BlueGreen, Canary, Percent, PodMetadata, Strategy
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet, Service, Snapshot
from rollouts.core.model.status import Abort, RolloutStatus
from rollouts.core.model.workload import DeploymentSeen, Held, HoldSeen, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import Hold, NamedWorkload, WorkloadKind, WorkloadMode
from tests.core.deployments import USERS
from tests.core.model import T0, service, world

NOW_S = T0 + 100
BEGUN = RolloutStatus(current_revision="b", stable_revision="a")
PROMOTED = RolloutStatus(current_revision="b", stable_revision="b")
ABORTED = replace(BEGUN, abort=Abort("b", T0, Reason.ROLLOUT_ABORTED, ""))
HELD_S, DEADLINE_S = 2_147_483_646, 2_147_483_647
RATIO = Canary(max_surge=1, max_unavailable=0)
PREVIEWED = BlueGreen(active_service="cart", preview_service="cart-preview", auto_promotion_enabled=False)


def fields_of(surge: Any, unavailable: Any) -> UpdateFields:
    """The fields of a step."""
    return UpdateFields(
        max_surge=surge, max_unavailable=unavailable, min_ready_s=HELD_S, progress_deadline_s=DEADLINE_S
    )


QUARTER = fields_of(Percent(0), Percent(25))
"""Three old pods of four, and one new."""
ONE_NEW = fields_of(1, 0)


def inside(revision: str, size: int, **given: Any) -> ReplicaSet:
    """In the Deployment, with ready pods of which none counts as available."""
    made: dict[str, Any] = {"min_ready_s": HELD_S, "replicas": size, "ready": size, "terminating": 0, "inside": True}
    return ReplicaSet(
        name=f"cart-{revision}", uid=f"uid-{revision}", resource_version=f"version-{revision}", revision=revision,
        number=0, created_at_s=T0, spec_replicas=size, **{**made, **given},
    )  # fmt: skip


def outside(revision: str, size: int, **given: Any) -> ReplicaSet:
    """The Rollout's."""
    return inside(revision, size, **{"inside": False, **given})


def view(
    *sets: ReplicaSet,
    strategy: Strategy = RATIO,
    replicas: int = 4,
    status: RolloutStatus = BEGUN,
    now: RolloutStatus | None = None,
    paused: bool = True,
    fields: UpdateFields = ONE_NEW,
    held: bool = True,
    written: UpdateFields | None = None,
    spread: int = 4,
    updated: int = 1,
    kept: Hold = Hold.AUTO,
    services: dict[str, str] | None = None,
    min_ready_s: int = 0,
    pods: tuple[Pod, ...] | None = None,
    **workload: Any,
) -> tuple[Snapshot, RolloutStatus]:
    """What is seen of a Deployment with template `b`; and the status decided.

    Args:
        spread: its replicas as its note has them.
        services: the revisions that its Services select.
    """
    ref = NamedWorkload(kind=WorkloadKind.DEPLOYMENT, name="cart", mode=WorkloadMode.IN_PLACE, hold=kept)
    there = world(strategy, replicas=replicas, revision="b", workload_ref=ref, min_ready_s=min_ready_s)
    note = Held(number=3, replicas=spread, own=USERS, written=written)
    found = DeploymentSeen(
        paused=paused, by_recreate=False, fields=fields, held=note if held else None, updated=updated
    )
    given = {"managed_by": "cart", "watched": True, "hold": HoldSeen(at_s=NOW_S, works=True), **workload}
    shown = WorkloadSeen(
        kind=WorkloadKind.DEPLOYMENT, name="cart", uid="uid-cart", resource_version="7", template_hash="b",
        replicas=replicas, in_place=found, **given,
    )  # fmt: skip
    named: dict[ServiceRef, Service] = {
        name: service(name, revision=revision, managed_by="cart", watched=True)
        for name, revision in (services or {}).items()
    }
    snapshot = Snapshot(
        now_s=NOW_S, rollout=there.rollout, status=status, workload=shown, replica_sets=sets, services=named,
        pods=None if pods is None else PodsSeen(NOW_S - 3, pods),
    )  # fmt: skip
    return snapshot, status if now is None else now


def moves_of(of: tuple[Snapshot, RolloutStatus], **sizes: int) -> tuple[Intent, ...]:
    """What is done when the policy wants these sizes; with `new` it makes the ReplicaSet."""
    seen, status = of
    made = CreateReplicaSet(revision="b", number=2, replicas=0, pod_metadata=PodMetadata())
    wanted: list[Intent] = [
        PatchReplicaSet(name=f"cart-{each}", uid=f"uid-{each}", revision=each, replicas=size)
        for each, size in sizes.items()
        if each != "new"
    ]
    return carried(seen, Decision(status=status, intents=(*wanted, *([made] if "new" in sizes else ())))).intents


def stepped(fields: UpdateFields, *, paused: bool = False, number: int | None = 4, replicas: int = 4) -> StepDeployment:
    held = None if number is None else Held(number=number, replicas=replicas, own=USERS, written=fields)
    return StepDeployment(name="cart", uid="uid-cart", resource_version="7", paused=paused, fields=fields, held=held)


def sized(revision: str, size: int, *, grows: bool = False) -> PatchReplicaSet:
    version = "" if grows else f"version-{revision}"
    return PatchReplicaSet(
        name=f"cart-{revision}", uid=f"uid-{revision}", revision=revision, resource_version=version, replicas=size
    )


def ready_after(revision: str, seconds: int) -> PatchReplicaSet:
    return PatchReplicaSet(name=f"cart-{revision}", uid=f"uid-{revision}", revision=revision, min_ready_s=seconds)


def moved(revision: str, *, into: bool) -> MoveReplicaSet:
    version = f"version-{revision}"
    return MoveReplicaSet(
        name=f"cart-{revision}", uid=f"uid-{revision}", resource_version=version, revision=revision, into=into
    )

"""The workload that a Rollout of the random worlds names, as the API server has it and as passes see it, and what happens to it.

The spec of the world's Rollout is the joined one: its revision is that of the workload's template, whether anybody can see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Rollout
from rollouts.core.model.workload import (
    ReferencedWorkload,
    WorkloadAbsent,
    WorkloadForbidden,
    WorkloadSeen,
    WorkloadUnasked,
    is_of,
)
from rollouts.core.model.workload_ref import NamedWorkload, WorkloadKind

REF = NamedWorkload(kind=WorkloadKind.DEPLOYMENT, name="cart")
ANSWER_S = 10.0


def deployment(version: int, **changes: Any) -> WorkloadSeen:
    """The Deployment as its user made it: not managed by anybody. What its own pods do is not modelled."""
    made = WorkloadSeen(
        kind=REF.kind,
        name=REF.name,
        uid=f"uid-{version}",
        resource_version=str(version),
        managed_by="",
        watched=False,
        replicas=4,
    )
    return replace(made, **changes)


class Sight(Struct, frozen=True):
    """How the workload is seen.

    Args:
        answer: when it was asked about last, and what the answer was.
        forbidden: nobody may see it.
        left: workloads that the Rollout named before, and still manages.
    """

    answer: tuple[float, WorkloadSeen | None] | None = None
    forbidden: bool = False
    left: tuple[WorkloadSeen, ...] = ()


def seen_workload(
    truth: WorkloadSeen | None, sight: Sight, rollout: Rollout, *, now_s: float
) -> tuple[Rollout, ReferencedWorkload | None]:
    """The Rollout and its workload as a pass sees them: without a template, unless the workload is its own."""
    if rollout.spec.workload_ref is None:
        return rollout, None
    workload = _seen(truth, sight, now_s=now_s)
    if is_of(workload, rollout.name):
        found = workload.stateful_set if isinstance(workload, WorkloadSeen) else None
        if found is None or not isinstance(workload, WorkloadSeen) or found.update_revision == workload.template_hash:
            return rollout, workload
        workload = replace(workload, strays=None)  # its controller has not named the revision of the template
    spec = replace(rollout.spec, template_hash="", revision="", config_refs=())
    return replace(rollout, spec=spec), workload


def _seen(truth: WorkloadSeen | None, sight: Sight, *, now_s: float) -> ReferencedWorkload:
    if sight.forbidden:
        return WorkloadForbidden("the controller may not watch deployments")
    if truth is not None and truth.watched:
        return truth
    asked_s, answer = sight.answer or (None, None)
    if asked_s is None or (answer is not None and now_s - asked_s > ANSWER_S):
        return WorkloadUnasked()
    return WorkloadAbsent(asked_s) if answer is None else answer


Workloads: TypeAlias = tuple[WorkloadSeen | None, Sight]
Change: TypeAlias = Callable[[WorkloadSeen | None, Sight, int, int], Workloads]


def _changed(**changes: Any) -> Change:
    """A change of the workload, if there is one."""

    def change(truth: WorkloadSeen | None, sight: Sight, _i: int, version: int) -> Workloads:
        return (None if truth is None else replace(truth, resource_version=str(version), **changes)), sight

    return change


_PROBLEM = "OpenKruise Rollouts manages it"

WORKLOADS: dict[str, Change] = {
    "the workload goes": lambda _truth, sight, _i, _version: (None, sight),
    "the workload is made": lambda truth, sight, _i, version: (truth or deployment(version), sight),
    "the workload is made anew": lambda _truth, sight, _i, version: (deployment(version), sight),
    "its marks are taken off": _changed(managed_by="", watched=False),
    "its label is taken off": _changed(watched=False),
    "another Rollout takes it": _changed(managed_by="till", watched=True),
    "another tool takes it": _changed(problem=_PROBLEM),
    "another tool leaves it": _changed(problem=""),
    "its status moves": _changed(available=3),
    "somebody scales it": lambda truth, sight, i, version: _changed(replicas=i)(truth, sight, i, version),
    "it may not be seen, or may": lambda truth, sight, i, _version: (truth, replace(sight, forbidden=i % 2 == 0)),
    "its answer is lost": lambda truth, sight, _i, _version: (truth, replace(sight, answer=None)),
}


def workload_healed(truth: WorkloadSeen | None, version: int) -> WorkloadSeen:
    """It exists, and can be the Rollout's own."""
    truth = truth or deployment(version)
    if truth.managed_by == "till" or truth.problem:
        truth = replace(truth, managed_by="", watched=False, problem="", resource_version=str(version))
    return truth

"""What is decided is whole: of its types, in words that say something, about objects that have the names that it gives them."""

from __future__ import annotations

import re

from rollouts.core.model.in_place_intents import (
    DeletePod,
    LabelReplicaSet,
    MoveReplicaSet,
    RevertTemplate,
    StepDaemonSet,
    StepDeployment,
    StepStatefulSet,
)
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    AdoptReplicaSet,
    Decision,
    DeleteConfigCopy,
    DeleteReplicaSet,
    EvictPod,
    Intent,
    MakeRoute,
    MarkWorkload,
    PatchPod,
    PatchReplicaSet,
    ReleaseConfigCopy,
    ReleaseWorkload,
    ScaleWorkload,
    SetTraffic,
    SwitchService,
)
from rollouts.core.model.reasons import Reason
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.workload import WorkloadSeen
from tests.invariants.violation import Violation
from tests.typed import misfit

_NOTHING = re.compile(r"^$|^\s|\s$|(?<!use )\bNone\b|  ")
"""What no message has: no words, an end that is cut off, or the None of Python; Kubernetes has one, too, which people may use."""


def of_its_types(decision: Decision) -> list[Violation]:
    """What it passes on from objects of the cluster has the types that it declares, which no type checker can tell."""
    return [Violation("types", f"decision{wrong}")] if (wrong := misfit(decision, Decision)) else []


def says_something(decision: Decision) -> list[Violation]:
    """Each message that is written or sent has words."""
    status = decision.status
    told = [
        *(notice.message for notice in decision.notices),
        *(condition.message for condition in status.conditions),
        *([status.waiting_for.message] if status.waiting_for is not None else []),
        *([status.abort.message] if status.abort is not None else []),
        *(each.refusal.message for each in status.commands if each.refusal is not None),
    ]
    return [Violation("words", f"a message says nothing: {each!r}") for each in told if _NOTHING.search(each)]


def tells_what_it_writes(decision: Decision) -> list[Violation]:
    """An Event about a Service or a route comes with the write that it tells of, and not before."""
    selected = tuple(
        [f" selects revision {each.revision}" for each in decision.intents if isinstance(each, SwitchService)]
    )
    routes = tuple([f"{each.route}: " for each in decision.intents if isinstance(each, SetTraffic | MakeRoute)])
    untrue = [
        notice.message
        for notice in decision.notices
        if (notice.reason is Reason.SWITCH_SERVICE and not notice.message.endswith(selected))
        or (notice.reason is Reason.TRAFFIC_WEIGHT_UPDATED and not notice.message.startswith(routes))
    ]
    return [Violation("events", f"nothing is written with {each!r}") for each in untrue]


def named_as_seen(before: Snapshot, intent: Intent) -> list[Violation]:
    """S13: the name, the kind and the revision that a write gives are those of the object with its uid: errors name them."""
    match intent:
        case PatchReplicaSet() | MoveReplicaSet():
            wrong = (intent.name, intent.revision) not in {
                (each.name, each.revision) for each in before.replica_sets if each.uid == intent.uid
            }
        case DeleteReplicaSet():
            wrong = intent.name not in {each.name for each in before.replica_sets if each.uid == intent.uid}
        case AdoptReplicaSet():
            wrong = (intent.name, intent.has_owners) not in {
                (each.name, each.has_owners) for each in before.orphans if each.uid == intent.uid
            }
        case PatchPod() | EvictPod() | DeletePod():
            pods = before.pods.pods if before.pods is not None else ()
            wrong = intent.name not in {each.name for each in pods if each.uid == intent.uid}
        case DeleteConfigCopy() | AdoptConfigCopy() | ReleaseConfigCopy():
            wrong = intent.name not in {each.name for each in before.copies if each.uid == intent.uid}
        case MarkWorkload() | ScaleWorkload() | ReleaseWorkload():
            workloads = [each for each in (before.workload, *before.left_workloads) if isinstance(each, WorkloadSeen)]
            wrong = (intent.kind, intent.name) not in {
                (each.kind, each.name) for each in workloads if each.uid == intent.uid
            }
        case StepDeployment() | StepStatefulSet() | StepDaemonSet() | RevertTemplate():
            there = before.workload
            wrong = not isinstance(there, WorkloadSeen) or (intent.name, intent.uid, intent.resource_version) != (
                *(there.name, there.uid, there.resource_version),
            )
        case LabelReplicaSet():
            strays = before.workload.strays if isinstance(before.workload, WorkloadSeen) else ()
            wrong = intent.name not in {each.name for each in strays or () if each.uid == intent.uid}
        case _:
            wrong = False
    return [Violation("S13", f"another object has that uid: {intent}")] if wrong else []

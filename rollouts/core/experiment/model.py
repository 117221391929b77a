"""An Experiment as its policy sees it: what the spec asks for, what status remembers, what exists, and what should happen.

Names of fields in JSON are Argo Rollouts'; those of status are declared here (`core/model/declared.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, TypeAlias

from msgspec import Struct

from rollouts.core.model.analysis import AnalysisPhase, Draft, RunDraft, RunSeen
from rollouts.core.model.declared import ALWAYS, LISTED, NEEDED, Entries, Json, Message, Time
from rollouts.core.model.intents import Notice, TerminateAnalysisRun
from rollouts.core.model.revision import replica_set_name, short_hash
from rollouts.core.model.rollout import PROGRESS_DEADLINE_S, SCALE_DOWN_DELAY_S
from rollouts.core.model.service_traits import ServicePort
from rollouts.core.model.status import Condition

GROUPS_MAX, ANALYSES_MAX = 16, 32
DEFAULT_DURATION_S = 3_600.0
"""Of an Experiment without a duration and without analyses: nothing else would ever end it."""

COMPLETED = "Completed"
"""Type of the condition that is True once the Experiment is over."""


class PodGroup(Struct, frozen=True, kw_only=True):
    """One of `spec.templates`: pods of one template.

    Args:
        template_json, selector_json: canonical JSON of what the user wrote.
        service: name of its Service, "" for that of the ReplicaSet; None for no Service.
        ports: of the Service: those that the spec gives it, or those that the containers declare.
    """

    name: str
    template_json: bytes
    selector_json: bytes
    replicas: int = 1
    min_ready_s: int = 0
    service: str | None = None
    ports: tuple[ServicePort, ...] = ()

    @property
    def wants_service(self) -> bool:
        """Whether a Service is made; without a port the API server would refuse it."""
        return self.service is not None and bool(self.ports)


class GroupAnalysis(Struct, frozen=True, kw_only=True):
    """One of `spec.analyses`, without what only the builder of runs understands.

    Args:
        required: the Experiment waits for its verdict, and is over once all such analyses have succeeded.
    """

    name: str
    required: bool = False


class ExperimentSpec(Struct, frozen=True, kw_only=True):
    """What an Experiment asks for.

    Args:
        duration_s: from the time when all pods were available; None for no such end.
        content_hash: of the templates and analyses, which must not change once it has begun.
    """

    groups: tuple[PodGroup, ...]
    analyses: tuple[GroupAnalysis, ...]
    content_hash: str
    duration_s: float | None = None
    progress_deadline_s: float = PROGRESS_DEADLINE_S
    scale_down_delay_s: float = SCALE_DOWN_DELAY_S
    terminate: bool = False

    @property
    def lasts_s(self) -> float | None:
        """From the time when all pods were available to the end that needs no verdict; None when its analyses end it."""
        return DEFAULT_DURATION_S if self.duration_s is None and not self.analyses else self.duration_s


class GroupPhase(StrEnum):
    """How far the pods of a template are."""

    PROGRESSING = "Progressing"
    RUNNING = "Running"
    SUCCESSFUL = "Successful"
    FAILED = "Failed"
    ERROR = "Error"


class GroupStatus(Struct, frozen=True, kw_only=True):
    """What is known of the pods of one template."""

    name: Annotated[str, "Name of the template.", NEEDED]
    phase: Annotated[
        GroupPhase, "Progressing until all of its pods are available, then Running; how it ended.", Json("status"),
        LISTED, NEEDED,
    ] = GroupPhase.PROGRESSING  # fmt: skip
    message: Annotated[Message, "Why."] = ""
    replicas: Annotated[int, "Number of its pods."] = 0
    ready_replicas: Annotated[int, "Number of its ready pods."] = 0
    available_replicas: Annotated[int, "Number of its available pods."] = 0
    pod_template_hash: Annotated[str, "Value of the label rollouts.dev/revision of its pods."] = ""
    service_name: Annotated[str, "Name of its Service."] = ""
    since_s: Annotated[Time, "When its status last changed.", Json("lastTransitionTime")] = 0.0


class RunRecord(Struct, frozen=True, kw_only=True):
    """The AnalysisRun of one analysis.

    Args:
        uid: "" before it was seen with that spec. Nothing that a run says counts before.
    """

    name: Annotated[str, "Name of the analysis.", NEEDED]
    run: Annotated[str, "Name of the AnalysisRun.", Json("analysisRun"), NEEDED]
    phase: Annotated[
        AnalysisPhase, "Its verdict; one that is final stays, whatever becomes of the run.", LISTED, NEEDED
    ]
    message: Annotated[Message, "Why."] = ""
    at_s: Annotated[Time, "When the run was asked for.", Json("askedAt")] = 0.0
    spec_hash: Annotated[str, "SHA-256 of the spec that the run was asked for with."] = ""
    uid: Annotated[str, "uid of the run, once it was seen with that spec."] = ""


class ExperimentStatus(Struct, frozen=True, kw_only=True):
    """The state of the Experiment, and what the controller must remember.

    Args:
        ending_at_s: when analyses without an end of their own were first to end; their verdicts are waited for.
        content_hash: of the spec that it began with; "" before.
    """

    phase: Annotated[AnalysisPhase, "Pending until all pods are available, then Running; how it ended.", LISTED] = (
        AnalysisPhase.PENDING
    )
    message: Annotated[Message, "Why, in a sentence."] = ""
    started_at_s: Annotated[Time | None, "When it began; its pods have the progress deadline from here."] = None
    available_at_s: Annotated[Time | None, "When all pods were available; the duration is measured from here."] = None
    ending_at_s: Annotated[Time | None, "When its AnalysisRuns were told to end; it waits for their verdicts."] = None
    completed_at_s: Annotated[Time | None, "When it was over; the scale-down delay is measured from here."] = None
    groups: Annotated[
        tuple[GroupStatus, ...], "The pods of each template.", Json("templateStatuses"), Entries(first=GROUPS_MAX)
    ] = ()
    runs: Annotated[
        tuple[RunRecord, ...], "The AnalysisRun of each analysis.", Json("analysisRuns"), Entries(first=ANALYSES_MAX)
    ] = ()
    content_hash: Annotated[str, "SHA-256 of the templates and analyses that it began with.", Json("specHash")] = ""
    observed_generation: Annotated[int, "The metadata.generation that this status describes.", ALWAYS] = 0
    conditions: Annotated[tuple[Condition, ...], "Completed and InvalidSpec."] = ()


class GroupPods(Struct, frozen=True, kw_only=True):
    """The ReplicaSet of a template.

    Args:
        replicas, min_ready_s: of its spec.
        settled: its controller has seen that spec.
        failure: why pods cannot be created; "" when they can.
    """

    name: str
    uid: str
    replicas: int
    min_ready_s: int
    current: int
    ready: int
    available: int
    settled: bool
    failure: str = ""


class GroupService(Struct, frozen=True, kw_only=True):
    """The Service of a template; `ready` counts the ready pods in its EndpointSlices."""

    name: str
    uid: str
    resource_version: str
    ready: int


class ExperimentView(Struct, frozen=True, kw_only=True):
    """An Experiment at one instant.

    Args:
        pods, services: by template, those that it controls.
        runs: by name, those that it controls.
        runs_seen: whether a run that is not in `runs` does not exist.
        drafts: by analysis, of those that have no run yet.
        kept_until_s: until when its pods and Services must stay, also after its end, because a route may send them requests;
            infinity until its Rollout lets them go.
    """

    name: str
    uid: str
    generation: int
    created_at_s: float
    now_s: float
    spec: ExperimentSpec
    status: ExperimentStatus
    pods: Mapping[str, GroupPods] = {}
    services: Mapping[str, GroupService] = {}
    runs: Mapping[str, RunSeen] = {}
    runs_seen: bool = True
    drafts: Mapping[str, Draft] = {}
    kept_until_s: float = 0.0


class MakeReplicaSet(Struct, frozen=True):
    """Creates the ReplicaSet of a template; an existing one of that name that the Experiment controls is as good."""

    group: PodGroup


class SetReplicaSet(Struct, frozen=True, kw_only=True):
    """Changes the size of a ReplicaSet, or its minReadySeconds."""

    name: str
    uid: str
    replicas: int
    min_ready_s: int


class MakeService(Struct, frozen=True):
    """Creates the Service of a template; an existing one of that name that the Experiment controls is as good."""

    group: PodGroup


class DeleteService(Struct, frozen=True, kw_only=True):
    """Deletes a Service exactly as it was seen."""

    name: str
    uid: str
    resource_version: str


class MakeRun(Struct, frozen=True, kw_only=True):
    """Creates an AnalysisRun that status has on record."""

    name: str
    draft: RunDraft


ExperimentIntent: TypeAlias = (
    MakeReplicaSet | SetReplicaSet | MakeService | DeleteService | MakeRun | TerminateAnalysisRun
)


class ExperimentDecision(Struct, frozen=True, kw_only=True):
    """The outcome of one look. Any prefix of the intents is safe; status is written after them, if it differs.

    Args:
        wake_at_s: wall clock at which time alone may change the decision.
        notices: sent once the status is written.
    """

    status: ExperimentStatus
    intents: tuple[ExperimentIntent, ...] = ()
    wake_at_s: float | None = None
    notices: tuple[Notice, ...] = ()


def hash_of_pods(uid: str, group: PodGroup) -> str:
    """What tells the pods of a template apart from all others, also from those of an Experiment of the same name before."""
    return short_hash(b"\0".join((uid.encode(), group.name.encode(), group.template_json)))


def name_of_pods(experiment: str, uid: str, group: PodGroup) -> str:
    """Name of a template's ReplicaSet."""
    return replica_set_name(rollout=f"{experiment}-{group.name}", revision=hash_of_pods(uid, group))


def name_of_service(experiment: str, uid: str, group: PodGroup) -> str:
    """Name of a template's Service; "" when there is none."""
    return (group.service or name_of_pods(experiment, uid, group)) if group.wants_service else ""


def name_of_run(experiment: str, uid: str, analysis: str) -> str:
    """Name of an analysis's AnalysisRun."""
    return replica_set_name(rollout=f"{experiment}-{analysis}", revision=short_hash(f"{uid}\0{analysis}".encode()))

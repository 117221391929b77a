"""What should happen: values that `controller/act/render.py` turns into API calls. Any prefix of a Decision's intents is safe."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, TypeAlias

from msgspec import Struct

from rollouts.core.model.analysis import AnalysisGate, RunDraft
from rollouts.core.model.autoscaling import AutoscalingGate
from rollouts.core.model.config import ConfigRef, ConfigUse
from rollouts.core.model.in_place_intents import InPlaceIntent
from rollouts.core.model.nodes import OwnType
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import PodMetadata
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.status import AbortNote, RolloutStatus, Verb
from rollouts.core.model.traffic import Pace, RouteName, Split
from rollouts.core.model.workload import NamedReplicaSet, PartitionFields, UpdateFields
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.objects import ANALYSIS_RUN, CONFIG_MAP, EXPERIMENT, REPLICA_SET, Kind


class Adoption(Struct, frozen=True, kw_only=True):
    """Makes the Rollout the controller of an object that has none, if it has not changed and the Rollout still exists.

    Args:
        has_owners: it has owners already; they stay.
    """

    kind: ClassVar[Kind]
    name: str
    uid: str
    resource_version: str
    has_owners: bool = False


class Deletion(Struct, frozen=True, kw_only=True):
    """Deletes an object, if it has not changed since (uid and resourceVersion)."""

    kind: ClassVar[Kind]
    name: str
    uid: str
    resource_version: str


class CreateReplicaSet(Struct, frozen=True, kw_only=True):
    """Creates the ReplicaSet of the spec's template; an existing one of that name, owned by our uid, counts as created.

    Copies of ConfigMaps that `config` names exist before; while copies of Secrets are to be made, it has no pods.
    """

    revision: str
    number: int
    replicas: int
    pod_metadata: PodMetadata
    anti_affinity_revision: str = ""
    injection: Injection | None = None
    config: tuple[ConfigUse, ...] = ()


class AdoptReplicaSet(Adoption, frozen=True, kw_only=True):
    """See `Adoption`."""

    kind = REPLICA_SET


class PatchReplicaSet(Struct, frozen=True, kw_only=True):
    """Changes the given fields of a ReplicaSet; None leaves a field as it is.

    Args:
        resource_version: the write conflicts when the ReplicaSet has changed since; "" to grow, which is safe on any version.
        restart_surge: how many of `replicas` exist only for a restart.
        abort_note: the abort that it grows for and that status does not have yet.
        config: the contents that its pods began with, if it names the sources themselves; else the same as before, with the
            copies of Secrets that were made.
    """

    name: str
    uid: str
    revision: str
    resource_version: str = ""
    replicas: int | None = None
    restart_surge: int | None = None
    abort_note: AbortNote | None = None
    min_ready_s: int | None = None
    number: int | None = None
    pod_metadata: PodMetadata | None = None
    replaced_metadata: PodMetadata = PodMetadata()
    pods_carry_metadata: bool | None = None
    config: tuple[ConfigUse, ...] | None = None


class DeleteReplicaSet(Deletion, frozen=True, kw_only=True):
    """An old one without pods."""

    kind = REPLICA_SET


class SwitchService(Struct, frozen=True, kw_only=True):
    """Makes the Service select `revision` and marks it as managed by this Rollout; "" selects the pods of all revisions."""

    name: ServiceRef
    uid: str
    resource_version: str
    revision: str


class ReleaseService(Struct, frozen=True, kw_only=True):
    """Takes our selector key, label and annotation off a Service that the spec no longer names."""

    name: str
    uid: str
    resource_version: str


class MarkWorkload(Struct, frozen=True, kw_only=True):
    """Marks the workload that `workloadRef` names as managed by this Rollout, so that it is watched.

    Args:
        hold: a policy of the API server shall hold its new templates.
    """

    kind: WorkloadKind
    name: str
    uid: str
    resource_version: str
    hold: bool = False


class ScaleWorkload(Struct, frozen=True, kw_only=True):
    """Gives a Deployment whose template the Rollout takes another number of pods of its own (`workloadRef.scaleDown`).

    Args:
        own: the number that its user gave it, which is noted; None when it has that again.
    """

    kind: WorkloadKind
    name: str
    uid: str
    resource_version: str
    replicas: int
    own: int | None


class ReleaseWorkload(Struct, frozen=True, kw_only=True):
    """Takes our marks off a workload: the spec no longer names it, or the Rollout is being deleted.

    Args:
        replicas: what it gets back of its own pods; None to leave their number as it is.
        own: the user's fields that an update in place has taken, which stand again; None where they stay as they are.
        paused: whether a Deployment in place is paused afterwards; None to leave that as it is.
        replica_sets: of a Deployment, which lose our marks before.
        in_update: it is left in the middle of an update, of which nobody asked for the rest.
    """

    kind: WorkloadKind
    name: str
    uid: str
    resource_version: str
    replicas: int | None = None
    own: UpdateFields | PartitionFields | OwnType | None = None
    paused: bool | None = None
    replica_sets: tuple[NamedReplicaSet, ...] = ()
    in_update: bool = False


class PatchPod(Struct, frozen=True, kw_only=True):
    """Gives one pod its role's metadata; `removed` names keys of the role it had before."""

    name: str
    uid: str
    metadata: PodMetadata
    removed: PodMetadata = PodMetadata()


class EvictPod(Struct, frozen=True, kw_only=True):
    """Evicts one pod, as `kubectl drain` does: a PodDisruptionBudget may refuse."""

    name: str
    uid: str


class RemoveAnnotation(Struct, frozen=True, kw_only=True):
    """Removes the annotation of a recorded command whose value was `true`."""

    verb: Verb
    value: str


class SetTraffic(Struct, frozen=True, kw_only=True):
    """Writes `split` into the route and marks it as managed by this Rollout; fails with a conflict when it has changed since.

    Args:
        settled: the data plane is known to do what the route says now. Until then idle rules stay idle.
        rewrite: the rest of the route is written again from its manifest in the spec. Then `split` is only a share.
    """

    route: RouteName
    uid: str
    resource_version: str
    split: Split
    settled: bool = True
    rewrite: bool = False


class MakeRoute(Struct, frozen=True):
    """Creates a route of `trafficRouting.own`, whose split is only a share; conflicts when one of that name exists by now."""

    route: RouteName
    split: Split


class ReleaseRoute(Struct, frozen=True, kw_only=True):
    """Releases a route as its user wrote it: the spec no longer names it, or the Rollout is being deleted."""

    route: RouteName
    uid: str
    resource_version: str


class CreateAnalysisRun(Struct, frozen=True, kw_only=True):
    """Creates the run of a gate, or its Experiment, about a revision; an existing one of that name that is ours is as good."""

    name: str
    gate: AnalysisGate
    revision: str
    attempt: int
    draft: RunDraft


class TerminateAnalysisRun(Struct, frozen=True, kw_only=True):
    """Tells a run, or an Experiment, to end: nothing new is measured, and what was measured is judged."""

    name: str
    uid: str
    kind: Kind = ANALYSIS_RUN


class LetPodsGo(Struct, frozen=True, kw_only=True):
    """Tells an Experiment that may have had requests until when it keeps its pods, if it is over by then: they drain."""

    name: str
    uid: str
    until_s: float


class DeleteAnalysisRun(Deletion, frozen=True, kw_only=True):
    """One that is over."""

    kind = ANALYSIS_RUN


class DeleteExperiment(Deletion, frozen=True, kw_only=True):
    """One that is over."""

    kind = EXPERIMENT


class CopyOwner(Struct, frozen=True):
    """The ReplicaSet that a copy of a Secret goes with: the controller has no right to delete Secrets, or to see copies."""

    name: str
    uid: str


class CreateConfigCopy(Struct, frozen=True):
    """Creates the immutable copy of a source; one of that name with the same content, made for this Rollout, counts as created.

    It conflicts when the source no longer has the content of `use`.

    Args:
        owner: of a copy of a Secret; None for a ConfigMap's, which the Rollout owns.
    """

    use: ConfigUse
    owner: CopyOwner | None = None


class DeleteConfigCopy(Deletion, frozen=True, kw_only=True):
    """A copy of a ConfigMap that nothing names."""

    kind = CONFIG_MAP


class AdoptConfigCopy(Adoption, frozen=True, kw_only=True):
    """A copy of a ConfigMap."""

    kind = CONFIG_MAP


class ReleaseConfigCopy(Struct, frozen=True, kw_only=True):
    """Takes the Rollout off the owners of a copy of a ConfigMap, which then outlives it, if the copy has not changed since."""

    name: str
    uid: str
    resource_version: str
    owner_index: int


class Ask(Struct, frozen=True):
    """A question. A pass does not wait for the answer, which comes back through the inbox."""


class AskRoute(Ask, frozen=True):
    """Reads one route that is not watched."""

    route: RouteName


class AskFeatures(Ask, frozen=True):
    """Reads which features the class of a route's gateways supports."""

    route: RouteName


class AskLive(Ask, frozen=True, kw_only=True):
    """Asks the data plane whether it does what this version of the route says.

    Args:
        pace: when to ask again if the answer does not change.
        since_s: when all routes were first seen to say it: earlier requests do not count. 0 where none are counted.
        before: the canary's share until then; None when it is not known or no requests are counted.
    """

    route: RouteName
    resource_version: str
    split: Split
    pace: Pace
    since_s: float = 0.0
    before: Fraction | None = None


class AskDrained(Ask, frozen=True):
    """Asks the probes of `spec.drain` what is still in flight at a revision's pods."""

    revision: str


class AskService(Ask, frozen=True):
    """Reads one Service that is not watched."""

    name: ServiceRef


class AskWorkload(Ask, frozen=True):
    """Reads one workload that is not watched."""

    kind: WorkloadKind
    name: str


class AskHold(Ask, frozen=True):
    """Asks whether the API server holds the workload in the write that changes its template: a dry run tells."""

    kind: WorkloadKind
    name: str
    uid: str


class AskPods(Ask, frozen=True):
    """Lists the Rollout's pods once; of an update in place those that `selector` finds, also of the workload of that uid."""

    selector: str = ""
    workload_uid: str = ""


class AskReplicaSets(Ask, frozen=True):
    """Lists the ReplicaSets of a Deployment once: which of them is its template's, and which are not watched yet."""

    name: str
    selector: str


class AskRevisions(Ask, frozen=True):
    """Lists the ControllerRevisions of a DaemonSet, by its selector: no status names the revision of its template."""

    name: str
    selector: str


class AskChosenNodes(Ask, frozen=True):
    """Lists the nodes that a label selector finds."""

    selector: str


class AskAutoscaling(Ask, frozen=True):
    """Reads the Rollout's autoscalers and what the gate's container uses, from lists that the whole namespace shares."""

    gate: AutoscalingGate


class AskPodTemplate(Ask, frozen=True):
    """Reads the pod template of a ReplicaSet, for an Experiment."""

    name: str
    uid: str


class AskConfig(Ask, frozen=True):
    """Reads the content of one source; only its hash comes back, to every Rollout of the namespace that names it."""

    ref: ConfigRef


class AskSecretCopy(Ask, frozen=True):
    """Asks whether a copy of a Secret exists, which nobody may read."""

    name: str


ReplicaSetIntent: TypeAlias = CreateReplicaSet | AdoptReplicaSet | PatchReplicaSet | DeleteReplicaSet
RouteIntent: TypeAlias = SetTraffic | MakeRoute | ReleaseRoute
AnalysisRunIntent: TypeAlias = (
    CreateAnalysisRun | TerminateAnalysisRun | LetPodsGo | DeleteAnalysisRun | DeleteExperiment
)
ConfigCopyIntent: TypeAlias = CreateConfigCopy | DeleteConfigCopy | AdoptConfigCopy | ReleaseConfigCopy
WorkloadIntent: TypeAlias = MarkWorkload | ScaleWorkload | ReleaseWorkload
ObjectIntent: TypeAlias = SwitchService | ReleaseService | WorkloadIntent | PatchPod | EvictPod | RemoveAnnotation
AskIntent: TypeAlias = (
    AskRoute
    | AskFeatures
    | AskLive
    | AskDrained
    | AskService
    | AskWorkload
    | AskHold
    | AskReplicaSets
    | AskPodTemplate
    | AskRevisions
    | AskChosenNodes
    | AskPods
    | AskAutoscaling
    | AskConfig
    | AskSecretCopy
)
Intent: TypeAlias = (
    ReplicaSetIntent | InPlaceIntent | RouteIntent | AnalysisRunIntent | ConfigCopyIntent | ObjectIntent | AskIntent
)


class Notice(Struct, frozen=True):
    """A message for people, sent as an Event."""

    reason: Reason
    message: str
    warning: bool = False


class Decision(Struct, frozen=True, kw_only=True):
    """The outcome of one pass.

    Args:
        intents: in order; carried out one by one until the first failure.
        status: the new `.status`; written after the intents, in one patch, and only if it differs.
        status_first: status is written before the intents instead: it records a finished step, and the intents are wanted
            either way.
        requeue_at_s: wall clock at which time alone may change the decision; None when only events can.
        notices: sent once the status is written.
    """

    intents: tuple[Intent, ...] = ()
    status: RolloutStatus
    status_first: bool = False
    requeue_at_s: float | None = None
    notices: tuple[Notice, ...] = ()

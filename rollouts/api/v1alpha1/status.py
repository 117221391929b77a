"""`status` of a Rollout, for the CRD alone; api/status/wire.py reads and writes it without these models.

Lengths are not limited: no CEL rule looks at a status, and a write that the API server refuses would stop the Rollout.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rollouts.api.v1alpha1.wire import Wire, needs

Time: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
PercentWire: TypeAlias = float  # usually a whole number, but not always for parts of maxTrafficWeight


class AbortStatus(Wire):
    """The aborted revision, and why it was aborted."""

    revision: str | None = Field(None, description="The aborted revision.")
    at: Time | None = Field(None, description="When it was aborted.")
    reason: str | None = Field(None, description="Why it was aborted, in one word.")
    message: str | None = Field(None, description="Why it was aborted, in a sentence.")
    declared: bool | None = Field(
        None, description="true: an abort annotation names this revision; the abort lasts until it is removed."
    )


class BlueGreenStatus(Wire):
    """The revisions of the two Services, and the gate before the switch."""

    active_revision: str | None = Field(None, description="The revision that the active Service selects.")
    preview_revision: str | None = Field(None, description="The revision that the preview Service selects.")
    gate_started_at: Time | None = Field(None, description="When the preview became available.")
    gate_passed: bool | None = Field(None, description="Whether the preview may get the traffic.")


class WaitingForStatus(Wire):
    """What the Rollout waits for."""

    reason: str | None = Field(None, description="What it waits for, in one word.")
    message: str | None = Field(None, description="What it waits for, in a sentence.")
    since: Time | None = Field(None, description="When the wait began.")
    deadline: Time | None = Field(None, description="When the wait ends at the latest; absent: it has no deadline.")
    problem: str | None = Field(
        None, description="What is wrong with the pods that it waits for. The message contains it too."
    )


class ScaleDownStatus(Wire):
    """An old revision that keeps its pods for a while."""

    revision: str | None = Field(None, description="The old revision.")
    at: Time | None = Field(None, description="When it is scaled down.")


class PreStopStatus(Wire):
    """What the controller added to the current revision's pod template."""

    containers: list[str] | None = Field(None, description="Containers that have got a preStop sleep.")
    seconds: int | None = Field(None, description="How many seconds they sleep.")
    grace_seconds: int | None = Field(None, description="The terminationGracePeriodSeconds of the pods.")
    native: bool | None = Field(None, description="true: the sleep is a preStop.sleep; otherwise an exec of `sleep`.")


class IdleStatus(Wire):
    """Polls in a row that found nothing in flight."""

    polls: int | None = Field(None, description="How many polls in a row.")
    at: Time | None = Field(None, description="When the last of them was made.")


class CutoverStatus(Wire):
    """A Service that went from one revision to another, and how long the pods of the first were kept."""

    service: str | None = Field(None, description="The Service.")
    from_revision: str | None = Field(None, alias="from", description="The revision that the Service left.")
    to: str | None = Field(None, description="The revision to which the Service went.")
    signal: str | None = Field(None, description="What confirmed that the Service had left the revision.")
    confirmed_at: Time | None = Field(None, description="When it was confirmed; absent: not yet.")
    proxy_lag_seconds: float | None = Field(
        None, description="Seconds from confirmedAt until no proxy sends new connections to the left revision."
    )
    needed_seconds: float | None = Field(
        None, description="Seconds from confirmedAt until the longest request is over too."
    )
    waited_seconds: float | None = Field(
        None, description="Seconds from confirmedAt for which the pods are, or were, kept."
    )
    until: Time | None = Field(None, description="When the pods may be deleted.")
    message: str | None = Field(None, description="The reasons for these numbers.")
    timed_out: bool | None = Field(None, description="Whether drain.timeoutSeconds passed before the drain was over.")
    idle: IdleStatus | None = Field(None, description="The polls of drain.probes that found no request in flight.")
    streams_idle: IdleStatus | None = Field(
        None, description="The polls of drain.probes that found no long stream in flight."
    )
    drained: bool | None = Field(None, description="Whether drain.probes ended the wait early.")
    in_flight: int | None = Field(
        None, description="Requests that drain.probes counted at the end; absent: not counted."
    )
    streams: int | None = Field(None, description="Long streams that drain.probes counted at the end.")


class DrainStatus(Wire):
    """How pods are drained before they are deleted, so that no request is lost."""

    pre_stop: PreStopStatus | None = Field(
        None, description="What the controller added to the current revision's pod template."
    )
    cutovers: list[CutoverStatus] | None = Field(
        None, description="Cutovers of Services: those that are not over, and the last one; the newest is last."
    )


class TrafficPartStatus(Wire):
    """A split of the requests between the stable and the canary Service."""

    weight: PercentWire | None = Field(None, description="The canary's share of the requests, in percent.")
    routes: list[str] | None = Field(
        None, description="Managed routes that also send requests, or copies of them, to the canary."
    )


class TrafficStatus(Wire):
    """The desired split of the traffic, and the one that was last confirmed."""

    desired: TrafficPartStatus | None = Field(None, description="The split that the routes should have.")
    seen_at: Time | None = Field(None, description="When all routes were seen to have it; absent: not yet.")
    observed: TrafficPartStatus | None = Field(None, description="The split that was last confirmed to be live.")
    verified_by: str | None = Field(
        None,
        description="How it was confirmed: Config, Counters or Probes of the data plane; SettleTime: the router cannot be asked; "
        "Outside: somebody else moves the traffic.",
    )


class GivenBackStatus(Wire):
    """A route that the spec no longer names, for as long as it may send requests to the canary."""

    route: str | None = Field(None, description="Kind, namespace and name of the route.")
    weight: PercentWire | None = Field(
        None, description="The largest share of requests that it may send to the canary, in percent."
    )
    settle_seconds: float | None = Field(
        None, description="How many seconds its proxies have to follow after the route was released."
    )
    gone_at: Time | None = Field(
        None, description="When the route was seen to be released by the Rollout; absent: not yet."
    )


class ElsewhereStatus(Wire):
    """A route in another namespace that the Rollout manages. Without this record the route does not count as managed."""

    router: str | None = Field(None, description="Name of the route's router, as in the spec.")
    kind: str | None = Field(None, description="Kind of the route.")
    namespace: str | None = Field(None, description="Namespace of the route.")
    name: str | None = Field(None, description="Name of the route.")


class CommandStatus(Wire):
    """A command by annotation, and what became of it."""

    verb: str | None = Field(None, description="The command: abort, pause, promote, restart, retry or rollback.")
    value: str | None = Field(None, description="Value of the annotation.")
    revision: str | None = Field(None, description="The revision that the command acts on.")
    at: Time | None = Field(None, description="When the controller read the command.")
    step: int | None = Field(
        None,
        description="promote: index of the step that it lets pass; absent: all steps. retry: the attempt that it asks for.",
    )
    analysis: str | None = Field(
        None,
        description="promote: the analysis whose verdict it lets pass: step, background, pre-promotion or post-promotion.",
    )
    without_verdict: bool | None = Field(
        None, description="promote: whether it lets pass that analysis while it still measures, without a verdict."
    )
    target: str | None = Field(None, description="The revision to which a rollback goes.")
    taken_off: bool | None = Field(None, description="Whether the controller removed the annotation.")
    strategy_hash: str | None = Field(None, description="Hash of the steps for which the command was given.")
    attempt: int | None = Field(None, description="The attempt for which the command was given; absent: the first.")
    outcome: str | None = Field(
        None,
        description="Accepted. Refused: reason and message say why. Over: it was carried out, or no longer applies.",
    )
    reason: str | None = Field(None, description="Why the command was refused, in one word.")
    message: str | None = Field(None, description="Why the command was refused, in a sentence.")
    by: str | None = Field(None, description="Who gave the command, if that is known; byKind says how.")
    by_kind: str | None = Field(
        None,
        description=(
            "User: the user whom the API server had authenticated, noted by a policy. FieldManager: only the program is known "
            "that set the annotation, such as kubectl-annotate. Note: a name that a ReplicaSet notes."
        ),
    )


class GivenStatus(Wire):
    """Who gave a command during an update."""

    command: str | None = Field(None, description="promote, abort, retry or rollback.")
    by: str | None = Field(None, description="As in `commands`.")
    by_kind: str | None = Field(None, description="As in `commands`.")


class HistoryStatus(Wire):
    """One finished update."""

    revision: str | None = Field(None, description="The revision that was rolled out.")
    number: int | None = Field(None, description="Number of the revision.")
    started_at: Time | None = Field(None, description="When the update began.")
    finished_at: Time | None = Field(None, description="When the update ended.")
    outcome: str | None = Field(None, description="How it ended: Promoted, Aborted, Superseded or RolledBack.")
    message: str | None = Field(None, description="Why it ended so, in a sentence.")
    authors: list[GivenStatus] | None = Field(None, description="Who gave commands during it.")


class AnalysisStatus(Wire):
    """The latest AnalysisRun at one place of the current update."""

    kind: str | None = Field(None, description="Where it is: step, background, pre-promotion or post-promotion.")
    step: int | None = Field(None, description="Index of the step; only of kind step.")
    number: int | None = Field(None, description="Number of the run at this place in this attempt, from 1.")
    run: str | None = Field(None, description="Name of the AnalysisRun.")
    phase: str | None = Field(
        None,
        description="Pending, Running, Successful, Failed, Inconclusive or Error; a verdict stays, whatever becomes of the run.",
    )
    message: str | None = Field(None, description="Why, in a sentence.")
    at: Time | None = Field(None, description="When the run was asked for; of a verdict: when it was recorded.")
    passed: bool | None = Field(
        None, description="Whether somebody promoted the revision past the verdict, or, in phase Pending, without one."
    )
    back_to_weight: PercentWire | None = Field(
        None,
        description="The weight to which the verdict took the canary back, until somebody promotes, retries or aborts it.",
    )
    spec_hash: str | None = Field(
        None, description="SHA-256 of the spec that the run was asked for with; a run with another spec does not count."
    )
    uid: str | None = Field(
        None, description="uid of the run, once it was seen with that spec; a run with another uid does not count."
    )


class AutoscalerStatus(Wire):
    """An autoscaler of the Rollout, as it was last read."""

    kind: str | None = Field(None, description="HorizontalPodAutoscaler.")
    name: str | None = Field(None, description="Its name.")
    owner: str | None = Field(
        None, description="Kind and name of the object that made it, such as a ScaledObject of KEDA."
    )
    desired: int | None = Field(
        None, description="The pods that it wants; absent: it says nothing about the present load."
    )
    max: int | None = Field(None, description="The most pods that it may want.")
    headroom_percent: int | None = Field(
        None, description="Distance from the pods that it wants to its maximum, in percent of the maximum."
    )
    settled_since: Time | None = Field(None, description="Since when it scales nothing; absent: it scales.")


class ContainerUseStatus(Wire):
    """What the container of spec.autoscaling.containerResource uses in one revision."""

    revision: str | None = Field(None, description="The revision.")
    utilization_percent: int | None = Field(
        None, description="Use in percent of the request, of all pods together; absent: not known of every pod."
    )
    measured_pods: int | None = Field(None, description="Pods with a sample that counts.")
    pods: int | None = Field(None, description="Ready pods of the revision.")
    measured_at: Time | None = Field(None, description="Time of the oldest sample.")


class AutoscalingStatus(Wire):
    """What spec.autoscaling was last told during the current update; absent when no update waits or has waited for it."""

    at: Time | None = Field(None, description="When it was read; it is written again when it says something else.")
    autoscalers: list[AutoscalerStatus] | None = Field(None, description="The autoscalers that scale the Rollout.")
    container: str | None = Field(None, description="The container that `use` is about.")
    resource: str | None = Field(None, description="The resource that `use` is about: cpu or memory.")
    use: list[ContainerUseStatus] | None = Field(None, description="What the container uses, by revision.")


class ConditionStatus(Wire):
    """A condition, as in Kubernetes' own objects."""

    model_config = needs("type", "status")

    type: str | None = Field(None, description="Type of the condition.")
    status: Literal["True", "False", "Unknown"] | None = Field(None, description="Whether the condition holds.")
    reason: str | None = Field(None, description="Why, in one word.")
    message: str | None = Field(None, description="Why, in a sentence.")
    last_transition_time: Time | None = Field(None, description="When its status last changed.")
    observed_generation: int | None = Field(None, description="The metadata.generation that the condition describes.")


class RolloutStatusWire(Wire):
    """The state of the Rollout, and what the controller must remember."""

    phase: str | None = Field(None, description="Progressing, Paused, Healthy, Degraded, Aborted or RolledBack.")
    message: str | None = Field(None, description="The phase in a sentence.")
    observed_generation: int | None = Field(None, description="The metadata.generation that this status describes.")
    current_revision: str | None = Field(None, description="The revision that is rolled out, or was rolled out last.")
    stable_revision: str | None = Field(None, description="The revision that was promoted last.")
    revision_number: int | None = Field(None, description="Number of the current revision; it counts up.")
    strategy_hash: str | None = Field(None, description="Hash of the steps that currentStepIndex refers to.")
    current_step_index: int | None = Field(None, description="Index of the current step, counted from 0.")
    step: str | None = Field(None, description="How many steps are done, and how many there are: 1/4.")
    step_started_at: Time | None = Field(None, description="When the current step began.")
    started_at: Time | None = Field(None, description="When the update began.")
    finished_at: Time | None = Field(None, description="When the update ended.")
    attempt: int | None = Field(None, description="How often the current revision was retried.")
    abort: AbortStatus | None = Field(None, description="The aborted revision, and why it was aborted.")
    progressed_at: Time | None = Field(None, description="When the update last made progress.")
    weight: PercentWire | None = Field(None, description="The canary's share of the traffic, in percent.")
    traffic: TrafficStatus | None = Field(
        None, description="The desired and the confirmed split of the traffic; absent without routers."
    )
    given_back: list[GivenBackStatus] | None = Field(
        None, description="Routes that the spec no longer names and that may still send requests to the canary."
    )
    routes_elsewhere: list[ElsewhereStatus] | None = Field(
        None, description="Routes in other namespaces that the Rollout manages with their owners' permission."
    )
    stable_ping_pong: Literal["ping", "pong"] | None = Field(
        None, description="With pingPong: which Service is the stable revision's; absent: ping."
    )
    blue_green: BlueGreenStatus | None = Field(None, description="State of a blue-green update.")
    restarted_at: Time | None = Field(None, description="All pods older than this time have been replaced.")
    evicting_since: Time | None = Field(
        None,
        description="Since when a restart evicts pods; absent once no ReplicaSet counts an evicted pod any more. "
        "Until then the list of pods counts too.",
    )
    replicas: int | None = Field(None, description="Number of pods.")
    updated_replicas: int | None = Field(None, description="Number of pods of the current revision.")
    updated_ready_replicas: int | None = Field(None, description="Number of ready pods of the current revision.")
    updated_available_replicas: int | None = Field(
        None, description="Number of available pods of the current revision."
    )
    ready_replicas: int | None = Field(None, description="Number of ready pods.")
    available_replicas: int | None = Field(None, description="Number of available pods.")
    hpa_replicas: int | None = Field(
        None,
        alias="HPAReplicas",
        description="Number of pods that autoscalers are told of: those that serve, no more than spec.replicas.",
    )
    selector: str | None = Field(None, description="Selector by which autoscalers find the pods.")
    waiting_for: WaitingForStatus | None = Field(None, description="What the Rollout waits for, and until when.")
    scale_downs: list[ScaleDownStatus] | None = Field(
        None, description="Old revisions that keep their pods for a while."
    )
    drain: DrainStatus | None = Field(None, description="How pods are drained before they are deleted.")
    commands: list[CommandStatus] | None = Field(
        None, description="Commands by annotation, each with what became of it."
    )
    authors: list[GivenStatus] | None = Field(
        None, description="Who gave commands during the update that is under way, the last eight."
    )
    history: list[HistoryStatus] | None = Field(None, description="Finished updates; the newest is last.")
    analyses: list[AnalysisStatus] | None = Field(
        None, description="The latest AnalysisRun at each place of the current update."
    )
    autoscaling: AutoscalingStatus | None = Field(
        None, description="What the autoscalers and the container of spec.autoscaling last showed during an update."
    )
    conditions: list[ConditionStatus] | None = Field(
        None,
        description="Conditions: Ready, Reconciling, Stalled and more.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )

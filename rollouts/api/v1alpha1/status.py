"""`status` of a Rollout, for the CRD alone; api/status/wire.py reads and writes it without these models.

Lengths are not limited: nothing evaluates rules over a status, and a write that the API server refuses would stop the Rollout.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rollouts.api.v1alpha1.wire import Wire, needs

Time: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
PercentWire: TypeAlias = float  # as a rule a whole number; parts of maxTrafficWeight need not be


class AbortStatus(Wire):
    """The revision that is held back, and why."""

    revision: str | None = Field(None, description="The revision.")
    at: Time | None = Field(None, description="Since when.")
    reason: str | None = Field(None, description="Why, in one word.")
    message: str | None = Field(None, description="Why, in a sentence.")
    declared: bool | None = Field(None, description="By an annotation that holds it for as long as it stands.")


class BlueGreenStatus(Wire):
    """What the Services select, and the gate before the switch."""

    active_revision: str | None = Field(None, description="Selected by the active Service.")
    preview_revision: str | None = Field(None, description="Selected by the preview Service.")
    gate_started_at: Time | None = Field(None, description="When the preview became available.")
    gate_passed: bool | None = Field(None, description="The preview may take the traffic.")


class WaitingForStatus(Wire):
    """What the Rollout waits for."""

    reason: str | None = Field(None, description="In one word.")
    message: str | None = Field(None, description="In a sentence.")
    since: Time | None = Field(None, description="Since when.")
    deadline: Time | None = Field(None, description="Until when at the latest; absent: as long as it takes a person.")
    problem: str | None = Field(None, description="What is wrong with the pods that it waits for; in the message too.")


class ScaleDownStatus(Wire):
    """An old revision that keeps its pods for a while."""

    revision: str | None = Field(None, description="The revision.")
    at: Time | None = Field(None, description="When its pods go.")


class PreStopStatus(Wire):
    """What was put into the current revision's template."""

    containers: list[str] | None = Field(None, description="Containers that sleep before they are told to end.")
    seconds: int | None = Field(None, description="How long.")
    grace_seconds: int | None = Field(None, description="terminationGracePeriodSeconds that its pods have.")
    native: bool | None = Field(None, description="As preStop.sleep; otherwise by exec of sleep.")


class IdleStatus(Wire):
    """Polls in a row that found nothing in flight."""

    polls: int | None = Field(None, description="How many.")
    at: Time | None = Field(None, description="When the last of them was asked.")


class CutoverStatus(Wire):
    """A Service that went from one revision to another, and how long the pods of the first were kept."""

    service: str | None = Field(None, description="The Service.")
    from_revision: str | None = Field(None, alias="from", description="The revision that it left.")
    to: str | None = Field(None, description="The revision that it went to.")
    signal: str | None = Field(None, description="What confirmed it.")
    confirmed_at: Time | None = Field(None, description="When that was; absent: not yet.")
    proxy_lag_seconds: float | None = Field(None, description="From there until no proxy sent it new connections.")
    needed_seconds: float | None = Field(None, description="From there until the longest request was over too.")
    waited_seconds: float | None = Field(None, description="What its pods are kept, or were.")
    until: Time | None = Field(None, description="When they may go.")
    message: str | None = Field(None, description="The reasons for these numbers.")
    timed_out: bool | None = Field(None, description="drain.timeoutSeconds came before the end.")
    idle: IdleStatus | None = Field(None, description="What drain.probes found of requests.")
    streams_idle: IdleStatus | None = Field(None, description="What drain.probes found of long streams.")
    drained: bool | None = Field(None, description="drain.probes ended the wait before its time.")
    in_flight: int | None = Field(None, description="Requests that they counted at the end; absent: nobody knew.")
    streams: int | None = Field(None, description="Long streams that they counted at the end.")


class DrainStatus(Wire):
    """What was done so that pods that go lose no request."""

    pre_stop: PreStopStatus | None = Field(None, description="What was put into the current revision's template.")
    cutovers: list[CutoverStatus] | None = Field(
        None, description="Services that left a revision: those that are not over, and the last one; the newest last."
    )


class TrafficPartStatus(Wire):
    """A split of the requests between the stable and the canary Service."""

    weight: PercentWire | None = Field(None, description="Share of the requests for the canary, in percent.")
    routes: list[str] | None = Field(None, description="Managed routes that bring it requests, or copies, besides.")


class TrafficStatus(Wire):
    """What the routes are to do, and what the data plane was last found to do."""

    desired: TrafficPartStatus | None = Field(None, description="What the routes are to say.")
    seen_at: Time | None = Field(None, description="When all of them were seen to say it; absent: not yet.")
    observed: TrafficPartStatus | None = Field(None, description="What was last confirmed to be in force.")
    verified_by: str | None = Field(
        None, description="How: Config, Counters, Probes, SettleTime (nobody to ask), Outside (not our routes)."
    )


class GivenBackStatus(Wire):
    """A route that the spec no longer names, for as long as it may bring requests to the canary."""

    route: str | None = Field(None, description="Its kind, namespace and name.")
    weight: PercentWire | None = Field(None, description="The most that it may bring the canary, in percent.")
    settle_seconds: float | None = Field(None, description="What its proxies are given once it is given back.")
    gone_at: Time | None = Field(None, description="When it was seen to be the Rollout's no longer; absent: not yet.")


class ElsewhereStatus(Wire):
    """A route in another namespace that the Rollout manages; it counts as managed with this record only."""

    router: str | None = Field(None, description="Name of its router, as in the spec.")
    kind: str | None = Field(None, description="Its kind.")
    namespace: str | None = Field(None, description="Its namespace.")
    name: str | None = Field(None, description="Its name.")


class CommandStatus(Wire):
    """A verb that was judged."""

    verb: str | None = Field(None, description="The verb.")
    value: str | None = Field(None, description="The annotation's value.")
    revision: str | None = Field(None, description="The revision that it acts on.")
    at: Time | None = Field(None, description="When it was read.")
    step: int | None = Field(None, description="Index of the step that a promotion lets pass; absent: all.")
    target: str | None = Field(None, description="The revision that a rollback goes to.")
    taken_off: bool | None = Field(None, description="The annotation was removed by the controller.")
    strategy_hash: str | None = Field(None, description="Of the steps that it was given for.")
    attempt: int | None = Field(None, description="The attempt that it was given for; absent: the first.")
    outcome: str | None = Field(
        None,
        description="Accepted; Refused, then reason and message say why; Over: carried out, or what it was for has gone.",
    )
    reason: str | None = Field(None, description="Why it was refused, in one word.")
    message: str | None = Field(None, description="Why it was refused, in a sentence.")
    by: str | None = Field(None, description="The field manager that set the annotation, where the API server tells.")


class HistoryStatus(Wire):
    """One finished update."""

    revision: str | None = Field(None, description="The revision.")
    number: int | None = Field(None, description="Its number.")
    started_at: Time | None = Field(None, description="When it began.")
    finished_at: Time | None = Field(None, description="When it ended.")
    outcome: str | None = Field(None, description="How it ended: Promoted, Aborted, Superseded or RolledBack.")
    message: str | None = Field(None, description="More about that.")


class ConditionStatus(Wire):
    """A condition, as Kubernetes' own objects have them."""

    model_config = needs("type", "status")

    type: str | None = Field(None, description="What it is about.")
    status: Literal["True", "False", "Unknown"] | None = Field(None, description="Whether it holds.")
    reason: str | None = Field(None, description="Why, in one word.")
    message: str | None = Field(None, description="Why, in a sentence.")
    last_transition_time: Time | None = Field(None, description="Since when.")
    observed_generation: int | None = Field(None, description="The metadata.generation that it speaks about.")


class RolloutStatusWire(Wire):
    """What the controller knows and remembers."""

    phase: str | None = Field(None, description="Progressing, Paused, Healthy, Degraded, Aborted or RolledBack.")
    message: str | None = Field(None, description="The phase in a sentence.")
    observed_generation: int | None = Field(None, description="The metadata.generation that this speaks about.")
    current_revision: str | None = Field(None, description="The revision being rolled out, or the last one.")
    stable_revision: str | None = Field(None, description="The last promoted revision.")
    revision_number: int | None = Field(None, description="Number of the current revision; counts up.")
    strategy_hash: str | None = Field(None, description="Of the steps that currentStepIndex counts in.")
    current_step_index: int | None = Field(None, description="The step being carried out, from 0.")
    step: str | None = Field(None, description="Steps done, of how many.")
    step_started_at: Time | None = Field(None, description="When that step began.")
    started_at: Time | None = Field(None, description="When the update began.")
    finished_at: Time | None = Field(None, description="When it ended.")
    attempt: int | None = Field(None, description="How often it was tried again.")
    abort: AbortStatus | None = Field(None, description="The revision that is held back, and why.")
    progressed_at: Time | None = Field(None, description="When anything last moved.")
    weight: PercentWire | None = Field(None, description="Share of the traffic for the canary, in percent.")
    traffic: TrafficStatus | None = Field(None, description="The routes' side of it; absent without routers.")
    given_back: list[GivenBackStatus] | None = Field(
        None, description="Routes that the spec no longer names and that may still bring requests to the canary."
    )
    routes_elsewhere: list[ElsewhereStatus] | None = Field(
        None, description="Routes in other namespaces that the Rollout manages, each with its owner's leave."
    )
    stable_ping_pong: Literal["ping", "pong"] | None = Field(
        None, description="With pingPong: the stable revision's Service; absent for ping."
    )
    blue_green: BlueGreenStatus | None = Field(None, description="State of a blue-green update.")
    restarted_at: Time | None = Field(None, description="Pods older than this were replaced.")
    replicas: int | None = Field(None, description="Pods.")
    updated_replicas: int | None = Field(None, description="Pods of the current revision.")
    updated_ready_replicas: int | None = Field(None, description="Pods of the current revision that are ready.")
    updated_available_replicas: int | None = Field(None, description="Pods of the current revision that are available.")
    ready_replicas: int | None = Field(None, description="Pods that are ready.")
    available_replicas: int | None = Field(None, description="Pods that are available.")
    selector: str | None = Field(None, description="Selector of the pods that autoscalers look at.")
    waiting_for: WaitingForStatus | None = Field(None, description="What the Rollout waits for, and until when.")
    scale_downs: list[ScaleDownStatus] | None = Field(None, description="Old revisions that keep their pods a while.")
    drain: DrainStatus | None = Field(None, description="How pods that go are drained.")
    commands: list[CommandStatus] | None = Field(None, description="Verbs, each with what became of it.")
    history: list[HistoryStatus] | None = Field(None, description="Finished updates, newest last.")
    conditions: list[ConditionStatus] | None = Field(
        None,
        description="Ready, Reconciling, Stalled and more.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )

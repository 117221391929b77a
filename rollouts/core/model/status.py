"""What a Rollout's `.status` remembers: each field is declared once, here (`declared.py`), and CRD and JSON follow from it."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

from msgspec import Struct

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisRecord, Passable
from rollouts.core.model.author import Author
from rollouts.core.model.autoscaling import AutoscalingRecord
from rollouts.core.model.declared import (
    ALWAYS,
    FLAT,
    HIDDEN,
    LEFT_OUT,
    NEEDED,
    STRICT,
    Json,
    Mark,
    Message,
    Section,
    Time,
    WhenAbsent,
)
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.service_ref import ServiceRef
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteName, RoutePlace, VerifiedBy


class Phase(StrEnum):
    """One word for people; the conditions say the same for machines."""

    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    HEALTHY = "Healthy"
    DEGRADED = "Degraded"
    ABORTED = "Aborted"  # the stable revision serves instead of the new one
    ROLLED_BACK = "RolledBack"  # the target of a rollback serves instead of the spec's revision


class Verb(StrEnum):
    """Commands: annotations `rollouts.dev/<verb>`."""

    PROMOTE = "promote"
    ABORT = "abort"
    RETRY = "retry"
    PAUSE = "pause"
    ROLLBACK = "rollback"
    RESTART = "restart"


class Outcome(StrEnum):
    """How an update ended, in `status.history`."""

    PROMOTED = "Promoted"
    ABORTED = "Aborted"
    SUPERSEDED = "Superseded"
    ROLLED_BACK = "RolledBack"


WAS_STABLE = frozenset({Outcome.PROMOTED, Outcome.ROLLED_BACK})
"""The outcomes of updates after which the revision was the stable one."""


class WaitingFor(Struct, frozen=True):
    """What the Rollout waits for.

    Args:
        deadline_s: None: until a person acts.
        problem: kept here until the pods are listed again, because a restart of the controller loses the list.
    """

    reason: Annotated[Reason, "What it waits for, in one word.", NEEDED]
    message: Annotated[Message, "What it waits for, in a sentence.", ALWAYS]
    since_s: Annotated[Time, "When the wait began.", NEEDED]
    deadline_s: Annotated[Time | None, "When the wait ends at the latest; absent: it has no deadline."]
    problem: Annotated[Message, "What is wrong with the pods that it waits for. The message contains it too."] = ""


class Refusal(Struct, frozen=True):
    """Why a command is not carried out."""

    reason: Annotated[Reason, "Why the command was refused, in one word.", WhenAbsent(Reason.COMMAND_INVALID)]
    message: Annotated[Message, "Why the command was refused, in a sentence.", ALWAYS]


class Command(Struct, frozen=True):
    """A command by annotation, and what became of it.

    It is kept for as long as its annotation is set.

    Args:
        value: recognizes the annotation.
        revision: for a rollback the one that it leaves, for a refusal the one at that time.
        analysis: `step` is None unless that is the analysis of a step.
        annotation_removed: its value was `true`, and its annotation is gone.
        over: it can have no effect any more: it was carried out, or what it was given for is gone.
    """

    verb: Annotated[Verb, "The command: abort, pause, promote, restart, retry or rollback.", NEEDED]
    value: Annotated[str, "Value of the annotation.", NEEDED]
    revision: Annotated[str, "The revision that the command acts on.", NEEDED]
    at_s: Annotated[Time, "When the controller read the command.", NEEDED]
    step: Annotated[
        int | None,
        "promote: index of the step that it lets pass; absent: all steps. retry: the attempt that it asks for.",
        STRICT,
    ] = None
    analysis: Annotated[
        AnalysisKind | None,
        "promote: the analysis whose verdict it lets pass: step, background, pre-promotion or post-promotion.",
        STRICT,
    ] = None
    unjudged: Annotated[
        bool,
        "promote: whether it lets pass that analysis while it still measures, without a verdict.",
        Json("withoutVerdict"),
    ] = False
    target: Annotated[str, "The revision to which a rollback goes."] = ""
    annotation_removed: Annotated[bool, "Whether the controller removed the annotation.", Json("takenOff")] = False
    strategy_hash: Annotated[str, "Hash of the steps for which the command was given."] = ""
    attempt: Annotated[int, "The attempt for which the command was given; absent: the first.", LEFT_OUT] = 0
    refusal: Annotated[Refusal | None, FLAT] = None
    over: Annotated[bool, HIDDEN] = False
    by: Annotated[Author | None, FLAT] = None

    @property
    def by_whom(self) -> str:
        """` (by alice)`, to end a sentence with; "" when nobody is known."""
        return f" (by {self.by})" if self.by is not None else ""

    @property
    def holds(self) -> bool:
        """Whether it was accepted and may still have an effect."""
        return self.refusal is None and not self.over

    def is_for(self, status: RolloutStatus) -> bool:
        """Whether it was given for the revision, the steps and the attempt that `status` is about."""
        return (self.revision, self.strategy_hash, self.attempt) == (
            status.current_revision,
            status.strategy_hash,
            status.attempt,
        )

    def promotes(self, status: RolloutStatus) -> bool:
        """Whether it is a promotion of the current revision that has not ended."""
        return self.verb is Verb.PROMOTE and self.holds and self.is_for(status)

    @property
    def gate(self) -> AnalysisGate | None:
        """For a promotion past an analysis: where that is; else None."""
        return None if self.analysis is None else AnalysisGate(self.analysis, self.step)

    @property
    def passes(self) -> Passable | None:
        """For a promotion: what it passes; None for everything."""
        if self.unjudged:
            return self.gate
        return self.analysis if self.step is None else self.step


class Given(Struct, frozen=True):
    """Who gave a command during an update."""

    verb: Annotated[Verb, "promote, abort, retry or rollback.", Json("command"), NEEDED]
    by: Annotated[Author, "As in `commands`.", FLAT]


class Abort(Struct, frozen=True):
    """The aborted revision, and why it was aborted."""

    revision: Annotated[str, "The aborted revision.", NEEDED]
    at_s: Annotated[Time, "When it was aborted.", WhenAbsent(0.0)]
    reason: Annotated[Reason, "Why it was aborted, in one word.", WhenAbsent(Reason.ROLLOUT_ABORTED)]
    message: Annotated[Message, "Why it was aborted, in a sentence.", ALWAYS]
    declared: Annotated[
        bool, "true: an abort annotation names this revision; the abort lasts until it is removed.", ALWAYS
    ] = False


class AbortNote(Struct, frozen=True):
    """An accepted `abort=true`, noted on the ReplicaSet that grows for it until status has the abort.

    Args:
        revision, attempt, started_at_s: the update that it was given for; a new list of steps starts the update again.
        at_s: when it was accepted, in seconds since 1970.
        by: the name of who gave it.
    """

    revision: str
    attempt: int
    started_at_s: float
    at_s: float
    by: str = ""


class ScaleDown(Struct, frozen=True):
    """An old revision that keeps its pods for a while."""

    revision: Annotated[str, "The old revision.", NEEDED]
    at_s: Annotated[Time, "When it is scaled down.", NEEDED]


class Idle(Struct, frozen=True):
    """Polls in a row that found nothing in flight."""

    polls: Annotated[int, "How many polls in a row."]
    at_s: Annotated[Time, "When the last of them was made.", NEEDED]


class Cutover(Struct, frozen=True, kw_only=True):
    """A Service that went from one revision to another, and how long the pods of the first were kept.

    Args:
        confirmed_at_s: when the Service's EndpointSlices no longer showed the old revision.
        idle, streams_idle: polls after the proxies' lag; None when something was in flight, or no probe was asked.
    """

    service: Annotated[ServiceRef, "The Service."]
    from_revision: Annotated[str, "The revision that the Service left.", Json("from"), NEEDED]
    to_revision: Annotated[str, "The revision to which the Service went.", Json("to"), ALWAYS]
    confirmed_at_s: Annotated[Time | None, "When it was confirmed; absent: not yet."] = None
    proxy_lag_s: Annotated[
        float,
        "Seconds from confirmedAt until no proxy sends new connections to the left revision.",
        Json("proxyLagSeconds"),
    ] = 0.0
    needed_s: Annotated[
        float, "Seconds from confirmedAt until the longest request is over too.", Json("neededSeconds")
    ] = 0.0
    until_s: Annotated[Time | None, "When the pods may be deleted."] = None
    message: Annotated[Message, "The reasons for these numbers."] = ""
    timed_out: Annotated[bool, "Whether drain.timeoutSeconds passed before the drain was over."] = False
    idle: Annotated[Idle | None, "The polls of drain.probes that found no request in flight."] = None
    streams_idle: Annotated[Idle | None, "The polls of drain.probes that found no long stream in flight."] = None
    drained: Annotated[bool, "Whether drain.probes ended the wait early."] = False
    in_flight: Annotated[int | None, "Requests that drain.probes counted at the end; absent: not counted."] = None
    streams: Annotated[int | None, "Long streams that drain.probes counted at the end."] = None


class ExperimentWeight(Struct, frozen=True):
    """The share of the Service of an Experiment."""

    service: Annotated[str, "Name of the Service.", NEEDED]
    percent: Annotated[WeightPercent, "Its share of the requests, in percent.", Json("weight"), NEEDED]


_WEIGHT = "The canary's share of the requests, in percent."
_ROUTES = "Managed routes that also send requests, or copies of them, to the canary."
_EXPERIMENTS = "Services of an Experiment that get requests beside the canary."
_DESIRED = Section("desired", "The split that the routes should have.")
_OBSERVED = Section("observed", "The split that was last confirmed to be live.")


class Traffic(Struct, frozen=True, kw_only=True):
    """The desired split of the traffic, and the one that was last confirmed.

    Until both are equal, any split between them may be in effect on some proxy.

    Args:
        seen_at_s: settle times start here.
    """

    desired_percent: Annotated[WeightPercent, _WEIGHT, Json("weight", _DESIRED), NEEDED]
    desired_routes: Annotated[tuple[str, ...], _ROUTES, Json("routes", _DESIRED)] = ()
    desired_experiments: Annotated[tuple[ExperimentWeight, ...], _EXPERIMENTS, Json("experiments", _DESIRED)] = ()
    seen_at_s: Annotated[Time | None, "When all routes were seen to have it; absent: not yet."] = None
    observed_percent: Annotated[WeightPercent | None, _WEIGHT, Json("weight", _OBSERVED)] = None
    observed_routes: Annotated[tuple[str, ...], _ROUTES, Json("routes", _OBSERVED)] = ()
    observed_experiments: Annotated[tuple[ExperimentWeight, ...], _EXPERIMENTS, Json("experiments", _OBSERVED)] = ()
    verified_by: Annotated[
        VerifiedBy | None,
        "How it was confirmed: Config or Counters of the data plane; SettleTime: the router cannot be asked.",
    ] = None

    @property
    def reaches_experiment(self) -> bool:
        """Whether requests go to an Experiment, or may: nothing else was confirmed since they did."""
        return bool(self.desired_experiments or self.observed_experiments)


class GivenBack(Struct, frozen=True, kw_only=True):
    """A route that the spec no longer names, for as long as it may send requests to the canary.

    Args:
        route: None for a route that was not seen: just after a restart only `status.traffic` may show that there is one.
    """

    route: Annotated[RoutePlace | None, "Kind, namespace and name of the route.", NEEDED]
    percent: Annotated[
        WeightPercent,
        "The largest share of requests that it may send to the canary, in percent.",
        Json("weight"),
        NEEDED,
    ]
    settle_s: Annotated[
        float,
        "How many seconds its proxies have to follow after the route was released.",
        Json("settleSeconds"),
    ]
    gone_at_s: Annotated[Time | None, "When the route was seen to be released by the Rollout; absent: not yet."] = None

    @property
    def display_name(self) -> str:
        """The route's name for messages."""
        return "an earlier route" if self.route is None else str(self.route)


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One finished update."""

    revision: Annotated[str, "The revision that was rolled out.", NEEDED]
    number: Annotated[int, "Number of the revision."]
    started_at_s: Annotated[Time, "When the update began.", NEEDED]
    finished_at_s: Annotated[Time, "When the update ended.", NEEDED]
    outcome: Annotated[Outcome, "How it ended: Promoted, Aborted, Superseded or RolledBack.", NEEDED]
    message: Annotated[Message, "Why it ended so, in a sentence."] = ""
    authors: Annotated[tuple[Given, ...], "Who gave commands during it."] = ()


class Condition(Struct, frozen=True, kw_only=True):
    """A condition, as in Kubernetes' own objects."""

    type: Annotated[str, "Type of the condition.", NEEDED]
    status: Annotated[bool, "Whether the condition holds.", Mark.TRUE_OR_FALSE, NEEDED]
    reason: Annotated[Reason, "Why, in one word.", NEEDED]
    message: Annotated[Message, "Why, in a sentence.", ALWAYS]
    since_s: Annotated[Time, "When its status last changed.", Json("lastTransitionTime"), NEEDED]
    observed_generation: Annotated[int, "The metadata.generation that the condition describes."]


_BLUE_GREEN = Section("blueGreen", "State of a blue-green update.")
_DRAIN = Section("drain", "How pods are drained before they are deleted.")
_ELSEWHERE = (
    "A route in another namespace that the Rollout manages. Without this record the route does not count as managed."
)


class RolloutStatus(Struct, frozen=True, kw_only=True):
    """The state of the Rollout, and what the controller must remember.

    Args:
        step_index: the number of steps when all are done.
        step_started_at_s: a pause is measured from here.
        progressed_at_s: the progress deadline is measured from here.
        elsewhere: also those that it is about to manage.
        gate_started_at_s: automatic promotion is measured from here.
    """

    phase: Annotated[Phase, "Progressing, Paused, Healthy, Degraded, Aborted or RolledBack."] = Phase.PROGRESSING
    message: Annotated[Message, "The phase in a sentence."] = ""
    observed_generation: Annotated[int, "The metadata.generation that this status describes."] = 0
    current_revision: Annotated[str, "The revision that is rolled out, or was rolled out last."] = ""
    stable_revision: Annotated[str, "The revision that was promoted last."] = ""
    revision_number: Annotated[int, "Number of the current revision; it counts up."] = 0
    strategy_hash: Annotated[str, "Hash of the steps that currentStepIndex refers to."] = ""
    step_index: Annotated[int, "Index of the current step, counted from 0.", Json("currentStepIndex")] = 0
    step_started_at_s: Annotated[Time | None, "When the current step began."] = None
    started_at_s: Annotated[Time | None, "When the update began."] = None
    finished_at_s: Annotated[Time | None, "When the update ended."] = None
    attempt: Annotated[int, "How often the current revision was retried.", LEFT_OUT] = 0
    abort: Annotated[Abort | None, "The aborted revision, and why it was aborted."] = None
    progressed_at_s: Annotated[Time | None, "When the update last made progress."] = None
    weight_percent: Annotated[
        WeightPercent | None,
        "The share of the traffic that the current revision shall have, in percent; 100 at the end of its steps.",
        Json("weight"),
    ] = None
    traffic: Annotated[
        Traffic | None, "The desired and the confirmed split of the traffic; absent without routers."
    ] = None
    given_back: Annotated[
        tuple[GivenBack, ...],
        "Routes that the spec no longer names and that may still send requests to the canary.",
    ] = ()
    elsewhere: Annotated[
        tuple[RouteName, ...],
        "Routes in other namespaces that the Rollout manages with their owners' permission.",
        Json("routesElsewhere", text=_ELSEWHERE),
    ] = ()
    pong_is_stable: Annotated[
        bool,
        "With pingPong: which Service is the stable revision's; absent: ping.",
        Json("stablePingPong"),
        Mark.PONG,
    ] = False
    active_revision: Annotated[str, "The revision that the active Service selects.", Json(section=_BLUE_GREEN)] = ""
    preview_revision: Annotated[str, "The revision that the preview Service selects.", Json(section=_BLUE_GREEN)] = ""
    gate_started_at_s: Annotated[Time | None, "When the preview became available.", Json(section=_BLUE_GREEN)] = None
    gate_passed: Annotated[bool, "Whether the preview may get the traffic.", Json(section=_BLUE_GREEN)] = False
    restarted_at_s: Annotated[Time | None, "All pods older than this time have been replaced."] = None
    evicting_since_s: Annotated[
        Time | None,
        "Since when a restart evicts pods; absent once no ReplicaSet counts an evicted pod any more. "
        "Until then the list of pods counts too.",
    ] = None
    replicas: Annotated[int, "Number of pods."] = 0
    updated_replicas: Annotated[int, "Number of pods of the current revision."] = 0
    updated_ready_replicas: Annotated[int, "Number of ready pods of the current revision."] = 0
    updated_available_replicas: Annotated[int, "Number of available pods of the current revision."] = 0
    ready_replicas: Annotated[int, "Number of ready pods."] = 0
    available_replicas: Annotated[int, "Number of available pods."] = 0
    hpa_replicas: Annotated[
        int,
        "Number of pods that autoscalers are told of: those that serve, no more than spec.replicas.",
        Json("HPAReplicas"),
    ] = 0
    selector: Annotated[str, "Selector by which autoscalers find the pods."] = ""
    waiting_for: Annotated[WaitingFor | None, "What the Rollout waits for, and until when."] = None
    scale_downs: Annotated[tuple[ScaleDown, ...], "Old revisions that keep their pods for a while."] = ()
    injection: Annotated[
        Injection | None,
        "What the controller added to the current revision's pod template.",
        Json("preStop", _DRAIN),
    ] = None
    cutovers: Annotated[
        tuple[Cutover, ...],
        "Cutovers of Services: those that are not over, and the last one; the newest is last.",
        Json(section=_DRAIN),
    ] = ()
    commands: Annotated[tuple[Command, ...], "Commands by annotation, each with what became of it."] = ()
    authors: Annotated[tuple[Given, ...], "Who gave commands during the update that is under way, the last eight."] = ()
    history: Annotated[tuple[HistoryEntry, ...], "Finished updates; the newest is last."] = ()
    analyses: Annotated[tuple[AnalysisRecord, ...], "The latest AnalysisRun at each place of the current update."] = ()
    autoscaling: Annotated[
        AutoscalingRecord | None,
        "What the autoscalers and the container of spec.autoscaling last showed during an update.",
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        "Conditions: Ready, Reconciling, Stalled and more.",
        Json(schema={"x-kubernetes-list-map-keys": ["type"], "x-kubernetes-list-type": "map"}),
    ] = ()

    @property
    def experiments_on_record(self) -> tuple[ExperimentWeight, ...]:
        """The shares of Experiments that routes may say: their pods are let go only once there is none, whatever was written."""
        return () if self.traffic is None else self.traffic.desired_experiments

    @property
    def may_be_retried(self) -> bool:
        """Whether the current revision may begin again at its first step: it was aborted, or a failure took its weight back."""
        return self.abort is not None or self.stepped_back is not None

    @property
    def stepped_back(self) -> AnalysisRecord | None:
        """The latest failed verdict that took the weight back and holds the update, at any step; None without one."""
        if self.abort is not None:
            return None
        return next(
            (record for record in reversed(self.analyses) if record.held and record.back_to_percent is not None), None
        )


def stable_before(history: tuple[HistoryEntry, ...], stable_revision: str) -> HistoryEntry | None:
    """The update after which another revision than `stable_revision` was last the stable one."""
    stable = (entry for entry in reversed(history) if entry.outcome in WAS_STABLE and entry.revision != stable_revision)
    return next(stable, None)


def previous_revision(status: RolloutStatus, *, template: str, kept: Collection[str]) -> str:
    """The revision that was stable before the template's revision and is still kept; "" when there is none.

    Args:
        kept: the revisions whose ReplicaSets exist and are not being deleted.
    """
    if status.stable_revision not in ("", template) and status.stable_revision in kept:
        return status.stable_revision
    stable = (entry.revision for entry in reversed(status.history) if entry.outcome in WAS_STABLE)
    return next((revision for revision in stable if revision != template and revision in kept), "")


def analysis_of(status: RolloutStatus, gate: AnalysisGate) -> AnalysisRecord | None:
    """The record of the latest run at `gate` in this attempt."""
    for record in status.analyses:
        if record.gate == gate:
            return record
    return None

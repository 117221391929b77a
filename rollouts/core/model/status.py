"""What a Rollout's `.status` remembers. `api/status/wire.py` carries it to and from the wire without loss."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from msgspec import Struct

from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisRecord, Passable
from rollouts.core.model.author import Author
from rollouts.core.model.autoscaling import AutoscalingRecord
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
    """What the Rollout waits for, since when, and until when at the latest; None: until a person acts.

    Args:
        problem: what is wrong with the pods that it waits for, which the message says too; "" for nothing. It is kept here
            until the pods are listed again, because a restart of the controller loses the list.
    """

    reason: Reason
    message: str
    since_s: float
    deadline_s: float | None
    problem: str = ""


class Refusal(Struct, frozen=True):
    """Why a command is not carried out."""

    reason: Reason
    message: str


class Command(Struct, frozen=True):
    """A judged command: bound to a revision and a step, or refused. Kept for as long as its annotation is set.

    Args:
        value: the annotation's value, to recognize it.
        revision: the revision that it acts on; for a rollback the one that it leaves, for a refusal the one at that time.
        target: for a rollback, the revision to go back to; else "".
        step: for a promotion, index of the step to pass, None for every step; for a retry, the number of the attempt.
        analysis: for a promotion past a verdict: the kind of its analysis; `step` is None unless that is a step. Else None.
        unjudged: it passes that analysis while it measures, without a verdict.
        taken_off: its value was `true`, and its annotation is gone.
        strategy_hash, attempt: the steps and the attempt that it was given for.
        refusal: why it is not carried out; None when it was accepted.
        over: it can have no effect any more: it was carried out, or what it was given for is gone.
        by: who gave it; None when that is not known.
    """

    verb: Verb
    value: str
    revision: str
    at_s: float
    step: int | None = None
    target: str = ""
    taken_off: bool = False
    strategy_hash: str = ""
    attempt: int = 0
    refusal: Refusal | None = None
    over: bool = False
    by: Author | None = None
    analysis: AnalysisKind | None = None
    unjudged: bool = False

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
    """Who gave a command during an update; for people to read in its history."""

    verb: Verb
    by: Author


class Abort(Struct, frozen=True):
    """Why and since when `revision` is aborted.

    Args:
        declared: an annotation `abort: <revision>` keeps it aborted; the abort ends when the annotation is removed.
    """

    revision: str
    at_s: float
    reason: Reason
    message: str
    declared: bool = False


class AbortNote(Struct, frozen=True):
    """An accepted `abort=true`, noted on the ReplicaSet that grows for it until status has the abort.

    Args:
        revision, attempt, started_at_s: the update that it was given for; a new list of steps starts the update again.
        at_s: when it was accepted, in seconds since 1970.
        by: the name of who gave it; "" when that is not known.
    """

    revision: str
    attempt: int
    started_at_s: float
    at_s: float
    by: str = ""


class ScaleDown(Struct, frozen=True):
    """An old revision that keeps its pods until `at_s`."""

    revision: str
    at_s: float


class Idle(Struct, frozen=True):
    """`polls` polls in a row found nothing in flight, the last one at `at_s`."""

    polls: int
    at_s: float


class Cutover(Struct, frozen=True, kw_only=True):
    """A Service that went from one revision to another, and how long the pods of the first are kept for requests in flight.

    Args:
        confirmed_at_s: when the Service's EndpointSlices no longer showed the old revision; None until then.
        proxy_lag_s: seconds from there until no proxy sends it a new connection.
        needed_s: seconds from there until the longest request is over, too.
        until_s: when its pods may go; None until it is confirmed.
        message: what the drain waits for, with the reasons for the numbers.
        timed_out: `timeoutSeconds` were over before the drain.
        idle, streams_idle: polls without requests and without long streams after the proxies' lag; None when something was
            in flight, or no probe was asked.
        drained: the probes ended the wait early.
        in_flight, streams: what the probes counted at the end; None when that is not known.
    """

    service: ServiceRef
    from_revision: str
    to_revision: str
    confirmed_at_s: float | None = None
    proxy_lag_s: float = 0.0
    needed_s: float = 0.0
    until_s: float | None = None
    message: str = ""
    timed_out: bool = False
    idle: Idle | None = None
    streams_idle: Idle | None = None
    drained: bool = False
    in_flight: int | None = None
    streams: int | None = None


class Traffic(Struct, frozen=True, kw_only=True):
    """The wanted split of the routes, and the split that was last found live; only with routers.

    Until both are equal, any split between them may be in effect on some proxy.

    Args:
        desired_percent: the wanted share of requests for the canary Service.
        desired_routes: names of the managed routes that send it more requests, or copies.
        seen_at_s: when all routes were first seen to say what is desired; None until then. Settle times start here.
        observed_percent, observed_routes: what was last found live; None and () before the first time.
        verified_by: how that was confirmed.
    """

    desired_percent: WeightPercent
    desired_routes: tuple[str, ...] = ()
    seen_at_s: float | None = None
    observed_percent: WeightPercent | None = None
    observed_routes: tuple[str, ...] = ()
    verified_by: VerifiedBy | None = None


class GivenBack(Struct, frozen=True, kw_only=True):
    """A route that the spec no longer names, for as long as it may send requests to the canary Service.

    Args:
        route: None for a route that was not seen: just after a restart only `status.traffic` may show that there is one.
        percent: the largest share that it may send there.
        settle_s: within how many seconds every proxy follows it after its release.
        gone_at_s: when it was first seen as no longer managed; None until then.
    """

    route: RoutePlace | None
    percent: WeightPercent
    settle_s: float
    gone_at_s: float | None = None

    @property
    def display_name(self) -> str:
        """The route's name for messages."""
        return "an earlier route" if self.route is None else str(self.route)


class HistoryEntry(Struct, frozen=True, kw_only=True):
    """One finished update, newest last."""

    revision: str
    number: int
    started_at_s: float
    finished_at_s: float
    outcome: Outcome
    message: str = ""
    authors: tuple[Given, ...] = ()


class Condition(Struct, frozen=True, kw_only=True):
    """A Kubernetes condition; `type` is unique in the list."""

    type: str
    status: bool
    reason: Reason
    message: str
    since_s: float
    observed_generation: int


class RolloutStatus(Struct, frozen=True, kw_only=True):
    """Everything that the controller remembers about one Rollout.

    Args:
        current_revision: the revision being rolled out, or the last one; "" before the first pass.
        stable_revision: the last promoted revision; "" until the first is.
        strategy_hash: hash of the steps that `step_index` refers to.
        step_index: the step being carried out; the number of steps when all are done.
        step_started_at_s: when that step began; a pause is measured from here.
        attempt: how often the current revision was tried again after an abort.
        progressed_at_s: the time of the last progress; the progress deadline is measured from here.
        weight_percent: the share of traffic (or of pods) that the canary should have now.
        traffic: the wanted split of the routes and the live one; None without routers.
        given_back: routes that the spec no longer names and that may still send requests to the canary Service.
        elsewhere: routes in other namespaces that this Rollout manages or is about to manage.
        pong_is_stable: with `pingPong`: the stable revision is behind `pongService`.
        active_revision, preview_revision: blue-green: the revisions in the Services' selectors.
        gate_started_at_s: blue-green: when the preview became available; automatic promotion is measured from here.
        gate_passed: blue-green: the preview may take the traffic.
        restarted_at_s: pods older than this have been restarted.
        evicting_since_s: since then pods may have been evicted that a ReplicaSet still counts; None once none does.
        selector: label selector of the pods that the HorizontalPodAutoscaler measures.
        injection: what was added to the current revision's template; None for nothing.
        cutovers: the open ones and the last one; the newest last.
        analyses: the latest run of each gate of the current update.
        autoscaling: what `spec.autoscaling` was last told in this update; None before that, and when no update is under way.
    """

    phase: Phase = Phase.PROGRESSING
    message: str = ""
    observed_generation: int = 0
    current_revision: str = ""
    stable_revision: str = ""
    revision_number: int = 0
    strategy_hash: str = ""
    step_index: int = 0
    step_started_at_s: float | None = None
    started_at_s: float | None = None
    finished_at_s: float | None = None
    attempt: int = 0
    abort: Abort | None = None
    progressed_at_s: float | None = None
    weight_percent: WeightPercent | None = None
    traffic: Traffic | None = None
    given_back: tuple[GivenBack, ...] = ()
    elsewhere: tuple[RouteName, ...] = ()
    pong_is_stable: bool = False
    active_revision: str = ""
    preview_revision: str = ""
    gate_started_at_s: float | None = None
    gate_passed: bool = False
    restarted_at_s: float | None = None
    evicting_since_s: float | None = None
    replicas: int = 0
    updated_replicas: int = 0
    updated_ready_replicas: int = 0
    updated_available_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    hpa_replicas: int = 0
    selector: str = ""
    waiting_for: WaitingFor | None = None
    scale_downs: tuple[ScaleDown, ...] = ()
    injection: Injection | None = None
    cutovers: tuple[Cutover, ...] = ()
    commands: tuple[Command, ...] = ()
    authors: tuple[Given, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    analyses: tuple[AnalysisRecord, ...] = ()
    autoscaling: AutoscalingRecord | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def may_be_retried(self) -> bool:
        """Whether the current revision may begin again at its first step: it was aborted, or a failure took its weight back."""
        return self.abort is not None or self.stepped_back is not None

    @property
    def stepped_back(self) -> AnalysisRecord | None:
        """The latest failed verdict that took the weight back and holds the update, at any step; None without one."""
        if self.abort is not None:
            return None
        for each in reversed(self.analyses):
            if each.held and each.back_to_percent is not None:
                return each
        return None


def stable_before(history: tuple[HistoryEntry, ...], stable_revision: str) -> HistoryEntry | None:
    """The update after which another revision than `stable_revision` was last the stable one; None when none is on record."""
    for each in reversed(history):
        if each.outcome in WAS_STABLE and each.revision != stable_revision:
            return each
    return None


def previous_revision(status: RolloutStatus, *, template: str, kept: Collection[str]) -> str:
    """The revision that was stable before the template's revision and is still kept; "" when there is none.

    Args:
        template: the revision of the spec.
        kept: the revisions whose ReplicaSets exist and are not being deleted.
    """
    if status.stable_revision not in ("", template) and status.stable_revision in kept:
        return status.stable_revision
    for entry in reversed(status.history):
        if entry.outcome in WAS_STABLE and entry.revision != template and entry.revision in kept:
            return entry.revision
    return ""


def analysis_of(status: RolloutStatus, gate: AnalysisGate) -> AnalysisRecord | None:
    """The record of the latest run at `gate`; None before the first one of this attempt."""
    for each in status.analyses:
        if each.gate == gate:
            return each
    return None

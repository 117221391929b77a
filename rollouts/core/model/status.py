"""What a Rollout's `.status` remembers. `api/status/wire.py` carries it to and from the wire without loss."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
    ABORTED = "Aborted"  # the stable revision serves; the new one is held back
    ROLLED_BACK = "RolledBack"  # the revision that a rollback named serves; the spec's is held back


class Verb(StrEnum):
    """Annotations `rollouts.dev/<verb>` that ask for something."""

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
"""How the update of a revision ended that was the stable one then."""


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """What the Rollout waits for, since when, and until when at the latest (None: for as long as it takes a person).

    Args:
        problem: what was found wrong with the pods that it waits for, as the message says too; "" for nothing. It is kept here
            until the pods are listed again: a restart forgets the list.
    """

    reason: Reason
    message: str
    since_s: float
    deadline_s: float | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a command is not carried out."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Command:
    """A verb that was judged: bound to a revision and a step, or refused. Kept for as long as its annotation stands.

    Args:
        value: the annotation's value, to know it again.
        revision: the revision that it acts on; for a rollback the one that it leaves, for a refusal the one that was there.
        target: for a rollback, the revision to go back to; else "".
        step: index of the step that a promotion lets pass, None for every step; number of the attempt that a retry asks for.
        taken_off: it was a `true`, and its annotation has gone.
        strategy_hash, attempt: of the steps and the attempt that it was given for.
        refusal: why nothing follows from it; None when it was accepted.
        over: nothing follows from it any more: it was carried out, or what it was given for has gone.
        by: field manager that set the annotation; "" when that is not known.
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
    by: str = ""

    @property
    def holds(self) -> bool:
        """It was accepted, and something may follow from it."""
        return self.refusal is None and not self.over

    def is_for(self, status: RolloutStatus) -> bool:
        """Whether it was given for the revision, the steps and the attempt that `status` is about."""
        return (self.revision, self.strategy_hash, self.attempt) == (
            status.current_revision,
            status.strategy_hash,
            status.attempt,
        )

    def lets_pass(self, step_index: int | None, status: RolloutStatus) -> bool:
        """Whether it is a promotion that lets the current revision pass that step; with None every step."""
        promotes = self.verb is Verb.PROMOTE and self.holds and self.is_for(status)
        return promotes and self.step in (None, step_index)


@dataclass(frozen=True, slots=True)
class Abort:
    """Why and since when `revision` is held back.

    Args:
        declared: an `abort: <revision>` annotation holds it; it ends when the annotation goes.
    """

    revision: str
    at_s: float
    reason: Reason
    message: str
    declared: bool = False


@dataclass(frozen=True, slots=True)
class AbortNote:
    """An accepted `abort=true`, kept on the ReplicaSet that grows for it until status tells of the abort.

    Args:
        revision, attempt, started_at_s: of the update that it was given for; each new list of steps starts it anew.
        at_s: when it was accepted, in seconds since 1970.
        by: field manager that set the annotation; "" when that is not known.
    """

    revision: str
    attempt: int
    started_at_s: float
    at_s: float
    by: str = ""


@dataclass(frozen=True, slots=True)
class ScaleDown:
    """An old revision that keeps its pods until `at_s`."""

    revision: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Idle:
    """So many polls in a row found nothing in flight, the last of them at `at_s`."""

    polls: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutover:
    """A Service that went from one revision to another, and how long the pods of the first are kept for what is in flight.

    Args:
        confirmed_at_s: when the Service's EndpointSlices showed the old revision no more; None until then.
        proxy_lag_s: from there until no proxy sends a new connection to it.
        needed_s: from there until the longest request is over too.
        until_s: when its pods may go; None until it is confirmed.
        message: what is waited for, with the reasons for the numbers.
        timed_out: `timeoutSeconds` came before the end.
        idle, streams_idle: what the probes found of requests and of long streams once the proxies' lag was over; None when
            something was in flight, or nobody was asked.
        drained: the probes ended the wait before its time.
        in_flight, streams: what they counted when it ended; None when nobody knew.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What the routes are to do, and what the data plane was last found to do; only with routers.

    Until `observed` is what is desired either may be in force, and whatever is between, on some proxy.

    Args:
        desired_percent: share of the requests for the canary Service.
        desired_routes: names of the managed routes that bring requests, or copies, to it besides.
        seen_at_s: when every route was seen to say what is desired; None until then. A settle time counts from here.
        observed_percent, observed_routes: what was last confirmed to be live; None and () before the first time.
        verified_by: how that was confirmed.
    """

    desired_percent: WeightPercent
    desired_routes: tuple[str, ...] = ()
    seen_at_s: float | None = None
    observed_percent: WeightPercent | None = None
    observed_routes: tuple[str, ...] = ()
    verified_by: VerifiedBy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenBack:
    """A route that the spec no longer names, for as long as it may bring requests to the canary Service.

    Args:
        route: None for one that is not seen: just after a restart a status with traffic may be all that tells of it.
        percent: the most that it may bring there.
        settle_s: within how many seconds every proxy does what it says once it is given back.
        gone_at_s: when it was seen to be ours no longer; None until then.
    """

    route: RoutePlace | None
    percent: WeightPercent
    settle_s: float
    gone_at_s: float | None = None

    @property
    def display_name(self) -> str:
        """The route as people read of it."""
        return "a route of before" if self.route is None else str(self.route)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One finished update, newest last."""

    revision: str
    number: int
    started_at_s: float
    finished_at_s: float
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A Kubernetes condition; `type` is unique in the list."""

    type: str
    status: bool
    reason: Reason
    message: str
    since_s: float
    observed_generation: int


@dataclass(frozen=True, kw_only=True)  # without slots: `frozen.replace`
class RolloutStatus:
    """All memory of the controller about one Rollout.

    Args:
        current_revision: the revision being rolled out, or the one that was; "" before the first pass.
        stable_revision: the last promoted revision; "" until the first is.
        strategy_hash: of the steps that `step_index` counts in.
        step_index: the step being carried out; the number of steps when all are done.
        step_started_at_s: when that step began; a pause is measured from here.
        attempt: how often the current revision was tried again after an abort.
        progressed_at_s: the last time anything moved; the progress deadline is measured from here.
        weight_percent: share of traffic (or of pods) that the canary is to have now.
        traffic: the routes' side of it; None without routers.
        given_back: routes that the spec no longer names and that may still bring requests to the canary Service.
        elsewhere: routes in other namespaces that this Rollout manages, or that it is about to.
        pong_is_stable: with `pingPong`: the stable revision is behind `pongService`.
        active_revision, preview_revision: blue-green: what the Services' selectors were seen to name.
        gate_started_at_s: blue-green: when the preview became available; automatic promotion is measured from here.
        gate_passed: blue-green: the preview may take the traffic.
        restarted_at_s: pods older than this have been restarted.
        selector: label selector of the pods that the HorizontalPodAutoscaler is to look at.
        injection: what was put into the current revision's template; None for nothing.
        cutovers: those that are not over, and the last one; the newest last.
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
    replicas: int = 0
    updated_replicas: int = 0
    updated_ready_replicas: int = 0
    updated_available_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    selector: str = ""
    waiting_for: WaitingFor | None = None
    scale_downs: tuple[ScaleDown, ...] = ()
    injection: Injection | None = None
    cutovers: tuple[Cutover, ...] = ()
    commands: tuple[Command, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    conditions: tuple[Condition, ...] = ()

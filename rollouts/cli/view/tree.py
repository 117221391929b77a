"""The values that a terminal or a dashboard shows of one Rollout. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.runs import RunLine
from rollouts.core.model.analysis import AnalysisRecord
from rollouts.core.model.autoscaling import AutoscalingRecord, UseRecord
from rollouts.core.model.config import ConfigUse
from rollouts.core.model.steps import WeightPercent


class PodState(StrEnum):
    """What is said of a pod; of one that fails its problem is said instead."""

    READY = "Ready"
    STARTING = "Starting"
    FAILING = "Failing"
    TERMINATING = "Terminating"


class PodLine(Struct, frozen=True, kw_only=True):
    """One pod; `problem` is why it is not ready, in the kubelet's or scheduler's words."""

    name: str
    created_at_s: float
    ready: bool
    deleting: bool = False
    problem: str = ""

    @property
    def well(self) -> bool:
        """Whether there is nothing to say of it: it is ready, has no problem and stays."""
        return self.ready and not self.problem and not self.deleting

    @property
    def state(self) -> PodState:
        """What is most important about it."""
        if self.deleting:
            return PodState.TERMINATING
        if self.ready:
            return PodState.READY
        return PodState.FAILING if self.problem else PodState.STARTING

    @property
    def said(self) -> str:
        """Its state in words."""
        return self.problem if self.state is PodState.FAILING else self.state


class RevisionLine(Struct, frozen=True, kw_only=True):
    """One revision and its pods.

    Args:
        number: counts up; 0 when it is not known.
        roles: `stable`, `canary`, `active`, `preview`; none for an old revision.
        leaves_at_s: when it is scaled down; None when that is not planned.
        runs: AnalysisRuns about it: those whose verdict holds or ended the update, those that are not over, then the others.
        hidden: pods that are not in `pods`.
    """

    revision: str
    number: int
    roles: tuple[str, ...]
    images: tuple[str, ...]
    ready: int
    desired: int
    pods: tuple[PodLine, ...] = ()
    leaves_at_s: float | None = None
    runs: tuple[RunLine, ...] = ()
    config: tuple[ConfigUse, ...] = ()
    hidden: int = 0

    def leaving_text(self, now_s: float) -> str:
        """When it is scaled down: `scales down in 30s`; "" when that is not planned, or over."""
        if self.leaves_at_s is None or self.leaves_at_s < now_s + 1 or not self.desired:
            return ""
        return f"scales down in {short(self.leaves_at_s - now_s)}"

    def shown_pods(self, most: int) -> Sequence[PodLine]:
        """All pods, or as many as `most`: first those that are not well."""
        return self.pods if len(self.pods) <= most else sorted(self.pods, key=lambda pod: (pod.well, pod.name))[:most]

    def unshown_text(self, most: int) -> str:
        """How many pods are not among `shown_pods`: `and 3 more pods`; "" for none."""
        # Where none is shown, all are well, and how many there are stands above.
        hidden = max(0, len(self.pods) - most) + self.hidden if self.pods else 0
        return f"and {count_of(hidden, 'more pod')}" if hidden else ""


class WayOut(Struct, frozen=True):
    """A command of `kubectl rollouts` that ends a wait, and what for, if there are others: `to go back`."""

    command: str
    purpose: str = ""


class WaitLine(Struct, frozen=True):
    """What the Rollout waits for; for a person, if there is no deadline.

    Args:
        gist: the message without the commands that the controller names in it.
        ways: those commands, or another one that ends the wait; none for a wait that ends by itself.
    """

    reason: str
    message: str
    since_s: float | None
    deadline_s: float | None
    gist: str = ""
    ways: tuple[WayOut, ...] = ()


class ConditionLine(Struct, frozen=True):
    """A condition that is not good."""

    type: str
    reason: str
    message: str
    since_s: float | None


class EventLine(Struct, frozen=True):
    """One Event about the Rollout."""

    at_s: float
    reason: str
    message: str
    warning: bool


class RolloutView(Struct, frozen=True, kw_only=True):
    """Everything the tree shows.

    Args:
        in_place: the workload that keeps its pods; "" for pods of the Rollout's own.
        revision, stable: the current revision and the stable one; "" for none.
        strategy: `Canary`, `BlueGreen`, or "" when the spec cannot be read.
        weight_percent: the share of the traffic that the current revision shall have; None without weights (blue-green).
        live_percent: the share that it has: last found live, without routers its share of the available pods; None where
            nothing has been found yet.
        nearest_ratio: without routers, the pods whose ratio is as near to `weight_percent` as it can be: `3 of 11 pods`; "" while
            pods are still to come or to go.
        traffic: what the two do not say of the traffic: how it was confirmed, and routes by header; "" without routers.
        steps: in the words of the manifest, `setWeight 25`.
        step_index: the current step; `len(steps)` when all are done.
        steps_skipped: the steps of this revision were not carried out: it is the first one, or was stable before.
        at_rest: no update is under way.
        problems: what is wrong with the spec, with paths.
        stale: the controller has not seen the latest spec yet.
        verdicts: of analyses of the current update that have ended, in the order of status.
        events: newest last.
        scaling: what the autoscaling gate of this update last read.
    """

    namespace: str
    name: str
    phase: str
    in_place: str = ""
    created_at_s: float = 0.0
    revision: str = ""
    stable: str = ""
    message: str = ""
    strategy: str = ""
    weight_percent: WeightPercent | None = None
    live_percent: WeightPercent | None = None
    nearest_ratio: str = ""
    traffic: str = ""
    steps: tuple[str, ...] = ()
    step_index: int = 0
    steps_skipped: bool = False
    at_rest: bool = False
    desired: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0
    waiting: WaitLine | None = None
    revisions: tuple[RevisionLine, ...] = ()
    conditions: tuple[ConditionLine, ...] = ()
    events: tuple[EventLine, ...] = ()
    problems: tuple[str, ...] = ()
    stale: bool = False
    verdicts: tuple[AnalysisRecord, ...] = ()
    scaling: AutoscalingRecord | None = None

    @property
    def split_percent(self) -> WeightPercent | None:
        """`weight_percent` while two revisions share the traffic; None where one has all: the first, or at rest."""
        return self.weight_percent if self.stable not in ("", self.revision) else None

    @property
    def counts(self) -> str:
        """The pods of all revisions: `4 desired, 5 ready, 5 available, 1 updated`."""
        return f"{self.desired} desired, {self.ready} ready, {self.available} available, {self.updated} updated"


def percent_text(percent: WeightPercent) -> str:
    """`5 %`, `0.5 %`; what has no end is cut after four digits."""
    return f"{percent} %" if isinstance(percent, int) else f"{float(percent):.4g} %"


def scaling_texts(record: AutoscalingRecord, *, now_s: float) -> list[str]:
    """A line for each autoscaler: `autoscaler cart wants 4 of 5 pods: headroom 20 %, settled for 3m (read 12s ago)`."""
    lines, read = [], f"(read {short(now_s - record.at_s)} ago)"
    for autoscaler in record.autoscalers:
        of = f" of {autoscaler.owner}" if autoscaler.owner else ""
        name, most = f"autoscaler {autoscaler.name}{of}", count_of(autoscaler.max_replicas, "pod")
        if autoscaler.desired is None:
            lines.append(f"{name} does not say how many of {most} it wants {read}")
            continue
        room = "" if autoscaler.headroom_percent is None else f": headroom {autoscaler.headroom_percent} %"
        since_s = autoscaler.settled_since_s
        state = "not settled" if since_s is None else f"settled for {short(now_s - since_s)}"
        lines.append(f"{name} wants {autoscaler.desired} of {most}{room}, {state} {read}")
    return lines


def container_use_text(record: AutoscalingRecord, use: UseRecord, *, now_s: float) -> str:
    """The use beside its revision: `app cpu 173 % 12s ago`, `app cpu ? (1 of 2 pods measured)`."""
    what = " ".join(filter(None, (record.container, record.resource)))
    if use.utilization_percent is None:
        return f"{what} ? ({use.measured} of {count_of(use.pods, 'pod')} measured)"
    age = f" {short(now_s - use.oldest_at_s)} ago" if use.oldest_at_s is not None else ""
    return f"{what} {use.utilization_percent} %{age}"

"""The values that a terminal or a dashboard shows of one Rollout. Pure."""

from __future__ import annotations

from msgspec import Struct

from rollouts.cli.view.runs import RunLine
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.config import ConfigUse
from rollouts.core.model.steps import WeightPercent


class PodLine(Struct, frozen=True, kw_only=True):
    """One pod.

    Args:
        problem: why it is not ready, in the kubelet's or scheduler's words; "" when nothing is wrong.
    """

    name: str
    created_at_s: float
    ready: bool
    deleting: bool = False
    problem: str = ""


class UseLine(Struct, frozen=True):
    """What the container of the autoscaling gate uses in the pods of one revision.

    Args:
        what: container and resource: `app cpu`.
        percent: of the request; None when it is not known of every pod.
        measured, pods: how many pods were measured, of how many.
        at_s: time of the oldest sample.
    """

    what: str
    percent: int | None
    measured: int
    pods: int
    at_s: float | None


class ScalingLine(Struct, frozen=True):
    """What one autoscaler of the Rollout last showed.

    Args:
        name: with its owner, if it has one.
        desired: pods; None when it says nothing about the present load.
        settled_since_s: None while it scales.
        at_s: when that was read.
    """

    name: str
    desired: int | None
    most: int
    headroom_percent: int | None
    settled_since_s: float | None
    at_s: float


class RevisionLine(Struct, frozen=True, kw_only=True):
    """One revision and its pods, newest revision first in `RolloutView.revisions`.

    Args:
        number: counts up; 0 when it is not known.
        roles: `stable`, `canary`, `active`, `preview`; none for an old revision.
        images: of the template's containers.
        leaves_at_s: when it is scaled down; None when that is not planned.
        runs: AnalysisRuns about it: those that are not over, then the others, the newest first.
        config: what it has of ConfigMaps and Secrets.
        hidden: pods that are not in `pods`.
        use: of the container that the autoscaling gate judges; None when nothing was read.
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
    use: UseLine | None = None


class WayOut(Struct, frozen=True):
    """A command that ends a wait.

    Args:
        command: of `kubectl rollouts`, without that: `promote cart -n shop`.
        purpose: `to go back`; "" where it is the only one.
    """

    command: str
    purpose: str = ""


class WaitLine(Struct, frozen=True):
    """What the Rollout waits for.

    Args:
        message: with the commands that the controller names in it.
        deadline_s: None when the wait is for a person.
        gist: the message without the commands.
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


class VerdictLine(Struct, frozen=True):
    """How an analysis of the current update ended.

    Args:
        about: `analysis of step 1`, `background analysis`.
        passed: somebody promoted the revision past it; with a phase that is not over: without a verdict, as the message says.
    """

    about: str
    run: str
    phase: AnalysisPhase
    message: str
    passed: bool

    @property
    def unjudged(self) -> bool:
        """Whether there is no verdict, since somebody promoted the revision without one."""
        return self.passed and not self.phase.over


class RolloutView(Struct, frozen=True, kw_only=True):
    """Everything the tree shows.

    Args:
        strategy: `Canary`, `BlueGreen`, or "" when the spec cannot be read.
        weight_percent: the share that the canary shall have; None where there is no weight.
        live_percent: the share that it has: last found live, without routers its share of the available pods; None where
            nothing has been found yet.
        traffic: the desired split and the confirmed one, in words; "" without routers.
        steps: in the words of the manifest, `setWeight 25`.
        step_index: the current step; `len(steps)` when all are done.
        steps_skipped: the steps of this revision were not carried out: it is the first one, or was stable before.
        at_rest: no update is under way.
        problems: what is wrong with the spec, with paths.
        stale: the controller has not seen the latest spec yet.
        verdicts: of the current update, in the order of status.
        events: newest last.
        scaling: autoscalers, as the gate of this update last read them.
    """

    namespace: str
    name: str
    phase: str
    message: str = ""
    strategy: str = ""
    weight_percent: WeightPercent | None = None
    live_percent: WeightPercent | None = None
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
    verdicts: tuple[VerdictLine, ...] = ()
    scaling: tuple[ScalingLine, ...] = ()


def percent_text(percent: WeightPercent) -> str:
    """`5 %`, `0.5 %`; what has no end is cut after four digits."""
    return f"{percent} %" if isinstance(percent, int) else f"{float(percent):.4g} %"

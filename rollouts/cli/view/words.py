"""What is said of a Rollout in one line: what it waits for, how its traffic is shared, how an analysis ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from rollouts.cli.view.durations import short
from rollouts.cli.view.runs import RunLine, about
from rollouts.cli.view.tree import PodLine, RolloutView, WaitLine, percent_text
from rollouts.core.model.analysis import AnalysisRecord
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase
from rollouts.core.model.steps import WeightPercent

BRIEF_CHARS = 200


def verdict_text(analysis: AnalysisRecord) -> str:
    """How an analysis ended, in one line: `analysis of step 1: Failed: …`."""
    if analysis.passed and not analysis.phase.over:  # somebody promoted the revision without a verdict
        return f"{about(analysis.gate)}: {analysis.message} ({analysis.run})"
    why = f": {analysis.message}" if analysis.message else ""
    passed = ", and somebody promoted the revision past it" if analysis.passed else ""
    return f"{about(analysis.gate)}: {analysis.phase}{why}{passed} ({analysis.run})"


def waits_for(view: RolloutView, *, now_s: float) -> str:
    """What the Rollout waits for, why and until when; without a wait the status' message, which may be ""."""
    if view.problems:
        return "; ".join(view.problems)
    if view.stale:
        return "waiting for the controller to see the latest spec"
    if view.waiting is None:
        return view.message
    return f"{view.waiting.message} ({view.waiting.reason}){how_long(view.waiting, now_s=now_s)}"


def waits_briefly(view: RolloutView, *, now_s: float) -> str:
    """The reason of the wait and its time; without a wait that of the first bad condition, or what `waits_for` says.

    What is aborted waits for a retry, whatever aborted it: the reason of that follows in brackets.
    """
    if view.problems:
        return Reason.INVALID_SPEC
    if view.waiting is None and not view.stale and view.conditions:
        return view.conditions[0].reason
    if view.stale or view.waiting is None:
        return waits_for(view, now_s=now_s)
    causes = (each.reason for each in view.conditions if "Aborted" in each.type)
    why = next((f" ({each})" for each in causes if view.waiting.reason == Reason.RETRY_NEEDED), "")
    return f"{view.waiting.reason}{why}{how_long(view.waiting, now_s=now_s)}"


def how_long(wait: WaitLine, *, now_s: float) -> str:
    """What the time says of a wait: `, for 3m`, `, 40s left`, `, overdue by 5s`; "" when it is not known."""
    if wait.deadline_s is None:
        return f", for {short(now_s - wait.since_s)}" if wait.since_s is not None else ""
    left = wait.deadline_s - now_s
    return f", {short(left)} left" if left > 0 else f", overdue by {short(-left)}"


def briefly(text: str) -> str:
    """The text, or its beginning, for a list."""
    return text if len(text) <= BRIEF_CHARS else f"{text[:BRIEF_CHARS].rstrip()}…"


def shares(live: WeightPercent | None, wanted: WeightPercent, nearest_ratio: str) -> str:
    """The live weight, and the wanted one where it is another; pods in the nearest ratio to it are no update under way."""
    if live is None or (live != wanted and not nearest_ratio):
        now = "not known yet" if live is None else f"{percent_text(live)} canary"
        return f"now {now}, wanted {percent_text(wanted)}"
    shares = f"{percent_text(live)} canary, {percent_text(100 - live)} stable"
    return shares if live == wanted else f"{shares}  {nearest_ratio}, the nearest to {percent_text(wanted)}"


def unsaid(text: str, *, runs: Iterable[RunLine], pods: Iterable[PodLine]) -> str:
    """The text without what the lines of these AnalysisRuns and pods say."""
    for run in runs:
        text = text.replace(f": {run.message}", "") if run.phase.bad and run.message else text
    for pod in pods:
        text = text.replace(f"; pod {pod.name}: {pod.problem}", "") if pod.problem else text
    return text


class Standing(StrEnum):
    """How much a Rollout needs somebody, the most urgent first."""

    BAD = "bad"
    PERSON = "person"
    MOVING = "moving"
    QUIET = "quiet"


def standing_of(view: RolloutView) -> Standing:
    """Whether something is wrong with it, whether it waits for a person, or moves by itself.

    A wait is one for a person, if it has no deadline, and if it is a pause or a command other than `abort` ends it.
    """
    if view.problems or view.phase in (Phase.DEGRADED, Phase.ABORTED, Phase.ROLLED_BACK):
        return Standing.BAD
    wait = view.waiting
    if wait is not None and wait.deadline_s is None and not view.stale:
        commands = (way.command.partition(" ")[0] for way in wait.ways)
        if view.phase == Phase.PAUSED or any(command != "abort" for command in commands):
            return Standing.PERSON
    return Standing.QUIET if view.phase == Phase.HEALTHY and not view.stale else Standing.MOVING

"""What becomes of the AnalysisRuns of the model world of `model.py`: they are measured, and they end."""

from __future__ import annotations

from collections.abc import Callable

from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import analyses
from tests.core.model import World
from tests.invariants.analyses import FORGED

UNJUDGED = (
    *("b@skip-1", "b@skip-2", "b@skip-3", "b@skip-4", "c@skip-1"),
    *("b@skip-pre-promotion", "b@skip-post-promotion", "b@skip-background", "b@skip-before-update"),
)
"""Promotions past an analysis that measures, without a verdict."""


def runs_measured(there: World, phase: AnalysisPhase = AnalysisPhase.SUCCESSFUL, *, limit: int = 1000) -> World:
    """The oldest `limit` runs of gates that are under way end with that phase; a background run is only measured."""
    runs = []
    for each in there.runs:
        open_still = not each.phase.over and limit > 0
        limit -= open_still
        if open_still and each.gate is not None and each.gate.kind is AnalysisKind.BACKGROUND and not phase.bad:
            runs.append(replace(each, phase=AnalysisPhase.RUNNING, measured=True))
        elif open_still:
            runs.append(_run_over(there, each, phase))
        else:
            runs.append(each)
    return replace(there, runs=tuple(runs))


def runs_ended(there: World) -> World:
    """Runs that were told to end do: with a success only if they have measured one."""
    ended = (
        _run_over(there, each, AnalysisPhase.SUCCESSFUL if each.measured else AnalysisPhase.INCONCLUSIVE)
        if each.terminate and not each.phase.over
        else each
        for each in there.runs
    )
    return replace(there, runs=tuple(ended))


def with_forged_run(there: World, number: int) -> World:
    """Somebody deletes a run and makes one of its name, its labels and its owner, with a metric that succeeds."""
    if not there.runs:
        return there
    at, uid = number % len(there.runs), f"{FORGED}-{there.version}-{number}"
    forged = replace(there.runs[at], uid=uid, spec_hash=FORGED, generation=1, terminate=False, completed_at_s=None)
    return _with_run(there, at, _run_over(there, forged, AnalysisPhase.SUCCESSFUL))


def with_edited_run(there: World, number: int) -> World:
    """Somebody edits what a run measures, and every other time edits it back."""
    if not there.runs:
        return there
    at = number % len(there.runs)
    run = there.runs[at]
    edited = replace(run, spec_hash=FORGED if number % 2 else run.spec_hash, generation=run.generation + 2)
    return _with_run(there, at, edited)


def _with_run(there: World, at: int, run: RunSeen) -> World:
    return replace(there, runs=(*there.runs[:at], run, *there.runs[at + 1 :]))


def _run_over(there: World, run: RunSeen, phase: AnalysisPhase) -> RunSeen:
    version = str(there.version + 1)
    return replace(
        run, phase=phase, message=f"it is {phase}", completed_at_s=there.now_s, resource_version=f"{version}-{run.name}"
    )


def template_gone_or_back(there: World, number: int) -> World:
    """The template of one analysis of the spec is deleted, or made again."""
    gates = [*analyses(there.rollout.spec.strategy)]
    changed = frozenset(gates[number % len(gates)] for _ in gates[:1])
    return replace(there, templates_missing=there.templates_missing ^ changed)


def templates_there(there: World) -> World:
    """Every template is there, and right."""
    return replace(there, templates_wrong="", templates_missing=frozenset())


PHASES = (AnalysisPhase.FAILED, AnalysisPhase.INCONCLUSIVE, AnalysisPhase.ERROR, AnalysisPhase.SUCCESSFUL)
RUNS: dict[str, Callable[[World, int, int], World]] = {
    "runs are measured": lambda there, i, _j: runs_measured(there, limit=i + 1),
    "a run ends": lambda there, i, j: runs_measured(there, PHASES[i % len(PHASES)], limit=j % 2 + 1),
    "runs that were told to end do": lambda there, _i, _j: runs_ended(there),
    "somebody ends a run": lambda there, _i, _j: replace(
        there, runs=tuple(replace(each, terminate=True) for each in there.runs)
    ),
    "a run is deleted": lambda there, i, _j: replace(there, runs=there.runs[: i % 3]),
    "one template goes, or comes back": lambda there, i, j: template_gone_or_back(there, i + j),
    "a run is forged": lambda there, i, _j: with_forged_run(there, i),
    "a run is edited": lambda there, i, _j: with_edited_run(there, i),
}  # fmt: skip
"""What may become of runs in a random world."""

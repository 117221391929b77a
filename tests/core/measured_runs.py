"""What becomes of the AnalysisRuns of the model world of `model.py`: they are measured, and they end."""

from __future__ import annotations

from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase, RunSeen
from rollouts.core.model.frozen import replace
from tests.core.model import World


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


def _run_over(there: World, run: RunSeen, phase: AnalysisPhase) -> RunSeen:
    version = str(there.version + 1)
    return replace(
        run, phase=phase, message=f"it is {phase}", completed_at_s=there.now_s, resource_version=f"{version}-{run.name}"
    )

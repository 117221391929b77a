"""What becomes of the AnalysisRuns of the model world of `model.py`: they are measured, and they end."""

from __future__ import annotations

import math
from collections.abc import Callable

from rollouts.core.model.analysis import AnalysisKind, AnalysisPhase, RunSeen, TemplateService
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AnalysisRunIntent,
    CreateAnalysisRun,
    DeleteAnalysisRun,
    DeleteExperiment,
    LetPodsGo,
)
from rollouts.core.model.rollout import analyses
from rollouts.core.model.traffic import RouteSeen
from tests.core.model import World
from tests.core.refusal import RefusedError
from tests.invariants.analyses import FORGED

TEMPLATES = ("blue", "green")
"""Of an Experiment that gets requests."""

UNJUDGED = (
    *("b@skip-1", "b@skip-2", "b@skip-3", "b@skip-4", "c@skip-1"),
    *("b@skip-pre-promotion", "b@skip-post-promotion", "b@skip-background", "b@skip-before-update"),
)
"""Promotions past an analysis that measures, without a verdict."""


def runs_written(
    there: tuple[RunSeen, ...],
    intent: AnalysisRunIntent,
    *,
    version: int,
    now_s: float,
) -> tuple[RunSeen, ...]:
    """The runs after a call of ours: one is made once; one that is gone, or has changed since, is neither ended nor deleted."""
    if isinstance(intent, CreateAnalysisRun):
        if any(each.name == intent.name for each in there):  # as good as the one that was to be made
            return there
        made = RunSeen(
            name=intent.name,
            uid=f"uid-{version}",
            resource_version=str(version),
            gate=intent.gate,
            revision=intent.revision,
            created_at_s=now_s,
            spec_hash=intent.draft.spec_hash,
            kept_until_s=math.inf if intent.draft.keeps_pods else 0.0,
        )
        return (*there, made)
    found = next((each for each in there if each.uid == intent.uid), None)
    if found is None:
        raise RefusedError(f"no AnalysisRun {intent.name}")
    if isinstance(intent, DeleteAnalysisRun | DeleteExperiment):
        if found.resource_version != intent.resource_version:
            raise RefusedError(f"AnalysisRun {intent.name} has changed")
        return tuple([each for each in there if each is not found])
    if isinstance(intent, LetPodsGo):
        told = replace(found, kept_until_s=intent.until_s, resource_version=str(version))
        return tuple([told if each is found else each for each in there])
    generation = found.generation + 1  # `spec.terminate` is a part of the spec
    ending = replace(found, terminate=True, generation=generation, resource_version=str(version))
    return there if found.terminate else tuple([ending if each is found else each for each in there])


def runs_measured(there: World, phase: AnalysisPhase = AnalysisPhase.SUCCESSFUL, *, limit: int = 1000) -> World:
    """The oldest `limit` runs of gates that are under way end with that phase; a background run is only measured."""
    return replace(there, runs=measured(there.runs, phase, limit=limit, version=there.version + 1, now_s=there.now_s))


def measured(
    there: tuple[RunSeen, ...], phase: AnalysisPhase, *, limit: int = 1000, version: int, now_s: float
) -> tuple[RunSeen, ...]:
    """The same of the runs alone, as a write of that version leaves them."""
    runs = []
    for each in there:
        open_still = not each.phase.over and limit > 0
        limit -= open_still
        if open_still and math.isinf(each.kept_until_s) and each.phase is AnalysisPhase.PENDING and not phase.bad:
            runs.append(_with_pods(each, version=version))
        elif open_still and each.gate is not None and each.gate.kind is AnalysisKind.BACKGROUND and not phase.bad:
            runs.append(replace(each, phase=AnalysisPhase.RUNNING, measured=True))
        elif open_still:
            runs.append(_run_over(each, phase, version=version, now_s=now_s))
        else:
            runs.append(each)
    return tuple(runs)


def _with_pods(run: RunSeen, *, version: int, ready: int = 1) -> RunSeen:
    """All pods of an Experiment that may get requests are ready behind their Services."""
    services = tuple([TemplateService(each, f"{run.name}-{each}", ready) for each in TEMPLATES])
    return replace(run, phase=AnalysisPhase.RUNNING, services=services, resource_version=f"{version}-{run.name}")


def pods_of_experiments(there: World, *, ready: int) -> World:
    """The pods of running Experiments become ready, or fail."""
    version = there.version + 1
    runs = tuple([_with_pods(each, version=version, ready=ready) if _runs(each) else each for each in there.runs])
    return replace(there, version=version, runs=runs)


def pods_of_experiments_gone(there: World) -> World:
    """The pods and Services of Experiments that are over leave, as their controller has them.

    Raises: AssertionError, when a route or its data plane still sends them requests.
    """
    version, runs = there.version + 1, list(there.runs)
    for at, each in enumerate(runs):
        if not each.phase.over or there.now_s < each.kept_until_s or not each.services:
            continue
        splits = [route.split for route in there.routes.values()]
        splits += [there.planes.get(name) for name, route in there.routes.items() if _tells_live(route)]
        sent = {share.service for split in splits if split is not None for share in split.experiments}
        lost = sent & {service.service for service in each.services}
        assert not lost, f"requests for {lost} are lost: its pods are gone"
        runs[at] = replace(each, services=(), resource_version=f"{version}-{each.name}")
    return replace(there, version=version, runs=tuple(runs)) if tuple(runs) != there.runs else there


def _runs(run: RunSeen) -> bool:
    return math.isinf(run.kept_until_s) and run.phase is AnalysisPhase.RUNNING


def _waits(run: RunSeen) -> bool:
    return math.isinf(run.kept_until_s) and run.phase is AnalysisPhase.PENDING


def _tells_live(route: RouteSeen) -> bool:
    """Whether its data plane is asked: how long another one takes, this world does not limit."""
    return route.can_be_asked and not route.counted


def runs_ended(there: World) -> World:
    """Runs that were told to end do: with a success only if they have measured one."""
    return replace(there, runs=ended(there.runs, version=there.version + 1, now_s=there.now_s))


def ended(there: tuple[RunSeen, ...], *, version: int, now_s: float) -> tuple[RunSeen, ...]:
    """The same of the runs alone."""
    good, none = AnalysisPhase.SUCCESSFUL, AnalysisPhase.INCONCLUSIVE
    over = (
        _run_over(each, good if each.measured else none, version=version, now_s=now_s)
        if each.terminate and not each.phase.over
        else each
        for each in there
    )
    return tuple(over)


def with_forged_run(there: World, number: int) -> World:
    """Somebody deletes a run and makes one of its name, its labels and its owner, with a metric that succeeds."""
    if not there.runs:
        return there
    at, uid = number % len(there.runs), f"{FORGED}-{there.version}-{number}"
    forged = replace(there.runs[at], uid=uid, spec_hash=FORGED, generation=1, terminate=False, completed_at_s=None)
    over = _run_over(forged, AnalysisPhase.SUCCESSFUL, version=there.version + 1, now_s=there.now_s)
    return _with_run(there, at, over)


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


def _run_over(run: RunSeen, phase: AnalysisPhase, *, version: int, now_s: float) -> RunSeen:
    return replace(
        run, phase=phase, message=f"it is {phase}", completed_at_s=now_s, resource_version=f"{version}-{run.name}"
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
    "pods of experiments come": lambda there, _i, _j: replace(
        there, runs=tuple(_with_pods(each, version=there.version) if _waits(each) else each for each in there.runs)
    ),
    "pods of experiments fail, or are well": lambda there, i, _j: pods_of_experiments(there, ready=i % 2),
    "pods of experiments leave": lambda there, _i, _j: pods_of_experiments_gone(there),
    "a run is deleted": lambda there, i, _j: replace(there, runs=there.runs[: i % 3]),
    "one template goes, or comes back": lambda there, i, j: template_gone_or_back(there, i + j),
    "a run is forged": lambda there, i, _j: with_forged_run(there, i),
    "a run is edited": lambda there, i, _j: with_edited_run(there, i),
}  # fmt: skip
"""What may become of runs in a random world."""

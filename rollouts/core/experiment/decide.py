"""An Experiment at one instant: what is made, ended and scaled down now, its new status, and when to look again. Pure.

It begins, waits for its pods, runs until its duration or its analyses end it, keeps its pods for the scale-down delay, and leaves
no pods behind. A phase that is over stays. It always ends: pods have the progress deadline, and without a duration either its
analyses end by themselves, or an hour does.

Source: Argo Rollouts' experiments. What is ours: nothing begins while a template of an analysis is missing; an analysis without
an end of its own is judged when the duration is over; what has no verdict is no success; a changed spec ends the Experiment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rollouts.core.experiment.model import (
    COMPLETED,
    DeleteService,
    ExperimentDecision,
    ExperimentIntent,
    ExperimentStatus,
    ExperimentView,
    GroupAnalysis,
    GroupPhase,
    GroupStatus,
    MakeReplicaSet,
    MakeRun,
    MakeService,
    PodGroup,
    RunRecord,
    SetReplicaSet,
    hash_of_pods,
    name_of_run,
    name_of_service,
)
from rollouts.core.experiment.times import VERDICT_S, ends_at_s, leaves_at_s, pods_until_s
from rollouts.core.model.analysis import AnalysisPhase, DraftProblem, RunDraft
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import Notice, TerminateAnalysisRun
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Condition

LOOK_AGAIN_S = 10.0
"""While something is missing that nobody tells about; a look costs no request."""

_REASONS = {
    AnalysisPhase.SUCCESSFUL: Reason.EXPERIMENT_SUCCESSFUL,
    AnalysisPhase.FAILED: Reason.EXPERIMENT_FAILED,
    AnalysisPhase.INCONCLUSIVE: Reason.EXPERIMENT_INCONCLUSIVE,
    AnalysisPhase.ERROR: Reason.EXPERIMENT_ERROR,
}
KEPT = "its pods stay until no route sends them requests, and those in flight are over"
_CHANGED = (
    "its templates or analyses were changed after it had begun, so what was measured is not about what the spec says: "
    "create another Experiment"
)


def decide_experiment(view: ExperimentView) -> ExperimentDecision:
    """One look at an Experiment whose spec can be read and that is not being deleted."""
    seen = replace(
        view.status,
        observed_generation=view.generation,
        conditions=tuple(each for each in view.status.conditions if each.type != Reason.INVALID_SPEC),
    )
    if seen.phase.over:
        return _leave(view, seen)
    if seen.started_at_s is None:
        return _begin(view, seen)
    if seen.content_hash != view.spec.content_hash:
        return _over(view, seen, AnalysisPhase.ERROR, _CHANGED)
    return _go_on(view, seen)


def decide_invalid_experiment(
    status: ExperimentStatus, problems: str, *, generation: int, now_s: float
) -> ExperimentDecision:
    """One look at an Experiment whose spec cannot be carried out: it begins once the spec is right, and ends if it has begun."""
    if status.phase.over:
        return ExperimentDecision(status=status)
    if status.started_at_s is not None:
        return _ended(status, AnalysisPhase.ERROR, f"{_CHANGED}; it is wrong, too: {problems}", generation, now_s)
    known = next((each for each in status.conditions if each.type == Reason.INVALID_SPEC), None)
    condition = Condition(
        type=Reason.INVALID_SPEC.value,
        status=True,
        reason=Reason.INVALID_SPEC,
        message=problems,
        since_s=now_s if known is None else known.since_s,
        observed_generation=generation,
    )
    told = known is not None and known.message == problems
    return ExperimentDecision(
        status=replace(status, message=problems, observed_generation=generation, conditions=(condition,)),
        notices=() if told else (Notice(Reason.INVALID_SPEC, problems, warning=True),),
    )


def _begin(view: ExperimentView, status: ExperimentStatus) -> ExperimentDecision:
    """Records the spec and when the pods must be available, alone; they are made in the look that sees it recorded."""
    if view.spec.terminate:
        return _over(view, status, AnalysisPhase.INCONCLUSIVE, "it was terminated before it began")
    deadline_s = view.created_at_s + view.spec.progress_deadline_s
    problems = [draft.message for draft in view.drafts.values() if isinstance(draft, DraftProblem)]
    if problems:
        message = "; ".join(problems)
        if view.now_s >= deadline_s:
            return _over(view, status, AnalysisPhase.ERROR, message)
        wake_at_s = min(deadline_s, view.now_s + LOOK_AGAIN_S)
        return ExperimentDecision(status=replace(status, message=message), wake_at_s=wake_at_s)
    groups = tuple(
        GroupStatus(name=group.name, pod_template_hash=hash_of_pods(view.uid, group), since_s=view.now_s)
        for group in view.spec.groups
    )
    began = replace(
        status,
        message="its pods are being made",
        started_at_s=view.now_s,
        groups=groups,
        content_hash=view.spec.content_hash,
    )
    return ExperimentDecision(status=began)


def _go_on(view: ExperimentView, status: ExperimentStatus) -> ExperimentDecision:
    intents: list[ExperimentIntent] = []
    before = {group.name: group for group in status.groups}
    groups = tuple(_group(view, group, before.get(group.name), intents) for group in view.spec.groups)
    now = replace(status, groups=groups)
    if failed := [group for group in groups if group.phase is GroupPhase.FAILED]:
        return _over(view, now, AnalysisPhase.FAILED, failed[0].message)
    running = all(group.phase is GroupPhase.RUNNING for group in groups)
    if status.available_at_s is not None:
        known = {record.name: record for record in status.runs}
        runs = tuple(_record(view, analysis, known.get(analysis.name), intents) for analysis in view.spec.analyses)
        return _judge(view, replace(now, runs=runs), intents, running=running)
    if view.spec.terminate:
        why = "it was terminated before all of its pods were available"
        return _over(view, now, AnalysisPhase.INCONCLUSIVE, why)
    if running:  # analyses begin in the look that sees it recorded
        message = "all pods are available"
        available = replace(now, phase=AnalysisPhase.RUNNING, message=message, available_at_s=view.now_s)
        return ExperimentDecision(status=available, notices=(Notice(Reason.EXPERIMENT_RUNNING, message),))
    waits = replace(now, message=_waits(groups))
    return ExperimentDecision(status=waits, intents=tuple(intents), wake_at_s=pods_until_s(view.spec, groups))


def _group(
    view: ExperimentView, group: PodGroup, before: GroupStatus | None, intents: list[ExperimentIntent]
) -> GroupStatus:
    """The state of a template's pods, and what has to be made for them."""
    pods, service = view.pods.get(group.name), view.services.get(group.name)
    known = before or GroupStatus(name=group.name, since_s=view.now_s)
    if pods is None:
        intents.append(MakeReplicaSet(group))
    elif (pods.replicas, pods.min_ready_s) != (group.replicas, group.min_ready_s):
        resized = SetReplicaSet(name=pods.name, uid=pods.uid, replicas=group.replicas, min_ready_s=group.min_ready_s)
        intents.append(resized)
    if group.wants_service and service is None:
        intents.append(MakeService(group))
    whole = _is_whole(view, group)
    phase = GroupPhase.RUNNING if whole else GroupPhase.PROGRESSING
    since_s = known.since_s if known.phase is phase else view.now_s
    message = _why_not_whole(view, group) if not whole else ""
    if group.service is not None and not group.ports:
        message = "; ".join(filter(None, (message, "it has no Service: its containers declare no ports")))
    if not whole and view.now_s >= since_s + view.spec.progress_deadline_s:
        phase = GroupPhase.FAILED
        message = f"template {group.name} was not available for {view.spec.progress_deadline_s:g} s: {message}"
    return _counted(view, replace(known, phase=phase, message=message, since_s=since_s), group)


def _is_whole(view: ExperimentView, group: PodGroup) -> bool:
    """Whether all pods of a template are available, and reachable by its Service."""
    pods, service = view.pods.get(group.name), view.services.get(group.name)
    if pods is None or not pods.settled or pods.replicas != group.replicas or pods.available < group.replicas:
        return False
    return not group.wants_service or (service is not None and service.ready >= group.replicas)


def _counted(view: ExperimentView, status: GroupStatus, group: PodGroup) -> GroupStatus:
    pods = view.pods.get(group.name)
    kept = KEPT if view.status.phase.over and view.now_s < view.kept_until_s else ""
    return replace(
        status,
        message=kept if status.message in ("", KEPT) else status.message,
        replicas=0 if pods is None else pods.current,
        ready_replicas=0 if pods is None else pods.ready,
        available_replicas=0 if pods is None else pods.available,
        pod_template_hash=hash_of_pods(view.uid, group),
        service_name=name_of_service(view.name, view.uid, group) if group.name in view.services else "",
    )


def _why_not_whole(view: ExperimentView, group: PodGroup) -> str:
    pods, service = view.pods.get(group.name), view.services.get(group.name)
    if pods is None:
        return "its ReplicaSet is being made"
    counts = f"{pods.available} of {group.replicas} pods are available"
    if pods.failure:
        return f"{counts}: {pods.failure}"
    if pods.available < group.replicas or not group.wants_service:
        return counts
    return f"{counts}, and {0 if service is None else service.ready} in the EndpointSlices of its Service"


def _waits(groups: Iterable[GroupStatus]) -> str:
    return "; ".join(f"{group.name}: {group.message}" for group in groups if group.phase is not GroupPhase.RUNNING)


def _record(
    view: ExperimentView, analysis: GroupAnalysis, known: RunRecord | None, intents: list[ExperimentIntent]
) -> RunRecord:
    """What is known of an analysis: first the name and the hash of its run, then the run with that hash, then what it says."""
    name = name_of_run(view.name, view.uid, analysis.name)
    record = known or RunRecord(name=analysis.name, run=name, phase=AnalysisPhase.PENDING, at_s=view.now_s)
    if record.phase.over:
        return record
    if record.uid or record.run in view.runs:
        return _judged(view, record)
    draft = view.drafts.get(analysis.name)
    if isinstance(draft, DraftProblem):
        return _wrong(record, draft.message)
    if view.now_s >= record.at_s + view.spec.progress_deadline_s:
        return _wrong(record, f"AnalysisRun {record.run} could not be made: {view.status.message}")
    if isinstance(draft, RunDraft):
        if known is None or draft.spec_hash != record.spec_hash:
            return replace(record, spec_hash=draft.spec_hash)
        intents.append(MakeRun(name=record.run, draft=draft))
    return record


def _judged(view: ExperimentView, record: RunRecord) -> RunRecord:
    """What a run says that was made, if it is the one that was asked for."""
    run = view.runs.get(record.run)
    if run is None:
        return (
            _wrong(record, f"AnalysisRun {record.run} was deleted before it had a verdict")
            if view.runs_seen
            else record
        )
    if run.spec_hash != record.spec_hash or record.uid not in ("", run.uid):
        why = run.message or "its spec differs"
        return _wrong(record, f"AnalysisRun {run.name} is not the one that the controller made: {why}")
    return replace(record, phase=run.phase, message=run.message, uid=run.uid)


def _wrong(record: RunRecord, why: str) -> RunRecord:
    return replace(record, phase=AnalysisPhase.ERROR, message=why)


def _judge(
    view: ExperimentView, status: ExperimentStatus, intents: list[ExperimentIntent], *, running: bool
) -> ExperimentDecision:
    """Whether it is over, and how."""
    records = {record.name: record for record in status.runs}
    bad = [record for record in status.runs if record.phase.bad]
    if bad:
        worst = max(bad, key=lambda record: list(AnalysisPhase).index(record.phase))
        return _over(view, status, worst.phase, f"analysis {worst.name}: {worst.message or worst.phase}")
    required = [records[each.name] for each in view.spec.analyses if each.required]
    if required and all(record.phase is AnalysisPhase.SUCCESSFUL for record in required):
        return _over(view, status, AnalysisPhase.SUCCESSFUL, "all analyses that it needs are Successful")
    open_runs = [record for record in status.runs if not record.phase.over]
    end_s = ends_at_s(view.spec, status)
    in_time = view.now_s < end_s if end_s is not None else bool(open_runs)
    if in_time and not view.spec.terminate:
        waits = replace(status, message=_running(open_runs) if running else _waits(status.groups))
        wake_at_s = _wake_at_s(view, status, open_runs)
        return ExperimentDecision(status=waits, intents=tuple(intents), wake_at_s=wake_at_s)
    if not open_runs:
        return _over(view, status, AnalysisPhase.SUCCESSFUL, _how_it_ended(view))
    return _wait_for_verdicts(view, status, open_runs, intents)


def _wake_at_s(view: ExperimentView, status: ExperimentStatus, open_runs: Iterable[RunRecord]) -> float | None:
    """When time alone ends what it waits for; a run that is not there yet is looked for soon."""
    soon_s = view.now_s + LOOK_AGAIN_S if any(not record.uid for record in open_runs) else None
    times_s = (ends_at_s(view.spec, status), pods_until_s(view.spec, status.groups), soon_s)
    return min((at_s for at_s in times_s if at_s is not None), default=None)


def _wait_for_verdicts(
    view: ExperimentView, status: ExperimentStatus, open_runs: list[RunRecord], intents: list[ExperimentIntent]
) -> ExperimentDecision:
    """Tells analyses to end, which judges what they have measured; those that it needs end by themselves."""
    required = {each.name for each in view.spec.analyses if each.required and not view.spec.terminate}
    told = [record for record in open_runs if record.name not in required]
    if unmade := [record for record in told if not record.uid and record.run not in view.runs]:
        return _over(view, status, AnalysisPhase.INCONCLUSIVE, f"it ended before analysis {unmade[0].name} began")
    message = f"it ends: {_running(open_runs)}"
    if not told:  # a person may still tell the others to end, and then they have their time from there
        waits = replace(status, ending_at_s=None, message=message)
        return ExperimentDecision(status=waits, intents=tuple(intents))
    ending_at_s = view.now_s if status.ending_at_s is None else status.ending_at_s
    if view.now_s >= ending_at_s + VERDICT_S:
        why = f"AnalysisRun {told[0].run} has no verdict {VERDICT_S:g} s after it was told to end"
        return _over(view, status, AnalysisPhase.ERROR, why)
    return ExperimentDecision(
        status=replace(status, ending_at_s=ending_at_s, message=message),
        intents=(*intents, *_ends(view, told)),
        wake_at_s=ending_at_s + VERDICT_S,
    )


def _ends(view: ExperimentView, records: Iterable[RunRecord]) -> list[TerminateAnalysisRun]:
    runs = [view.runs.get(record.run) for record in records]
    return [
        TerminateAnalysisRun(name=run.name, uid=run.uid)
        for run in runs
        if run and not run.phase.over and not run.terminate
    ]


def _running(open_runs: Iterable[RunRecord]) -> str:
    waits = ", ".join(record.name for record in open_runs)
    return f"waits for the verdicts of {waits}" if waits else "its pods run until its duration is over"


def _how_it_ended(view: ExperimentView) -> str:
    analyses = "its pods were available" if not view.spec.analyses else "all of its analyses are Successful"
    if view.spec.terminate:
        return f"it was terminated; {analyses}"
    return f"its duration is over; {analyses}" if view.spec.lasts_s is not None else analyses


def _over(view: ExperimentView, status: ExperimentStatus, phase: AnalysisPhase, why: str) -> ExperimentDecision:
    return _ended(status, phase, why, view.generation, view.now_s)


def _ended(
    status: ExperimentStatus, phase: AnalysisPhase, why: str, generation: int, now_s: float
) -> ExperimentDecision:
    """Records the end, alone; what is left is ended and scaled down in the looks that see it recorded."""
    condition = Condition(
        type=COMPLETED,
        status=True,
        reason=_REASONS[phase],
        message=why,
        since_s=now_s,
        observed_generation=generation,
    )
    groups = []
    for group in status.groups:
        if group.phase is GroupPhase.RUNNING:
            groups.append(replace(group, phase=GroupPhase.SUCCESSFUL))
        elif group.phase is GroupPhase.PROGRESSING:
            why_not = f"it was not available at the end: {group.message}".rstrip(": ")
            groups.append(replace(group, phase=GroupPhase.ERROR, message=why_not))
        else:
            groups.append(group)
    ended = replace(
        status,
        phase=phase,
        message=why,
        completed_at_s=now_s,
        groups=tuple(groups),
        observed_generation=generation,
        conditions=(condition,),
    )
    notice = Notice(_REASONS[phase], why, warning=phase is not AnalysisPhase.SUCCESSFUL)
    return ExperimentDecision(status=ended, notices=(notice,))


def _leave(view: ExperimentView, status: ExperimentStatus) -> ExperimentDecision:
    """Ends the analyses that are open, and after the delay takes first the Services away and then the pods."""
    ends = _ends(view, status.runs)
    gone_at_s = leaves_at_s(view.spec, status, kept_until_s=view.kept_until_s)
    wanted = {group.name: group for group in view.spec.groups}
    runs = []
    for record in status.runs:  # what an analysis said that the Experiment did not wait for
        run = view.runs.get(record.run)
        if record.phase.over or run is None or run.spec_hash != record.spec_hash:
            runs.append(record)
        else:
            runs.append(replace(record, phase=run.phase, message=run.message, uid=run.uid))
    groups = (_counted(view, each, wanted[each.name]) if each.name in wanted else each for each in status.groups)
    now = replace(status, groups=tuple(groups), runs=tuple(runs))
    if view.now_s < gone_at_s:
        return ExperimentDecision(
            status=now, intents=tuple(ends), wake_at_s=None if math.isinf(gone_at_s) else gone_at_s
        )
    services = [
        DeleteService(name=service.name, uid=service.uid, resource_version=service.resource_version)
        for service in view.services.values()
    ]
    pods = [
        SetReplicaSet(name=pods.name, uid=pods.uid, replicas=0, min_ready_s=pods.min_ready_s)
        for pods in view.pods.values()
        if pods.replicas > 0 and not services
    ]
    return ExperimentDecision(status=now, intents=(*ends, *services, *pods))

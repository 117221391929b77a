"""The AnalysisRuns of an update: which one a gate needs, what it waits for, and which runs end or go.

A gate is passed by a success or by a person, never by the absence of evidence. A run's name is bound to the update, the attempt
and the gate, so no update is judged by the run of another one, and a creation that is sent twice makes one run.

Tenants may make runs with our labels and owner reference, and only we write `status` of a Rollout and of runs. So what a run says
counts once its uid is on record there, and its uid only comes on record with the spec that was on record before it was made.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from rollouts.core.context.contribution import Contribution
from rollouts.core.context.pass_context import PassContext
from rollouts.core.context.waits import Wait
from rollouts.core.model.analysis import (
    AnalysisGate,
    AnalysisKind,
    AnalysisPhase,
    AnalysisRecord,
    DraftProblem,
    OnDeadline,
    RunDraft,
    RunSeen,
    TemplatesUnread,
)
from rollouts.core.model.changes import record_analysis
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import (
    AskPodTemplate,
    CreateAnalysisRun,
    DeleteAnalysisRun,
    DeleteExperiment,
    TerminateAnalysisRun,
)
from rollouts.core.model.numbering import step_number
from rollouts.core.model.reasons import Reason
from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.core.model.rollout import analyses
from rollouts.core.model.status import analysis_of
from rollouts.objects import ANALYSIS_RUN

ERRORS_TOLD = 3
"""So many errors in a row may be a restart of the server; with more the wait says what a person can do."""
TOLD_S = 10.0
"""A run that can be over sooner says nothing of how long it takes."""

_NAME_MAX = 63  # a Job that measures for a run carries the run's name as a label


class Guard(Contribution, frozen=True, kw_only=True):
    """What one analysis means for a pass.

    Args:
        wait: what it waits for; None once the gate is passed.
        begun: its run exists, or is created now.
        measured: each metric that counts has a measurement with a verdict, or the gate is passed.
        ending: ends its run with what was measured; () while a metric has no verdict yet.
    """

    gate: AnalysisGate
    begun: bool = True
    measured: bool = False
    ending: tuple[TerminateAnalysisRun, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the update stands still: a run cannot begin, without pods too, or it has not succeeded."""
        return self.wait is not None and self.wait.reason is not Reason.ANALYSIS_RUNNING


def guarded(ctx: PassContext, gate: AnalysisGate, *, begins: bool) -> Guard:
    """What the analysis at `gate` means now.

    Args:
        begins: the revision has the traffic that the run judges it on, so a run may begin.
    """
    record = analysis_of(ctx.status, gate)
    if record is not None and record.settled:
        if record.held:
            return Guard(gate=gate, wait=_held_wait(ctx, record))
        if gate.kind is not AnalysisKind.BACKGROUND or not record.passed:
            return Guard(gate=gate, measured=True)
        return _beginning(ctx, gate, number=record.number + 1, begins=begins)
    run = run_of(ctx, record)
    if record is None or run is None:
        return _beginning(ctx, gate, number=record.number if record is not None else 1, begins=begins)
    if not run.spec_hash or is_believed(record, run):
        return _waiting(ctx, gate, run)
    return _not_believed(ctx, gate, record, run, begins=begins)


def deadline_s(ctx: PassContext, record: AnalysisRecord | None) -> float | None:
    """When the verdict of an open record must be there, in seconds since 1970; None where nothing ends the wait for it."""
    if record is None or record.settled:
        return None
    analysis = analyses(ctx.spec.strategy).get(record.gate)
    return None if analysis is None or analysis.deadline_s is None else record.at_s + analysis.deadline_s


def _not_believed(ctx: PassContext, gate: AnalysisGate, record: AnalysisRecord, run: RunSeen, *, begins: bool) -> Guard:
    """What follows while a run is not on record by its uid and its spec: it comes on record, or never counts."""
    if record.uid:
        why = "was edited: its spec is not what the controller has written"
        if run.uid != record.uid:
            why = "was made by somebody else in place of the one that is on record in status"
        return _distrusting(ctx, gate, run, why)
    if record.spec_hash:
        if _is_as_written(run, record.spec_hash):
            return _first_seen(ctx, gate, replace(record, uid=run.uid), run)
        why = "was not made by the controller: its spec is not the one that is on record in status"
        return _distrusting(ctx, gate, run, why)
    draft = ctx.seen.drafts.get(gate)  # the controller that asked for it noted no hash
    known = draft.spec_hash if isinstance(draft, RunDraft) and not run.phase.over else ""
    if known and _is_as_written(run, known):
        return _first_seen(ctx, gate, replace(record, spec_hash=known, uid=run.uid), run)
    return _beginning(ctx, gate, number=record.number + 1, begins=begins)


def _waiting(ctx: PassContext, gate: AnalysisGate, run: RunSeen) -> Guard:
    lasts = ""  # the same text as long as it goes on, so that no status is written for it
    if run.shortest_s == math.inf:
        lasts = ", which has no count of measurements and runs until somebody ends it"
    elif run.shortest_s is not None and run.shortest_s >= TOLD_S:
        lasts = f", which takes {round(run.shortest_s)} s at least"
    message = f": {run.message}" if run.message else ""
    unjudged = f"to go on without its verdict: {ctx.command('promote')} --skip-analysis; "
    if run.gate is None or run.gate.kind is AnalysisKind.BACKGROUND:
        unjudged = ""
    ways = (
        f"; to end it and judge what was measured: rollouts {gate.what} terminate {run.name} -n {ctx.seen.rollout.namespace}; "
        f"{unjudged}to go back: {ctx.command('abort')}"
    )
    if run.errors_in_a_row > ERRORS_TOLD:
        limit = "it continues until consecutiveErrorLimit"
        ways = f"; more than {ERRORS_TOLD} errors in a row, and {limit}: mend what it asks{ways}"
    elif run.shortest_s != math.inf:  # how long it goes on is the template's choice
        ways = ""
    due_s, late = deadline_s(ctx, analysis_of(ctx.status, gate)), ""
    if due_s is not None:
        analysis = analyses(ctx.spec.strategy)[gate]
        follows = "is aborted" if analysis.on_deadline is OnDeadline.ABORT else "waits for a person"
        late = f"; without a verdict within {analysis.deadline_s:g} s the update {follows}"
    told = f"{_place(gate)}: waiting for {gate.kind.object_kind.kind} {run.name}{lasts}{message}{ways}{late}"
    wait = Wait(Reason.ANALYSIS_RUNNING, told, due_s)
    ending = () if run.terminate or not run.measured else (_told_to_end(run),)
    return Guard(gate=gate, wait=wait, measured=run.measured, ending=ending)


def _first_seen(ctx: PassContext, gate: AnalysisGate, known: AnalysisRecord, run: RunSeen) -> Guard:
    """Records which run it is. It counts from the next pass on, which sees that on record."""
    return Guard(gate=gate, wait=_waiting(ctx, gate, run).wait, changes=(record_analysis(known),))


def _distrusting(ctx: PassContext, gate: AnalysisGate, run: RunSeen, why: str) -> Guard:
    """Waits for a person: to make another one instead would only help whoever goes on replacing them."""
    namespace, kind = ctx.seen.rollout.namespace, gate.kind.object_kind.kind
    told = (
        f"{_place(gate)}: {kind} {run.name} {why}, so nothing that it says counts; to measure again, delete it: "
        f"kubectl delete {kind.lower()} {run.name} -n {namespace}; to go back: {ctx.command('abort')}"
    )
    return Guard(gate=gate, wait=Wait(Reason.ANALYSIS_INVALID, told))


def is_believed(record: AnalysisRecord, run: RunSeen) -> bool:
    """Whether the run is the one on record, and nothing but `terminate` was written into its spec since."""
    written_once = run.generation <= (2 if run.terminate else 1)
    return bool(record.uid) and (run.uid, run.spec_hash) == (record.uid, record.spec_hash) and written_once


def _is_as_written(run: RunSeen, spec_hash: str) -> bool:
    """Whether its spec has always been this one. Who edits it to be so may have had something else measured before."""
    return run.spec_hash == spec_hash and run.generation <= 1


def believed_run(ctx: PassContext, record: AnalysisRecord | None) -> RunSeen | None:
    """The run of a record, if what it says counts."""
    run = run_of(ctx, record)
    return run if record is not None and run is not None and is_believed(record, run) else None


def run_of(ctx: PassContext, record: AnalysisRecord | None) -> RunSeen | None:
    """The run that has the name of a record; None when it does not exist (yet, or any more)."""
    if record is None:
        return None
    return next((run for run in ctx.seen.runs if run.name == record.run and not run.deleting), None)


def run_name(ctx: PassContext, gate: AnalysisGate, number: int) -> str:
    """The name of a run: the same for the same update, attempt, gate and number, and for no other."""
    status, rollout = ctx.recorded, ctx.seen.rollout
    update = [rollout.uid, status.current_revision, status.revision_number, status.started_at_s]
    about = [*update, status.strategy_hash, status.attempt, gate.kind, gate.step, number]
    bound = short_hash(canonical_json(about))
    step = "" if gate.step is None else f"-{gate.step}"
    rest = f"-{status.current_revision}-{gate.kind}{step}-{bound}"
    return f"{rollout.name[: _NAME_MAX - len(rest)].rstrip('-.')}{rest}"


def unwanted_runs(ctx: PassContext, wanted: Collection[AnalysisGate]) -> tuple[TerminateAnalysisRun, ...]:
    """Ends the runs that nobody waits for any more: of an aborted, promoted or superseded update, or of a step that is over."""
    waited_for = {record.run for record in ctx.status.analyses if record.gate in wanted and not record.settled}
    ours = [run for run in ctx.seen.runs if run.gate is not None and run.name not in waited_for]
    open_ones = [run for run in ours if not (run.phase.over or run.terminate or run.deleting)]
    return tuple(_told_to_end(run) for run in open_ones)


def _told_to_end(run: RunSeen) -> TerminateAnalysisRun:
    kind = ANALYSIS_RUN if run.gate is None else run.gate.kind.object_kind
    return TerminateAnalysisRun(name=run.name, uid=run.uid, kind=kind)


def surplus_runs(ctx: PassContext) -> tuple[DeleteAnalysisRun | DeleteExperiment, ...]:
    """The oldest runs beyond the limits, and Experiments; the limits count those of earlier updates and attempts only."""
    of_this_update = {record.run for record in ctx.status.analyses}
    ours = [run for run in ctx.seen.runs if run.gate is not None and run.name not in of_this_update]
    experiments = [run for run in ours if run.gate is not None and run.gate.kind is AnalysisKind.EXPERIMENT]
    runs = [run for run in ours if run not in experiments]
    return (
        *[DeleteAnalysisRun(name=r.name, uid=r.uid, resource_version=r.resource_version) for r in _surplus(ctx, runs)],
        *[
            DeleteExperiment(name=r.name, uid=r.uid, resource_version=r.resource_version)
            for r in _surplus(ctx, experiments)
        ],
    )


def _surplus(ctx: PassContext, ours: Collection[RunSeen]) -> list[RunSeen]:
    over = [run for run in ours if run.phase.over and not run.deleting and run.kept_until_s <= ctx.now_s]
    over.sort(key=lambda run: (run.completed_at_s or run.created_at_s, run.name))
    good = [run for run in over if run.phase is AnalysisPhase.SUCCESSFUL]
    bad = [run for run in over if run.phase is not AnalysisPhase.SUCCESSFUL]
    surplus = good[: max(0, len(good) - ctx.spec.successful_runs_kept)]
    return [*surplus, *bad[: max(0, len(bad) - ctx.spec.unsuccessful_runs_kept)]]


def _beginning(ctx: PassContext, gate: AnalysisGate, *, number: int, begins: bool) -> Guard:
    place = _place(gate)
    if ctx.spec.replicas == 0 and gate.kind not in (AnalysisKind.BEFORE_UPDATE, AnalysisKind.EXPERIMENT):
        none = f"{place}: the analysis begins when the Rollout, which has 0 replicas, is scaled up"
        unjudged = f"to take the revision without it: {ctx.command('promote')} --full"
        return Guard(gate=gate, wait=Wait(Reason.ANALYSIS_NEEDS_PODS, f"{none}; {unjudged}"), begun=False)
    when = "the revision has the traffic that it is judged on"
    if gate.kind is AnalysisKind.BEFORE_UPDATE:
        when = "nobody pauses the Rollout any more"
    if not begins or ctx.paused:
        later = f"{place}: the {gate.what} begins when {when}"
        return Guard(gate=gate, wait=Wait(Reason.ANALYSIS_RUNNING, later), begun=False)
    draft = ctx.seen.drafts.get(gate)
    if isinstance(draft, DraftProblem):
        return Guard(gate=gate, wait=Wait(Reason.ANALYSIS_INVALID, f"{place}: {draft.message}"), begun=False)
    revision = ctx.status.current_revision
    asks: tuple[AskPodTemplate, ...] = ()
    if isinstance(draft, TemplatesUnread):
        asks, draft = tuple([AskPodTemplate(name, uid) for name, uid in draft.replica_sets]), None
    if not ctx.durable or draft is None or draft.latest != revision:
        wait = Wait(Reason.ANALYSIS_RUNNING, f"{place}: the {gate.what} of revision {revision} begins")
        return Guard(gate=gate, wait=wait, begun=False, intents=asks)
    number, name = _free_name(ctx, gate, number)
    if name in ctx.seen.taken_runs:
        why = f"the name {name} belongs to an {gate.kind.object_kind.kind} of another owner: delete it"
        return Guard(gate=gate, wait=Wait(Reason.ANALYSIS_INVALID, f"{place}: {why}"), begun=False)
    noted = analysis_of(ctx.status, gate)  # status asks for the run already when its creation failed
    asked_at_s = ctx.now_s if noted is None or noted.settled else noted.at_s  # who deletes a run moves no deadline
    record = AnalysisRecord(
        gate=gate, number=number, run=name, phase=AnalysisPhase.PENDING, at_s=asked_at_s, spec_hash=draft.spec_hash
    )
    pending = (name, record.phase, record.spec_hash, record.uid)
    is_noted = noted is not None and (noted.run, noted.phase, noted.spec_hash, noted.uid) == pending
    create = CreateAnalysisRun(name=name, gate=gate, revision=revision, attempt=ctx.status.attempt, draft=draft)
    return Guard(
        gate=gate,
        wait=Wait(Reason.ANALYSIS_RUNNING, f"{place}: waiting for {gate.kind.object_kind.kind} {name}"),
        changes=() if is_noted else (record_analysis(record),),
        intents=(create,),
    )


def _free_name(ctx: PassContext, gate: AnalysisGate, number: int) -> tuple[int, str]:
    """The first number, from this one on, under which there is no run: one that is there already was not asked for now."""
    existing = {run.name for run in ctx.seen.runs}
    while (name := run_name(ctx, gate, number)) in existing:
        number += 1
    return number, name


def _held_wait(ctx: PassContext, record: AnalysisRecord) -> Wait:
    said = f": {record.message}" if record.message else ""
    ended = f"{_place(record.gate)}: {record.gate.kind.object_kind.kind} {record.run} ended {record.phase}{said}"
    if record.back_to_percent is not None:
        traffic = ctx.recorded.traffic
        live = ctx.recorded.weight_percent if traffic is None else traffic.observed_percent
        moves = "is back at" if live == record.back_to_percent else "returns to"
        back = f"the weight {moves} {float(record.back_to_percent):g} %"
        again = f"to do step {step_number(ctx.status.step_index)} and what follows again: {ctx.command('promote')}"
        return Wait(Reason.ANALYSIS_INCONCLUSIVE, f"{ended}; {back}; {again}; to give up: {ctx.command('abort')}")
    way_out = f"to go on nevertheless: {ctx.command('promote')}; to go back: {ctx.command('abort')}"
    return Wait(Reason.ANALYSIS_INCONCLUSIVE, f"{ended}; {way_out}")


def _place(gate: AnalysisGate) -> str:
    return f"step {step_number(gate.step)}" if gate.step is not None else str(gate)

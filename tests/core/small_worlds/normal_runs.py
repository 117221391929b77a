"""AnalysisRuns and the records of them in their normal form (`normal_form.py`).

A run's name is a hash of its update, with the time when that began. In the normal form updates begin at another time, so each run
gets the name that it would have there, and its uid follows its name. A run that is over, and that no record waits for, is left
out: no gate can mean it any more, and small worlds make fewer runs than are kept for their history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import cast

from msgspec import Struct

from rollouts.core.context.pass_context import PassContext
from rollouts.core.lifecycle import analyses
from rollouts.core.model.analysis import AnalysisGate, AnalysisRecord, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.status import RolloutStatus
from tests.core.model import T0, World

NUMBERS = range(1, 4)
"""Of the runs of one gate in one attempt: a person passes few of them in a small world."""

Records = tuple[AnalysisRecord, ...]
Runs = tuple[RunSeen, ...]


class _Update(Struct, frozen=True):
    """What the name of a run is made of."""

    revision: str
    number: int
    started_at_s: float | None
    strategy_hash: str
    attempt: int


def records_and_runs(there: World, *, began_s: float | None, version: str) -> tuple[Records, Runs]:
    """The records of status and the runs.

    Args:
        began_s: when the update began in the normal form.
    """
    status = there.status
    if not status.analyses and not there.runs:
        return (), ()
    now = _Update(
        status.current_revision, status.revision_number, status.started_at_s, status.strategy_hash, status.attempt
    )
    normal = replace(now, started_at_s=began_s)
    names: dict[str, str] = {}
    gates = {each.gate for each in status.analyses} | {each.gate for each in there.runs}
    for gate in gates - {None}:
        for number in NUMBERS:
            name = _name(analyses.run_name, there.rollout.uid, now, gate, number)
            names[name] = _name(analyses.run_name, there.rollout.uid, normal, gate, number)
    settled = {each.run for each in status.analyses if each.settled}
    for each in there.runs:
        if each.name not in names and not each.phase.over:
            names[each.name] = f"earlier-{len(names)}"
    kept = [each for each in there.runs if not each.phase.over or (each.name in names and each.name not in settled)]
    runs = tuple([_run(each, names[each.name], version) for each in kept])
    uids = {each.uid: f"uid-{names[each.name]}" for each in kept}
    return tuple([_record(each, names, uids) for each in status.analyses]), runs


@cache
def _name(
    named: Callable[[PassContext, AnalysisGate, int], str],
    rollout_uid: str,
    update: _Update,
    gate: AnalysisGate,
    number: int,
) -> str:
    recorded = RolloutStatus(
        current_revision=update.revision,
        revision_number=update.number,
        started_at_s=update.started_at_s,
        strategy_hash=update.strategy_hash,
        attempt=update.attempt,
    )
    context = SimpleNamespace(
        recorded=recorded, seen=SimpleNamespace(rollout=SimpleNamespace(uid=rollout_uid, name="cart"))
    )
    return named(cast(PassContext, context), gate, number)


def _run(run: RunSeen, name: str, version: str) -> RunSeen:
    return replace(
        run,
        name=name,
        uid=f"uid-{name}",
        resource_version=version,
        created_at_s=T0,
        message="",
        completed_at_s=None if run.completed_at_s is None else T0,
    )


def _record(record: AnalysisRecord, names: Mapping[str, str], uids: Mapping[str, str]) -> AnalysisRecord:
    """Its text and its time are for people. A run that is gone has a uid that no other has."""
    return replace(
        record,
        run=names.get(record.run, record.run),
        message="",
        at_s=T0,
        uid=uids.get(record.uid, "gone") if record.uid else "",
    )

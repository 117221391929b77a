"""What `.status` of a Rollout records of its AnalysisRuns, to and from the wire.

A record that cannot be read in full is left out: its run is looked at again, and half a record never becomes a success.
"""

from __future__ import annotations

from rollouts.api.status.reader import FieldMissing, Reader, weight_to_wire
from rollouts.api.times import format_time
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, AnalysisRecord
from rollouts.core.model.steps import WeightPercent
from rollouts.objects import Manifest

MESSAGE_MAX = 1_024
"""Characters of each message: there may be a record for every step, and an object of the API server holds 1.5 MB."""


def record_to_wire(record: AnalysisRecord) -> Manifest:
    """One entry of `status.analyses`; what is unset is left out."""
    wire: Manifest = {
        "kind": record.gate.kind.value,
        "step": record.gate.step,
        "number": record.number,
        "run": record.run,
        "phase": record.phase.value,
        "message": record.message[:MESSAGE_MAX] or None,
        "at": format_time(record.at_s),
        "passed": record.passed or None,
        "backToWeight": None if record.back_to_percent is None else weight_to_wire(record.back_to_percent),
        "specHash": record.spec_hash or None,
        "uid": record.uid or None,
    }
    return {name: value for name, value in wire.items() if value is not None}


def record_from_wire(wire: Reader) -> AnalysisRecord:
    """Raises: FieldMissing, for a record that says too little."""
    return AnalysisRecord(
        gate=_gate(wire),
        number=wire.number("number"),
        run=wire.need_text("run"),
        phase=wire.need_word("phase", AnalysisPhase),
        message=wire.text("message"),
        at_s=wire.need_time("at"),
        passed=wire.flag("passed"),
        back_to_percent=_back_to(wire),
        spec_hash=wire.text("specHash"),
        uid=wire.text("uid"),
    )


def _back_to(wire: Reader) -> WeightPercent | None:
    """The weight that holds; 0 for one that cannot be read, as nothing else is known to be low enough."""
    return None if wire.absent("backToWeight") else wire.optional_weight("backToWeight") or 0


def _gate(wire: Reader) -> AnalysisGate:
    kind = wire.need_word("kind", AnalysisKind)
    step = wire.optional_number("step")
    if (step is not None) != (kind is AnalysisKind.STEP):
        raise FieldMissing("step")
    return AnalysisGate(kind, step)

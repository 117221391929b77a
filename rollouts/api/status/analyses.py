"""What `.status` of a Rollout records of its AnalysisRuns, to and from the wire.

A record that cannot be read in full is left out: its run is looked at again, and half a record never becomes a success.
"""

from __future__ import annotations

from rollouts.api.status.reader import FieldMissing, Reader
from rollouts.api.times import format_time
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, AnalysisRecord
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
    )


def _gate(wire: Reader) -> AnalysisGate:
    kind = wire.need_word("kind", AnalysisKind)
    step = wire.optional_number("step")
    if (step is not None) != (kind is AnalysisKind.STEP):
        raise FieldMissing("step")
    return AnalysisGate(kind, step)

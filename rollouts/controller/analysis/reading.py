"""What an AnalysisRun says: its spec, its status, and whether anything is still to be done for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.api.status.analysis_run import STATUS_VALUES_MAX, read_run_status, run_status_to_wire
from rollouts.api.status.wire import merge_patch
from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import AnalysisRunObject, Partial
from rollouts.controller.analysis.measuring import Taken
from rollouts.core.analysis.measurement import Measurement, MetricResult, RunStatus
from rollouts.core.analysis.run import next_number
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.errors import SpecInvalid, SpecProblem
from rollouts.objects import Manifest, has_more_values

STATUS_MAX_BYTES = 500_000
"""Of all measurements in a status, roughly: 2,500 of them, which are read in 10 ms; an object of the API server holds 1.5 MB."""

_OVER = frozenset(phase.value for phase in AnalysisPhase if phase.over)
_MEASUREMENT_BYTES = 200  # without its texts


class RunStatusRead(Struct, frozen=True):
    """`.status` of a run.

    Args:
        problems: what could not be read.
    """

    status: RunStatus
    problems: tuple[str, ...] = ()


class _Quick(Partial, frozen=True):
    phase: str = ""


_QUICK = msgspec.json.Decoder(_Quick)


def needs_a_look(seen: AnalysisRunObject) -> bool:
    """Whether something may be left to do: the run is not over, or it is deleted some time after its end. It costs little."""
    try:
        over = _QUICK.decode(bytes(seen.status) or b"{}").phase in _OVER
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return not over or b'"ttlStrategy"' in bytes(seen.spec)


def spec_of(seen: AnalysisRunObject) -> Mapping[str, Any]:
    """The run's spec, not yet understood. Raises: SpecInvalid."""
    try:
        spec = msgspec.json.decode(bytes(seen.spec)) if bytes(seen.spec) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise SpecInvalid((SpecProblem("spec", "cannot be read: it is nested too deeply, or it is no JSON"),)) from None
    if not isinstance(spec, dict):
        raise SpecInvalid((SpecProblem("spec", "must be an object"),))
    return spec


def status_of(seen: AnalysisRunObject) -> RunStatusRead:
    """The run's status; what cannot be read is as if it were not there."""
    if has_more_values(bytes(seen.status), most=STATUS_VALUES_MAX):
        return RunStatusRead(RunStatus(), (f"status: has more than {STATUS_VALUES_MAX:,} fields and entries of lists",))
    try:
        wire = msgspec.json.decode(bytes(seen.status)) if bytes(seen.status) else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return RunStatusRead(RunStatus(), ("status: cannot be read",))
    if not isinstance(wire, dict):
        return RunStatusRead(RunStatus(), ("status: is not an object",))
    return RunStatusRead(*read_run_status(wire))


def patch_to(status: RunStatus, *, read: RunStatusRead, seen: AnalysisRunObject) -> Manifest:
    """The JSON merge patch that gives the run that status; {} when it has it."""
    if status == read.status and not read.problems:
        return {}
    return merge_patch(json_object(bytes(seen.status)), run_status_to_wire(status))


def not_recorded(taken: Mapping[str, Taken], status: RunStatus) -> dict[str, Measurement]:
    """The results that the status has not counted. A write whose answer was lost may have recorded one."""
    results = {result.name: result for result in status.results}
    return {
        name: measurement
        for name, (number, measurement) in taken.items()
        if number == next_number(results.get(name) or MetricResult(name=name))
    }


def within_limits(status: RunStatus) -> RunStatus:
    """The status with fewer measurements where it would be too large for an object; the counts stay."""
    while sum(map(_size_bytes, status.results)) > STATUS_MAX_BYTES:
        largest = max(status.results, key=_size_bytes)
        fewer = replace(largest, measurements=largest.measurements[(len(largest.measurements) + 1) // 2 :])
        status = replace(status, results=tuple(fewer if result is largest else result for result in status.results))
    return status


def _size_bytes(result: MetricResult) -> int:
    return sum(_MEASUREMENT_BYTES + 4 * (len(taken.message) + len(taken.value)) for taken in result.measurements)

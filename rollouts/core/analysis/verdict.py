"""From the measurements of a metric to its counts and its phase. Pure; a phase that is over stays.

Source: Argo Rollouts' analysis controller. One rule is ours: no evidence is never success, so a metric without a single
successful measurement does not succeed, whatever its limits bear and whoever ends it.
"""

from __future__ import annotations

from msgspec import Struct

from rollouts.core.analysis.measurement import Measurement, MetricResult
from rollouts.core.analysis.metric import MetricRules
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace


class Assessment(Struct, frozen=True):
    """A phase, and why it is that one; "" where the phase says it all."""

    phase: AnalysisPhase
    why: str = ""


def with_measurement(rules: MetricRules, result: MetricResult, measurement: Measurement) -> MetricResult:
    """The result with one more measurement, or with the next state of the one in flight.

    Only finished ones change the counts. One without a verdict makes room for what follows it.
    """
    last = result.last
    replaced = last is not None and (not last.finished or last.phase is AnalysisPhase.PENDING)
    before = result.measurements[:-1] if replaced else result.measurements
    carried = measurement.carried or result.carried
    kept = (*before, replace(measurement, carried=()))[-max(rules.kept, 1) :]
    result = replace(result, measurements=kept, message=measurement.message, carried=carried)
    return _counted(result, measurement.phase) if measurement.finished else result


def _counted(result: MetricResult, phase: AnalysisPhase) -> MetricResult:
    match phase:
        case AnalysisPhase.SUCCESSFUL:
            return replace(
                result,
                count=result.count + 1,
                successful=result.successful + 1,
                consecutive_success=result.consecutive_success + 1,
                consecutive_error=0,
            )
        case AnalysisPhase.FAILED:
            judged = replace(result, count=result.count + 1, failed=result.failed + 1)
            return replace(judged, consecutive_success=0, consecutive_error=0)
        case AnalysisPhase.INCONCLUSIVE:
            judged = replace(result, count=result.count + 1, inconclusive=result.inconclusive + 1)
            return replace(judged, consecutive_success=0, consecutive_error=0)
        case AnalysisPhase.ERROR:
            errors = replace(result, error=result.error + 1, consecutive_error=result.consecutive_error + 1)
            return replace(errors, consecutive_success=0)
        case AnalysisPhase.PENDING | AnalysisPhase.RUNNING:
            return result


def metric_verdict(rules: MetricRules, result: MetricResult) -> Assessment:
    """The phase of a metric after what was measured so far."""
    if result.phase.over:
        return Assessment(result.phase, result.message)
    if not result.measurements:
        return Assessment(AnalysisPhase.PENDING)
    if result.in_flight is not None:
        return Assessment(AnalysisPhase.RUNNING, result.message)
    if (broken := _broken_limit(rules, result)) is not None:
        return broken
    limit = rules.consecutive_success_limit
    if 0 < limit <= result.consecutive_success:
        return Assessment(AnalysisPhase.SUCCESSFUL)
    count = rules.effective_count
    if count is None or result.count < count:
        return Assessment(AnalysisPhase.RUNNING, result.message)
    if limit > 0:
        phase = AnalysisPhase.FAILED if rules.failure_limit < 0 else AnalysisPhase.INCONCLUSIVE
        return Assessment(
            phase, f"consecutiveSuccess ({result.consecutive_success}) < consecutiveSuccessLimit ({limit})"
        )
    return _with_evidence(result)


def ended_verdict(result: MetricResult) -> Assessment:
    """The phase of a metric that is measured no more though its count is not reached; no measurement is in flight."""
    return _with_evidence(result)


def _broken_limit(rules: MetricRules, result: MetricResult) -> Assessment | None:
    """The limit that was passed; the later of several, as with Argo Rollouts."""
    found = None
    if 0 <= rules.failure_limit < result.failed:
        found = Assessment(AnalysisPhase.FAILED, f"failed ({result.failed}) > failureLimit ({rules.failure_limit})")
    if result.inconclusive > rules.inconclusive_limit:
        why = f"inconclusive ({result.inconclusive}) > inconclusiveLimit ({rules.inconclusive_limit})"
        found = Assessment(AnalysisPhase.INCONCLUSIVE, why)
    if result.consecutive_error > rules.consecutive_error_limit:
        why = (
            f"consecutiveErrors ({result.consecutive_error}) > consecutiveErrorLimit ({rules.consecutive_error_limit})"
        )
        found = Assessment(AnalysisPhase.ERROR, why)
    return found


def _with_evidence(result: MetricResult) -> Assessment:
    """Successful if anything was; else the worst of what was measured, Inconclusive when that is nothing."""
    if result.successful:
        return Assessment(AnalysisPhase.SUCCESSFUL)
    if result.failed:
        return Assessment(AnalysisPhase.FAILED, f"no successful measurement: failed ({result.failed})")
    if result.error:
        return Assessment(AnalysisPhase.ERROR, f"no successful measurement: errors ({result.error})")
    if result.inconclusive:
        return Assessment(
            AnalysisPhase.INCONCLUSIVE, f"no successful measurement: inconclusive ({result.inconclusive})"
        )
    return Assessment(AnalysisPhase.INCONCLUSIVE, "no measurement with evidence")

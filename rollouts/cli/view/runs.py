"""AnalysisRuns as values: what they are about, what was measured, and what follows from it. Pure.

Objects come as the server's JSON, and their status may be anything: what cannot be read is left out and is no error.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rollouts.api.status.analysis_run import read_run_status
from rollouts.api.times import time_or_0
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.thresholds import Threshold, thresholds_of
from rollouts.core.analysis.measurement import Measurement, MetricResult
from rollouts.core.analysis.run import assessed
from rollouts.core.analysis.source import ALPHA, READY_PERCENT_MIN, RESTARTS_MAX
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, AnalysisRecord
from rollouts.core.model.numbering import step_number
from rollouts.core.placeholders import filled
from rollouts.manifests.analysis_run import gate_of
from rollouts.manifests.ownership import NAME, REVISION
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, ROLLOUT, Kind, Manifest, mapping

BY_HAND = "by hand"
_PODS = re.compile(r"\[(\d{1,9}), (\d{1,9}), (\d{1,9})\]")  # restarts, ready pods, pods: see metrics/pods.py
_ONE_NUMBER = re.compile(r"\[?([-+0-9.eE]+)\]?")
_NAMED = re.compile(r"\w+=\S+(?: \w+=\S+)*")  # see metrics/figures.py
_WORD = re.compile(r"\w+")
_LONG_NUMBER = re.compile(r"(\[?)-?[0-9]{1,6}\.[0-9]{6,}(\]?)")
_ABOUT = {
    AnalysisKind.BACKGROUND: "background analysis",
    AnalysisKind.PRE_PROMOTION: "analysis before promotion",
    AnalysisKind.POST_PROMOTION: "analysis after promotion",
    AnalysisKind.BEFORE_UPDATE: "analysis before the update",
}


class MeasurementLine(Struct, frozen=True, kw_only=True):
    """One measurement.

    Args:
        number: what it is on a chart; None where it is not one finite number.
        called: the name that conditions read the number by, `result.NAME`; "" for a number alone.
    """

    at_s: float
    phase: AnalysisPhase
    value: str = ""
    number: float | None = None
    called: str = ""
    samples: int = 0
    took_s: float | None = None
    message: str = ""

    @property
    def rounded(self) -> str:
        """Its value; of one number with many digits the first six."""
        found = _LONG_NUMBER.fullmatch(self.value)
        return f"{found[1]}{self.number:.6g}{found[2]}" if found and self.number is not None else self.value


class MetricLine(Struct, frozen=True, kw_only=True):
    """One metric of a run.

    Args:
        counts: such as `3 successful, 1 failed of 10`.
        measurements: the latest, the oldest first.
        thresholds: what its conditions say about the numbers of these measurements.
    """

    name: str
    phase: AnalysisPhase = AnalysisPhase.PENDING
    condition: str = ""
    counts: str = ""
    message: str = ""
    dry_run: bool = False
    measurements: tuple[MeasurementLine, ...] = ()
    thresholds: tuple[Threshold, ...] = ()

    @property
    def title(self) -> str:
        """Its name, and whether it only measures."""
        return f"{self.name} (dry run)" if self.dry_run else self.name

    @property
    def value(self) -> str:
        """What the last measurement gave, rounded; "" for nothing."""
        return self.measurements[-1].rounded if self.measurements else ""

    @property
    def numbered(self) -> tuple[tuple[MeasurementLine, float], ...]:
        """The measurements with a number, and that number; where its name changes, those with the first one's name."""
        found = [(each, each.number) for each in self.measurements if each.number is not None]
        return tuple((each, number) for each, number in found if each.called == found[0][0].called)


class RunLine(Struct, frozen=True, kw_only=True):
    """One AnalysisRun.

    Args:
        gate: where in an update it decides; None for nowhere.
        experiment: name of the Experiment that controls it; "" for none.
        decides: the update goes by its verdict: its Rollout has it on record as the latest at its place.
        passed, unjudged: somebody promoted the revision past its verdict, or while it measured, without one.
    """

    namespace: str
    name: str
    rollout: str = ""
    revision: str = ""
    gate: AnalysisGate | None = None
    experiment: str = ""
    phase: AnalysisPhase = AnalysisPhase.PENDING
    message: str = ""
    created_at_s: float = 0.0
    started_at_s: float | None = None
    completed_at_s: float | None = None
    ending: bool = False
    decides: bool = False
    passed: bool = False
    unjudged: bool = False
    metrics: tuple[MetricLine, ...] = ()

    @property
    def kind(self) -> Kind:
        """An Experiment that is a step stands among AnalysisRuns."""
        return ANALYSIS_RUN if self.gate is None else self.gate.kind.object_kind

    @property
    def about(self) -> str:
        """`analysis of step 2`, `background analysis`, `analysis of Experiment NAME`, `analysis by hand`."""
        return f"analysis of Experiment {self.experiment}" if self.experiment else about(self.gate)

    @property
    def asked_by(self) -> str:
        """The gate or the Experiment that it is for; `by hand` for neither."""
        if self.gate is None:
            return f"Experiment {self.experiment}" if self.experiment else BY_HAND
        return self.gate.kind if self.gate.step is None else f"step {step_number(self.gate.step)}"

    @property
    def failing(self) -> bool:
        """Whether it holds the update or has ended it: its verdict is no success, and nobody promoted the revision past it."""
        return self.decides and self.phase.bad and not self.passed

    def lasts(self, now_s: float) -> str:
        """How long it has taken: `for 3m`, `took 2m, 5m ago`."""
        if self.started_at_s is None:
            return "never began" if self.phase.over else f"for {short(now_s - self.created_at_s)}"
        if self.completed_at_s is None:
            return f"for {short(now_s - self.started_at_s)}"
        return f"took {short(self.completed_at_s - self.started_at_s)}, {short(now_s - self.completed_at_s)} ago"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is to be said beside its phase."""
        remarks = (
            (self.ending, "ending"),
            (self.passed, "promoted past it"),
            (self.unjudged, "passed without a verdict"),
        )
        return tuple(remark for is_so, remark in remarks if is_so)

    @property
    def why(self) -> str:
        """Its message, where its metrics do not say it; else ""."""
        told = (assessed(metric.name, metric.phase, metric.message) for metric in self.metrics if metric.phase.bad)
        return "" if self.message in told else self.message

    @property
    def successful(self) -> int:
        """Metrics that have succeeded, without those that are only measured."""
        return sum(metric.phase is AnalysisPhase.SUCCESSFUL for metric in self.metrics if not metric.dry_run)

    @property
    def counted(self) -> int:
        """Metrics that decide the verdict."""
        return sum(not metric.dry_run for metric in self.metrics)


def run_line(run: Manifest, record: AnalysisRecord | None = None) -> RunLine:
    """The values of one AnalysisRun, or Experiment, with what the status of its Rollout has on record about it."""
    metadata, spec, labels = run["metadata"], mapping(run.get("spec")), _labels(run)
    wire = mapping(run.get("status"))
    status, _ = read_run_status(wire)
    results = {result.name: result for result in status.results}
    return RunLine(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        rollout=rollout_of(run),
        revision=labels.get(REVISION, ""),
        gate=gate_of(labels) if _owner(run) else None,
        experiment=_owner(run, EXPERIMENT),
        phase=status.phase,
        message=status.message,
        created_at_s=time_or_0(metadata.get("creationTimestamp")),
        started_at_s=status.started_at_s or time_or_0(wire.get("availableAt")) or None,
        completed_at_s=status.completed_at_s,
        ending=bool(spec.get("terminate")) and not status.phase.over,
        decides=record is not None,
        passed=record is not None and record.passed and record.phase.over,
        unjudged=record is not None and record.passed and not record.phase.over,
        metrics=tuple(_metric_line(metric, results, spec) for metric in _mappings(spec.get("metrics"))),
    )


def about(gate: AnalysisGate | None) -> str:
    """What an analysis is for; None is one that somebody made by hand."""
    if gate is None:
        return f"analysis {BY_HAND}"
    return f"{gate.what} of step {step_number(gate.step)}" if gate.step is not None else _ABOUT[gate.kind]


def rollout_of(run: Manifest) -> str:
    """Name of the Rollout that owns the run, or that its label names; "" for none."""
    return _owner(run) or _labels(run).get(NAME, "")


def run_text(run: RunLine) -> str:
    """One run in one line, for output that is not a terminal; its measurements are told by their counts."""
    counted = (metric for metric in run.metrics if metric.counts)
    metrics = (f"{metric.name} {metric.value or 'not measured'} ({metric.counts})" for metric in counted)
    text = f"{run.namespace}/{run.name} ({run.about}) {run.phase}{', ending' if run.ending else ''}"
    more = run.message if run.phase.over else "; ".join(metrics)
    return f"{text}: {more}" if more else text


def _metric_line(metric: Mapping[str, Any], results: Mapping[str, MetricResult], spec: Mapping[str, Any]) -> MetricLine:
    name = str(metric.get("name") or "")
    result = results.get(name, MetricResult(name=name))
    ended = {"successful": result.successful, "failed": result.failed, "inconclusive": result.inconclusive}
    counts = [f"{count} {word}" for word, count in ended.items() if count]
    if result.error:
        counts.append(count_of(result.error, "error"))
    planned = str(metric.get("count"))
    wanted = ""  # how many there are to be, while they are not there yet; a comparison's measurement says that itself
    begun = (
        (result.count or result.error) and not result.phase.over and "compare" not in mapping(metric.get("provider"))
    )
    if begun and planned.isascii() and planned.isdigit() and int(planned):
        wanted = f" of {int(planned)}"
    measurements = tuple(_measurement_line(measurement, metric) for measurement in result.measurements)
    return MetricLine(
        name=name,
        phase=result.phase,
        condition=condition_text(metric, spec),
        counts=", ".join(counts) + wanted,
        message=result.message,
        dry_run=result.dry_run,
        measurements=measurements,
        thresholds=_thresholds(metric, spec, measurements),
    )


def _measurement_line(measurement: Measurement, metric: Mapping[str, Any]) -> MeasurementLine:
    finished_at_s = measurement.finished_at_s
    found = _PODS.fullmatch(measurement.value) if _is_of_pods(metric) else None
    value, called = measurement.value, ""
    if _NAMED.fullmatch(value):  # of numbers with names those that the conditions read, or the first
        read = _WORD.findall(f"{metric.get('successCondition')} {metric.get('failureCondition')}")
        parts = value.split(" ")
        value = " ".join([part for part in parts if part.partition("=")[0] in read] or parts[:1])
    first = value
    if "=" in value:
        called, _, first = value.partition(" ")[0].rpartition("=")
    number = math.nan
    if (one := found or _ONE_NUMBER.fullmatch(first)) is not None:
        with contextlib.suppress(ValueError):
            number = float(one[1])
    return MeasurementLine(
        at_s=measurement.started_at_s,
        phase=measurement.phase,
        value=f"{count_of(int(found[1]), 'restart')}, {found[2]}/{found[3]} ready" if found else value,
        number=number if math.isfinite(number) else None,
        called=called,
        samples=measurement.samples,
        took_s=None if finished_at_s is None else finished_at_s - measurement.started_at_s,
        message=measurement.message,
    )


def condition_text(metric: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """What is good, with the values of arguments; `not: …` is what is bad. Of pods what their provider judges by."""
    values = _arguments(spec)
    if isinstance(compared := mapping(metric.get("provider")).get("compare"), Mapping):
        effect, alpha = compared.get("effect", "?"), compared.get("alpha", f"{ALPHA:g}")
        return filled(f"not worse than stable by more than {effect}, alpha {alpha}", values.get)
    if _is_of_pods(metric):
        pods = metric["provider"]["kubernetes"]
        restarts, ready = pods.get("maxRestarts", RESTARTS_MAX), pods.get("minReadyPercent", READY_PERCENT_MIN)
        return filled(f"restarts <= {restarts}, ready >= {ready} %", values.get)
    conditions = ((metric.get("successCondition"), ""), (metric.get("failureCondition"), "not: "))
    texts = ((text.strip(), before) for text, before in conditions if isinstance(text, str) and text.strip())
    return ", ".join(before + filled(text, values.get) for text, before in texts)


def _thresholds(
    metric: Mapping[str, Any], spec: Mapping[str, Any], measurements: Iterable[MeasurementLine]
) -> tuple[Threshold, ...]:
    """Of pods that of their restarts, which is the number of their measurements."""
    called = next((each.called for each in measurements if each.number is not None), None)
    if called is None or "compare" in mapping(metric.get("provider")):
        return ()
    if _is_of_pods(metric):
        restarts = metric["provider"]["kubernetes"].get("maxRestarts", RESTARTS_MAX)
        return (Threshold(float(restarts), above=True),) if isinstance(restarts, int) else ()
    good, bad = (
        filled(text, _arguments(spec).get) if isinstance(text := metric.get(f"{which}Condition"), str) else ""
        for which in ("success", "failure")
    )
    found = thresholds_of(good, good=True, name=called)
    if bad.strip():  # what meets neither is inconclusive
        found = tuple(replace(each, undecided=True) for each in found)
    return (*found, *thresholds_of(bad, good=False, name=called))


def _arguments(spec: Mapping[str, Any]) -> dict[str, str]:
    """The values that are put into conditions, by the names of their places."""
    return {
        f"args.{argument.get('name')}": str(argument["value"])
        for argument in _mappings(spec.get("args"))
        if isinstance(argument.get("value"), str | int)
    }


def _is_of_pods(metric: Mapping[str, Any]) -> bool:
    return isinstance(mapping(metric.get("provider")).get("kubernetes"), Mapping)


def _owner(run: Manifest, kind: Kind = ROLLOUT) -> str:
    """Name of the Rollout, or of the object of another kind of ours, that controls the run; "" for none."""
    ours = (kind.api_version, kind.kind)
    for owner in _mappings(mapping(run.get("metadata")).get("ownerReferences")):
        if owner.get("controller") and (owner.get("apiVersion"), owner.get("kind")) == ours:
            return str(owner.get("name") or "")
    return ""


def _labels(run: Manifest) -> Mapping[str, str]:
    labels = mapping(mapping(run.get("metadata")).get("labels"))
    return {name: value for name, value in labels.items() if isinstance(value, str)}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []

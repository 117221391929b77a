"""AnalysisRuns in a terminal: in the tree of their Rollout, in a list, and one with all of its measurements. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from rollouts.cli.terminal.listing import Column, Listing
from rollouts.cli.terminal.parts import Parts
from rollouts.cli.terminal.text import TerminalMarks, marks_for, plain
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.runs import MeasurementLine, MetricLine, RunLine
from rollouts.core.model.analysis import AnalysisPhase

RUNS_SHOWN = 5  # of one revision: each has a line for each of its metrics
SPARKS_SHOWN = 20
PHASE_STYLE = {
    AnalysisPhase.PENDING: "dim",
    AnalysisPhase.RUNNING: "cyan",
    AnalysisPhase.SUCCESSFUL: "green",
    AnalysisPhase.INCONCLUSIVE: "yellow",
    AnalysisPhase.ERROR: "red",
    AnalysisPhase.FAILED: "red",
}


def add_runs(branch: Tree, runs: tuple[RunLine, ...], *, now_s: float, marks: TerminalMarks) -> None:
    """Adds the runs of one revision to its branch, each with its metrics."""
    for run in runs[:RUNS_SHOWN]:
        twig = branch.add(Parts(run_head(run, now_s=now_s, marks=marks)))
        for metric in run.metrics:
            twig.add(Parts(_metric(metric, marks=marks)))
        if run.phase.bad and run.why:
            twig.add(Text(plain(run.why), PHASE_STYLE[run.phase]))
    if (hidden := len(runs) - RUNS_SHOWN) > 0:
        branch.add(Text(f"{marks.more} and {count_of(hidden, 'more analysis run')}", "dim"))


def run_head(run: RunLine, *, now_s: float, marks: TerminalMarks) -> Text:
    """One line: what it is about, its phase, and for how long."""
    style = PHASE_STYLE[run.phase]
    text = Text.assemble((f"{_mark(run.phase, marks)} ", style), plain(run.about), (f"  {run.phase}", style))
    for remark in run.remarks:
        text.append(f"  {remark}", "yellow")
    text.append(f"  {run.lasts(now_s)}  {plain(run.name)}".rstrip(), "dim")
    return text


def sparkline(measurements: tuple[MeasurementLine, ...], *, marks: TerminalMarks) -> Text:
    """A bar for each of the last measurements, in the colour of its verdict; a dot where there is no single number."""
    shown = measurements[-SPARKS_SHOWN:]
    numbers = [measurement.number for measurement in shown if measurement.number is not None]
    text = Text()
    if not numbers:
        return text
    low, high, top = min(numbers), max(numbers), len(marks.levels) - 1
    for measurement in shown:
        if measurement.number is None:
            bar = marks.dot
        elif high == low:
            bar = marks.levels[round(top / 2)]
        else:
            part = (measurement.number / 2 - low / 2) / (high / 2 - low / 2)  # halves, as no difference may overflow
            bar = marks.levels[min(max(round(part * top), 0), top)]
        text.append(bar, PHASE_STYLE[measurement.phase])
    return text


def runs_table(runs: Iterable[RunLine], *, now_s: float, wide: bool = False, all_namespaces: bool = False) -> Listing:
    """The list of AnalysisRuns."""
    ranks = {"NAME": 0, "PHASE": 0, "ROLLOUT": 1, "FOR": 2, "METRICS": 3, "AGE": 4}
    columns = [Column(header, 0 if wide else rank) for header, rank in ranks.items()]
    columns += map(Column, ["REVISION", "TOOK", "MESSAGE"] if wide else ["MESSAGE"])
    lines = []
    for run in runs:
        took = run.completed_at_s - run.started_at_s if run.completed_at_s and run.started_at_s else None
        cells = [
            run.name,
            run.phase,
            run.rollout or "-",
            run.asked_by,
            f"{run.successful}/{run.counted}",
            short(now_s - run.created_at_s),
            *([run.revision or "-", short(took) if took is not None else "-"] if wide else []),
            run.message,
        ]
        line = [Text(plain(cell)) for cell in cells]
        line[1].stylize(PHASE_STYLE[run.phase])
        lines.append([Text(plain(run.namespace)), *line] if all_namespaces else line)
    return Listing([*([Column("NAMESPACE")] if all_namespaces else []), *columns], lines)


def draw_run(run: RunLine, *, now_s: float, ascii_only: bool = False) -> RenderableType:
    """One run: a line for each metric, then the measurements of each."""
    marks = marks_for(ascii_only=ascii_only)
    head = Text(plain(run.name), "bold")
    head.append(f"  {plain(run.namespace)}", "not bold dim")
    facts = facts_grid()
    facts.add_row("  Run", Parts(run_head(run, now_s=now_s, marks=marks)))
    if run.rollout:
        revision = f", revision {plain(run.revision)}" if run.revision else ""
        facts.add_row("  Rollout", Text(f"{plain(run.rollout)}{revision}"))
    if run.message:
        facts.add_row("  Message", Text(plain(run.message), PHASE_STYLE[run.phase]))
    parts: list[RenderableType] = [head, facts]
    if run.metrics:
        table = _table("METRIC", "VERDICT", "VALUE", "CONDITION", "MEASURED", "TREND", "WHY")
        for metric in run.metrics:
            value, condition, counts, why = (
                Text(plain(text) or "-") for text in (metric.value, metric.condition, metric.counts, metric.message)
            )
            trend = sparkline(metric.measurements, marks=marks)
            table.add_row(
                Text(plain(metric.title)), _verdict(metric.phase, marks), value, condition, counts, trend, why
            )
        parts.append(Padding(table, (0, 0, 0, 2)))
    for metric in run.metrics:
        if metric.measurements:
            table = _measurements_table(metric, now_s=now_s, marks=marks)
            parts += [Text(f"  {plain(metric.name)}", "bold"), Padding(table, (0, 0, 0, 2))]
    return Group(*parts)


def _measurements_table(metric: MetricLine, *, now_s: float, marks: TerminalMarks) -> Table:
    table = _table("AGO", "VERDICT", "VALUE", "SAMPLES", "TOOK", "WHY")
    for measurement in reversed(metric.measurements):
        table.add_row(
            short(now_s - measurement.at_s),
            _verdict(measurement.phase, marks),
            Text(plain(measurement.value) or "-"),
            str(measurement.samples or "-"),
            f"{measurement.took_s:.2f}s" if measurement.took_s is not None else "-",
            Text(plain(measurement.message) or "-"),
        )
    return table


def facts_grid() -> Table:
    """A table of labels and values without a border."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def _metric(metric: MetricLine, *, marks: TerminalMarks) -> Text:
    style = "dim" if metric.dry_run else PHASE_STYLE[metric.phase]
    value = f"  {plain(metric.value) or 'not measured yet'}"
    text = Text.assemble((f"{_mark(metric.phase, marks)} ", style), plain(metric.title), (value, style))
    if metric.condition:
        text.append(f"  {plain(metric.condition)}", "dim")
    if trend := sparkline(metric.measurements, marks=marks):
        text.append("  ").append_text(trend)
    if metric.counts:
        text.append(f"  {plain(metric.counts)}")
    if metric.message and metric.phase is not AnalysisPhase.SUCCESSFUL:
        text.append(f"  {plain(metric.message)}", style)
    return text


def _verdict(phase: AnalysisPhase, marks: TerminalMarks) -> Text:
    return Text(f"{_mark(phase, marks)} {phase}", PHASE_STYLE[phase])


def _mark(phase: AnalysisPhase, marks: TerminalMarks) -> str:
    return {
        AnalysisPhase.PENDING: marks.todo,
        AnalysisPhase.RUNNING: marks.now,
        AnalysisPhase.SUCCESSFUL: marks.done,
        AnalysisPhase.INCONCLUSIVE: marks.unclear,
    }.get(phase, marks.bad)

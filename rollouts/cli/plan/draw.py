"""Draws a plan: facts, a table of steps, findings. Pure: it turns a `PlanReport` into something that rich can print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rollouts.cli.plan.impact import ConfigImpact
from rollouts.cli.plan.report import PlanReport
from rollouts.cli.plan.words import (
    fact_lines,
    finding_texts,
    impact_lines,
    limit_lines,
    safety_text,
    service_texts,
    together_text,
    wait_text,
)
from rollouts.cli.terminal.listing import Column, Listing
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of
from rollouts.core.advice.findings import Severity

WAITS_CELLS = 40  # the narrowest column in which reasons can be read
_STYLES = {Severity.UNSAFE: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}


def draw_plan(report: PlanReport, *, wide: bool, lines: bool) -> RenderableType:
    """One Rollout's plan, with lines in its table for a terminal.

    The wide one has the highest number of pods and the lowest number of available pods.
    """
    replicas = count_of(report.replicas, "replica")
    head = Text.assemble((plain(report.name), "bold"), f"  {plain(report.namespace)}  {report.strategy}  {replicas}")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    for label, value in fact_lines(report):
        facts.add_row(f"  {label}", Text(plain(value)))
    gap = [] if lines else [Text("")]
    parts: list[RenderableType] = [head, facts, *gap]
    if report.steps:
        parts.append(Padding(_Steps(report, wide=wide, lines=lines), (0, 0, 0, 2)))
    parts += gap
    if lines_of_limits := list(limit_lines(report)):
        limits = Table.grid(padding=(0, 2))
        limits.add_column(style="bold yellow", no_wrap=True)
        limits.add_column(overflow="fold")
        for index, text in enumerate(lines_of_limits):
            limits.add_row("" if index else "  Limits", Text(plain(text)))
        parts += [limits, Text("")]
    parts.append(Padding(Text(together_text(report)), (0, 0, 0, 2)))
    for found in report.findings:
        finding = found.finding
        severity = (finding.severity.value, _STYLES[finding.severity])
        parts += [
            Padding(Text.assemble(severity, f"  {plain(found.about)}  {plain(finding.path)}"), (1, 0, 0, 2)),
            *(Padding(Text(plain(text)), (0, 0, 0, 4)) for text in finding_texts(finding)),
        ]
    verdict = Text(safety_text(report), "bold red" if report.unsafe else "green")
    return Group(*parts, Padding(verdict, (1, 0, 0, 2)))


def draw_impacts(impacts: Iterable[ConfigImpact]) -> RenderableType:
    """What the ConfigMaps and Secrets of the file do."""
    return Group(*(Text(plain(line)) for impact in impacts for line in impact_lines(impact)))


class _Steps(Struct, frozen=True):
    """The steps as a table. Where its last column would be too narrow to be read, what it says stands below each step."""

    report: PlanReport
    wide: bool
    lines: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or the list with lines below its rows."""
        numbers = Measurement.get(console, options, self._table(waits=False)).maximum
        if numbers + WAITS_CELLS <= options.max_width:
            yield self._table(waits=True)
        else:
            yield from self._stacked(options.max_width)

    def _columns(self) -> Iterator[tuple[Column, list[str]]]:
        steps = self.report.steps
        yield Column("NEW"), [str(step.pods.new) for step in steps]
        yield Column("OLD"), [str(step.pods.old) for step in steps]
        if any(step.pods.others for step in steps):
            yield Column("OTHER"), [str(step.pods.others) for step in steps]
        if any(step.share_percent is not None for step in steps):
            shares = [f"{step.share_percent} %" if step.share_percent is not None else "-" for step in steps]
            yield Column("SHARE", rank=1), shares
        if self.wide:
            yield Column("MOST"), [f"{step.most_pods}" for step in steps]
            yield Column("AVAILABLE"), [f">= {step.least_available}" for step in steps]

    def _table(self, *, waits: bool) -> Table:
        steps = self.report.steps
        table = Table(
            box=box.SIMPLE_HEAD if self.lines else None,
            pad_edge=False,
            header_style="bold" if self.lines else "",
            padding=(0, 2, 0, 0),
        )
        table.add_column("STEP", no_wrap=True)
        cells = [[step.what for step in steps]]
        for column, numbers in self._columns():
            table.add_column(column.header, justify="right", no_wrap=True)
            cells.append(numbers)
        if any(step.services for step in steps):
            table.add_column("SERVICES", overflow="fold")
            cells.append(["\n".join(map(plain, service_texts(step))) for step in steps])
        if waits:
            table.add_column("WAITS FOR", overflow="fold", ratio=1)
            cells.append(["\n".join(plain(wait_text(wait)) for wait in step.waits) or "-" for step in steps])
        for row in zip(*cells, strict=True):
            table.add_row(*map(Text, row))
        return table

    def _stacked(self, width: int) -> Iterator[RenderableType]:
        steps = self.report.steps
        columns = [(Column("STEP"), [step.what for step in steps]), *self._columns()]
        rows = zip(*(cells for _, cells in columns), strict=True)
        header, *listed = Listing([column for column, _ in columns], [[*map(Text, row)] for row in rows]).lines(width)
        header.stylize("bold")
        for line in (header, *listed):
            line.end = "\n"
        yield from ("", header)
        for row, step in zip(listed, steps, strict=True):
            yield row
            below = [", ".join(map(plain, service_texts(step)))] if step.services else []
            for text in (*below, *(plain(wait_text(wait)) for wait in step.waits)):
                yield Padding(Text(text, overflow="fold"), (0, 0, 0, 4))
        yield ""

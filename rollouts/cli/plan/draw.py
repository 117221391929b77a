"""Draws a plan: facts, a table of steps, findings. Pure: it turns a `PlanReport` into something that rich can print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from msgspec import Struct
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rollouts.cli.plan.config import ConfigState, PlannedConfig
from rollouts.cli.plan.impact import ConfigImpact
from rollouts.cli.plan.limits import Excess, excess_text, with_and
from rollouts.cli.plan.report import PlannedStep, PlannedWait, PlanReport
from rollouts.cli.terminal.listing import Column, Listing
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.core.advice.findings import Severity
from rollouts.core.forecast import StageKind
from rollouts.core.model.reasons import Reason

_DRAIN = frozenset({Reason.DRAINING, Reason.DRAIN_TIMED_OUT})
KEYS_SHOWN = 5
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
    for label, value in _facts(report):
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
    waits = [f"known waits {_seconds(report.known_s)}"]
    if report.unmeasured:
        waits.append(f"{count_of(report.unmeasured, 'start')} of pods not measured")
    if report.analyses:
        waits.append(f"{count_of(report.analyses, 'verdict')} of analyses")
    if report.by_people:
        waits.append(f"{count_of(report.by_people, 'wait')} for a person")
    parts.append(Padding(Text(f"Together: {', '.join(waits)}"), (0, 0, 0, 2)))
    for found in report.findings:
        finding = found.finding
        severity = (finding.severity.value, _STYLES[finding.severity])
        parts += [
            Padding(Text.assemble(severity, f"  {plain(found.about)}  {plain(finding.path)}"), (1, 0, 0, 2)),
            Padding(Text(plain(f"{finding.what}.")), (0, 0, 0, 4)),
            Padding(Text(plain(f"Fix: {finding.fix}.")), (0, 0, 0, 4)),
        ]
    if unsafe := sum(found.finding.severity is Severity.UNSAFE for found in report.findings):
        verdict = Text(count_of(unsafe, "unsafe finding"), "bold red")
    else:
        verdict = Text("nothing unsafe was found", "green")
    return Group(*parts, Padding(verdict, (1, 0, 0, 2)))


def _facts(report: PlanReport) -> Iterator[tuple[str, str]]:
    if report.in_place:
        yield "In place", f"{report.in_place} keeps its pods, and its own controller replaces them in these steps"
    if not report.exists:
        yield "Revision", f"{report.revision}, the first: the Rollout is not in the cluster yet, all pods start at once"
    elif report.target != report.revision:
        holds = f"the rollback to {report.target} holds until the template changes"
        yield "Revision", f"{report.revision}, not rolled out: {holds}"
    elif report.revision == report.current:
        stable = "stable" if report.current == report.stable else f"being rolled out; {report.stable} is stable"
        yield "Revision", f"{report.revision}, {stable}: the file does not change the pods"
    else:
        yield "Revision", f"{report.revision}, new; {report.stable or 'no revision'} is stable"
    if report.supposed:
        yield "Shown", "the next update to another template"
    for index, text in enumerate(config_lines(report.config)):
        yield "" if index else "Config", text
    numbers = report.numbers
    yield "Proxies", f"{report.proxy.mode.value}: {report.proxy.known_by}"
    if report.injection is not None:
        yield "preStop", f"added to the pods: {report.injection}"
    if numbers.pre_stop_s:
        yield "", f"{numbers.pre_stop_s} s: {numbers.pre_stop_why}"
        yield "", f"{numbers.grace_s} s of grace: {numbers.grace_why}"
    if any(wait.reason in _DRAIN for step in report.steps for wait in step.waits):
        yield "Drain", f"{numbers.drain_s:g} s: {numbers.drain_why}"
    if report.startup is not None:
        fastest, usual = report.startup.fastest_s, report.startup.usual_s
        yield "Start", f"the running pods became ready in {fastest:g} s at best, and usually in {usual:g} s"


def config_lines(config: tuple[PlannedConfig, ...]) -> Iterator[str]:
    """What happens to each ConfigMap and Secret; those that stay the same are counted."""
    for source in config:
        made = f" -> copy {source.copy}" if source.copy else ""
        match source.state:
            case ConfigState.CHANGED:
                yield f"{source.kind} {source.name} changed{_keys(source.keys)}{made}"
            case ConfigState.NEW:
                yield f"{source.kind} {source.name}{made or ', read as it is'}"
            case ConfigState.ABSENT:
                yield f"{source.kind} {source.name}: absent, which its references allow"
            case ConfigState.SAME:
                pass
            case never:
                assert_never(never)
    if same := [str(source.kind) for source in config if source.state is ConfigState.SAME]:
        yield f"unchanged: {' and '.join(count_of(same.count(kind), kind) for kind in dict.fromkeys(same))}"


def impact_lines(impact: ConfigImpact) -> Iterator[str]:
    """What applying a ConfigMap or Secret of the file does."""
    head = f"{impact.kind} {impact.name}  {impact.namespace}"
    if impact.exists is None:
        yield f"{head}  you may not read it, so what changes is not known"
    elif not impact.exists:
        yield f"{head}  new"
    else:
        yield f"{head}  {'changed' if impact.keys else 'unchanged'}{_keys(impact.keys or None)}"
    starts = f"{count_of(len(impact.starts), 'update')}: {', '.join(impact.starts)}" if impact.starts else "no update"
    yield f"  starts {starts}"


def _keys(keys: tuple[str, ...] | None) -> str:
    if keys is None:
        return ""
    more = ", ..." if len(keys) > KEYS_SHOWN else ""
    return f": {count_of(len(keys), 'key')} ({', '.join(keys[:KEYS_SHOWN])}{more})"


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
            cells.append(["\n".join(_services(step)) for step in steps])
        if waits:
            table.add_column("WAITS FOR", overflow="fold", ratio=1)
            cells.append(["\n".join(plain(_wait(wait)) for wait in step.waits) or "-" for step in steps])
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
            below = [", ".join(_services(step))] if step.services else []
            for text in (*below, *(plain(_wait(wait)) for wait in step.waits)):
                yield Padding(Text(text, overflow="fold"), (0, 0, 0, 4))
        yield ""


def _services(step: PlannedStep) -> list[str]:
    return [f"{plain(name)}: {where}" for name, where in step.services.items()]


def _wait(wait: PlannedWait) -> str:
    if wait.seconds is None:
        return f"{wait.reason.value}: {wait.why}"
    length = _seconds(wait.seconds) if wait.known else f"{_seconds(wait.seconds)} + ?" if wait.seconds else "?"
    return f"{wait.reason.value} {length}: {wait.why}"


def limit_lines(report: PlanReport) -> Iterator[str]:
    """One line for each limit that steps outgrow, that refuses the pods, or that could not be checked."""
    steps: dict[Excess, list[PlannedStep]] = {}
    for step in report.steps:
        for excess in step.outgrown:
            steps.setdefault(excess, []).append(step)
    for excess, outgrowing in steps.items():
        numbers = [step.what.partition(" ")[0] for step in outgrowing if step.kind is StageKind.STEP]
        names = [f"step{'s' if numbers[1:] else ''} {with_and(numbers)}"] if numbers else []
        names += [f'"{step.what}"' for step in outgrowing if step.kind is not StageKind.STEP]
        yield excess_text(with_and(names), excess, several=len(outgrowing) > 1)
    yield from report.limits.refusals
    yield from report.limits.notes


def _seconds(seconds: float) -> str:
    """Whole units as `short` writes them; below ten seconds with parts of a second."""
    return f"{seconds:g}s" if seconds < 10 else short(seconds)

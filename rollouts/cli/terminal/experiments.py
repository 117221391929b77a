"""Draws Experiments in a terminal. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from rollouts.cli.terminal.listing import Column, Listing
from rollouts.cli.terminal.parts import Parts
from rollouts.cli.terminal.runs import PHASE_STYLE, facts_grid
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.durations import short
from rollouts.cli.view.experiments import ExperimentLine, group_text
from rollouts.core.experiment.model import GroupPhase

_GROUP_STYLE = {
    GroupPhase.PROGRESSING: "cyan",
    GroupPhase.RUNNING: "green",
    GroupPhase.SUCCESSFUL: "green",
    GroupPhase.FAILED: "red",
    GroupPhase.ERROR: "red",
}


def experiments_table(
    lines: Iterable[ExperimentLine], *, now_s: float, wide: bool = False, all_namespaces: bool = False
) -> Listing:
    """The list of Experiments."""
    ranks = {"NAME": 0, "PHASE": 0, "AVAILABLE": 1, "LASTS": 2, "AGE": 3}
    columns = [Column(header, 0 if wide else rank) for header, rank in ranks.items()]
    rows = []
    for line in lines:
        age = short(now_s - line.created_at_s)
        cells = [line.name, line.phase, line.available, line.lasts(now_s), age, line.status.message]
        row = [Text(plain(cell)) for cell in cells]
        row[1].stylize(PHASE_STYLE[line.phase])
        rows.append([Text(plain(line.namespace)), *row] if all_namespaces else row)
    return Listing([*([Column("NAMESPACE")] if all_namespaces else []), *columns, Column("MESSAGE")], rows)


def draw_experiment(line: ExperimentLine, *, now_s: float) -> RenderableType:
    """One Experiment: its phase and why, its templates, and its analyses."""
    status = line.status
    head = Text.assemble(
        (plain(line.name), "bold"),
        (f"  {plain(line.namespace)}", "dim"),
        "  Experiment  ",
        (line.phase, PHASE_STYLE[line.phase]),
        ("  ending" if line.ending else "", "yellow"),
    )
    facts = facts_grid()
    facts.add_row("  Lasts", Text(line.lasts(now_s)))
    if line.gist:
        facts.add_row("  Message", Text(plain(line.waits(now_s))))
    tree = Tree("", hide_root=True)
    for group in status.groups:
        text = Text.assemble(plain(group.name), (f"  {group.phase}", _GROUP_STYLE[group.phase]))
        text.append(f"  {group_text(group)}")
        text.append(f"  revision {plain(group.pod_template_hash)}", "dim")
        if group.service_name:
            text.append(f"  Service {plain(group.service_name)}", "dim")
        branch = tree.add(Parts(text))
        if group.message:
            branch.add(Text(plain(group.message)))
    for record in status.runs:
        text = Text.assemble(f"analysis {plain(record.name)}", (f"  {record.phase}", PHASE_STYLE[record.phase]))
        text.append(f"  {plain(record.run)}", "dim")
        branch = tree.add(Parts(text))
        if record.message:
            branch.add(Text(plain(record.message)))
    return Group(Parts(head), facts, tree)

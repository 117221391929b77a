"""Tables of Rollouts, of revisions, and of the acts of a demo. Pure: they make rich tables of plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from rich import box
from rich.table import Table
from rich.text import Text

from rollouts.api.times import format_time
from rollouts.cli.terminal.listing import Column, Listing
from rollouts.cli.terminal.text import MARKS, plain
from rollouts.cli.terminal.tree import PHASE_STYLE
from rollouts.cli.view.durations import short
from rollouts.cli.view.history import HistoryRow
from rollouts.cli.view.tree import RolloutView, percent_text
from rollouts.cli.view.words import waits_briefly, waits_for


class ActRow(Struct, frozen=True, kw_only=True):
    """One act of the demo and its counts.

    Args:
        sent, lost: requests; None where there are no clients.
        writes: API writes of the controller; None where they cannot be counted.
        problem: what was not as promised; "" when everything was.
    """

    title: str
    sent: int | None
    lost: int | None
    steps: int
    seconds: float
    writes: int | None
    outcome: str
    problem: str = ""


_ACTS_CELLS = 79  # what the table of the acts takes with all its columns
_WIDE_HEADERS = ("UPDATED", "AVAILABLE", "STRATEGY", "REVISION", "STABLE", "IMAGES")


def rollout_table(
    views: Iterable[RolloutView], *, now_s: float, wide: bool, all_namespaces: bool, arrow: str = MARKS.arrow
) -> Listing:
    """The list of Rollouts.

    Args:
        wide: more columns, none of them left out, and the whole message of a wait instead of its reason.
        arrow: between the weight that is in force and the one that is wanted.
    """
    ranks = {"NAME": 0, "PHASE": 0, "STEP": 1, "WEIGHT": 2, "READY": 3, "AGE": 4}
    columns = [Column(header, 0 if wide else rank) for header, rank in ranks.items()]
    columns = [*([Column("NAMESPACE")] if all_namespaces else []), *columns]
    columns += map(Column, [*(_WIDE_HEADERS if wide else ()), "WAITING FOR"])
    lines = []
    for view in views:
        cells = {
            "NAMESPACE": view.namespace,
            "NAME": view.name,
            "PHASE": view.phase or "Unknown",
            "STEP": _step(view),
            "WEIGHT": _weight(view, arrow=arrow),
            "READY": f"{view.ready}/{view.desired}",
            "AGE": short(now_s - view.created_at_s),
            "UPDATED": str(view.updated),
            "AVAILABLE": str(view.available),
            "STRATEGY": view.strategy,
            "REVISION": view.revision,
            "STABLE": view.stable,
            "IMAGES": ",".join(dict.fromkeys(image for revision in view.revisions for image in revision.images)),
        }
        line = {column.header: Text(plain(cells.get(column.header) or "-")) for column in columns}
        line["PHASE"].stylize(PHASE_STYLE.get(view.phase, ""))
        healthy = view.phase == "Healthy" and not view.problems and not view.stale
        waits = "" if healthy else (waits_for if wide else waits_briefly)(view, now_s=now_s)
        line["WAITING FOR"] = Text(plain(waits))
        lines.append([*line.values()])
    return Listing(columns, lines)


def _step(view: RolloutView) -> str:
    """How many steps are done, as `kubectl get` shows it."""
    return f"{min(view.step_index, len(view.steps))}/{len(view.steps)}" if view.steps else "-"


def _weight(view: RolloutView, *, arrow: str) -> str:
    """The share without a space, because scripts take lists apart at spaces: `25%`, `0%→25%` on the way there."""
    if view.weight_percent is None:
        return "-"
    wanted = percent_text(view.weight_percent).replace(" ", "")
    live = "?" if view.live_percent is None else percent_text(view.live_percent).replace(" ", "")
    reached = view.nearest_ratio or view.split_percent in (None, view.live_percent)
    return wanted if reached else f"{live}{arrow}{wanted}"


def history_table(rows: Iterable[HistoryRow], *, now_s: float) -> Listing:
    """The table of revisions, in the order of the rows; with their configuration if any has some, and with who gave commands."""
    rows = tuple(rows)
    ranks = {"NUMBER": 0, "REVISION": 0, "ROLE": 0, "OUTCOME": 0, "READY": 3, "FINISHED": 1, "TOOK": 4, "ROLLBACK": 2}
    if any(row.config is not None for row in rows):
        ranks["CONFIG CHANGED"] = 0
    if any(row.commands for row in rows):
        ranks["COMMANDS"] = 0
    ranks["IMAGES"] = 0
    lines = []
    for row in rows:
        cells = _history_cells(row, now_s=now_s)
        line = {header: Text(plain(cells[header] or "-")) for header in ranks}
        line["OUTCOME"].stylize(PHASE_STYLE.get(row.outcome, ""))
        lines.append([*line.values()])
    return Listing([Column(header, rank) for header, rank in ranks.items()], lines)


def history_document(row: HistoryRow) -> dict[str, Any]:
    """A revision for programs."""
    return {
        "number": row.number,
        "revision": row.revision,
        "roles": list(row.roles),
        "outcome": row.outcome,
        "ready": row.ready,
        "replicas": row.desired,
        "finishedAt": None if row.finished_at_s is None else format_time(row.finished_at_s),
        "tookSeconds": row.took_s,
        "rollback": row.rollback,
        "configChanged": row.config,
        "commands": row.commands,
        "images": list(row.images),
    }


def _history_cells(row: HistoryRow, *, now_s: float) -> dict[str, str | None]:
    return {
        "NUMBER": f"#{row.number or '?'}",
        "REVISION": row.revision,
        "ROLE": ",".join(row.roles),
        "OUTCOME": row.outcome,
        "READY": f"{row.ready}/{row.desired}",
        "FINISHED": "" if row.finished_at_s is None else f"{short(now_s - row.finished_at_s)} ago",
        "TOOK": "" if row.took_s is None else short(row.took_s),
        "ROLLBACK": "possible" if row.rollback else "",
        "CONFIG CHANGED": row.config,
        "COMMANDS": row.commands,
        "IMAGES": ",".join(row.images),
    }


def act_table(rows: Iterable[ActRow], *, width: int | None = None) -> Table:
    """A row for each act of the demo, and the totals; a narrow terminal is given fewer columns, so that no word is broken."""
    rows = list(rows)
    table = Table(box=box.SIMPLE_HEAVY, show_footer=len(rows) > 1, pad_edge=False, collapse_padding=True)
    columns: list[tuple[str, list[str], str]] = [
        ("requests", [_count(row.sent) for row in rows], _total(row.sent for row in rows)),
        ("lost", [_count(row.lost) for row in rows], _total(row.lost for row in rows)),
    ]
    if width is None or width >= _ACTS_CELLS:
        columns += [
            ("steps", [str(row.steps) for row in rows], str(sum(row.steps for row in rows))),
            ("seconds", [f"{row.seconds:.1f}" for row in rows], f"{sum(row.seconds for row in rows):.1f}"),
            ("API\nwrites", [_count(row.writes) for row in rows], _total(row.writes for row in rows)),
        ]
    table.add_column("act", footer="all", no_wrap=True)
    for header, _, total in columns:
        table.add_column(header, footer=total, justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for row, *cells in zip(rows, *(cells for _, cells, _ in columns), strict=True):
        outcome = Text(plain(row.outcome), "green") if not row.problem else Text(plain(row.problem), "bold red")
        sent, lost, *rest = map(Text, cells)
        lost.stylize("bold red" if row.lost else "green")
        table.add_row(Text(plain(row.title)), sent, lost, *rest, outcome)
    return table


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)


def _total(numbers: Iterable[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return str(sum(known)) if known else "-"

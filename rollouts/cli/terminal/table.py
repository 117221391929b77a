"""Tables of Rollouts, of revisions, and of the acts of a demo. Pure: they make rich tables of plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich import box
from rich.table import Table
from rich.text import Text

from rollouts.cli.terminal.text import plain
from rollouts.cli.terminal.tree import waits_for
from rollouts.cli.view.durations import short
from rollouts.cli.view.tree import RolloutView, percent_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRow:
    """One Rollout in the list."""

    view: RolloutView
    created_at_s: float
    revision: str
    stable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One revision that the Rollout had, or has.

    Args:
        kept: its ReplicaSet still exists, so `rollback` can go back to it.
        outcome: how its update ended; "" where that is not recorded.
        config: the ConfigMaps and Secrets that changed with it, see `changes_text`; "" for none; None where it is not known.
    """

    number: int
    revision: str
    roles: tuple[str, ...]
    outcome: str
    images: tuple[str, ...]
    kept: bool
    ready: int
    desired: int
    finished_at_s: float | None
    took_s: float | None
    config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActRow:
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


def rollout_table(rows: Iterable[RolloutRow], *, now_s: float, wide: bool, all_namespaces: bool) -> Table:
    """The list of Rollouts, with columns as in `kubectl get`."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="")
    headers = ["NAME", "PHASE", "STEP", "WEIGHT", "AVAILABLE", "UPDATED", "AGE", "WAITING FOR"]
    if all_namespaces:
        headers.insert(0, "NAMESPACE")
    if wide:
        headers[-1:] = ["STRATEGY", "REVISION", "STABLE", "IMAGES", "WAITING FOR"]
    for header in headers:
        table.add_column(header, no_wrap=header != "WAITING FOR", overflow="fold")
    for row in rows:
        view = row.view
        cells = [
            view.name,
            view.phase or "Unknown",
            f"{min(view.step_index, len(view.steps))}/{len(view.steps)}" if view.steps else "-",
            percent_text(view.weight_percent) if view.weight_percent is not None else "-",
            f"{view.available}/{view.desired}",
            str(view.updated),
            short(now_s - row.created_at_s),
            waits_for(view, now_s=now_s) if view.phase != "Healthy" else "",
        ]
        if all_namespaces:
            cells.insert(0, view.namespace)
        if wide:
            images = ",".join(dict.fromkeys(image for revision in view.revisions for image in revision.images))
            cells[-1:] = [view.strategy or "-", row.revision or "-", row.stable or "-", images or "-", cells[-1]]
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table


def history_table(rows: Iterable[HistoryRow], *, now_s: float) -> Table:
    """The table of revisions, in the order of the rows; with their configuration if any has some."""
    rows = tuple(rows)
    configured = any(row.config is not None for row in rows)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="")
    headers = ("NUMBER", "REVISION", "ROLE", "OUTCOME", "READY", "FINISHED", "TOOK", "ROLLBACK", "IMAGES")
    for header in (*headers, *(["CONFIG CHANGED"] if configured else [])):
        table.add_column(header, no_wrap=header not in ("IMAGES", "CONFIG CHANGED"), overflow="fold")
    for row in rows:
        config = [Text(plain(row.config or "-"))] if configured else []
        table.add_row(
            str(row.number or "?"),
            plain(row.revision),
            ",".join(row.roles) or "-",
            row.outcome or "-",
            f"{row.ready}/{row.desired}",
            f"{short(now_s - row.finished_at_s)} ago" if row.finished_at_s is not None else "-",
            short(row.took_s) if row.took_s is not None else "-",
            "possible" if row.kept and not row.roles else "-",
            Text(plain(", ".join(row.images) or "-")),
            *config,
        )
    return table


def act_table(rows: Iterable[ActRow]) -> Table:
    """A row for each act of the demo, and the totals."""
    rows = list(rows)
    table = Table(box=box.SIMPLE_HEAVY, show_footer=len(rows) > 1, pad_edge=False, collapse_padding=True)
    sums = (
        _total(row.sent for row in rows),
        _total(row.lost for row in rows),
        str(sum(row.steps for row in rows)),
        f"{sum(row.seconds for row in rows):.1f}",
        _total(row.writes for row in rows),
    )
    table.add_column("act", footer="all", overflow="fold")
    for header, total in zip(("requests", "lost", "steps", "seconds", "API\nwrites"), sums, strict=True):
        table.add_column(header, footer=total, justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for row in rows:
        outcome = Text(plain(row.outcome), "green") if not row.problem else Text(plain(row.problem), "bold red")
        lost = Text(_count(row.lost), "bold red" if row.lost else "green")
        table.add_row(
            Text(plain(row.title)),
            _count(row.sent),
            lost,
            str(row.steps),
            f"{row.seconds:.1f}",
            _count(row.writes),
            outcome,
        )
    return table


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)


def _total(numbers: Iterable[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return str(sum(known)) if known else "-"

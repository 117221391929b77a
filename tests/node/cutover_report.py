"""What each case showed: build/reports/cutover.json for programs, a table and a picture for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.node.traffic import Connections, Protocol
from tests.node.workload import App, Drain

_DRAINS: tuple[Drain, ...] = ("off", "auto")
_VERSIONS = ("1", "2")
_COLOURS = ("#5b7083", "#2a7f62", "#d0342c")  # versions 1 and 2, failed


@dataclass(frozen=True)
class Case:
    """One row: what was done, behind which proxy, to which app, with which clients, and what became of their requests."""

    case: str  # name of the move
    proxy: str  # kube-proxy's mode, with its period where it is not the default
    drain: Drain
    app: App
    connections: Connections
    protocol: Protocol
    sent: int  # requests
    failed: dict[str, int]  # by kind
    seconds: float  # from the decision until the last pod that had to go was gone
    timeline: list[dict[str, Any]] = field(default_factory=list)  # by second: at, sent, failed, versions; not in JSON

    @property
    def lost(self) -> int:
        return sum(self.failed.values())


def figures(case: Case) -> dict[str, Any]:
    return {key: value for key, value in asdict(case).items() if key != "timeline"}


def table(cases: Sequence[Case]) -> list[str]:
    lines = [
        "| what happens | kube-proxy | `drain.mode` | app | connections | requests | failed | seconds |",
        "|---|---|---|---|---|---:|---:|---:|",
    ]
    for case in cases:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(case.failed.items()))
        failed = f"{case.lost} ({kinds})" if kinds else "0"
        lines.append(
            f"| {case.case} | {case.proxy} | {case.drain.capitalize()} | {case.app} | {case.connections}"
            f"{'' if case.protocol == 'http1' else f', {case.protocol}'} | {case.sent:,} | {failed} | {case.seconds:g} |"
        )
    return lines


def side_by_side(cases: Sequence[Case]) -> list[Case]:
    """Of the updates of the app that dies, behind iptables, those that were made in both drain modes: Off, Auto, Off, Auto."""
    found = {
        (case.case, case.drain): case
        for case in cases
        if (case.proxy, case.app, case.connections) == ("iptables", "dies", "new")
    }
    moves = [case for case, drain in found if drain == "off" and (case, "auto") in found]
    return [found[move, drain] for move in moves for drain in _DRAINS]


def draw(cases: Sequence[Case], path: Path) -> None:
    """Draws what was answered by which version and what failed, second by second: one panel for each case, if there are any."""
    if not cases:
        return
    import matplotlib as mpl  # noqa: PLC0415 - half a second, and only at the end

    mpl.use("Agg")
    mpl.rcParams.update(
        {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "rollouts"}
    )
    import matplotlib.pyplot as plt  # noqa: PLC0415

    columns = 2
    rows = -(-len(cases) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(11, 2.2 * rows), layout="constrained", squeeze=False)
    for panel, case in zip(panels.flat, cases, strict=False):
        _draw_case(panel, case)
    for panel in list(panels.flat)[len(cases) :]:
        panel.set_axis_off()
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=3, loc="outside upper right")
    figure.supxlabel("seconds")
    figure.supylabel("requests a second")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _draw_case(panel: Any, case: Case) -> None:
    whole = case.timeline[1:-1]  # the first second and the last are parts of one
    times = [second["at"] - whole[0]["at"] for second in whole]
    versions = {f"version {one}": [second["versions"].get(one, 0) for second in whole] for one in _VERSIONS}
    failed = {"failed": [sum(second["failed"].values()) for second in whole]}
    layers = {**versions, **failed}
    panel.stackplot(times, list(layers.values()), labels=list(layers), colors=_COLOURS, edgecolor="none")
    title = f"{case.case}, {case.proxy}, drain {case.drain.capitalize()}"
    panel.set_title(f"{title}: {case.lost} of {case.sent:,} requests failed", loc="left", fontsize=9)
    panel.set(xlim=(0, None), ylim=(0, None))

"""What each case showed: build/reports/cutover.json for programs, a table and a picture for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import charts
from tests.node.traffic import Connections, Protocol
from tests.node.workload import App, Drain

_DRAINS: dict[Drain, str] = {"off": "not drained", "auto": "drained"}
_TITLES = {"canary-services": "two Services", "blue-green /?delay=3s": "blue-green"}
_VERSIONS = ("1", "2")


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
    timeline: list[dict[str, Any]] = field(default_factory=list)  # by second: at, sent, failed, versions
    controller: str = "Rollouts"

    @property
    def lost(self) -> int:
        return sum(self.failed.values())


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


def side_by_side(cases: Sequence[Case]) -> list[tuple[str, Case]]:
    """Of the updates of the app that dies, behind iptables, those that were made in both drain modes, with their titles."""
    found = {
        (case.case, case.drain): case
        for case in cases
        if (case.proxy, case.app, case.connections) == ("iptables", "dies", "new")
    }
    moves = [case for case, drain in found if drain == "off" and (case, "auto") in found]
    return [
        (f"{_TITLES.get(move, move)}, {words}".capitalize(), found[move, drain])
        for move in moves
        for drain, words in _DRAINS.items()
    ]


def draw(headline: str, cases: Sequence[tuple[str, Case]], path: Path) -> None:
    """Draws what each case lost second by second, and which version answered, one below the other, under their titles."""
    if not cases:
        return
    figure, axes = charts.panels(*(height for _, case in cases for height in (100 if case.lost else 58, 78)))
    figure.suptitle(headline, x=0.02, ha="left")
    whole = [case.timeline[1:-1] for _, case in cases]  # the first second and the last are parts of one
    most = max(1, *(sum(second["failed"].values()) for seconds in whole for second in seconds))
    longest = max(seconds[-1]["at"] - seconds[0]["at"] for seconds in whole)
    for number, ((title, case), seconds) in enumerate(zip(cases, whole, strict=True)):
        times = [second["at"] - seconds[0]["at"] for second in seconds]
        lost, answers = axes[2 * number : 2 * number + 2]
        lost.set_title(f"{title}: {case.lost:,} of {case.sent:,}")
        _draw_lost(lost, times, [sum(second["failed"].values()) for second in seconds], most=most)
        _draw_answers(answers, times, [second["versions"] for second in seconds])
        for panel in (lost, answers):
            panel.set(xlim=(-0.5, 1.3 * longest), yticks=[])  # the right is for the name of what answers in the end
            panel.spines["left"].set_visible(False)
    axes[-1].set_xlabel("seconds")
    charts.save(figure, path)


def _draw_lost(panel: Any, times: Sequence[float], lost: Sequence[int], *, most: int) -> None:
    bars = [(time, count) for time, count in zip(times, lost, strict=True) if count]
    panel.bar([time for time, _ in bars], [count for _, count in bars], width=0.8, color=charts.LOST)
    panel.set(ylim=(0, 2.1 * most), xticks=[])
    for place, (time, count) in enumerate(zip(times, lost, strict=True)):
        around = lost[max(0, place - 2) : place + 3]
        if count and count == max(around) and count not in lost[max(0, place - 2) : place]:  # of a peak, one number
            panel.text(time, count, f"{count}", ha="center", va="bottom")
    words = "lost in each second" if any(lost) else "none lost in any second"
    panel.text(0, 1, words, transform=panel.transAxes, va="top", color=charts.QUIET)


def _draw_answers(panel: Any, times: Sequence[float], versions: Sequence[dict[str, int]]) -> None:
    layers = [[of.get(one, 0) for of in versions] for one in _VERSIONS]
    panel.stackplot(times, layers, colors=(charts.OLD, charts.NEW), edgecolor="none")
    panel.set_ylim(0, None)
    panel.text(0.02, 0.15, "old version", transform=panel.transAxes, va="bottom")
    panel.text(times[-1] + 0.5, 0.5, "new version", transform=panel.get_xaxis_transform(), va="center")

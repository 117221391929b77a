"""Draws charts: SVG with attributes alone, because the policy of the pages allows no inline style. Pure.

Each is there twice, and the style sheet shows the one that fits the screen. What gave no value is a triangle on the lower edge.
"""

from __future__ import annotations

from collections.abc import Callable

import htpy as h

from rollouts.cli.dashboard.charts import NARROW, RIGHT, TOP, WIDE, Chart, ChartPoint, Limit
from rollouts.core.model.analysis import AnalysisPhase

_SIZE = 4.5
_TEXT_DROP = 4.0  # from the middle of a letter to its foot


def in_both_widths(chart_of: Callable[[float], Chart | None]) -> h.Fragment | None:
    """The chart for wide screens and for narrow ones; None for nothing to draw. `chart_of` is given its width."""
    wide, narrow = chart_of(WIDE), chart_of(NARROW)
    if wide is None or narrow is None:
        return None
    return h.fragment[_drawn("for-wide", wide), _drawn("for-narrow", narrow)]


def _drawn(name: str, chart: Chart) -> h.Element:
    left, right, floor = _text(chart.left), chart.width - RIGHT, chart.floor
    end = _text(right)

    def level(class_: str, y: float) -> h.Element:
        return h.line(class_=class_, x1=left, x2=end, y1=_text(y), y2=_text(y))

    def beside(class_: str | None, y: float, text: str) -> h.Element:
        return h.text(class_=class_, x=_text(chart.left - 6), y=_text(y + _TEXT_DROP), text_anchor="end")[text]

    def limit(each: Limit) -> h.Node:
        class_, width = "undecided" if each.undecided else "decided", _text(right - chart.left)
        return h.g(class_=class_)[
            h.rect(x=left, y=_text(each.top), width=width, height=_text(each.height)),
            level("limit", each.at),
            beside(None, each.at, each.text),
        ]

    return h.svg(
        class_=f"chart {name}", viewBox=f"0 0 {chart.width:g} {chart.height:g}", role="img", aria_label=chart.summary
    )[
        (limit(each) for each in chart.limits),
        (level("grid", label.at) for label in chart.y_labels),
        (beside(None, label.at, label.text) for label in chart.y_labels),
        level("edge", floor),
        h.polygon(".area", points=_corners(((chart.left, floor), *chart.line, (right, floor))))
        if not chart.points
        else None,
        h.polyline(class_="trace" if chart.points else "steps-line", points=_corners(chart.line)),
        h.circle(".live-now", cx=end, cy=_text(chart.now), r="5")[h.title["live now"]]
        if chart.now is not None
        else None,
        (
            h.polygon(
                ".is-absent",
                points=_corners(((each.x - _SIZE, each.y), (each.x, each.y - 2 * _SIZE), (each.x + _SIZE, each.y))),
            )[h.title[each.text]]
            for each in chart.absent
        ),
        (_point(each) for each in chart.points),
        (
            h.text(x=_text(label.at), y=_text(chart.height - _TEXT_DROP), text_anchor=_anchor(label.at, chart))[
                label.text
            ]
            for label in chart.x_labels
        ),
    ]


def _point(point: ChartPoint) -> h.Element:
    """A disk for what is good, a cross for what is bad, a diamond for what is neither, a ring for what is not over."""
    x, y, size = point.x, point.y, _SIZE
    title = h.title[point.text]
    match point.phase:
        case AnalysisPhase.SUCCESSFUL:
            return h.circle(".is-good", cx=_text(x), cy=_text(y), r=_text(size))[title]
        case AnalysisPhase.FAILED | AnalysisPhase.ERROR:
            strokes = f"M{_text(x - size)} {_text(y - size)}L{_text(x + size)} {_text(y + size)}"
            strokes += f"M{_text(x - size)} {_text(y + size)}L{_text(x + size)} {_text(y - size)}"
            return h.path(".is-bad", d=strokes)[title]
        case AnalysisPhase.INCONCLUSIVE:
            ends = ((x - size, y), (x, y - size), (x + size, y), (x, y + size))
            return h.polygon(".is-open", points=_corners(ends))[title]
        case AnalysisPhase.PENDING | AnalysisPhase.RUNNING:
            return h.circle(".is-moving", cx=_text(x), cy=_text(y), r=_text(size))[title]


def _anchor(x: float, chart: Chart) -> str:
    """Labels at an end stay inside."""
    if x < chart.left + TOP + TOP:
        return "start"
    return "end" if x > chart.width - RIGHT - TOP - TOP else "middle"


def _corners(corners: tuple[tuple[float, float], ...]) -> str:
    return " ".join(f"{_text(x)},{_text(y)}" for x, y in corners)


def _text(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")

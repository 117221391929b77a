"""Where each mark of a chart is, in units that are pixels of a screen. Pure; `chart_svg` draws it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from rollouts.cli.view.durations import short
from rollouts.cli.view.runs import MeasurementLine, MetricLine
from rollouts.cli.view.weights import WeightMark
from rollouts.core.model.analysis import AnalysisPhase

WIDE, NARROW = 640.0, 320.0
"""A chart is drawn for both: one that is made smaller has letters that nobody can read."""

VALUES_HEIGHT, WEIGHTS_HEIGHT = 124.0, 150.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 10.0, 8.0, 20.0
LETTER = 12.0  # of a label, and the least distance of two
DIGIT = 7.4  # width of the widest digit of the fonts in the style sheet
BESIDE = 6.0  # between a label and the marks
_INTERVALS = 3
_NICE = (1.0, 2.0, 5.0, 10.0)
_ROOM = 0.1  # of the numbers' span, above and below
_LONG = 1e6
_SPAN_MIN = 1e-300  # of what is smaller a third may be nothing


class ChartLabel(Struct, frozen=True):
    """A text beside an axis: at a height, or below a place."""

    at: float
    text: str


class Limit(Struct, frozen=True):
    """A threshold: the height of its line, and the part of the height beyond it, from the top down."""

    at: float
    text: str
    top: float
    height: float
    undecided: bool = False


class ChartPoint(Struct, frozen=True):
    """One measurement; `text` is shown of it when somebody points at it."""

    x: float
    y: float
    phase: AnalysisPhase
    text: str = ""


class Chart(Struct, frozen=True, kw_only=True):
    """One chart.

    Args:
        points: of measurements with a number.
        absent: of those without one, on the lower edge.
        line: corners of the line through the points, or along the steps.
        limits: where numbers are bad; those that decide come last, to be drawn over the others.
        summary: what it shows, for those who do not see it.
        left: where the part with the marks begins; labels have all that is left of it.
        now: height of what is live at its right end; None for a chart without that.
    """

    width: float
    height: float
    left: float = LEFT
    points: tuple[ChartPoint, ...] = ()
    absent: tuple[ChartPoint, ...] = ()
    line: tuple[tuple[float, float], ...] = ()
    limits: tuple[Limit, ...] = ()
    y_labels: tuple[ChartLabel, ...] = ()
    x_labels: tuple[ChartLabel, ...] = ()
    summary: str = ""
    now: float | None = None

    @property
    def floor(self) -> float:
        """The lower edge of the part where marks are."""
        return self.height - BOTTOM


class _Scale(Struct, frozen=True):
    """Puts values between two edges; two that are equal are in the middle."""

    least: float
    most: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Where the value is, to a tenth."""
        share = (value - self.least) / (self.most - self.least) if self.most > self.least else 0.5
        return round(self.begin + share * (self.end - self.begin), 1)


def value_chart(metric: MetricLine, *, now_s: float, width: float) -> Chart | None:
    """A metric's measurements against its conditions; None where none gave a number that can be drawn."""
    numbers = [number for _, number in metric.numbered]
    bounds = _bounds(numbers, [each.value for each in metric.thresholds])
    if bounds is None:
        return None
    height = _Scale(*bounds, VALUES_HEIGHT - BOTTOM, TOP)
    limits = []
    for each in sorted(metric.thresholds, key=lambda each: not each.undecided):
        line = height.at(each.value)
        top, bottom = (height.end, line) if each.above else (line, height.begin)
        limits.append(Limit(line, f"{each.value:.6g}", top, round(bottom - top, 1), each.undecided))
    labels = _heights(height, [each.at for each in limits])
    texts = [*(each.text for each in limits), *(each.text for each in labels)]
    left = max(LEFT, BESIDE + DIGIT * max(map(len, texts), default=0))
    began_s = [each.at_s for each in metric.measurements]
    times = _Scale(min(began_s), max(began_s), left + LETTER, width - RIGHT - LETTER)

    def point(each: MeasurementLine, y: float) -> ChartPoint:
        what = [each.rounded or "not measured", each.phase, f"{short(now_s - each.at_s)} ago"]
        return ChartPoint(times.at(each.at_s), y, each.phase, ", ".join(what))

    points = tuple(point(each, height.at(number)) for each, number in metric.numbered)
    absent = [each for each in metric.measurements if each.number is None]
    return Chart(
        width=width,
        height=VALUES_HEIGHT,
        left=left,
        points=points,
        absent=tuple(point(each, VALUES_HEIGHT - BOTTOM) for each in absent),
        line=tuple((each.x, each.y) for each in points),
        limits=tuple(limits),
        y_labels=labels,
        x_labels=_moments(times, now_s),
        summary=_summary(metric, numbers, len(absent)),
    )


def weight_chart(
    marks: Sequence[WeightMark], *, now_s: float, live_percent: float | None, width: float
) -> Chart | None:
    """The canary's wanted share over time, up to now, and what is live; None for fewer than two changes of it.

    Args:
        marks: when it began to be what; the oldest first.
    """
    if len({mark.percent for mark in marks}) < 2:
        return None
    height = _Scale(0.0, 100.0, WEIGHTS_HEIGHT - BOTTOM, TOP)
    times = _Scale(marks[0].at_s, max(now_s, marks[-1].at_s), LEFT, width - RIGHT)
    corners: list[tuple[float, float]] = []
    for mark in marks:
        x = times.at(mark.at_s)
        corners += [(x, corners[-1][1])] if corners else []
        corners.append((x, height.at(mark.percent)))
    corners.append((times.end, corners[-1][1]))
    ages = ", ".join(f"{mark.percent:.4g} % since {short(now_s - mark.at_s)}" for mark in marks)
    return Chart(
        width=width,
        height=WEIGHTS_HEIGHT,
        line=tuple(corners),
        y_labels=tuple(ChartLabel(height.at(each), f"{each:g} %") for each in (0, 50, 100)),
        x_labels=_moments(times, now_s),
        summary=f"The wanted share of the canary over time: {ages}.",
        now=None if live_percent is None else height.at(live_percent),
    )


def _bounds(numbers: Sequence[float], limits: Sequence[float]) -> tuple[float, float] | None:
    """The least and the greatest that are shown, with room; not below 0 where none is. None for what cannot be drawn."""
    if not numbers:
        return None
    least, most = min(*numbers, *limits, math.inf), max(*numbers, *limits, -math.inf)
    room = (most - least) * _ROOM or abs(most) * _ROOM or 1.0
    low, high = least - room if least < 0 else max(0.0, least - room), most + room
    return (low, high) if _SPAN_MIN < high - low < math.inf else None


def _heights(height: _Scale, taken: Sequence[float]) -> tuple[ChartLabel, ...]:
    """Labels of round numbers, where there is room between those of thresholds."""
    rough = (height.most - height.least) / _INTERVALS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * nice for nice in _NICE if size * nice >= rough * 0.999)
    digits = max(0, -math.floor(math.log10(step)))
    labels: list[ChartLabel] = []
    first = math.ceil(height.least / step)
    for index in range(first, first + 2 * len(_NICE) * _INTERVALS):
        value = index * step
        if value > height.most:
            break
        place = height.at(value)
        if all(abs(place - other) >= LETTER for other in taken):
            labels.append(
                ChartLabel(place, f"{value:.{digits}f}" if abs(value) < _LONG and digits < 7 else f"{value:.3g}")
            )
    return tuple(labels)


def _moments(times: _Scale, now_s: float) -> tuple[ChartLabel, ...]:
    """How long ago its left end was, and its right one where that is another time."""
    ends = {times.at(at_s): at_s for at_s in (times.least, times.most)}
    return tuple(
        ChartLabel(x, f"{short(now_s - at_s)} ago" if now_s - at_s >= 1 else "now") for x, at_s in ends.items()
    )


def _summary(metric: MetricLine, numbers: Sequence[float], absent: int) -> str:
    bad = [
        f"{'inconclusive' if each.undecided else 'bad'} {'above' if each.above else 'below'} {each.value:g}"
        for each in metric.thresholds
    ]
    without = [f"{absent} without a value"] if absent else []
    span = f"from {min(numbers):g} to {max(numbers):g}" if len(numbers) > 1 else f"{numbers[0]:g}"
    return f"{metric.name}: {', '.join([f'{len(numbers)} measured, {span}', *without, *bad])}"

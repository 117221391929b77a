"""The results for people: a table in the terminal, one for the docs, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, Results
from tests import charts

PICTURED = (
    ("controller CPU a Rollout", "Controller CPU for one update"),
    ("peak RSS", "Controller memory, peak"),
    ("API writes a Rollout with Events", "API writes for one update"),
    ("available to next step, median", "From new pod available to next step"),
    ("abort to canary at 0, median", "From abort to no canary pod"),
)
"""Figures that the picture has bars of, and what they are called there."""


_CURVES = {"Deployments": (charts.QUIET, ":"), "Rollouts": (charts.NEW, "-"), "Argo Rollouts": (charts.PEER, "--")}


def show(results: Results, console: Console) -> None:
    """Prints every figure beside its limit."""
    shown = Table(title=results.title, title_justify="left")
    shown.add_column("figure")
    for column in ("measured", "limit", "Argo Rollouts"):
        shown.add_column(column, justify="right")
    shown.add_column("")
    for each in results.figures:
        limit = "" if each.limit is None else f"{each.limit:g} {each.unit}"
        verdict = "" if each.limit is None else ("[green]kept[/]" if each.kept else "[bold red]missed[/]")
        shown.add_row(each.name, f"{_number(each.value)} {each.unit}", limit, _argo(results, each), verdict)
    console.print(shown)


def table(results: Results) -> list[str]:
    """Every figure, as the page has them."""
    rows = [
        f"| {each.name} | {'' if each.limit is None else f'{each.limit:g} {each.unit}'.strip()} "
        f"| {_number(each.value)} {each.unit}".rstrip()
        + f" | {_argo(results, each)} |"
        for each in results.figures
    ]
    return ["| figure | limit | Rollouts | Argo Rollouts |", "|---|---:|---:|---:|", *rows]


def draw(results: Results, *paths: Path) -> None:
    """Draws the course of the updates, and bars beside those of Argo Rollouts, as far as they were measured."""
    measured = {each.name: each for each in results.figures}
    bars = [(measured[name], title) for name, title in PICTURED if name in results.argo]
    curves = {name: results.series[name] for name in _CURVES if name in results.series}
    figure, axes = charts.panels(*[170] * bool(curves), *[58] * len(bars))
    if curves:
        _draw_updates(axes.pop(0), curves)
    for panel, (each, title) in zip(axes, bars, strict=True):
        _draw_bars(panel, title, {"Rollouts": each.value, "Argo Rollouts": results.argo[each.name]}, each.unit)
    charts.save(figure, *paths)


def _draw_updates(axes: Any, curves: Mapping[str, Sequence[float]]) -> None:
    last_s = max(done_s[-1] for done_s in curves.values())
    for place, (name, done_s) in enumerate(sorted(curves.items(), key=lambda each: each[1][-1])):
        colour, line = _CURVES[name]
        axes.step(done_s, range(1, len(done_s) + 1), where="post", color=colour, linestyle=line, linewidth=2)
        # Beside the ends of the curves, each name on a line of its own.
        beside = (1.03 * last_s, len(done_s) * (0.86 - 0.16 * place))
        axes.annotate(f"{name}, {done_s[-1]:.0f} s", beside, va="center", annotation_clip=False)
        axes.plot([done_s[-1], 0.99 * beside[0]], [len(done_s), beside[1]], color=colour, linewidth=0.8, clip_on=False)
    axes.set(xlabel="seconds", xlim=(0, last_s), ylim=(0, None))
    axes.set_title(f"{len(curves['Rollouts']):,} updates at once, done over time")


def _draw_bars(axes: Any, title: str, values: dict[str, float], unit: str) -> None:
    axes.barh(range(2), list(values.values()), color=(charts.NEW, charts.PEER), height=0.72)
    most = max(values.values())
    for place, (name, value) in enumerate(values.items()):
        axes.text(value + 0.02 * most, place, f"{name}: {_number(value)} {unit}".rstrip(), va="center")
    axes.set(xlim=(0, 1.9 * most), xticks=[], yticks=[])
    axes.set_title(title)
    axes.spines["bottom"].set_visible(False)
    axes.invert_yaxis()


def _argo(results: Results, figure: Figure) -> str:
    return f"{_number(results.argo[figure.name])} {figure.unit}".rstrip() if figure.name in results.argo else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

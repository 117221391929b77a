"""The results for people: a table in the terminal and a picture."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, Results

_GOOD, _BAD, _PLAIN = "#2a7f62", "#b3372f", "#5b7083"


def show(results: Results, console: Console) -> None:
    """Prints every figure beside its limit."""
    table = Table(title=results.title, title_justify="left")
    table.add_column("figure")
    for column in ("measured", "limit", "Argo Rollouts"):
        table.add_column(column, justify="right")
    table.add_column("")
    for each in results.figures:
        limit = "" if each.limit is None else f"{each.limit:g} {each.unit}"
        verdict = "" if each.limit is None else ("[green]kept[/]" if each.kept else "[bold red]missed[/]")
        table.add_row(each.name, f"{_number(each.value)} {each.unit}", limit, each.peer, verdict)
    console.print(table)


def draw(results: Results, *paths: Path) -> None:
    """Draws the results into files; the suffix of a path says the format."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second, and only at the end

    mpl.use("Agg")
    mpl.rcParams.update(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "rollouts"}
    )
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, (updates, reactions, limits) = plt.subplots(
        1, 3, figsize=(13, 4.2), layout="constrained", width_ratios=(1, 1, 1.15)
    )
    figure.suptitle(results.title)
    _draw_updates(updates, results)
    _draw_reactions(reactions, results)
    _draw_limits(limits, [each for each in results.figures if each.limit])
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)


def _draw_updates(axes, results: Results) -> None:  # type: ignore[no-untyped-def]  # matplotlib is imported late
    for name, colour in (("Deployments", _PLAIN), ("Rollouts", _GOOD)):
        done_s = results.series.get(name, [])
        axes.step(done_s, range(1, len(done_s) + 1), where="post", label=name, color=colour)
    axes.set(title="updates done", xlabel="seconds", ylabel="workloads", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False, loc="lower right")


def _draw_reactions(axes, results: Results) -> None:  # type: ignore[no-untyped-def]
    for name, title, colour in (
        ("step", "canary available to next step", _GOOD),
        ("abort", "abort to canary at 0", _PLAIN),
    ):
        times_ms = sorted(value * 1000 for value in results.series.get(name, []))
        shares = [100 * (rank + 1) / len(times_ms) for rank in range(len(times_ms))]
        axes.step(times_ms, shares, where="post", label=title, color=colour)
    axes.set(
        title="reaction on a quiet cluster", xlabel="milliseconds", ylabel="% of samples", xlim=(0, None), ylim=(0, 100)
    )
    axes.legend(frameon=False, loc="lower right")


def _draw_limits(axes, figures: list[Figure]) -> None:  # type: ignore[no-untyped-def]
    shares = [100 * each.value / (each.limit or 1) for each in figures]
    places = range(len(figures))
    axes.barh(places, shares, color=[_GOOD if each.kept else _BAD for each in figures])
    axes.axvline(100, color="black", linewidth=0.8)
    for place, each, share in zip(places, figures, shares, strict=True):
        axes.text(share + 1, place, f"{_number(each.value)} {each.unit}", va="center", fontsize=7.5)
    axes.set(title="% of the limit", xlim=(0, max([120.0, *shares]) * 1.1))
    axes.set_yticks(places, [each.name for each in figures], fontsize=7.5)
    axes.invert_yaxis()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

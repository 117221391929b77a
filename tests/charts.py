"""How the charts of docs/images look: readable on a phone, on light and dark pages, and in black and white."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WIDTH_PT = 360.0
SMALL_PT, LARGE_PT = 12.5, 14.0
"""The smallest text is 12 pixels high where the page is 390 pixels wide, with margins of 16."""

CARD, INK, QUIET = "#ffffff", "#1f2328", "#57606a"
OLD, NEW, LOST, PEER = "#b9d3ec", "#3d8b57", "#a4262c", "#8a6d1f"
_DARK = {
    CARD: "#0d1117",
    INK: "#f0f6fc",
    QUIET: "#b1bac4",
    OLD: "#2d5580",
    NEW: "#4fae70",
    LOST: "#ff7b72",
    PEER: "#c9a545",
}

_STYLE: dict[Any, Any] = {
    "font.size": SMALL_PT,
    "axes.titlesize": LARGE_PT,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": CARD,
    "axes.facecolor": CARD,
    "text.color": INK,
    "axes.titlecolor": INK,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "rollouts",
}


def panels(*heights_pt: float) -> tuple[Any, list[Any]]:
    """A figure of one column, and its axes from top to bottom, in the style of all charts."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second, and only at the end

    mpl.use("Agg")
    mpl.rcParams.update(_STYLE)
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(
        len(heights_pt),
        1,
        figsize=(WIDTH_PT / 72, sum(heights_pt) / 72),
        height_ratios=heights_pt,
        layout="constrained",
        squeeze=False,
    )
    return figure, list(axes.flat)


def save(figure: Any, *paths: Path) -> None:
    """Writes it; the suffix of a path says the format. An SVG follows the reader's choice of a dark page."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
        if path.suffix == ".svg":
            rules = "".join(
                f'[style*="{what}: {light}"]{{{what}:{dark} !important}}'
                for light, dark in _DARK.items()
                for what in ("fill", "stroke")
            )
            style = f'<style type="text/css">@media (prefers-color-scheme: dark){{{rules}}}'
            text = "\n".join(line.rstrip() for line in path.read_text().splitlines())
            path.write_text(text.replace('<style type="text/css">', style, 1) + "\n")
    plt.close(figure)

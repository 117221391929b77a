"""Draws the picture of the docs: `python -m rollouts.cli.picture docs/images/tree.svg`. It gives the same bytes every time."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from rollouts.cli.terminal.tree import draw
from rollouts.cli.view.tree import EventLine, PodLine, RevisionLine, RolloutView, WaitLine

NOW_S = 1_800_000_000.0
_WIDTH = 104
_WAITS = "step 1: waiting for promotion of revision f7w2k9xq4c: rollouts promote cart -n shop"
_IMAGE = "ghcr.io/acme/cart"
_WEB_FONTS = re.compile(r"\s*@font-face \{[^}]*\}")  # a picture in a repository loads nothing from elsewhere


def example() -> RolloutView:
    """A canary that waits at 25 % for promotion."""
    return RolloutView(
        namespace="shop",
        name="cart",
        phase="Paused",
        message=_WAITS,
        strategy="Canary",
        weight_percent=25,
        steps=("setWeight 25", "pause until promoted", "setWeight 50", "pause 5m"),
        step_index=1,
        desired=4,
        updated=1,
        ready=4,
        available=4,
        waiting=WaitLine(
            "PromotionNeeded",
            _WAITS,
            NOW_S - 95,
            None,
        ),
        revisions=(
            RevisionLine(
                revision="f7w2k9xq4c",
                number=7,
                roles=("canary",),
                images=(f"{_IMAGE}:1.5.0",),
                ready=1,
                desired=1,
                pods=(_pod("cart-f7w2k9xq4c-8zxkd", age_s=110),),
            ),
            RevisionLine(
                revision="b8n5t6zr2d",
                number=6,
                roles=("stable",),
                images=(f"{_IMAGE}:1.4.2",),
                ready=3,
                desired=3,
                pods=tuple(_pod(f"cart-b8n5t6zr2d-{end}", age_s=270_000) for end in ("4vx7m", "kq2ns", "t9hwb")),
            ),
        ),
        events=(
            EventLine(NOW_S - 112, "RolloutUpdated", "rolling out revision 7 (f7w2k9xq4c)", warning=False),
            EventLine(
                NOW_S - 95, "RolloutStepCompleted", "step 0 of revision f7w2k9xq4c is done, 1 of 4", warning=False
            ),
        ),
    )


def svg(view: RolloutView) -> str:
    """The tree as an SVG of a terminal window."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(draw(view, now_s=NOW_S))
    drawn = console.export_svg(title="rollouts get cart -w", unique_id="rollouts-tree")
    return _WEB_FONTS.sub("", drawn)


def _pod(name: str, *, age_s: float) -> PodLine:
    return PodLine(name=name, created_at_s=NOW_S - age_s, ready=True)


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(svg(example()), encoding="utf-8")

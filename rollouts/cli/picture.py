"""Draws the pictures of the docs: `python -m rollouts.cli.picture docs/images`. It gives the same bytes every time."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich.console import Console

from rollouts.cli.terminal.tree import draw
from rollouts.cli.view.objects import wait_line
from rollouts.cli.view.runs import MeasurementLine, MetricLine, RunLine
from rollouts.cli.view.tree import EventLine, PodLine, RevisionLine, RolloutView, WaitLine
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import RolloutStatus, WaitingFor

NOW_S = 1_800_000_000.0
_WIDTH = 104
_WAITS = "step 2: waiting for promotion of revision f7w2k9xq4c: rollouts promote cart -n shop"
_IMAGE = "ghcr.io/acme/cart"
_STEP_RUN = "cart-f7w2k9xq4c-step-1-8mz4rt2xkd"
_WHY = "failed (3) > failureLimit (2): the success condition does not hold: result[0] <= 0.5"
_FAILED = f'step 2: AnalysisRun {_STEP_RUN} ended Failed: Metric "latency-p95" assessed Failed due to {_WHY}'
_HOLDS = f"{_FAILED}; to go on nevertheless: rollouts promote cart -n shop; to go back: rollouts abort cart -n shop"
_WEB_FONTS = re.compile(r"\s*@font-face \{[^}]*\}")  # a picture in a repository loads nothing from elsewhere


def example() -> RolloutView:
    """A canary that waits at 25 % for promotion."""
    return RolloutView(
        namespace="shop",
        name="cart",
        phase="Paused",
        revision="f7w2k9xq4c",
        stable="b8n5t6zr2d",
        message=_WAITS,
        strategy="Canary",
        weight_percent=25,
        live_percent=25,
        steps=("setWeight 25", "pause until promoted", "setWeight 50", "pause 5m"),
        step_index=1,
        desired=4,
        updated=1,
        ready=4,
        available=4,
        waiting=_wait(Reason.PROMOTION_NEEDED, _WAITS, since_s=95),
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
            EventLine(NOW_S - 112, "RolloutUpdated", "rolling out revision #7 f7w2k9xq4c", warning=False),
            EventLine(NOW_S - 95, "RolloutStepCompleted", "step 1 of 4 of revision f7w2k9xq4c is done", warning=False),
        ),
    )


def analysed() -> RolloutView:
    """A canary that is held by the failed analysis of a step (`onFailure: hold`), while the one beside the steps goes on."""
    before = example()
    canary = replace(before.revisions[0], pods=(_pod("cart-f7w2k9xq4c-8zxkd", age_s=425),), runs=_runs())
    return replace(
        before,
        message=_HOLDS,
        steps=("setWeight 25", "analysis latency", "setWeight 50", "pause 10m"),
        waiting=_wait(Reason.ANALYSIS_INCONCLUSIVE, _HOLDS, since_s=55),
        revisions=(canary, *before.revisions[1:]),
        events=(),
    )


def svg(view: RolloutView) -> str:
    """The tree as an SVG of a terminal window."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(draw(view, now_s=NOW_S))
    drawn = console.export_svg(title="rollouts get cart -w", unique_id="rollouts-tree")
    return _WEB_FONTS.sub("", drawn)


def _pod(name: str, *, age_s: float) -> PodLine:
    return PodLine(name=name, created_at_s=NOW_S - age_s, ready=True)


def _wait(reason: Reason, message: str, *, since_s: float) -> WaitLine:
    return wait_line(WaitingFor(reason, message, NOW_S - since_s, None), RolloutStatus(), namespace="shop", name="cart")


def _runs() -> tuple[RunLine, ...]:
    good, bad = AnalysisPhase.SUCCESSFUL, AnalysisPhase.FAILED
    rates = ((0.9991, good), (0.9987, good), (0.9994, good), (0.9862, bad), (0.9979, good), (0.9982, good))
    latencies = ((0.4127, good), (0.6304, bad), (0.7188, bad), (0.7341, bad))
    background = RunLine(
        decides=True,
        namespace="shop",
        name="cart-f7w2k9xq4c-background-5tq8zk2m4c",
        gate=AnalysisGate(AnalysisKind.BACKGROUND),
        phase=AnalysisPhase.RUNNING,
        started_at_s=NOW_S - 370,
        metrics=(
            MetricLine(
                name="success-rate",
                phase=AnalysisPhase.RUNNING,
                condition="result[0] >= 0.99",
                counts="5 successful, 1 failed",
                measurements=_measurements(rates),
            ),
        ),
    )
    step = RunLine(
        decides=True,
        namespace="shop",
        name=_STEP_RUN,
        gate=AnalysisGate(AnalysisKind.STEP, 1),
        phase=bad,
        started_at_s=NOW_S - 235,
        completed_at_s=NOW_S - 55,
        message=f'Metric "latency-p95" assessed Failed due to {_WHY}',
        metrics=(
            MetricLine(
                name="latency-p95",
                phase=bad,
                condition="result[0] <= 0.5",
                counts="1 successful, 3 failed",
                message=_WHY,
                measurements=_measurements(latencies),
            ),
        ),
    )
    return (step, background)


def _measurements(numbers: tuple[tuple[float, AnalysisPhase], ...]) -> tuple[MeasurementLine, ...]:
    """One a minute, the last ten seconds ago."""
    first_s = NOW_S - 10 - 60 * (len(numbers) - 1)
    return tuple(
        MeasurementLine(at_s=first_s + 60 * index, phase=phase, value=f"[{number}]", number=number)
        for index, (number, phase) in enumerate(numbers)
    )


PICTURES = {"tree.svg": example, "analysis.svg": analysed}
"""The pictures and what they show, by file name."""


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, view_of in PICTURES.items():
        (folder / name).write_text(svg(view_of()), encoding="utf-8")

"""`python -m benchmarks.comparisons`: comparisons of canary and stable on simulated traffic with a known truth.

Prints the table of docs/compare.md and draws docs/images/compare.svg; 10 minutes with 2,000 comparisons of each kind. Exit code:
0 when no answer was wrong more often than alpha allows, 1 otherwise.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fewest_looks import fewest_looks
from rollouts.core.compare.stakes import Conclusion
from tests.core.compare.arms import RateArms, ValueArms, most_by_chance

ALPHA = 0.05
LOOKS_MAX = 60
FIXED_SAMPLES = 10
FIXED_FAILURES = 2
"""Samples above the threshold that the usual metric bears, of ten."""

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "compare.svg"
_COLOURS = {"as good": "#2a7f62", "worse by 4.5 points": "#b3372f", "worse by exactly the effect": "#5b7083"}


@dataclass(frozen=True, slots=True)
class Case:
    """One kind of canary.

    Args:
        worse, not_worse: whether that answer is right; at the edge neither is.
    """

    name: str
    arms: RateArms | ValueArms
    worse: bool = False
    not_worse: bool = False


def _rates(canary_bad: float, *, canary: int = 300, stable: int = 2_700, stable_bad: float = 0.005) -> RateArms:
    return RateArms(canary_requests=canary, stable_requests=stable, canary_bad=canary_bad, stable_bad=stable_bad)


def _outage(canary_bad: float) -> RateArms:
    return RateArms(
        canary_requests=300, stable_requests=2_700, canary_bad=canary_bad, stable_bad=0.005, grows_at=3, grows_by=0.05
    )


CASES = (
    Case("as good", _rates(0.005), not_worse=True),
    Case("no failures at all", _rates(0.0, stable_bad=0.0), not_worse=True),
    Case("as good, half of the requests", _rates(0.005, canary=1_500, stable=1_500), not_worse=True),
    Case("as good, a fifth of the traffic", _rates(0.005, canary=60, stable=540), not_worse=True),
    Case("as good, an outage behind both", _outage(0.005), not_worse=True),
    Case("worse by exactly the effect", _rates(0.015)),
    Case("worse by 2 points", _rates(0.025), worse=True),
    Case("worse by 4.5 points", _rates(0.05), worse=True),
    Case("worse by 4.5 points, a fifth of the traffic", _rates(0.05, canary=60, stable=540), worse=True),
    Case("worse by 4.5 points, an outage behind both", _outage(0.05), worse=True),
    Case("latency: as good", ValueArms(ratio=1.0, noise=0.03), not_worse=True),
    Case("latency: slower by exactly the effect", ValueArms(ratio=1.1)),
    Case("latency: slower by 25 %", ValueArms(ratio=1.25, noise=0.03), worse=True),
)


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one kind; shares of all comparisons.

    Args:
        looks: of each comparison, until its answer or the last look.
        fewest: looks before which no test answers half of them; None where neither answer is right.
    """

    case: Case
    runs: int
    worse: int
    not_worse: int
    looks: tuple[int, ...]
    fewest: int | None
    fixed_worse: int
    fixed_looks: float

    @property
    def kept(self) -> bool:
        """Wrong answers are as few as alpha allows, but for chance."""
        most = most_by_chance(self.runs, ALPHA)
        return (self.case.worse or self.worse <= most) and (self.case.not_worse or self.not_worse <= most)

    def __str__(self) -> str:
        undecided = self.runs - self.worse - self.not_worse
        shares = [f"{100 * each / self.runs:.1f} %" for each in (self.worse, self.not_worse, undecided)]
        fixed = f"{100 * self.fixed_worse / self.runs:.1f} % | {self.fixed_looks:g}"
        return f"| {self.case.name} | {' | '.join(shares)} | {statistics.median(self.looks):g} | {self.fewest or '–'} | {fixed} |"


def measured(case: Case, runs: int) -> Row:
    """Plays the case so many times."""
    found = [case.arms.compared(seed, alpha=ALPHA, looks_max=LOOKS_MAX) for seed in range(runs)]
    fixed = [_fixed(case.arms, random.Random(seed)) for seed in range(runs)]  # noqa: S311 - a simulation
    return Row(
        case=case,
        runs=runs,
        worse=sum(each.answer is Conclusion.WORSE for each in found),
        not_worse=sum(each.answer is Conclusion.NOT_WORSE for each in found),
        looks=tuple(each.looks for each in found),
        fewest=fewest_looks(case.arms, alpha=ALPHA, looks_max=LOOKS_MAX) if case.worse or case.not_worse else None,
        fixed_worse=sum(failed for failed, _ in fixed),
        fixed_looks=statistics.median(looks for _, looks in fixed),
    )


def _fixed(arms: RateArms | ValueArms, rng: random.Random) -> tuple[bool, int]:
    """The usual metric, `count: 10, failureLimit: 2`, with the best threshold there is: stable's true value and the effect."""
    failures = 0
    for look in range(1, FIXED_SAMPLES + 1):
        failures += _above(arms, rng, look)
        if failures > FIXED_FAILURES:
            return True, look
    return False, FIXED_SAMPLES


def _above(arms: RateArms | ValueArms, rng: random.Random, look: int) -> bool:
    match arms:
        case RateArms():
            canary, _ = arms.counts(rng, look)
            return canary.events > 0 and canary.rate > arms.stable_bad + arms.effect
        case ValueArms():
            canary_value, _ = arms.values(rng)
            return canary_value > 0.2 * (1 + arms.effect)


def draw(path: Path) -> None:
    """Draws the evidence of some comparisons, look by look."""
    import matplotlib as mpl  # noqa: PLC0415 - half a second, and only here

    mpl.use("Agg")
    mpl.rcParams.update(
        {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "rollouts"}
    )
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, panels = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    sides: tuple[tuple[str, Callable[[RateArms, int], list[float]]], ...] = (
        ("evidence that the canary is worse", lambda arms, seed: list(_path(arms, seed, worse=True))),
        ("evidence that it is not worse", lambda arms, seed: list(_path(arms, seed, worse=False))),
    )
    for axes, (title, path_of) in zip(panels, sides, strict=True):
        for case in CASES:
            for seed in range(8) if case.name in _COLOURS else ():
                assert isinstance(case.arms, RateArms)
                evidence = path_of(case.arms, seed)
                label = case.name if seed == 0 else None
                axes.plot(
                    range(len(evidence)), evidence, color=_COLOURS[case.name], linewidth=1, alpha=0.7, label=label
                )
        axes.axhline(1 / ALPHA, color="black", linewidth=0.8)
        axes.text(15, 1.2 / ALPHA, "1 / alpha = 20: answered", ha="right", fontsize=8)
        axes.set(title=title, xlabel="looks", yscale="log", ylim=(1e-2, 1e4), xlim=(0, 15))
    panels[0].legend(frameon=False, loc="lower right", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _path(arms: RateArms, seed: int, *, worse: bool) -> Iterator[float]:
    yield 1.0
    for each in arms.compared(seed, alpha=ALPHA, looks_max=15).path:
        yield math.exp(max(-20.0, min(each.log_worse if worse else each.log_not_worse, 20.0)))


def main() -> int:
    """Measures, prints, draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000, help="comparisons of each kind")
    parser.add_argument("--picture-only", action="store_true", help="only draw the picture")
    options = parser.parse_args()
    draw(PICTURE)
    if options.picture_only:
        return 0
    heads = ("canary", '"worse"', '"not worse"', "undecided", "looks", "no test before", "threshold: failed", "looks")
    sys.stdout.write(f"| {' | '.join(heads)} |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
    kept, of_all = True, list[int]()
    for case in CASES:
        row = measured(case, options.runs)
        kept = kept and row.kept
        of_all += row.looks if case.worse or case.not_worse else ()
        sys.stdout.write(f"{row}{'' if row.kept else '  <-- more than alpha'}\n")
        sys.stdout.flush()
    sys.stdout.write(
        f"where one answer is right, all kinds together: {statistics.median(of_all):g} looks in the median\n"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())

"""What each case showed: build/reports/gateways.json for programs, a table for people; and which shares chance allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.node.one_run import ROOT, Report

CONFIDENCE = 0.999
REPORT = Report(ROOT / "build" / "reports" / "gateways.json")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: what was done through which gateway and kind of route, and what became of the requests."""

    case: str  # canary, abort, or what was measured
    gateway: str
    route: str
    sent: int  # requests
    failed: int  # those that were not answered with 2xx, but for errors that the app itself answered with
    shares: Mapping[str, float]  # of the answers that the canary gave while a weight was live; both in percent
    lag_ms: Mapping[str, float]  # from a write to the route until it was found to be live: `p50`, `p99`, `max`


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 and max, rounded to whole numbers; the 99th percentile is the value that at most 1 % exceed."""
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(int(share * len(ordered)), len(ordered) - 1)]) for name, share in at.items()}


def table(cases: Sequence[Case]) -> list[str]:
    lines = [
        "| what happens | gateway | route | requests | failed | canary's share by weight | write to live, ms: p50, p99, max |",
        "|---|---|---|---:|---:|---|---|",
    ]
    for case in cases:
        shares = ", ".join(f"{weight} %: {share:g}" for weight, share in case.shares.items())
        lag = ", ".join(f"{value:g}" for value in case.lag_ms.values())
        lines.append(
            f"| {case.case} | {case.gateway} | {case.route} | {case.sent:,} | {case.failed:,} | {shares} | {lag} |"
        )
    return lines


@dataclass(frozen=True)
class Share:
    """What was counted while one weight was live."""

    percent: float  # the weight
    answers: int  # of both versions
    canary: int  # those of the canary

    @property
    def within_chance(self) -> bool:
        """The count is not among the 0.1 % that are the farthest off, half of them on each side."""
        from scipy.stats import binom  # noqa: PLC0415 - a second, which only these tests need

        low, high = binom.interval(CONFIDENCE, self.answers, self.percent / 100)
        return bool(low <= self.canary <= high)

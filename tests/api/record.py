"""What is read of good specs and templates, and what is told of bad ones, as a text that people read in a diff.

`python -m tests.api.record` writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.api.spec.parse import parse_spec
from rollouts.errors import SpecInvalid
from tests.api import analysis_specs, routing_specs, specs, workload_specs
from tests.api.specs import Bad, Spec
from tests.api.test_a_bad_spec_is_refused_in_full import EVERY_BAD
from tests.api.test_templates_become_metrics import run_of
from tests.said import said

FOLDER = Path(__file__).parent / "read"
_MATCH = {"headerName": "x-beta", "headerValue": {"exact": "yes"}}
GOOD: Mapping[str, Spec] = {
    "a canary": specs.CANARY,
    "blue-green": specs.BLUE_GREEN,
    "in place": workload_specs.IN_PLACE,
    "a template of a Deployment": workload_specs.referring(scaleDown="progressively"),
    "routes": routing_specs.routed(
        [{"setHeaderRoute": {"name": "beta", "match": [_MATCH]}}, {"setWeight": 10}, {"pause": {"duration": "10m"}}],
        managedRoutes=[{"name": "beta"}],
        gatewayAPI=routing_specs.GATEWAY,
    ),
    "everything": specs.changed(
        specs.canary(
            steps=[{"setWeight": 25}, {"pause": {"duration": 60}}, {"analysis": specs.ANALYSIS}],
            maxSurge="30%", maxUnavailable=1, stableService="cart", canaryService="cart-canary",
            canaryMetadata={"labels": {"role": "canary"}}, stableMetadata={"annotations": {"a": "b"}},
            analysis={**specs.ANALYSIS, "startingStep": 1},
        ),
        revisionHistoryLimit=3, progressDeadlineSeconds=30, progressDeadlineAbort=True, minReadySeconds=5, paused=True,
        drain={"maxRequestSeconds": 20, "timeoutSeconds": 90},
    ),
}  # fmt: skip


def _told(bad: Iterable[Bad], parse: Callable[[Any], object]) -> Iterator[str]:
    for each in bad:
        yield f"{each.name}:"
        try:
            parse(each.spec)
        except SpecInvalid as refused:
            yield from (f"  {problem.path}: {problem.message}" for problem in refused.problems)


PARTS: Mapping[str, Callable[[], Iterable[str]]] = {
    "bad-specs": lambda: _told(EVERY_BAD, parse_spec),
    "bad-templates": lambda: _told(analysis_specs.BAD, parse_template),
    "specs": lambda: (f"{name}: {said(parse_spec(spec))}" for name, spec in GOOD.items()),
    "templates": lambda: (
        f"{name}: {said(parse_run(run_of(spec)))}"
        for name, spec in analysis_specs.GOOD.items()
        if "templates" not in spec
    ),
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for part, lines in PARTS.items():
        (FOLDER / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines()))

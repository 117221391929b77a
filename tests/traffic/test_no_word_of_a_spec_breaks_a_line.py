"""Promise: whatever text a spec gives for requests and routes, what is written of it is one line, or it is refused.

Proxies' configuration is made of these texts by others, some of them line by line (CVE-2025-24514 of ingress-nginx).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.api.spec.parse import parse_spec
from rollouts.core.model.rollout import Canary
from rollouts.core.model.traffic import Feature, Split
from rollouts.core.routing.routes import routed_splits
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.traffic.codec import LEDGER, ApplyOwned, PatchUser
from tests.api.specs import canary
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.situation import Situation

ROUTING = [case for case in CASES if Feature.HEADER in case.features]
WORD = st.sampled_from(["x-a", "1", "/cart", "GET"]) | st.text(
    alphabet=st.sampled_from("a/ \n\r\t\0\u2028;}\"'\\é"), max_size=6
)


@st.composite
def _steps(draw: st.DrawFn) -> list[Mapping[str, Any]]:
    name, other = draw(WORD), draw(WORD)
    value = {draw(st.sampled_from(["exact", "prefix", "regex"])): draw(WORD)}
    kind = draw(st.sampled_from(["header", "cookie", "queryParam", "path", "method"]))
    alone = kind in ("path", "method")
    match = {kind: value} if alone else {f"{kind}Name": other, f"{kind}Value": value}
    mirrored = {kind: value} if alone else {f"{kind}s": {other: value}}
    return [
        {"setHeaderRoute": {"name": name, "match": [match]}},
        {"setMirrorRoute": {"name": f"{name}2", "match": [mirrored]}},
    ]


@pytest.mark.parametrize("case", ROUTING, ids=lambda case: case.name)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_written_is_one_line(case: Case, data: st.DataObject) -> None:
    """For each kind of condition, in a header route and in a mirror."""
    steps = data.draw(_steps())
    names = [next(iter(each.values()))["name"] for each in steps]
    routing = {"managedRoutes": [{"name": each} for each in names], "gatewayAPI": {"httpRoutes": [{"name": "cart"}]}}
    try:
        spec = parse_spec(canary(stableService="a", canaryService="b", steps=steps, trafficRouting=routing))
    except SpecInvalid:
        return
    assert isinstance(spec.strategy, Canary)
    matches, mirrors = routed_splits(spec.strategy, 0)[0], routed_splits(spec.strategy, 1)[1]
    start = Situation.of(case.provider, case.settings, case.example, case.context)

    for want in (Split(Fraction(0), matches), Split(Fraction(0), (), mirrors)):
        try:
            ops = start.plan(want)
        except Unroutable:
            continue
        patched = [each.get("value") for op in ops if isinstance(op, PatchUser) for each in op.operations]
        applied = [op.manifest for op in ops if isinstance(op, ApplyOwned)]
        assert [text for text in _texts([*patched, *applied]) if not text.isprintable()] == []


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, part in value.items():
                yield name
                if name != LEDGER:  # JSON, which escapes what it has
                    yield from _texts(part)
        case list():
            for part in value:
                yield from _texts(part)

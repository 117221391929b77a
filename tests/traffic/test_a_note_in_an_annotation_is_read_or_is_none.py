"""Promise: what somebody writes into the annotations of a route is read, counts as none, or is refused in words, at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Sticky
from rollouts.errors import Unroutable
from rollouts.traffic.codec import LEDGER, Objects
from rollouts.traffic.rules.ledger import NOTHING, Ledger, ledger_of, with_ledger
from tests.traffic.cases.all_cases import CASES
from tests.traffic.cases.case import Case
from tests.traffic.situation import Situation

DEEP = "[" * 5_000 + "]" * 5_000
TEXTS = (
    "", " ", "null", "[]", "{}", "1", "²", "٣", "9" * 5_000, "1e999", "-1", "1/0", DEEP, '{"a":' * 5_000, "NaN",
    '"\\ud800"', "a,b",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e999, 10**400, "1e1000000", "1/0", "²", "9" * 5_000, [], [[]], {}, [1, 2, 3], {"a": {}},
    "x" * 100,
)  # fmt: skip


def test_a_share_with_a_huge_exponent_is_no_share() -> None:
    """Python reads `1e1000000000` as a fraction, exactly: an annotation of a tenant stopped the controller for hours."""
    noted = with_ledger({"metadata": {}}, Ledger(sticky=Sticky("canary", "0123456789abcdef", "seed")))
    said = json.loads(noted["metadata"]["annotations"][LEDGER])

    for share in ("1e1000000", "1E+1000000", "1_0", " 1", "-1/2", "1/0", "9" * 19, 0.5, None):
        there = {"metadata": {"annotations": {LEDGER: json.dumps(said | {"share": share})}}}
        assert ledger_of(there) == NOTHING, share
    assert ledger_of(noted) != NOTHING


def spoilt(text: str) -> Iterator[str]:
    """The text, with each value of the JSON in it replaced in turn."""
    try:
        whole = json.loads(text)
    except ValueError:
        return
    for place in places(whole):
        for value in VALUES:
            yield json.dumps(put(whole, place, value))


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    yield ()
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from ((key, *rest) for rest in places(each))


def put(value: Any, place: tuple[str | int, ...], other: Any) -> Any:
    if not place:
        return other
    copy = value.copy()
    copy[place[0]] = put(value[place[0]], place[1:], other)
    return copy


def hostile(objects: Objects) -> Iterator[tuple[str, Objects]]:
    """The objects with each of their annotations replaced in turn, and where."""
    for field, there in (("user", objects.user), ("owned", objects.owned or {})):
        annotations = there.get("metadata", {}).get("annotations") or {}
        for name, text in annotations.items():
            for each in (*TEXTS, *spoilt(text)):
                metadata = {**there["metadata"], "annotations": {**annotations, name: each}}
                yield f"{name}={each}", replace(objects, **{field: {**there, "metadata": metadata}})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@settings(max_examples=2, deadline=None, phases=(Phase.generate,), suppress_health_check=tuple(HealthCheck))
@given(data=st.data())
def test_no_annotation_ends_a_pass(case: Case, data: st.DataObject) -> None:
    """An error that is not Unroutable is a crash of each pass of the Rollout, which says nothing of the annotation."""
    broken = []
    now = Situation.of(case.provider, case.settings, data.draw(case.users), case.context)
    for want in data.draw(case.wants()):
        with suppress(Unroutable):
            now = now.managed(want)
    for place, objects in hostile(now.objects):
        there = replace(now, objects=objects)
        for ask in (there.read, there.release, partial(there.plan, want)):
            try:
                ask()
            except Unroutable:
                pass
            except Exception as error:  # which it is does not matter: all of them end a pass
                broken.append(f"{place}: {error!r}"[:300])
    assert broken == []

"""Promise: a spec with so many values that reading it would hold up all other Rollouts is refused unread, with what to do."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rollouts.api.spec.parse import parse_spec
from rollouts.errors import SpecInvalid
from rollouts.objects import VALUES_MAX, has_more_parts, has_more_values
from tests.api.specs import canary
from tests.cluster.test_an_unreadable_object_harms_no_other import value_of
from tests.hostile.work import lines_of

MIB = 1_000_000

HOSTILE: dict[str, Callable[[int], Any]] = {
    "lists": lambda size: [[]] * (size // 3),
    "levels": lambda size: [json.loads("[" * 60 + "]" * 60)] * (size // 121),
    "numbers": lambda size: [1] * (size // 2),
    "fields": lambda size: {f"{each:05x}": 1 for each in range(size // 10)},
    "variables": lambda size: [{"name": f"A{each}", "value": "v"} for each in range(size // 30)],
}
"""What 1 MiB of a pod template can hold; it took up to 0.7 s to read."""


def with_part(value: Any) -> dict[str, Any]:
    spec: dict[str, Any] = copy.deepcopy(dict(canary()))
    spec["template"]["spec"]["x"] = value
    return spec


@pytest.mark.parametrize("name", HOSTILE)
def test_a_mebibyte_of_values_is_refused_unread(name: str) -> None:
    """By its commas and brackets, which are not even all looked at."""
    data = json.dumps(with_part(HOSTILE[name](MIB)), separators=(",", ":")).encode()

    told = r"^spec: has more than 10,000 fields and entries of lists, .* in a ConfigMap"

    def read() -> None:
        with pytest.raises(SpecInvalid, match=told):
            parse_spec(data)

    assert lines_of(read) < 100


def test_one_validator_is_built_for_all_specs() -> None:
    """A model that is called for what a spec leaves out gets one of its own: 0.3 MiB for a strategy, in each controller."""
    program = """
from rollouts.api.spec.parse import WorkloadTemplate, parse_spec
from rollouts.api.v1alpha1.wire import Wire
from tests.api.specs import BLUE_GREEN, CANARY
from tests.api.workload_specs import IN_PLACE, in_place

taken = WorkloadTemplate(CANARY["template"], CANARY["selector"])
for spec in (CANARY, BLUE_GREEN):
    parse_spec(spec)
for spec in (IN_PLACE, in_place(strategy={"blueGreen": {"activeService": "cart"}})):
    parse_spec(spec, taken)
models = [Wire]
for model in models:  # grows meanwhile
    models += model.__subclasses__()
print(sorted(model.__name__ for model in models if model.__pydantic_complete__))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (ran.stdout, ran.stderr) == ("['RolloutSpecWire']\n", "")


def test_lint_refuses_it_too() -> None:
    """A file is read before the controller sees it."""
    with pytest.raises(SpecInvalid, match="more than 10,000 fields"):
        parse_spec(with_part(HOSTILE["numbers"](MIB)))


def test_one_long_text_is_one_value() -> None:
    """A configuration in a variable may have as many commas and brackets as it likes."""
    spec = with_part('a,[{"\\,' * 100_000)

    assert parse_spec(json.dumps(spec).encode()).template_json == parse_spec(spec).template_json


def test_values_are_counted_as_they_are() -> None:
    """By the bytes and by what was read of them: a field's name is none, and a text that looks like JSON is one."""
    rng = random.Random(3)  # noqa: S311 - a test's
    for _ in range(1_000):
        value = [value_of(rng, levels=4) for _ in range(rng.randrange(6))]
        data = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()
        marks, parts = _marks(value), _parts(value)

        for most in range(max(0, marks - 2), marks + 3):
            assert has_more_values(data, most=most) == (marks > most)
        for most in range(max(0, parts - 2), parts + 3):
            assert has_more_parts(value, most=most) == (parts > most)
        assert parts - 1 <= marks <= 2 * parts + 1
    assert VALUES_MAX > 1_000  # of a real template: a hundred containers with ten fields


def _marks(value: Any) -> int:
    """Opening brackets, and a comma between two."""
    parts = _inside(value)
    return 0 if parts is None else 1 + max(0, len(parts) - 1) + sum(map(_marks, parts))


def _parts(value: Any) -> int:
    parts = _inside(value) or []
    return len(parts) + sum(map(_parts, parts))


def _inside(value: Any) -> list[Any] | None:
    """The values of a list or an object; None for what is neither."""
    return [*(value.values() if isinstance(value, dict) else value)] if isinstance(value, dict | list) else None

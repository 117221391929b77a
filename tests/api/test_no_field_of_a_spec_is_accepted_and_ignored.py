"""Promise: a field of a spec that is accepted changes what the core gets. A field that was forgotten on the way fails here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rollouts.api.schema import structural
from rollouts.api.spec.parse import parse_spec
from rollouts.api.v1alpha1.rollout import RolloutSpecWire
from rollouts.core.model.rollout import RolloutSpec
from rollouts.errors import SpecInvalid
from tests.api.specs import BLUE_GREEN, Spec, canary, changed

_ROUTED = canary(canaryService="cart-canary", stableService="cart", trafficRouting={"nginx": {"stableIngress": "cart"}})
_PARTS: tuple[tuple[Spec, str], ...] = (
    *(
        (BLUE_GREEN, part)
        for part in ("", "strategy__blueGreen", "drain", "configVersioning", "history", "autoscaling")
    ),
    (BLUE_GREEN, "analysis"),
    (BLUE_GREEN, "rollbackWindow"),
    (_ROUTED, "strategy__canary"),
    (_ROUTED, "strategy__canary__trafficRouting"),
)
"""A spec, and an object in it whose scalar fields are set, one after the other."""


def _fields() -> Iterator[Any]:
    schema = structural(RolloutSpecWire)
    for spec, part in _PARTS:
        fields = schema
        for name in filter(None, part.split("__")):
            fields = fields["properties"][name]
        for name, field in fields["properties"].items():
            path = f"{part}__{name}" if part else name
            if field.get("type") not in ("object", "array"):
                yield pytest.param(spec, path, field, id=path)


def _values(field: Any) -> list[Any]:
    if "enum" in field:
        return list(field["enum"])
    if field.get("format") == "date-time":
        return ["2026-01-31T12:00:00Z"]
    values: dict[str, list[Any]] = {"boolean": [True, False], "string": ["other"]}
    return values.get(field.get("type"), [7, 50])


def _read(spec: Spec) -> RolloutSpec | None:
    try:
        return parse_spec(spec)
    except SpecInvalid:
        return None


@pytest.mark.parametrize(("spec", "path", "field"), list(_fields()))
def test_a_field_changes_what_the_core_gets(spec: Spec, path: str, field: Any) -> None:
    """An API server keeps what the CRD has, so nobody would be told that the controller does not read it."""
    read = [found for value in _values(field) if (found := _read(changed(spec, **{path: value}))) is not None]
    without = _read(changed(spec, **{path: None}))

    assert not read or any(found != without for found in read)

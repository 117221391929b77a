"""Promise: no text that somebody writes into a spec makes a status, an Event or a condition as long as they like.

All fields are walked, so a new one is held to this by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import Struct
from msgspec.structs import fields, replace

from rollouts.api.schema import crd_manifests
from rollouts.api.status.wire import status_to_wire
from rollouts.core.model.declared import MESSAGE_MAX
from rollouts.core.model.status import RolloutStatus
from rollouts.objects import Manifest
from tests.api.test_status_survives_the_wire import STATUSES

TEXT_MAX = 32_768
"""The longest field of a spec, as the longest message of a condition."""

OF_THE_POD_TEMPLATE = ("spec.template.", "spec.templates[].template.")
"""Its texts are Kubernetes' own to bound. No status repeats one but names of containers, which the API server bounds."""

CRDS = {each["spec"]["names"]["kind"]: each for each in crd_manifests()}


def open_ended(schema: Manifest, path: str) -> Iterator[str]:
    """The texts and lists below a schema that may be of any length."""
    if schema.get("type") == "string" and not (
        0 < schema.get("maxLength", 0) <= TEXT_MAX or schema.get("enum") or schema.get("format")
    ):
        yield path
    if schema.get("type") == "array" and not schema.get("maxItems"):
        yield f"{path}[]"
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        if not schema.get("maxProperties"):
            yield f"{path}{{}}"
        yield from open_ended(values, f"{path}{{}}")
    for name, part in (schema.get("properties") or {}).items():
        yield from open_ended(part, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from open_ended(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", CRDS)
def test_every_text_and_every_list_of_a_spec_has_a_length(kind: str) -> None:
    """What is copied from a spec into a message is as long as its field at the most."""
    spec = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found = {each for each in open_ended(spec, "spec") if not each.startswith(OF_THE_POD_TEMPLATE)}

    assert found == set()


LONG = "é" * 100_000

NAMES = {
    # Hashes of ours, and names of the API server's.
    "status.abort.revision", "status.blueGreen.activeRevision", "status.blueGreen.previewRevision",
    "status.currentRevision", "status.stableRevision", "status.strategyHash", "status.history[].revision",
    "status.scaleDowns[].revision", "status.autoscaling.use[].revision", "status.analyses[].run",
    "status.analyses[].specHash", "status.analyses[].uid", "status.commands[].revision", "status.commands[].target",
    "status.commands[].strategyHash", "status.commands[].value",
    # Cut where annotations and owners are read.
    "status.authors[].by", "status.history[].authors[].by", "status.commands[].by",
    "status.autoscaling.autoscalers[].name", "status.autoscaling.autoscalers[].owner",
    # Of the spec; types of conditions are ours.
    "status.autoscaling.container", "status.autoscaling.resource", "status.drain.preStop.containers[]",
    "status.drain.cutovers[].from", "status.drain.cutovers[].service", "status.drain.cutovers[].to",
    "status.givenBack[].route", "status.traffic.desired.routes[]", "status.traffic.observed.routes[]",
    "status.traffic.desired.experiments[].service", "status.traffic.observed.experiments[].service",
    *(f"status.routesElsewhere[].{each}" for each in ("kind", "name", "namespace", "router")),
    "status.selector", "status.conditions[].type",
}  # fmt: skip
"""Fields of a status that are written as they are: names and hashes, which something else has bounded."""


def planted(value: Any) -> Any:
    match value:
        case Enum():
            return value
        case str():
            return LONG
        case Struct():
            return replace(value, **{each.name: planted(getattr(value, each.name)) for each in fields(value)})
        case tuple():
            return tuple(map(planted, value))
        case Mapping():
            return {name: planted(part) for name, part in value.items()}
        case _:
            return value


def long_in(wire: Any, path: str) -> Iterator[str]:
    """The places of texts that are longer than a message may be."""
    match wire:
        case str() if len(wire) > MESSAGE_MAX:
            yield path
        case list():
            for each in wire:
                yield from long_in(each, f"{path}[]")
        case dict():
            for name, part in wire.items():
                yield from long_in(part, f"{path}.{name}")
        case _:
            pass


@given(STATUSES)
@settings(max_examples=200, deadline=None)
def test_every_message_of_a_status_is_cut(status: RolloutStatus) -> None:
    """A condition takes 32,768 characters, and a status that is refused for one more is written no more."""
    assert set(long_in(status_to_wire(planted(status)), "status")) <= NAMES

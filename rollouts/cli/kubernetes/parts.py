"""Reads manifests whose fields may hold anything: what has another type counts as absent, which is a problem of its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.cli.kubernetes.schema import Problem
from rollouts.objects import Kind

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
PORTS = range(1, 65_536)


def is_a(manifest: Mapping[str, Any], kind: Kind) -> bool:
    """Whether an object is of this kind, in the version that this program knows."""
    return (manifest.get("apiVersion"), manifest.get("kind")) == (kind.api_version, kind.kind)


def entries(value: object) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of a list with their indexes; none for anything else."""
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict):
            yield index, entry


def entries_at(holder: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects of a list in an object, each with its path; none if it is no list."""
    for index, entry in entries(holder.get(name)):
        yield f"{path}.{name}[{index}]", entry


def number(value: object) -> int | float | None:
    """The number; None for anything else."""
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def label_problem(value: object, path: str) -> Iterator[Problem]:
    """What is wrong with a name of a container, a volume or a Service's port."""
    if isinstance(value, str) and value and not _LABEL.fullmatch(value):
        yield path, f"must be lower-case letters, digits and '-', 63 at most, not {value!r}"


def port_problem(value: object, path: str) -> Iterator[Problem]:
    """What is wrong with a port's number or name."""
    if isinstance(value, str):
        yield from port_name_problem(value, path)
    elif (found := number(value)) is not None and found not in PORTS:
        yield path, f"must be a port from 1 to 65535, not {found}"


def port_name_problem(value: object, path: str) -> Iterator[Problem]:
    """What is wrong with a port's name."""
    if isinstance(value, str) and value.isdigit():
        yield path, "must be a number without quotes, or the name of a port; remove the quotes"
    elif isinstance(value, str) and not _PORT_NAME.fullmatch(value):
        yield path, f"a port's name is lower-case letters, digits and single '-', 15 at most, not {value!r}"


def repeated(values: Iterator[tuple[str, object]]) -> Iterator[Problem]:
    """Values that come a second time, with the path where they do."""
    seen: dict[object, str] = {}
    for path, value in values:
        if not isinstance(value, str | int | tuple) or value == "":
            continue
        if value in seen:
            yield path, f"is the same as {seen[value]}; change one of them"
        seen.setdefault(value, path)

"""The decisions of two trees about the same Snapshots: recorded by one, compared by the other.

`python -m benchmarks.decisions record [--every N] FOLDER COMMAND…` runs a command, such as pytest, and keeps what `decide`,
`decide_invalid` and `decide_run` were given and answered, of each N-th call, in it and in all Python processes below it.
`python -m benchmarks.decisions compare FOLDER` asks this tree about all of them, and prints what differs: then it ends with 1.

What was renamed since stands in `RENAMED`. A field that has its default is left out, so a new one needs no line.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gzip
import importlib
import os
import pkgutil
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from enum import Enum
from fractions import Fraction
from hashlib import blake2b
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

import rollouts.core
from rollouts.api.status.analysis_run import run_status_to_wire
from rollouts.api.status.wire import status_to_wire
from rollouts.core.analysis.measurement import RunStatus
from rollouts.core.model.status import RolloutStatus

ROOT = Path(__file__).parent.parent
FUNCTIONS = {
    "decide": "rollouts.core.decide",
    "decide_invalid": "rollouts.core.decide",
    "decide_run": "rollouts.core.analysis.run",
}
RENAMED: Mapping[str, tuple[str, Mapping[str, str | None]]] = {
    "Command": ("Command", {"taken_off": "annotation_removed"}),
    "DeleteConfigCopy": ("DeleteConfigCopy", {"kind": None}),  # was always CONFIG_MAP
    "RouteSeen": ("RouteSeen", {"anew": "rewrite_because"}),
    "SetTraffic": ("SetTraffic", {"anew": "rewrite"}),
}
"""By class as it was: its name now, and those of its fields that changed; None for a field that is gone."""

STEPS = 9  # what a wire status is written for; any number will do
SHOWN = 20


def record(folder: Path, every: int) -> None:
    """Makes this process record; called by each one as it starts."""
    chance = random.Random(os.getpid())  # noqa: S311 - a sample
    met: set[bytes] = set()
    out: gzip.GzipFile

    def open_file() -> None:  # of each process its own, of a fork too: two that write to one file spoil it
        nonlocal out
        name = f"{os.getpid()}-{chance.getrandbits(32):08x}.jsonl.gz"
        out = gzip.open(folder / name, "ab", compresslevel=3)  # noqa: SIM115

    open_file()
    os.register_at_fork(after_in_child=open_file)

    def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            answer = function(*args, **kwargs)
            if chance.randrange(every) == 0:
                asked = {"function": name, "args": plain(args), "kwargs": plain(kwargs)}
                key = blake2b(msgspec.json.encode(asked), digest_size=12).digest()
                if key not in met:
                    met.add(key)
                    wire = [_wire(each) for each in chain(args, kwargs.values())]
                    out.write(msgspec.json.encode({**asked, "wire": wire, "answer": said(answer)}) + b"\n")
                    out.flush()
            return answer

        return recorded

    for name, module in FUNCTIONS.items():
        there = importlib.import_module(module)
        setattr(there, name, recording(name, getattr(there, name)))


def said(answer: Any) -> Any:
    """A decision, with its status as it would be written."""
    return {**plain(answer), "status": _wire(answer)}


def _wire(value: Any) -> Any:
    """The status in a value as it is written, None without one."""
    status = getattr(value, "status", value)
    if isinstance(status, RolloutStatus):
        return status_to_wire(status, step_count=STEPS)
    return run_status_to_wire(status) if isinstance(status, RunStatus) else None


def plain(value: Any) -> Any:
    """The value in JSON: classes by their names, without fields that have their default."""
    match value:
        case Enum():
            return {"enum": type(value).__name__, "name": value.name}
        case float() if not isfinite(value):
            return {"float": repr(value)}
        case None | bool() | int() | float() | str():
            return value
        case Fraction():
            return {"fraction": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case tuple() | list():
            return [plain(each) for each in value]
        case set() | frozenset():
            return {"set": sorted(map(plain, value), key=repr)}
        case Mapping():
            return {"map": [[plain(key), plain(part)] for key, part in value.items()]}
    defaults = _fields(type(value))  # type: ignore[arg-type]
    fields = {name: getattr(value, name) for name, default in defaults if getattr(value, name) != default()}
    return {"class": type(value).__name__, **{name: plain(part) for name, part in fields.items()}}


@functools.cache
def _fields(of: type[Any]) -> tuple[tuple[str, Callable[[], Any]], ...]:
    """Names of a class's fields, each with a function that gives its default, or something that equals nothing."""
    missing = (msgspec.NODEFAULT, dataclasses.MISSING)
    found = msgspec.structs.fields(of) if issubclass(of, msgspec.Struct) else dataclasses.fields(of)

    def default(each: Any) -> Callable[[], Any]:
        if each.default_factory not in missing:
            return each.default_factory  # type: ignore[no-any-return]
        return lambda: object() if each.default in missing else each.default

    return tuple((each.name, default(each)) for each in found)


def value_of(there: Any) -> Any:
    """What `plain` made the JSON of, as this tree's classes."""
    fields: Any
    match there:
        case list():
            return tuple(value_of(each) for each in there)
        case {"enum": name, "name": member}:
            return _classes()[name][member]
        case {"float": text}:
            return float(text)
        case {"fraction": text}:
            return Fraction(text)
        case {"bytes": text}:
            return bytes.fromhex(text)
        case {"set": members}:
            return frozenset(map(value_of, members))
        case {"map": pairs}:
            return {value_of(key): value_of(part) for key, part in pairs}
        case {"class": name, **fields}:
            given = {str(field): value_of(part) for field, part in fields.items()}
            return _classes()[name](**given)
        case _:
            return there


def renamed(there: Any) -> Any:
    """The JSON in the names of this tree."""
    was: Any
    fields: Any
    match there:
        case list():
            return [renamed(each) for each in there]
        case {"class": was, **fields}:
            name, names = RENAMED.get(was, (was, {}))
            now = {names.get(field, field): renamed(part) for field, part in fields.items()}
            return {"class": name, **{str(field): part for field, part in now.items() if field is not None}}
        case {"enum": was, "name": member}:
            name, names = RENAMED.get(was, (was, {}))
            return {"enum": name, "name": names.get(member, member)}
        case dict():
            return {key: renamed(part) for key, part in there.items()}
        case _:
            return there


@functools.cache
def _classes() -> Mapping[str, Any]:
    names = [each.name for each in pkgutil.walk_packages(rollouts.core.__path__, "rollouts.core.")]
    modules = [importlib.import_module(name) for name in (*names, "rollouts.errors")]
    found = (part for module in modules for part in vars(module).values() if isinstance(part, type))
    return {each.__name__: each for each in found if each.__module__.startswith("rollouts.")}


def compared(file: Path) -> tuple[int, list[str]]:
    """How many records a file has, and how this tree's answers differ."""
    differences: list[str] = []
    count = 0
    for count, line in enumerate(_lines(file), start=1):
        recorded = msgspec.json.decode(line)
        args, kwargs = value_of(renamed(recorded["args"])), value_of(renamed(recorded["kwargs"]))
        decided = getattr(importlib.import_module(FUNCTIONS[recorded["function"]]), recorded["function"])
        wire = [_wire(each) for each in chain(args, kwargs.values())]
        now = msgspec.json.decode(msgspec.json.encode({"answer": said(decided(*args, **kwargs)), "wire": wire}))
        for name in ("wire", "answer"):
            differences += (f"{file.name}:{count} {name}{each}" for each in unlike(renamed(recorded[name]), now[name]))
    return count, differences


def _lines(file: Path) -> Iterator[bytes]:
    """Whole lines: a process that was killed leaves half of one."""
    with gzip.open(file) as lines:
        try:
            yield from (line for line in lines if line.endswith(b"\n"))
        except EOFError:
            return


def unlike(was: Any, now: Any, place: str = "") -> Iterator[str]:
    """Where two values of JSON differ, and how."""
    if isinstance(was, dict) and isinstance(now, dict) and was.get("class") == now.get("class"):
        for name in was.keys() | now.keys():
            yield from unlike(was.get(name), now.get(name), f"{place}.{name}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from unlike(one, other, f"{place}[{index}]")
    elif was != now or type(was) is not type(now):
        yield f"{place}: {was!r:.200} became {now!r:.200}"


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions", description=__doc__)
    parser.add_argument("verb", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="record each N-th call, at random")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    if options.verb == "record":
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as started:
            start = (
                f"import pathlib, benchmarks.decisions as d\nd.record(pathlib.Path({str(folder)!r}), {options.every})\n"
            )
            Path(started, "sitecustomize.py").write_text(start)
            path = os.pathsep.join((started, str(ROOT), os.environ.get("PYTHONPATH", "")))
            return subprocess.run(options.command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
    total, shown = 0, 0
    with ProcessPoolExecutor() as pool:
        for count, differences in pool.map(compared, sorted(folder.glob("*.jsonl.gz"))):
            total += count
            for each in differences[: max(0, SHOWN - shown)]:
                print(each)
            shown += len(differences)
    print(f"{total:,} records, {shown:,} differences")
    return 1 if shown or not total else 0


if __name__ == "__main__":
    sys.exit(main())

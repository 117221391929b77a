"""Every regular expression of the package, the ways in which it is used, and texts that make it try most.

A pattern takes long where a part that repeats can match the same text in two ways, or where a search begins again at each
character of a long run. Texts that show it follow from the pattern: what leads to each repetition, what it repeats, many times,
and something that does not fit.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rollouts

op: Any = importlib.import_module("re._constants")  # the parser of patterns has no types
parser: Any = importlib.import_module("re._parser")

ROOT = Path(rollouts.__file__).parent
MISFITS = ("\x00", "a", "0", "'", "")


REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)


@dataclass(frozen=True)
class Used:
    """A pattern and how the package uses it."""

    module: str
    name: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    @property
    def where(self) -> str:
        return f"{self.module}.{self.name}"


def used_patterns() -> list[Used]:
    """The patterns that modules of the package keep; the simulated cluster reads only what tests say."""
    found = []
    for info in pkgutil.walk_packages(rollouts.__path__, "rollouts."):
        if info.name.startswith("rollouts.sim") or info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        kept = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
        if kept and module.__file__:
            methods = _methods(ast.parse(Path(module.__file__).read_text(encoding="utf-8")))
            found += [Used(info.name, name, value, frozenset(methods.get(name, ()))) for name, value in kept.items()]
    return found


def _methods(tree: ast.Module) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def hostile_texts(pattern: str, flags: int, size: int) -> Iterator[str]:
    """Texts of about `size` characters, from the pattern's own parts."""
    tree = parser.parse(pattern, flags & ~re.DEBUG)
    leads = {"", *_leads(list(tree), "")}
    bodies = {each for each in _bodies(list(tree)) if each}
    for body in sorted(bodies):
        run = body * (size // len(body) + 1)
        for lead in sorted(leads, key=len)[:12]:
            for misfit in MISFITS:
                yield lead + run[:size] + misfit
    for lead in leads - {""}:  # where a search begins again at each of them
        yield (lead * (size // len(lead) + 1))[:size] + "\x00"
    for one in sorted(bodies)[:8]:
        for other in sorted(bodies)[:8]:
            if one != other:
                half = (one + other) * (size // len(one + other) + 1)
                yield half + "\x00"
                yield one * (size // 2 // len(one)) + other * (size // 2 // len(other)) + "\x00"


def _leads(items: list[Any], before: str) -> Iterator[str]:
    """What leads to each part that repeats: the shortest text for what stands before it."""
    for kind, value in items:
        if kind in REPEATS:
            yield before
            yield from _leads(list(value[2]), before)
        elif kind is op.SUBPATTERN:
            yield from _leads(list(value[3]), before)
        elif kind is op.BRANCH:
            for each in value[1]:
                yield from _leads(list(each), before)
        before += _shortest([(kind, value)])


def _bodies(items: list[Any]) -> Iterator[str]:
    """What each repetition repeats: each sample of a single character, and the shortest text of a longer part."""
    for kind, value in items:
        if kind in REPEATS:
            inner = list(value[2])
            if len(inner) == 1 and inner[0][0] in (op.IN, op.LITERAL, op.NOT_LITERAL, op.ANY):
                yield from _samples(*inner[0])
            else:
                yield _shortest(inner)
                yield from _bodies(inner)
        elif kind is op.SUBPATTERN:
            yield from _bodies(list(value[3]))
            yield _shortest(list(value[3]))
        elif kind is op.BRANCH:
            for each in value[1]:
                yield from _bodies(list(each))
                yield _shortest(list(each))
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            yield from _bodies(list(value[1]))
        elif kind is op.ATOMIC_GROUP:
            yield from _bodies(list(value))
        elif kind in (op.LITERAL, op.IN):
            yield from list(_samples(kind, value))[:2]


def _shortest(items: list[Any]) -> str:
    text = ""
    for kind, value in items:
        if kind in REPEATS:
            text += _shortest(list(value[2])) * value[0]
        elif kind is op.SUBPATTERN:
            text += _shortest(list(value[3]))
        elif kind is op.BRANCH:
            text += _shortest(list(value[1][0]))
        elif kind is op.ATOMIC_GROUP:
            text += _shortest(list(value))
        elif kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            text += next(_samples(kind, value), "")
    return text


def _samples(kind: Any, value: Any) -> Iterator[str]:
    """Characters that a single-character part matches."""
    if kind is op.LITERAL:
        yield chr(value)
        return
    test: Callable[[str], bool] = {
        op.NOT_LITERAL: lambda each: ord(each) != value,
        op.ANY: lambda each: each != "\n",
        op.IN: lambda each: _is_in(each, value),
    }[kind]
    yield from [each for each in "a0 -.\"'\\/A_:,(`[\t\n*é" if test(each)][:6]


def _is_in(character: str, value: Any) -> bool:
    negated, found = False, False
    for kind, one in value:
        if kind is op.NEGATE:
            negated = True
        elif kind is op.LITERAL:
            found |= ord(character) == one
        elif kind is op.RANGE:
            found |= one[0] <= ord(character) <= one[1]
        elif kind is op.CATEGORY:
            name = str(one).rpartition("_")[2].lower()
            is_of: Callable[[str], bool] = {
                "digit": str.isdigit,
                "space": str.isspace,
                "word": lambda each: each.isalnum() or each == "_",
            }[name]
            found |= is_of(character) != ("NOT" in str(one))
    return found != negated

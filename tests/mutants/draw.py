"""Small changes of the product, drawn by a seed: those of mutmut, and conditions that lose a part.

Texts are left alone, as most are for people. So are annotations and decorators, which are read once, when a module is imported.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import libcst as cst
from mutmut.mutation.mutators import mutation_operators, operator_string

from tests.architecture.tracked import ROOT


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one file.

    Args:
        path: below the project's folder.
        line: the first that differs.
        before, after: that line.
        code: the whole file, changed.
    """

    path: Path
    line: int
    before: str
    after: str
    code: str


def drawn(rooms: list[str], *, count: int, seed: int) -> list[Mutant]:
    """So many mutants of the modules in these rooms, from each by its length; the same ones for one seed.

    Args:
        rooms: folders or files below rollouts/, such as `core` or `api/spec`.

    Raises: SystemExit: there is no such room.
    """
    rng = random.Random(seed)  # noqa: S311 - no secret
    files = sorted({path for room in rooms for path in _modules(ROOT / "rollouts" / room)})
    lengths = [path.stat().st_size for path in files]
    found: dict[tuple[Path, str], Mutant] = {}
    while len(found) < count:
        (path,) = rng.choices(files, weights=lengths)
        module, changes = _changes(path)
        if changes:
            mutant = _mutant(path, module, *rng.choice(changes))
            found.setdefault((path, mutant.code), mutant)
    return list(found.values())


def _modules(place: Path) -> list[Path]:
    found = [place] if place.is_file() else sorted(place.rglob("*.py"))
    if not found:
        raise SystemExit(f"{place} has no module: name a room below rollouts/, such as core or api/spec")
    return found


@cache
def _changes(path: Path) -> tuple[cst.Module, list[tuple[cst.CSTNode, cst.CSTNode]]]:
    """The module, and each node that can be changed with what takes its place."""
    module = cst.parse_module(path.read_text())
    visitor = _Visitor()
    module.visit(visitor)
    return module, visitor.changes


def _mutant(path: Path, module: cst.Module, node: cst.CSTNode, instead: cst.CSTNode) -> Mutant:
    changed = module.deep_replace(node, instead)
    assert isinstance(changed, cst.Module)
    lines = module.code.splitlines(), changed.code.splitlines()
    pairs = enumerate(zip(*lines, strict=False), 1)
    number, (before, after) = next(((number, pair) for number, pair in pairs if pair[0] != pair[1]), (1, ("", "")))
    return Mutant(path.relative_to(ROOT), number, before.strip(), after.strip(), changed.code)


class _Visitor(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.changes: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        self._left_alone: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        match node:
            case _ if node in self._left_alone:
                return False
            case cst.Annotation() | cst.Decorator() | cst.Import() | cst.ImportFrom() | cst.Assert():
                return False
            case cst.Raise(exc=cst.Call(args=arguments)) | cst.ClassDef(keywords=arguments):  # words, and `frozen=True`
                self._left_alone.update(arguments)
            case cst.AnnAssign(annotation=cst.Annotation(cst.Name("TypeAlias"))):
                return False
        self.changes += [(node, instead) for instead in _instead_of(node) if not instead.deep_equals(node)]
        return True


def _instead_of(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for kind, operator in (*mutation_operators, (cst.BooleanOperation, _one_side)):
        if isinstance(node, kind) and operator is not operator_string:
            yield from operator(node)


def _one_side(node: Any) -> Iterable[cst.CSTNode]:
    """`and` and `or` with one of their sides: the condition that somebody forgot."""
    return node.left, node.right

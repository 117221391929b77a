"""Promise: JSON and YAML that somebody else wrote end nothing by their depth or their bytes: who reads them is ready for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "rollouts"

OWN = {
    "api/spec/experiment_step.py": "canonical JSON of our own, and its caller catches what depth raises",
    "api/schema.py": "the package's own schemas",
    "api/spec/analysis/run.py": "inside a try with RecursionError: JSON that the line before wrote",
    "cli/kubernetes/schema.py": "a file of the package",
    "controller/analysis/brought_templates.py": "files that the administrator's chart wrote",
    "controller/facts/off_loop.py": "the JSON of a declaration that was read",
    "manifests/analysis_run.py": "spec_json, which the observer wrote",
    "manifests/experiment.py": "template_json and spec_json, as in manifests/workload.py and analysis_run.py",
    "manifests/in_place.py": "selector_json, as in manifests/workload.py; the note is read inside a try",
    "manifests/workload.py": "template_json and selector_json, JSON of what was read",
    "traffic/declared/header_template.py": "JSON that the line before wrote",
}
"""Files that read what we wrote ourselves, from values that had been read before."""

CAUGHT_BY_CALLER = {
    "probes/envoy.py": "probes/planes.py",
    "probes/envoy_drain.py": "probes/planes.py",
    "probes/traefik.py": "probes/planes.py",
}
"""Readers whose one caller is ready for what they raise."""

_READERS = frozenset({"json.loads", "yaml.safe_load", "yaml.load", "msgspec.json.decode"})
_DEPTH = frozenset({"RecursionError", "Exception"})
_BYTES = frozenset({"ValueError", "UnicodeDecodeError", "UnicodeError", "Exception"})
"""Of a byte that is no UTF-8: `msgspec.DecodeError` is not it."""


def unguarded(
    tree: ast.AST,
    *,
    caught: frozenset[str] = frozenset(),
    tuples: dict[str, frozenset[str]] | None = None,
    decoders: frozenset[str] = frozenset(),
) -> Iterator[int]:
    """Lines that call a reader outside a `try` that is ready for depth and for bytes."""
    if isinstance(tree, ast.Module):
        tuples = {
            ast.unparse(target): _named(each.value)
            for each in tree.body
            if isinstance(each, ast.Assign)
            for target in each.targets
        }
        decoders = frozenset(_decoders(tree))
    if isinstance(tree, ast.Call):
        called = ast.unparse(tree.func)
        ready = caught & _DEPTH and (caught & _BYTES or called.startswith("yaml"))
        if called in _READERS | decoders and not ready:
            yield tree.lineno
    if isinstance(tree, ast.Try):
        names = frozenset[str]().union(*(_named(each.type) for each in tree.handlers if each.type))
        names = names.union(*((tuples or {}).get(each, frozenset()) for each in names))
        for each in tree.body:
            yield from unguarded(each, caught=caught | names, tuples=tuples, decoders=decoders)
        for outer in (*tree.handlers, *tree.orelse, *tree.finalbody):
            yield from unguarded(outer, caught=caught, tuples=tuples, decoders=decoders)
        return
    for child in ast.iter_child_nodes(tree):
        yield from unguarded(child, caught=caught, tuples=tuples, decoders=decoders)


def _named(node: ast.AST) -> frozenset[str]:
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _decoders(tree: ast.Module) -> Iterator[str]:
    """`NAME.decode` of each decoder of msgspec's that a module has."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign) and "msgspec.json.Decoder(" in ast.unparse(each.value):
            yield from (f"{ast.unparse(target)}.decode" for target in each.targets)


def found_in(name: str) -> set[str]:
    return {f"{name}:{line}" for line in unguarded(ast.parse((ROOT / name).read_text(encoding="utf-8")))}


def test_each_reader_is_ready_for_depth_and_for_bytes() -> None:
    """3 KB of brackets are a RecursionError, one byte is a UnicodeDecodeError: no `except msgspec.DecodeError` catches them."""
    names = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py")}
    names = {each for each in names if not each.startswith("sim/")} - OWN.keys() - CAUGHT_BY_CALLER.keys()
    found = set[str]().union(*map(found_in, names))

    # `manifest_from`: its ValueError, and what it made shallow.
    assert len(found) == 2 and all(each.startswith("cluster/decoding.py") for each in found)


def test_the_list_names_only_files_that_read() -> None:
    """An entry that is left over would hide the next reader in that file."""
    for name in OWN:
        assert any(reader in (ROOT / name).read_text(encoding="utf-8") for reader in _READERS), name
    for name in CAUGHT_BY_CALLER:
        assert found_in(name), name

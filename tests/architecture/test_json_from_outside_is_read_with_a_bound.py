"""Promise: JSON and YAML that somebody else wrote end nothing by their depth: whoever reads them is ready for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "rollouts"

OWN = {
    "api/schema.py": "the package's own schemas",
    "api/spec/analysis/run.py": "inside a try with RecursionError: JSON that the line before wrote",
    "cli/kubernetes/schema.py": "a file of the package",
    "cli/plan/report.py": "template_json, canonical JSON of a template that was read",
    "controller/facts/off_loop.py": "the JSON of a declaration that was read",
    "manifests/analysis_run.py": "spec_json, which the observer wrote",
    "manifests/workload.py": "template_json and selector_json, canonical JSON of what was read",
    "traffic/declared/header_template.py": "JSON that the line before wrote",
}
"""Files that read what we wrote ourselves, from values that had been read before."""

_READERS = frozenset({"json.loads", "yaml.safe_load", "yaml.load"})


def unguarded(tree: ast.AST, *, ready: bool = False, names: frozenset[str] = frozenset()) -> Iterator[int]:
    """Lines that call a reader outside a `try` that is ready for RecursionError."""
    if isinstance(tree, ast.Module):
        names = frozenset(
            target.id
            for each in tree.body
            if isinstance(each, ast.Assign) and "RecursionError" in ast.dump(each.value)
            for target in each.targets
            if isinstance(target, ast.Name)
        )
    if isinstance(tree, ast.Call) and ast.unparse(tree.func) in _READERS and not ready:
        yield tree.lineno
    if isinstance(tree, ast.Try):
        caught = {
            node.id for each in tree.handlers if each.type for node in ast.walk(each.type) if isinstance(node, ast.Name)
        }
        for each in tree.body:
            yield from unguarded(
                each, ready=ready or bool(caught & {"RecursionError", "Exception", *names}), names=names
            )
        for outer in (*tree.handlers, *tree.orelse, *tree.finalbody):
            yield from unguarded(outer, ready=ready, names=names)
        return
    for child in ast.iter_child_nodes(tree):
        yield from unguarded(child, ready=ready, names=names)


def test_each_reader_is_ready_for_depth() -> None:
    """3 KB of brackets are a RecursionError, which no `except ValueError` catches."""
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] != "sim" and str(path.relative_to(ROOT)) not in OWN
        for line in unguarded(ast.parse(path.read_text(encoding="utf-8")))
    }

    shallow = {
        each for each in found if each.startswith("cluster/decoding.py")
    }  # `manifest_from`: what it made shallow
    assert len(shallow) == 1 and found == shallow


def test_the_list_names_only_files_that_read() -> None:
    """An entry that is left over would hide the next reader in that file."""
    for name in OWN:
        assert any(reader in (ROOT / name).read_text(encoding="utf-8") for reader in _READERS), name

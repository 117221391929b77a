"""`rollouts lint`: every problem of every Rollout in a file, with line and path; no cluster needed. Pure.

Problems are those that the controller would report (`api/parse.py`), so a file that passes here is one that it carries out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from rollouts.api.parse import parse_spec
from rollouts.cli.tree import plain
from rollouts.errors import SpecInvalid
from rollouts.objects import ROLLOUT

_PATH_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend, or (in `LintReport.skipped`) one document that was not looked at.

    Args:
        line: counted from 1.
        subject: `Rollout cart`.
    """

    line: int
    subject: str
    message: str

    def text(self, source: str) -> str:
        """In the form that editors jump to: `FILE:LINE: subject: message`."""
        return plain(f"{source}:{self.line}: {self.subject}: {self.message}")


@dataclass(slots=True)
class LintReport:
    """What was found in one file.

    Args:
        checked: how many Rollouts were read.
    """

    checked: int = 0
    problems: list[Finding] = field(default_factory=list)
    skipped: list[Finding] = field(default_factory=list)


def lint_text(text: str) -> LintReport:
    """Checks every Rollout of a YAML or JSON text with any number of documents, Lists taken apart.

    Raises: nothing for a bad text: it is a problem like any other.
    """
    report = LintReport()
    loader = _KubernetesLoader(text)
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            _check(node, loader.construct_document(node), report)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        report.problems.append(Finding(mark.line + 1 if mark else 1, "YAML", broken.problem or str(broken)))
    except yaml.YAMLError as broken:
        report.problems.append(Finding(1, "YAML", str(broken)))
    finally:
        loader.dispose()
    return report


class _KubernetesLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: times stay text, and a key that is given twice is an error instead of a surprise."""

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own protocol: a class attribute, replaced as a whole
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raises: yaml.constructor.ConstructorError on a repeated key."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key.value!r} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _check(node: yaml.Node, document: Any, report: LintReport) -> None:
    if document is None:
        return
    line = node.start_mark.line + 1
    if not isinstance(document, dict):
        report.problems.append(Finding(line, "document", "a Kubernetes object is a mapping with apiVersion and kind"))
        return
    api_version, kind = document.get("apiVersion"), document.get("kind")
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    subject = f"{kind} {name or '(no name)'}"
    if isinstance(items := document.get("items"), list) and str(kind).endswith("List"):
        for index, item in enumerate(items):
            _check(_find(node, f"items[{index}]")[0], item, report)
    elif kind != ROLLOUT.kind or api_version != ROLLOUT.api_version:
        remedy = f"; change apiVersion to {ROLLOUT.api_version} to use it here" if kind == ROLLOUT.kind else ""
        report.skipped.append(Finding(line, subject, f"skipped, it is not a {ROLLOUT.api_version} Rollout{remedy}"))
    else:
        report.checked += 1
        for path, message in _problems(document, has_name=bool(name or (metadata or {}).get("generateName"))):
            report.problems.append(Finding(_find(node, path)[1], subject, f"{path}: {message}"))


def _problems(document: dict[str, Any], *, has_name: bool) -> Iterator[tuple[str, str]]:
    if not has_name:
        yield "metadata.name", "a name is required"
    for key in document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield key, "unknown field"
    spec = document.get("spec")
    if not isinstance(spec, dict):
        yield "spec", "a mapping is required"
        return
    try:
        parse_spec(spec)
    except SpecInvalid as invalid:
        for problem in invalid.problems:
            yield problem.path, problem.message


def _find(node: yaml.Node, path: str) -> tuple[yaml.Node, int]:
    """The node at `path`, or the nearest one above it that is there, and its line (an entry's is that of its key)."""
    line = node.start_mark.line + 1
    for name, index in _PATH_PART.findall(path):
        if isinstance(node, yaml.MappingNode) and name:
            entry = next((pair for pair in node.value if pair[0].value == name), None)
            if entry is None:
                break
            key, node = entry
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        else:
            break
    return node, line

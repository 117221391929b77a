"""`rollouts lint`: every problem of every Rollout in a file, with line and path; no cluster needed. Pure.

Problems are those that the controller would report (`api/parse.py`), so a file that passes here is one that it carries out.
Advice is what loses requests all the same: the graceful-exit checklist, and what the Services in the file do to shares and
cutovers. What cannot be known without a cluster is taken at its least, so nothing is called too short that might be enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

from rollouts.api.parse import parse_spec
from rollouts.cli.tree import plain
from rollouts.controller.routes import places_of
from rollouts.core.drain import ProxyFacts, ProxyMode, drain_numbers
from rollouts.core.findings import Finding
from rollouts.core.graceful_exit import exit_findings, surges, template_labels
from rollouts.core.rollout import RolloutSpec
from rollouts.core.service_findings import relation_of, service_findings
from rollouts.errors import SpecInvalid
from rollouts.objects import ROLLOUT, SERVICE, Manifest
from rollouts.traffic.codec import Provider
from rollouts.traffic.registry import installed, registry

LEAST = ProxyFacts(mode=ProxyMode.IPTABLES, known_by="not asked: no cluster needs less than kube-proxy in this mode")
"""What a cluster nobody has seen needs at least."""

_PATH_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to mend or to know, or (in `LintReport.skipped`) one document that was not looked at.

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
        advice: what may lose requests although the controller carries it out.
    """

    checked: int = 0
    problems: list[Remark] = field(default_factory=list)
    advice: list[Remark] = field(default_factory=list)
    skipped: list[Remark] = field(default_factory=list)


def lint_text(text: str) -> LintReport:
    """Checks every Rollout of a YAML or JSON text with any number of documents, Lists taken apart.

    Raises: nothing for a bad text: it is a problem like any other.
    """
    report, found = LintReport(), _Found()
    loader = _KubernetesLoader(text)
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            _check(node, loader.construct_document(node), report, found)
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        report.problems.append(Remark(mark.line + 1 if mark else 1, "YAML", broken.problem or str(broken)))
    except yaml.YAMLError as broken:
        report.problems.append(Remark(1, "YAML", str(broken)))
    finally:
        loader.dispose()
    report.advice += _advice(found)
    return report


def manifests_of(text: str) -> tuple[Manifest, ...]:
    """The objects of a text that `lint_text` has no problem with, Lists taken apart."""
    report, found = LintReport(), _Found()
    loader = _KubernetesLoader(text)
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            _check(node, loader.construct_document(node), report, found)
    finally:
        loader.dispose()
    return tuple(found.objects)


@dataclass(slots=True)
class _Found:
    """What a file holds, with the place of what is looked at twice."""

    rollouts: list[tuple[yaml.Node, Manifest, RolloutSpec]] = field(default_factory=list)
    services: list[tuple[yaml.Node, Manifest]] = field(default_factory=list)
    objects: list[Manifest] = field(default_factory=list)


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


def _check(node: yaml.Node, document: Any, report: LintReport, found: _Found) -> None:
    if document is None:
        return
    line = node.start_mark.line + 1
    if not isinstance(document, dict):
        report.problems.append(Remark(line, "document", "a Kubernetes object is a mapping with apiVersion and kind"))
        return
    api_version, kind = document.get("apiVersion"), document.get("kind")
    subject = _subject(document)
    if isinstance(items := document.get("items"), list) and str(kind).endswith("List"):
        for index, item in enumerate(items):
            _check(_find(node, f"items[{index}]")[0], item, report, found)
        return
    found.objects.append(document)
    if kind == SERVICE.kind and api_version == SERVICE.api_version:
        found.services.append((node, document))
    if kind != ROLLOUT.kind or api_version != ROLLOUT.api_version:
        remedy = f"; change apiVersion to {ROLLOUT.api_version} to use it here" if kind == ROLLOUT.kind else ""
        report.skipped.append(Remark(line, subject, f"skipped, it is not a {ROLLOUT.api_version} Rollout{remedy}"))
        return
    report.checked += 1
    before = len(report.problems)
    for path, message in _problems(document):
        report.problems.append(Remark(_find(node, path)[1], subject, f"{path}: {message}"))
    if len(report.problems) == before:
        found.rollouts.append((node, document, parse_spec(document["spec"])))


def _problems(document: Manifest) -> Iterator[tuple[str, str]]:
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        yield "metadata.name", "a name is required"
    for key in document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield key, "unknown field"
    spec = document.get("spec")
    if not isinstance(spec, dict):
        yield "spec", "a mapping is required"
        return
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    try:
        places_of(parse_spec(spec), providers(), namespace=namespace or "default")
    except SpecInvalid as invalid:
        for problem in invalid.problems:
            yield problem.path, problem.message


@cache
def providers() -> Mapping[str, Provider]:
    """Every traffic provider, as the controller of this installation has them."""
    return registry(installed())


def _advice(found: _Found) -> Iterator[Remark]:
    """The findings of every Rollout, then those of every Service that has to do with one, each once."""
    told: set[tuple[int, str]] = set()
    for node, document, spec in found.rollouts:
        yield from _remarks(node, document, pod_findings(document, spec))
    for node, document in found.services:
        for _, rollout, spec in found.rollouts:
            relation = relation_of(document, spec, template_labels(rollout["spec"]["template"]))
            if relation is None or _namespace(document) != _namespace(rollout):
                continue
            for remark in _remarks(node, document, service_findings(document, relation=relation)):
                if (remark.line, remark.message) not in told:
                    told.add((remark.line, remark.message))
                    yield remark


def pod_findings(document: Manifest, spec: RolloutSpec) -> tuple[Finding, ...]:
    """The graceful-exit checklist of one Rollout, in the cluster that needs the least."""
    numbers = drain_numbers(spec.drain, LEAST)
    return exit_findings(document["spec"]["template"], drain=spec.drain, numbers=numbers, surges=surges(spec))


def _remarks(node: yaml.Node, document: Manifest, findings: tuple[Finding, ...]) -> Iterator[Remark]:
    for finding in findings:
        yield Remark(_find(node, finding.path)[1], _subject(document), str(finding))


def _subject(document: Manifest) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{document.get('kind')} {name or '(no name)'}"


def _namespace(document: Manifest) -> str | None:
    metadata = document.get("metadata")
    return metadata.get("namespace") if isinstance(metadata, dict) else None


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

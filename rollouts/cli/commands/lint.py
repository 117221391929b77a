"""`rollouts lint`: every problem of every object of ours in a file, with line and path; no cluster needed. Pure.

Problems are what the controller reports too (`api/spec/parse.py`, `traffic/demands.py`), Services in the file that contradict
the Rollouts that name them, and keys that a ConfigMap in the file lacks. So the controller can carry out a file that passes.
Advice is on what loses requests all the same: the graceful-exit checklist, and what the Services in the file do to shares and
cutovers. Numbers that depend on the cluster have their lowest value, so nothing is called too short that may be long enough.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint_analysis import (
    FileTemplates,
    query_remarks,
    rollout_problems,
    template_problems,
    templates_of,
)
from rollouts.cli.commands.lint_config import FileConfigs, config_findings, config_problems, configs_of
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of
from rollouts.controller.observe.places import places_of
from rollouts.controller.providers.declarations import provider_of, server_of
from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.advice.graceful_exit import exit_findings, surges
from rollouts.core.advice.service_contradictions import contradictions, lacks_port
from rollouts.core.advice.service_findings import relation_of, service_findings
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.rollout import RolloutSpec, named_services
from rollouts.errors import SpecInvalid, SpecProblem
from rollouts.objects import (
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    METRIC_PROVIDER,
    ROLLOUT,
    SERVICE,
    TRAFFIC_PROVIDER,
    Manifest,
)
from rollouts.traffic.codec import Provider
from rollouts.traffic.registry import installed, registry

LEAST = ProxyFacts(mode=ProxyMode.IPTABLES, known_by="not asked: no cluster needs less than kube-proxy in this mode")
"""What every cluster needs at least."""

_LINTED = {
    each.kind: each
    for each in (ROLLOUT, TRAFFIC_PROVIDER, METRIC_PROVIDER, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE)
}
_ANY_FOLDER = Path("/")  # which one credentials are in, a flag of the controller says
_PATH_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to fix or to know, or (in `LintReport.skipped`) one document that was not checked.

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
        checked: how many Rollouts were checked.
        providers, servers, templates: how many TrafficProviders, MetricProviders and templates of analyses were checked.
        advice: what may lose requests although the controller carries it out.
    """

    checked: int = 0
    providers: int = 0
    servers: int = 0
    templates: int = 0
    problems: list[Remark] = field(default_factory=list)
    advice: list[Remark] = field(default_factory=list)
    skipped: list[Remark] = field(default_factory=list)


def lint_text(
    text: str,
    known: Mapping[str, Provider] | None = None,
    templates: FileTemplates | None = None,
    configs: FileConfigs | None = None,
    *,
    metrics: Collection[str] | None = None,
) -> LintReport:
    """Checks every Rollout and TrafficProvider of a YAML or JSON text with any number of documents, Lists taken apart.

    Args:
        known: what `providers` found in this text and in others; None to look in this text alone.
        templates: the same of analysis templates (`templates_in`).
        configs: the same of ConfigMaps and Secrets (`configs_in`).
        metrics: the names that a Prometheus has; None to leave queries alone.

    Raises: nothing. A text that is no YAML is a problem like any other.
    """
    report = LintReport()
    documents = _documents(text, report)
    found = _Found(
        known=providers(text) if known is None else known,
        templates=templates_in(text) if templates is None else templates,
        configs=configs_in(text) if configs is None else configs,
        metrics=metrics,
    )
    for node, document in _objects(documents):
        _check(node, document, report, found)
    report.problems += _contradictions(found)
    report.advice += _advice(found)
    return report


def summary(reports: Iterable[LintReport]) -> str:
    """One line about all files."""
    reports = tuple(reports)
    what = [count_of(sum(each.checked for each in reports), "Rollout")]
    if providers_checked := sum(each.providers for each in reports):
        what.append(count_of(providers_checked, "TrafficProvider"))
    if servers := sum(each.servers for each in reports):
        what.append(count_of(servers, "MetricProvider"))
    if templates := sum(each.templates for each in reports):
        what.append(count_of(templates, "analysis template"))
    problems, advice = sum(len(each.problems) for each in reports), sum(len(each.advice) for each in reports)
    advised = f", {advice} piece{'' if advice == 1 else 's'} of advice" if advice else ""
    return f"{' and '.join(what)} checked, {problems or 'no'} problem{'' if problems == 1 else 's'}{advised}"


def manifests_of(text: str) -> tuple[Manifest, ...]:
    """The objects of a text that `lint_text` has no problem with, Lists taken apart."""
    return tuple(manifest for _, manifest in _objects(_documents(text, LintReport())) if isinstance(manifest, dict))


def _documents(text: str, report: LintReport) -> list[tuple[yaml.Node, Any]]:
    """Every document before the first that is no YAML; that one is reported as a problem."""
    found: list[tuple[yaml.Node, Any]] = []
    loader = _KubernetesLoader(text)
    try:
        while loader.check_node() and (node := loader.get_node()) is not None:
            found.append((node, loader.construct_document(node)))
    except yaml.MarkedYAMLError as broken:
        mark = broken.problem_mark or broken.context_mark
        report.problems.append(Remark(mark.line + 1 if mark else 1, "YAML", broken.problem or str(broken)))
    except yaml.YAMLError as broken:
        report.problems.append(Remark(1, "YAML", str(broken)))
    finally:
        loader.dispose()
    return found


def _objects(documents: Iterable[tuple[yaml.Node, Any]]) -> Iterator[tuple[yaml.Node, Any]]:
    """The documents with Lists taken apart."""
    for node, document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        if isinstance(items, list) and str(document.get("kind")).endswith("List"):
            yield from _objects((_find(node, f"items[{index}]")[0], item) for index, item in enumerate(items))
        elif document is not None:
            yield node, document


@dataclass(slots=True)
class _Found:
    """The Rollouts and Services of a file, with their nodes for line numbers."""

    known: Mapping[str, Provider]
    templates: FileTemplates
    configs: FileConfigs
    metrics: Collection[str] | None = None
    rollouts: list[tuple[yaml.Node, Manifest, RolloutSpec]] = field(default_factory=list)
    services: list[tuple[yaml.Node, Manifest]] = field(default_factory=list)


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
    line = node.start_mark.line + 1
    if not isinstance(document, dict):
        report.problems.append(Remark(line, "document", "a Kubernetes object is a mapping with apiVersion and kind"))
        return
    api_version, kind = document.get("apiVersion"), document.get("kind")
    subject = _subject(document)
    if kind == SERVICE.kind and api_version == SERVICE.api_version:
        found.services.append((node, document))
    ours = _LINTED.get(str(kind))
    if ours is None or api_version != ours.api_version:
        remedy = f"; change apiVersion to {ours.api_version} to use it here" if ours is not None else ""
        message = f"skipped, because it is not a {(ours or ROLLOUT).api_version} {(ours or ROLLOUT).kind}{remedy}"
        report.skipped.append(Remark(line, subject, message))
        return
    if ours is TRAFFIC_PROVIDER:
        report.providers += 1
        problems = list(_provider_problems(document))
    elif ours is METRIC_PROVIDER:
        report.servers += 1
        problems = list(_server_problems(document))
    elif ours is not ROLLOUT:
        report.templates += 1
        problems = [*_head_problems(document), *template_problems(document.get("spec"))]
        queries = query_remarks(document.get("spec"), found.metrics) if found.metrics is not None else ()
        for path, message in queries:
            report.advice.append(Remark(_find(node, path)[1], subject, f"{Severity.WARNING}: {path}: {message}"))
    else:
        report.checked += 1
        problems = list(_problems(document, found.known))
        if not problems:
            spec = parse_spec(document["spec"])
            found.rollouts.append((node, document, spec))
            problems = list(rollout_problems(document, spec, found.templates))
            problems += config_problems(document, found.configs)
    report.problems += [Remark(_find(node, path)[1], subject, f"{path}: {message}") for path, message in problems]


def _head_problems(document: Manifest) -> Iterator[tuple[str, str]]:
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        yield "metadata.name", "a name is required"
    for key in document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield key, "unknown field"
    if not isinstance(document.get("spec"), dict):
        yield "spec", "a mapping is required"


def _provider_problems(document: Manifest) -> Iterator[tuple[str, str]]:
    yield from _head_problems(document)
    if isinstance(document.get("spec"), dict):
        try:
            provider_of(_name(document), document["spec"], _fixed())
        except SpecInvalid as invalid:
            yield from ((problem.path, problem.message) for problem in invalid.problems)


def _server_problems(document: Manifest) -> Iterator[tuple[str, str]]:
    yield from _head_problems(document)
    if isinstance(document.get("spec"), dict):
        try:
            server_of(_name(document), document["spec"], folder=_ANY_FOLDER, taken=False)
        except SpecInvalid as invalid:
            yield from ((problem.path, problem.message) for problem in invalid.problems)


def _problems(document: Manifest, known: Mapping[str, Provider]) -> Iterator[tuple[str, str]]:
    yield from _head_problems(document)
    spec = document.get("spec")
    if isinstance(spec, dict):
        try:
            places_of(parse_spec(spec), known, namespace=_namespace(document) or "default")
        except SpecInvalid as invalid:
            yield from ((problem.path, problem.message) for problem in invalid.problems)


def providers(*texts: str, declared: Iterable[Manifest] = ()) -> Mapping[str, Provider]:
    """The traffic providers of this installation, and those that are declared.

    Args:
        texts: files; their TrafficProviders are included if they have no problem.
        declared: TrafficProviders of a cluster; those in `texts` replace them.
    """
    found: dict[str, Provider] = {}
    written = (each for text in texts for _, each in _objects(_documents(text, LintReport())))
    for manifest in (*declared, *written):
        if not isinstance(manifest, dict) or not isinstance(manifest.get("spec"), dict):
            continue
        if (manifest.get("apiVersion"), manifest.get("kind")) != (TRAFFIC_PROVIDER.api_version, TRAFFIC_PROVIDER.kind):
            continue
        with suppress(SpecInvalid):
            found[_name(manifest)] = provider_of(_name(manifest), manifest["spec"], _fixed())
    return {**found, **_fixed()}


def templates_in(*texts: str) -> FileTemplates:
    """The analysis templates of files."""
    return templates_of(each for text in texts for _, each in _objects(_documents(text, LintReport())))


def configs_in(*texts: str) -> FileConfigs:
    """The ConfigMaps and Secrets of files."""
    return configs_of(each for text in texts for _, each in _objects(_documents(text, LintReport())))


@cache
def _fixed() -> Mapping[str, Provider]:
    return registry(installed())


def _contradictions(found: _Found) -> Iterator[Remark]:
    """How Services contradict the Rollouts that name them. A Service that is not in the files is no problem."""
    for node, document in found.services:
        for _, rollout, spec in found.rollouts:
            if _namespace(document) == _namespace(rollout) and _name(document) in named_services(spec.strategy):
                problems = [
                    *contradictions(document, rollout["spec"]["template"], rollout=_name(rollout)),
                    *_port_problems(document, rollout, spec, found.known),
                ]
                for each in problems:
                    yield Remark(_find(node, each.path)[1], _subject(document), str(each))


def _port_problems(
    service: Manifest, rollout: Manifest, spec: RolloutSpec, known: Mapping[str, Provider]
) -> Iterator[SpecProblem]:
    """The ports that routers name and the Service lacks, each once."""
    places = places_of(spec, known, namespace=_namespace(rollout) or "default")
    named = {place.route.router: place.target.service_port for place in places}
    for router, port in named.items():
        if port is not None and lacks_port(service, port):
            message = f"has no port {port}, which Rollout {_name(rollout)} names as trafficRouting.{router}.servicePort"
            yield SpecProblem("spec.ports", message)


def _advice(found: _Found) -> Iterator[Remark]:
    """The findings of every Rollout, then those of every Service that is related to one, each once."""
    told: set[tuple[int, str]] = set()
    for node, document, spec in found.rollouts:
        yield from _remarks(node, document, pod_findings(document, spec))
        yield from _remarks(node, document, config_findings(document, spec, found.configs))
    for node, document in found.services:
        for _, rollout, spec in found.rollouts:
            relation = relation_of(document, spec)
            if relation is None or _namespace(document) != _namespace(rollout):
                continue
            findings = service_findings(document, relation=relation)
            # A Service without a selector is reported as a problem.
            for remark in _remarks(node, document, [each for each in findings if each.rule is not Rule.NO_SELECTOR]):
                if (remark.line, remark.message) not in told:
                    told.add((remark.line, remark.message))
                    yield remark


def pod_findings(document: Manifest, spec: RolloutSpec) -> tuple[Finding, ...]:
    """The graceful-exit checklist of one Rollout, with the lowest numbers of any cluster."""
    numbers = drain_numbers(spec.drain, LEAST)
    return exit_findings(document["spec"]["template"], drain=spec.drain, numbers=numbers, surges=surges(spec))


def _remarks(node: yaml.Node, document: Manifest, findings: Iterable[Finding]) -> Iterator[Remark]:
    for finding in findings:
        yield Remark(_find(node, finding.path)[1], _subject(document), str(finding))


def _subject(document: Manifest) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{document.get('kind')} {name or '(no name)'}"


def _name(document: Manifest) -> str:
    metadata = document.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _namespace(document: Manifest) -> str | None:
    metadata = document.get("metadata")
    return metadata.get("namespace") if isinstance(metadata, dict) else None


def _find(node: yaml.Node, path: str) -> tuple[yaml.Node, int]:
    """The node at `path`, or the nearest one above it that exists, and its line (for a mapping's entry the line of its key)."""
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

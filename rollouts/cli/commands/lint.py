"""`rollouts lint`: every problem of every object of ours in a file, with line and path; no cluster needed. Pure.

Problems are what the controller reports too (`api/spec/parse.py`, `traffic/demands.py`), Services in the file that contradict
the Rollouts that name them, and keys that a ConfigMap in the file lacks. So the controller can carry out a file that passes.
Advice is on what loses requests all the same: the graceful-exit checklist, and what the Services in the file do to shares and
cutovers. Numbers that depend on the cluster have their lowest value, so nothing is called too short that may be long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint_analysis import (
    FileTemplates,
    cluster_remarks,
    no_evidence_remarks,
    query_remarks,
    rollout_problems,
    template_problems,
    templates_of,
)
from rollouts.cli.commands.lint_autoscalers import FileAutoscalers, autoscalers_of, replicas_remarks, value_remarks
from rollouts.cli.commands.lint_config import FileConfigs, config_findings, config_problems, configs_of
from rollouts.cli.commands.lint_fields import autoscaler_problems, falling_weights, hash_label_remarks, mend, stranger
from rollouts.cli.commands.lint_output import LintReport, Remark
from rollouts.cli.kubernetes.metadata import metadata_problems
from rollouts.cli.kubernetes.objects import job_problems, object_problems
from rollouts.cli.kubernetes.parts import is_a, mapping
from rollouts.cli.kubernetes.pods import template_problems as pod_problems
from rollouts.cli.kubernetes.pods import unique
from rollouts.cli.kubernetes.yaml_text import TextRead, node_at, read_text
from rollouts.controller.observe.observer import context_of
from rollouts.controller.observe.places import places_of
from rollouts.controller.providers.declarations import provider_of, server_of
from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.advice.graceful_exit import exit_findings, surges
from rollouts.core.advice.service_contradictions import contradictions, lacks_port
from rollouts.core.advice.service_findings import Relation, relation_of, service_findings
from rollouts.core.advice.shared_selectors import Workload, share_pods, shared_text, workload_of
from rollouts.core.advice.weight_findings import weight_findings
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.rollout import Canary, RolloutSpec, named_services
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import SetWeight, WeightPercent
from rollouts.core.routing.routes import asked_split
from rollouts.errors import SpecInvalid, SpecProblem, Unroutable
from rollouts.objects import (
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    METRIC_PROVIDER,
    ROLLOUT,
    SERVICE,
    TRAFFIC_PROVIDER,
    Key,
    Manifest,
)
from rollouts.traffic.codec import Context, Objects, Provider, Target
from rollouts.traffic.registry import installed, registry

LEAST = ProxyFacts(mode=ProxyMode.IPTABLES, known_by="not asked: no cluster needs less than kube-proxy in this mode")
"""What every cluster needs at least."""

_LINTED = {
    each.kind: each
    for each in (ROLLOUT, TRAFFIC_PROVIDER, METRIC_PROVIDER, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE)
}
_ANY_FOLDER = Path("/")  # which one credentials are in, a flag of the controller says


class Known(Struct, frozen=True):
    """What Rollouts may name that stands in the same files.

    Args:
        providers: the traffic providers of this installation, and those that are declared.
        workloads: what has pods, with its namespace.
    """

    providers: Mapping[str, Provider]
    templates: FileTemplates
    configs: FileConfigs
    autoscalers: FileAutoscalers
    workloads: tuple[tuple[str | None, Workload], ...] = ()


def known_in(*files: TextRead, declared: Iterable[Manifest] = ()) -> Known:
    """What files declare.

    Args:
        declared: TrafficProviders of a cluster; those in the files replace them.
    """
    manifests = [manifest for file in files for manifest in file.manifests]
    return Known(
        providers=providers((*declared, *manifests)),
        templates=templates_of(manifests),
        configs=configs_of(manifests),
        autoscalers=autoscalers_of(manifests),
        workloads=tuple(
            (_namespace(manifest), found) for manifest in manifests if (found := workload_of(manifest)) is not None
        ),
    )


def lint_files(
    texts: Sequence[tuple[str, str]], *, metrics: Collection[str] | None, silenced: Collection[str]
) -> list[LintReport]:
    """Checks files together: templates, providers, configuration and autoscalers of one are known in all of them.

    Args:
        texts: names of files, and what is in them.
        metrics: the names that a Prometheus has; None to leave queries alone.
        silenced: rules whose advice is left out.
    """
    files = [(source, read_text(text)) for source, text in texts]
    known = known_in(*(file for _, file in files))
    reports = [lint(file, known, source=source, metrics=metrics) for source, file in files]
    for report in reports:
        report.advice = [remark for remark in report.advice if remark.rule not in silenced]
    return reports


def lint(file: TextRead, known: Known, *, source: str = "", metrics: Collection[str] | None = None) -> LintReport:
    """Checks every object of ours in a file.

    Args:
        known: what this file and others declare.
        metrics: the names that a Prometheus has; None to leave queries alone.

    Raises: nothing. A text that is no YAML is a problem like any other.
    """
    report = LintReport(source)
    if file.broken is not None:
        report.problems.append(Remark(file.broken.line, "YAML", file.broken.why))
    elif not file.objects:
        report.problems.append(Remark(1, "document", "there is no object in it, so nothing was checked"))
    found = _Found(known, metrics=metrics)
    for node, document in file.objects:
        _check(node, document, report, found)
    report.problems += _contradictions(found)
    for node, document in found.autoscalers:
        here = (rollout for _, rollout, _ in found.rollouts if _namespace(rollout) == _namespace(document))
        problems = autoscaler_problems(document, {_name(rollout): rollout for rollout in here})
        report.problems += _problems_at(node, document, problems)
    for node, document in found.others:
        for _, rollout, spec in found.rollouts:
            report.problems += _problems_at(node, document, _route_problems(document, rollout, spec, known.providers))
    report.advice += _advice(found)
    return report


@dataclass(slots=True)
class _Found:
    """The Rollouts and Services of a file, with their nodes for line numbers."""

    known: Known
    metrics: Collection[str] | None = None
    rollouts: list[tuple[yaml.Node, Manifest, RolloutSpec]] = field(default_factory=list)
    services: list[tuple[yaml.Node, Manifest]] = field(default_factory=list)
    autoscalers: list[tuple[yaml.Node, Manifest]] = field(default_factory=list)
    others: list[tuple[yaml.Node, Manifest]] = field(default_factory=list)


def _check(node: yaml.Node, document: Any, report: LintReport, found: _Found) -> None:
    line = node.start_mark.line + 1
    if not isinstance(document, dict):
        report.problems.append(Remark(line, "document", "a Kubernetes object is a mapping with apiVersion and kind"))
        return
    if is_a(document, SERVICE):
        found.services.append((node, document))
    ours = _LINTED.get(str(document.get("kind")))
    if document.get("kind") == "HorizontalPodAutoscaler":
        found.autoscalers.append((node, document))
    if ours is None or not is_a(document, ours):
        found.others.append((node, document))
        _pass_over(node, document, report)
        return
    if ours is TRAFFIC_PROVIDER:
        report.providers += 1
        name = _name(document)
        problems = list(_problems(document, lambda spec: provider_of(name, spec, _fixed())))
    elif ours is METRIC_PROVIDER:
        report.servers += 1
        name = _name(document)
        problems = list(_problems(document, lambda spec: server_of(name, spec, folder=_ANY_FOLDER, taken=False)))
    elif ours is not ROLLOUT:
        report.templates += 1
        problems = [*_head_problems(document), *template_problems(document.get("spec")), *_job_problems(document)]
        spec = document.get("spec")
        unknown = (*(query_remarks(spec, found.metrics) if found.metrics is not None else ()), *cluster_remarks(spec))
        report.advice += _warnings(node, document, "MetricUnknown", unknown)
        report.advice += _warnings(node, document, "NoEvidence", no_evidence_remarks(spec))
    else:
        report.checked += 1
        traffic, namespace = found.known.providers, _namespace(document) or "default"
        problems = list(_problems(document, lambda spec: places_of(parse_spec(spec), traffic, namespace=namespace)))
        in_template = list(_template_problems(document))
        if not problems and not in_template:
            spec = parse_spec(document["spec"])
            found.rollouts.append((node, document, spec))
            problems = list(rollout_problems(document, spec, found.known.templates))
            problems += config_problems(document, found.known.configs)
        problems = list(unique([*problems, *in_template]))
    mended = ((path, f"{message}{mend(ours.kind, path, message)}") for path, message in problems)
    report.problems += _problems_at(node, document, mended)


def _pass_over(node: yaml.Node, document: Manifest, report: LintReport) -> None:
    """Notes an object that is not checked; one that was meant to be ours is a problem."""
    subject = _subject(document)
    report.problems += _problems_at(node, document, object_problems(document))
    if (why := stranger(document, _LINTED)) is not None:
        report.problems.append(Remark(node_at(node, "apiVersion")[1], subject, why))
    else:
        message = f"skipped, because it is not a {ROLLOUT.api_version} object"
        report.skipped.append(Remark(node.start_mark.line + 1, subject, message))


def _route_problems(
    route: Manifest, rollout: Manifest, spec: RolloutSpec, known: Mapping[str, Provider]
) -> Iterator[tuple[str, str]]:
    """Why the Rollout's router cannot split requests with this route; nothing for an object that the Rollout does not name.

    Routes between subsets of one Service are left out: what they name depends on the object that defines the subsets.

    Args:
        known: the traffic providers, by name.
    """
    metadata, route_metadata = mapping(rollout.get("metadata")), mapping(route.get("metadata"))
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")
    route_name = (route_metadata.get("name"), route_metadata.get("namespace") or "default")
    if any(isinstance(service, SubsetName) for service in named_services(spec.strategy)):
        return
    for place in places_of(spec, known, namespace=namespace):
        target = place.target
        mine = (target.name, target.namespace) == route_name
        versions = {(kind.api_version, kind.kind) for kind in target.kinds}
        if place.provider is None or not mine or (route.get("apiVersion"), route.get("kind")) not in versions:
            continue
        if not isinstance(route.get("spec", {}), dict):
            yield "spec", "must be an object"
            continue
        context = context_of(Key(namespace, name), spec, RolloutStatus())
        try:
            place.provider.read(Objects(user=route), target, context)
            for at, why in _steps_not_said(place.provider, Objects(user=route), target, context, spec):
                yield "spec", f"Rollout {name} cannot take its step {at} with it: {why}"
        except Unroutable as why:
            yield "spec", f"Rollout {name} cannot split requests with it: {why}"
        except (AttributeError, KeyError, TypeError, ValueError):
            yield "spec", f"Rollout {name} cannot read it: a field has another type than the API server accepts"


def _steps_not_said(
    provider: Provider, objects: Objects, target: Target, context: Context, spec: RolloutSpec
) -> Iterator[tuple[int, str]]:
    """The steps whose split the route cannot express, each reason once, with the first step (from 0) that it stops."""
    strategy = spec.strategy
    if not isinstance(strategy, Canary):
        return
    told: set[str] = set()
    weight: WeightPercent = 0
    for at, step in enumerate(strategy.steps):
        weight = step.weight_percent if isinstance(step, SetWeight) else weight
        try:
            provider.plan(objects, target, context, asked_split(strategy, at, weight))
        except Unroutable as why:
            if str(why) not in told:
                told.add(str(why))
                yield at, str(why)


def _problems_at(node: yaml.Node, document: Manifest, problems: Iterable[tuple[str, str]]) -> Iterator[Remark]:
    for path, message in problems:
        yield Remark(node_at(node, path)[1], _subject(document), f"{path}: {message}")


def _warnings(node: yaml.Node, document: Manifest, rule: str, remarks: Iterable[tuple[str, str]]) -> Iterator[Remark]:
    for path, message in remarks:
        text = f"{Severity.WARNING}: {path}: {message}"
        yield Remark(node_at(node, path)[1], _subject(document), text, severity=Severity.WARNING, rule=rule)


def _head_problems(document: Manifest) -> Iterator[tuple[str, str]]:
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        yield "metadata.name", "a name is required"
    yield from metadata_problems(metadata)
    for key in document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield key, "unknown field"
    if not isinstance(document.get("spec"), dict):
        yield "spec", "a mapping is required"


def _template_problems(document: Manifest) -> Iterator[tuple[str, str]]:
    """What the API server would refuse in the pods of a Rollout that has a template."""
    spec = document.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("template"), dict):
        yield from pod_problems(spec["template"], "spec.template")


def _job_problems(document: Manifest) -> Iterator[tuple[str, str]]:
    """What the API server would refuse in the Jobs of a template's metrics."""
    spec = document.get("spec")
    metrics = spec.get("metrics") if isinstance(spec, dict) else None
    for index, metric in enumerate(metrics if isinstance(metrics, list) else ()):
        match metric:
            case {"provider": {"job": {"spec": dict(job)}}}:
                yield from job_problems(job, f"spec.metrics[{index}].provider.job.spec")


def _problems(document: Manifest, read: Callable[[Manifest], object]) -> Iterator[tuple[str, str]]:
    """The problems of an object of ours, and those with which `read` refuses its spec."""
    yield from _head_problems(document)
    if isinstance(document.get("spec"), dict):
        try:
            read(document["spec"])
        except SpecInvalid as invalid:
            yield from ((problem.path, problem.message) for problem in invalid.problems)


def providers(manifests: Iterable[Manifest] = ()) -> Mapping[str, Provider]:
    """The traffic providers of this installation, and those of TrafficProviders without a problem."""
    found: dict[str, Provider] = {}
    for manifest in manifests:
        if is_a(manifest, TRAFFIC_PROVIDER) and isinstance(manifest.get("spec"), dict):
            with suppress(SpecInvalid):
                found[_name(manifest)] = provider_of(_name(manifest), manifest["spec"], _fixed())
    return {**found, **_fixed()}


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
                    *_port_problems(document, rollout, spec, found.known.providers),
                ]
                for problem in problems:
                    yield Remark(node_at(node, problem.path)[1], _subject(document), str(problem))


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
        yield from _remarks(node, document, config_findings(document, spec, found.known.configs))
        yield from _remarks(node, document, weight_findings(spec, severity=_weighs(found, document, spec)))
        autoscalers = found.known.autoscalers
        yield from _warnings(node, document, "FallingWeights", falling_weights(document))
        yield from _warnings(node, document, "HashLabel", hash_label_remarks(document))
        yield from _warnings(node, document, "ReplicasOfAutoscaler", replicas_remarks(document, autoscalers))
        yield from _warnings(node, document, "ValueOfAutoscaler", value_remarks(document, spec.strategy, autoscalers))
        if others := _sharing(document, found.known):
            yield from _warnings(node, document, "SelectorShared", [("spec.selector", shared_text(others))])
    for node, document in found.services:
        for _, rollout, spec in found.rollouts:
            relation = relation_of(document, spec)
            if relation is None or _namespace(document) != _namespace(rollout):
                continue
            findings = service_findings(document, relation=relation)
            # A Service without a selector is reported as a problem.
            for remark in _remarks(
                node, document, [finding for finding in findings if finding.rule is not Rule.NO_SELECTOR]
            ):
                if (remark.line, remark.message) not in told:
                    told.add((remark.line, remark.message))
                    yield remark


def _weighs(found: _Found, rollout: Manifest, spec: RolloutSpec) -> Severity:
    """A note where the files have a Service that selects the pods of both revisions: clients may use that one."""
    beside = [service for _, service in found.services if _namespace(service) == _namespace(rollout)]
    shared = any(relation_of(each, spec) is Relation.SHARED for each in beside)
    return Severity.NOTE if shared else Severity.WARNING


def _sharing(document: Manifest, known: Known) -> list[str]:
    """What stands in the same files and finds the Rollout's pods, or has pods that it finds."""
    mine, namespace = workload_of(document), _namespace(document)
    if mine is None:
        return []
    return sorted(
        {str(workload) for where, workload in known.workloads if where == namespace and share_pods(mine, workload)}
    )


def pod_findings(document: Manifest, spec: RolloutSpec) -> tuple[Finding, ...]:
    """The graceful-exit checklist of one Rollout, with the lowest numbers of any cluster."""
    numbers = drain_numbers(spec.drain, LEAST)
    return exit_findings(document["spec"]["template"], drain=spec.drain, numbers=numbers, surges=surges(spec))


def _remarks(node: yaml.Node, document: Manifest, findings: Iterable[Finding]) -> Iterator[Remark]:
    for finding in findings:
        line = node_at(node, finding.path)[1]
        yield Remark(line, _subject(document), str(finding), severity=finding.severity, rule=finding.rule)


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

"""The checks of `rollouts lint`: every problem of every object of ours in a file, with line and path; no cluster needed. Pure.

Problems are what the controller reports too (`api/spec/parse.py`, `traffic/demands.py`), Services in the file that contradict
the Rollouts that name them, and keys that a ConfigMap in the file lacks. So the controller can carry out a file that passes.
Advice is on what loses requests all the same: the graceful-exit checklist, and what the Services in the file do to shares and
cutovers. Numbers that depend on the cluster have their lowest value, so nothing is called too short that may be long enough.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from rollouts.api.schema import crd_manifests
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
from rollouts.cli.commands.lint_autoscalers import (
    FileAutoscalers,
    autoscaler_problems,
    autoscalers_of,
    replicas_remarks,
    value_remarks,
)
from rollouts.cli.commands.lint_config import FileConfigs, config_findings, config_problems, configs_of
from rollouts.cli.commands.lint_output import LintReport, Remark
from rollouts.cli.kubernetes.hash_labels import hash_uses
from rollouts.cli.kubernetes.objects import job_problems, metadata_problems, object_problems
from rollouts.cli.kubernetes.parts import entries, is_a
from rollouts.cli.kubernetes.pods import template_problems as pod_problems
from rollouts.cli.kubernetes.pods import unique
from rollouts.cli.kubernetes.schema import Problem
from rollouts.cli.kubernetes.yaml_text import TextRead, node_at, read_text
from rollouts.controller.observe.observer import context_of
from rollouts.controller.observe.places import places_of
from rollouts.controller.providers.declarations import provider_of, server_of
from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.advice.graceful_exit import exit_findings, surges
from rollouts.core.advice.service_contradictions import contradictions, lacks_port
from rollouts.core.advice.service_findings import Relation, relation_of, service_findings, weight_findings
from rollouts.core.advice.shared_selectors import Workload, share_pods, shared_text, workload_of
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.numbering import step_number
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.core.model.rollout import Canary, RolloutSpec, named_services
from rollouts.core.model.service_ref import SubsetName
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.steps import SetWeight, WeightPercent
from rollouts.core.routing.routes import asked_split
from rollouts.errors import SpecInvalid, Unroutable
from rollouts.objects import (
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    METRIC_PROVIDER,
    ROLLOUT,
    SERVICE,
    TRAFFIC_PROVIDER,
    Key,
    Kind,
    Manifest,
    mapping,
)
from rollouts.traffic.codec import Context, Objects, Provider, Target
from rollouts.traffic.registry import installed, registry

LEAST = ProxyFacts(mode=ProxyMode.IPTABLES, known_by="not asked: no cluster needs less than kube-proxy in this mode")
"""What every cluster needs at least."""

_LINTED = {
    kind.kind: kind
    for kind in (ROLLOUT, TRAFFIC_PROVIDER, METRIC_PROVIDER, ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE)
}
_UNKNOWN, _NO_OBJECT = "unknown field", "must be an object"  # how the messages of api/problems.py begin
_LISTED = 20  # names; a longer list helps nobody
_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_OTHERS = ("argoproj.io", "rollouts.kruise.io")  # groups with a kind Rollout, and with analyses, of other products
_ANY_FOLDER = Path("/")  # which one credentials are in, a flag of the controller says


class Known(Struct, frozen=True):
    """What Rollouts may name that stands in the same files; of the traffic providers also those of this installation."""

    providers: Mapping[str, Provider]
    templates: FileTemplates
    configs: FileConfigs
    autoscalers: FileAutoscalers
    workloads: tuple[tuple[str | None, Workload], ...] = ()


def known_in(*files: TextRead, declared: Iterable[Manifest] = ()) -> Known:
    """What files declare; it replaces TrafficProviders of a cluster, which are `declared`."""
    manifests = [manifest for file in files for manifest in file.manifests]
    workloads = [(mapping(manifest.get("metadata")).get("namespace"), workload_of(manifest)) for manifest in manifests]
    return Known(
        providers=providers((*declared, *manifests)),
        templates=templates_of(manifests),
        configs=configs_of(manifests),
        autoscalers=autoscalers_of(manifests),
        workloads=tuple((namespace, workload) for namespace, workload in workloads if workload is not None),
    )


def lint_files(
    texts: Sequence[tuple[str, str]], *, metrics: Collection[str] | None, silenced: Collection[str]
) -> list[LintReport]:
    """Checks files together: templates, providers, configuration and autoscalers of one are known in all of them.

    Advice of silenced rules is left out.
    """
    files = [(source, read_text(text)) for source, text in texts]
    known = known_in(*(file for _, file in files))
    reports = [lint(file, known, source=source, metrics=metrics) for source, file in files]
    for report in reports:
        report.advice = [remark for remark in report.advice if remark.rule not in silenced]
    return reports


def lint(file: TextRead, known: Known, *, source: str = "", metrics: Collection[str] | None = None) -> LintReport:
    """Checks every object of ours in a file, and queries if the names that a Prometheus has are given.

    Raises: nothing. A text that is no YAML is a problem like any other.
    """
    linter = _Linter(LintReport(source), known, metrics)
    report = linter.report
    if file.broken is not None:
        report.problems.append(Remark(file.broken.line, "YAML", file.broken.why))
    elif not file.objects:
        report.problems.append(Remark(1, "document", "there is no object in it, so nothing was checked"))
    for node, document in file.objects:
        if isinstance(document, dict):
            linter.check(_Object(node, document))
        else:
            why = "a Kubernetes object is a mapping with apiVersion and kind"
            report.problems.append(Remark(node.start_mark.line + 1, "document", why))
    linter.compare()
    linter.advise()
    return report


class _Object(Struct, frozen=True):
    """An object of a file, with its node for line numbers."""

    node: yaml.Node
    manifest: Manifest

    @property
    def metadata(self) -> Mapping[str, Any]:
        return mapping(self.manifest.get("metadata"))

    @property
    def name(self) -> str:
        return str(self.metadata.get("name") or "")

    @property
    def namespace(self) -> str | None:
        return self.metadata.get("namespace")

    def remark(self, path: str, message: str, severity: str = "error", rule: str = "") -> Remark:
        subject = f"{self.manifest.get('kind')} {self.metadata.get('name') or '(no name)'}"
        return Remark(node_at(self.node, path)[1], subject, message, severity, rule)

    def problems(self, problems: Iterable[Problem]) -> list[Remark]:
        return [self.remark(path, f"{path}: {message}") for path, message in problems]

    def warnings(self, rule: str, warnings: Iterable[Problem]) -> list[Remark]:
        severity = Severity.WARNING
        return [self.remark(path, f"{severity}: {path}: {message}", severity, rule) for path, message in warnings]

    def findings(self, findings: Iterable[Finding]) -> list[Remark]:
        return [self.remark(finding.path, str(finding), finding.severity, finding.rule) for finding in findings]


class _Rollout(_Object, frozen=True):
    """A Rollout without a problem."""

    spec: RolloutSpec


@dataclass(slots=True)
class _Linter:
    """Checks the objects of one file, one after the other, then what they say together."""

    report: LintReport
    known: Known
    metrics: Collection[str] | None
    rollouts: list[_Rollout] = field(default_factory=list)
    services: list[_Object] = field(default_factory=list)
    others: list[_Object] = field(default_factory=list)

    def check(self, checked: _Object) -> None:
        """Checks an object by itself, one of others as the API server does; one that was meant to be ours is a problem."""
        report, manifest = self.report, checked.manifest
        kind = _LINTED.get(str(manifest.get("kind")))
        if kind is not None and is_a(manifest, kind):
            problems = self._problems_of(checked, kind)
            report.problems += checked.problems((path, text + _mend(kind.kind, path, text)) for path, text in problems)
            return
        self.others.append(checked)
        if is_a(manifest, SERVICE):
            self.services.append(checked)
        report.problems += checked.problems(object_problems(manifest))
        if (why := _stranger(manifest)) is not None:
            report.problems.append(checked.remark("apiVersion", why))
        else:
            report.skipped.append(checked.remark("", f"skipped, because it is not a {ROLLOUT.api_version} object"))

    def _problems_of(self, checked: _Object, kind: Kind) -> Iterable[Problem]:
        report, manifest, name = self.report, checked.manifest, checked.name
        if kind is TRAFFIC_PROVIDER:
            report.providers += 1
            return _spec_problems(manifest, lambda spec: provider_of(name, spec, _fixed()))
        if kind is METRIC_PROVIDER:
            report.servers += 1
            return _spec_problems(manifest, lambda spec: server_of(name, spec, folder=_ANY_FOLDER, taken=False))
        if kind is ROLLOUT:
            report.checked += 1
            return self._rollout_problems(checked)
        report.templates += 1
        spec = manifest.get("spec")
        unknown = () if self.metrics is None else query_remarks(spec, self.metrics)
        report.advice += checked.warnings("MetricUnknown", (*unknown, *cluster_remarks(spec)))
        report.advice += checked.warnings("NoEvidence", no_evidence_remarks(spec))
        jobs = (
            problem
            for index, metric in entries(mapping(spec).get("metrics"))
            if isinstance(job := mapping(mapping(metric.get("provider")).get("job")).get("spec"), dict)
            for problem in job_problems(job, f"spec.metrics[{index}].provider.job.spec")
        )
        return *_head_problems(manifest), *template_problems(spec), *jobs

    def _rollout_problems(self, checked: _Object) -> Iterable[Problem]:
        """The API server's problems with its pods come last, at paths that have none yet."""
        manifest, spec = checked.manifest, mapping(checked.manifest.get("spec"))
        namespace = checked.namespace or "default"
        problems = _spec_problems(
            manifest, lambda spec: places_of(parse_spec(spec), self.known.providers, namespace=namespace)
        )
        has_template = isinstance(spec.get("template"), dict)
        refused = list(pod_problems(spec["template"], "spec.template")) if has_template else []
        if not problems and not refused:
            rollout = _Rollout(checked.node, manifest, parse_spec(manifest["spec"]))
            self.rollouts.append(rollout)
            problems += rollout_problems(manifest, rollout.spec, self.known.templates)
            problems += config_problems(manifest, self.known.configs)
        return unique([*problems, *refused])

    def compare(self) -> None:
        """How Services, autoscalers and routes contradict the Rollouts. One that is not in the files is no problem."""
        for service, rollout in self._with_rollouts(self.services):
            if service.name in named_services(rollout.spec.strategy):
                template = rollout.manifest["spec"]["template"]
                found = contradictions(service.manifest, template, rollout=rollout.name)
                problems = [(problem.path, problem.message) for problem in found]
                self.report.problems += service.problems([*problems, *self._port_problems(service, rollout)])
        for autoscaler in self.others:
            if autoscaler.manifest.get("kind") == "HorizontalPodAutoscaler":
                beside = {rollout.name: rollout.manifest for _, rollout in self._with_rollouts([autoscaler])}
                self.report.problems += autoscaler.problems(autoscaler_problems(autoscaler.manifest, beside))
        for route, rollout in product(self.others, self.rollouts):
            self.report.problems += route.problems(_route_problems(route, rollout, self.known.providers))

    def _with_rollouts(self, things: Iterable[_Object]) -> Iterator[tuple[_Object, _Rollout]]:
        """Each with every Rollout of its namespace."""
        return (pair for pair in product(things, self.rollouts) if pair[0].namespace == pair[1].namespace)

    def _port_problems(self, service: _Object, rollout: _Rollout) -> Iterator[Problem]:
        """The ports that routers name and the Service lacks, each once."""
        places = places_of(rollout.spec, self.known.providers, namespace=rollout.namespace or "default")
        for router, port in {place.route.router: place.target.service_port for place in places}.items():
            if port is not None and lacks_port(service.manifest, port):
                named = f"trafficRouting.{router}.servicePort"
                yield "spec.ports", f"has no port {port}, which Rollout {rollout.name} names as {named}"

    def advise(self) -> None:
        """The findings of every Rollout, then those of every Service that is related to one, each once."""
        for rollout in self.rollouts:
            self.report.advice += self._advice(rollout)
        remarks: dict[tuple[int, str], Remark] = {}
        for service, rollout in self._with_rollouts(self.services):
            relation = relation_of(service.manifest, rollout.spec)
            findings = service_findings(service.manifest, relation=relation) if relation is not None else ()
            # A Service without a selector is reported as a problem.
            for remark in service.findings(finding for finding in findings if finding.rule is not Rule.NO_SELECTOR):
                remarks.setdefault((remark.line, remark.message), remark)
        self.report.advice += remarks.values()

    def _advice(self, rollout: _Rollout) -> Iterator[Remark]:
        manifest, spec, known = rollout.manifest, rollout.spec, self.known
        numbers = drain_numbers(spec.drain, LEAST)
        template = manifest["spec"]["template"]
        yield from rollout.findings(exit_findings(template, drain=spec.drain, numbers=numbers, surges=surges(spec)))
        yield from rollout.findings(config_findings(manifest, spec, known.configs))
        # Only a note where the files have a Service that selects the pods of both revisions: clients may use that one.
        beside = [service.manifest for service in self.services if service.namespace == rollout.namespace]
        shared = any(relation_of(service, spec) is Relation.SHARED for service in beside)
        yield from rollout.findings(weight_findings(spec, severity=Severity.NOTE if shared else Severity.WARNING))
        yield from rollout.warnings("FallingWeights", _falling_weights(manifest))
        yield from rollout.warnings("HashLabel", _hash_label_remarks(manifest))
        yield from rollout.warnings("ReplicasOfAutoscaler", replicas_remarks(manifest, known.autoscalers))
        yield from rollout.warnings("ValueOfAutoscaler", value_remarks(manifest, spec.strategy, known.autoscalers))
        if (mine := workload_of(manifest)) is not None:
            workloads = (workload for namespace, workload in known.workloads if namespace == rollout.namespace)
            if others := sorted({str(workload) for workload in workloads if share_pods(mine, workload)}):
                yield from rollout.warnings("SelectorShared", [("spec.selector", shared_text(others))])


def _route_problems(route: _Object, rollout: _Rollout, known: Mapping[str, Provider]) -> Iterator[Problem]:
    """Why the Rollout's router cannot split requests with this route; nothing for an object that the Rollout does not name.

    Routes between subsets of one Service are left out: what they name depends on the object that defines the subsets.
    """
    namespace, name, spec = str(rollout.namespace or "default"), rollout.name, rollout.spec
    route_name = (route.metadata.get("name"), route.namespace or "default")
    if any(isinstance(service, SubsetName) for service in named_services(spec.strategy)):
        return
    for place in places_of(spec, known, namespace=namespace):
        target, objects = place.target, Objects(user=route.manifest)
        mine = (target.name, target.namespace) == route_name
        of_its_kind = any(is_a(route.manifest, kind) for kind in target.kinds)
        if place.provider is None or not mine or not of_its_kind:
            continue
        if not isinstance(route.manifest.get("spec", {}), dict):
            yield "spec", "must be an object"
            continue
        context = context_of(Key(namespace, name), spec, RolloutStatus())
        try:
            place.provider.read(objects, target, context)
            for at, why in _steps_not_said(place.provider, objects, target, context, spec):
                yield "spec", f"Rollout {name} cannot take its step {step_number(at)} with it: {why}"
        except Unroutable as why:
            yield "spec", f"Rollout {name} cannot split requests with it: {why}"
        except (AttributeError, KeyError, TypeError, ValueError):
            yield "spec", f"Rollout {name} cannot read it: a field has another type than the API server accepts"


def _steps_not_said(
    provider: Provider, objects: Objects, target: Target, context: Context, spec: RolloutSpec
) -> Iterator[tuple[int, str]]:
    """The steps whose split the route cannot express, each reason once, with the index of the first step that it stops."""
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


def _head_problems(document: Manifest) -> Iterator[Problem]:
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        yield "metadata.name", "a name is required"
    yield from metadata_problems(metadata)
    for key in document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield key, "unknown field"
    if not isinstance(document.get("spec"), dict):
        yield "spec", "a mapping is required"


def _spec_problems(document: Manifest, read: Callable[[Manifest], object]) -> list[Problem]:
    """The problems of an object of ours, and those with which `read` refuses its spec."""
    problems = list(_head_problems(document))
    if isinstance(document.get("spec"), dict):
        try:
            read(document["spec"])
        except SpecInvalid as invalid:
            problems += [(problem.path, problem.message) for problem in invalid.problems]
    return problems


def providers(manifests: Iterable[Manifest] = ()) -> Mapping[str, Provider]:
    """The traffic providers of this installation, and those of TrafficProviders without a problem."""
    found: dict[str, Provider] = {}
    for manifest in manifests:
        if is_a(manifest, TRAFFIC_PROVIDER) and isinstance(manifest.get("spec"), dict):
            name = str(mapping(manifest.get("metadata")).get("name") or "")
            with suppress(SpecInvalid):
                found[name] = provider_of(name, manifest["spec"], _fixed())
    return {**found, **_fixed()}


@cache
def _fixed() -> Mapping[str, Provider]:
    return registry(installed())


def _mend(kind: str, path: str, message: str) -> str:
    """What the schema adds to a message about a field: `; did you mean setWeight?`, `; its fields are duration`."""
    parts = [part or int(index) for part, index in _PART.findall(path)]
    if message == _UNKNOWN:
        *parents, name = parts
        known = _fields(kind, parents)
        near = difflib.get_close_matches(str(name), known, n=1)
        near += [field for field in known if field.lower() == str(name).lower()]
        return f"; did you mean {near[0]}?" if near else _listed("the fields are", known)
    return _listed("its fields are", _fields(kind, parts)) if message.startswith(_NO_OBJECT) else ""


def _listed(words: str, names: list[str]) -> str:
    return f"; {words} {', '.join(names)}" if 0 < len(names) <= _LISTED else ""


def _stranger(document: Manifest) -> str | None:
    """Why an object cannot be one of ours although it looks like one; None for an object of somebody else's."""
    api_version, kind = str(document.get("apiVersion")), str(document.get("kind"))
    group = api_version.partition("/")[0]
    if kind in _schemas() and api_version == ROLLOUT.api_version:
        return None  # one that people do not write into files
    if kind in _LINTED and group in _OTHERS:
        return f"{api_version} {kind} is another product's: change apiVersion to {_LINTED[kind].api_version} to use it here"
    if group.removesuffix(".") != ROLLOUT.group and kind not in _LINTED:
        return None
    if kind in _LINTED:
        near = difflib.get_close_matches(group, [ROLLOUT.group], n=1, cutoff=0.7)
        return f"apiVersion must be {_LINTED[kind].api_version}, not {api_version}" if near else None
    near = difflib.get_close_matches(kind, _LINTED, n=1)
    known = near[0] if near else ", ".join(_LINTED)
    return f"there is no kind {kind} in {api_version}; {'did you mean' if near else 'the kinds are'} {known}{'?' if near else ''}"


def _falling_weights(document: Manifest) -> Iterator[Problem]:
    """The steps of a canary whose weight is lower than that of the step before."""
    strategy = document["spec"].get("strategy") or {}
    last: float = 0
    for index, step in enumerate((strategy.get("canary") or {}).get("steps") or ()):
        weight = step.get("setWeight")
        if weight is not None:
            if weight < last:
                path = f"spec.strategy.canary.steps[{index}].setWeight"
                yield path, f"falls from {last} to {weight}: are the steps in order?"
            last = weight


def _hash_label_remarks(document: Manifest) -> Iterator[Problem]:
    """The places of a Rollout's template that name the label by which another controller tells its revisions apart."""
    for use in hash_uses(document["spec"]["template"], "spec.template"):
        where = "so it tells no revisions apart, and pods of an update may find no node"
        if "fieldRef" in use.path:
            where = "so the value is empty"
        elif use.has_value:
            where = "so it matches none of them"
        what = f"no pod of a Rollout has the label {use.label}, {where}"
        yield use.path, f"{what}; write {use.renamed(REVISION_LABEL)}"


@cache
def _schemas() -> Mapping[str, Any]:
    return {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in crd_manifests()
    }


def _fields(kind: str, parents: list[str | int]) -> list[str]:
    """The names that the schema has at a path."""
    schema: Any = _schemas().get(kind, {})
    for part in parents:
        schema = schema.get("items", {}) if isinstance(part, int) else schema.get("properties", {}).get(part, {})
    return list(schema.get("properties", {}))

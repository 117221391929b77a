"""The checks of `rollouts lint`: every problem of every object of ours in a file, with line and path; no cluster needed. Pure.

Problems are what the controller reports too (`api/spec/parse.py`, `traffic/demands.py`), Services in the file that contradict
the Rollouts that name them, and keys that a ConfigMap in the file lacks. So the controller can carry out a file that passes.
Advice is on what loses requests all the same: the graceful-exit checklist, and what the Services in the file do to shares and
cutovers. Numbers that depend on the cluster have their lowest value, so nothing is called too short that may be long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, structs

from rollouts.api.spec.experiment import parse_experiment
from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint_analysis import (
    FileTemplates,
    cluster_remarks,
    experiment_problems,
    no_evidence_remarks,
    query_remarks,
    rollout_problems,
    run_problems,
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
from rollouts.cli.commands.lint_kinds import LINTED, list_problems, mend, stranger
from rollouts.cli.commands.lint_output import ERROR, LintReport, NoteElsewhere, Remark
from rollouts.cli.commands.lint_routes import fixed_providers, providers, route_problems
from rollouts.cli.commands.lint_rules import LintAdvice, LintProblem, LintRule
from rollouts.cli.commands.metric_servers import FileServers, server_problems, servers_in
from rollouts.cli.kubernetes.hash_labels import hash_uses
from rollouts.cli.kubernetes.objects import job_problems, metadata_problems, object_problems
from rollouts.cli.kubernetes.parts import entries, is_a, namespace_of
from rollouts.cli.kubernetes.pods import template_problems as pod_problems
from rollouts.cli.kubernetes.schema import Problem
from rollouts.cli.kubernetes.yaml_text import TextRead, node_at, read_text
from rollouts.controller.observe.places import places_of
from rollouts.controller.providers.declarations import provider_of, server_of
from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.advice.graceful_exit import exit_findings, is_routed, surges
from rollouts.core.advice.service_contradictions import contradictions, lacks_port
from rollouts.core.advice.service_findings import Relation, relation_of, service_findings, weight_findings
from rollouts.core.advice.shared_selectors import Workload, share_pods, shared_text, workload_of
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.revision import REVISION_LABEL
from rollouts.core.model.rollout import RolloutSpec, named_services
from rollouts.core.model.selectors import pod_template
from rollouts.core.model.workload_ref import WorkloadMode
from rollouts.errors import SpecInvalid
from rollouts.objects import (
    ANALYSIS_RUN,
    EXPERIMENT,
    METRIC_PROVIDER,
    ROLLOUT,
    SERVICE,
    TRAFFIC_PROVIDER,
    Key,
    Kind,
    Manifest,
    mapping,
)
from rollouts.traffic.codec import Provider

LEAST = ProxyFacts(mode=ProxyMode.IPTABLES, known_by="not asked: no cluster needs less than kube-proxy in this mode")
"""What every cluster needs at least."""

_ANY_FOLDER = Path("/")  # which one credentials are in, a flag of the controller says


class Known(Struct, frozen=True):
    """What Rollouts may name that stands in the same files; of the traffic providers also those of this installation."""

    providers: Mapping[str, Provider]
    templates: FileTemplates
    configs: FileConfigs
    autoscalers: FileAutoscalers
    servers: FileServers
    workloads: tuple[tuple[str | None, Workload], ...] = ()


def known_in(*files: TextRead, declared: Iterable[Manifest] = ()) -> Known:
    """What files declare; it replaces TrafficProviders of a cluster, which are `declared`."""
    manifests = [manifest for file in files for manifest in file.manifests]
    workloads = [(namespace_of(manifest), workload_of(manifest)) for manifest in manifests]
    return Known(
        providers=providers((*declared, *manifests)),
        templates=templates_of(manifests),
        configs=configs_of(manifests),
        autoscalers=autoscalers_of(manifests),
        servers=servers_in(manifests),
        workloads=tuple((namespace, workload) for namespace, workload in workloads if workload is not None),
    )


def lint_files(
    texts: Sequence[tuple[str, str]], *, metrics: Collection[str] | None = None, silenced: Collection[str] = ()
) -> list[LintReport]:
    """Checks texts, each with its file, together: templates, providers, configuration and autoscalers are known in all.

    Queries are checked if the names that a Prometheus has are given. Advice of silenced rules is left out, and notes that are
    alike become one.

    Raises: nothing. A text that is no YAML is a problem like any other.
    """
    files = [(source, read_text(text)) for source, text in texts]
    known = known_in(*(file for _, file in files))
    reports = [_lint(file, known, source=source, metrics=metrics) for source, file in files]
    _add_duplicates(files, reports)
    for report in reports:
        report.advice = [remark for remark in report.advice if remark.rule not in silenced]
    _merge_notes(reports)
    return reports


def lint(file: TextRead, known: Known, *, source: str = "") -> LintReport:
    """Checks a file with what is known beside it, such as the TrafficProviders of a cluster. Raises: nothing."""
    report = _lint(file, known, source=source)
    _add_duplicates([(source, file)], [report])
    return report


def _lint(file: TextRead, known: Known, *, source: str, metrics: Collection[str] | None = None) -> LintReport:
    linter = _Linter(LintReport(source), known, metrics)
    report = linter.report
    if file.broken is not None:
        report.problems.append(Remark(file.broken.line, "YAML", file.broken.why, LintProblem.UNREADABLE))
    elif not file.objects:
        why = "there is no object in it, so nothing was checked"
        report.problems.append(Remark(1, "document", why, LintProblem.NO_OBJECT))
    for node, document in file.objects:
        if isinstance(document, dict):
            linter.check(_Object(node, document))
        else:
            why = "a Kubernetes object is a mapping with apiVersion and kind"
            report.problems.append(Remark(node.start_mark.line + 1, "document", why, LintProblem.UNREADABLE))
    linter.compare()
    linter.advise()
    return report


def _add_duplicates(files: Iterable[tuple[str, TextRead]], reports: Iterable[LintReport]) -> None:
    """Adds objects that are in the files twice. In different folders they may be for different clusters."""
    seen: dict[tuple[str | None, ...], tuple[str, int]] = {}
    for (source, file), report in zip(files, reports, strict=True):
        for found in (_Object(node, value) for node, value in file.objects if isinstance(value, dict)):
            line = node_at(found.node, "metadata.name")[1]
            first, at = seen.setdefault(found.identity, (source, line))
            if not found.name or (first, at) == (source, line):
                continue
            where = f"{first}:{at}" if first != source else f"line {at}"
            what = f"{where} has an object of the same kind, namespace and name: the one that is applied last replaces the other"
            if Path(first).parent == Path(source).parent:
                report.problems.append(found.remark(LintProblem.DUPLICATE_OBJECT, "metadata.name", what))
            else:
                report.advice.append(found.remark(LintAdvice.SAME_OBJECT, "metadata.name", what, Severity.WARNING))


def _merge_notes(reports: Iterable[LintReport]) -> None:
    """Leaves of notes that are alike the first one, with the places of the others."""
    first: dict[tuple[LintRule, str], tuple[LintReport, Remark]] = {}
    others: dict[tuple[LintRule, str], list[NoteElsewhere]] = {}
    for report in reports:
        for remark in list(report.advice):
            key = (remark.rule, remark.what)
            if remark.severity != Severity.NOTE or first.setdefault(key, (report, remark))[1] is remark:
                continue
            others.setdefault(key, []).append(NoteElsewhere(report.source, remark.line, remark.subject))
            report.advice.remove(remark)
    for alike, places in others.items():
        report, remark = first[alike]
        report.advice[report.advice.index(remark)] = structs.replace(remark, others=tuple(places))


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
        return namespace_of(self.manifest)

    @property
    def identity(self) -> tuple[str | None, ...]:
        """Group, kind, namespace and name: what makes two objects one in a cluster."""
        kind = str(self.manifest.get("kind"))
        known = LINTED.get(kind)
        namespace = self.namespace if known is None or known.namespaced else None
        return str(self.manifest.get("apiVersion")).rpartition("/")[0], kind, namespace, self.name

    def remark(self, rule: LintRule, path: str, what: str, severity: str = ERROR) -> Remark:
        subject = f"{self.manifest.get('kind')} {self.metadata.get('name') or '(no name)'}"
        return Remark(node_at(self.node, path)[1], subject, what, rule, path=path, severity=severity)

    def problems(self, rule: LintProblem, problems: Iterable[Problem]) -> list[Remark]:
        return [self.remark(rule, path, what) for path, what in problems]

    def warnings(self, rule: LintAdvice, warnings: Iterable[Problem]) -> list[Remark]:
        return [self.remark(rule, path, what, Severity.WARNING) for path, what in warnings]

    def findings(self, findings: Iterable[Finding]) -> list[Remark]:
        return [
            self.remark(finding.rule, finding.path, f"{finding.what}; {finding.fix}", finding.severity)
            for finding in findings
        ]


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
        kind = LINTED.get(str(manifest.get("kind")))
        if kind is not None and is_a(manifest, kind):
            report.counts[kind.kind] += 1
            report.problems += [
                structs.replace(remark, what=remark.what + mend(kind.kind, remark.path, remark.what))
                for remark in self._problems_of(checked, kind)
            ]
            return
        self.others.append(checked)
        if is_a(manifest, SERVICE):
            self.services.append(checked)
        report.problems += checked.problems(LintProblem.OBJECT_REFUSED, object_problems(manifest))
        if (why := stranger(manifest)) is not None:
            report.problems.append(structs.replace(checked.remark(LintProblem.OTHER_API, "apiVersion", why), path=""))
        else:
            report.skipped.append(str(manifest.get("kind")))

    def _problems_of(self, checked: _Object, kind: Kind) -> list[Remark]:
        """The problems of an object of ours."""
        found = checked.problems(LintProblem.OBJECT_REFUSED, _head_problems(checked.manifest))
        if kind is ROLLOUT:
            return self._rollout_problems(checked, found)
        if kind is EXPERIMENT:
            return self._experiment_problems(checked, found)
        if kind is TRAFFIC_PROVIDER:
            found += _spec_problems(checked, lambda spec: provider_of(checked.name, spec, fixed_providers()))
            return found
        if kind is METRIC_PROVIDER:
            found += _spec_problems(
                checked, lambda spec: server_of(checked.name, spec, folder=_ANY_FOLDER, taken=False)
            )
            return found
        return found + self._analysis_problems(checked, kind)

    def _analysis_problems(self, checked: _Object, kind: Kind) -> list[Remark]:
        """The problems of a template or a run, and its advice."""
        spec = checked.manifest.get("spec")
        problems = run_problems(spec) if kind is ANALYSIS_RUN else template_problems(spec)
        found = checked.problems(LintProblem.ANALYSIS_REFUSED, problems)
        if kind is not ANALYSIS_RUN:
            found += checked.problems(LintProblem.SERVER_UNFIT, server_problems(spec, self.known.servers))
        for index, metric in entries(mapping(spec).get("metrics")):
            job = mapping(mapping(metric.get("provider")).get("job")).get("spec")
            if isinstance(job, dict):
                path = f"spec.metrics[{index}].provider.job.spec"
                found += checked.problems(LintProblem.PODS_REFUSED, job_problems(job, path))
        unknown = () if self.metrics is None else query_remarks(spec, self.metrics)
        self.report.advice += checked.warnings(LintAdvice.METRIC_UNKNOWN, unknown)
        self.report.advice += [
            remark for rule, warning in cluster_remarks(spec) for remark in checked.warnings(rule, [warning])
        ]
        self.report.advice += checked.warnings(LintAdvice.NO_EVIDENCE, no_evidence_remarks(spec))
        return found

    def _experiment_problems(self, checked: _Object, found: list[Remark]) -> list[Remark]:
        """The problems of an Experiment: its spec, its pods, and its analyses together with the templates in the files."""
        spec = mapping(checked.manifest.get("spec"))
        found += _spec_problems(checked, parse_experiment)
        found += checked.problems(LintProblem.SPEC_INVALID, list_problems(checked.manifest))
        for index, group in entries(spec.get("templates")):
            if isinstance(group.get("template"), dict):
                path = f"spec.templates[{index}].template"
                found += checked.problems(LintProblem.PODS_REFUSED, pod_problems(group["template"], path))
        if not found:
            refused = experiment_problems(checked.manifest, self.known.templates)
            found += checked.problems(LintProblem.ANALYSIS_REFUSED, refused)
        return found

    def _rollout_problems(self, checked: _Object, found: list[Remark]) -> list[Remark]:
        """The problems of a Rollout, those already found first; the API server's with its pods at paths that have none yet."""
        manifest, spec = checked.manifest, mapping(checked.manifest.get("spec"))
        namespace = checked.namespace or "default"
        found += _spec_problems(
            checked, lambda spec: places_of(parse_spec(spec), self.known.providers, namespace=namespace)
        )
        found += checked.problems(LintProblem.SPEC_INVALID, list_problems(manifest))
        if isinstance(spec.get("template"), dict):
            found += checked.problems(LintProblem.PODS_REFUSED, pod_problems(spec["template"], "spec.template"))
        if not found:
            rollout = _Rollout(checked.node, manifest, parse_spec(manifest["spec"]))
            self.rollouts.append(rollout)
            for rule, problem in rollout_problems(manifest, rollout.spec, self.known.templates):
                found += checked.problems(rule, [problem])
            found += checked.problems(LintProblem.CONFIG_KEY_MISSING, config_problems(manifest, self.known.configs))
        first: dict[str, Remark] = {}
        for remark in found:
            first.setdefault(remark.path, remark)
        return list(first.values())

    def compare(self) -> None:
        """How Services, autoscalers and routes contradict the Rollouts. One that is not in the files is no problem."""
        for service, rollout in self._with_rollouts(self.services):
            template = pod_template(rollout.manifest)
            if template and service.name in named_services(rollout.spec.strategy):
                found = contradictions(service.manifest, template, rollout=rollout.name)
                problems = [(problem.path, problem.message) for problem in found]
                problems += self._port_problems(service, rollout)
                self.report.problems += service.problems(LintProblem.SERVICE_CONTRADICTS, problems)
        for autoscaler in self.others:
            if autoscaler.manifest.get("kind") == "HorizontalPodAutoscaler":
                beside = {rollout.name: rollout.manifest for _, rollout in self._with_rollouts([autoscaler])}
                found_here = autoscaler_problems(autoscaler.manifest, beside)
                self.report.problems += autoscaler.problems(LintProblem.AUTOSCALER_TARGET, found_here)
        for route, rollout in product(self.others, self.rollouts):
            key = Key(rollout.namespace or "default", rollout.name)
            unusable = route_problems(route.manifest, key, rollout.spec, self.known.providers)
            self.report.problems += route.problems(LintProblem.ROUTE_UNUSABLE, unusable)

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
        template = pod_template(manifest)
        ends = exit_findings(template, drain=spec.drain, numbers=numbers, surges=surges(spec), routed=is_routed(spec))
        if template:
            yield from rollout.findings(ends)
        else:
            what = f"the pod template is that of {spec.workload_ref}, so the pods are not checked here"
            in_place = spec.workload_ref is not None and spec.workload_ref.mode is WorkloadMode.IN_PLACE
            fix = (
                "DrainUnsafe in the cluster says what they lack"
                if in_place
                else "rollouts plan reads it from the cluster"
            )
            finding = Finding(Rule.TEMPLATE_ELSEWHERE, Severity.NOTE, "spec.workloadRef", what, fix)
            yield from rollout.findings([finding])
        yield from rollout.findings(config_findings(manifest, spec, known.configs))
        # Only a note where the files have a Service that selects the pods of both revisions: clients may use that one.
        beside = [service.manifest for service in self.services if service.namespace == rollout.namespace]
        shared = any(relation_of(service, spec) is Relation.SHARED for service in beside)
        yield from rollout.findings(weight_findings(spec, severity=Severity.NOTE if shared else Severity.WARNING))
        yield from rollout.warnings(LintAdvice.FALLING_WEIGHTS, _falling_weights(manifest))
        yield from rollout.warnings(LintAdvice.HASH_LABEL, _hash_label_remarks(manifest))
        yield from rollout.warnings(LintAdvice.REPLICAS_OF_AUTOSCALER, replicas_remarks(manifest, known.autoscalers))
        yield from rollout.warnings(
            LintAdvice.VALUE_OF_AUTOSCALER, value_remarks(manifest, spec.strategy, known.autoscalers)
        )
        if (mine := workload_of(manifest)) is not None:
            workloads = (workload for namespace, workload in known.workloads if namespace == rollout.namespace)
            if others := sorted({str(workload) for workload in workloads if share_pods(mine, workload)}):
                yield from rollout.warnings(LintAdvice.SELECTOR_SHARED, [("spec.selector", shared_text(others))])


def _head_problems(document: Manifest) -> Iterator[Problem]:
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        yield "metadata.name", "a name is required"
    yield from metadata_problems(metadata)
    for key in document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        yield key, "unknown field"
    if not isinstance(document.get("spec"), dict):
        yield "spec", "a mapping is required"


def _spec_problems(checked: _Object, read: Callable[[Manifest], object]) -> list[Remark]:
    """The problems with which `read` refuses the spec of an object of ours."""
    spec = checked.manifest.get("spec")
    try:
        if isinstance(spec, dict):
            read(spec)
    except SpecInvalid as invalid:
        found = ((problem.path, problem.message) for problem in invalid.problems)
        return checked.problems(LintProblem.SPEC_INVALID, found)
    return []


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
    for use in hash_uses(pod_template(document), "spec.template"):
        where = "so it tells no revisions apart, and pods of an update may find no node"
        if "fieldRef" in use.path:
            where = "so the value is empty"
        elif use.has_value:
            where = "so it matches none of them"
        what = f"no pod of a Rollout has the label {use.label}, {where}"
        yield use.path, f"{what}; write {use.renamed(REVISION_LABEL)}"

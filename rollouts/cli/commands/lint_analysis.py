"""What `rollouts lint` knows of analyses: the controller's own checks of templates and of the Rollouts that use them, conditions
that nobody can evaluate, or that call missing numbers good or bad, and metrics that a Prometheus does not have.

Argo Rollouts' users write `isNaN(result) || result < 0.05` and `default(result, 0) == 0` for services without requests. Here such
a measurement is what `noData` says, and an update that waits for it stands still until a person promotes it.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from rollouts.api.spec.analysis.arguments import Updated
from rollouts.api.spec.analysis.in_rollouts import use_in
from rollouts.api.spec.analysis.run import parse_run, parse_template
from rollouts.api.spec.analysis.templates import TemplateName, run_of
from rollouts.api.spec.experiment import drafts_of, parse_experiment
from rollouts.api.spec.experiment_step import experiment_of, pods_beside
from rollouts.api.v1alpha1.wire import parse_duration
from rollouts.cli.commands.lint_rules import LintAdvice, LintProblem
from rollouts.cli.commands.metric_names import missing_metrics
from rollouts.cli.kubernetes.parts import entries, is_a, namespace_of
from rollouts.cli.kubernetes.schema import Problem
from rollouts.core.analysis.run import shortest_s
from rollouts.core.analysis.run_spec import RunSpec
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, DraftProblem
from rollouts.core.model.rollout import RolloutSpec, written_analyses
from rollouts.core.promql import filled_query
from rollouts.errors import ExpressionFailed, ExpressionInvalid, SpecInvalid
from rollouts.metrics.conditions import condition_of
from rollouts.metrics.figures import AGAIN_S, NAMES
from rollouts.objects import ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE, Manifest, mapping

WITH_AN_END = "give it a count, or write it as the analysis beside the steps"
_PLACE = "{{"
_NOTHING: tuple[Any, ...] = (None, [], [math.nan], math.nan)
"""What a condition sees of an answer without evidence."""
_READ = re.compile(r"\bresult(\[[^\]]*\]|\.\w+)")
_CONDITIONS = ("successCondition", "failureCondition")
_GIVEN_BY_THE_CLUSTER = {
    "namespace": "default",
    "uid": "-",
    "resourceVersion": "1",
    "generation": 1,
    "creationTimestamp": "1970-01-01T00:00:00Z",
}

FileTemplates = Mapping[tuple[str | None, TemplateName], Any]
"""Specs of templates by namespace, as a file names it, and name; those of the cluster are in the namespace None."""


def templates_of(manifests: Iterable[Manifest]) -> FileTemplates:
    """The analysis templates of files."""
    found: dict[tuple[str | None, TemplateName], Any] = {}
    for manifest, kind in product(manifests, (ANALYSIS_TEMPLATE, CLUSTER_ANALYSIS_TEMPLATE)):
        if is_a(manifest, kind) and isinstance(metadata := manifest.get("metadata"), dict):
            name = TemplateName(str(metadata.get("name") or ""), cluster_scope=not kind.namespaced)
            found[namespace_of(manifest) if kind.namespaced else None, name] = manifest.get("spec")
    return found


def template_problems(spec: Any, *, read: Callable[[Mapping[str, Any]], object] = parse_template) -> Iterator[Problem]:
    """Path and message of every problem of a template's spec; one that is no object has none here."""
    if not isinstance(spec, dict):
        return
    try:
        read(spec)
    except SpecInvalid as invalid:
        yield from ((problem.path, problem.message) for problem in invalid.problems)
    for (index, metric), name in product(entries(spec.get("metrics")), _CONDITIONS):
        source = metric.get(name)
        if not isinstance(source, str) or not source.strip() or _PLACE in source:
            continue  # one with an argument in it is known when the argument is
        try:
            condition_of(source, defaults=metric.get("minSamples") == 0)
        except ExpressionInvalid as invalid:
            yield f"spec.metrics[{index}].{name}", str(invalid)


def run_problems(spec: Any) -> Iterator[Problem]:
    """The same for the spec of an AnalysisRun, in which every argument has a value."""
    found = [*template_problems(spec, read=parse_run)]
    if found or not isinstance(spec, dict):
        yield from found
        return
    yield from ((f"spec.metrics[{index}].{name}", why) for index, name, why in _filled_problems(spec, parse_run(spec)))


def rollout_problems(
    document: Manifest, spec: RolloutSpec, templates: FileTemplates
) -> Iterator[tuple[LintProblem, Problem]]:
    """Rule, path and message of every problem of the analyses of a Rollout together with their templates.

    An analysis with a template that is not in the files, or that is wrong by itself, has none here: the first may be in the
    cluster, and the second is reported where it stands.
    """
    manifest = {**document, "metadata": {**_GIVEN_BY_THE_CLUSTER, **document.get("metadata", {})}}
    elsewhere = ["the Rollout has no status"]
    elsewhere += ["the Rollout has no spec.template"] if spec.workload_ref is not None else []
    for gate, analysis in written_analyses(spec.strategy).items():
        found = _Files(namespace_of(document), templates)
        of = Updated(manifest=manifest, stable="stable", latest=spec.revision)
        problems: list[tuple[LintProblem, Problem]] = []
        try:
            if gate.kind is AnalysisKind.EXPERIMENT:
                experiment_of(analysis, found, of, pods_beside(spec))
            else:
                problems = list(_made_problems(run_of(use_in(analysis), found, of), gate, analysis.path))
        except SpecInvalid as invalid:
            problems = [(LintProblem.ANALYSIS_REFUSED, (each.path, each.message)) for each in invalid.problems]
        if found.whole:  # what is elsewhere is not known here
            yield from (problem for problem in problems if not any(part in problem[1][1] for part in elsewhere))


def experiment_problems(document: Manifest, templates: FileTemplates) -> Iterator[Problem]:
    """Path and message of every problem of the analyses of an Experiment together with their templates, as `rollout_problems`."""
    found = _Files(namespace_of(document), templates)
    spec, name = document["spec"], str(mapping(document.get("metadata")).get("name") or "experiment")
    drafts = drafts_of(spec, parse_experiment(spec), found, name=name, uid="", available_at_s=0.0)
    for index, draft in enumerate(drafts.values()):
        if found.whole and isinstance(draft, DraftProblem):
            yield f"spec.analyses[{index}]", draft.message


def _made_problems(written: Mapping[str, Any], gate: AnalysisGate, path: str) -> Iterator[tuple[LintProblem, Problem]]:
    """What is wrong with the run that is made for a gate."""
    run = parse_run(written)
    for index, name, why in _filled_problems(written, run):
        what = f"{name} of {run.metrics[index].rules.name!r}, with its arguments: {why}"
        yield LintProblem.ANALYSIS_REFUSED, (path, what)
    if (endless := endless_words(run, gate)) is not None:
        yield LintProblem.ANALYSIS_ENDLESS, (path, f"{endless}; {WITH_AN_END}")


def endless_words(run: RunSpec, gate: AnalysisGate) -> str | None:
    """Why the update never passes this gate by itself, though its run may go well; None where it does."""
    names = [repr(metric.rules.name) for metric in run.metrics if math.isinf(shortest_s([metric.rules]))]
    if gate.kind is AnalysisKind.BACKGROUND or not names:
        return None
    return f"never ends by itself: {' and '.join(names)} has an interval and no count, so the update cannot pass it"


@dataclass(slots=True)
class _Files:
    """Finds templates for one Rollout; `whole` while all are in the files, and nothing is wrong with them."""

    namespace: str | None
    templates: FileTemplates
    whole: bool = True

    def __call__(self, name: TemplateName) -> Mapping[str, Any] | None:
        spec = self.templates.get((None if name.cluster_scope else self.namespace, name))
        self.whole = self.whole and isinstance(spec, dict) and not any(template_problems(spec))
        return spec if isinstance(spec, dict) else None


def _filled_problems(written: Mapping[str, Any], run: RunSpec) -> Iterator[tuple[int, str, str]]:
    """Conditions with arguments that cannot be evaluated once these are in them: the metric's index, the condition, and why."""
    for (index, metric), filled in zip(entries(written.get("metrics")), run.metrics, strict=True):
        for name, source in zip(_CONDITIONS, (filled.condition.success, filled.condition.failure), strict=True):
            if _PLACE not in str(metric.get(name)):
                continue
            try:
                condition_of(source, defaults=filled.condition.min_samples == 0)
            except ExpressionInvalid as invalid:
                yield index, name, str(invalid)


def query_remarks(spec: Any, known: Collection[str]) -> Iterator[Problem]:
    """Path and message for each metric of a query that is not known; a query that names another Prometheus is left out."""
    defaults = {
        f"args.{argument.get('name')}": str(argument["value"])
        for _, argument in entries(mapping(spec).get("args"))
        if isinstance(argument.get("value"), str | int)
    }
    for index, metric in entries(mapping(spec).get("metrics")):
        match metric:
            case {"provider": {"prometheus": {"query": str(query)} as asked}}:
                queries = [("prometheus.query", query)]
            case {"provider": {"compare": {"of": {"prometheus": {"query": str(query)} as asked}} as compared}}:
                queries = [("compare.of.prometheus.query", query), ("compare.total", str(compared.get("total") or ""))]
            case _:
                continue
        if asked.get("address") or asked.get("metricProvider"):
            continue
        for name, query in queries:
            filled = filled_query(query, defaults.get, lambda *_: None)
            yield from ((f"spec.metrics[{index}].provider.{name}", why) for why in missing_metrics(filled, known))


def cluster_remarks(spec: Any) -> Iterator[tuple[LintAdvice, Problem]]:
    """Rule, path and message for conditions that read what the cluster's own sources do not show, and for too short intervals."""
    shorter = f"is shorter than {AGAIN_S:g}s, in which there is a new sample"
    for index, metric in entries(mapping(spec).get("metrics")):
        path, provider = f"spec.metrics[{index}]", mapping(metric.get("provider"))
        for name in NAMES.keys() & provider.keys():
            yield from ((LintAdvice.FIGURE_UNKNOWN, remark) for remark in _condition_remarks(metric, path, name))
            if name != "hpa" and _is_short(metric):
                yield LintAdvice.INTERVAL_SHORT, (f"{path}.interval", f"{shorter}: one would count several times")
        compared = mapping(mapping(provider.get("compare")).get("of"))
        if NAMES.keys() & compared.keys() and _is_short(metric):
            yield LintAdvice.INTERVAL_SHORT, (f"{path}.interval", f"{shorter}: looks between would count for nothing")


def _is_short(metric: Mapping[str, Any]) -> bool:
    try:
        return parse_duration(metric.get("interval")) < AGAIN_S
    except ValueError:  # none, one with an argument in it, or one that is reported as wrong
        return False


def _condition_remarks(metric: Mapping[str, Any], path: str, provider: str) -> Iterator[Problem]:
    known = ", ".join(sorted(NAMES[provider]))
    for name in _CONDITIONS:
        source = metric.get(name)
        if isinstance(source, str) and _PLACE not in source:
            for read in _READ.findall(source):
                if read.removeprefix(".") not in NAMES[provider]:
                    yield f"{path}.{name}", f"result{read[:40]} is nothing that {provider} shows: there is {known}"


def no_evidence_remarks(spec: Any) -> Iterator[Problem]:
    """Path and message for conditions of a template that hold where nothing was measured, and are not asked then."""
    for index, metric in entries(mapping(spec).get("metrics")):
        if metric.get("minSamples") == 0:
            continue
        path, then = f"spec.metrics[{index}]", metric.get("noData") or "inconclusive"
        helps = f"({then}); with minSamples: 0 the condition decides"
        success, failure = metric.get("successCondition"), metric.get("failureCondition")
        if _holds_of_nothing(success, defaults=True):
            what = "calls it a success when there is no number; that is no evidence, and the measurement is what noData says"
            yield f"{path}.successCondition", f"{what} {helps}"
        if _holds_of_nothing(failure, defaults=True) and not _holds_of_nothing(failure, defaults=False):
            what = "gives a missing number a value, and is not asked then: the measurement is what noData says"
            yield f"{path}.failureCondition", f"{what} {helps}"


def _holds_of_nothing(source: Any, *, defaults: bool) -> bool:
    """Whether the condition is true of an answer without a number; False for one that cannot be told here."""
    if not isinstance(source, str) or not source.strip() or _PLACE in source:
        return False
    try:
        condition = condition_of(source, defaults=defaults)
    except ExpressionInvalid:  # a problem of its own
        return False
    if not (condition.reads.of_missing or condition.reads.of_finite):
        return False
    for value in _NOTHING:
        with contextlib.suppress(ExpressionFailed):
            if condition.holds(value, now_s=0.0):
                return True
    return False

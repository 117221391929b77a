"""`rollouts analyze --dry-run`: measures the metrics of analysis templates once, and says how a run of them would end.

Nothing is written, and no controller is needed. The measurements are judged as a run judges them, and the run is played in
virtual time as if all of its measurements came out like these. Templates come from files, and from the cluster when it is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from rich.console import Console
from rich.table import Table

from rollouts.api.spec.analysis.arguments import Updated, with_its_template
from rollouts.api.spec.analysis.run import parse_run
from rollouts.api.spec.analysis.templates import TemplateName, run_of
from rollouts.bounded.here import Here
from rollouts.cli.commands.metric_names import metric_names, missing_metrics
from rollouts.cli.commands.metric_servers import FileServers
from rollouts.cli.commands.templates import TemplatesByName, gathered, use_of
from rollouts.cli.exits import Exit
from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.terminal.listing import print_drawn
from rollouts.cli.terminal.options import fail
from rollouts.cli.terminal.runs import PHASE_STYLE
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.objects import status_of
from rollouts.cli.view.session import Options, Session, open_session
from rollouts.clock import SystemClock
from rollouts.cluster.decoding import manifest_from
from rollouts.controller.analysis.cluster_measurements import cluster_sources
from rollouts.controller.analysis.sources import MeasuredRun, MeasurementSource
from rollouts.controller.facts.cluster_metrics import ClusterMetrics
from rollouts.controller.facts.in_place import in_place_of
from rollouts.core.analysis.cluster_source import ClusterSource
from rollouts.core.analysis.measurement import Measurement
from rollouts.core.analysis.metric import Metric
from rollouts.core.analysis.rehearsal import RunRehearsal, rehearsed
from rollouts.core.analysis.run import Due, Task, retry_interval_s
from rollouts.core.analysis.run_spec import RunSpec
from rollouts.core.analysis.source import DEFAULT_ENDPOINT, Comparison, HttpSource, PrometheusQuery, ServerQuery
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.errors import RolloutsError, SpecInvalid
from rollouts.metrics.addresses import TenantUrls
from rollouts.metrics.comparison import condition_of_comparison, failure_of, measurement_of
from rollouts.metrics.comparison_arms import ArmSeen, look_of, seen_in
from rollouts.metrics.evidence import measured
from rollouts.metrics.requests import MetricEndpoint, Window
from rollouts.metrics.samples import Absence, MetricData, NoEvidence
from rollouts.metrics.sources import Question, found_in, question_to, window_of
from rollouts.objects import ROLLOUT, mapping
from rollouts.ports import Clock, MetricEndpoints
from rollouts.probes.metric_asker import MetricAsker


class AnalyzeOptions(Struct, frozen=True, kw_only=True):
    """How to measure; values of arguments come before defaults, and before what a Rollout or a Secret would give."""

    arguments: Mapping[str, str] = field(default_factory=dict)
    prometheus_url: str = ""
    deadline_s: float = 30.0
    ca_file: Path | None = None
    servers: FileServers = FileServers({}, {})

    @property
    def declared(self) -> Mapping[str, MetricEndpoint]:
        """Endpoints by name; those of files without whose credentials nothing is asked are left out."""
        url, servers = self.prometheus_url, self.servers
        known = {name: endpoint for name, endpoint in servers.endpoints.items() if name not in servers.missing}
        return known | ({DEFAULT_ENDPOINT: MetricEndpoint(url=url, declared=True)} if url else {})

    def question_to(self, source: HttpSource, window: Window | NoEvidence) -> Question | NoEvidence:
        """What is asked, and whom; or why nobody can be asked from here."""
        question = question_to(source, self.declared, window, anywhere=True)
        if isinstance(question, NoEvidence) and isinstance(source, ServerQuery) and self.servers.missing:
            return NoEvidence("; ".join(self.servers.missing.values()), question.absence)
        return question


class Analysed(Struct, frozen=True):
    """One template, measured; `rehearsal` is how a run would end whose measurements all come out like these."""

    template: str
    spec: RunSpec
    measurements: Mapping[str, Measurement]
    rehearsal: RunRehearsal
    hints: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit(self) -> Exit:
        """BAD where a run would end badly, or go on without a success."""
        if self.rehearsal.ends:
            return Exit.BAD if self.rehearsal.status.phase.bad else Exit.OK
        for metric in self.spec.metrics:
            seen = self.measurements[metric.rules.name]
            compares = (
                isinstance(metric.source, Comparison) and seen.phase is AnalysisPhase.PENDING and seen.samples > 0
            )
            if not (metric.rules.dry_run or compares or seen.phase is AnalysisPhase.SUCCESSFUL):
                return Exit.BAD
        return Exit.OK


def run_spec_of(
    name: TemplateName, templates: TemplatesByName, arguments: Mapping[str, str], of: Updated | None = None
) -> RunSpec:
    """What a run of the template measures, of all templates that there are. Raises: SpecInvalid with every problem found."""

    def find(wanted: TemplateName) -> Mapping[str, Any] | None:
        template = templates.get(wanted)
        spec = None if template is None else template.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("args"), list):
            return spec
        # An argument with a value from the command line needs no other source.
        args = [
            {"name": argument["name"], "value": arguments[argument["name"]]}
            if isinstance(argument, dict) and argument.get("name") in arguments
            else argument
            for argument in spec["args"]
        ]
        return {**spec, "args": args}

    declared = {argument.get("name") for _, argument in entries((find(name) or {}).get("args"))}
    others = {argument: value for argument, value in arguments.items() if argument not in declared}
    return parse_run(run_of(use_of(str(name), (name,), others), find, of), root=str(name))


class InCluster(Struct, frozen=True):
    """A Rollout as a run that began long ago, so that no measurement waits for a new sample, and what measures it."""

    of: Updated
    run: MeasuredRun
    sources: Mapping[str, MeasurementSource]


async def analysed(
    template: str,
    spec: RunSpec,
    asked: AnalyzeOptions,
    *,
    endpoints: MetricEndpoints,
    clock: Clock,
    cluster: InCluster | None = None,
) -> Analysed:
    """Measures every metric once, all at the same time.

    Cancellation: safe. Raises: nothing that a server could cause.
    """

    async def measure(metric: Metric) -> Measurement:
        started_at_s = clock.now_s()
        source = cluster.sources.get(metric.source.provider) if cluster is not None else None
        if cluster is not None and source is not None:
            due = Due(metric=metric.rules.name, task=Task.TAKE, number=1)
            taken = await source.measure(cluster.run, metric, due, now_s=started_at_s)
            if taken.finished:
                return taken
            return replace(taken, phase=AnalysisPhase.INCONCLUSIVE, finished_at_s=clock.now_s(), resume_at_s=None)
        if isinstance(metric.source, Comparison):
            return await _compared(metric, metric.source, asked, endpoints, clock)
        found = await _found(metric, asked, endpoints, now_s=started_at_s)
        return measured(found, metric.condition, started_at_s=started_at_s, finished_at_s=clock.now_s())

    taken = await asyncio.gather(*map(measure, spec.metrics))
    measurements = {metric.rules.name: measurement for metric, measurement in zip(spec.metrics, taken, strict=True)}
    hints = await _hints(spec, measurements, asked)
    return Analysed(template, spec, measurements, rehearsed(spec.rules, measurements), hints)


async def _hints(spec: RunSpec, measurements: Mapping[str, Measurement], asked: AnalyzeOptions) -> Mapping[str, str]:
    """Why queries gave no series, perhaps. It is a help beside the verdict: where the names cannot be had there is none."""
    empty = [
        (metric.rules.name, metric.source.query)
        for metric in spec.metrics
        if isinstance(metric.source, PrometheusQuery)
        and metric.source.endpoint in (DEFAULT_ENDPOINT, asked.prometheus_url)
        and measurements[metric.rules.name].samples == 0
        and measurements[metric.rules.name].phase is not AnalysisPhase.ERROR
    ]
    if not empty or not asked.prometheus_url:
        return {}
    try:
        known = await metric_names(asked.prometheus_url, deadline_s=asked.deadline_s, ca_file=asked.ca_file)
    except RolloutsError:
        return {}
    return {name: "; ".join(missing) for name, query in empty if (missing := list(missing_metrics(query, known)))}


def _not_from_here(metric: Metric) -> NoEvidence | None:
    """Why a metric cannot be measured without a cluster; None for one that can be."""
    if metric.secrets:
        names = ", ".join(secret.argument for secret in metric.secrets)
        return NoEvidence(f"needs the secret {names}: give it with --arg", Absence.ERROR)
    source = metric.source.of if isinstance(metric.source, Comparison) else metric.source
    if isinstance(source, HttpSource):
        return None
    if isinstance(source, ClusterSource):
        return NoEvidence("is about a Rollout in a cluster: say which with --rollout", Absence.ERROR)
    return NoEvidence("is measured in the cluster, by a run", Absence.ERROR)


async def _compared(
    metric: Metric, source: Comparison, asked: AnalyzeOptions, endpoints: MetricEndpoints, clock: Clock
) -> Measurement:
    """One look at both arms, as the first one of a run that began an interval ago."""
    now_s = clock.now_s()
    look = _not_from_here(metric) or look_of(source, (), began_at_s=now_s - retry_interval_s(metric.rules), now_s=now_s)
    if isinstance(look, NoEvidence):
        return failure_of(look, now_s=now_s)
    seen: list[ArmSeen] = []
    for query in look.queries:
        assert isinstance(query, HttpSource)  # noqa: S101 - a query keeps the kind of its source
        question = asked.question_to(query, look.window_of(query))
        if isinstance(question, NoEvidence):
            return failure_of(question, now_s=now_s)
        answer = await endpoints.ask(question.request, question.endpoint, deadline_s=asked.deadline_s)
        seen.append(seen_in(answer, look, question.endpoint.recipe))
    return measurement_of(look, seen, started_at_s=now_s, finished_at_s=clock.now_s())


async def _found(metric: Metric, asked: AnalyzeOptions, endpoints: MetricEndpoints, *, now_s: float) -> MetricData:
    if (nothing := _not_from_here(metric)) is not None:
        return nothing
    source = metric.source
    assert isinstance(source, HttpSource)  # noqa: S101 - the others are not measured from here
    question = asked.question_to(source, window_of(source, now_s))
    if isinstance(question, NoEvidence):
        return question
    answer = await endpoints.ask(question.request, question.endpoint, deadline_s=asked.deadline_s)
    return found_in(answer, question.source, question.window)


def draw(result: Analysed, console: Console) -> None:
    """One line for each metric, and one for the run."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("METRIC", "MEASURED", "VALUE", "CONDITION", "WHY"):
        table.add_column(heading, overflow="fold")
    for metric in result.spec.metrics:
        seen = result.measurements[metric.rules.name]
        name = f"{metric.rules.name} (dry run)" if metric.rules.dry_run else metric.rules.name
        conditions = [
            condition_of_comparison(metric.source) if isinstance(metric.source, Comparison) else "",
            metric.condition.success,
            f"not: {metric.condition.failure}" if metric.condition.failure else "",
        ]
        why = "; ".join(filter(None, (seen.message, result.hints.get(metric.rules.name))))
        cells = (name, seen.phase, seen.value or "-", " ".join(filter(None, conditions)) or "-", why or "-")
        table.add_row(*(plain(cell) for cell in cells), style=PHASE_STYLE[seen.phase])
    console.print(plain(result.template), style="bold", markup=False, highlight=False)
    print_drawn(console, table)
    console.print(
        plain(outcome_text(result)), style=PHASE_STYLE[result.rehearsal.status.phase], markup=False, highlight=False
    )


def outcome_text(result: Analysed) -> str:
    """How a run would end, in one sentence."""
    rehearsal = result.rehearsal
    if not rehearsal.ends and any(isinstance(metric.source, Comparison) for metric in result.spec.metrics):
        return "this was one look: a comparison is decided by all looks of a run together"
    if not rehearsal.ends:
        return "with measurements like these a run continues until something else ends it"
    count = count_of(rehearsal.measurements, "measurement")
    within = f" in {short(rehearsal.took_s)}" if rehearsal.took_s else ""
    why = f": {rehearsal.status.message}" if rehearsal.status.message else ""
    return f"with measurements like these a run ends {rehearsal.status.phase}, after {count}{within}{why}"


def _as_json(found: Sequence[Analysed]) -> str:
    """All of it, for scripts."""
    documents = []
    for result in found:
        metrics = []
        for metric in result.spec.metrics:
            seen = result.measurements[metric.rules.name]
            facts = {name: getattr(seen, name) for name in ("phase", "value", "samples", "message")}
            metrics.append(
                {
                    "name": metric.rules.name,
                    **facts,
                    "hint": result.hints.get(metric.rules.name, ""),
                    "successCondition": metric.condition.success,
                    "failureCondition": metric.condition.failure,
                    "dryRun": metric.rules.dry_run,
                }
            )
        run = {
            "ends": result.rehearsal.ends,
            "phase": result.rehearsal.status.phase,
            "message": result.rehearsal.status.message,
            "measurements": result.rehearsal.measurements,
            "tookSeconds": result.rehearsal.took_s,
        }
        documents.append({"template": result.template, "metrics": metrics, "run": run})
    return json.dumps(documents, indent=2)


def _declared_arguments(templates: TemplatesByName) -> set[str]:
    """Names of the arguments of all templates; what cannot be read has none."""
    specs = [mapping(template.get("spec")) for template in templates.values()]
    names = (argument.get("name") for spec in specs for _, argument in entries(spec.get("args")))
    return {name for name in names if isinstance(name, str)}


async def analyze(
    templates: TemplatesByName,
    names: Sequence[TemplateName],
    asked: AnalyzeOptions,
    *,
    console: Console,
    output_json: bool,
    cluster: InCluster | None = None,
) -> Exit:
    """Measures templates, one after the other, and prints what was found.

    Returns: the worst of them; BAD for one that no run can be made of; USAGE for an argument that no template has.
    """
    if unknown := sorted(asked.arguments.keys() - _declared_arguments(templates)):
        fail(f"no template asks for the argument {', '.join(unknown)}")
        return Exit.USAGE
    clock, found, wrong = SystemClock(), list[Analysed](), False
    asker = MetricAsker(tenants=TenantUrls(), clock=clock, ca_file=asked.ca_file)
    async with contextlib.aclosing(asker):
        for name in names:
            try:
                spec = run_spec_of(name, templates, asked.arguments, None if cluster is None else cluster.of)
            except SpecInvalid as invalid:
                wrong = True
                for problem in invalid.problems:
                    fail(str(problem))
                continue
            found.append(await analysed(str(name), spec, asked, endpoints=asker, clock=clock, cluster=cluster))
            if not output_json:
                draw(found[-1], console)
    if output_json:
        console.print(_as_json(found), markup=False, highlight=False, soft_wrap=True)
    return Exit.BAD if wrong else max((result.exit for result in found), default=Exit.OK)


async def analyze_in_cluster(
    options: Options,
    files: TemplatesByName,
    names: Sequence[TemplateName],
    asked: AnalyzeOptions,
    *,
    rollout: str | None,
    console: Console,
    output_json: bool,
) -> Exit:
    """Does what `analyze` does, with the cluster's templates where the files have none of that name.

    Raises: what `Client` raises; ApiNotFound when there is no such Rollout.
    """
    async with open_session(options) as session:
        cluster = in_cluster(session, rollout, await updated(session, rollout)) if rollout else None
        templates = await gathered(session, names, files)
        return await analyze(templates, names, asked, console=console, output_json=output_json, cluster=cluster)


def in_cluster(session: Session, rollout: str, of: Updated) -> InCluster:
    """The Rollout, to be measured with the rights of the person."""
    run = MeasuredRun(
        namespace=session.namespace, name="", uid="", rollout=rollout, revision=of.latest or "", started_at_s=0.0
    )
    found = in_place_of(mapping(of.manifest.get("spec")), mapping(of.manifest.get("status")))
    metrics = ClusterMetrics(session.client, session.clock, lambda _: found)
    return InCluster(of, run, cluster_sources(metrics, client=session.client, bounded=Here(), clock=session.clock))


async def updated(session: Session, rollout: str) -> Updated:
    """The Rollout that an analysis is about, with its revisions, and the template of the workload that it names.

    Raises: ApiNotFound; what `Client` raises.
    """
    manifest = manifest_from(await session.client.get(ROLLOUT, session.namespace, rollout))
    status, reference = status_of(manifest), mapping(mapping(manifest.get("spec")).get("workloadRef"))
    template: Mapping[str, Any] = {}
    if reference.get("kind") in list(WorkloadKind):
        kind = WorkloadKind(str(reference["kind"])).resource
        found = manifest_from(await session.client.get(kind, session.namespace, str(reference.get("name"))))
        template = mapping(found.get("template") or mapping(found.get("spec")).get("template"))
    of = with_its_template(manifest, template)
    return Updated(manifest=of, stable=status.stable_revision, latest=status.current_revision)

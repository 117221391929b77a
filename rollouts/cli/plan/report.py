"""The report of `rollouts plan` on one Rollout: revision, numbers, steps, waits, and findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from msgspec import Struct

from rollouts.cli.commands.lint_autoscalers import adds_pods
from rollouts.cli.commands.templates import TemplatesByName
from rollouts.cli.plan.config import PlannedConfig, PlannedSource, planned_config
from rollouts.cli.plan.limit_reads import pod_specs
from rollouts.cli.plan.limits import Excess, LimitsReport, NamespaceLimits, limits_report
from rollouts.cli.plan.live import Live, Startup, startup_of, with_service
from rollouts.cli.plan.templates import analysis_findings
from rollouts.cli.plan.workload import NEXT
from rollouts.cli.view.objects import step_words
from rollouts.core.advice.findings import Finding, Rule, Severity
from rollouts.core.advice.graceful_exit import exit_findings, is_routed, surges
from rollouts.core.advice.proxy_findings import proxy_findings
from rollouts.core.advice.service_findings import Relation, relation_of, service_findings, weight_findings
from rollouts.core.context.drain_numbers import drain_numbers
from rollouts.core.drain.pre_stop import injection
from rollouts.core.forecast import Pods, Rehearsal, Stage, StageKind, Waited, rehearse, with_revision
from rollouts.core.model.drain import DrainMode, DrainNumbers, ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.numbering import step_number
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary, RolloutSpec, named_services
from rollouts.core.model.snapshot import Snapshot
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.workload import users_template
from rollouts.objects import Manifest


class PlannedWait(Struct, frozen=True, kw_only=True):
    """One wait of a step.

    Args:
        seconds: the part that is known beforehand; None when the wait is for a person.
        known: False for an analysis, and when pods start in this wait and no start has been measured.
        why: where the number comes from.
    """

    reason: Reason
    seconds: float | None
    known: bool
    why: str


class PlannedStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """One step, or another part of an update.

    Args:
        what: `0 setWeight 25`, `all pods are new`.
        share_percent: the canary's share of the pods behind one Service; None where the ratio of pods is not the share.
        services: which pods each Service of the Rollout selects: `new`, `old`, `both`.
        outgrown: quotas and autoscalers that allow fewer pods than the step needs.
    """

    kind: StageKind
    what: str
    weight_percent: WeightPercent | None
    share_percent: int | None
    pods: Pods
    most_pods: int
    least_available: int
    services: Mapping[str, str]
    waits: tuple[PlannedWait, ...]
    outgrown: tuple[Excess, ...] = ()


class Found(Struct, frozen=True):
    """A finding and the object that it is about: `Service cart`."""

    about: str
    finding: Finding


class PlanReport(Struct, frozen=True, kw_only=True):
    """Everything that is printed.

    Args:
        exists: False when the Rollout is not in the cluster.
        revision: the revision of the file's template.
        current, stable: the revisions in the cluster; "" for none.
        target: the revision that is rolled out: `revision`, or the target of a rollback that still holds.
        supposed: the steps are those of a later update, because the file changes no template, or is the first revision.
        in_place: the workload that keeps its pods; "" for pods of the Rollout's own.
        injection: what is added to the pod template.
        startup: measured on the running pods; None when no pod can be measured.
        stuck: what the update waits for at its end and does not get by itself; "" when it finishes.
        config: what happens to each ConfigMap and Secret that the template names.
        limits: what refuses the new pods whatever their number, and what could not be checked.
    """

    namespace: str
    name: str
    strategy: str
    replicas: int
    exists: bool
    revision: str
    current: str
    stable: str
    target: str
    supposed: bool
    proxy: ProxyFacts
    numbers: DrainNumbers
    injection: Injection | None
    startup: Startup | None
    steps: tuple[PlannedStep, ...]
    stuck: str
    findings: tuple[Found, ...]
    config: tuple[PlannedConfig, ...] = ()
    limits: LimitsReport = LimitsReport()
    in_place: str = ""

    @property
    def known_s(self) -> float:
        """Sum of all waits whose length is known."""
        return sum(wait.seconds or 0.0 for step in self.steps for wait in step.waits)

    @property
    def by_people(self) -> int:
        """The number of waits for a person."""
        return sum(wait.seconds is None for step in self.steps for wait in step.waits)

    @property
    def unmeasured(self) -> int:
        """The number of waits for pods to start where no start has been measured."""
        starts = (wait for step in self.steps for wait in step.waits if wait.reason is not Reason.ANALYSIS_RUNNING)
        return sum(not wait.known for wait in starts)

    @property
    def analyses(self) -> int:
        """The number of analyses whose verdict decides."""
        return sum(wait.reason is Reason.ANALYSIS_RUNNING for step in self.steps for wait in step.waits)

    @property
    def unsafe(self) -> bool:
        """Whether any finding loses requests."""
        return any(found.finding.severity is Severity.UNSAFE for found in self.findings)


def report_of(
    rollout: Manifest,
    seen: Snapshot,
    live: Live,
    *,
    from_file: tuple[Manifest, ...],
    templates: TemplatesByName | None,
    limits: NamespaceLimits,
) -> PlanReport:
    """The plan of one Rollout.

    Args:
        rollout: as it would be after the file was applied.
        seen: the Snapshot that the controller would take then.
        from_file: Services of the same namespace in the same file.
        templates: None when they may not be read.
    """
    spec = seen.rollout.spec
    services = _merged(live.services, from_file)
    findings = list(_missing_or_unknown(seen, services, live.sources))
    for name in named_services(spec.strategy):  # with every Service there, the rest of the update can be rehearsed
        seen = with_service(seen, name, services.get(str(name)))
    numbers = drain_numbers(spec.drain, seen.proxy)
    startup = startup_of(live.pods)
    usual_s = startup.usual_s if startup else 0.0
    rehearsal = rehearse(seen, startup_s=usual_s)
    target = rehearsal.revision
    updates = any(stage.kind not in (StageKind.FIRST, StageKind.AFTER) for stage in rehearsal.stages)
    supposed = rehearsal.stuck is None and not updates  # no update, or the first revision, which has no steps
    if supposed:
        rehearsal = rehearse(with_revision(rehearsal.end, NEXT), startup_s=usual_s)
    template = users_template(seen.rollout)
    about = f"Rollout {seen.rollout.name}"
    analysed = analysis_findings(rollout, spec, templates)
    findings += [Found(about, finding) for finding in (*analysed, *_cluster_findings(seen, rehearsal))]
    findings += _pod_findings(seen, live, numbers, startup, template)
    stages = tuple(_as_carried(rehearsal.stages, live, replicas=spec.replicas))
    related = {name: found for name in sorted(services) if (found := relation_of(services[name], spec)) is not None}
    findings += _service_findings_of(services, related, rollout=about)
    weighs = Severity.NOTE if Relation.SHARED in related.values() else Severity.UNSAFE
    findings += [Found(about, finding) for finding in weight_findings(spec, severity=weighs)]
    unmanaged = {name: "both" for name, relation in related.items() if relation is not Relation.MANAGED}
    pods = pod_specs(template, live, limits, now_s=seen.now_s)
    growths = [stage.growths for stage in rehearsal.stages]
    told = limits_report(limits, pods, growths, replicas=spec.replicas, adds_pods=adds_pods(spec.strategy))
    return PlanReport(
        namespace=seen.rollout.namespace,
        name=seen.rollout.name,
        strategy="Canary" if isinstance(spec.strategy, Canary) else "BlueGreen",
        replicas=spec.replicas,
        exists=live.rollout is not None,
        revision=spec.revision,
        current=seen.status.current_revision,
        stable=seen.status.stable_revision,
        target=target,
        supposed=supposed,
        proxy=seen.proxy,
        numbers=numbers,
        injection=injection(spec.drain, spec.ends, numbers, native=seen.native_sleep),
        startup=startup,
        steps=tuple(
            _step(stage, rehearsal, rollout, spec, startup, unmanaged, outgrown)
            for stage, outgrown in zip(stages, told.by_stage, strict=True)
        ),
        stuck=rehearsal.stuck.message if rehearsal.stuck is not None else "",
        findings=tuple(sorted(findings, key=lambda found: list(Severity).index(found.finding.severity))),
        config=planned_config(live.sources, seen.config.uses if seen.config else (), live.running_config()),
        limits=told,
        in_place=live.in_place,
    )


def _as_carried(stages: Iterable[Stage], live: Live, *, replicas: int) -> Iterator[Stage]:
    """The stages with pods as the workload's own controller can have them.

    A StatefulSet keeps its lowest pod until the steps are over, if it has two; a node keeps the newest revision.
    """
    kind, kept = "" if live.workload is None else live.workload["kind"], 0
    for stage in stages:
        pods = stage.pods
        if stage.kind is StageKind.STEP and kind == WorkloadKind.STATEFUL_SET and pods.new == replicas > 1:
            pods = Pods(replicas - 1, 1, 0)
        if stage.kind is StageKind.STEP and kind == WorkloadKind.DAEMON_SET and pods.new < kept:
            pods = Pods(kept, max(0, replicas - kept), 0)
        kept = pods.new
        yield replace(stage, pods=pods)


def _pod_findings(
    seen: Snapshot, live: Live, numbers: DrainNumbers, startup: Startup | None, template: Manifest
) -> list[Found]:
    """What the pods do at their end; they are told of the object that has the template."""
    spec = seen.rollout.spec
    found = exit_findings(
        template,
        drain=spec.drain,
        numbers=numbers,
        surges=surges(spec),
        routed=is_routed(spec),
        startup_s=startup.fastest_s if startup else None,
        may_inject=live.workload is None,
    )
    about = live.in_place or f"Rollout {seen.rollout.name}"
    return [Found(about, finding) for finding in found]


def _merged(live: tuple[Manifest, ...], from_file: tuple[Manifest, ...]) -> dict[str, Manifest]:
    """Services by name as they would be after the file was applied: fields that are not in the file stay."""
    services = {service["metadata"]["name"]: service for service in live}
    for service in from_file:
        name = service["metadata"]["name"]
        before = services.get(name, {})
        spec = {**(before.get("spec") or {}), **(service.get("spec") or {})}
        metadata = {**(before.get("metadata") or {}), **service["metadata"]}
        services[name] = {**service, "metadata": metadata, "spec": spec}
    return services


def _missing_or_unknown(
    seen: Snapshot, services: Mapping[str, Manifest], sources: tuple[PlannedSource, ...]
) -> Iterator[Found]:
    about, where = f"Rollout {seen.rollout.name}", "spec.template.spec"
    for name in named_services(seen.rollout.spec.strategy):
        if isinstance(name, str) and name not in services:
            what = f"Service {name} is neither in namespace {seen.rollout.namespace} nor in the file: no step ends without it"
            fix = f"create Service {name} with the labels of spec.template as its selector"
            yield Found(about, Finding(Rule.SERVICE_MISSING, Severity.UNSAFE, "spec.strategy", what, fix))
    for source in sources:
        if source.missing:
            what = f"{source.ref} is neither in namespace {seen.rollout.namespace} nor in the file: the update does not begin"
            fix = f"create {source.ref}, or make its references optional"
            yield Found(about, Finding(Rule.CONFIG_MISSING, Severity.UNSAFE, where, what, fix))
        if not source.readable:
            what = f"you may not read {source.ref}, so the plan takes it as unchanged, and its part of the revision is a guess"
            fix = "plan with the right to get it"
            yield Found(about, Finding(Rule.CONFIG_UNKNOWN, Severity.NOTE, where, what, fix))
        if source.locked:
            what = "it is immutable in the cluster, and the file changes it: the API server refuses that"
            fix = "give the new content a new name, as Kustomize's configMapGenerator does, or delete the old one first"
            yield Found(str(source.ref), Finding(Rule.CONFIG_LOCKED, Severity.WARNING, "immutable", what, fix))


def _cluster_findings(seen: Snapshot, rehearsal: Rehearsal) -> Iterator[Finding]:
    if seen.proxy.mode is ProxyMode.UNKNOWN:
        what = (
            f"the proxy mode of the nodes is unknown, so the waits are those of the slowest mode: {seen.proxy.known_by}"
        )
        fix = "set the mode for the controller (--proxy-mode; in the chart: proxyMode) and for `rollouts plan` (--proxy-mode)"
        yield Finding(Rule.PROXY_MODE_UNKNOWN, Severity.WARNING, "spec.drain", what, fix)
    if seen.rollout.spec.drain.mode is not DrainMode.OFF:
        yield from proxy_findings(seen.proxy)
    updated = [stage for stage in rehearsal.stages if stage.kind is not StageKind.FIRST]
    if updated and seen.rollout.spec.replicas and not min(stage.least_available for stage in updated):
        what = "at one moment of the update no pod is available, so every request fails"
        fix = "use maxSurge: 1 with maxUnavailable: 0, or more replicas"
        yield Finding(Rule.NO_CAPACITY, Severity.UNSAFE, "spec.strategy", what, fix)
    if rehearsal.stuck is not None:
        what = f"the update does not continue by itself: {rehearsal.stuck.message}"
        fix = _REMEDIES.get(rehearsal.stuck.reason, rehearsal.stuck.reason.meaning)
        yield Finding(Rule.STUCK, Severity.UNSAFE, "spec", what, fix)


_REMEDIES = {
    Reason.RETRY_NEEDED: "apply another template, or try this one again with `rollouts retry`",
    Reason.SERVICE_NOT_USABLE: "give the Rollout a Service of its own whose selector matches the labels of spec.template",
    Reason.REPLICA_FAILURE: "fix what refuses the pods: a quota, a policy, a webhook",
    Reason.PODS_NOT_AVAILABLE: "raise progressDeadlineSeconds above the time that pods take to become available",
}


def _service_findings_of(
    services: Mapping[str, Manifest], related: Mapping[str, Relation], *, rollout: str
) -> Iterator[Found]:
    for name, relation in related.items():
        for finding in service_findings(services[name], relation=relation):
            yield Found(f"Service {name}", finding)
    if not related:
        what = "no Service in the namespace or the file selects these pods, so it is unknown who sends them requests"
        fix = "nothing to do when the pods take work from a queue; otherwise create a Service that selects them"
        yield Found(rollout, Finding(Rule.NO_SERVICE, Severity.NOTE, "spec.template.metadata.labels", what, fix))


def _step(
    stage: Stage,
    rehearsal: Rehearsal,
    rollout: Manifest,
    spec: RolloutSpec,
    startup: Startup | None,
    unmanaged: Mapping[str, str],
    outgrown: tuple[Excess, ...],
) -> PlannedStep:
    by_ratio = spec.strategy.by_ratio
    total = stage.pods.total
    managed = sorted((str(name), revision) for name, revision in stage.services.items())
    roles = {rehearsal.revision: "new", rehearsal.stable_before: "old", "": "both"}
    return PlannedStep(
        kind=stage.kind,
        what=_stage_words(stage, rollout),
        weight_percent=stage.weight_percent,
        share_percent=round(100 * stage.pods.new / total) if by_ratio and total else None,
        pods=stage.pods,
        most_pods=stage.most_pods,
        least_available=stage.least_available,
        services={**unmanaged, **{name: roles.get(revision, revision) for name, revision in managed}},
        waits=tuple(_wait(wait, spec, startup) for wait in stage.waits),
        outgrown=outgrown,
    )


def _stage_words(stage: Stage, rollout: Manifest) -> str:
    match stage.kind:
        case StageKind.FIRST:
            return "first revision, without steps"
        case StageKind.STEP:
            steps = rollout["spec"]["strategy"]["canary"].get("steps") or ()
            return f"{step_number(stage.step_index or 0)} {step_words(steps[stage.step_index or 0])}"
        case StageKind.FULL:
            return "all pods are new"
        case StageKind.PREVIEW:
            return "preview"
        case StageKind.SWITCH:
            return "switch"
        case StageKind.AFTER:
            return "stable; old pods end"
        case never:
            assert_never(never)


def _wait(waited: Waited, spec: RolloutSpec, startup: Startup | None) -> PlannedWait:
    known, why = True, waited.message
    match waited.reason:
        case Reason.PODS_NOT_AVAILABLE:
            known = startup is not None
            start = f"pods start in {startup.usual_s:g} s, as the running ones did" if startup else "pods start"
            ready = f", then minReadySeconds {spec.min_ready_s}" if spec.min_ready_s else ""
            why = f"{start}{ready}; progressDeadlineSeconds {spec.progress_deadline_s:g} at most"
        case Reason.ANALYSIS_RUNNING:
            known = False
        case Reason.PROMOTION_NEEDED:
            why = "until somebody promotes it"
        case Reason.PAUSED_BY_USER:
            why = "until somebody ends the pause"
        case Reason.TIMED_PAUSE:
            why = "the step's pause.duration"
        case Reason.AUTO_PROMOTION:
            why = "autoPromotionSeconds"
        case Reason.SCALE_DOWN_DELAY:
            why = "scaleDownDelaySeconds: the old pods are kept for a fast rollback"
        case _:
            pass
    return PlannedWait(reason=waited.reason, seconds=waited.seconds, known=known, why=why)

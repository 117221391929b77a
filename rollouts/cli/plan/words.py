"""A plan in words, for a terminal and for a page. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from rollouts.cli.plan.config import ConfigState, PlannedConfig
from rollouts.cli.plan.impact import ConfigImpact
from rollouts.cli.plan.limits import Excess, excess_text, with_and
from rollouts.cli.plan.report import PlannedStep, PlannedWait, PlanReport
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.core.advice.findings import Finding, Severity
from rollouts.core.forecast import StageKind
from rollouts.core.model.reasons import Reason

_DRAIN = frozenset({Reason.DRAINING, Reason.DRAIN_TIMED_OUT})
KEYS_SHOWN = 5


def fact_lines(report: PlanReport, *, of_file: bool = True) -> Iterator[tuple[str, str]]:
    """What the steps depend on, each with its label; "" for the label of the line before.

    Args:
        of_file: the plan is of a Rollout in a file, and not of the one in the cluster.
    """
    if report.in_place:
        yield "In place", f"{report.in_place} keeps its pods, and its own controller replaces them in these steps"
    if not report.exists:
        yield "Revision", f"{report.revision}, the first: the Rollout is not in the cluster yet, all pods start at once"
    elif report.target != report.revision:
        holds = f"the rollback to {report.target} holds until the template changes"
        yield "Revision", f"{report.revision}, not rolled out: {holds}"
    elif report.revision == report.current:
        stable = "stable" if report.current == report.stable else f"being rolled out; {report.stable} is stable"
        yield "Revision", f"{report.revision}, {stable}{': the file does not change the pods' if of_file else ''}"
    else:
        yield "Revision", f"{report.revision}, new; {report.stable or 'no revision'} is stable"
    if report.supposed:
        yield "Shown", "the next update to another template"
    for index, text in enumerate(config_lines(report.config)):
        yield "" if index else "Config", text
    numbers = report.numbers
    yield "Proxies", f"{report.proxy.mode.value}: {report.proxy.known_by}"
    if report.injection is not None:
        yield "preStop", f"added to the pods: {report.injection}"
    if numbers.pre_stop_s:
        yield "", f"{numbers.pre_stop_s} s: {numbers.pre_stop_why}"
        yield "", f"{numbers.grace_s} s of grace: {numbers.grace_why}"
    if any(wait.reason in _DRAIN for step in report.steps for wait in step.waits):
        yield "Drain", f"{numbers.drain_s:g} s: {numbers.drain_why}"
    if report.startup is not None:
        fastest, usual = report.startup.fastest_s, report.startup.usual_s
        yield "Start", f"the running pods became ready in {fastest:g} s at best, and usually in {usual:g} s"


def config_lines(config: tuple[PlannedConfig, ...]) -> Iterator[str]:
    """What happens to each ConfigMap and Secret; those that stay the same are counted."""
    for source in config:
        made = f" -> copy {source.copy}" if source.copy else ""
        match source.state:
            case ConfigState.CHANGED:
                yield f"{source.kind} {source.name} changed{_keys(source.keys)}{made}"
            case ConfigState.NEW:
                yield f"{source.kind} {source.name}{made or ', read as it is'}"
            case ConfigState.ABSENT:
                yield f"{source.kind} {source.name}: absent, which its references allow"
            case ConfigState.SAME:
                pass
            case never:
                assert_never(never)
    if same := [str(source.kind) for source in config if source.state is ConfigState.SAME]:
        yield f"unchanged: {' and '.join(count_of(same.count(kind), kind) for kind in dict.fromkeys(same))}"


def impact_lines(impact: ConfigImpact) -> Iterator[str]:
    """What applying a ConfigMap or Secret of the file does."""
    head = f"{impact.kind} {impact.name}  {impact.namespace}"
    if impact.exists is None:
        yield f"{head}  you may not read it, so what changes is not known"
    elif not impact.exists:
        yield f"{head}  new"
    else:
        yield f"{head}  {'changed' if impact.keys else 'unchanged'}{_keys(impact.keys or None)}"
    starts = f"{count_of(len(impact.starts), 'update')}: {', '.join(impact.starts)}" if impact.starts else "no update"
    yield f"  starts {starts}"


def _keys(keys: tuple[str, ...] | None) -> str:
    if keys is None:
        return ""
    more = ", ..." if len(keys) > KEYS_SHOWN else ""
    return f": {count_of(len(keys), 'key')} ({', '.join(keys[:KEYS_SHOWN])}{more})"


def service_texts(step: PlannedStep) -> list[str]:
    """Which pods each Service selects: `cart: old`."""
    return [f"{name}: {where}" for name, where in step.services.items()]


def wait_text(wait: PlannedWait) -> str:
    """Its reason, how long it is, and where that comes from; `?` for what is not known."""
    if wait.seconds is None:
        return f"{wait.reason.value}: {wait.why}"
    length = _seconds(wait.seconds) if wait.known else f"{_seconds(wait.seconds)} + ?" if wait.seconds else "?"
    return f"{wait.reason.value} {length}: {wait.why}"


def limit_lines(report: PlanReport) -> Iterator[str]:
    """One line for each limit that steps outgrow, that refuses the pods, or that could not be checked."""
    steps: dict[Excess, list[PlannedStep]] = {}
    for step in report.steps:
        for excess in step.outgrown:
            steps.setdefault(excess, []).append(step)
    for excess, outgrowing in steps.items():
        numbers = [step.what.partition(" ")[0] for step in outgrowing if step.kind is StageKind.STEP]
        names = [f"step{'s' if numbers[1:] else ''} {with_and(numbers)}"] if numbers else []
        names += [f'"{step.what}"' for step in outgrowing if step.kind is not StageKind.STEP]
        yield excess_text(with_and(names), excess, several=len(outgrowing) > 1)
    yield from report.limits.refusals
    yield from report.limits.notes


def finding_texts(finding: Finding) -> tuple[str, str]:
    """What it is, and what repairs it."""
    return f"{finding.what}.", f"Fix: {finding.fix}."


def safety_text(report: PlanReport) -> str:
    """How many findings are unsafe."""
    unsafe = sum(found.finding.severity is Severity.UNSAFE for found in report.findings)
    return count_of(unsafe, "unsafe finding") if unsafe else "nothing unsafe was found"


def _seconds(seconds: float) -> str:
    """Whole units as `short` writes them; below ten seconds with parts of a second."""
    return f"{seconds:g}s" if seconds < 10 else short(seconds)


def together_text(report: PlanReport) -> str:
    """The sum of what is known of the waits, and how many others there are."""
    waits = [f"known waits {_seconds(report.known_s)}"]
    if report.unmeasured:
        waits.append(f"{count_of(report.unmeasured, 'start')} of pods not measured")
    if report.analyses:
        waits.append(f"{count_of(report.analyses, 'verdict')} of analyses")
    if report.by_people:
        waits.append(f"{count_of(report.by_people, 'wait')} for a person")
    return f"Together: {', '.join(waits)}"

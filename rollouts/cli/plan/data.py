"""The report of `rollouts plan` on one Rollout as data, for `-o json` and `-o yaml`. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from rollouts.api.status.scalars import weight_to_json
from rollouts.cli.plan.config import config_as_json
from rollouts.cli.plan.limits import Excess, quantity_of
from rollouts.cli.plan.report import PlannedStep, PlanReport


def as_json(report: PlanReport) -> dict[str, Any]:
    """The report as data: everything that `draw_plan` shows, with every number and its reason."""
    numbers = report.numbers
    return {
        "namespace": report.namespace,
        "name": report.name,
        "strategy": report.strategy,
        "replicas": report.replicas,
        "exists": report.exists,
        "revision": {
            "template": report.revision,
            "current": report.current,
            "stable": report.stable,
            "target": report.target,
            "changes": report.target != report.current,
        },
        "proxy": {"mode": report.proxy.mode.value, "knownBy": report.proxy.known_by},
        "drain": {
            "preStopSeconds": numbers.pre_stop_s,
            "preStopWhy": numbers.pre_stop_why,
            "graceSeconds": numbers.grace_s,
            "graceWhy": numbers.grace_why,
            "proxyLagSeconds": numbers.proxy_lag_s,
            "proxyLagWhy": numbers.proxy_lag_why,
            "drainSeconds": numbers.drain_s,
            "drainWhy": numbers.drain_why,
            "injected": None
            if report.injection is None
            else {
                "containers": list(report.injection.containers),
                "preStopSeconds": report.injection.pre_stop_s,
                "graceSeconds": report.injection.grace_s,
                "native": report.injection.native,
            },
        },
        "startup": None
        if report.startup is None
        else {"fastestSeconds": report.startup.fastest_s, "usualSeconds": report.startup.usual_s},
        "supposed": report.supposed,
        "steps": [_step_json(each) for each in report.steps],
        "waits": {
            "knownSeconds": report.known_s,
            "byPeople": report.by_people,
            "unmeasured": report.unmeasured,
            "analyses": report.analyses,
        },
        "stuck": report.stuck or None,
        "limits": {"refusals": list(report.limits.refusals), "notes": list(report.limits.notes)},
        "config": [config_as_json(each) for each in report.config],
        "findings": [
            {
                "about": found.about,
                "rule": found.finding.rule.value,
                "severity": found.finding.severity.value,
                "path": found.finding.path,
                "what": found.finding.what,
                "fix": found.finding.fix,
            }
            for found in report.findings
        ],
        "unsafe": report.unsafe,
    }


def _step_json(step: PlannedStep) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "what": step.what,
        "weightPercent": weight_to_json(step.weight_percent),
        "sharePercent": step.share_percent,
        "pods": {"new": step.pods.new, "old": step.pods.old, "others": step.pods.others},
        "mostPods": step.most_pods,
        "leastAvailable": step.least_available,
        "services": dict(step.services),
        "waits": [
            {"reason": wait.reason.value, "seconds": wait.seconds, "known": wait.known, "why": wait.why}
            for wait in step.waits
        ],
        "outgrown": [_excess_json(each) for each in step.outgrown],
    }


def _excess_json(excess: Excess) -> dict[str, Any]:
    def shown(amount: Fraction) -> str:
        return quantity_of(excess.resource, amount)

    return {
        "kind": excess.kind.value,
        "name": excess.name,
        "resource": excess.resource,
        "needs": shown(excess.needs),
        "allows": shown(excess.allows),
        "hard": shown(excess.hard),
        "others": shown(excess.others),
        "pods": excess.pods,
    }

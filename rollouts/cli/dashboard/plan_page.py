"""What comes next: the steps that are left of an update, or those of the next one, with pods, waits and what is found. Pure."""

from __future__ import annotations

import htpy as h

from rollouts.cli.dashboard.pages import DashboardPage, address_of, sentence, stacked_table, with_code
from rollouts.cli.plan.report import Found, PlanReport
from rollouts.cli.plan.words import (
    fact_lines,
    finding_texts,
    limit_lines,
    safety_text,
    service_texts,
    together_text,
    wait_text,
)
from rollouts.cli.view.tree import RolloutView
from rollouts.core.advice.findings import Severity

_COLOURS = {Severity.UNSAFE: "bad", Severity.WARNING: "wait", Severity.NOTE: "quiet"}


def plan_page(view: RolloutView, report: PlanReport) -> DashboardPage:
    """The page; what it says was worked out from the cluster as it was when it was loaded."""
    title = f"The next update of {view.name}" if report.supposed else f"What comes next for {view.name}"
    if report.supposed:
        about = "No update is under way: this is what another pod template would go through."
    else:
        about = "The rest of the update, if nothing changes and every analysis succeeds."
    limits = [*limit_lines(report)]
    main = h.fragment[
        h.div(".head")[
            h.h1[title],
            h.p(".soft")[h.a(href=address_of(view))["Back to the Rollout"], f" · namespace {view.namespace} · {about}"],
        ],
        h.section("#findings.card")[
            h.h2[safety_text(report).capitalize()],
            h.ul(".plain")[map(_finding, report.findings)] if report.findings else None,
        ],
        h.section("#plan.card")[
            h.h2["Steps"],
            _steps(report) if report.steps else h.p["There is nothing to do."],
            h.p(".more")[sentence(together_text(report))],
        ],
        h.section("#limits.card")[h.h2["Limits"], h.ul(".plain")[(h.li[line] for line in limits)]] if limits else None,
        h.section("#facts.card")[
            h.h2["What it depends on"],
            h.dl(".facts")[((h.dt[label or None], h.dd[text]) for label, text in fact_lines(report, of_file=False))],
        ],
    ]
    return DashboardPage(title, main)


def _steps(report: PlanReport) -> h.Element:
    rows: list[dict[str, h.Node]] = [
        {
            "Step": h.strong[step.what],
            "Pods": f"{step.pods.new} new, {step.pods.old} old"
            + (f", {step.pods.others} other" if step.pods.others else ""),
            "Share": "" if step.share_percent is None else f"{step.share_percent} %",
            "Services": [h.div[text] for text in service_texts(step)],
            "Waits for": [h.div[wait_text(wait)] for wait in step.waits],
        }
        for step in report.steps
    ]
    return stacked_table(rows)


def _finding(found: Found) -> h.Element:
    finding = found.finding
    what, fix = finding_texts(finding)
    return h.li[
        h.div(".title")[
            h.span(class_=f"phase {_COLOURS[finding.severity]}")[finding.severity.value],
            h.strong[found.about],
            h.code(".soft")[finding.path],
        ],
        h.p[with_code(sentence(what))],
        h.p(".soft")[with_code(fix)],
    ]

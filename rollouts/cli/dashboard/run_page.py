"""AnalysisRuns: each as a part of its Rollout's page, and one with all that is kept of it on a page of its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import htpy as h
from msgspec import Struct
from msgspec.structs import replace

from rollouts.cli.dashboard.chart_svg import in_both_widths
from rollouts.cli.dashboard.charts import value_chart
from rollouts.cli.dashboard.pages import DashboardPage, facts_line, more, phase, stacked_table, when
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.runs import MeasurementLine, MetricLine, RunLine


class _Most(Struct, frozen=True):
    """How many are shown: a page is sent again with each change."""

    metrics: int
    measurements: int


_OF_MANY_RUNS = _Most(metrics=12, measurements=50)
_OF_ONE_RUN = _Most(metrics=64, measurements=200)


def run_part(run: RunLine, title: str, address: str, now_s: float) -> h.Element:
    """One of several runs. `address` is that of its page."""
    metrics: Sequence[MetricLine] = run.metrics
    if len(metrics) > _OF_MANY_RUNS.metrics:
        metrics = sorted(metrics, key=lambda metric: not metric.phase.bad)
    return h.div(".revision", id=f"run/{run.name}")[
        h.div(".title")[
            h.h3[h.a(href=address)[title]],
            phase(run.phase),
            h.span(".soft")[facts_line([run.lasts(now_s), *run.remarks, run.name])],
        ],
        h.p[run.why] if run.why else None,
        (
            h.div(".metric", id=f"{run.name}/{metric.name}")[_metric(metric, run, now_s, _OF_MANY_RUNS)]
            for metric in metrics[: _OF_MANY_RUNS.metrics]
        ),
        more(len(metrics) - _OF_MANY_RUNS.metrics, "more metric"),
    ]


def run_page(run: RunLine, title: str, name: str, back: str, *, now_s: float, lost: h.Node) -> DashboardPage:
    """One run about a Rollout or an Experiment.

    Args:
        name, back: of what it is about, and the address of its page.
        lost: a box about an API server that does not answer; None where it does.
    """
    revision = f"revision {run.revision}" if run.revision else ""
    main = h.fragment[
        h.div(".head")[
            h.h1[title],
            phase(run.phase),
            h.p(".soft")[
                h.a(href=back)[f"Back to {name}"],
                " · ",
                facts_line([f"namespace {run.namespace}", revision, run.name, run.lasts(now_s), *run.remarks]),
            ],
        ],
        lost,
        h.p(".card")[run.why] if run.why else None,
        (
            h.section(".card.metric", id=f"{run.name}/{metric.name}")[_metric(metric, run, now_s, _OF_ONE_RUN)]
            for metric in run.metrics[: _OF_ONE_RUN.metrics]
        ),
        more(len(run.metrics) - _OF_ONE_RUN.metrics, "more metric"),
        h.p(".soft")["The same in a terminal:"],
        h.code(".line")[f"kubectl rollouts analysis get {run.name} -n {run.namespace}"],
    ]
    return DashboardPage(f"{run.phase}: {title} of {name}", main, f"{back}/runs/{run.name}/events")


def _metric(metric: MetricLine, run: RunLine, now_s: float, most: _Most) -> h.Node:
    earlier = len(metric.measurements) - most.measurements
    metric = replace(metric, measurements=metric.measurements[-most.measurements :])
    heading = h.h2 if most is _OF_ONE_RUN else h.strong
    return [
        h.div(".title")[heading[metric.title], h.code[metric.value] if metric.value else None, phase(metric.phase)],
        h.p(".soft")[facts_line([metric.condition, metric.counts])],
        h.p[metric.message] if metric.message else None,
        in_both_widths(lambda width: value_chart(metric, now_s=now_s, width=width)),
        h.details(id=f"{run.name}/{metric.name}/measurements", open=most is _OF_ONE_RUN)[
            h.summary[count_of(len(metric.measurements), "measurement")],
            stacked_table([_measurement(each, now_s) for each in reversed(metric.measurements)]),
            more(earlier, "earlier one"),
        ]
        if metric.measurements
        else None,
    ]


def _measurement(each: MeasurementLine, now_s: float) -> dict[str, h.Node]:
    """What the columns have about it, by their names."""
    return {
        "At": when(each.at_s, now_s),
        "Verdict": phase(each.phase),
        "Value": h.span(".mono")[each.rounded or "-"],
        "Samples": str(each.samples or ""),
        "Took": f"{each.took_s:.2f}s" if each.took_s is not None else "",
        "Message": each.message,
    }

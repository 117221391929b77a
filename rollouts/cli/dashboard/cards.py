"""The cards of a Rollout's page, one function each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import htpy as h

from rollouts.cli.dashboard.chart_svg import in_both_widths
from rollouts.cli.dashboard.charts import weight_chart
from rollouts.cli.dashboard.links import LinkTemplate, links_about
from rollouts.cli.dashboard.pages import (
    address_of,
    capital,
    experiment_address,
    more,
    phase,
    share_bar,
    stacked_table,
    until,
    when,
    with_times,
)
from rollouts.cli.dashboard.run_page import run_part
from rollouts.cli.view.config import use_text
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.drains import cutover_lines, injection_text
from rollouts.cli.view.durations import short
from rollouts.cli.view.history import HistoryRow
from rollouts.cli.view.runs import RunLine
from rollouts.cli.view.tree import EventLine, PodLine, PodState, RevisionLine, RolloutView, WaitLine, scaling_texts
from rollouts.cli.view.weights import WeightMark
from rollouts.cli.view.words import shares, unsaid, verdict_text
from rollouts.core.model.numbering import revision_title, step_number
from rollouts.core.model.status import Command, RolloutStatus
from rollouts.objects import EXPERIMENT, Key

_RUNS_SHOWN = 6
_PODS_SHOWN = 60  # of one revision
_POD_SIGNS: Mapping[PodState, tuple[str, str]] = {
    PodState.READY: ("●", ""),
    PodState.STARTING: ("…", "wait"),
    PodState.FAILING: ("✘", "bad"),
    PodState.TERMINATING: ("⌫", ""),
}
"""With their colours."""


def traffic(view: RolloutView, marks: Sequence[WeightMark], now_s: float) -> h.Node:
    """The live and the wanted share of the canary, how it came to that, and its autoscalers.

    None where one revision has all, and nothing is known of how it got it.
    """
    wanted = view.split_percent
    scaling = scaling_texts(view.scaling, now_s=now_s) if view.scaling is not None else []
    live = None if view.live_percent is None or wanted is None else float(view.live_percent)
    chart = in_both_widths(lambda width: weight_chart(marks, now_s=now_s, live_percent=live, width=width))
    if wanted is None and not scaling and chart is None:
        return None
    said = shares(view.live_percent, wanted, view.nearest_ratio) if wanted is not None else ""
    return h.section("#traffic.card.wide.early")[
        h.h2["Traffic"],
        h.fragment[share_bar(wanted, view.live_percent, label=said), h.p[said]] if wanted is not None else None,
        h.p(".soft")[view.traffic] if view.traffic else None,
        (h.p(".soft")[text] for text in scaling),
        h.fragment[
            h.h3[f"Wanted share of {view.revision} over time"],
            chart,
            h.details("#weights")[
                h.summary[count_of(len(marks), "change")],
                h.table[
                    h.thead[h.tr[(h.th(scope="col")[each] for each in ("At", "Wanted"))]],
                    h.tbody[
                        (h.tr[h.td[when(each.at_s, now_s)], h.td[f"{each.percent:.4g} %"]] for each in reversed(marks))
                    ],
                ],
            ],
        ]
        if chart is not None
        else None,
    ]


def steps(view: RolloutView) -> h.Node:
    """The steps, with the present one marked."""
    if not view.steps:
        return None
    idle = view.at_rest or view.steps_skipped
    items = []
    for index, step in enumerate(view.steps):
        sign, word, class_ = "·", "to do", None
        if not idle and index < view.step_index:
            sign, word, class_ = "✔", "done", "done"
        elif not idle and index == view.step_index:
            sign, word = "▶", "now"
        items.append(
            h.li(class_=class_, aria_current="step" if word == "now" else None)[
                h.span(".sign", aria_hidden="true")[sign],
                h.span[f"{step_number(index)}. {step}", h.span(".skip")[f" ({word})"]],
            ]
        )
    said = "No update is under way." if view.at_rest else "They were skipped." if view.steps_skipped else None
    plan = h.p(".more")[h.a(href=address_of(view, "plan"))["What comes next"]]
    return h.section("#steps.card.early")[
        h.h2["Steps"], h.p(".soft")[said] if said else None, h.ol(".steps")[items], plan
    ]


def analyses(view: RolloutView, now_s: float) -> h.Node:
    """Each AnalysisRun with its metrics and their measurements."""
    runs = _runs_of(view)
    unseen = [each for each in view.verdicts if each.run not in {run.name for run in runs}]
    if not runs and not unseen:
        return None
    return h.section("#analyses.card")[
        h.h2["Analyses"],
        (run_part(run, capital(run.about), _address_of_run(view, run), now_s) for run in runs[:_RUNS_SHOWN]),
        more(len(runs) - _RUNS_SHOWN, "more analysis run"),
        (h.p(".soft")[verdict_text(each)] for each in unseen),
    ]


def _address_of_run(view: RolloutView, run: RunLine) -> str:
    """Of its page: an Experiment that is a step has one with its pods and its analyses."""
    if run.kind is EXPERIMENT:
        return experiment_address(Key(view.namespace, run.name))
    return address_of(view, "runs", run.name)


def elsewhere(links: Iterable[tuple[str, str]], about: str) -> h.Node:
    """Links to other servers about something, by label and address; None without any."""
    shown = [
        h.a(href=address, target="_blank", rel="noopener", aria_label=f"{label} of {about}")[label]
        for label, address in links
    ]
    return h.span(".elsewhere")[shown] if shown else None


def revisions(view: RolloutView, now_s: float, templates: Sequence[LinkTemplate] = ()) -> h.Element:
    """The revisions with their pods."""
    lines = [_revision(view, revision, now_s, templates) for revision in view.revisions]
    first = all(revision.number <= 1 for revision in view.revisions)
    compared = view.stable and not first
    changed = h.p(".more")[h.a(href=address_of(view, "diff"))["What the latest one changes"]] if compared else None
    return h.section("#revisions.card")[h.h2["Revisions"], lines or h.p(".soft")["No revisions yet"], changed]


def _revision(view: RolloutView, revision: RevisionLine, now_s: float, templates: Sequence[LinkTemplate]) -> h.Element:
    about = {"namespace": view.namespace, "rollout": view.name, "revision": revision.revision}
    leaves = revision.leaving_text(now_s)
    terminating = sum(pod.deleting for pod in revision.pods)
    # While it shrinks it has more pods than are wanted.
    more_than_wanted = revision.ready > revision.desired
    ready = f"{revision.ready} ready, " if more_than_wanted else f"{revision.ready} of "
    ready += f"{revision.desired} {'wanted' if more_than_wanted else 'ready'}"
    ready += f", {terminating} terminating" if terminating else ""
    return h.div(".revision", id=f"revision/{revision.revision}")[
        h.div(".title")[
            h.h3[revision_title(revision.number, revision.revision)],
            (h.span(".role")[role] for role in revision.roles or ("old",)),
            h.span[ready],
            h.span(".soft")[leaves] if leaves else None,
            elsewhere(links_about(templates, about), f"revision {revision.revision}"),
        ],
        (h.p[h.code[image]] for image in revision.images),
        (h.p(".soft")[use_text(use, arrow="→")] for use in revision.config),
        pods(revision, now_s, lambda pod: links_about(templates, {**about, "pod": pod})),
    ]


def pods(
    revision: RevisionLine, now_s: float, links: Callable[[str], Iterable[tuple[str, str]]] = lambda _: ()
) -> h.Node:
    """The pods of a revision, first those that are not well where they are many; None without any.

    Args:
        links: of a pod, by its name.
    """
    if not revision.pods:
        return None
    unshown = revision.unshown_text(_PODS_SHOWN)
    return h.fragment[
        h.ul(".pods", aria_label=f"Pods of {revision.revision}")[
            (_pod(pod, now_s, links(pod.name)) for pod in revision.shown_pods(_PODS_SHOWN))
        ],
        h.p(".soft")[unshown] if unshown else None,
    ]


def _pod(pod: PodLine, now_s: float, links: Iterable[tuple[str, str]]) -> h.Element:
    sign, colour = _POD_SIGNS[pod.state]
    age = short(now_s - pod.created_at_s)
    return h.li(id=f"pod/{pod.name}", class_=colour or None)[
        h.span(aria_hidden="true")[f"{sign} "], h.code[pod.name], f" {pod.said}, {age}", elsewhere(links, pod.name)
    ]


def drains(status: RolloutStatus, now_s: float) -> h.Node:
    """What the latest cutovers waited for before pods could go, as `drain-report` says it; None before the first one."""
    if not status.cutovers:
        return None
    return h.section("#drains.card")[
        h.h2["Drains"],
        h.p(".soft")[capital(injection_text(status))],
        (
            h.div(".revision")[
                h.h3(class_="warned" if line.cut else None)[line.title],
                (h.p[with_times(fact)] for fact in line.facts),
            ]
            for line in cutover_lines(status, now_s=now_s)
        ),
    ]


def history(view: RolloutView, rows: Iterable[HistoryRow], now_s: float, *, may_act: bool) -> h.Node:
    """How earlier updates ended, and the way back to their revisions; columns that would be empty are left out."""
    ended = [row for row in rows if row.outcome]
    if not ended:
        return None
    cells = [_past(view, row, now_s, may_act=may_act) for row in ended]
    return h.section("#history.card")[h.h2["History"], stacked_table(cells)]


def _past(view: RolloutView, row: HistoryRow, now_s: float, *, may_act: bool) -> dict[str, h.Node]:
    """What the columns have about one revision, by their names."""
    ended = h.span(".under")[when(row.finished_at_s, now_s)] if row.finished_at_s is not None else None
    return {
        "Revision": h.fragment[h.strong(".narrow")[revision_title(row.number, row.revision)], ended],
        "Outcome": phase(row.outcome),
        "Images": [h.code[image] for image in row.images],
        "Changed": row.config,
        "Commands": row.commands,
        "This revision": [
            h.div[h.a(href=f"{address_of(view, 'diff')}?from={row.revision}")["Compare with the current one"]],
            h.div[h.a(href=f"{address_of(view, 'undo')}?to={row.revision}")["Roll back to this"]] if may_act else None,
        ]
        if row.rollback
        else None,
    }


def conditions(view: RolloutView, now_s: float) -> h.Node:
    """The conditions that are not good."""
    if not view.conditions:
        return None
    return h.section("#conditions.card")[
        h.h2["Conditions that are not good"],
        h.ul(".plain")[
            (
                h.li[
                    h.strong[each.type],
                    f" ({each.reason}",
                    h.fragment[", since ", when(each.since_s, now_s)] if each.since_s is not None else None,
                    ")",
                    h.p(".soft")[unsaid_below(each.message, view)],
                ]
                for each in view.conditions
            )
        ],
    ]


def how_long(wait: WaitLine, now_s: float) -> h.Node:
    """Since when it waits, and until when."""
    since = h.fragment[", for ", when(wait.since_s, now_s, ago="")] if wait.since_s is not None else None
    return h.fragment[since, ", ", until(wait.deadline_s, now_s) if wait.deadline_s is not None else "no deadline"]


def unsaid_below(text: str, view: RolloutView) -> str:
    """The text without what the cards of pods and analyses say."""
    pods = (pod for revision in view.revisions for pod in revision.shown_pods(_PODS_SHOWN))
    return unsaid(text, runs=_runs_of(view)[:_RUNS_SHOWN], pods=pods)


def _runs_of(view: RolloutView) -> list[RunLine]:
    return [run for revision in view.revisions for run in revision.runs]


def commands(commands: Iterable[Command], now_s: float) -> h.Node:
    """The commands that stand, with who gave them and what became of them."""
    items = [
        h.li[
            h.strong[f"{each.verb}"],
            f"{each.by_whom}, ",
            when(each.at_s, now_s),
            h.p(".warned")[f"refused: {each.refusal.message}"]
            if each.refusal is not None
            else h.p(".soft")["carried out, or over" if each.over else "in effect"],
        ]
        for each in commands
    ]
    return h.section("#commands.card")[h.h2["Commands"], h.ul(".plain")[items]] if items else None


def events(lines: Sequence[EventLine], now_s: float) -> h.Node:
    """The latest Events, newest first."""
    if not lines:
        return None
    return h.section("#events.card")[
        h.h2["Events"],
        h.ul(".plain")[
            (
                h.li[
                    h.strong(class_="warned" if each.warning else None)[each.reason],
                    " ",
                    h.span(".soft")[when(each.at_s, now_s)],
                    h.p[each.message],
                ]
                for each in reversed(lines)
            )
        ],
    ]

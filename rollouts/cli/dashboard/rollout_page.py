"""One Rollout: what it waits for, what can be done, its traffic, steps, analyses, revisions, commands and events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import htpy as h

from rollouts.cli.dashboard.acts import ACTS, Asked, possible
from rollouts.cli.dashboard.pages import Page, address_of, facts_line, notice, phase, share_bar, until, when
from rollouts.cli.view.config import use_text
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.history import HistoryRow, history_rows
from rollouts.cli.view.objects import RolloutObjects, status_of, view_of
from rollouts.cli.view.runs import MetricLine, RunLine
from rollouts.cli.view.tree import PodLine, RevisionLine, RolloutView, WaitLine, scaling_texts
from rollouts.cli.view.verb_plans import CommandWrite
from rollouts.cli.view.words import Standing, shares, standing_of, unsaid, verdict_text, waits_for
from rollouts.core.model.numbering import revision_title, step_number
from rollouts.core.model.status import Command

_COLOURS = {Standing.BAD: "bad", Standing.PERSON: "wait", Standing.MOVING: "move", Standing.QUIET: "good"}
_RUNS_SHOWN = 6


def rollout_page(seen: RolloutObjects, *, now_s: float, lost: h.Node, told: h.Node = None) -> Page:
    """The page.

    Args:
        lost: a box about an API server that does not answer; None where it does.
        told: a box about what became of a command that was just given.
    """
    view, history, commands = view_of(seen), history_rows(seen), status_of(seen.rollout).commands
    main = h.fragment[
        h.div(".head")[
            h.h1[view.name],
            phase(view.phase),
            h.p(".soft")[
                facts_line(
                    [
                        f"namespace {view.namespace}",
                        {"Canary": "canary", "BlueGreen": "blue-green"}.get(view.strategy, ""),
                        f"updates {view.in_place} in place" if view.in_place else "",
                        f"pods {view.counts}",
                    ]
                )
            ],
        ],
        lost,
        told,
        _state(view, [*possible(seen)], now_s),
        h.div(".columns")[
            h.div[
                _traffic(view, now_s), _analyses(view, now_s), _revisions(view, now_s), _history(view, history, now_s)
            ],
            h.div[
                _steps(view),
                _conditions(view, now_s),
                _commands(commands, now_s),
                _events(view, now_s),
            ],
        ],
    ]
    return Page(f"{view.phase or 'Unknown'}: {view.name}", main, address_of(view, "events"))


def ask_page(asked: Asked, view: RolloutView, *, form_field: str, changed: bool) -> Page:
    """What an act will do, before it does it. Nothing has been written yet.

    Args:
        form_field: the secret that shows that the form is ours.
        changed: the Rollout has changed since it was asked for, so this is not what was confirmed.
    """
    back, planned = address_of(view), asked.planned
    again = h.p["The Rollout has changed since you looked. Nothing was written; this is what it would do now."]
    if not isinstance(planned, CommandWrite):
        main: h.Node = h.fragment[
            notice("wait", "There is nothing to do", h.p[f"{planned.why}."], heading=h.h1),
            h.a(".button", href=back)["Back"],
        ]
        return Page(f"{asked.act.label} {view.name}", h.div(".ask")[main])
    written = ", ".join(
        f"{name} removed" if value is None else f"{name}={value}" for name, value in planned.annotations.items()
    )
    main = h.fragment[
        notice("wait", "Look again", again) if changed else None,
        h.section(".card")[
            h.h1[f"{asked.act.label} {view.name}?"],
            h.p[f"This {planned.meaning}."],
            notice("bad", "What is lost", h.p[f"{planned.loses.removeprefix('lost: ')}."]) if planned.loses else None,
            h.p(".soft")["It is written with your own rights, as the annotation ", h.code[written], ", the same as:"],
            h.code(".line")[asked.kubectl(view.name, view.namespace)],
            h.form(method="post", action=address_of(view, asked.word))[
                (
                    h.input(type="hidden", name=name, value=value)
                    for name, value in (
                        ("form", form_field),
                        ("version", asked.version),
                        ("mark", asked.mark),
                        ("to", asked.to),
                    )
                ),
                h.div(".acts")[
                    h.button(class_="main grave" if asked.act.grave else "main")[asked.act.label],
                    h.a(".button", href=back)["Cancel"],
                ],
            ],
        ],
    ]
    return Page(f"{asked.act.label} {view.name}?", h.div(".ask")[main])


def _state(view: RolloutView, acts: Sequence[str], now_s: float) -> h.Element:
    wait, colour = view.waiting, _COLOURS[standing_of(view)]
    asked_for = [way.command.partition(" ")[0] for way in wait.ways] if wait is not None else []
    lines: list[h.Node] = []
    if view.problems:
        title, lines = "The spec cannot be carried out", [h.ul[(h.li[problem] for problem in view.problems)]]
    elif view.stale:
        title = "Waiting for the controller to see the latest spec"
    elif wait is not None:
        runs = [run for revision in view.revisions for run in revision.runs]
        pods = [pod for revision in view.revisions for pod in revision.pods]
        said = unsaid(wait.gist or wait.message, runs=runs, pods=pods)
        title, lines = said[:1].upper() + said[1:], [_how_long(wait, now_s)]
        lines += [h.code(".line")[f"kubectl rollouts {way.command}"] for way in wait.ways]
    else:
        title = waits_for(view, now_s=now_s) or "Nothing is under way"
    buttons = [
        h.a(
            class_="button grave" if ACTS[word].grave else "button main" if word in asked_for else "button",
            href=address_of(view, word),
        )[ACTS[word].label]
        for word in acts
    ]
    return notice(colour, title, *lines, h.div(".acts")[buttons] if buttons else None)


def _how_long(wait: WaitLine, now_s: float) -> h.Element:
    since = h.fragment[", for ", when(wait.since_s, now_s, ago="")] if wait.since_s is not None else None
    if wait.deadline_s is not None:
        return h.p(".soft")[wait.reason, since, ", ", until(wait.deadline_s, now_s)]
    return h.p(".soft")[wait.reason, since, ", no deadline"]


def _traffic(view: RolloutView, now_s: float) -> h.Node:
    wanted = view.split_percent
    scaling = scaling_texts(view.scaling, now_s=now_s) if view.scaling is not None else []
    if wanted is None and not scaling:
        return None
    said = shares(view.live_percent, wanted, view.nearest_ratio) if wanted is not None else ""
    return h.section("#traffic.card.wide.early")[
        h.h2["Traffic"],
        h.fragment[share_bar(wanted, view.live_percent, label=said), h.p[said]] if wanted is not None else None,
        h.p(".soft")[view.traffic] if view.traffic else None,
        (h.p(".soft")[text] for text in scaling),
    ]


def _steps(view: RolloutView) -> h.Node:
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
    return h.section("#steps.card.early")[h.h2["Steps"], h.p(".soft")[said] if said else None, h.ol(".steps")[items]]


def _analyses(view: RolloutView, now_s: float) -> h.Node:
    runs = [run for revision in view.revisions for run in revision.runs]
    unseen = [each for each in view.verdicts if each.run not in {run.name for run in runs}]
    if not runs and not unseen:
        return None
    return h.section("#analyses.card")[
        h.h2["Analyses"],
        (_run(run, now_s) for run in runs[:_RUNS_SHOWN]),
        h.p(".soft")[f"and {len(runs) - _RUNS_SHOWN} more"] if len(runs) > _RUNS_SHOWN else None,
        (h.p(".soft")[verdict_text(each)] for each in unseen),
    ]


def _run(run: RunLine, now_s: float) -> h.Element:
    state = "ending" if run.ending else "promoted past it" if run.passed or run.unjudged else ""
    return h.div(".revision", id=f"run/{run.name}")[
        h.div(".title")[
            h.h3[run.about.capitalize()],
            phase(run.phase),
            h.span(".soft")[facts_line([run.name, state])],
            h.span(".soft")[when(run.started_at_s, now_s)] if run.started_at_s is not None else None,
        ],
        h.p[run.why] if run.why else None,
        (_metric(metric, run, now_s) for metric in run.metrics),
    ]


def _metric(metric: MetricLine, run: RunLine, now_s: float) -> h.Element:
    name = f"{metric.name} (measured only)" if metric.dry_run else metric.name
    rows = [
        h.tr[
            h.td[when(each.at_s, now_s)],
            h.td[phase(each.phase)],
            h.td(".mono")[each.rounded or "-"],
            h.td[each.message],
        ]
        for each in reversed(metric.measurements)
    ]
    return h.div(".metric", id=f"{run.name}/{metric.name}")[
        h.div(".title")[h.strong[name], h.code[metric.value] if metric.value else None, phase(metric.phase)],
        h.p(".soft")[facts_line([metric.condition, metric.counts])],
        h.p[metric.message] if metric.message else None,
        h.details(id=f"{run.name}/{metric.name}/measurements")[
            h.summary[count_of(len(rows), "measurement")],
            h.table[
                h.thead[h.tr[(h.th(scope="col")[each] for each in ("At", "Verdict", "Value", "Message"))]],
                h.tbody[rows],
            ],
        ]
        if rows
        else None,
    ]


def _revisions(view: RolloutView, now_s: float) -> h.Element:
    lines = [_revision(revision, now_s) for revision in view.revisions]
    return h.section("#revisions.card")[h.h2["Revisions"], lines or h.p(".soft")["No revisions yet"]]


def _revision(revision: RevisionLine, now_s: float) -> h.Element:
    leaves = ""
    if revision.leaves_at_s is not None and revision.leaves_at_s > now_s and revision.desired:
        leaves = f"scales down in {short(revision.leaves_at_s - now_s)}"
    leaving = sum(pod.deleting for pod in revision.pods)
    ready = f"{revision.ready} of {revision.desired} ready" + (f", {leaving} leaving" if leaving else "")
    return h.div(".revision", id=f"revision/{revision.revision}")[
        h.div(".title")[
            h.h3[revision_title(revision.number, revision.revision)],
            (h.span(".role")[role] for role in revision.roles or ("old",)),
            h.span[ready],
            h.span(".soft")[leaves] if leaves else None,
        ],
        (h.p[h.code[image]] for image in revision.images),
        (h.p(".soft")[use_text(use, arrow="→")] for use in revision.config),
        h.ul(".pods", aria_label=f"Pods of {revision.revision}")[(_pod(pod, now_s) for pod in revision.pods)]
        if revision.pods
        else None,
    ]


def _pod(pod: PodLine, now_s: float) -> h.Element:
    sign, word, colour = "…", "starting", "wait"
    if pod.deleting:
        sign, word, colour = "⌫", "leaving", ""
    elif pod.ready:
        sign, word, colour = "●", "ready", ""
    elif pod.problem:
        sign, word, colour = "✘", pod.problem, "bad"
    age = short(now_s - pod.created_at_s)
    return h.li(id=f"pod/{pod.name}", class_=colour or None)[
        h.span(aria_hidden="true")[f"{sign} "], h.code[pod.name], f" {word}, {age}"
    ]


def _history(view: RolloutView, rows: Iterable[HistoryRow], now_s: float) -> h.Node:
    ended = [row for row in rows if row.outcome]
    if not ended:
        return None
    names = ("Revision", "Outcome", "Images", "Changed", "Commands", "Way back")
    return h.section("#history.card")[
        h.h2["History"],
        h.table(".stack")[
            h.thead[h.tr[(h.th(scope="col")[name] for name in names)]],
            h.tbody[(_past(view, row, now_s) for row in ended)],
        ],
    ]


def _past(view: RolloutView, row: HistoryRow, now_s: float) -> h.Element:
    def cell(label: str, content: h.Node) -> h.Element:
        return h.td(data_label=label, class_=None if content else "none")[content or None]

    back = h.a(href=f"{address_of(view, 'undo')}?to={row.revision}")["Roll back to this"] if row.rollback else None
    return h.tr[
        h.td[
            h.strong[revision_title(row.number, row.revision)],
            h.span(".under")[when(row.finished_at_s, now_s)] if row.finished_at_s is not None else None,
        ],
        h.td[phase(row.outcome)],
        cell("Images", [h.code[image] for image in row.images]),
        cell("Changed", row.config or ""),
        cell("Commands", row.commands),
        cell("Way back", back),
    ]


def _conditions(view: RolloutView, now_s: float) -> h.Node:
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
                    h.p(".soft")[each.message],
                ]
                for each in view.conditions
            )
        ],
    ]


def _commands(commands: Iterable[Command], now_s: float) -> h.Node:
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


def _events(view: RolloutView, now_s: float) -> h.Node:
    if not view.events:
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
                for each in reversed(view.events)
            )
        ],
    ]

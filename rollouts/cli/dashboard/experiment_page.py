"""One Experiment: what it waits for or how it ended, its pods, its analyses, its times and its Events. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import htpy as h

from rollouts.cli.dashboard import cards
from rollouts.cli.dashboard.ask_page import TERMINATE, locked
from rollouts.cli.dashboard.links import LinkTemplate, links_about
from rollouts.cli.dashboard.pages import (
    EXPERIMENTS,
    STANDING_COLOURS,
    DashboardPage,
    Look,
    capital,
    experiment_address,
    facts_line,
    more,
    notice,
    object_address,
    phase,
    until,
    when,
)
from rollouts.cli.dashboard.rights import Locks
from rollouts.cli.dashboard.run_page import run_part
from rollouts.cli.view.durations import short
from rollouts.cli.view.experiments import (
    ExperimentAnalysisLine,
    ExperimentLine,
    GroupLine,
    WholeExperiment,
    group_text,
)
from rollouts.objects import ROLLOUT, Key

_ANALYSES_SHOWN = 6


def experiment_page(whole: WholeExperiment, look: Look) -> DashboardPage:
    """The page."""
    line, now_s, links = whole.line, look.now_s, look.links
    key = Key(line.namespace, line.name)
    facts = [f"namespace {line.namespace}", f"pods {line.available_of} available", line.lasts(now_s)]
    about = {"namespace": line.namespace, "experiment": line.name}
    of: h.Node = None
    if line.rollout:
        about["rollout"] = line.rollout
        of = h.fragment[" of ", h.a(href=object_address(ROLLOUT, Key(line.namespace, line.rollout)))[line.rollout]]
    main = h.fragment[
        h.div(".head")[
            h.h1[line.name],
            phase(line.phase),
            h.p(".soft")[
                h.a(href=EXPERIMENTS)["Experiment"],
                of,
                " · ",
                facts_line(facts),
                cards.elsewhere(links_about(links, about), line.name),
            ],
        ],
        look.lost,
        look.told,
        _state(line, key, now_s, look.locks),
        h.div(".columns")[
            h.div[
                _analyses(whole.analyses, key, now_s),
                h.section("#templates.card")[
                    h.h2["Templates"],
                    [_group(group, now_s, links, about) for group in whole.groups]
                    or h.p(".soft")["There are no pods yet."],
                ],
            ],
            h.div[_times(whole, now_s), cards.events(whole.events, now_s)],
        ],
    ]
    return DashboardPage(f"{line.phase}: {line.name}", main, experiment_address(key, "events"))


def _state(line: ExperimentLine, key: Key, now_s: float, locks: Locks) -> h.Element:
    lines: list[h.Node] = []
    title = f"Ending: {line.gist}" if line.ending else capital(line.gist) or line.phase
    if line.problems:
        title, lines = "The spec cannot be carried out", [h.ul[(h.li[problem] for problem in line.problems)]]
    if line.deadline_s is not None:
        lines.append(h.p(".soft")[until(line.deadline_s, now_s)])
    elif not line.phase.over:
        lines.append(h.p(".soft")["no deadline: verdicts end it"])
    button: h.Node = None
    if locks.everything:
        button = h.fragment[h.div(".acts")[h.button(type="button", disabled=True)["Terminate"]], locked(locks.why())]
    else:
        button = h.div(".acts")[h.a(".button.grave", href=experiment_address(key, TERMINATE))["Terminate"]]
    ends = not line.phase.over and not line.ending
    return notice(STANDING_COLOURS[line.standing], title, *lines, button if ends else None)


def _group(group: GroupLine, now_s: float, links: Sequence[LinkTemplate], of: Mapping[str, str]) -> h.Element:
    """One template. `of` has the values of placeholders of its Experiment."""
    about = {**of, "revision": group.status.pod_template_hash}
    status, leaves = group.status, group.pods.leaving_text(now_s)
    service = f"Service {status.service_name}" if status.service_name else ""
    revision = f"revision {status.pod_template_hash}" if status.pod_template_hash else ""
    return h.div(".revision", id=f"template/{status.name}")[
        h.div(".title")[
            h.h3[status.name],
            phase(status.phase),
            h.span[group_text(status)],
            h.span(".soft")[facts_line([revision, service, leaves])],
            cards.elsewhere(links_about(links, about), f"template {status.name}") if revision else None,
        ],
        h.p[status.message] if status.message else None,
        (h.p[h.code[image]] for image in group.pods.images),
        cards.pods(group.pods, now_s, lambda pod: links_about(links, {**about, "pod": pod})),
    ]


def _analyses(analyses: Sequence[ExperimentAnalysisLine], key: Key, now_s: float) -> h.Node:
    """Each analysis with its metrics and their measurements; of one whose run cannot be read what is on record."""
    if not analyses:
        return None
    many = len(analyses) > _ANALYSES_SHOWN
    shown = sorted(analyses, key=lambda each: not each.record.phase.bad) if many else analyses
    parts = [
        h.div(".revision", id=f"run/{each.record.run}")[
            h.div(".title")[h.h3[each.title], phase(each.record.phase), h.span(".soft")[each.record.run]],
            h.p[each.record.message] if each.record.message else None,
        ]
        if each.run is None
        else run_part(each.run, each.title, experiment_address(key, "runs", each.run.name), now_s)
        for each in shown[:_ANALYSES_SHOWN]
    ]
    hidden = more(len(shown) - _ANALYSES_SHOWN, "more analysis run")
    return h.section("#analyses.card.early")[h.h2["Analyses"], parts, hidden]


def _times(whole: WholeExperiment, now_s: float) -> h.Node:
    """When what happened, and when what is known to come."""
    line, status = whole.line, whole.line.status
    past = {
        "Created": line.created_at_s or None,
        "Began": status.started_at_s,
        "All pods available": status.available_at_s,
        "Analyses told to end": status.ending_at_s,
        "Over": status.completed_at_s,
    }
    to_come = {"Its duration is over": whole.ends_at_s, "Its pods go": line.leaves_at_s}
    facts = [(name, when(at_s, now_s)) for name, at_s in past.items() if at_s is not None]
    facts += [(name, until(at_s, now_s)) for name, at_s in to_come.items() if at_s is not None and at_s > now_s]
    if whole.lasts_s is not None:
        facts.append(("Duration", h.span[short(whole.lasts_s)]))
    return h.section("#times.card")[
        h.h2["Times"], h.dl(".facts")[(h.fragment[h.dt[name], h.dd[at]] for name, at in facts)]
    ]

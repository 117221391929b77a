"""One Rollout: what it waits for, what can be done, its traffic, steps, analyses, revisions, commands and events. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import htpy as h

from rollouts.cli.dashboard import cards
from rollouts.cli.dashboard.acts import ACTS, Confirmation, possible
from rollouts.cli.dashboard.pages import DashboardPage, address_of, facts_line, notice, phase, sentence, with_code
from rollouts.cli.dashboard.rights import NO_LOCKS, Locks
from rollouts.cli.view.history import history_rows
from rollouts.cli.view.objects import RolloutObjects, status_of, view_of
from rollouts.cli.view.tree import RolloutView
from rollouts.cli.view.verb_plans import CommandWrite
from rollouts.cli.view.weights import weights_of
from rollouts.cli.view.words import Standing, standing_of, waits_for

_COLOURS = {Standing.BAD: "bad", Standing.PERSON: "wait", Standing.MOVING: "move", Standing.QUIET: "good"}


def rollout_page(
    seen: RolloutObjects, *, now_s: float, lost: h.Node, told: h.Node = None, locks: Locks = NO_LOCKS
) -> DashboardPage:
    """The page.

    Args:
        lost: a box about an API server that does not answer; None where it does.
        told: a box about what became of a command that was just given.
        locks: which commands whoever looks cannot give.
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
        _state(view, [*possible(seen)], now_s, locks),
        h.div(".columns")[
            h.div[
                cards.traffic(view, weights_of(seen), now_s),
                cards.analyses(view, now_s),
                cards.revisions(view, now_s),
                cards.history(view, history, now_s, may_act=not locks.why(ACTS["undo"].verb)),
            ],
            h.div[
                cards.steps(view),
                cards.conditions(view, now_s),
                cards.commands(commands, now_s),
                cards.events(view, now_s),
            ],
        ],
    ]
    return DashboardPage(f"{view.phase or 'Unknown'}: {view.name}", main, address_of(view, "events"))


def ask_page(
    asked: Confirmation, view: RolloutView, *, form_field: str, changed: bool, missing: str = ""
) -> DashboardPage:
    """What an act will do, before it does it. Nothing has been written yet.

    Args:
        form_field: the secret that shows that the form is ours.
        changed: the Rollout has changed since it was asked for, so this is not what was confirmed.
        missing: why whoever looks cannot give commands; "" where they can.
    """
    back, planned = address_of(view), asked.planned
    again = h.p["The Rollout has changed since you looked. Nothing was written; this is what it would do now."]
    if not isinstance(planned, CommandWrite):
        main: h.Node = h.fragment[
            notice("wait", "There is nothing to do", h.p[f"{planned.why}."], heading=h.h1),
            h.a(".button", href=back)["Back"],
        ]
        return DashboardPage(f"{asked.act.label} {view.name}", h.div(".ask")[main])
    written = ", ".join(
        f"{name} removed" if value is None else f"{name}={value}" for name, value in planned.annotations.items()
    )
    main = h.fragment[
        notice("wait", "Look again", again) if changed else None,
        h.section(".card")[
            h.h1[f"{asked.act.label} {view.name}?"],
            h.p[f"This {planned.words}."],
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
                    h.button(class_="main grave" if asked.act.grave else "main", disabled=bool(missing))[
                        asked.act.label
                    ],
                    h.a(".button", href=back)["Cancel"],
                ],
                _locked(missing),
            ],
        ],
    ]
    return DashboardPage(f"{asked.act.label} {view.name}?", h.div(".ask")[main])


def _locked(missing: str) -> h.Node:
    return h.p(".locked")[with_code(sentence(missing))] if missing else None


def _state(view: RolloutView, acts: Sequence[str], now_s: float, locks: Locks) -> h.Element:
    wait, colour = view.waiting, _COLOURS[standing_of(view)]
    asked_for = [way.command.partition(" ")[0] for way in wait.ways] if wait is not None else []
    lines: list[h.Node] = []
    if view.problems:
        title, lines = "The spec cannot be carried out", [h.ul[(h.li[problem] for problem in view.problems)]]
    elif view.stale:
        title = "Waiting for the controller to see the latest spec"
    elif wait is not None:
        said = cards.unsaid_below(wait.gist or wait.message, view)
        title, lines = said[:1].upper() + said[1:], [h.p(".soft")[wait.reason, cards.how_long(wait, now_s)]]
        lines += [h.code(".line")[f"kubectl rollouts {way.command}"] for way in wait.ways]
    else:
        title = waits_for(view, now_s=now_s) or "Nothing is under way"
    return notice(colour, title, *lines, _buttons(view, acts, asked_for, locks) if acts else None)


def _buttons(view: RolloutView, acts: Sequence[str], asked_for: Sequence[str], locks: Locks) -> h.Node:
    """Links to the pages of acts; locked buttons for those that cannot be given, with what is missing."""
    buttons = [
        h.button(type="button", disabled=True)[ACTS[word].label]
        if locks.why(ACTS[word].verb)
        else h.a(class_=ACTS[word].style(asked_for=word in asked_for), href=address_of(view, word))[ACTS[word].label]
        for word in acts
    ]
    return h.fragment[h.div(".acts")[buttons], _locked(locks.why(*(ACTS[word].verb for word in acts)))]

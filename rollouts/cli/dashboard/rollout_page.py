"""One Rollout: what it waits for, what can be done, its traffic, steps, analyses, revisions, commands and events. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import htpy as h

from rollouts.cli.dashboard import cards
from rollouts.cli.dashboard.acts import ACTS, possible
from rollouts.cli.dashboard.ask_page import locked
from rollouts.cli.dashboard.links import links_about
from rollouts.cli.dashboard.pages import (
    STANDING_COLOURS,
    DashboardPage,
    Look,
    address_of,
    capital,
    facts_line,
    notice,
    phase,
    sentence,
)
from rollouts.cli.dashboard.rights import Locks
from rollouts.cli.view.history import history_rows
from rollouts.cli.view.objects import RolloutObjects, status_of, update_command, view_of
from rollouts.cli.view.tree import RolloutView
from rollouts.cli.view.weights import weights_of
from rollouts.cli.view.words import Standing, standing_of, waits_for


def rollout_page(seen: RolloutObjects, look: Look) -> DashboardPage:
    """The page."""
    view, history, status = view_of(seen), history_rows(seen), status_of(seen.rollout)
    now_s, locks, links = look.now_s, look.locks, look.links
    about = {"namespace": view.namespace, "rollout": view.name}
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
                ),
                cards.elsewhere(links_about(links, about), view.name),
            ],
        ],
        look.lost,
        look.told,
        _state(view, dict(possible(seen)), now_s, locks, update=update_command(seen.rollout)),
        h.div(".columns")[
            h.div[
                cards.traffic(view, weights_of(seen), now_s),
                cards.analyses(view, now_s),
                cards.revisions(view, now_s, links),
                cards.history(view, history, now_s, may_act=not locks.why(ACTS["undo"].verb)),
            ],
            h.div[
                cards.steps(view),
                cards.conditions(view, now_s),
                cards.drains(status, now_s),
                cards.commands(status.commands, now_s),
                cards.events(view.events, now_s),
            ],
        ],
    ]
    return DashboardPage(f"{view.phase or 'Unknown'}: {view.name}", main, address_of(view, "events"))


def _state(view: RolloutView, acts: Mapping[str, str], now_s: float, locks: Locks, *, update: str) -> h.Element:
    wait, colour = view.waiting, STANDING_COLOURS[standing_of(view)]
    asked_for = [way.command.partition(" ")[0] for way in wait.ways] if wait is not None else []
    lines: list[h.Node] = []
    if view.problems:
        title, lines = "The spec cannot be carried out", [h.ul[(h.li[problem] for problem in view.problems)]]
    elif view.stale:
        title = "Waiting for the controller to see the latest spec"
        lines = [h.p(".soft")["It takes a moment. If it lasts, this says whether a controller runs:"]]
        lines += [h.code(".line")["kubectl rollouts doctor"]]
    elif wait is not None:
        said = cards.unsaid_below(wait.gist or wait.message, view)
        title, lines = capital(said), [h.p(".soft")[wait.reason, cards.how_long(wait, now_s)]]
        lines += [h.code(".line")[f"kubectl rollouts {way.command}"] for way in wait.ways]
    else:
        title = waits_for(view, now_s=now_s) or "Nothing is under way"
        if standing_of(view) is Standing.QUIET:
            lines = [h.p(".soft")["Another image begins an update:"], h.code(".line")[f"{update} -n {view.namespace}"]]
    return notice(colour, title, *lines, _buttons(view, acts, asked_for, locks) if acts else None)


def _buttons(view: RolloutView, acts: Mapping[str, str], asked_for: Sequence[str], locks: Locks) -> h.Node:
    """Links to the pages of acts, with what each does; locked buttons for those that cannot be given, with what is missing."""
    buttons = [
        h.button(type="button", disabled=True)[ACTS[word].label]
        if locks.why(ACTS[word].verb)
        else h.a(
            class_=ACTS[word].style(asked_for=word in asked_for),
            href=address_of(view, word),
            title=f"{sentence(does)} You are asked first." if does else None,
        )[ACTS[word].label]
        for word, does in acts.items()
    ]
    return h.fragment[h.div(".acts")[buttons], locked(locks.why(*(ACTS[word].verb for word in acts)))]

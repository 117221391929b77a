"""The page that says what an act will do, before it does it. Pure: nothing has been written yet."""

from __future__ import annotations

from collections.abc import Mapping

import htpy as h
from msgspec import Struct

from rollouts.cli.dashboard.acts import Confirmation
from rollouts.cli.dashboard.pages import (
    DashboardPage,
    address_of,
    experiment_address,
    notice,
    sentence,
    with_code,
    with_times,
)
from rollouts.cli.view.experiments import Termination
from rollouts.cli.view.tree import RolloutView
from rollouts.cli.view.verb_plans import CommandWrite, Nothing
from rollouts.objects import Key

TERMINATE = "terminate"
"""The last word of the address where an Experiment is ended."""


class ActQuestion(Struct, frozen=True, kw_only=True):
    """What is asked before an act.

    Args:
        label: of the button.
        grave: it takes something away.
        does: what it does, as a sentence.
        loses: what is lost by it, as a sentence; "" for nothing.
        written: what is written, after `as`.
        kubectl: the same as a command line.
        fields: of the form, which `action` takes.
        back: the address of the page that it came from.
    """

    name: str
    label: str
    grave: bool
    does: str
    loses: str = ""
    written: h.Node
    kubectl: str
    action: str
    fields: Mapping[str, str]
    back: str

    def page(self, *, changed: bool, missing: str) -> DashboardPage:
        """The page.

        Args:
            changed: the object has changed since it was asked for, so this is not what was confirmed.
            missing: why whoever looks cannot do it; "" where they can.
        """
        again = h.p["It has changed since you looked. Nothing was written; this is what it would do now."]
        title = f"{self.label} {self.name}?"
        main = h.fragment[
            notice("wait", "Look again", again) if changed else None,
            h.section(".card")[
                h.h1[title],
                h.p[with_times(self.does)],
                notice("bad", "What is lost", h.p[self.loses]) if self.loses else None,
                h.p(".soft")["It is written with your own rights, as ", self.written, ", the same as:"],
                h.code(".line")[self.kubectl],
                h.form(method="post", action=self.action)[
                    (h.input(type="hidden", name=name, value=value) for name, value in self.fields.items()),
                    h.div(".acts")[
                        h.button(class_="main grave" if self.grave else "main", disabled=bool(missing))[self.label],
                        h.a(".button", href=self.back)["Cancel"],
                    ],
                    locked(missing),
                ],
            ],
        ]
        return DashboardPage(title, h.div(".ask")[main])


def ask_page(
    asked: Confirmation, view: RolloutView, *, form_field: str, changed: bool, missing: str = ""
) -> DashboardPage:
    """What a command to a Rollout will do. `form_field` is the secret that shows that the form is ours."""
    planned, act = asked.planned, asked.act
    if not isinstance(planned, CommandWrite):
        return _nothing_page(planned, f"{act.label} {view.name}", address_of(view))
    written = ", ".join(
        f"{name} removed" if value is None else f"{name}={value}" for name, value in planned.annotations.items()
    )
    question = ActQuestion(
        name=view.name,
        label=act.label,
        grave=act.grave,
        does=f"This {planned.words}.",
        loses=f"{planned.loses.removeprefix('lost: ')}." if planned.loses else "",
        written=h.fragment["the annotation ", h.code[written]],
        kubectl=asked.kubectl(view.name, view.namespace),
        action=address_of(view, asked.word),
        fields={"form": form_field, "version": asked.version, "mark": asked.mark, "to": asked.to},
        back=address_of(view),
    )
    return question.page(changed=changed, missing=missing)


def termination_page(
    planned: Termination | Nothing, key: Key, *, form_field: str, changed: bool, missing: str = ""
) -> DashboardPage:
    """What ending an Experiment will do. `form_field` is the secret that shows that the form is ours."""
    back = experiment_address(key)
    if isinstance(planned, Nothing):
        return _nothing_page(planned, f"Terminate {key.name}", back)
    question = ActQuestion(
        name=key.name,
        label="Terminate",
        grave=True,
        does=sentence(planned.meaning),
        written=h.fragment["the field ", h.code["spec.terminate=true"]],
        kubectl=f"kubectl rollouts experiment terminate {key.name} -n {key.namespace}",
        action=experiment_address(key, TERMINATE),
        fields={"form": form_field, "mark": planned.mark},
        back=back,
    )
    return question.page(changed=changed, missing=missing)


def locked(missing: str) -> h.Node:
    """Why somebody cannot do something; None where they can."""
    return h.p(".locked")[with_code(sentence(missing))] if missing else None


def _nothing_page(planned: Nothing, title: str, back: str) -> DashboardPage:
    said = notice("wait", "There is nothing to do", h.p[f"{planned.why}."], heading=h.h1)
    return DashboardPage(title, h.div(".ask")[said, h.a(".button", href=back)["Back"]])

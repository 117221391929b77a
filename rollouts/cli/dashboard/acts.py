"""What a person can do on a page: the commands of the command line, by the same plans and in the same words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from rollouts.cli.view.giving import RECORDED, answer_to, give
from rollouts.cli.view.objects import RolloutObjects
from rollouts.cli.view.reading import look
from rollouts.cli.view.session import Session
from rollouts.cli.view.verb_plans import (
    CommandWrite,
    Nothing,
    PlannedWrite,
    plan_abort,
    plan_pause,
    plan_promote,
    plan_restart,
    plan_resume,
    plan_retry,
    plan_rollback,
)
from rollouts.core.model.status import Verb
from rollouts.objects import whole_number

_TIME_DIGITS = 10


class Button(Struct, frozen=True, kw_only=True):
    """One command with its options.

    Args:
        label: of its button.
        command: what follows `kubectl rollouts`, with `{name}` and `{to}`.
        verb: the annotation that is written, and the right that it may need.
        plan: of the revision to go back to, "" for the previous one; other acts do not ask.
        timed: its plan is given the time of the page instead, in whole seconds, so that the same time is confirmed.
        grave: it takes traffic away, or passes something that was to be judged.
    """

    label: str
    command: str
    verb: Verb
    plan: Callable[[str], PlannedWrite]
    timed: bool = False
    grave: bool = False

    def style(self, *, asked_for: bool) -> str:
        """Its classes in the style sheet; `asked_for` is what the Rollout waits for."""
        if self.grave:
            return "button grave"
        return "button main" if asked_for else "button"


ACTS: Mapping[str, Button] = {
    "promote": Button(label="Promote", command="promote {name}", verb=Verb.PROMOTE, plan=lambda _: plan_promote),
    "resume": Button(label="Resume", command="resume {name}", verb=Verb.PAUSE, plan=lambda _: plan_resume),
    "retry": Button(label="Retry", command="retry {name}", verb=Verb.RETRY, plan=lambda _: plan_retry),
    "pause": Button(label="Pause", command="pause {name}", verb=Verb.PAUSE, plan=lambda _: plan_pause),
    "restart": Button(
        label="Restart pods",
        command="restart {name}",
        verb=Verb.RESTART,
        plan=lambda at: lambda seen: plan_restart(seen, at_s=float(whole_number(at, digits=_TIME_DIGITS) or 0)),
        timed=True,
    ),
    "skip-analysis": Button(
        label="Skip analysis",
        command="promote {name} --skip-analysis",
        verb=Verb.PROMOTE,
        plan=lambda _: lambda seen: plan_promote(seen, skip_analysis=True),
        grave=True,
    ),
    "promote-full": Button(
        label="Promote fully",
        command="promote {name} --full",
        verb=Verb.PROMOTE,
        plan=lambda _: lambda seen: plan_promote(seen, full=True),
        grave=True,
    ),
    "undo": Button(
        label="Roll back",
        command="undo {name}{to}",
        verb=Verb.ROLLBACK,
        plan=lambda to: lambda seen: plan_rollback(seen, to=to or None),
        grave=True,
    ),
    "abort": Button(label="Abort", command="abort {name}", verb=Verb.ABORT, plan=lambda _: plan_abort, grave=True),
}
"""By the word in the address of their pages, in the order of their buttons."""


class Confirmation(Struct, frozen=True, kw_only=True):
    """What a person is asked to confirm.

    Args:
        to: the revision to go back to, or of a timed act the time, in seconds; "" for none.
        version: resourceVersion of the Rollout that the plan was made of.
        planned: what will be written and what it means, or why nothing is.
    """

    word: str
    to: str
    version: str
    uid: str
    planned: CommandWrite | Nothing

    @property
    def act(self) -> Button:
        """The command."""
        return ACTS[self.word]

    @property
    def plan(self) -> PlannedWrite:
        """What makes the plan of a later look."""
        return self.act.plan(self.to)

    @property
    def mark(self) -> str:
        """Recognizes what was confirmed: the object, what is written, and the words, without those that only count."""
        if isinstance(self.planned, Nothing):
            return ""
        said = [self.uid, self.planned.annotations, self.planned.meaning]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def kubectl(self, name: str, namespace: str) -> str:
        """The same as a command line."""
        to = f" --to-revision {self.to}" if self.to and not self.act.timed else ""
        return f"kubectl rollouts {self.act.command.format(name=name, to=to)} -n {namespace}"


def possible(seen: RolloutObjects) -> Iterator[tuple[str, str]]:
    """The words of the acts that do something now, each with what it does; "" where that depends on when it is asked for."""
    for word, act in ACTS.items():
        planned = act.plan("")(seen)
        if isinstance(planned, CommandWrite):
            yield word, "" if act.timed else planned.meaning


async def ask(session: Session, name: str, word: str, to: str) -> tuple[Confirmation, RolloutObjects]:
    """What the act would do now. Raises: ApiNotFound; what `Client` raises."""
    seen = await look(session, name)
    if ACTS[word].timed and not to:
        to = str(int(session.clock.now_s()))
    metadata = seen.rollout["metadata"]
    asked = Confirmation(
        word=word,
        to=to,
        version=metadata["resourceVersion"],
        uid=metadata["uid"],
        planned=ACTS[word].plan(to)(seen),
    )
    return asked, seen


async def carry_out(
    session: Session, name: str, plan: PlannedWrite, planned: CommandWrite, seen: RolloutObjects
) -> str | None:
    """Writes what was confirmed of the Rollout that was shown, and waits for the controller.

    Returns: "" for the controller's record, why it refused, or None when no controller has answered.
    Raises: what `Client` raises; ApiConflict when the Rollout has changed, and the plan with it.
    """
    await give(session, name, plan, planned, seen)
    answer = await answer_to(session, name, planned)
    return "" if answer == RECORDED else answer

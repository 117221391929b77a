"""The commands in `.status` of a Rollout, and who gave them, to and from the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.status.reader import MESSAGE_MAX, FieldMissing, Reader
from rollouts.api.times import format_time
from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.author import Author, AuthorKind
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Command, Given, Refusal, Verb
from rollouts.objects import Manifest

_ACCEPTED, _REFUSED, _OVER = "Accepted", "Refused", "Over"


def command_to_wire(command: Command) -> Manifest:
    """One record of `status.commands`, as JSON."""
    return _present(
        {
            "verb": command.verb.value,
            "value": command.value,
            "revision": command.revision,
            "at": format_time(command.at_s),
            "step": command.step,
            "analysis": command.analysis.value if command.analysis is not None else None,
            "withoutVerdict": command.unjudged or None,
            "target": command.target or None,
            "takenOff": command.taken_off or None,
            "strategyHash": command.strategy_hash or None,
            "attempt": command.attempt or None,
            "outcome": _outcome(command),
            "reason": command.refusal.reason.value if command.refusal is not None else None,
            "message": command.refusal.message[:MESSAGE_MAX] if command.refusal is not None else None,
            **_author_to_wire(command.by),
        }
    )


def given_to_wire(given: Given) -> Manifest:
    """Who gave one command of an update, as JSON."""
    return {"command": given.verb.value, **_author_to_wire(given.by)}


def given_from_wire(wire: Reader) -> Given:
    """Who gave one command of an update. Raises: FieldMissing."""
    verb, author = wire.need_word("command", Verb), _author_from_wire(wire)
    if author is None:
        raise FieldMissing("by")
    return Given(verb, author)


def _author_to_wire(by: Author | None) -> Manifest:
    return {} if by is None else {"by": by.name, "byKind": by.kind.value}


def _outcome(command: Command) -> str:
    if command.refusal is not None:
        return _REFUSED
    return _OVER if command.over else _ACCEPTED


def command_from_wire(wire: Reader) -> Command:
    """One record of `status.commands`. Raises: FieldMissing."""
    step = wire.optional_number("step")
    if step is None and not wire.absent("step"):
        raise FieldMissing("step")  # None would let every step pass
    analysis = None if wire.absent("analysis") else wire.need_word("analysis", AnalysisKind)  # so would None here
    verb, value = wire.need_word("verb", Verb), wire.need_text("value")
    # A controller that wrote no outcome recorded this abort and carried it out in one write.
    done = wire.absent("outcome") and (verb, value) == (Verb.ABORT, "true")
    return Command(
        verb=verb,
        value=value,
        revision=wire.need_text("revision"),
        at_s=wire.need_time("at"),
        step=step,
        target=wire.text("target"),
        taken_off=wire.flag("takenOff"),
        strategy_hash=wire.text("strategyHash"),
        attempt=wire.number("attempt"),
        refusal=_refusal_from_wire(wire),
        over=done or wire.text("outcome") == _OVER,
        by=_author_from_wire(wire),
        analysis=analysis,
        unjudged=wire.flag("withoutVerdict"),
    )


def _author_from_wire(wire: Reader) -> Author | None:
    """Who gave a command. Nobody is called a user without a word that says so: older controllers recorded field managers."""
    name = wire.text("by")
    return Author(name, wire.word("byKind", AuthorKind, AuthorKind.FIELD_MANAGER)) if name else None


def _refusal_from_wire(wire: Reader) -> Refusal | None:
    """Reads the refusal of a command. An unknown outcome counts as Refused; older controllers wrote none for others."""
    if wire.absent("outcome") or wire.text("outcome") in (_ACCEPTED, _OVER):
        return None
    return Refusal(wire.word("reason", Reason, Reason.COMMAND_INVALID), wire.text("message"))


def _present(wire: Mapping[str, Any]) -> Manifest:
    return {key: value for key, value in wire.items() if value is not None}

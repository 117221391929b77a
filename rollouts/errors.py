"""What can go wrong, named by the remedy.

* RolloutsError
  x TransientError        retry with back-off; says nothing about the user's spec
    + ApiUnavailable      refused, reset, deadline passed, 5xx: the write may or may not have happened
    + AnswerTooLarge      more bytes than are read of one answer: ask for less at a time
    + ApiThrottled        429: wait `retry_after_s`
    + ApiConflict         409, or a JSON Patch test that failed: our view is old; observe again, decide again
    + ApiGone             410: the watch's resourceVersion has expired; list again
    + NotLeader           the lease is not ours (any more); nothing was sent
    + Unanswered          a proxy's or Prometheus' own interface gave no answer that can be read: not known yet
  x TerminalError         no retry until something outside changes; becomes a condition
    + SpecInvalid         the user edits the Rollout
    + ApiForbidden        an administrator edits RBAC, or renews the credentials (401, 403)
    + ApiInvalid          400, 422: the API server refuses the object that we sent
    + ApiNotFound         404: the object, or the resource type, does not exist
    + ApiExists           409 AlreadyExists: an object of that name is there and is not the one we would have made
    + SettingsInvalid     the administrator edits flags, environment or kubeconfig
    + Unroutable          somebody edits the route, or asks less of it
    + ObjectUnreadable    somebody makes the object smaller, or deletes it: it exists and cannot be read
    + WatchFailed         an administrator grants list and watch, or mends the way to the API server
    + ExpressionInvalid   the author edits a CEL expression
    + ExpressionFailed    the author edits a CEL expression, or somebody the object that it has no value for

Expected outcomes ("not yet", "inconclusive") are values, never exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass


class RolloutsError(Exception):
    """Root of everything this program raises on purpose."""


class TransientError(RolloutsError):
    """Trying again later may succeed without anybody changing anything."""


class TerminalError(RolloutsError):
    """Trying again is useless until a person changes something."""


class ApiUnavailable(TransientError):
    """No answer, or a 5xx: whether a write took effect shows only in the next observation."""


class AnswerTooLarge(TransientError):
    """An answer was not read to its end, as it has more than `ports.BODY_MAX_BYTES`."""


class ApiThrottled(TransientError):
    """429: the server asks for patience.

    Args:
        retry_after_s: seconds to wait, 0 to 60; from Retry-After, RFC 9110 section 10.2.3.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ApiConflict(TransientError):
    """409: the object moved since we looked, or another field manager owns a field."""


class ApiGone(TransientError):
    """410: the resourceVersion asked for is no longer kept."""


class NotLeader(TransientError):
    """A write was held back because the lease has run out or was never ours."""


class Unanswered(TransientError):
    """A data plane, or Prometheus, gave no answer; the message says who and why."""


class ApiForbidden(TerminalError):
    """401 or 403."""


class ApiInvalid(TerminalError):
    """400 or 422; the message is the API server's own."""


class ApiNotFound(TerminalError):
    """404."""


class ApiExists(TerminalError):
    """409 with reason AlreadyExists."""


class SettingsInvalid(TerminalError):
    """A flag, an environment variable or a kubeconfig cannot be used; the message says which and what to do."""


class Unroutable(TerminalError):
    """A route cannot be managed, or not as wanted; the message says why and what to do."""


class ObjectUnreadable(TerminalError):
    """An object exists and cannot be read, so nothing is decided that depends on it; the message names it and says why."""


class WatchFailed(TerminalError):
    """What is known of the cluster is old, so nothing is decided on it; the message says since when and why."""


class ExpressionInvalid(TerminalError):
    """A CEL expression cannot be used for anything; the message says why."""


class ExpressionFailed(TerminalError):
    """A CEL expression has no value of the right type for what it was given; the message says why."""


class ExpressionsTooCostly(TerminalError):
    """Expressions that were to share a budget (`expressions.metered`) have spent it."""


@dataclass(frozen=True, slots=True)
class SpecProblem:
    """One thing wrong with a spec.

    Args:
        path: where, as `kubectl explain` writes it: `spec.strategy.canary.steps[2].setWeight`.
        message: what is wrong and how to mend it.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class SpecInvalid(TerminalError):
    """The spec cannot be carried out. Holds every problem found, not only the first."""

    def __init__(self, problems: tuple[SpecProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems

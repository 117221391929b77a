"""Errors, named by their remedy.

* RolloutsError
  x TransientError        retry with back-off; says nothing about the user's spec
    + ApiUnavailable      refused, reset, deadline passed, 5xx: the write may or may not have happened
    + ApiUnauthenticated  401: an ApiUnavailable without any effect; a token is renewed, or a clock repaired
    + AnswerTooLarge      an answer has more bytes than we read: ask for less at a time
    + ApiThrottled        429: wait `retry_after_s`
    + ApiConflict         409, or a failed JSON Patch test: our view is old; observe again, decide again
    + ApiGone             410: the watch's resourceVersion has expired; list again
    + NotLeader           we do not hold the lease (any more); nothing was sent
    + Unanswered          a proxy or Prometheus gave no readable answer: not known yet
  x TerminalError         no retry until something outside changes; becomes a condition
    + SpecInvalid         the user edits the Rollout
    + ApiForbidden        403: an administrator edits RBAC
    + ApiInvalid          400, 422: the API server refuses the object that we sent
    + ApiNotFound         404: the object, or the resource type, does not exist
    + ApiExists           409 AlreadyExists: another object has that name
    + SettingsInvalid     the administrator edits flags, environment or kubeconfig
    + Unroutable          somebody edits the route, or the spec asks less of it
    + ObjectUnreadable    somebody makes the object smaller, or deletes it: it exists and cannot be read
    + WatchFailed         an administrator grants list and watch, or repairs the connection to the API server
    + ExpressionInvalid   the author edits a CEL expression
    + CallEnded           the author edits a CEL expression, or lets it have less to look at: it took too long
    + ExpressionFailed    the author edits a CEL expression, or somebody edits the object for which it has no value

Expected outcomes ("not yet", "inconclusive") are values, never exceptions. `remedy` says when to try again.
"""

from __future__ import annotations

from msgspec import Struct

APPLY_CRDS = "rollouts crds | kubectl apply --server-side --force-conflicts -f -"
"""What installs the CRDs, or upgrades them, whoever has written them before."""


class RolloutsError(Exception):
    """Base class of all errors that this program raises on purpose."""


class TransientError(RolloutsError):
    """A later attempt may succeed without any change by a person."""


class TerminalError(RolloutsError):
    """No attempt can succeed until a person changes something."""


class ApiUnavailable(TransientError):
    """No answer, or a 5xx: whether a write took effect shows only in the next observation."""


class ApiUnauthenticated(ApiUnavailable):
    """401: the server does not know who we are. The request had no effect, and our newest credentials were tried."""


class AnswerTooLarge(TransientError):
    """An answer has more than `ports.BODY_MAX_BYTES` and was not read to its end."""


class ApiThrottled(TransientError):
    """429: the server asks us to wait.

    Args:
        retry_after_s: seconds to wait, 0 to 60; from Retry-After, RFC 9110 section 10.2.3.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ApiConflict(TransientError):
    """409: the object has changed since we read it, or another field manager owns a field."""


class ApiGone(TransientError):
    """410: the server no longer keeps the requested resourceVersion."""


class NotLeader(TransientError):
    """A write was not sent because we do not hold the lease."""


class Unanswered(TransientError):
    """A data plane or Prometheus gave no answer; the message says which one and why."""


class ApiForbidden(TerminalError):
    """403."""


class ApiInvalid(TerminalError):
    """400 or 422; the message is the API server's own."""


class ApiNotFound(TerminalError):
    """404."""


class ApiExists(TerminalError):
    """409 with reason AlreadyExists."""


class SettingsInvalid(TerminalError):
    """A flag, an environment variable or a kubeconfig cannot be used; the message says which and what to do."""


class Unroutable(TerminalError):
    """A route cannot be managed, or cannot express the wanted split; the message says why and what to do."""


class ObjectUnreadable(TerminalError):
    """An object exists and cannot be read, so nothing is decided that depends on it; the message names it and says why."""


class WatchFailed(TerminalError):
    """What we know about the cluster is old, so nothing is decided; the message says since when and why."""


class ExpressionInvalid(TerminalError):
    """A CEL expression cannot be used; the message says why."""


class ExpressionFailed(TerminalError):
    """A CEL expression has no value of the right type for its input; the message says why."""


class ExpressionsTooCostly(TerminalError):
    """Expressions with a shared budget (`expressions.metered`) have spent it."""


class CallEnded(TerminalError):
    """A call in the bounded process (`ports.BoundedCalls`) reached its limit of CPU time or memory; the message says which."""


class SpecProblem(Struct, frozen=True):
    """One thing wrong with a spec.

    Args:
        path: where, in the notation of `kubectl explain`: `spec.strategy.canary.steps[2].setWeight`.
        message: what is wrong and how to repair it.
        may_come: it may be right later without anybody's doing: a field of a status that is not written yet.
    """

    path: str
    message: str
    may_come: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class SpecInvalid(TerminalError):
    """The spec cannot be carried out. Holds every problem found, not only the first."""

    def __init__(self, problems: tuple[SpecProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class Delays(Struct, frozen=True, kw_only=True):
    """How long to wait for the next try after an error, in seconds.

    Args:
        transient_s: None for the exponential back-off of a queue, or what the server asks for.
        forbidden_s: an administrator edits RBAC, or repairs a watch.
        refused_s: quotas and admission policies change without an event that we see.
        crashed_hold_s: after a bug; during this time not even an event causes a try.
    """

    transient_s: float | None = None
    forbidden_s: float = 60.0
    refused_s: float = 300.0
    crashed_s: float = 30.0
    crashed_hold_s: float = 1.0


class Remedy(Struct, frozen=True):
    """When to try again.

    Args:
        in_s: at least; a queue's back-off decides if `backs_off`.
        hold_s: during this time not even an event causes a try.
    """

    in_s: float
    hold_s: float = 0.0
    backs_off: bool = False


def remedy(error: Exception, delays: Delays) -> Remedy:
    """When it makes sense to try again what has failed."""
    match error:
        case ApiThrottled(retry_after_s=retry_after_s) if delays.transient_s is None:
            return Remedy(retry_after_s, hold_s=retry_after_s)
        case TransientError() | TimeoutError():
            return Remedy(delays.transient_s or 0.0, backs_off=delays.transient_s is None)
        case ApiForbidden() | WatchFailed():
            return Remedy(delays.forbidden_s)
        case RolloutsError():
            return Remedy(delays.refused_s)
        case _:
            return Remedy(delays.crashed_s, hold_s=delays.crashed_hold_s)

"""The commands that end a wait. The controller names most of them in its message; the others follow from the reason. Pure."""

from __future__ import annotations

import re

from rollouts.cli.view.tree import WaitLine, WayOut
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import RolloutStatus, WaitingFor

_SHORTENED = frozenset({Reason.TIMED_PAUSE, Reason.AUTO_PROMOTION})
_GIVEN_UP = frozenset(
    {
        Reason.PODS_NOT_AVAILABLE,
        Reason.PROGRESS_DEADLINE_EXCEEDED,
        Reason.REPLICA_FAILURE,
        Reason.ANALYSIS_RUNNING,
        Reason.ANALYSIS_INVALID,
        Reason.ROUTE_NOT_FOUND,
        Reason.ROUTE_NOT_USABLE,
        Reason.ROUTE_NOT_ACCEPTED,
        Reason.SERVICE_NOT_FOUND,
        Reason.SERVICE_NOT_USABLE,
        Reason.TRAFFIC_SWITCHING,
    }
)


def wait_line(wait: WaitingFor, status: RolloutStatus, *, namespace: str, name: str) -> WaitLine:
    """The wait, with the commands taken out of its message (`core/context/pass_context.py` puts them in)."""
    verb = rf"(?:promote|abort|retry|resume|rollback) {re.escape(name)}|analysis terminate [a-z0-9.-]+"
    command = rf"rollouts ((?:{verb}) -n {re.escape(namespace)}(?: --to [a-z0-9]+| --skip-analysis)?)"
    named = re.compile(rf"(?:[;:] (to [^:;]+))?: {command}")
    ways = tuple(WayOut(found[2], found[1] or "") for found in named.finditer(wait.message))
    if not ways and status.stable_revision not in ("", status.current_revision):
        if wait.reason in _SHORTENED:
            ways = (WayOut(f"promote {name} -n {namespace}", "to go on at once"),)
        elif wait.reason in _GIVEN_UP and status.abort is None:
            ways = (WayOut(f"abort {name} -n {namespace}", "to give up"),)
    return WaitLine(wait.reason, wait.message, wait.since_s, wait.deadline_s, named.sub("", wait.message), ways)

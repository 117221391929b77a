"""Whether this process sees the cluster well enough to lead, and whether it should give up the lease to another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from rollouts.cluster.sign_in import SignIn
from rollouts.cluster.store import Store, Table
from rollouts.cluster.watch_state import FAILED_TELL_S
from rollouts.controller.workqueue.standing_watches import WATCHED_KINDS
from rollouts.errors import APPLY_CRDS, ApiNotFound, RolloutsError
from rollouts.objects import ROLLOUT, Kind

BLIND_MAX_S = 180.0
"""How long a kind's watches may fail before the process gives up the lease: a dead connection is noticed after 150 s, a restart
of an API server takes one to two minutes, and the back-off tries at least six times meanwhile."""

log = structlog.get_logger()


class Readiness:
    """The answer of /readyz, and the two events that leading depends on.

    Args:
        sign_in: of all requests of this process.
        wake_all: requests a pass over every Rollout, so that each can report what it waits for.
    """

    def __init__(self, store: Store, *, sign_in: SignIn, wake_all: Callable[[], None]) -> None:
        self.ready = asyncio.Event()
        """Everything was listed once. The code that waits for the lists sets it."""
        self.blind = asyncio.Event()
        """A kind's watches have failed for BLIND_MAX_S: the process should exit, which gives up the lease, and start again."""
        self._store = store
        self._sign_in = sign_in
        self._wake_all = wake_all
        sign_in.on_accepted = wake_all  # passes that failed meanwhile may be in their back-off
        self._crd_missing = False

    def why_not(self) -> str:
        """Why this process is not ready to lead, "" when it is. A standby is ready."""
        if refused := self._sign_in.why_not():
            return refused
        if self._crd_missing:
            return f"the Rollout CRD is not installed: {APPLY_CRDS}"
        tables: list[Table[Any]] = [self._store.table(kind) for kind in WATCHED_KINDS]
        if unlisted := [_described(table) for table in tables if not table.synced.is_set()]:
            return f"not listed yet: {', '.join(unlisted)}"
        if failing := [_described(table) for table in tables if _failing_s(table) >= FAILED_TELL_S]:
            return f"these watches fail: {', '.join(failing)}"
        return "" if self.ready.is_set() else "starting"

    def crd_is_there(self) -> None:
        """Notes that the CRD is installed: a Rollout was seen, or a list of them."""
        self._crd_missing = False

    def on_problem(self, kind: Kind, error: RolloutsError) -> None:
        """Notes and logs that a watch had to pause or to list again (`watch.OnProblem`)."""
        missing = kind == ROLLOUT and isinstance(error, ApiNotFound)
        if missing and not self._crd_missing:
            log.error("crd_missing", why=str(error), remedy=APPLY_CRDS)
        self._crd_missing = missing or (self._crd_missing and kind != ROLLOUT)
        if not missing:
            log.warning("watch_trouble", kind=kind.kind, error=type(error).__name__, why=str(error))
        if kind in WATCHED_KINDS and self.ready.is_set():
            self._judge(self._store.table(kind))

    def _judge(self, table: Table[Any]) -> None:
        """Judges a failed watch of a kind that every pass needs: first the Rollouts report it, later another process leads."""
        failing_s = _failing_s(table)
        if failing_s >= BLIND_MAX_S and not self.blind.is_set():
            remedy = f"check that the controller's ServiceAccount may list and watch {table.kind.plural}"
            log.error(
                "watches_failed", kind=table.kind.kind, failing_s=round(failing_s), why=_described(table), remedy=remedy
            )
            self.blind.set()
        elif any(watch.failing_for_s(now_s=table.now_s()) >= FAILED_TELL_S for watch in table.watches().values()):
            self._wake_all()


def _failing_s(table: Table[Any]) -> float:
    """For how long none of the kind's watches has worked. A watch of one namespace among several affects only its Rollouts."""
    return min(watch.failing_for_s(now_s=table.now_s()) for watch in table.watches().values())


def _described(table: Table[Any]) -> str:
    """The kind, and why its watch fails if it does."""
    trouble = next((watch.trouble for watch in table.watches().values() if watch.trouble), "")
    return f"{table.kind.plural} ({trouble})" if trouble else table.kind.plural

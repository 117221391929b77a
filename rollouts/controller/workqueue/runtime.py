"""Takes keys from a queue and reconciles each: Rollouts, AnalysisRuns and providers alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from rollouts.controller.workqueue.barrier import Barrier
from rollouts.controller.workqueue.queue import WorkQueue
from rollouts.errors import ApiConflict, Delays, NotLeader, TerminalError, TransientError, remedy
from rollouts.objects import Key

log = structlog.get_logger()


async def reconcile_loop(
    queue: WorkQueue,
    reconcile: Callable[[Key], Awaitable[None]],
    *,
    on_error: Callable[[Key, Exception, float], None],
    delays: Delays,
    barrier: Barrier | None = None,
    on_behind: Callable[[], None] = lambda: None,
) -> None:
    """Works until the queue is closed, and finishes what has begun. Whatever `reconcile` raises affects its key alone.

    Args:
        on_error: called with the error, in its handler, and with the seconds until the next try.
        barrier: no key is reconciled before the store shows its last writes; `on_behind` is called for each that waits for that.
    """
    while (key := await queue.take()) is not None:
        try:
            if barrier is not None and barrier.holds_back(key):
                on_behind()
                continue
            await reconcile(key)
            queue.succeeded(key)
        except Exception as error:
            retry = remedy(error, delays)
            retry_in_s = queue.failed(key, retry_in_s=None if retry.backs_off else retry.in_s, hold_s=retry.hold_s)
            on_error(key, error, retry_in_s)
        finally:
            queue.done(key)
        # A pass that writes nothing waits for nothing. Probes, answers and the Lease have their turn here.
        await asyncio.sleep(0)


def log_error(work: str, error: Exception, retry_in_s: float, **key: str) -> None:
    """Logs that work failed, stopped because a person must change something, or crashed because of a bug."""
    if not isinstance(error, TransientError | TimeoutError | TerminalError):
        log.exception(f"{work}_crashed", **key, retry_in_s=retry_in_s)
        return
    facts = {**key, "error": type(error).__name__, "why": str(error), "retry_in_s": retry_in_s}
    match error:
        case TerminalError():
            log.error(f"{work}_stopped", **facts)
        case ApiConflict() | NotLeader():  # a conflict is how two writers share an object
            log.debug(f"{work}_failed", **facts)
        case _:
            log.warning(f"{work}_failed", **facts)

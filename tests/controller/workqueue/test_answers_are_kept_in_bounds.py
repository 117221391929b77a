"""Promise: what the controller remembers of a Rollout's questions has a bound, and the newest answers are the ones it keeps."""

from __future__ import annotations

from rollouts.clock import SystemClock
from rollouts.controller.workqueue.inbox import Inbox
from rollouts.core.model.config import CopyLook
from tests.controller.world import CART


def test_the_newest_hundred_answers_about_copies_of_secrets_are_kept() -> None:
    """A copy that was looked at again counts as new."""
    inbox = Inbox(clock=SystemClock())
    for number in (*range(100), 0, 100):
        inbox.put_copy(CART, f"copy-{number}", CopyLook(float(number), True))

    assert list(inbox.of(CART).copies) == [f"copy-{number}" for number in (*range(2, 100), 0, 100)]

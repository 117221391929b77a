"""Writes of status that can wait a little: a later pass often has more to say, and one write costs as much as another."""

from __future__ import annotations

from rollouts.core.model.status import RolloutStatus
from rollouts.objects import Key
from rollouts.ports import Clock

COUNTERS_DEFERRED_S = 5.0
"""Pod counts, and what the same phase waits for: written when they differ and nothing was done to the Rollout for so long."""

HELD_MAX_S = 30.0
"""The longest that anything stays unwritten while more and more is done to its Rollout."""

HELD_WRITES_PER_S = 4.0
"""Of all Rollouts together: with hundreds in motion the API server has better things to do than to count their pods."""

CROWDED_MAX_S = 120.0
"""The longest that anything stays unwritten because others are in motion, too."""

ANSWER_DEFERRED_S = 1.0
"""A pass that asks something and changes nothing: the pass with the answer follows within milliseconds."""


class DeferredStatus:
    """What each key has unwritten, and since when. RAM only: a restart lengthens the wait and the progress deadline, no more."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._since_s: dict[Key, float] = {}
        self._moved_s: dict[Key, float] = {}
        self._decided: dict[Key, tuple[RolloutStatus, RolloutStatus]] = {}

    def wait_s(self, key: Key, *, patience_s: float) -> float:
        """Seconds that the write may still be put off; 0 when it is due."""
        now_s = self._clock.monotonic_s()
        since_s = self._since_s.setdefault(key, now_s)
        crowd_s = min(CROWDED_MAX_S, len(self._since_s) / HELD_WRITES_PER_S)
        due_s = min(since_s + HELD_MAX_S, max(since_s, self._moved_s.get(key, since_s)) + patience_s)
        return max(0.0, max(due_s, since_s + crowd_s) - now_s)

    def moved(self, key: Key) -> None:
        """Something was done to the Rollout: more will be to say soon, so what is unwritten may wait for it."""
        if key in self._since_s:
            self._moved_s[key] = self._clock.monotonic_s()

    def hold(self, key: Key, read: RolloutStatus, decided: RolloutStatus) -> None:
        """Remembers a status that was decided on `read` and is not written yet."""
        self._decided[key] = (read, decided)

    def recalled(self, key: Key, read: RolloutStatus) -> RolloutStatus:
        """The status that was decided on `read` and not written; `read` when there is none.

        It differs in what only tells people more of the same, and in the progress clock, which is exact by it.
        """
        before, decided = self._decided.get(key, (read, read))
        return decided if before == read else read

    def settled(self, key: Key) -> None:
        """There is nothing unwritten any more."""
        self._decided.pop(key, None)
        self._since_s.pop(key, None)
        self._moved_s.pop(key, None)

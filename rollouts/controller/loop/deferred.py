"""Writes of status that can wait a little: a later pass often changes more, and one write for both is cheaper than two."""

from __future__ import annotations

from dataclasses import dataclass, field

from rollouts.core.model.status import RolloutStatus
from rollouts.objects import Key
from rollouts.ports import Clock

COUNTERS_DEFERRED_S = 5.0
"""How long a changed pod count, or a changed wait in the same phase, stays unwritten after the last action on the Rollout."""

HELD_MAX_S = 30.0
"""The longest that a change stays unwritten while actions on its Rollout follow each other."""

HELD_WRITES_PER_S = 4.0
"""Deferred writes of all Rollouts together: with hundreds of updates, pod counts must not crowd out other requests."""

CROWDED_MAX_S = 120.0
"""The longest that a change stays unwritten because other Rollouts have deferred writes too."""

ANSWER_DEFERRED_S = 1.0
"""How long a pass that only asks defers its write: the pass with the answer follows within milliseconds."""


@dataclass(slots=True, kw_only=True, eq=False)
class DeferredStatus:
    """The unwritten status of each key, and since when. In RAM only: a restart lengthens a wait and the progress deadline."""

    clock: Clock
    _since_s: dict[Key, float] = field(default_factory=dict, init=False)
    _acted_s: dict[Key, float] = field(default_factory=dict, init=False)
    _decided: dict[Key, tuple[RolloutStatus, RolloutStatus]] = field(default_factory=dict, init=False)

    def wait_s(self, key: Key, *, patience_s: float) -> float:
        """Seconds that the write may still be deferred; 0 when it is due."""
        now_s = self.clock.monotonic_s()
        since_s = self._since_s.setdefault(key, now_s)
        crowd_s = min(CROWDED_MAX_S, len(self._since_s) / HELD_WRITES_PER_S)
        due_s = min(since_s + HELD_MAX_S, max(since_s, self._acted_s.get(key, since_s)) + patience_s)
        return max(0.0, max(due_s, since_s + crowd_s) - now_s)

    def acted(self, key: Key) -> None:
        """Notes an action on the Rollout: its status changes again soon, so an unwritten one may wait for that."""
        if key in self._since_s:
            self._acted_s[key] = self.clock.monotonic_s()

    def keep(self, key: Key, read: RolloutStatus, decided: RolloutStatus) -> None:
        """Remembers a status that was decided from `read` and is not written yet."""
        self._decided[key] = (read, decided)

    def last_decided(self, key: Key, read: RolloutStatus) -> RolloutStatus:
        """The status that was decided from `read` and not written; `read` when there is none.

        It differs from `read` only in texts and counts for people, and in the progress clock, which stays exact this way.
        """
        before, decided = self._decided.get(key, (read, read))
        return decided if before == read else read

    def forget(self, key: Key) -> None:
        """Notes that nothing is unwritten any more: it was written, is not needed, or its Rollout is gone."""
        self._decided.pop(key, None)
        self._since_s.pop(key, None)
        self._acted_s.pop(key, None)

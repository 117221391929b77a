"""Adds and removes managed rules while no request uses them, for routers that create something for each rule.

Envoy Gateway creates a cluster for each rule. Envoy uses a new route at once, but its cluster only when the endpoints arrive,
which is later: requests were answered with 503 in 27 of 40 additions of a header rule, and in 10 of 40 removals. So a rule is
*idle* first: it exists with its backends, and matches a header that no request has. It gets its matches when the data plane is
known to have it, and loses them before it is removed. None of 160 such changes lost a request.
Source: measured with Envoy Gateway 1.9.1 and Envoy 1.40.0; Envoy, "xDS protocol", "Eventual consistency considerations".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rollouts.core.model.frozen import replace
from rollouts.core.model.traffic import Split
from rollouts.objects import Manifest
from rollouts.traffic.rules.ledger import NOTHING, Ledger, ledger_of, with_ledger
from rollouts.traffic.rules.rule_paths import put_rules, rules_at
from rollouts.traffic.rules.steering import Dialect


@dataclass(frozen=True, slots=True)
class Warming(Dialect, ABC):
    """A dialect with one list of rules, in which a copy that `stands_anywhere` is an idle rule before and after its use."""

    @abstractmethod
    def idle(self, copy: Manifest) -> Manifest:
        """A managed rule with the same backends, which no request matches."""

    @abstractmethod
    def is_idle(self, rule: Manifest) -> bool:
        """Whether the rule was made by `idle`."""

    def read(self, user: Manifest) -> Split:
        """See `Dialect`; a split with idle rules is never the wanted one."""
        bare, idle = self._without_idle(user)
        found = Dialect.read(self, bare)
        return replace(found, idle=idle) if idle else found

    def on_the_way(self, user: Manifest, final: Manifest) -> Manifest:
        """See `Dialect`: requests leave the canary at once; a rule exists before they come to it, and until they have left it."""
        now, then = self._managed_last(user), self._managed_last(final)
        if coming := then[len(now) :]:
            return self._with_idle(user, coming)
        leaving = now[len(then) :]
        if leaving and not (self.context.settled and all(map(self.is_idle, leaving))):
            return self._with_idle(final, leaving)
        if not self.context.settled and any(map(self.is_idle, now)):
            return user
        return final

    def _managed_last(self, user: Manifest) -> list[Manifest]:
        """Our rules at the end of the list."""
        made = Counter(ledger_of(user).made)
        found: list[Manifest] = []
        for rule in reversed(rules_at(user, self.path)):
            look = self.look(rule)
            if not made[look]:
                break
            made[look] -= 1
            found.insert(0, rule)
        return found

    def _with_idle(self, user: Manifest, copies: Sequence[Manifest]) -> Manifest:
        idle = [self.idle(each) for each in copies]
        ledger = ledger_of(user)
        between = (self.context.stable, self.context.canary)
        noted = replace(ledger, between=between, made=(*ledger.made, *map(self.look, idle)))
        return with_ledger(put_rules(user, self.path, [*rules_at(user, self.path), *idle]), noted)

    def _without_idle(self, user: Manifest) -> tuple[Manifest, int]:
        """The object without its idle rules, and their number."""
        ledger = ledger_of(user)
        made = Counter(ledger.made)
        rules = rules_at(user, self.path)
        idle = [at for at, rule in enumerate(rules) if self.is_idle(rule) and made[self.look(rule)]]
        if not idle:
            return user, 0
        made.subtract(self.look(rules[at]) for at in idle)
        left = replace(ledger, made=tuple(each for each in ledger.made if made[each] > 0))
        kept = [rule for at, rule in enumerate(rules) if at not in idle]
        noted = NOTHING if left == Ledger(between=left.between) else left
        return with_ledger(put_rules(user, self.path, kept), noted), len(idle)

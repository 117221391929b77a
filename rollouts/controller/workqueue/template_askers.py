"""Which Rollouts wait for which analysis templates. Only those whose update is under way: an idle one asks for none.

They wait for AnalysisRuns of somebody else, too, that have a name which they need. Where a template has the same name, a pass too
many is all that follows.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.cluster.store import NamespacedName
from rollouts.objects import Key


class TemplateAskers:
    """Rollouts by template, and templates by Rollout. A ClusterAnalysisTemplate has the namespace ""."""

    def __init__(self) -> None:
        self._asked: dict[Key, frozenset[NamespacedName]] = {}
        self._askers: dict[NamespacedName, set[Key]] = {}

    def asks(self, key: Key, templates: Iterable[NamespacedName]) -> None:
        """Notes that the Rollout depends on these templates and on no others, whether they exist or not."""
        asked = frozenset(templates)
        before = self._asked.get(key, frozenset())
        if asked == before:
            return
        for each in before - asked:
            self._askers[each].discard(key)
            if not self._askers[each]:
                del self._askers[each]
        for each in asked - before:
            self._askers.setdefault(each, set()).add(key)
        if asked:
            self._asked[key] = asked
        else:
            del self._asked[key]

    def rests(self, key: Key) -> None:
        """Notes that the Rollout depends on no template any more."""
        self.asks(key, ())

    def of(self, namespace: str, name: str) -> frozenset[Key]:
        """The Rollouts that depend on the template."""
        return frozenset(self._askers.get((namespace, name), ()))

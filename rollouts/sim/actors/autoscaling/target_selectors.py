"""The selectors of the targets of all autoscalers, so that two of them that scale the same pods are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rollouts.sim.storage.history import ObjectKey
from rollouts.sim.storage.selectors import label_test, required_label


class TargetSelectors:
    """The selector of each autoscaler's target, found by the label that it requires: hundreds need not be asked for each pod."""

    def __init__(self) -> None:
        self._texts: dict[ObjectKey, str] = {}
        self._keys: defaultdict[tuple[str, tuple[str, str] | None], set[ObjectKey]] = defaultdict(set)
        self._rank: dict[ObjectKey, int] = {}
        self._ranks = 0

    def put(self, key: ObjectKey, selector: str) -> None:
        """Remembers the selector of an autoscaler's target."""
        before = self._texts.get(key)
        if before == selector:
            return
        if before is None:
            self._ranks += 1
            self._rank[key] = self._ranks
        else:
            self._keys[key[0], required_label(before)].discard(key)
        self._texts[key] = selector
        self._keys[key[0], required_label(selector)].add(key)

    def forget(self, key: ObjectKey) -> None:
        """Drops the autoscaler."""
        selector = self._texts.pop(key, None)
        if selector is not None:
            self._keys[key[0], required_label(selector)].discard(key)
            del self._rank[key]

    def that_select(self, namespace: str, pods: Iterable[Mapping[str, str]]) -> list[ObjectKey]:
        """The autoscalers of a namespace whose targets select one of the pods, in the order in which they came.

        Args:
            pods: their labels.
        """
        found: set[ObjectKey] = set()
        for labels in pods:
            for required in (None, *labels.items()):
                keys = self._keys.get((namespace, required), set())
                found |= {key for key in keys if label_test(self._texts[key])(labels)}
        return sorted(found, key=self._rank.__getitem__)

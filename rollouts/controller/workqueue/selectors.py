"""Which Rollouts of a namespace find each other's pods: an index over the watched Rollouts, by their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from rollouts.cluster.decoding import json_object
from rollouts.cluster.structs import RolloutObject
from rollouts.controller.workqueue.index import Index
from rollouts.core.advice.shared_selectors import Workload, share_pods, workload_of
from rollouts.objects import ROLLOUT, Key

_Label: TypeAlias = tuple[str, str, str]
"""Namespace, key and value."""


class Selectors:
    """Follows the Rollouts. A change costs as much as there are Rollouts with the rarest of its labels; a look-up is O(1)."""

    def __init__(self) -> None:
        self._workloads: dict[Key, Workload] = {}
        self._by_label: Index[_Label, Key] = Index()
        self._anchors: dict[Key, _Label] = {}
        """One label of each selector, the rarest when it was seen: whoever matches the selector has it, too."""
        self._by_anchor: Index[_Label, Key] = Index()
        self._others: Index[Key, Key] = Index()

    def learn(self, before: RolloutObject | None, after: RolloutObject | None) -> frozenset[Key]:
        """Follows one change of a Rollout; returns the others that share pods with it now, or did before."""
        metadata = (after or before or RolloutObject()).metadata
        if before is not None and after is not None:
            was = before.metadata
            if (was.uid, was.generation) == (metadata.uid, metadata.generation):
                return frozenset()
        key = Key(metadata.namespace, metadata.name)
        workload: Workload | None = None
        if after is not None:  # a spec that cannot be read is none: its own pass says what is wrong with it
            spec = json_object(bytes(after.spec))
            workload = workload_of({"kind": ROLLOUT.kind, "metadata": {"name": metadata.name}, "spec": spec})
        if workload == self._workloads.get(key):
            return frozenset()
        former = self._remove(key)
        if workload is not None:
            self._add(key, workload)
        return frozenset(former | self._others.get(key, set()))

    def of(self, key: Key) -> tuple[str, ...]:
        """The other Rollouts that share pods with this one, as `Rollout cart`, in order of their names."""
        others = self._others.get(key)
        return tuple(sorted(f"{ROLLOUT.kind} {other.name}" for other in others)) if others else ()

    def _remove(self, key: Key) -> set[Key]:
        old = self._workloads.pop(key, None)
        for label in () if old is None else _labels(key, old.labels):
            self._by_label.discard(label, key)
        if (anchor := self._anchors.pop(key, None)) is not None:
            self._by_anchor.discard(anchor, key)
        former = self._others.pop(key, set())
        for other in former:
            self._others.discard(other, key)
        return former

    def _add(self, key: Key, workload: Workload) -> None:
        labels, selector = _labels(key, workload.labels), _labels(key, workload.selector)
        near: set[Key] = set()
        for label in labels:
            near |= self._by_anchor.get(label, set())
        if selector:
            anchor = min(selector, key=lambda label: len(self._by_label.get(label, ())))
            near |= self._by_label.get(anchor, set())
            self._anchors[key] = anchor
            self._by_anchor.add(anchor, key)
        for label in labels:
            self._by_label.add(label, key)
        self._workloads[key] = workload
        for other in near:
            if share_pods(workload, self._workloads[other]):
                self._others.add(key, other)
                self._others.add(other, key)


def _labels(key: Key, labels: Mapping[str, str]) -> list[_Label]:
    return [(key.namespace, name, value) for name, value in sorted(labels.items())]

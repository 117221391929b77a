"""Promise: two Rollouts of a namespace of which one finds the pods of the other know that, and wake when it changes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.cluster.structs import RolloutObject
from rollouts.controller.workqueue.selectors import Selectors
from rollouts.core.advice.shared_selectors import Workload, share_pods
from rollouts.objects import Key
from tests.controller.world import rollout

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


def made(
    name: str, selector: dict[str, str], labels: dict[str, str] | None = None, *, generation: int = 1, **more: Any
) -> RolloutObject:
    """A Rollout whose pods have these labels; those of the selector unless it is said."""
    template = {"metadata": {"labels": selector if labels is None else labels}}
    spec = {"selector": {"matchLabels": selector, **more}, "template": template}
    return rollout(name, spec=spec, generation=generation)


def key(name: str) -> Key:
    """In the namespace of `rollout`."""
    return Key("shop", name)


def test_both_are_told_and_woken() -> None:
    """Whoever came first was Ready already, and nobody told it."""
    found = Selectors()

    assert found.learn(None, made("a", {"app": "web"})) == frozenset()
    assert found.learn(None, made("b", {"app": "web"})) == {key("a")}
    assert (found.of(key("a")), found.of(key("b"))) == (("Rollout b",), ("Rollout a",))

    assert found.learn(made("b", {"app": "web"}), None) == {key("a")}
    assert found.of(key("a")) == ()


@pytest.mark.parametrize(
    "more",
    [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}, {"matchLabels": None}, {"matchLabels": {"app": 7}}],
)
def test_what_cannot_be_compared_is_left_out(more: dict[str, Any]) -> None:
    """A condition that may be wrong would be worse than none."""
    found = Selectors()
    found.learn(None, made("a", {"app": "web"}, {"other": "1"}, **more))
    found.learn(None, made("b", {"app": "web"}))

    assert found.of(key("b")) == ()


@given(st.lists(st.tuples(st.sampled_from("pqrs"), st.none() | st.tuples(LABELS, LABELS)), max_size=12))
def test_the_index_finds_what_a_comparison_of_all_with_all_finds(
    changes: list[tuple[str, tuple[dict[str, str], dict[str, str]] | None]],
) -> None:
    """Whatever comes, changes and goes, in any order."""
    found, there = Selectors(), dict[str, RolloutObject]()
    for number, (name, change) in enumerate(changes):
        before = there.pop(name, None)
        after = None if change is None else made(name, *change, generation=number + 1)
        if after is not None:
            there[name] = after
        if before is not None or after is not None:
            found.learn(before, after)

    workloads = {name: Workload("Rollout", name, *last) for name, last in dict(changes).items() if last is not None}
    pairs = [(a, b) for a, b in itertools.permutations(workloads, 2) if share_pods(workloads[a], workloads[b])]
    for name in "pqrs":
        assert found.of(key(name)) == tuple(sorted(f"Rollout {b}" for a, b in pairs if a == name))

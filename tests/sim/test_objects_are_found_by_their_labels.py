"""Promise: what looks only at objects with a required label finds what a look at all of them finds.

Without that, hundreds of simulated autoscalers that each look at all pods of a namespace take minutes.
"""

from __future__ import annotations

import random

import pytest

from rollouts.objects import POD
from rollouts.sim.actors.autoscaling.controller import TargetSelectors
from rollouts.sim.storage.history import ADDED, DELETED, MODIFIED, ObjectHistory, ObjectKey
from rollouts.sim.storage.selectors import label_test, required_label
from tests.build import manifest

REQUIRED = {
    "": None,
    "app=a": ("app", "a"),
    "app==b": ("app", "b"),
    "app!=a": None,
    "app in (a,b)": None,
    "app notin (a)": None,
    "app": None,
    "!app": None,
    "tier=x,app=a": ("tier", "x"),
    "app in (a), tier=x": ("tier", "x"),
}
SELECTORS = tuple(REQUIRED)


@pytest.mark.parametrize(("selector", "label"), REQUIRED.items())
def test_a_selector_requires_a_label_or_not(selector: str, label: tuple[str, str] | None) -> None:
    """Only an equality does: whatever it selects has that label."""
    assert required_label(selector) == label


def test_candidates_are_those_that_a_selector_selects_and_maybe_more() -> None:
    """After each change, of labels too: an index that is out of date would lose a pod."""
    dice, history = random.Random(7), ObjectHistory()  # noqa: S311 - the same game each time
    for _ in range(200):
        name = f"pod-{dice.randrange(8)}"
        before = history.get(POD, "default", name)
        labels = {key: value for key in ("app", "tier") if (value := dice.choice(("", "a", "b", "x")))}
        event = ADDED if before is None else dice.choice((MODIFIED, DELETED))
        history.commit(POD, event, manifest(POD, name, "default", metadata={"labels": labels}), (), before)
        for selector in SELECTORS:
            selects = label_test(selector)
            found = [each.key for each in history.candidates(POD, "default", selector) if selects(each.labels)]
            assert found == [each.key for each in history.select(POD, "default") if selects(each.labels)], selector
            assert not list(history.candidates(POD, "other", selector))


def test_autoscalers_of_the_same_pods_are_found() -> None:
    """In the order in which they came, and by the selector that each has now."""
    dice, selectors, told = random.Random(7), TargetSelectors(), dict[ObjectKey, str]()  # noqa: S311 - the same game each time
    for _ in range(200):
        key = (dice.choice(("default", "other")), f"web-{dice.randrange(5)}")
        if key in told and dice.random() < 0.2:
            selectors.forget(key)
            del told[key]
        else:
            told[key] = dice.choice(SELECTORS)
            selectors.put(key, told[key])
        labels = {"app": dice.choice(("a", "b")), "tier": dice.choice(("x", "y"))}
        wanted = [each for each, text in told.items() if each[0] == "default" and label_test(text)(labels)]
        assert selectors.that_select("default", [labels]) == wanted

"""Promise: a revision's name depends on what the user wrote and on nothing else, and is short, safe and unique."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rollouts.core.model.revision import canonical_json, replica_set_name, short_hash

JSON = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=5)
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,250}[a-z0-9])?", fullmatch=True)
QUICK = settings(max_examples=100, deadline=None)


@QUICK
@given(template=OBJECTS)
def test_the_order_of_keys_and_nulls_do_not_matter(template: dict[str, object]) -> None:
    """A null is an absent field to Kubernetes; JSON objects have no order."""
    shuffled = {**{key: template[key] for key in reversed(template)}, "no-such-key": None}

    assert canonical_json(shuffled) == canonical_json(template)


@QUICK
@given(one=OBJECTS, other=OBJECTS)
@example(one={"": []}, other={"": {}})
def test_other_contents_have_another_name(one: dict[str, object], other: dict[str, object]) -> None:
    """True and 1 are not the same to Kubernetes either."""
    same = repr(_sorted(one)) == repr(_sorted(other))

    assert (short_hash(canonical_json(one)) == short_hash(canonical_json(other))) is same


def test_the_scheme_is_frozen() -> None:
    """An upgrade that changes this rolls everybody's workload: it needs a new scheme and label value."""
    template = {
        "spec": {"containers": [{"name": "app", "image": "cart:1.4", "ports": None}]},
        "metadata": {"labels": {"app": "ü"}},
    }

    name = short_hash(canonical_json(template))

    assert canonical_json({"b": 1, "a": "ü", "c": None}) == '{"a":"ü","b":1}'.encode()
    assert re.fullmatch(r"[bcdfghjklmnpqrstvwxz2456789]{10}", name)
    assert name == "s29x7r6q8m"


@QUICK
@given(rollout=NAMES)
def test_a_replica_set_name_leaves_room_for_the_pods_suffix(rollout: str) -> None:
    """kube-apiserver cuts generateName at 58 characters; a pod must keep its revision."""
    name = replica_set_name(rollout=rollout, revision="bcdfghjklm")

    assert len(f"{name}-") <= 58
    assert name.endswith("-bcdfghjklm")


@pytest.mark.parametrize("length", [46, 47, 60, 253])
def test_two_long_names_never_share_a_replica_set(length: int) -> None:
    """Their beginnings are the same; a hash of the whole tells them apart."""
    names = {replica_set_name(rollout="x" * (length - 1) + end, revision="bcdfghjklm") for end in "abc"}

    assert len(names) == 3


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value

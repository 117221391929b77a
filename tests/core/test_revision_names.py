"""Promise: content alone decides the names of revisions and copies, which are short, safe and unique.

The order of what a user writes, its encoding and when it was read do not.
"""

from __future__ import annotations

import base64
import hmac
import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from rollouts.core.config.content import PIECE_CHARS, config_revision, content_hash, copy_name, hashing
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.core.model.revision import canonical_json, replica_set_name, short_hash
from rollouts.objects import name_problem

CONFIG_MAP, SECRET = ConfigKind.CONFIG_MAP, ConfigKind.SECRET
QUICK = settings(max_examples=100, deadline=None)
DATA = st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=4)
BYTES = st.dictionaries(
    st.text(max_size=5), st.binary(max_size=8).map(lambda raw: base64.b64encode(raw).decode()), max_size=3
)
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,250}[a-z0-9])?", fullmatch=True)
USES = st.lists(
    st.builds(
        ConfigUse,
        kind=st.sampled_from(ConfigKind),
        source=st.sampled_from(["a", "b", "c"]),
        content=st.sampled_from(["", "h1", "h2"]),
    ),
    min_size=1,
    max_size=4,
)


@QUICK
@given(raw=st.binary(max_size=20))
def test_binary_data_counts_as_bytes(raw: bytes) -> None:
    """A client may break lines of base64; a pod sees the bytes."""
    plain = base64.b64encode(raw).decode()
    broken = "\n".join(plain[at : at + 4] for at in range(0, len(plain), 4))

    assert content_hash({}, {"k": broken}) == content_hash({}, {"k": plain})
    assert content_hash({}, {"k": base64.b64encode(raw + b"x").decode()}) != content_hash({}, {"k": plain})


LONG = '"\\\n\x01é世😀=' * PIECE_CHARS
LONG_BYTES = base64.b64encode(bytes(range(256)) * 300).decode()


@pytest.mark.parametrize("key", [b"", b"k" * 32])
@QUICK
@given(
    data=DATA,
    binary=BYTES,
    long=st.sampled_from(["", LONG]),
    odd=st.sampled_from([LONG_BYTES, "eB==", "no-base64!", ""]),
)
def test_the_hash_is_that_of_the_canonical_json(
    key: bytes, data: dict[str, str], binary: dict[str, str], long: str, odd: str
) -> None:
    """However it is cut on the way: an upgrade that hashed otherwise would roll everybody's workload."""
    data, binary = data | {"long": long}, binary | {"odd": odd}
    whole = canonical_json({"data": data, "binaryData": binary | {"odd": "eA==" if odd == "eB==" else odd}})

    assert content_hash(data, binary, key=key) == short_hash(hmac.digest(key, whole, "sha256") if key else whole)


def test_a_long_content_is_hashed_in_pieces() -> None:
    """Whoever reads it can do something else between two of them."""
    many = {f"{number:06}": "" for number in range(50_000)}

    assert len(list(hashing({"a": "x" * (20 * PIECE_CHARS)}, None))) >= 20
    assert len(list(hashing(many, None))) >= 20
    assert list(hashing({"a": "x"}, {"b": "eA=="})) == []


@QUICK
@given(source=NAMES, rollout=NAMES)
def test_a_copys_name_is_the_name_of_an_object(source: str, rollout: str) -> None:
    """However long the names are, and wherever the source's is cut."""
    name = copy_name(CONFIG_MAP, rollout=rollout, source=source, content="h")

    assert name_problem(name) == ""
    assert name.startswith(source[:242].rstrip("-."))


@pytest.mark.parametrize("ending", [".", "-", "--", ".x", "-."])
def test_a_name_that_is_cut_in_a_bad_place_is_a_name_still(ending: str) -> None:
    """No part of a name between dots begins or ends with `-`."""
    source = ("a" * (242 - len(ending)) + ending + "b" * 20)[:253]

    assert name_problem(copy_name(CONFIG_MAP, rollout="cart", source=source, content="h")) == ""


def test_each_part_is_in_the_name_of_a_copy() -> None:
    """Rollouts that share a source share no copy, so one that is deleted takes nothing from another."""
    names = {
        copy_name(CONFIG_MAP, rollout="cart", source="flags", content="h"),
        copy_name(SECRET, rollout="cart", source="flags", content="h"),
        copy_name(CONFIG_MAP, rollout="shop", source="flags", content="h"),
        copy_name(CONFIG_MAP, rollout="cart", source="flags-2", content="h"),
        copy_name(CONFIG_MAP, rollout="cart", source="flags", content="i"),
        copy_name(CONFIG_MAP, rollout="cart", source="x" * 250 + "a", content="i"),
        copy_name(CONFIG_MAP, rollout="cart", source="x" * 250 + "b", content="i"),
    }

    assert len(names) == 7


@QUICK
@given(uses=USES)
def test_only_template_and_contents_make_a_revision(uses: list[ConfigUse]) -> None:
    """A source that is written again without a change, or made again, starts nothing."""
    read_again = [replace(use, uid="u-2", resource_version="9", copy="x") for use in reversed(uses)]

    assert config_revision("t", read_again) == config_revision("t", uses)
    assert config_revision("other", uses) != config_revision("t", uses)


@QUICK
@given(uses=USES, others=USES)
def test_other_contents_are_another_revision(uses: list[ConfigUse], others: list[ConfigUse]) -> None:
    """And a revert has the name of the revision that it goes back to."""
    facts = [sorted((use.kind, use.source, use.content) for use in each) for each in (uses, others)]
    assume(facts[0] != facts[1])

    assert config_revision("t", uses) != config_revision("t", others)


def test_the_second_scheme_is_frozen() -> None:
    """An upgrade that changes one of these rolls everybody who uses a ConfigMap: it needs a new scheme and label value."""
    content = content_hash({"level": "debug", "ü": "é\n"}, {"logo": "AAEC"})
    uses = [
        ConfigUse(kind=SECRET, source="keys", content=""),
        ConfigUse(kind=CONFIG_MAP, source="flags", content=content),
    ]

    assert content == "pjzxv6qslq"
    assert copy_name(CONFIG_MAP, rollout="cart", source="flags", content=content) == "flags-2279zcc9bt"
    assert config_revision("s29x7r6q8m", uses) == "nwztlhlwmn"
    assert config_revision("s29x7r6q8m", ()) == "s29x7r6q8m", "an upgrade rolls nobody who uses no ConfigMap"


JSON = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=5)


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


def test_a_rollouts_name_is_whole_in_its_replica_sets_as_long_as_there_is_room() -> None:
    """58 characters are those of the name, two hyphens and the revision."""
    assert replica_set_name(rollout="x" * 46, revision="bcdfghjklm") == f"{'x' * 46}-bcdfghjklm"


@pytest.mark.parametrize("length", [46, 47, 60, 253])
def test_two_long_names_never_share_a_replica_set(length: int) -> None:
    """Their beginnings are the same; a hash of the whole tells them apart."""
    names = {replica_set_name(rollout="x" * (length - 1) + end, revision="bcdfghjklm") for end in "abc"}

    assert len(names) == 3


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value

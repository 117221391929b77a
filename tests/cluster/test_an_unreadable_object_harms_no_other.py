"""Whatever one object holds, it is that object which cannot be read: its neighbours in a list, a watch, a body can."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import pytest

from rollouts.cluster.decoding import Decoder, decode, decode_route, manifest_from, metadata_of, status_of
from rollouts.cluster.json_parts import CutOff, members, shallow
from rollouts.cluster.structs import (
    EndpointSliceObject,
    PodObject,
    ReplicaSetObject,
    RolloutObject,
    RouteObject,
    ServiceObject,
)
from rollouts.errors import ApiUnavailable
from rollouts.objects import ROLLOUT, is_deeper
from rollouts.ports import LINE_MAX_BYTES
from tests.hostile.work import lines_of

STRUCTS = (RolloutObject, RouteObject, ReplicaSetObject, ServiceObject, EndpointSliceObject, PodObject)
LEVELS = (1, 10, 63, 64, 65, 500, 990, 1_000, 1_100, 10_000)  # kube-apiserver refuses more than 10,000


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def named(name: str, spec: bytes = b"{}", **more: Any) -> bytes:
    metadata = json.dumps({"name": name, "namespace": "shop", "uid": f"{name}-uid", "resourceVersion": "7"} | more)
    return b'{"kind":"X","metadata":%b,"spec":%b}' % (metadata.encode(), spec)


def line(data: bytes, kind: bytes = b"MODIFIED") -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind, data)


@pytest.mark.parametrize("levels", LEVELS)
def test_a_deep_rollout_is_read_and_its_spec_left_to_who_parses_it(levels: int) -> None:
    """3 KB of brackets ended every controller: the decoder's RecursionError was nobody's."""
    spec = b'{"template":{"spec":%b}}' % nested(levels)

    readers: tuple[Callable[[bytes], Any], ...] = (
        lambda data: decode(ROLLOUT, data),
        decode_route,
        lambda data: Decoder(RolloutObject).event(line(data)).object,
    )
    for read in readers:
        found = read(named("cart", spec))

        assert found.metadata.name == "cart"
        assert bytes(found.spec) == spec
    assert metadata_of(named("cart", spec)).uid == "cart-uid"


@pytest.mark.parametrize("levels", LEVELS)
def test_a_deep_field_that_is_not_read_hides_none_that_is(levels: int) -> None:
    """`managedFields` of any object may be as deep as its author likes."""
    data = b'{"metadata":{"managedFields":%b,"name":"a","resourceVersion":"7"},"spec":{"replicas":3}}' % nested(levels)

    found = Decoder(ReplicaSetObject).event(line(data)).object

    assert found is not None
    assert found.spec.replicas == 3


@pytest.mark.parametrize("levels", LEVELS)
def test_a_deep_manifest_is_shown_down_to_where_it_can_be(levels: int) -> None:
    """`rollouts get` lists a namespace with such an object in it, and a Lease with one in its managedFields is renewed."""
    found = manifest_from(b'{"metadata":{"name":"cart","deep":%b},"spec":{"replicas":3}}' % nested(levels))

    assert found["metadata"]["name"] == "cart"
    assert found["spec"] == {"replicas": 3}


def test_one_unreadable_item_leaves_the_rest_of_a_list() -> None:
    """The list is how a controller starts: one item must not keep it from doing so, nor be taken for absent."""
    items = (named("a"), named("deep", nested(3_000)), named("bad", b'{"replicas":"three"}'), named("b"))
    body = b'{"metadata":{"resourceVersion":"9","continue":"c"},"items":[%b]}' % b",".join(items)

    page = Decoder(ReplicaSetObject).page(body.replace(nested(3_000), b'{"replicas":2,"x":%b}' % nested(3_000)))

    assert [each.metadata.name for each in page.items] == ["a", "deep", "b"]
    assert [each.metadata.name for each in page.unreadable] == ["bad"]
    assert "replicas" in page.unreadable[0].why
    assert (page.resource_version, page.continue_token) == ("9", "c")


def test_an_unreadable_object_keeps_its_name_version_and_owner() -> None:
    """By them its Rollout is found, and the watch goes on behind it."""
    owner = [{"apiVersion": "rollouts.dev/v1alpha1", "kind": "Rollout", "name": "cart", "uid": "u", "controller": True}]
    data = named("a", b'{"replicas":"x"}', ownerReferences=owner, generation="none", labels={"app": "cart"})

    event = Decoder(ReplicaSetObject).event(line(data))

    assert event.object is None
    assert event.unreadable is not None
    metadata = event.unreadable.metadata
    assert (metadata.namespace, metadata.name, metadata.version) == ("shop", "a", 7)
    assert metadata.controller_uid == "u"
    assert metadata.labels == {"app": "cart"}


def test_a_line_that_was_cut_is_named_by_its_beginning() -> None:
    """The connection gives the first 16 MiB of a longer line."""
    data = line(named("a", b'{"x":"%b"}' % (b"<" * (LINE_MAX_BYTES + 10))))[:LINE_MAX_BYTES]

    event = Decoder(ReplicaSetObject).event(data)

    assert event.unreadable is not None
    assert event.unreadable.metadata.name == "a"
    assert "16 MiB" in event.unreadable.why


BRACKETS = b",".join([nested(9_000)] * 50)
"""A tenant's 0.9 MB, which took 0.2 s while nothing else in the process ran."""


@pytest.mark.parametrize(
    "read",
    [
        lambda data: decode(ROLLOUT, data),
        decode_route,
        lambda data: Decoder(RolloutObject).event(line(data)),
        lambda data: Decoder(ReplicaSetObject).event(
            line(data.replace(b'"spec":', b'"spec":{"replicas":"x"},"more":'))
        ),
        lambda data: Decoder(ReplicaSetObject).page(
            b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (named("bad", b'{"replicas":"x"}'), data)
        ),
    ],
    ids=["rollout", "route", "event", "unreadable event", "page"],
)
def test_no_line_of_python_runs_for_a_bracket(read: Callable[[bytes], Any]) -> None:
    """A token that Python sees costs a hundred times what the decoder takes for it."""
    assert lines_of(lambda: read(named("cart", b'{"x":[%b]}' % BRACKETS))) < 500


@pytest.mark.parametrize("levels", [0, 1, 2, 63, 64, 65, 300])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}"), ('[3,[],{"a":', "}]")])
def test_levels_are_counted_exactly_and_without_a_stack(levels: int, opens: str, closes: str) -> None:
    """A route with more than 64 is refused before a recursive codec sees it; what is beside a level makes none."""
    text = f"[1,{opens * levels}1{closes * levels},[],{{}}]"
    deepest = max(accumulate((char in "[{") - (char in "]}") for char in text))

    for most in (deepest - 1, deepest, deepest + 1):
        assert is_deeper(json.loads(text), most_levels=most) == (deepest > most)


def test_what_is_behind_the_name_in_a_cut_line_costs_nothing() -> None:
    """16 MiB of brackets would be three seconds."""
    data = line(named("a", b"[" + b"[]," * (LINE_MAX_BYTES // 3)))[:LINE_MAX_BYTES]
    found = []

    assert lines_of(lambda: found.append(Decoder(ReplicaSetObject).event(data))) < 500
    assert [each.unreadable is not None and each.unreadable.metadata.name for each in found] == ["a"]


@pytest.mark.parametrize("cut", range(1, len(line(named("a")).rstrip())))
def test_a_line_that_broke_off_is_nobodys(cut: int) -> None:
    """A broken connection says nothing of an object; the watch asks for it again."""
    with pytest.raises(ApiUnavailable):
        Decoder(ReplicaSetObject).event(line(named("a"))[:cut])


def test_parts_are_those_that_a_parser_finds() -> None:
    """What is taken apart by hand must be what everybody else reads, whatever strings hold."""
    rng = random.Random(5)  # noqa: S311 - a test's
    for _ in range(2_000):
        value = {text(rng): value_of(rng, levels=4) for _ in range(rng.randrange(5))}
        data = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()

        assert {json.loads(name): json.loads(part) for name, part in members(data)} == value
        assert json.loads(shallow(data, most_levels=9)) == value
        if len(data) > 2:
            with pytest.raises(CutOff):
                dict(members(data[: rng.randrange(1, len(data) - 1)]))


def text(rng: random.Random) -> str:
    """A string with what is hard to read in it."""
    return "".join(rng.choice('a"\\{}[],:é\n ') for _ in range(rng.randrange(6)))


def value_of(rng: random.Random, *, levels: int) -> Any:
    match rng.randrange(5 if levels else 3):
        case 0:
            return rng.choice([None, True, 0, -1, 1.5, 10**30])
        case 1 | 2:
            return text(rng)
        case 3:
            return [value_of(rng, levels=levels - 1) for _ in range(rng.randrange(4))]
        case _:
            return {text(rng): value_of(rng, levels=levels - 1) for _ in range(rng.randrange(4))}


@pytest.mark.long
def test_no_bytes_raise_anything_but_unavailable() -> None:
    """100,000 bodies and lines: true ones with bytes changed, cut, doubled, nested, and of other types."""
    rng = random.Random(11)  # noqa: S311 - a test's
    decoders: list[Decoder[Any]] = [Decoder(each) for each in STRUCTS]
    good = [named("a", json.dumps(value_of(rng, levels=3)).encode(), labels={"x": "y"}) for _ in range(50)]
    read = 0
    for index in range(100_000):
        data = damaged(rng, rng.choice(good))
        decoder = decoders[index % len(decoders)]
        try:
            match index % 4:
                case 0:
                    decoder.event(line(data))
                case 1:
                    decoder.object(data)
                case 2:
                    decoder.page(b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (good[0], data))
                case _:
                    decoder.event(data)
                    status_of(data)
        except ApiUnavailable:
            continue
        read += 1

    assert read > 10_000


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes with one to three faults."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + data[at // 2 :]
            case 3:
                data = data.replace(b'"7"', rng.choice([b'"x"', b"7", b"null", b'""', b'"' + b"9" * 5_000 + b'"']), 1)
            case 4:
                deep = nested(rng.choice([1_200, 3_000])) if rng.random() < 0.02 else nested(3)
                data = data.replace(b'"spec":', b'"spec":%b,"more":' % deep, 1)
            case _:
                data = data.replace(
                    b'{"x": "y"}', rng.choice([b"[]", b"3", b'{"x": null}', b'"\\ud800"', b'"\xff"']), 1
                )
    return data

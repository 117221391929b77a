"""Promise: ConfigMaps and Secrets get the same refusals and the same immutability from the real server and the simulated one."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from rollouts.manifests.config_copy import config_copy_probe
from rollouts.objects import CONFIG_MAP, SECRET, Kind, Manifest
from rollouts.ports import MERGE_PATCH
from tests.contract.conversation import Conversation, config_map

MIB = 1024 * 1024
FIXED = "Forbidden: field is immutable when `immutable` is set"
BAD_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
LONG = "x" * 254


def named(**parts: Any) -> Manifest:
    """An object of either kind."""
    return {"metadata": {"name": "a"}, **parts}


def based(data: bytes) -> str:
    """Bytes as they stand in JSON."""
    return base64.b64encode(data).decode()


async def test_text_and_bytes_are_kept_and_empty_parts_are_not(api: Conversation) -> None:
    """Any text is a value; a key has letters, digits, '-', '_' and '.'. `data: {}` says the same as nothing."""
    data = {"app.conf": "größe=1\n<&>\u2028\x00", "EMPTY": ""}
    binary = {"logo-1_x": based(bytes(range(256)))}

    await api.made(CONFIG_MAP, named(data=data, binaryData=binary))
    kept = (await api.get(CONFIG_MAP, "a")).body
    empty = await api.made(CONFIG_MAP, {"metadata": {"name": "b"}, "data": {}, "binaryData": None, "immutable": None})

    assert (kept["data"], kept["binaryData"], "immutable" in kept) == (data, binary, False)
    assert empty.keys() == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize("kind", [CONFIG_MAP, SECRET], ids=lambda kind: kind.kind)
@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("a b", [BAD_KEY]),
        ("ü", [BAD_KEY]),
        ("", [BAD_KEY]),
        (".", ["must not be '.'"]),
        ("..", ["must not be '..'"]),
        ("..x", ["must not start with '..'"]),
        (LONG, ["must be no more than 253 characters"]),
    ],
    ids=["space", "umlaut", "empty", "dot", "dots", "dots and more", "long"],
)
async def test_a_bad_key_is_named_with_what_is_wrong(api: Conversation, kind: Kind, key: str, says: list[str]) -> None:
    """A key becomes the name of a file."""
    answer = await api.create(kind, named(data={key: based(b"1")}))

    assert (answer.status, answer.reason) == (422, "Invalid")
    expected = [
        {"reason": "FieldValueInvalid", "field": f"data[{key}]", "message": f'Invalid value: "{key}": {each}'}
        for each in says
    ]
    assert answer.body["details"]["causes"] == expected
    assert answer.message.startswith(f'{kind.kind} "a" is invalid: ')


async def test_a_key_is_text_or_bytes_and_not_both(api: Conversation) -> None:
    """A file has one content."""
    answer = await api.create(CONFIG_MAP, named(data={"k": "1"}, binaryData={"k": based(b"1"), "b b": based(b"1")}))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]] == [
        ("data[k]", 'Invalid value: "k": duplicate of key present in binaryData'),
        ("binaryData[b b]", f'Invalid value: "b b": {BAD_KEY}'),
    ]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"binaryData": {"k": "!!"}}, "illegal base64 data at input byte 0"),
        ({"data": {"k": 3}}, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        ({"data": ["k"]}, "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"),
        ({"immutable": "yes"}, "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool"),
    ],
    ids=["base64", "number", "array", "immutable"],
)
async def test_a_config_map_of_the_wrong_shape_is_no_config_map(api: Conversation, parts: Manifest, says: str) -> None:
    """400, as for a body that is no JSON."""
    answer = await api.create(CONFIG_MAP, named(**parts))

    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert answer.message == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {says}'


@pytest.mark.parametrize(
    "parts",
    [
        {"data": {"k": "x" * MIB}},
        {"data": {"k": "x" * (MIB - 3)}, "binaryData": {"b": based(b"123")}},
        {"data": {"k": "ü" * (200 * 1024)}, "binaryData": {"b": based(bytes(MIB - 400 * 1024))}},
    ],
    ids=["text", "both", "bytes count, not characters"],
)
async def test_a_config_map_has_up_to_a_mebibyte(api: Conversation, parts: Manifest) -> None:
    """Of values, as bytes, keys not counted; one byte more is too much."""
    kept = await api.create(CONFIG_MAP, named(**parts))
    data = parts["data"]
    more = await api.create(CONFIG_MAP, {"metadata": {"name": "b"}, **parts, "data": {**data, "one-more": "x"}})

    assert kept.status == 201, kept.body
    assert (more.status, more.reason, more.causes) == (422, "Invalid", [("FieldValueTooLong", "[]")])
    assert more.message == f'ConfigMap "b" is invalid: []: Too long: may not be more than {MIB} bytes'


async def test_a_secret_has_up_to_a_mebibyte(api: Conversation) -> None:
    """And its refusal names the field."""
    kept = await api.create(SECRET, named(data={"k": based(bytes(MIB))}))
    more = await api.create(SECRET, {"metadata": {"name": "b"}, "data": {"k": based(bytes(MIB + 1))}})

    assert kept.status == 201, kept.body
    assert (more.status, more.causes) == (422, [("FieldValueTooLong", "data")])


async def test_an_immutable_config_map_keeps_its_data(api: Conversation) -> None:
    """Config copies of a revision rely on it; labels may still change."""
    await api.made(CONFIG_MAP, named(data={"x": "1"}, binaryData={"b": based(b"1")}, immutable=True))
    changes: dict[str, Manifest] = {
        "data": {"data": {"x": "2"}},
        "binaryData": {"binaryData": {"b": None}},
        "immutable": {"immutable": False},
        "immutable, data, binaryData": {"data": None, "binaryData": None, "immutable": None},
    }

    for fields, change in changes.items():
        answer = await api.patch(CONFIG_MAP, "a", change, MERGE_PATCH)

        assert (answer.status, answer.reason) == (422, "Invalid")
        assert answer.causes == [("FieldValueForbidden", field) for field in fields.split(", ")]
        assert fields != "data" or answer.message == f'ConfigMap "a" is invalid: data: {FIXED}'
    label = await api.patch(CONFIG_MAP, "a", {"metadata": {"labels": {"x": "y"}}}, MERGE_PATCH)
    assert label.status == 200


async def test_a_config_map_can_be_made_immutable_with_its_last_change(api: Conversation) -> None:
    """From then on it is fixed; and a bad key is named beside the refusal of the change."""
    await api.made(CONFIG_MAP, config_map("a", x="1"))

    last = await api.patch(CONFIG_MAP, "a", {"data": {"x": "2"}, "immutable": True}, MERGE_PATCH)
    after = await api.patch(CONFIG_MAP, "a", {"data": {"x y": "3"}}, MERGE_PATCH)

    assert (last.status, last.body["data"], last.body["immutable"]) == (200, {"x": "2"}, True)
    assert after.causes == [("FieldValueForbidden", "data"), ("FieldValueInvalid", "data[x y]")]


async def test_an_immutable_secret_does_not_change(api: Conversation) -> None:
    """And the type of none does."""
    await api.made(SECRET, {"metadata": {"name": "fixed"}, "stringData": {"a": "1"}, "immutable": True})
    await api.made(SECRET, {"metadata": {"name": "free"}, "stringData": {"a": "1"}})

    changed = await api.patch(SECRET, "fixed", {"data": {"a": "Mg=="}}, MERGE_PATCH)
    thawed = await api.patch(SECRET, "fixed", {"immutable": False}, MERGE_PATCH)
    retyped = await api.patch(SECRET, "free", {"type": "other"}, MERGE_PATCH)
    free = await api.patch(SECRET, "free", {"stringData": {"a": "2"}}, MERGE_PATCH)

    assert (changed.status, changed.causes) == (422, [("FieldValueForbidden", "data")])
    assert (thawed.status, thawed.causes) == (422, [("FieldValueForbidden", "immutable")])
    assert (retyped.status, retyped.causes) == (422, [("FieldValueInvalid", "type")])
    assert free.body["data"] == {"a": "Mg=="}


async def test_a_dry_run_of_a_creation_says_whether_a_secret_is_there(api: Conversation) -> None:
    """The right to create is enough to ask; another type or content makes no difference, and nothing is stored."""
    await api.made(SECRET, {"metadata": {"name": "there"}, "type": "example.com/token", "data": {"a": "MQ=="}})
    probe = config_copy_probe(api.namespace, "there", rollout="web")
    absent = config_copy_probe(api.namespace, "absent", rollout="web")

    there = await api.create(SECRET, probe, dryRun="All")
    answers = [await api.create(SECRET, absent, dryRun="All") for _ in range(2)]

    assert (there.status, there.body["reason"]) == (409, "AlreadyExists")
    assert [each.status for each in answers] == [201, 201]
    assert (await api.get(SECRET, "absent")).status == 404


async def test_a_secret_keeps_text_as_data(api: Conversation) -> None:
    """`stringData` is for writers only, and wins over `data`."""
    given = {"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "two"}}

    made = await api.made(SECRET, {"metadata": {"name": "token"}, **given})

    assert (made["type"], "stringData" in made) == ("Opaque", False)
    assert {name: base64.b64decode(value) for name, value in made["data"].items()} == {"a": b"a", "b": b"two"}

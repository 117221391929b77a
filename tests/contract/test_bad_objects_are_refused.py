"""Promise: what breaks a rule of a type or of the API is refused with every problem and its path; immutable fields stay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from rollouts.objects import CONFIG_MAP, POD, REPLICA_SET, SECRET
from rollouts.ports import JSON_PATCH, MERGE_PATCH
from tests import build
from tests.build import replica_set
from tests.contract.conversation import STRATEGIC, WIDGET, Answer, Conversation, config_map, widget

Ask: TypeAlias = Callable[[Conversation], Awaitable[Answer]]
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none"}}
OTHER_SELECTOR = {"spec": {"selector": {"matchLabels": {"app": "b"}}}}
NO_CONTAINERS = {"metadata": {"labels": {"app": "new"}}, "spec": {"containers": []}}


@pytest.mark.parametrize(
    ("spec", "cause", "message"),
    [
        ({"replicas": "three"}, ("FieldValueTypeInvalid", "spec.replicas"),
         'Invalid value: "string": spec.replicas in body must be of type integer: "string"'),
        ({"note": "x"}, ("FieldValueRequired", "spec.replicas"), "Required value"),
        ({"replicas": 1, "mode": "Medium"}, ("FieldValueNotSupported", "spec.mode"),
         'Unsupported value: "Medium": supported values: "Fast", "Slow"'),
        ({"replicas": -1}, ("FieldValueInvalid", "spec.replicas"),
         "Invalid value: -1: spec.replicas in body should be greater than or equal to 0"),
        ({"replicas": 101}, ("FieldValueInvalid", "spec.replicas"),
         "Invalid value: 101: spec.replicas in body should be less than or equal to 100"),
        ({"replicas": 1, "note": "UPPER"}, ("FieldValueInvalid", "spec.note"),
         "Invalid value: \"UPPER\": spec.note in body should match '^[a-z]*$'"),
        ({"replicas": 1, "note": "x" * 21}, ("FieldValueTooLong", "spec.note"), "Too long: may not be more than 20 bytes"),
        ({"replicas": 1, "steps": [{}] * 4}, ("FieldValueTooMany", "spec.steps"), "Too many: 4: must have at most 3 items"),
        ({"replicas": 1, "items": [{"name": "x"}, {"name": "x"}]}, ("FieldValueDuplicate", "spec.items[1]"),
         'Duplicate value: {"name":"x"}'),
        ({"replicas": 1, "items": [{"value": "x"}]}, ("FieldValueRequired", "spec.items[0].name"), "Required value"),
    ],
)  # fmt: skip
async def test_a_schema_is_enforced(
    api: Conversation, spec: dict[str, Any], cause: tuple[str, str], message: str
) -> None:
    """Users see these texts; our own checks come on top of them."""
    answer = await api.create(WIDGET, {"metadata": {"name": "a"}, "spec": spec})

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert cause in answer.causes
    assert message in [found["message"] for found in answer.body["details"]["causes"]]
    assert answer.message.startswith(f'Widget.{WIDGET.group} "a" is invalid: ')


async def test_all_problems_are_named_at_once(api: Conversation) -> None:
    """A user mends a manifest in one go."""
    answer = await api.create(WIDGET, {"metadata": {"name": "a"}, "spec": {"replicas": -1, "note": "UP"}})

    assert sorted(answer.causes) == [
        ("FieldValueInvalid", ".spec.replicas"),  # once more, because scale reads it
        ("FieldValueInvalid", "spec.note"),
        ("FieldValueInvalid", "spec.replicas"),
    ]


async def test_a_broken_shape_hides_the_rules_between_fields(api: Conversation) -> None:
    """One cause without a path says that CEL rules were not looked at: a second round may find more."""
    answer = await api.create(WIDGET, {"metadata": {"name": "a"}, "spec": {"note": "x"}})

    assert answer.causes == [("FieldValueRequired", "spec.replicas"), ("FieldValueInvalid", "<nil>")]


@pytest.mark.parametrize("share", [3, "30%"])
async def test_an_int_or_string_takes_both(api: Conversation, share: int | str) -> None:
    """maxSurge is such a field."""
    assert (await api.made(WIDGET, widget("a", share=share)))["spec"]["share"] == share


async def test_defaults_are_filled_in_and_unknown_fields_dropped(api: Conversation) -> None:
    """A field that the CRD does not know is lost in silence; with strict validation it is refused."""
    made = await api.made(WIDGET, widget("a", unknown=1, template={"any": {"thing": 1}}))
    strict = await api.create(WIDGET, widget("b", unknown=1), fieldValidation="Strict")

    assert made["spec"] == {"replicas": 1, "mode": "Fast", "template": {"any": {"thing": 1}}}
    assert (strict.status, strict.reason) == (400, "BadRequest")
    assert 'unknown field "spec.unknown"' in strict.message


async def test_a_cel_rule_is_enforced(api: Conversation) -> None:
    """The CRDs carry rules between fields."""
    if api.is_simulated:
        pytest.skip("the simulated server evaluates only CEL rules about `oldSelf`")
    answer = await api.create(WIDGET, widget("a", note="forbidden"))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert "note is forbidden" in answer.message


async def test_what_may_not_change_says_so(api: Conversation) -> None:
    """The CEL rule `self == oldSelf` of a custom type, and the rule of a built-in one."""
    await _made(api)

    custom, built_in = [await api.patch(kind, "a", OTHER_SELECTOR, MERGE_PATCH) for kind in (WIDGET, REPLICA_SET)]

    assert "selector is immutable" in custom.message
    assert "field is immutable" in built_in.message


REFUSED: dict[str, dict[str, Ask]] = {
    "400 BadRequest": {
        "a body of another type": lambda api: api.send("POST", api.path(CONFIG_MAP), build.manifest(POD, "x")),
        "a body that is no JSON object": lambda api: api.send("POST", api.path(CONFIG_MAP), "just a string"),
        # Never an empty list: that would look like a deletion of everything.
        "a label selector that cannot be read": lambda api: api.list(POD, labelSelector="a b"),
        "a field selector that cannot be read": lambda api: api.list(POD, fieldSelector="spec.other=1"),
        "a page that there never was": lambda api: api.list(POD, **{"continue": "nonsense"}),
        "a Secret that is no base64": lambda api: api.create(SECRET, build.secret("new", data={"a": "not!"})),
        "a JSON patch that is no list": lambda api: api.patch(WIDGET, "a", {"spec": {}}, JSON_PATCH),
    },
    "404 NotFound": {
        "a PUT of what is not there": lambda api: api.put(REPLICA_SET, "none", replica_set("none")),
        "the eviction of a pod that is gone": lambda api: api.send("POST", api.path(POD, "none", "eviction"), EVICTION),
    },
    "405 MethodNotAllowed": {
        "a POST to a name": lambda api: api.send("POST", api.path(CONFIG_MAP, "x"), config_map("x")),
    },
    "413 RequestEntityTooLarge": {  # although the ConfigMap itself would not be too large
        "three mebibytes of escapes": lambda api: api.create(CONFIG_MAP, config_map("new", k="\x01" * (600 * 1024))),
    },
    "415 UnsupportedMediaType": {
        "of a custom object": lambda api: api.patch(WIDGET, "a", {"spec": {"replicas": 3}}, STRATEGIC),
    },
    "422 Invalid": {  # by what it says
        "FieldValueForbidden sendInitialEvents": lambda api: api.list(CONFIG_MAP, sendInitialEvents="true"),
        "FieldValueInvalid metadata.name": lambda api: api.create(CONFIG_MAP, config_map("Bad_Name")),
        "FieldValueInvalid metadata.labels": lambda api: api.create(CONFIG_MAP, config_map("a", labels={"x": "a b"})),
        "FieldValueInvalid metadata.resourceVersion": lambda api: api.put(WIDGET, "a", build.manifest(WIDGET, "a")),
        "FieldValueRequired fieldManager": lambda api: api.apply(CONFIG_MAP, "a", {}, by=""),
        "FieldValueRequired spec.template.spec.containers": lambda api: api.create(
            REPLICA_SET, replica_set("new", template=NO_CONTAINERS), dryRun="All"
        ),
        "FieldValueInvalid spec.selector": lambda api: api.patch(WIDGET, "a", OTHER_SELECTOR, MERGE_PATCH),
        "FieldValueInvalid spec.template.metadata.labels, FieldValueInvalid spec.selector": lambda api: api.patch(
            REPLICA_SET, "a", OTHER_SELECTOR, MERGE_PATCH
        ),
        "FieldValueTypeInvalid status.phase, FieldValueInvalid <nil>": lambda api: api.patch(
            WIDGET, "a", {"status": {"phase": 1}}, MERGE_PATCH, "status"
        ),
        "FieldValueInvalid spec.replicas": lambda api: api.patch(
            REPLICA_SET, "a", {"spec": {"replicas": -1}}, MERGE_PATCH, "scale"
        ),
    },
}


@pytest.mark.parametrize(
    ("status", "what"), [(status, what) for status, requests in REFUSED.items() for what in requests]
)
async def test_a_request_is_refused_with_what_is_wrong(api: Conversation, status: str, what: str) -> None:
    """400, 405, 413 and 415 are our bugs and no reason to try again; 404 and 422 are the state of the object."""
    await _made(api)

    answer = await REFUSED[status][what](api)

    assert f"{answer.status} {answer.reason}" == status
    if answer.status == 422:
        assert ", ".join(f"{reason} {field}" for reason, field in answer.causes) == what


async def _made(api: Conversation) -> None:
    """An object of each type, named `a`."""
    await api.made(WIDGET, widget("a", selector={"matchLabels": {"app": "a"}}))
    await api.made(REPLICA_SET, replica_set("a"))

"""Promise: an object that breaks its type's rules is refused with every problem and its path; immutable fields stay."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.objects import CONFIG_MAP, REPLICA_SET
from rollouts.ports import MERGE_PATCH
from tests.build import replica_set
from tests.contract.conversation import WIDGET, Conversation, config_map, widget


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


async def test_a_field_that_may_not_change_does_not(api: Conversation) -> None:
    """The CEL rule `self == oldSelf`: a Rollout's selector."""
    await api.made(WIDGET, widget("a", selector={"matchLabels": {"app": "a"}}))

    answer = await api.patch(WIDGET, "a", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}, MERGE_PATCH)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "spec.selector")]
    assert "selector is immutable" in answer.message


async def test_a_replica_sets_selector_is_immutable_and_matches_its_template(api: Conversation) -> None:
    """Both problems of a new selector are named."""
    await api.made(REPLICA_SET, replica_set("rs"))

    answer = await api.patch(REPLICA_SET, "rs", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}, MERGE_PATCH)

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [
        ("FieldValueInvalid", "spec.template.metadata.labels"),
        ("FieldValueInvalid", "spec.selector"),
    ]
    assert "field is immutable" in answer.message


async def test_a_template_without_containers_is_refused_with_its_path(api: Conversation) -> None:
    """The dry run of a ReplicaSet is the real check of a user's template."""
    broken = replica_set("rs")
    broken["spec"]["template"]["spec"] = {"containers": []}

    answer = await api.create(REPLICA_SET, broken, dryRun="All")

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [("FieldValueRequired", "spec.template.spec.containers")]


async def test_a_bad_name_is_refused(api: Conversation) -> None:
    """Names become parts of host names."""
    answer = await api.create(CONFIG_MAP, config_map("Bad_Name"))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "metadata.name")]


async def test_a_bad_label_is_refused(api: Conversation) -> None:
    """A revision that is no label value could not be selected."""
    answer = await api.create(CONFIG_MAP, config_map("a", labels={"x": "not a label"}))

    assert (answer.status, answer.reason) == (422, "Invalid")
    assert answer.causes == [("FieldValueInvalid", "metadata.labels")]


async def test_a_body_that_is_no_json_is_a_bad_request(api: Conversation) -> None:
    """400: our bug, not the user's."""
    answer = await api.send("POST", api.path(CONFIG_MAP), "just a string")

    assert (answer.status, answer.reason) == (400, "BadRequest")

"""Promise: what a template reads its configuration from is known with the spec, with the defaults that the docs tell of."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.api.spec.parse import parse_spec
from rollouts.core.config.references import SOURCES_MAX
from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigVersioning
from rollouts.core.model.revision import short_hash
from rollouts.errors import SpecInvalid
from tests.api.specs import CANARY, changed

ENV_FROM = [{"configMapRef": {"name": "flags"}}, {"secretRef": {"name": "keys", "optional": True}}]
CONTAINER = {"name": "app", "image": "cart:1.4", "envFrom": ENV_FROM}
WITH_CONFIG = changed(CANARY, template__spec__containers=[CONTAINER])
FLAGS = ConfigRef(ConfigKind.CONFIG_MAP, "flags")
KEYS = ConfigRef(ConfigKind.SECRET, "keys", optional=True)


def test_a_rollout_that_says_nothing_versions_its_configmaps() -> None:
    """Who has read no page about it is who edits a ConfigMap under running pods. Secrets need rights, and so a word."""
    spec = parse_spec(WITH_CONFIG)

    assert spec.config_versioning == ConfigVersioning(enabled=True, secrets=False, settle_s=3.0, retain=False)
    assert spec.config_refs == (FLAGS,)
    assert parse_spec(changed(WITH_CONFIG, configVersioning={})) == spec
    assert parse_spec(changed(WITH_CONFIG, configVersioning=None)) == spec


def test_every_field_of_config_versioning_arrives() -> None:
    """A field that is dropped between the wire and the core is a field that does nothing."""
    written = {"mode": "On", "secrets": True, "settleSeconds": 0, "retain": True}

    spec = parse_spec(changed(WITH_CONFIG, configVersioning=written))

    assert spec.config_versioning == ConfigVersioning(enabled=True, secrets=True, settle_s=0.0, retain=True)
    assert spec.config_refs == (FLAGS, KEYS)


def test_off_means_that_nothing_is_versioned() -> None:
    """For applications that read their files again by themselves."""
    spec = parse_spec(changed(WITH_CONFIG, configVersioning={"mode": "Off"}))

    assert not spec.config_versioning.enabled
    assert spec.config_refs == ()


@pytest.mark.parametrize("written", [{}, {"mode": "Off"}, {"secrets": True}, {"retain": True, "settleSeconds": 9}])
def test_a_setting_changes_no_template(written: dict[str, Any]) -> None:
    """The first scheme is of the template alone, so that no upgrade rolls anybody."""
    plain, set_so = parse_spec(WITH_CONFIG), parse_spec(changed(WITH_CONFIG, configVersioning=written))

    assert set_so.template_hash == plain.template_hash == short_hash(plain.template_json)
    assert set_so.revision == plain.revision == plain.template_hash


def test_a_template_of_bytes_tells_the_same() -> None:
    """The controller reads specs as bytes."""
    written = (
        b'{"replicas":1,"selector":{"matchLabels":{"app":"cart"}},"strategy":{"canary":{}},"template":{"metadata":{"labels":'
        b'{"app":"cart"}},"spec":{"containers":[{"name":"app","image":"a","envFrom":[{"configMapRef":{"name":"flags"}}]}]}}}'
    )

    assert parse_spec(written).config_refs == (FLAGS,)


@pytest.mark.parametrize(("count", "taken"), [(SOURCES_MAX, True), (SOURCES_MAX + 1, False)])
def test_more_sources_than_a_replica_set_can_note_are_refused(count: int, taken: bool) -> None:
    """Otherwise the API server refuses its annotations, after the copies were made. Left alone, any number is right."""
    env = [{"configMapRef": {"name": f"flags-{index}"}} for index in range(count)]
    many = changed(CANARY, template__spec__containers=[{"name": "app", "image": "cart:1.4", "envFrom": env}])

    assert parse_spec(changed(many, configVersioning={"mode": "Off"})).config_refs == ()
    if taken:
        assert len(parse_spec(many).config_refs) == count
        return
    with pytest.raises(SpecInvalid) as refused:
        parse_spec(many)
    assert [each.path for each in refused.value.problems] == ["spec.template"]
    assert "names 257 ConfigMaps and Secrets, and 256 at most can belong to a revision" in str(refused.value)

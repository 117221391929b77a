"""Promise: what `integrations/k9s` gives k9s are commands that there are, and fields and columns that Rollouts have."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from rollouts.api.schema import crd_manifests
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, ROLLOUT, Manifest
from tests.architecture.tracked import ROOT
from tests.pages.test_commands_of_pages_are_understood import misunderstood

SCOPES = {kind.plural: kind for kind in (ROLLOUT, ANALYSIS_RUN, EXPERIMENT)}
OF_K9S = {"NAMESPACE", "NAME", "AGE"}
"""Columns that k9s has for every kind."""


def _file(name: str) -> Any:
    (found,) = yaml.safe_load((ROOT / "integrations" / "k9s" / name).read_text()).values()
    return found


def _crd(plural: str) -> Manifest:
    (found,) = (each for each in crd_manifests() if each["spec"]["names"]["plural"] == plural)
    (version,) = found["spec"]["versions"]
    return dict(version)


@pytest.mark.parametrize("name", _file("plugins.yaml"))
def test_a_key_gives_a_command_that_there_is(name: str) -> None:
    """For the object in the line, in its namespace and its cluster; whatever changes something is confirmed."""
    plugin = _file("plugins.yaml")[name]
    assert plugin["command"] == "kubectl" and plugin["args"][0] == "rollouts"
    words = plugin["args"][1:]

    assert misunderstood(" ".join(words)) == []
    assert words[-4:] == ["-n", "$NAMESPACE", "--context", "$CONTEXT"] and "$NAME" in words
    assert plugin.get("confirm", False) is ("get" not in words)
    assert plugin["scopes"] and set(plugin["scopes"]) <= SCOPES.keys()


def test_no_key_is_given_twice() -> None:
    """In one list."""
    keys = Counter((scope, each["shortCut"]) for each in _file("plugins.yaml").values() for scope in each["scopes"])

    assert [key for key, count in keys.items() if count > 1] == []


def test_columns_are_those_of_the_crd_or_fields_of_status() -> None:
    """A column that there is not would stay empty for ever."""
    for resource, view in _file("views.yaml").items():
        version = _crd(resource.rpartition("/")[2])
        printed = {each["name"].upper() for each in version["additionalPrinterColumns"]}
        for column in view["columns"]:
            name, _, path = re.sub(r"\|\w+$", "", column).partition(":")
            schema = version["schema"]["openAPIV3Schema"]
            for part in path.split(".")[1:]:
                schema = schema["properties"][part]
            assert path or name in printed | OF_K9S, column
        assert view["sortColumn"].partition(":")[0] in printed


def test_short_names_lead_to_kinds_that_there_are() -> None:
    """With group and version, as others have Rollouts, too."""
    for resource in _file("aliases.yaml").values():
        group, version, plural = resource.split("/")
        assert (SCOPES[plural].group, SCOPES[plural].version) == (group, version)

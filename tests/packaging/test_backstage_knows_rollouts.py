"""Promise: what docs/gitops.md says of Backstage names our kinds as the API server serves them, and a page of the dashboard."""

from __future__ import annotations

from typing import Any

import yaml

from rollouts.cli.dashboard.pages import object_address
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, ROLLOUT, Key
from tests.pages.blocks import run_by

SETTINGS, COMPONENT = (yaml.safe_load(block.text) for block in run_by(__file__))


def test_the_plugin_is_told_what_people_look_at() -> None:
    """Rollouts, and what judges them."""
    kinds = [(each["group"], each["apiVersion"], each["plural"]) for each in SETTINGS["kubernetes"]["customResources"]]

    assert kinds == [(kind.group, kind.version, kind.plural) for kind in (ROLLOUT, ANALYSIS_RUN, EXPERIMENT)]


def test_the_link_of_a_component_is_the_page_of_its_rollout() -> None:
    """In the namespace in which the plugin looks."""
    metadata: dict[str, Any] = COMPONENT["metadata"]
    (link,) = metadata["links"]
    namespace = metadata["annotations"]["backstage.io/kubernetes-namespace"]

    assert link["url"].endswith(f".com{object_address(ROLLOUT, Key(namespace, metadata['name']))}")

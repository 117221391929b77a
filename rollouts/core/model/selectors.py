"""Labels of pods, and the selectors of Services that find them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.core.model.revision import POD_TEMPLATE_HASH_LABEL, REVISION_LABEL
from rollouts.objects import mapping


def pod_template(rollout: Mapping[str, Any]) -> dict[str, Any]:
    """The pod template in the manifest of a Rollout; empty where a workload has it (`workloadRef`)."""
    return dict(mapping(mapping(rollout.get("spec")).get("template")))


def template_labels(template: object) -> Mapping[str, Any]:
    """The labels in a pod template; empty when it has none or they cannot be read."""
    return mapping(mapping(mapping(template).get("metadata")).get("labels"))


def users_selector(selector: Mapping[str, Any]) -> Mapping[str, Any]:
    """The selector without our key, the revision."""
    return {key: value for key, value in selector.items() if key not in (REVISION_LABEL, POD_TEMPLATE_HASH_LABEL)}


def selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a pod with these labels matches every entry; a selector without entries matches any pod."""
    return all(labels.get(key) == value for key, value in selector.items())

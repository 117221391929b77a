"""Immutable copies of ConfigMaps and Secrets, and pod templates that name them.

No kubelet watches an immutable object, and none of its pods ever sees another value. Source: KEP-1412.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import assert_never

from rollouts.core.config.references import places
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.rollout import Rollout
from rollouts.manifests.ownership import (
    CONFIG_COPY,
    CONFIG_COPY_VALUE,
    CONFIG_SOURCE,
    CONTENT,
    NAME,
    name_label,
    owner_reference,
)
from rollouts.objects import CONFIG_MAP, SECRET, Kind, Manifest

_OPAQUE = "Opaque"
"""The type of every Secret that is a copy: pods read no type, and controllers that write Secrets of others leave it alone."""


def kind_of(kind: ConfigKind) -> Kind:
    """The resource type of sources and copies of that kind."""
    match kind:
        case ConfigKind.CONFIG_MAP:
            return CONFIG_MAP
        case ConfigKind.SECRET:
            return SECRET
        case _:
            assert_never(kind)


def rewritten(template: Manifest, uses: Iterable[ConfigUse]) -> Manifest:
    """The pod template with each source's name replaced by that of its copy, in every place. All else stays as it is.

    Args:
        template: as the user wrote it; it is not changed.
        uses: without a copy, a source keeps its name.
    """
    copies = {(use.kind, use.source): use.copy for use in uses if use.copy}
    made = copy.deepcopy(template)
    for place in places(made):
        if name := copies.get((place.ref.kind, place.ref.name)):
            place.holder[place.field] = name
    return made


def config_copy(
    rollout: Rollout,
    use: ConfigUse,
    *,
    data: Mapping[str, str],
    binary_data: Mapping[str, str],
) -> Manifest:
    """The whole copy that `use` names. It goes with the Rollout, unless the spec retains copies.

    Labels of the source are not on it: tools of GitOps would take it for an object of theirs, and prune it.

    Args:
        data: the source's `data`; {} for a Secret.
        binary_data: the source's `binaryData`, or a Secret's `data`; base64.
    """
    kind = kind_of(use.kind)
    metadata: Manifest = {
        "name": use.copy,
        "namespace": rollout.namespace,
        "labels": {NAME: name_label(rollout.name), CONFIG_COPY: CONFIG_COPY_VALUE},
        "annotations": {CONFIG_SOURCE: use.source, CONTENT: use.content},
    }
    if not rollout.spec.config_versioning.retain:
        metadata["ownerReferences"] = [owner_reference(rollout)]
    made: Manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "immutable": True}
    match use.kind:
        case ConfigKind.CONFIG_MAP:
            content = {"data": dict(data), "binaryData": dict(binary_data)}
            return made | {field: entries for field, entries in content.items() if entries}
        case ConfigKind.SECRET:
            return made | {"type": _OPAQUE, "data": dict(binary_data)}
        case _:
            assert_never(use.kind)

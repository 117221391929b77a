"""Immutable copies of ConfigMaps and Secrets, and pod templates that name them.

No kubelet watches an immutable object, and none of its pods ever sees another value. Source: KEP-1412.
"""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Iterable, Mapping

from rollouts.core.config.references import places
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.intents import CopyOwner
from rollouts.core.model.rollout import Rollout
from rollouts.manifests.ownership import (
    CONFIG_COPY,
    CONFIG_COPY_VALUE,
    CONFIG_KEY_NAME,
    CONFIG_SOURCE,
    CONTENT,
    NAME,
    name_label,
    owner_reference,
)
from rollouts.objects import CONFIG_MAP, REPLICA_SET, SECRET, Kind, Manifest

TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a type
"""The type of Secrets that belong to a ServiceAccount: the control plane writes them, and takes a copy for another token."""

CONFIG_KEY = "key"
CONFIG_KEY_BYTES = 32


def kind_of(kind: ConfigKind) -> Kind:
    """The resource type of sources and copies of that kind."""
    return CONFIG_MAP if kind is ConfigKind.CONFIG_MAP else SECRET


def rewritten(template: Manifest, uses: Iterable[ConfigUse]) -> Manifest:
    """The pod template with each source's name replaced by that of its copy, if it has one, in every place.

    All else stays as it is, and the user's template is not changed.
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
    secret_type: str = "",
    owner: CopyOwner | None = None,
) -> Manifest:
    """The whole copy that `use` names. It goes with the Rollout, unless the spec retains copies; with `owner`, if there is one.

    Labels of the source are not on it: tools of GitOps would take it for an object of theirs, and prune it.

    Args:
        data: the source's `data`; {} for a Secret.
        binary_data: the source's `binaryData`, or a Secret's `data`; base64.
        secret_type: the type of a Secret.
        owner: the ReplicaSet that a copy of a Secret belongs to.
    """
    kind = kind_of(use.kind)
    metadata: Manifest = {
        "name": use.copy,
        "namespace": rollout.namespace,
        "labels": {NAME: name_label(rollout.name), CONFIG_COPY: CONFIG_COPY_VALUE},
        "annotations": {CONFIG_SOURCE: use.source, CONTENT: use.content},
    }
    if owner is not None:
        metadata["ownerReferences"] = [{**REPLICA_SET.head, "name": owner.name, "uid": owner.uid, "controller": True}]
    elif not rollout.spec.config_versioning.retain:
        metadata["ownerReferences"] = [owner_reference(rollout)]
    made: Manifest = {**kind.head, "metadata": metadata, "immutable": True}
    if use.kind is ConfigKind.SECRET:
        return made | {"type": secret_type, "data": dict(binary_data)}
    content = {"data": dict(data), "binaryData": dict(binary_data)}
    return made | {field: entries for field, entries in content.items() if entries}


def config_copy_probe(namespace: str, name: str, *, rollout: str) -> Manifest:
    """A Secret without data, for a dry run that says whether one of that name is there; labelled as a copy for admission."""
    return {
        **SECRET.head,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {NAME: name_label(rollout), CONFIG_COPY: CONFIG_COPY_VALUE},
        },
        "immutable": True,
        "type": "Opaque",
    }


def config_key(namespace: str, key: bytes) -> Manifest:
    """The Secret with the key of a namespace. It has no owner: the Rollouts of the namespace share it."""
    return {
        **SECRET.head,
        "metadata": {"name": CONFIG_KEY_NAME, "namespace": namespace},
        "immutable": True,
        "type": "Opaque",
        "data": {CONFIG_KEY: base64.b64encode(key).decode()},
    }


def config_key_of(data: Mapping[str, str]) -> bytes | None:
    """The key in the `data` of that Secret; None when there is none that anybody can use."""
    try:
        key = base64.b64decode(data.get(CONFIG_KEY, ""), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) >= CONFIG_KEY_BYTES else None

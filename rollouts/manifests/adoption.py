"""Adopting objects that nobody controls: which ReplicaSets are this Rollout's, and the patch that adopts one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rollouts.core.model.revision import HASH_SCHEMES, canonical_json, replica_set_name
from rollouts.core.model.rollout import Rollout
from rollouts.manifests.ownership import HASH_SCHEME_LABEL, REVISION, owner_reference
from rollouts.manifests.workload import revision_selector


def not_ours(name: str, labels: Mapping[str, str], selector_json: bytes, *, rollout: str, users_selector: bytes) -> str:
    """Why a ReplicaSet with the Rollout's name label was not made by this Rollout; "" when it was.

    Name, labels and selector are the ReplicaSet's; `users_selector` is `spec.selector` of the Rollout, canonical JSON.
    """
    scheme, revision = labels.get(HASH_SCHEME_LABEL, ""), labels.get(REVISION, "")
    if scheme not in HASH_SCHEMES:
        return f"its label {HASH_SCHEME_LABEL} is {scheme!r}, not {' or '.join(map(repr, HASH_SCHEMES))}"
    if not revision or name != replica_set_name(rollout=rollout, revision=revision):
        return f"its name does not follow from its label {REVISION} {revision!r}"
    try:
        selector = canonical_json(json.loads(selector_json))
    except (ValueError, RecursionError):
        selector = b""
    if selector != canonical_json(revision_selector(users_selector, revision)):
        return f"its selector is not spec.selector with {REVISION}: {revision}"
    return ""


def adoption_patch(rollout: Rollout, *, uid: str, resource_version: str, has_owners: bool) -> list[dict[str, Any]]:
    """The JSON Patch that makes the Rollout the controller of an object; it conflicts with another uid or another version."""
    owner, place = owner_reference(rollout), "/metadata/ownerReferences"
    last, first = {"op": "add", "path": f"{place}/-", "value": owner}, {"op": "add", "path": place, "value": [owner]}
    return [*_guards(uid, resource_version), last if has_owners else first]


def release_patch(rollout: Rollout, *, uid: str, resource_version: str, owner_index: int) -> list[dict[str, Any]]:
    """The JSON Patch that takes the Rollout off the owners of an object, where it has that place among them.

    It conflicts with another uid or another version.
    """
    place = f"/metadata/ownerReferences/{owner_index}"
    return [
        *_guards(uid, resource_version),
        {"op": "test", "path": f"{place}/uid", "value": rollout.uid},
        {"op": "remove", "path": place},
    ]


def _guards(uid: str, resource_version: str) -> list[dict[str, Any]]:
    return [
        {"op": "replace", "path": "/metadata/uid", "value": uid},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
    ]

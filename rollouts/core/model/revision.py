"""The name of a revision.

In scheme v1 it is the SHA-256 of the canonical JSON of what the user wrote in `spec.template`: keys sorted, no white space, nulls
omitted (a null is an absent field to Kubernetes), UTF-8. Fields that we inject or that an API server defaults take no part, so no
upgrade of either rolls out a workload again (see argo-rollouts issue 4696). Scheme v2
is of a template with the contents of ConfigMaps and Secrets, see core/config/content.py. The label `rollouts.dev/hash-scheme`
says which scheme a ReplicaSet was named by; it keeps that.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

HASH_SCHEME_V1 = "v1"
HASH_SCHEME_V2 = "v2"
HASH_SCHEMES = (HASH_SCHEME_V1, HASH_SCHEME_V2)
REVISION_LABEL = "rollouts.dev/revision"
POD_TEMPLATE_HASH_LABEL = "pod-template-hash"
"""Names the revision of pods that a Deployment keeps: every ReplicaSet of a Deployment has it in its selector."""
DEPLOYMENT_REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
"""The number that a Deployment's controller notes on it and on the ReplicaSet of its template."""
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes: no words, no 0/O or 1/l
_LENGTH = 10  # 27^10 = 2^47 names: the chance that 1,000 revisions of one Rollout clash is 2.4e-9
_HASHES = len(_ALPHABET) ** _LENGTH
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_GENERATE_NAME_MAX = (
    58  # kube-apiserver cuts a pod's generateName here; with a longer one pods would lose their revision
)


def without_nulls(value: Any) -> Any:
    """A JSON value without nulls in objects: a null is an absent field to Kubernetes."""
    if isinstance(value, dict):
        return {
            key: without_nulls(item) if isinstance(item, (dict, list)) else item
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) if isinstance(item, (dict, list)) else item for item in value]
    return value


def canonical_json(value: Any) -> bytes:
    """Canonical JSON bytes of a JSON value, without nulls in objects."""
    return _ENCODER.encode(without_nulls(value)).encode()


def short_hash(data: bytes) -> str:
    """SHA-256 of `data`, shortened for names: 10 characters that are safe in labels and object names."""
    return short_name(hashlib.sha256(data).digest())


def short_name(digest: bytes) -> str:
    """A digest of SHA-256 as `short_hash` shortens it."""
    number = int.from_bytes(digest, "big") % _HASHES  # a small number: its digits cost less
    characters = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        characters.append(_ALPHABET[digit])
    return "".join(characters)


def replica_set_name(*, rollout: str, revision: str) -> str:
    """`<rollout>-<revision>`, the Rollout's name shortened to leave room for the pods' suffix.

    A name that is too long is cut and gets a hash of the whole, so two Rollouts never share a name.
    """
    room = _GENERATE_NAME_MAX - 2 - len(revision)
    if len(rollout) > room:
        rollout = f"{rollout[: room - _LENGTH - 1]}-{short_hash(rollout.encode())}"
    return f"{rollout}-{revision}"

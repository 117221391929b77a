"""A Deployment's ReplicaSets: which of them has its template, their annotations, and a new one.

Source: k8s.io/kubernetes pkg/controller/deployment/util/deployment_util.go.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from rollouts.objects import DEPLOYMENT, Manifest
from rollouts.sim.actors.pods import owner_reference
from rollouts.sim.apiserver.verbs import NAME_LETTERS
from rollouts.sim.storage.history import Stored
from rollouts.sim.storage.refusals import compact_json

HASH_LABEL = "pod-template-hash"
_PREFIX = "deployment.kubernetes.io"
REVISION, REVISION_HISTORY = f"{_PREFIX}/revision", f"{_PREFIX}/revision-history"
DESIRED_REPLICAS, MAX_REPLICAS = f"{_PREFIX}/desired-replicas", f"{_PREFIX}/max-replicas"
_NOT_COPIED = frozenset((
    "kubectl.kubernetes.io/last-applied-configuration", REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
))  # fmt: skip
_HISTORY_MAX_CHARS = 2000
_NAME_MAX_CHARS = 253
_MAX_INT32 = 2**31 - 1


def replicas(replica_set: Stored) -> int:
    """`spec.replicas`."""
    wanted: int = replica_set.manifest["spec"]["replicas"]
    return wanted


def counted(replica_set: Stored, name: str) -> int:
    """A number of pods in the status; 0 when it is not there."""
    number: int = (replica_set.manifest.get("status") or {}).get(name, 0)
    return number


def annotations_of(stored: Stored) -> dict[str, str]:
    """{} for none."""
    return stored.metadata.get("annotations") or {}


def by_age(replica_set: Stored) -> tuple[str, str]:
    """The sort key, oldest first. Times are whole seconds, so names decide often."""
    return replica_set.metadata["creationTimestamp"], replica_set.metadata["name"]


def revision(replica_set: Stored) -> int:
    """Its number; 0 for none, and for a text that is no number."""
    return _number(annotations_of(replica_set).get(REVISION)) or 0


def annotated_number(replica_set: Stored, name: str) -> int | None:
    """An annotation that is a number of pods; None for any other value, and when it is not there."""
    number = _number(annotations_of(replica_set).get(name))
    return number if number is not None and 0 <= number <= _MAX_INT32 else None


def with_template(template: Manifest, replica_sets: Iterable[Stored]) -> Stored | None:
    """The oldest with this pod template, whatever its name; the label `pod-template-hash` does not count."""
    wanted = _plain(template)
    same = (each for each in replica_sets if _plain(each.manifest["spec"]["template"]) == wanted)
    return min(same, key=by_age, default=None)


def new_annotations(deployment: dict[str, str], own: dict[str, str], number: int) -> dict[str, str]:
    """The annotations of the new ReplicaSet: the Deployment's own, and revision `number` unless it has a higher one already.

    What it had before goes into its history. With a revision that is no number it keeps what it has.
    """
    before = own.get(REVISION)
    old_number = _number(before) if before else 0
    if old_number is None:
        return own
    merged = own | {name: value for name, value in deployment.items() if name not in _NOT_COPIED}
    if old_number < number:
        merged[REVISION] = str(number)
        if before is not None:
            history = [*filter(None, own.get(REVISION_HISTORY, "").split(",")), before]
            while len(",".join(history)) > _HISTORY_MAX_CHARS:
                history.pop(0)
            merged[REVISION_HISTORY] = ",".join(history)
    return merged


def new_replica_set(deployment: Stored, *, collisions: int) -> Manifest:
    """A ReplicaSet of the Deployment's template, without replicas; the same for the same template and number of collisions.

    The hash has the form of real ones, whose value depends on how Go prints a template.
    """
    spec = deployment.manifest["spec"]
    template: Manifest = spec["template"]
    number = zlib.crc32(f"{compact_json(_plain(template))} {collisions or ''}".encode())
    hashed = "".join(NAME_LETTERS[ord(digit) % len(NAME_LETTERS)] for digit in str(number))
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
    selector = spec["selector"]
    prefix = deployment.metadata["name"][: _NAME_MAX_CHARS - 1 - len(hashed)]
    return {
        "metadata": {
            "name": f"{prefix}-{hashed}",
            "labels": labels,
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        },
        "spec": with_min_ready(
            {
                "replicas": 0,
                "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}},
                "template": {**template, "metadata": {**metadata, "labels": labels}},
            },
            spec.get("minReadySeconds", 0),
        ),
    }


def with_min_ready(spec: Manifest, seconds: int) -> Manifest:
    """A ReplicaSet's spec with this `minReadySeconds`; 0 is left out, as by the real server."""
    others = {name: value for name, value in spec.items() if name != "minReadySeconds"}
    return others | ({"minReadySeconds": seconds} if seconds else {})


def oldest_revisions(replica_sets: Sequence[Stored], *, limit: int) -> list[Stored]:
    """Those beyond the limit of the revision history that may be deleted: without pods, asked for or counted."""
    alive = sorted(
        (each for each in replica_sets if "deletionTimestamp" not in each.metadata),
        key=lambda each: (revision(each), by_age(each)),
    )
    return [
        each
        for each in alive[: max(0, len(alive) - limit)]
        if replicas(each) == 0 == counted(each, "replicas")
        and each.metadata["generation"] <= counted(each, "observedGeneration")
    ]


def _plain(template: Manifest) -> Any:
    """A template without its hash label and without what the real server does not keep: nulls, empty lists, empty metadata."""
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH_LABEL}
    return {"metadata": {name: value for name, value in metadata.items() if value}, "spec": _kept(template.get("spec"))}


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _kept(part) for name, part in value.items() if part is not None and part != []}
    return [_kept(item) for item in value] if isinstance(value, list) else value


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None

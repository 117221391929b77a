"""The writes of an update in place: fields of the user's Deployment, and the ReplicaSets that it controls."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rollouts.core.model.in_place_intents import CreateInDeployment, LabelReplicaSet, MoveReplicaSet, StepDeployment
from rollouts.core.model.revision import replica_set_name
from rollouts.core.model.rollout import IntOrPercent, Percent, Rollout
from rollouts.core.model.workload import Held, NamedReplicaSet, UpdateFields, WorkloadSeen
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.ownership import (
    FIELD_MANAGER,
    HELD,
    MANAGED_BY,
    NAME,
    OWN_FIELDS,
    POD_TEMPLATE_HASH,
    PREFIX,
    SCALED_DOWN,
    controller_reference,
    name_label,
    owner_reference,
)
from rollouts.manifests.workload import users_template
from rollouts.objects import DEPLOYMENT, REPLICA_SET, Manifest, mapping

_INT32_MAX = 2_147_483_647
"""The largest value of the fields that a note holds: the API server would refuse to give back a larger one."""
_PERCENT_LENGTH = 11
"""Of a percentage in a note, whose label has 63 characters."""


def deployment_patch(intent: StepDeployment) -> Manifest:
    """The merge patch for the intent; a field of None is removed, and the API server fills in its default."""
    return {
        "metadata": {
            "uid": intent.uid,
            "resourceVersion": intent.resource_version,
            "labels": {OWN_FIELDS: None if intent.held is None else own_text(intent.held.own)},
            "annotations": {HELD: None if intent.held is None else held_text(intent.held)},
        },
        "spec": {"paused": True if intent.paused else None, **update_fields(intent.fields)},
    }


def disowned(written: Manifest) -> list[Manifest] | None:
    """The JSON Patch by which our field manager owns no field of a workload's spec; None if it owns none already.

    A write that gives a value back makes its writer the owner of the field. Then the user's own apply of another value would be a
    conflict. A pause stays ours. The operations fit only the entries that were read.

    Args:
        written: the answer to our write, with `managedFields`.
    """
    metadata = mapping(written.get("metadata"))
    entries = metadata.get("managedFields")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        fields = mapping(mapping(entry).get("fieldsV1"))
        spec = mapping(fields.get("f:spec"))
        ours = (entry.get("manager"), entry.get("operation"), entry.get("subresource", ""))
        kept: Manifest = {"f:paused": {}} if mapping(written.get("spec")).get("paused") and "f:paused" in spec else {}
        if ours != (FIELD_MANAGER, "Update", "") or spec.keys() <= kept.keys():
            continue
        at = f"/metadata/managedFields/{index}"
        left = {
            **{name: part for name, part in fields.items() if name != "f:spec"},
            **({"f:spec": kept} if kept else {}),
        }
        becomes = {"op": "replace", "path": f"{at}/fieldsV1", "value": left} if left else {"op": "remove", "path": at}
        return [
            {"op": "test", "path": "/metadata/uid", "value": metadata.get("uid")},
            {"op": "test", "path": f"{at}/manager", "value": FIELD_MANAGER},
            {"op": "test", "path": f"{at}/fieldsV1", "value": fields},
            becomes,
        ]
    return None


def hold_question(kind: WorkloadKind, uid: str) -> Manifest:
    """A merge patch for a dry run: another template, and no hold. It comes out held only if a policy holds the workload."""
    template = {"metadata": {"annotations": {f"{PREFIX}hold-question": "1"}}}
    freed: Manifest = {"paused": None}
    if kind is WorkloadKind.STATEFUL_SET:
        freed = {"updateStrategy": {"rollingUpdate": {"partition": None}}}
    elif kind is WorkloadKind.DAEMON_SET:
        freed = {"updateStrategy": {"type": "RollingUpdate"}}
    return {"metadata": {"uid": uid}, "spec": {**freed, "template": template}}


def update_fields(fields: UpdateFields) -> Manifest:
    """Those of a Deployment's `spec`, for a merge patch."""
    limits = {"maxSurge": _limit(fields.max_surge), "maxUnavailable": _limit(fields.max_unavailable)}
    return {
        "minReadySeconds": fields.min_ready_s,
        "progressDeadlineSeconds": fields.progress_deadline_s,
        "strategy": {"rollingUpdate": limits},
    }


def label_patch(rollout: Rollout, intent: LabelReplicaSet) -> Manifest:
    """The merge patch that gives a ReplicaSet our label."""
    return {"metadata": {"uid": intent.uid, "labels": {NAME: name_label(rollout.name)}}}


def unmarked(replica_set: NamedReplicaSet) -> Manifest:
    """The merge patch that takes our marks off a ReplicaSet, also those that the Deployment's controller has copied there."""
    annotations = {MANAGED_BY: None, HELD: None, SCALED_DOWN: None}
    return {"metadata": {"uid": replica_set.uid, "labels": {NAME: None}, "annotations": annotations}}


def replica_set_in(workload: WorkloadSeen, rollout: Rollout, intent: CreateInDeployment) -> Manifest:
    """The ReplicaSet that the Deployment's controller takes for its own new one: of its template, without pods.

    One beside the Deployment counts its pods as the user's `minReadySeconds` says.
    """
    template = users_template(rollout)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**mapping(metadata.get("labels")), POD_TEMPLATE_HASH: intent.revision}
    selector: Manifest = json.loads(rollout.spec.selector_json)
    selector["matchLabels"] = {**mapping(selector.get("matchLabels")), POD_TEMPLATE_HASH: intent.revision}
    inside = controller_reference(DEPLOYMENT, name=workload.name, uid=workload.uid)
    ready = {"minReadySeconds": rollout.spec.min_ready_s} if intent.beside and rollout.spec.min_ready_s else {}
    return {
        **REPLICA_SET.head,
        "metadata": {
            "name": replica_set_name(rollout=workload.name, revision=intent.revision),
            "namespace": rollout.namespace,
            "labels": {**metadata["labels"], NAME: name_label(rollout.name)},
            "ownerReferences": [owner_reference(rollout) if intent.beside else inside],
        },
        "spec": {"replicas": 0, **ready, "selector": selector, "template": template},
    }


def controller_patch(workload: WorkloadSeen, rollout: Rollout, intent: MoveReplicaSet) -> Manifest:
    """The merge patch that makes the Deployment, or the Rollout, the controller of a ReplicaSet."""
    deployment = controller_reference(DEPLOYMENT, name=workload.name, uid=workload.uid)
    return {
        "metadata": {
            "uid": intent.uid,
            "resourceVersion": intent.resource_version,
            "labels": {NAME: name_label(rollout.name)},
            "ownerReferences": [deployment if intent.into else owner_reference(rollout)],
        }
    }


def held_text(held: Held) -> str:
    """Value of `rollouts.dev/held`."""
    noted: Manifest = {"number": held.number, "replicas": held.replicas}
    if held.written is not None:
        noted["written"] = _noted(held.written)
    return json.dumps(noted, separators=(",", ":"))


def own_text(own: UpdateFields) -> str:
    """Value of `rollouts.dev/own-fields`, for example `s25p.u1.m5.d600`; a label has 63 characters at most."""
    values = {"s": own.max_surge, "u": own.max_unavailable, "m": own.min_ready_s, "d": own.progress_deadline_s}
    texts = {letter: f"{value.value}p" if isinstance(value, Percent) else value for letter, value in values.items()}
    return ".".join([f"{letter}{text}" for letter, text in texts.items() if text is not None])


def held_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Held | None:
    """The note of an update under way; None without the label of the user's fields.

    An annotation without it is a copy: the Deployment's controller copies annotations to its ReplicaSets, and `kubectl rollout
    undo` copies them back. So one that is missing, or cannot be read, is one that was lost: only its numbers are.

    Raises: ValueError for a label that cannot be read: the user's own fields are not known then.
    """
    if (text := labels.get(OWN_FIELDS)) is None:
        return None
    try:
        own = _own_of(text)
    except ValueError as exc:
        raise ValueError(f"label {OWN_FIELDS} cannot be read: {exc}") from exc
    try:
        noted = json.loads(annotations.get(HELD, ""))
        return Held(
            number=_count(noted["number"]) or 0,
            replicas=_count(noted["replicas"]) or 0,
            own=own,
            written=_fields_of(noted["written"]) if "written" in noted else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Held(number=0, replicas=0, own=own)


def _own_of(text: str) -> UpdateFields:
    """Raises: ValueError for what `own_text` does not write."""
    values: dict[str, int | str] = {}
    for part in text.split(".") if text else ():
        letter, value = part[:1], part[1:]
        if letter not in ("s", "u", "m", "d") or not value.removesuffix("p").isdecimal():
            raise ValueError(f"{part!r} is none of s, u, m and d with a number")
        values[letter] = f"{value[:-1]}%" if value.endswith("p") else int(value)
    return UpdateFields(
        max_surge=limit_of(values.get("s")),
        max_unavailable=limit_of(values.get("u")),
        min_ready_s=_count(values.get("m")),
        progress_deadline_s=_count(values.get("d")),
    )


def _noted(fields: UpdateFields) -> Manifest:
    """Those that are there, by their names in the API."""
    noted = {
        "maxSurge": _limit(fields.max_surge),
        "maxUnavailable": _limit(fields.max_unavailable),
        "minReadySeconds": fields.min_ready_s,
        "progressDeadlineSeconds": fields.progress_deadline_s,
    }
    return {name: value for name, value in noted.items() if value is not None}


def _fields_of(noted: Manifest) -> UpdateFields:
    """Raises: ValueError, TypeError, AttributeError for what `_noted` does not write."""
    return UpdateFields(
        max_surge=limit_of(noted.get("maxSurge")),
        max_unavailable=limit_of(noted.get("maxUnavailable")),
        min_ready_s=_count(noted.get("minReadySeconds")),
        progress_deadline_s=_count(noted.get("progressDeadlineSeconds")),
    )


def limit_of(value: object) -> IntOrPercent | None:
    """`maxSurge` or `maxUnavailable` of a Deployment. Raises: ValueError when it is neither a number nor a percentage."""
    match value:
        case None:
            return None
        case int(pods) if not isinstance(value, bool) and 0 <= pods <= _INT32_MAX:
            return pods
        case str(text) if text.endswith("%") and text[:-1].isdecimal() and len(text) <= _PERCENT_LENGTH:
            return Percent(int(text[:-1]))
    raise ValueError(f"{value!r} is neither a number nor a percentage")


def _count(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT32_MAX):
        return value
    raise ValueError(f"{value!r} is not a number from 0 to {_INT32_MAX}")


def _limit(limit: IntOrPercent | None) -> int | str | None:
    return f"{limit.value}%" if isinstance(limit, Percent) else limit

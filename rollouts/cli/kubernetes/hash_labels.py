"""Where a pod template names the label by which another controller tells its revisions apart, and no pod of ours has it. Pure.

Kubernetes' own pages recommend `matchLabelKeys: [pod-template-hash]`: pods of an update then do not avoid those of the revision
before. Without the label that key is ignored, so with a required anti-affinity and no node to spare the new pods stay Pending.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries_at
from rollouts.objects import Manifest, mapping

LABELS = ("pod-template-hash", "rollouts-pod-template-hash")
"""The label of a Deployment's pods, and that of Argo Rollouts' pods."""
_REQUIRED, _PREFERRED = (f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("required", "preferred"))
_KEY_LISTS = ("matchLabelKeys", "mismatchLabelKeys")
_PRESENCE = ("Exists", "DoesNotExist")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class HashUse(Struct, frozen=True):
    """One place that names such a label.

    Args:
        path: in the object.
        label: one of LABELS.
        holder, at: the place itself: a list and an index, or an object and a key.
        named: what stands there: the label, or a fieldPath.
        has_value: it is compared with a value, which is the hash of one revision of the other controller.
    """

    path: str
    label: str
    holder: Any
    at: Any
    named: str
    has_value: bool = False

    def renamed(self, label: str) -> str:
        """What stands there with another label in its place."""
        return self.named.replace(self.label, label)


def hash_uses(template: Manifest, path: str) -> Iterator[HashUse]:
    """Every place of a pod template that names one of LABELS, unless the template gives its pods that label itself."""
    own = mapping(mapping(template.get("metadata")).get("labels"))
    for use in _uses(mapping(template.get("spec")), f"{path}.spec"):
        if use.label not in own:
            yield use


def _uses(spec: Mapping[str, Any], path: str) -> Iterator[HashUse]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity, where = mapping(mapping(spec.get("affinity")).get(kind)), f"{path}.affinity.{kind}"
        for at, term in entries_at(affinity, _REQUIRED, where):
            yield from _uses_in_term(term, at)
        for at, weighted in entries_at(affinity, _PREFERRED, where):
            yield from _uses_in_term(mapping(weighted.get("podAffinityTerm")), f"{at}.podAffinityTerm")
    for at, constraint in entries_at(spec, "topologySpreadConstraints", path):
        yield from _uses_in_term(constraint, at)
    for kind in _CONTAINERS:
        for at, container in entries_at(spec, kind, path):
            for path_of_variable, variable in entries_at(container, "env", at):
                yield from _uses_in_field(mapping(variable.get("valueFrom")), f"{path_of_variable}.valueFrom")
    for at, volume in entries_at(spec, "volumes", path):
        yield from _uses_in_files(mapping(volume.get("downwardAPI")), f"{at}.downwardAPI")
        projected = mapping(volume.get("projected"))
        for path_of_source, source in entries_at(projected, "sources", f"{at}.projected"):
            yield from _uses_in_files(mapping(source.get("downwardAPI")), f"{path_of_source}.downwardAPI")


def _uses_in_term(term: Mapping[str, Any], path: str) -> Iterator[HashUse]:
    """An affinity's term and a spread constraint have the same fields."""
    for name in _KEY_LISTS:
        keys = term.get(name)
        for index, key in enumerate(keys if isinstance(keys, list) else ()):
            if key in LABELS:
                yield HashUse(f"{path}.{name}[{index}]", key, keys, index, key)
    selector, where = mapping(term.get("labelSelector")), f"{path}.labelSelector"
    labels = mapping(selector.get("matchLabels"))
    for key in (label for label in LABELS if label in labels):
        yield HashUse(f'{where}.matchLabels["{key}"]', key, labels, key, key, has_value=True)
    for at, expression in entries_at(selector, "matchExpressions", where):
        if (key := expression.get("key")) in LABELS:
            has_value = expression.get("operator") not in _PRESENCE
            yield HashUse(f"{at}.key", key, expression, "key", key, has_value=has_value)


def _uses_in_files(source: Mapping[str, Any], path: str) -> Iterator[HashUse]:
    for at, item in entries_at(source, "items", path):
        yield from _uses_in_field(item, at)


def _uses_in_field(value: Mapping[str, Any], path: str) -> Iterator[HashUse]:
    field = mapping(value.get("fieldRef"))
    named = str(field.get("fieldPath"))
    for label in LABELS:
        if named in (f"metadata.labels['{label}']", f'metadata.labels["{label}"]'):
            yield HashUse(f"{path}.fieldRef.fieldPath", label, field, "fieldPath", named)

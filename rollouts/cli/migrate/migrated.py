"""`rollouts migrate`: from the objects of Deployments, Argo Rollouts and Flagger to ours, with what was left and why. Pure.

`argo.py` and `flagger.py` know the objects of the two, `completeness.py` holds the outcome to the input, and `lint` judges it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from rollouts.cli.commands.lint import known_in, lint
from rollouts.cli.kubernetes.yaml_text import read_text
from rollouts.cli.migrate import argo, flagger
from rollouts.cli.migrate.completeness import note_what_is_lost
from rollouts.cli.migrate.deployment import is_deployment, migrate_deployment
from rollouts.cli.migrate.metadata import metadata_of
from rollouts.cli.migrate.outcome import Migration, Note, Ref, Told, below, group_of, name_of, ref_of
from rollouts.cli.migrate.servers import declare_servers
from rollouts.objects import AUTOSCALER, ROLLOUT, SERVICE, Manifest, mapping

_TARGET_FIELDS = {
    (AUTOSCALER.group, AUTOSCALER.kind): "scaleTargetRef",
    ("keda.sh", "ScaledObject"): "scaleTargetRef",
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"): "targetRef",
}
"""By group and kind of an autoscaler: the field of its spec that names what it scales.

Sources: https://keda.sh/docs/latest/reference/scaledobject-spec/ · the VerticalPodAutoscaler's CRD (autoscaling.k8s.io/v1).
"""
_HELD = ("autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas")


def migrated(manifests: Iterable[Manifest]) -> Migration:
    """What the objects of some files become, with what `lint` has against it.

    Raises: nothing that an object could cause, if it is one of the kind that it says.
    """
    migration = converted(manifests)
    file = read_text(text_of(migration.objects))
    for remark in lint(file, known_in(file)).problems if migration.made else ():
        migration.notes.append(Note(Told.TO_DO, remark.subject, "", remark.message, line=remark.line))
    return migration


def converted(manifests: Iterable[Manifest]) -> Migration:
    """What the objects of some files become, in their order. What nothing has to be done about comes out as it is.

    A Deployment that a Canary or a `workloadRef` names gives its template to that Rollout; any other becomes one of its own.

    Raises: as `migrated`.
    """
    migration = Migration(tuple(manifests))
    workloads = _Workloads(migration)
    for manifest in migration.inputs:
        _migrate(manifest, migration, workloads)
    declare_servers(migration)
    note_what_is_lost(migration)
    counts = Counter(map(ref_of, migration.objects))
    for made in migration.made:
        if counts[ref := ref_of(made.manifest)] > 1:
            what = f"{ref.kind} {ref.name} comes out {counts[ref]} times: rename one of them, or merge them"
            migration.note(Told.TO_DO, migration.inputs[made.sources[0]], "", what)
    return migration


def text_of(objects: Iterable[Manifest]) -> str:
    """The objects as documents of YAML."""
    return yaml.dump_all(objects, Dumper=_Plain, sort_keys=False)


class _Plain(yaml.SafeDumper):
    """For people who edit it: what occurs twice is written two times, and a text of several lines in lines."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML calls it so
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """A text of one line as PyYAML does it, of several in block style."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data.strip() else None)


_Plain.add_representer(str, _Plain.represent_str)


class _Workloads:
    """What becomes a Rollout, and of which name: what scales it follows.

    Args:
        rollouts: by what others name: the name of the Rollout.
        given: ids of Deployments that give their template to the Rollout of another object.
        canaries: of those, which Flagger manages.
    """

    def __init__(self, migration: Migration) -> None:
        self.rollouts: dict[Ref, str] = {}
        self.given: set[int] = set()
        self.canaries: set[Ref] = set()
        alone = [manifest for manifest in migration.inputs if migration.owner_of(manifest) is None]
        for manifest in alone:
            owner = None
            if group_of(manifest) == argo.GROUP and manifest.get("kind") == ROLLOUT.kind:
                owner, name = argo.template_owner(manifest, migration), name_of(manifest)
                self.rollouts[ref_of(manifest)] = name
            elif flagger.is_canary(manifest):
                owner = flagger.template_owner(manifest, migration)
                name = name_of(owner or {})
            if owner is not None:
                self.given.add(id(owner))
                self.rollouts[_scaled(ref_of(owner))] = name
                self.canaries |= {_scaled(ref_of(owner))} if flagger.is_canary(manifest) else set()
        for manifest in filter(is_deployment, alone):
            self.rollouts.setdefault(_scaled(ref_of(manifest)), name_of(manifest))


def _scaled(ref: Ref) -> Ref:
    """As autoscalers name it: their Deployment is one, whichever group its file says."""
    return Ref("apps", ref.kind, ref.namespace, ref.name) if ref.kind == "Deployment" else ref


def _migrate(manifest: Manifest, migration: Migration, workloads: _Workloads) -> None:
    group, kind = group_of(manifest), str(manifest.get("kind"))
    target = _target_of(manifest)
    rollout = workloads.rollouts.get(_scaled(target)) if target is not None else None
    if (owner := migration.owner_of(manifest)) is not None:
        why = f"{owner.kind} {owner.name} made it, and its controller, or what comes out of it, makes it again"
        migration.note(Told.CHANGED, manifest, "", why)
    elif target is not None and rollout is not None:
        _migrate_autoscaler(manifest, migration, rollout, flagger=_scaled(target) in workloads.canaries)
    elif group == argo.GROUP and kind in argo.KINDS:
        argo.migrate_argo(manifest, migration)
    elif group == flagger.GROUP:
        flagger.migrate_flagger(manifest, migration)
    elif is_deployment(manifest):
        if id(manifest) not in workloads.given:
            migrate_deployment(manifest, migration)
    elif (group, kind) == (SERVICE.group, SERVICE.kind):
        argo.migrate_service(manifest, migration)
    else:
        migration.add(manifest, manifest)


def _target_of(manifest: Manifest) -> Ref | None:
    """What an autoscaler scales; None for any other object. What names no kind, as in KEDA, is a Deployment."""
    field = _TARGET_FIELDS.get((group_of(manifest), str(manifest.get("kind"))))
    if field is None:
        return None
    target = mapping(mapping(manifest.get("spec")).get(field))
    kind = str(target.get("kind") or "Deployment")
    group = group_of(target) or ("apps" if kind == "Deployment" else "")
    return Ref(group, kind, ref_of(manifest).namespace, str(target.get("name")))


def _migrate_autoscaler(autoscaler: Manifest, migration: Migration, rollout: str, *, flagger: bool) -> None:
    """Adds the autoscaler with a Rollout as its target.

    Args:
        flagger: it is one of a Canary's Deployment, which Flagger scales to 0 by holding KEDA.
    """
    field = _TARGET_FIELDS[group_of(autoscaler), str(autoscaler["kind"])]
    target: Mapping[str, Any] = mapping(mapping(autoscaler.get("spec")).get(field))
    kept = {key: value for key, value in target.items() if key not in ("apiVersion", "kind", "name")}
    spec = {**mapping(autoscaler.get("spec")), field: {**kept, **ROLLOUT.head, "name": rollout}}
    metadata = metadata_of(autoscaler, migration)
    if flagger and (held := [key for key in _HELD if key in mapping(metadata.get("annotations"))]):
        kept_annotations = {key: value for key, value in metadata.pop("annotations").items() if key not in held}
        metadata |= {"annotations": kept_annotations} if kept_annotations else {}
        for key in held:
            path = below("metadata.annotations", key)
            migration.note(Told.CHANGED, autoscaler, path, "is taken out: Flagger held the autoscaler by it")
    head = {"apiVersion": autoscaler.get("apiVersion"), "kind": autoscaler.get("kind")}
    migration.add({**head, "metadata": metadata, "spec": spec}, autoscaler)
    migration.note(Told.CHANGED, autoscaler, f"spec.{field}", f"scales Rollout {rollout}")
    migration.note(Told.THEN, autoscaler, "", f"apply it when Rollout {rollout} has its pods")

"""`rollouts migrate`: from the objects of Deployments, Argo Rollouts and Flagger to ours, with what was left and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rollouts.cli.migrate.argo import GROUP as ARGO
from rollouts.cli.migrate.argo import migrate_argo, migrate_autoscaler, migrate_service
from rollouts.cli.migrate.deployment import migrate_deployment
from rollouts.cli.migrate.flagger import GROUP as FLAGGER
from rollouts.cli.migrate.flagger import migrate_canary
from rollouts.cli.migrate.hash_labels import with_our_label
from rollouts.cli.migrate.outcome import Migration, Told, mapping, name_of
from rollouts.objects import ROLLOUT, Manifest


def migrated(manifests: Iterable[Manifest]) -> Migration:
    """What the objects of some files become. An object that nothing has to be done about does not come out again.

    A Deployment that a Canary or a `workloadRef` names gives its template to that Rollout; any other becomes one of its own.

    Raises: nothing that an object could cause, if it is one of the kind that it says.
    """
    migration = Migration()
    objects = tuple(manifests)
    deployments = {name_of(each): each for each in objects if each.get("kind") == "Deployment"}
    templates = {
        name_of(each): each for each in objects if _is_of(FLAGGER, each) and each.get("kind") == "MetricTemplate"
    }
    targets: dict[tuple[str, str], str] = {}
    for each in objects:
        if _is_of(ARGO, each):
            migrate_argo(each, migration, deployments)
            targets["Rollout", name_of(each)] = name_of(each)
            reference = mapping(mapping(each.get("spec")).get("workloadRef"))
            targets["Deployment", str(reference.get("name"))] = name_of(each)
        elif _is_of(FLAGGER, each) and each.get("kind") == "Canary":
            if (name := migrate_canary(each, migration, deployments, templates)) is not None:
                targets["Deployment", name] = name
        elif _is_of(FLAGGER, each) and each.get("kind") == "AlertProvider":
            migration.note(Told.LEFT_OUT, each, "", "no messages to chat (docs/operations.md has alert rules)")
    for name, each in deployments.items():
        if ("Deployment", name) not in targets:
            migrate_deployment(each, migration)
            targets["Deployment", name] = name
    for each in objects:
        if each.get("kind") == "Service":
            migrate_service(each, migration)
        if each.get("kind") == "HorizontalPodAutoscaler":
            migrate_autoscaler(each, migration, targets)
    migration.objects = [_as_ours(each, migration) for each in migration.objects]
    return migration


def _as_ours(manifest: Manifest, migration: Migration) -> Manifest:
    return with_our_label(manifest, migration) if manifest.get("kind") == ROLLOUT.kind else manifest


def _is_of(group: str, manifest: Mapping[str, object]) -> bool:
    return str(manifest.get("apiVersion", "")).startswith(group)

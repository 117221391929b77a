"""The metadata of what comes out: as a file has it, without what an API server, another controller or another tool wrote."""

from __future__ import annotations

from rollouts.cli.migrate.outcome import Migration, Told, below, name_of
from rollouts.objects import Manifest, mapping

SERVERS_OWN = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"})
"""Fields of the metadata that an API server writes."""

OF_TOOLS = (
    "argo-rollouts.argoproj.io/",
    "deployment.kubernetes.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
    "rollout.argoproj.io/",
)
"""Labels and annotations that mean something only to the tool that comes before."""

NO_MESSAGES = "the controller sends no messages; the chart has alerts: `--set metrics.prometheusRule.enabled=true`"
_MESSAGES = "notifications.argoproj.io/"


def metadata_of(manifest: Manifest, migration: Migration) -> Manifest:
    """Its metadata; a note says what another controller would have done with it."""
    metadata = dict(mapping(manifest.get("metadata")))
    if owners := metadata.pop("ownerReferences", None):
        first = mapping(owners[0]) if isinstance(owners, list) else {}
        owner = f"{first.get('kind', 'another object')} {first.get('name', '')}".strip()
        makes = f"{owner} made {name_of(manifest)} and will make it again; change {owner}, or remove it"
        migration.note(Told.LEFT_OUT, manifest, "metadata.ownerReferences", makes)
    if metadata.pop("finalizers", None):
        why = "the controller that removes them does not know the new object, which could never be deleted"
        migration.note(Told.LEFT_OUT, manifest, "metadata.finalizers", why)
    for name in ("labels", "annotations"):
        given = mapping(metadata.pop(name, None))
        kept = {key: value for key, value in given.items() if not key.startswith((*OF_TOOLS, _MESSAGES))}
        metadata |= {name: kept} if kept else {}
        for key in filter(lambda key: key.startswith(_MESSAGES), given):
            migration.note(Told.LEFT_OUT, manifest, below(f"metadata.{name}", key), NO_MESSAGES)
    return {key: value for key, value in metadata.items() if key not in SERVERS_OWN}

"""S12 and S14 of the project's invariants: pods can read the copies that their ReplicaSet names, for as long as they live."""

from __future__ import annotations

from rollouts.core.model.config import (
    ConfigKind,
    ConfigUse,
    CopySeen,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
    SourceUnread,
)
from rollouts.core.model.intents import (
    AdoptConfigCopy,
    CreateConfigCopy,
    CreateReplicaSet,
    DeleteConfigCopy,
    Intent,
    PatchReplicaSet,
    ReleaseConfigCopy,
)
from rollouts.core.model.snapshot import Snapshot
from tests.invariants.violation import Violation


def copies_are_safe(before: Snapshot, intent: Intent) -> list[Violation]:
    """The rules about one write; none of another kind breaks any."""
    match intent:
        case CreateConfigCopy():
            return _made_of_what_is_there(before, intent)
        case DeleteConfigCopy():
            return _needed_by_nobody(before, intent)
        case AdoptConfigCopy(uid=uid):
            return _has_the_owner_that_is_asked_for(before, uid, adopts=True)
        case ReleaseConfigCopy(uid=uid):
            return _has_the_owner_that_is_asked_for(before, uid, adopts=False)
        case CreateReplicaSet() if before.rollout.spec.config_refs or intent.config:
            return [*_has_its_configuration(before, intent), *_reads_nothing_forged(before, _names(intent.config))]
        case PatchReplicaSet(replicas=int(replicas), uid=uid):
            sets = [each for each in before.replica_sets if each.uid == uid and each.spec_replicas == 0 and replicas]
            named = {name for each in sets for name in _names(each.config)}
            return [*_has_its_secrets(before, intent), *_reads_nothing_forged(before, named)]
        case _:
            return []


FORGED = "forged"
"""How the uid begins of a copy that a tenant of a random world makes."""


def is_forged_copy(copy: CopySeen) -> bool:
    """Whether somebody else has made it, whatever anybody has found out."""
    return copy.uid.startswith(FORGED)


def _reads_nothing_forged(before: Snapshot, named: set[tuple[ConfigKind, str]]) -> list[Violation]:
    """S14: no ReplicaSet gets its first pods while it names a copy that is not what its name says."""
    copies = (each for each in before.copies if (each.kind, each.name) in named)
    forged = [each.name for each in copies if each.forged or is_forged_copy(each)]
    return [Violation("S14", f"pods begin that read forged copies: {forged}")] if forged else []


def _made_of_what_is_there(before: Snapshot, intent: CreateConfigCopy) -> list[Violation]:
    """S12 and S14: one copy for each name, of the content that its source has; a name never means another content."""
    use = intent.use
    violations = []
    same = [each for each in before.copies if (each.kind, each.name) == (use.kind, use.copy) and not each.deleting]
    if any(each.owned for each in same):
        violations.append(Violation("S12", f"a second copy {use.copy}"))
    if any((each.source, each.content) != (use.source, use.content) for each in same):
        violations.append(Violation("S14", f"{use.copy} is a copy of something else"))
    source = before.sources.get((use.kind, use.source))
    if not isinstance(source, SourceKnown) or source.content != use.content:
        violations.append(Violation("S14", f"{use.copy} is made of {source}, not of content {use.content}"))
    return violations


def _needed_by_nobody(before: Snapshot, intent: DeleteConfigCopy) -> list[Violation]:
    """S14: no ReplicaSet, no pod that may have lost its ReplicaSet, and no ReplicaSet that comes next names a deleted copy."""
    copy = next((each for each in before.copies if each.uid == intent.uid), None)
    unknown = before.orphans or any(each.config is None for each in before.replica_sets)
    users = [each.name for each in before.replica_sets if (ConfigKind.CONFIG_MAP, intent.name) in _names(each.config)]
    known = {each.revision for each in before.replica_sets}
    pods = before.pods
    if users or unknown:
        return [
            Violation("S14", f"copy {intent.name} is deleted, and {users or 'a ReplicaSet that is not known'} names it")
        ]
    if pods is None or any(each.revision not in known for each in pods.pods):
        return [Violation("S14", f"copy {intent.name} is deleted, and a pod without a ReplicaSet may read it")]
    named = {(ref.kind, ref.name) for ref in before.rollout.spec.config_refs}
    if copy is None or (copy.kind, copy.source) not in named:
        return []
    source = before.sources.get((copy.kind, copy.source))
    by_name = any(each.revision == before.rollout.spec.template_hash for each in before.replica_sets)
    wanted = isinstance(source, SourceKnown) and source.content == copy.content and not source.immutable and not by_name
    if wanted or isinstance(source, SourceUnread):
        return [Violation("S14", f"copy {intent.name} is deleted, and the next ReplicaSet may name it")]
    return []


def _has_the_owner_that_is_asked_for(before: Snapshot, uid: str, *, adopts: bool) -> list[Violation]:
    """S12: a copy goes with the Rollout, unless the spec retains it; and nobody else's is taken."""
    retain = before.rollout.spec.config_versioning.retain
    copy = next((each for each in before.copies if each.uid == uid), None)
    if copy is None or copy.deleting:
        return [Violation("S12", f"the owner of a copy that is not there changes: {uid}")]
    if retain is adopts:
        return [Violation("S12", f"copy {copy.name} {'gets' if adopts else 'loses'} its owner with retain: {retain}")]
    if copy.owned is adopts or copy.claimed:
        return [Violation("S12", f"the owner of copy {copy.name} changes: {copy}")]
    return []


def _has_its_configuration(before: Snapshot, intent: CreateReplicaSet) -> list[Violation]:
    """A ReplicaSet names copies that exist, with the contents that the sources have; nothing is made of what is not known.

    What is absent has a name that nothing else has: its own would reach running pods once somebody creates it.
    """
    there = {(each.kind, each.name) for each in before.copies if not each.deleting and not each.problem}
    missing = [use.copy for use in intent.config if use.has_copy and (use.kind, use.copy) not in there]
    if not intent.replicas:  # copies of Secrets come after it, and before its pods
        secrets = {use.copy for use in intent.config if use.waits_for_copy}
        missing = [each for each in missing if each not in secrets]
    if missing:
        return [Violation("S14", f"{intent.revision} names copies that do not exist: {missing}")]
    uses = {(use.kind, use.source): use for use in intent.config}
    by_name = intent.revision == before.rollout.spec.template_hash
    for ref in before.rollout.spec.config_refs:
        use = uses.get((ref.kind, ref.name))
        source = before.sources.get((ref.kind, ref.name))
        match source:
            case SourceKnown(content=content, immutable=immutable):
                copied = not (immutable or by_name)
                fits = use is not None and use.content == content and bool(use.copy) is copied
            case SourceAbsent():
                fits = ref.optional and use is not None and not use.content and bool(use.copy) is not by_name
            case SourceLeftAlone():
                fits = use is None
            case _:
                fits = False
        if not fits:
            return [Violation("S14", f"{intent.revision} has {use} of {ref}, which is {source}")]
    return []


def _has_its_secrets(before: Snapshot, intent: PatchReplicaSet) -> list[Violation]:
    """No pod begins before the copies of Secrets that it reads, as the note of its ReplicaSet says."""
    found = next((each for each in before.replica_sets if each.uid == intent.uid), None)
    if found is None or intent.replicas is None or intent.replicas <= found.spec_replicas:
        return []
    config = intent.config if intent.config is not None else found.config
    missing = [use.copy for use in config or () if use.waits_for_copy]
    return [Violation("S14", f"{intent.revision} grows before its copies of Secrets: {missing}")] if missing else []


def _names(config: tuple[ConfigUse, ...] | None) -> set[tuple[ConfigKind, str]]:
    return {(use.kind, use.copy) for use in config or ()}

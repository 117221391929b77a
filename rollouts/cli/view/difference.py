"""How two revisions of a Rollout differ, as the lines of a unified diff. Pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from rollouts.cli.view.objects import RolloutObjects, names_revision, number_of, revision_of, roles_of, status_of
from rollouts.core.model.numbering import revision_title
from rollouts.manifests.ownership import POD_TEMPLATE_HASH, PREFIX
from rollouts.objects import Manifest

CURRENT = "current"
PREVIOUS = "previous"  # the newest kept revision before the current one


def yaml_lines(value: Any) -> list[str]:
    """A value as lines of YAML, with sorted keys; none for an empty one."""
    return yaml.safe_dump(value, sort_keys=True, allow_unicode=True).splitlines() if value else []


def difference(before: Any, after: Any, titles: tuple[str, str]) -> list[str]:
    """The lines of a unified diff of two values as YAML; none when they are equal."""
    return list(difflib.unified_diff(yaml_lines(before), yaml_lines(after), *titles, lineterm=""))


def comparison_steps(before: Sequence[str], after: Sequence[str]) -> int:
    """How many steps of a quarter of a microsecond difflib may need for these lines, whoever wrote them.

    For each equal part that it finds it looks at each line, and at all lines on the other side that are equal to it, unless these
    are more than a hundredth of at least 200. Equal lines at both ends cost little. Source: `find_longest_match` and `autojunk`.
    """
    most = min(len(before), len(after))
    first = next((index for index in range(most) if before[index] != after[index]), most)
    last = next((index for index in range(most - first) if before[~index] != after[~index]), most - first)
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    counts, frequent = Counter(new), len(after) // 100 + 1 if len(after) >= 200 else len(after)
    pairs = sum(counts[line] for line in old if counts[line] <= frequent)
    return (len(old) + pairs) * min(len(old), len(new)) // 2


def revision_named(seen: RolloutObjects, word: str) -> Manifest | None:
    """The ReplicaSet of the revision that `word` means."""
    status = status_of(seen.rollout)
    ordered = sorted(seen.replica_sets, key=number_of, reverse=True)
    if word == PREVIOUS:
        now = next((number_of(kept) for kept in ordered if revision_of(kept) == status.current_revision), 0)
        return next((kept for kept in ordered if number_of(kept) < now), None)
    for replica_set in ordered:
        revision = revision_of(replica_set)
        current = (CURRENT,) if revision == status.current_revision else ()
        roles = (*roles_of(revision, status), *current)
        if names_revision(word, revision, number=number_of(replica_set), roles=roles):
            return replica_set
    return None


def title_of(replica_set: Manifest) -> str:
    """Its number and its hash: `#4 f7w2k9xq4c`."""
    return revision_title(number_of(replica_set), revision_of(replica_set))


def template_of(replica_set: Manifest) -> Mapping[str, Any]:
    """The pod template, without the labels that every revision has of its own."""
    template: dict[str, Any] = replica_set["spec"]["template"]
    metadata = dict(template.get("metadata") or {})
    named = (metadata.get("labels") or {}).items()
    labels = {name: value for name, value in named if not name.startswith(PREFIX) and name != POD_TEMPLATE_HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}

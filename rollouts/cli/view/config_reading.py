"""Reads what differs between the configuration of two revisions. What is equal by its hash is not read at all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable

from rollouts.cli.view.config import (
    ConfigValues,
    SourceChange,
    changed_sources,
    content_of,
    hash_of,
    key_changes,
    key_in,
)
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.frozen import replace
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.manifests.config_copy import kind_of
from rollouts.manifests.ownership import CONFIG_KEY_NAME
from rollouts.objects import SECRET


async def source_changes(
    session: Session, before: Iterable[ConfigUse], after: Iterable[ConfigUse]
) -> AsyncIterator[SourceChange]:
    """The ConfigMaps and Secrets of the session's namespace that differ, with their keys. Raises: what `Client` raises."""
    for uses in changed_sources(before, after):
        yield await _change(session, *uses)


async def _change(session: Session, before: ConfigUse | None, after: ConfigUse | None) -> SourceChange:
    use = after or before
    assert use is not None  # noqa: S101 - a pair has one at least
    change = SourceChange(kind=use.kind, source=use.source, before=before, after=after)
    old = await _content(session, before) if before is not None else None
    new = await _content(session, after) if after is not None else None
    if isinstance(old, str) or isinstance(new, str):
        reasons = dict.fromkeys(reason for reason in (old, new) if isinstance(reason, str))
        return replace(change, unknown="; ".join(reasons))
    return replace(change, keys=key_changes(use.kind, old, new))


async def _content(session: Session, use: ConfigUse) -> ConfigValues | str:
    """The content that a revision has of a source; or why it is not known.

    Where it is not in the copy any more, the source itself may have it, still or again.
    """
    kind = kind_of(use.kind)
    key = b""
    if use.kind is ConfigKind.SECRET:
        with contextlib.suppress(ApiNotFound, ApiForbidden):
            key = key_in(manifest_from(await session.client.get(SECRET, session.namespace, CONFIG_KEY_NAME)))
    for name in dict.fromkeys((use.name, use.source)):
        try:
            found = manifest_from(await session.client.get(kind, session.namespace, name))
        except ApiNotFound:
            continue
        except ApiForbidden:
            return f"you may not read {use.kind} {name}"
        if hash_of(use.kind, found, key=key) == use.content:
            return content_of(use.kind, found)
    if use.copy:
        return f"{use.kind} {use.copy} is gone, so the content is not known any more"
    return f"{use.kind} {use.source} has changed since, and the revision has no copy of it"

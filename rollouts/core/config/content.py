"""The names that follow from configuration: the hash of a source's content, its copy, and the revision with it (scheme v2).

Frozen, as scheme v1 is: an upgrade that changes one of them rolls everybody's workload.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.core.model.revision import canonical_json, short_hash
from rollouts.objects import NAME_MAX


def content_hash(data: Mapping[str, str] | None, binary_data: Mapping[str, str] | None) -> str:
    """The hash of all that pods can read from a ConfigMap or Secret. Keys have no order; labels and annotations do not count.

    Args:
        data: a ConfigMap's `data`; None is the same as no keys.
        binary_data: a ConfigMap's `binaryData` or a Secret's `data`, base64.
    """
    canonical = {key: _same_bytes(value) for key, value in (binary_data or {}).items()}
    return short_hash(canonical_json({"binaryData": canonical, "data": dict(data or {})}))


def copy_name(kind: ConfigKind, *, rollout: str, source: str, content: str) -> str:
    """`<source>-<hash>`, at most 253 characters: a copy's name. Two Rollouts never share one; equal content has it again.

    Args:
        rollout: the Rollout's name.
        source: the source's name; a long one is cut.
        content: from `content_hash`.
    """
    ending = short_hash(canonical_json([kind.value, rollout, source, content]))
    return f"{source[: NAME_MAX - 1 - len(ending)].rstrip('-.')}-{ending}"


def config_revision(template_hash: str, uses: Iterable[ConfigUse]) -> str:
    """The revision of a template with the contents of its sources: scheme v2, or `template_hash` (v1) without any use.

    Args:
        template_hash: the hash of the template, see core/model/revision.py.
        uses: in any order. Only kind, source and content count.
    """
    config = sorted([use.kind.value, use.source, use.content] for use in uses)
    return short_hash(canonical_json({"template": template_hash, "config": config})) if config else template_hash


def _same_bytes(text: str) -> str:
    """One text for the same bytes; what is no base64 stays as it is, and the API server refuses it."""
    try:
        return base64.b64encode(base64.b64decode("".join(text.split()), validate=True)).decode()
    except (binascii.Error, ValueError):
        return text

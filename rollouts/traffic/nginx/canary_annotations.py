"""The annotations that a spec may give the canary Ingress, so that it stays a canary and nothing more.

Whoever may write Rollouts may not be allowed to write Ingresses. So a key must have the prefix by which the router recognizes
canaries; another prefix could name another router, a certificate or a DNS record. Snippets are text for the router's
configuration, which all Ingresses share (CVE-2021-25742), and a second line of a value would be too (CVE-2025-24514).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rollouts.core.model.grammar import is_label_key, is_snippet
from rollouts.traffic.settings import SettingsReader

VALUE_MOST = 1_024  # characters

_BY_STEPS = frozenset({"canary-by-header", "canary-by-header-value", "canary-by-header-pattern"})
_BY_WEIGHT = frozenset({"canary", "canary-weight", "canary-weight-total"})
OURS = _BY_STEPS | _BY_WEIGHT
"""Names of the annotations that the controller writes."""


def read_annotations(read: SettingsReader, prefix: str) -> Mapping[str, str]:
    """Both maps of the settings as one, with whole keys; annotations that are not allowed are noted as problems."""
    found: dict[str, str] = {}
    for field in ("additionalIngressAnnotations", "canaryIngressAnnotations"):
        for given, text in read.text_map(field).items():
            key = given
            if field == "additionalIngressAnnotations" and "/" not in given:
                key = f"{prefix}/{given}"
            for problem in _problems(key, text, prefix):
                read.refuse(f"{field}[{given}]", problem)
            if key in found:
                read.refuse(f"{field}[{given}]", "is given twice; keep one of them")
            found[key] = text
    return found


def _problems(key: str, text: str, prefix: str) -> Iterator[str]:
    before, _, name = key.partition("/")
    if before != prefix:
        yield f"must begin with {prefix}/: an annotation of another prefix could make the Ingress more than a canary"
    elif not is_label_key(key):
        yield f"{name!r} is not a valid key of an annotation after {prefix}/"
    elif name in _BY_STEPS:
        yield "the controller writes this annotation; remove it, and write a setHeaderRoute step"
    elif name in _BY_WEIGHT:
        yield "the controller writes this annotation; remove it, and write setWeight steps"
    elif is_snippet(name):
        yield "would put text into the configuration of every Ingress; remove it"
    elif not text.isprintable():
        yield "must be one line without control characters"
    elif len(text) > VALUE_MOST:
        yield f"must have at most {VALUE_MOST} characters"

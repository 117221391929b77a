"""What Kubernetes takes for the name of an object and for the key of an annotation: a spec's words go into both.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and …/annotations/#syntax-and-character-set.
"""

from __future__ import annotations

import re

ANNOTATION_NAME_MOST = 63  # characters after the prefix

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_SUBDOMAIN_MOST = 253
_ANNOTATION_NAME = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def is_object_name(text: str) -> bool:
    """Whether an object may have that name: a DNS subdomain (RFC 1123). So it stays one part of a request's path, too."""
    return len(text) <= _SUBDOMAIN_MOST and _SUBDOMAIN.fullmatch(text) is not None


def is_annotation_prefix(text: str) -> bool:
    """Whether the part of an annotation's key before the slash may be that."""
    return is_object_name(text)


def is_annotation_name(text: str) -> bool:
    """Whether the part of an annotation's key after the slash may be that."""
    return _ANNOTATION_NAME.fullmatch(text) is not None

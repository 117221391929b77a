"""What Kubernetes accepts as names of objects and as keys and values of labels and annotations.

Sources: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/, …/labels/#syntax-and-character-set and
…/annotations/#syntax-and-character-set.
"""

from __future__ import annotations

import re

KEY_NAME_MOST = 63  # characters of a key after its prefix

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_object_name(text: str) -> bool:
    """Whether an object may have that name: a DNS subdomain (RFC 1123). Such a name is one segment of a URL path, too."""
    return bool(_SUBDOMAIN.fullmatch(text))


def is_label_key(key: str) -> bool:
    """Whether `key` may be the key of a label, or of an annotation: an optional DNS prefix and `/`, then up to 63 characters."""
    prefix, slash, name = key.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (not slash or is_object_name(prefix))


def is_label_value(value: object) -> bool:
    """Whether `value` may be the value of a label: up to 63 characters, possibly none."""
    return isinstance(value, str) and (value == "" or bool(_NAME.fullmatch(value)))


def is_snippet(key: str) -> bool:
    """Whether the annotation adds raw text to a router's configuration, which all its routes share (CVE-2021-25742)."""
    return key.lower().endswith("-snippet")

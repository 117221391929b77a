"""Labels and annotations that a spec gives to what the controller makes: pods, and routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.problems import Problems, path_of
from rollouts.core.model.grammar import is_label_key, is_label_value

OUR_PREFIX = "rollouts.dev/"


def check_entries(entries: Mapping[str, Any], path: str, problems: Problems, *, labels: bool) -> None:
    """Adds the problems of labels, or of annotations, that the spec gives to an object."""
    for key, value in entries.items():
        at = path_of((key,), root=path)
        name = key if labels else key.lower()  # the API server takes capitals in the DNS name of an annotation
        if not is_label_key(name):
            problems.add(at, "is not a key for labels and annotations")
        if not isinstance(value, str) or (labels and not is_label_value(value)):
            problems.add(at, f"{value!r} is not {'a label value' if labels else 'a string'}")
        if key.startswith(OUR_PREFIX):
            problems.add(at, "must not be set: the controller sets every key that begins with rollouts.dev/")

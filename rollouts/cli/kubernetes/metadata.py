"""What the API server refuses in an object's metadata: names, labels, and annotations that are no texts. Pure.

Sources: kubernetes, apimachinery/pkg/api/validation/objectmeta.go · …/pkg/apis/meta/v1/validation/validation.go
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rollouts.cli.kubernetes.pods import unique
from rollouts.cli.kubernetes.schema import Problem, field_problems
from rollouts.core.model.grammar import is_label_key, is_label_value, is_object_name
from rollouts.objects import mapping

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME_RULE = (
    "a name is lower-case letters, digits, '-' and '.', 253 at most, and begins and ends with a letter or digit"
)
_KEY_RULE = "a key is at most 63 letters, digits, '-', '_' and '.', after an optional DNS name and '/'"


def metadata_problems(metadata: object) -> Iterator[Problem]:
    """Path and message of what the API server would refuse in `metadata`; that there is no name is told elsewhere.

    An annotation `rollouts.dev/pause: true` is one: without quotes it is no text, and the whole object is refused.

    Raises: nothing.
    """
    if not isinstance(metadata, dict):
        return
    problems = list(field_problems(metadata, "ObjectMeta", "metadata"))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if isinstance(name, str) and name and not is_object_name(name):
        problems.append(("metadata.name", f"{_NAME_RULE}; not {name!r}"))
    if isinstance(namespace, str) and namespace and not _NAMESPACE.fullmatch(namespace):
        rule = "a namespace is lower-case letters, digits and '-', 63 at most"
        problems.append(("metadata.namespace", f"{rule}; not {namespace!r}"))
    for key, value in mapping(metadata.get("labels")).items():
        if not is_label_key(key):
            problems.append((f"metadata.labels.{key}", _KEY_RULE))
        elif isinstance(value, str) and not is_label_value(value):
            rule = "a value is at most 63 letters, digits, '-', '_' and '.'"
            problems.append((f"metadata.labels.{key}", f"{rule}; not {value!r}"))
    annotations = mapping(metadata.get("annotations"))  # only of these the API server takes capitals in the DNS name
    problems += [(f"metadata.annotations.{key}", _KEY_RULE) for key in annotations if not is_label_key(key.lower())]
    yield from unique(problems)

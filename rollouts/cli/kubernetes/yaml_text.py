"""YAML as Kubernetes reads it, and the line of a path in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

_PATH_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_RESOLVED_OTHERWISE = ("timestamp", "int", "float")
_INTEGER = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$")


class KubernetesLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: times stay text, also 22:22, 1e3 and 08 are numbers, and a key is given once."""

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own protocol: a class attribute, replaced as a whole
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in _RESOLVED_OTHERWISE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raises: yaml.constructor.ConstructorError on a repeated key."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key.value!r} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


for _kind, _pattern in (("int", _INTEGER), ("float", _FLOAT)):
    KubernetesLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _pattern, list("-+.0123456789"))


def objects_of(documents: Iterable[tuple[yaml.Node, Any]]) -> Iterator[tuple[yaml.Node, Any]]:
    """Yields the documents with Lists taken apart, each with its node for line numbers."""
    for node, document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        if isinstance(items, list) and str(document.get("kind")).endswith("List"):
            yield from objects_of((node_at(node, f"items[{index}]")[0], item) for index, item in enumerate(items))
        elif document is not None:
            yield node, document


def node_at(node: yaml.Node, path: str) -> tuple[yaml.Node, int]:
    """The node at `path`, or the nearest one above it that exists, and its line (for a mapping's entry the line of its key)."""
    line = node.start_mark.line + 1
    for name, index in _PATH_PART.findall(path):
        if isinstance(node, yaml.MappingNode) and name:
            entry = next((pair for pair in node.value if pair[0].value == name), None)
            if entry is None:
                break
            key, node = entry
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        else:
            break
    return node, line

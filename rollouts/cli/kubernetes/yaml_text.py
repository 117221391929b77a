"""YAML as Kubernetes reads it, and the line of a path in it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml
from msgspec import Struct

from rollouts.objects import Manifest

_PATH_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_RESOLVED_OTHERWISE = ("timestamp", "int", "float")
_NOT_IN_JSON = ("timestamp", "binary", "set", "omap", "pairs")
_BROKEN = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What the library's scanner and constructors raise for a text that does not fit: `!!bool x`, `!!int ""`, "\\UFFFFFFFF"."""
_DEEPEST = 200  # levels of mappings and lists; the schemas of CRDs have about 50
_TOO_DEEP = f"something in it is nested more than {_DEEPEST} levels deep, or contains itself"
_GROWN_MOST = 100_000  # values; the largest object that etcd takes (1.5 MiB) with all that it repeats is smaller
_GROWN_TIMES = 10  # a file may be large, but its aliases must not make a small one large
_INTEGER = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$")


class KubernetesLoader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: times stay text, also 22:22, 1e3 and 08 are numbers, keys are texts, and given once."""

    yaml_implicit_resolvers = {  # noqa: RUF012  PyYAML's own protocol: a class attribute, replaced as a whole
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in _RESOLVED_OTHERWISE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {  # noqa: RUF012  PyYAML's own protocol, as above
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] not in _NOT_IN_JSON
    }

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Raises: yaml.constructor.ConstructorError with the node's place for whatever is wrong with its text."""
        try:
            return super().construct_object(node, deep=deep)
        except _BROKEN as exc:
            said = repr(node.value)[:40] if isinstance(node, yaml.ScalarNode) else "this"
            why = f"{said} is no {node.tag.rpartition(':')[2]}; correct it, or put it in quotes without a tag"
            raise _refused(why, node.start_mark) from exc

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """Raises: yaml.constructor.ConstructorError for half of a character, which no JSON can contain."""
        text = super().construct_scalar(node)
        if (
            isinstance(text, str)
            and not text.isascii()
            and any("\ud800" <= character <= "\udfff" for character in text)
        ):
            raise _refused("it contains a half of a character (U+D800 to U+DFFF)", node.start_mark)
        return text

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Raises: yaml.constructor.ConstructorError on a repeated key."""
        if not isinstance(node, yaml.MappingNode):
            raise _refused("expected a mapping", node.start_mark)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _refused(f"key {key.value!r} is given twice", key.start_mark)
                seen.add(key.value)
        return {_key_text(key, node): value for key, value in super().construct_mapping(node, deep=deep).items()}


for _kind, _pattern in (("int", _INTEGER), ("float", _FLOAT)):
    KubernetesLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", _pattern, list("-+.0123456789"))


class BrokenDocument(Struct, frozen=True):
    """Why the document that begins, or breaks, at this line is no YAML that can be checked; lines count from 1."""

    line: int
    why: str


class TextRead(Struct, frozen=True):
    """The objects of a text, with their nodes for line numbers, up to the first document that cannot be read, and why it cannot.

    Lists are taken apart.
    """

    objects: tuple[tuple[yaml.Node, Any], ...]
    broken: BrokenDocument | None

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The objects that are mappings."""
        return tuple(value for _, value in self.objects if isinstance(value, dict))


def read_text(text: str) -> TextRead:
    """Reads a YAML or JSON text with any number of documents, up to the first that cannot be read. Raises: nothing.

    What is nested without end, or repeats itself by aliases, is refused before anything walks through it. go-yaml, by which
    kubectl reads files, has limits of the same kind: https://github.com/go-yaml/yaml/blob/v2.4.0/decode.go, "excessive aliasing".
    """
    documents: list[tuple[yaml.Node, Any]] = []
    broken: BrokenDocument | None = None
    line = 1
    try:
        loader = KubernetesLoader(text)
    except yaml.reader.ReaderError as error:
        at = text.count("\n", 0, error.position) + 1
        why = f"the character U+{ord(text[error.position]):04X} is not allowed; remove it"
        return TextRead((), BrokenDocument(at, why))
    try:
        while broken is None and loader.check_node() and (node := loader.get_node()) is not None:
            line = node.start_mark.line + 1
            if (overgrown := _overgrown(node)) is not None:
                broken = BrokenDocument(line, overgrown)
            else:
                documents.append((node, loader.construct_document(node)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        broken = BrokenDocument(mark.line + 1 if mark else line, error.problem or str(error))
    except (yaml.YAMLError, *_BROKEN) as error:
        why = f"a number or a character before here is out of range ({error})"
        broken = BrokenDocument(loader.line + 1, why)
    except RecursionError:
        broken = BrokenDocument(line, _TOO_DEEP)
    finally:
        loader.dispose()
    return TextRead(tuple(_objects_of(documents)), broken)


def _objects_of(documents: Iterable[tuple[yaml.Node, Any]]) -> Iterator[tuple[yaml.Node, Any]]:
    for node, document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        if isinstance(items, list) and str(document.get("kind")).endswith("List"):
            yield from _objects_of((node_at(node, f"items[{index}]")[0], item) for index, item in enumerate(items))
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


def _refused(why: str, mark: yaml.Mark | None) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, why, mark)


def _key_text(key: object, node: yaml.MappingNode) -> str:
    """The key as it stands in JSON. Raises: yaml.constructor.ConstructorError for one that JSON cannot have."""
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
        case _:
            raise _refused("a key must be a text, and here it is empty or an object", node.start_mark)


def _overgrown(root: yaml.Node) -> str | None:
    """Why a document is too deep or too large to be walked through; None for what people write."""
    known: dict[int, tuple[int, int]] = {}  # by a node's identity: the values below it with its aliases, and its levels

    def measure(node: yaml.Node) -> tuple[int, int]:
        if (before := known.get(id(node))) is not None:
            return before
        known[id(node)] = (0, _DEEPEST)  # found again below itself, it has no end
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        below = [measure(part) for part in parts] if isinstance(node, yaml.CollectionNode) else []
        levels = 1 + max((levels_below for _, levels_below in below), default=0)
        if levels > _DEEPEST:
            raise RecursionError
        known[id(node)] = (1 + sum(size for size, _ in below), levels)
        return known[id(node)]

    try:
        size, _ = measure(root)
    except RecursionError:
        return _TOO_DEEP
    if size > max(_GROWN_MOST, _GROWN_TIMES * len(known)):
        return f"its aliases make {size:,} values out of {len(known):,}; write fewer of them"
    return None

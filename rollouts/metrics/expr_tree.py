"""A condition as a tree. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct


class Literal(Struct, frozen=True):
    """A number, a text, true, false, or nil."""

    value: float | str | bool | None


class Variable(Struct, frozen=True):
    """A variable: `result`, `now`, or the element of a list that a call goes through."""

    text: str


class At(Struct, frozen=True):
    """A member or an item: `of.key`, `of["key"]`, `of[0]`."""

    of: Node
    key: Node


class Unary(Struct, frozen=True):
    """`!` or `-`."""

    sign: str
    of: Node


class Binary(Struct, frozen=True):
    """Two values and a sign; words of Argo's are signs of CEL's already (`and` is `&&`)."""

    sign: str
    left: Node
    right: Node


class Choice(Struct, frozen=True):
    """`test ? yes : no`."""

    test: Node
    yes: Node
    no: Node


class Each(Struct, frozen=True):
    """A call that goes through a list: `all(list, {# < 1})`.

    Args:
        kind: all, exists, exists_one, filter or map, as in CEL.
    """

    kind: str
    list: Node
    name: str
    body: Node


class Call(Struct, frozen=True):
    """Any other function, by Argo's name."""

    name: str
    arguments: tuple[Node, ...]


class Items(Struct, frozen=True):
    """A list that is written down."""

    items: tuple[Node, ...]


Node: TypeAlias = Literal | Variable | At | Unary | Binary | Choice | Each | Call | Items


def children(node: Node) -> Iterator[Node]:
    """What stands directly in it, in its order."""
    for name in node.__struct_fields__:
        value = getattr(node, name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, Node):
                yield child


def nodes(node: Node) -> Iterator[Node]:
    """It, and all that stands in it."""
    yield node
    for child in children(node):
        yield from nodes(child)

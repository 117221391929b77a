"""PromQL as a tree: the part that this Prometheus understands, a closed union."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias, assert_never

from msgspec import Struct

from rollouts.sim.network.prometheus.samples import Matcher


class ValueType(StrEnum):
    """Of an expression, by its name in messages."""

    SCALAR = "scalar"
    VECTOR = "instant vector"
    MATRIX = "range vector"


class QueryRefused(Exception):
    """The query cannot be answered: it is none (`bad_data`), or it fails on its data (`execution`)."""

    def __init__(self, why: str, *, kind: str = "bad_data") -> None:
        super().__init__(why)
        self.kind = kind


class QueryNumber(Struct, frozen=True):
    """A number in the query."""

    value: float


class Selector(Struct, frozen=True):
    """Series by their labels; without a range one sample of each."""

    matchers: tuple[Matcher, ...]
    range_ms: int | None = None
    offset_ms: int = 0


class QueryCall(Struct, frozen=True):
    """A function of `functions.py`."""

    function: str
    arguments: tuple[QueryNode, ...]


class Aggregate(Struct, frozen=True):
    """`sum by (le) (...)` and its kin; with `without` the labels are those that go."""

    operator: str
    inner: QueryNode
    labels: tuple[str, ...] = ()
    without: bool = False


class QueryBinary(Struct, frozen=True):
    """Two values and a sign between them.

    Args:
        keeps: a comparison without `bool`: it keeps what it is true of.
        labels: of `on` or `ignoring`; None without either.
        on: the labels are those of `on`.
    """

    sign: str
    left: QueryNode
    right: QueryNode
    keeps: bool = False
    labels: tuple[str, ...] | None = None
    on: bool = False


class Negated(Struct, frozen=True):
    """A value with a minus."""

    inner: QueryNode


QueryNode: TypeAlias = QueryNumber | Selector | QueryCall | Aggregate | QueryBinary | Negated

_V, _M, _S = ValueType.VECTOR, ValueType.MATRIX, ValueType.SCALAR
FUNCTIONS: dict[str, tuple[tuple[ValueType, ...], ValueType]] = {
    **dict.fromkeys(("rate", "increase", "delta", "irate"), ((_M,), _V)),
    **{f"{name}_over_time": ((_M,), _V) for name in ("avg", "min", "max", "sum", "count", "last")},
    **dict.fromkeys(("abs", "ceil", "floor", "absent"), ((_V,), _V)),
    **dict.fromkeys(("clamp_min", "clamp_max"), ((_V, _S), _V)),
    "histogram_quantile": ((_S, _V), _V),
    "scalar": ((_V,), _S),
    "vector": ((_S,), _V),
    "time": ((), _S),
}
"""What a function takes and gives."""

AGGREGATES = frozenset({"sum", "avg", "min", "max", "count", "group"})
COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
SETS = frozenset({"and", "or", "unless"})


def type_of(node: QueryNode) -> ValueType:
    """What a node gives."""
    match node:
        case QueryNumber():
            return ValueType.SCALAR
        case Selector(range_ms=range_ms):
            return ValueType.VECTOR if range_ms is None else ValueType.MATRIX
        case QueryCall(function=name):
            return FUNCTIONS[name][1]
        case Aggregate():
            return ValueType.VECTOR
        case QueryBinary(left=left, right=right):
            both_scalar = type_of(left) is type_of(right) is ValueType.SCALAR
            return ValueType.SCALAR if both_scalar else ValueType.VECTOR
        case Negated(inner=inner):
            return type_of(inner)
        case _:
            assert_never(node)

"""Promise: whatever is written and whatever it is given, one evaluation is refused, or over within milliseconds and megabytes.

It runs on the event loop of a controller that serves everybody: an author's mistake, or an object that somebody has made large
for the purpose, would hold up all Rollouts, and the lease.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.errors import ExpressionFailed, ExpressionInvalid, ExpressionsTooCostly
from rollouts.expression_cost import VALUES_MAX, shape_of, size_of
from rollouts.expressions import Result, compiled, metered

CPU_MAX_S = 0.1  # the bound is for 10 ms; machines that run tests are slow, and have others beside
MEMORY_MAX_BYTES = 256 << 20
VARIABLES = ("s", "l", "o")
LONG, MANY = "a" * 100_000, list(range(9_999))
ROWS = [{"name": f"n{at}", "weight": at, "hosts": ["a", "b"]} for at in range(3_000)]

HARMFUL: list[tuple[str, Any]] = [
    ("s.split('').map(x, s + s + s + s + s + s)", {"s": LONG}),
    ("s.split('').map(x, s + s).map(y, y + y).map(z, z + z)", {"s": "a" * 500}),
    ("s.replace('a', s)", {"s": LONG}),
    ("s.split('').map(x, s).join('')", {"s": LONG}),
    ("l.map(x, [s, s, s, s]).map(y, [y, y, y, y]).map(z, [z, z, z, z])", {"s": LONG, "l": MANY}),
    ("l.map(x, {'a': s, 'b': s})", {"s": LONG, "l": MANY}),
    ("l.all(x, s.matches('(a*)*b'))", {"s": LONG, "l": MANY}),
    ("l.all(x, size(s) > 1)", {"s": LONG, "l": MANY}),
    ("l.all(x, s == o.s)", {"s": LONG, "l": MANY, "o": {"s": LONG}}),
    ("l.all(x, !l.exists(y, x + y > 100000))", {"l": list(range(99)) * 9}),
    ("o.all(x, o.all(y, o.all(z, true)))", {"o": {f"k{at}": at for at in range(2_000)}}),
    ("o.map(x, o.map(x, s in [s])).exists(x, s == s)", {"o": {f"k{at}": at for at in range(99)}}),
    ("l.map(x, x)[0] == 0", {"l": MANY[:4_000]}),  # it took 2 s
    ("o.map(x, s).map(x, o)", {"o": {f"k{at}": at for at in range(300)}}),
    ("l == l", {"l": [[[1] * 20] * 40] * 60}),
    ("'%s%s%s%s'.format([s, s, s, s])", {"s": LONG * 10}),
    ("[s].map(x, x + x).map(x, x + x).map(x, x + x).map(x, x + x)[0]", {"s": LONG * 10}),
    ("l.filter(r, r.name == 'n9')[0].hosts.map(h, s + h).join(s)", {"s": LONG, "l": ROWS}),
    ("strings.quote(" * 20 + "s" + ")" * 20, {"s": '"'}),
    (" + ".join(["s"] * 30), {"s": LONG * 10}),
]
ACCEPTED = "o.status.parents.all(p, p.conditions.exists(c, c.type == 'Accepted' && c.status == 'True'))"
USUAL: list[tuple[str, Any]] = [
    (ACCEPTED, {
        "o": {
            "spec": {"rules": [{"name": f"r{at}"} for at in range(500)]},
            "status": {"parents": [{"conditions": [{"type": "Accepted", "status": "True"}] * 8}] * 32},
        },
    }),
    (ACCEPTED, {
        "o": {
            "metadata": {"annotations": {"rollouts.dev/route": "x" * 8_000}},
            "status": {"parents": [{"conditions": [{"type": "Accepted", "status": "True"}] * 6}] * 16},
        },
    }),
    ("s.split('.')[0] == 'cart'", {"s": "cart.shop.svc.cluster.local"}),
    ("l.filter(r, r.name == 'n9')[0].weight == 9", {"l": ROWS[:1_000]}),
    ("l.exists(r, r.name == s && r.weight == 50)", {"s": "n50", "l": ROWS[:1_000]}),
    ("(has(o.exprs) ? o.exprs : []) + l.map(h, {'name': h.name, 'op': '==', 'to': h.name}) != []", {
        "o": {"name": "web" * 80},
        "l": ROWS[:8],
    }),
]  # fmt: skip


def evaluated(source: str, data: Any) -> str:
    """What came of it; fails when it took long or much."""
    before_s = time.process_time()
    try:
        expression = compiled(source, variables=VARIABLES, result=Result.ANY)
        expression.value({name: data.get(name) for name in VARIABLES})
        came = "a value"
    except (ExpressionInvalid, ExpressionFailed) as error:
        came = str(error)
    assert time.process_time() - before_s < CPU_MAX_S, source
    return came


@pytest.fixture(autouse=True, scope="module")
def little_memory() -> Any:
    """All of them together; the library is loaded before."""
    compiled("true", variables=VARIABLES, result=Result.TRUTH).truth(dict.fromkeys(VARIABLES))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) << 10 < MEMORY_MAX_BYTES


@pytest.mark.parametrize(("source", "data"), HARMFUL, ids=[source[:50] for source, _ in HARMFUL])
def test_what_would_take_gigabytes_or_seconds_is_refused(source: str, data: Any) -> None:
    """The first one took 5.5 GB in 3 s."""
    came = evaluated(source, data)

    assert any(
        words in came for words in ("too large for it", "may cost too much", "budget exceeded", "at most", "once")
    )


@pytest.mark.parametrize(("source", "data"), USUAL, ids=[source[:50] for source, _ in USUAL])
def test_what_routers_need_is_not(source: str, data: Any) -> None:
    """Objects of the size that routers have, and answers with a thousand routes."""
    assert evaluated(source, data) == "a value"


GAP = "§"
ATOMS = st.sampled_from(["s", "l", "o", "x", "1", "'a'", "''", "[s]", "[l, l]", "{'k': s}", "[x, x, s]", "o.s"])
BINARY = st.sampled_from(["§ + §", "§ == §", "§ != §", "[§, §]", "§ in [§]", "true ? § : §"])
CALLS = st.sampled_from(
    [
        "§.split('')", "size(§)", "string(§)", "§.matches('a*b')", "§.replace('a', s)", "§.join(',')", "§.lowerAscii()",
        "strings.quote(§)",
    ]
)  # fmt: skip
ROUNDS = st.sampled_from(["§.map(x, §)", "§.filter(x, § == 'a')", "§.all(x, § != 1)", "§.exists(x, § == s)"])


@st.composite
def sources(draw: st.DrawFn, depth: int = 4) -> str:
    """An expression in which such calls stand in each other."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(ATOMS)
    parts = sources(depth - 1)
    form = draw(BINARY | CALLS | ROUNDS)
    return "".join(piece + (draw(parts) if at < form.count(GAP) else "") for at, piece in enumerate(form.split(GAP)))


DATA = st.fixed_dictionaries(
    {
        "s": st.sampled_from(["", "a", "a" * 60, "a" * 3_000, LONG, LONG * 10]),
        "l": st.sampled_from([[], [1, 2], ["a"] * 50, ["a" * 50] * 300, MANY, ROWS, [["a"] * 20] * 20, [LONG]]),
        "o": st.sampled_from([{}, {"s": "a"}, {"s": LONG}, {f"k{at}": "a" * at for at in range(300)}]),
    }
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(sources(), DATA)
def test_no_expression_of_any_form_takes_long(source: str, data: Any) -> None:
    """Calls that grow, put together in any way, over data of any size."""
    evaluated(source, data)


def test_what_several_cost_together_can_be_limited() -> None:
    """A declaration has many tests, and each of them many expressions."""
    expression = compiled("l.all(x, x >= 0)", variables=("l",), result=Result.TRUTH)
    with metered(1_000):
        assert expression.truth({"l": [1] * 10})
        with pytest.raises(ExpressionsTooCostly):
            expression.truth({"l": [1] * 1_000})
    assert expression.truth({"l": [1] * 1_000})


def test_the_size_of_data_is_that_of_all_of_them() -> None:
    """Also of texts that are names, and of what stands deep."""
    assert size_of({"a": {"b" * 9: [1, {"c": ["é" * 5] * 7}]}}).text_bytes == 20
    assert size_of({"a": [[1] * 7]}).items == 7
    assert size_of({"a": [[1] * 300] * 300}).values > VALUES_MAX


@pytest.mark.parametrize(
    ("source", "depth"),
    [
        ("l.all(x, x > 0)", 1), ("l.all(x, x > 0) && l.all(x, x > 0)", 1), ("l.map(x, x).filter(x, x > 0)", 1),
        ("l.all(x, l.exists(y, y > x))", 2), ("l.all(x, (l).exists(y, [y].all(z, z == ')')))", 3),
        ("l.all(x, x == '\\')') && l.all(x, true)", 1), ("l.exists_one(x, x in l.map(y, y))", 2),
    ],
)  # fmt: skip
def test_how_deep_lists_are_gone_through_is_never_told_too_little(source: str, depth: int) -> None:
    """Each level multiplies; where texts make it uncertain all count as nested."""
    assert shape_of(source, spreads=False).depth == depth

"""Promise: an expression that people write is checked before its use, costs little, and gives what was asked for or says why."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.expressions import Expression, Result, compiled

LONG = " + ".join(["'x'"] * 300)
NESTED = "(" * 40 + "1" + ")" * 40
TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
COUNTING = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, {TEN}.all(e, {TEN}.all(f, true))))))"

UNUSABLE = [
    ("item.a +", "Syntax error"),
    ("request.host", "undeclared reference"),
    ("size(item.a)", "must give a string, not INT"),
    (LONG, "must have at most 1024 bytes, not 1797"),
    (NESTED, "recursion"),
    ("[item]" + ".map(x, x)" * 5, "may call map and filter 4 times at most"),
    ("item.a.replace('a', 'aa').replace('a', 'aa')", "may call one of replace, join and format, once"),
    ("item.a . replace ('a', 'aa').split('a').join('aa')", "may call one of replace, join and format, once"),
    ("'\ud800'", "which is no valid text"),
    ("", "Syntax error"),
]
VALUES: list[tuple[str, Any, str]] = [
    ("item.host.split('.')[0]", {"host": "cart.shop.svc"}, "cart"),
    ("item.kind == 'Service' ? item.name : ''", {"kind": "Service", "name": "cart"}, "cart"),
    ("has(item.name) ? item.name : 'none'", {}, "none"),
    ("item.names.filter(n, n.startsWith('c'))[0]", {"names": ["a", "cart"]}, "cart"),
]
FAILING: list[tuple[str, Any, str]] = [
    ("item.host", {}, 'Key not found in map : "host"'),
    ("item.host", {"host": 3}, "it must give a text, not 3"),
    ("item.host", {"host": None}, "it must give a text, not None"),
    ("item.list[3]", {"list": []}, "item.list[3]: "),
    ("item.number > 1 ? 'a' : 'b'", {"number": 2**70}, "out of range"),
]


def text(source: str) -> Expression:
    """An expression over `item` that gives a text."""
    return compiled(source, variables=("item",), result=Result.TEXT)


@pytest.mark.parametrize(("source", "why"), UNUSABLE, ids=[why for _, why in UNUSABLE])
def test_what_can_never_be_right_is_refused_before_it_is_used(source: str, why: str) -> None:
    """Its author reads the reason when the object is applied, not in the middle of a rollout."""
    with pytest.raises(ExpressionInvalid) as error:
        text(source)

    assert why in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("source", "item", "value"), VALUES)
def test_it_gives_the_text_of_an_object(source: str, item: Any, value: str) -> None:
    """JSON goes in as it is."""
    assert text(source).text({"item": item}) == value


@pytest.mark.parametrize(("source", "item", "why"), FAILING)
def test_an_object_that_it_has_no_value_for_is_an_error_of_ours(source: str, item: Any, why: str) -> None:
    """The library gives such an error back as a value, which would be taken for true by whoever forgets to look."""
    with pytest.raises(ExpressionFailed, match=re.escape(why)):
        text(source).text({"item": item})


def test_true_is_no_text_and_a_text_is_not_true() -> None:
    """Types are not bent: `'false'` would be true."""
    condition = compiled("object.ready", variables=("object",), result=Result.TRUTH)

    assert condition.truth({"object": {"ready": True}}) is True
    with pytest.raises(ExpressionFailed, match="must give true or false, not 'false'"):
        condition.truth({"object": {"ready": "false"}})
    with pytest.raises(ExpressionInvalid, match="must give a bool, not STRING"):
        compiled("'yes'", variables=(), result=Result.TRUTH)


def test_a_million_rounds_are_refused_at_once() -> None:
    """The event loop waits for it, and with it the lease."""
    with pytest.raises(ExpressionInvalid, match="may cost too much for any input"):
        compiled(COUNTING, variables=(), result=Result.TRUTH)
    pairs = compiled("item.all(a, item.all(b, true))", variables=("item",), result=Result.TRUTH)
    assert pairs.truth({"item": [1] * 50})
    with pytest.raises(ExpressionFailed, match=r"budget exceeded|too large for it"):
        pairs.truth({"item": [1] * 1_000})


def test_the_library_is_loaded_by_the_first_expression() -> None:
    """A cluster without one pays for none of it: 5 MB and a slower start."""
    program = (
        "import sys, rollouts.controller.wiring, rollouts.expressions as e\n"
        "assert 'cel_expr_python' not in sys.modules\n"
        "e.compiled('true', variables=(), result=e.Result.TRUTH)\n"
        "assert 'cel_expr_python' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

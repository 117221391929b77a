r"""Promise: a regular expression costs what RE2 needs for it, told from its text.

RE2 is linear in the text, and a pattern of ten characters may be of any size. `[ab]*a[ab]{900}c` over 2,000 characters, for each
of 300 numbers, took 14 s on the event loop of a controller, and `(?i)\pL{200}` takes 0.3 s with an empty text.
"""

from __future__ import annotations

import contextlib
import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouts.api.spec.analysis.name_rules import matches
from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.expression_cost import shape_of
from rollouts.expressions import Result, compiled
from rollouts.metrics.conditions import condition_of
from rollouts.pattern_cost import PATTERN_MAX, STEPS_LARGE, steps_of

CPU_MAX_S = 0.1  # the bound is for 10 ms; machines that run tests are slow, and have others beside
LETTERS = "".join(random.Random(1).choices("ab", k=60_000))  # noqa: S311 - the same each time


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("", 0), ("^web-[0-9]+$", 9), ("a{1000}", 1_000), ("a{3,}", 4), ("a{2,5}", 5), ("(?:ab|c){10}", 60),
        ("((a{10}){10}){10}", 1_220), ("[ab]*a[ab]{900}c", 1_805), (r"\Qa{9}\E{3}", 12), (r"\pL", 1_250),
        (r"[\pL\pN]{2}", 5_032), ("é{10}", 20), ("x{99999999999}", STEPS_LARGE), ("x" * (PATTERN_MAX + 1), STEPS_LARGE),
    ],
)  # fmt: skip
def test_the_size_of_a_pattern_is_known_from_its_text(pattern: str, steps: int) -> None:
    """Repetitions counted out, and classes with what they become."""
    assert steps_of(pattern) == steps


@pytest.mark.parametrize("part", ["[", "(", ")", "{1", "[^]", "[[:", r"\p{", r"\x{", r"\Q", "(?P<", "(?a", "{1,", "\\"])
def test_half_a_pattern_has_a_price_too(part: str) -> None:
    """RE2 refuses it, after it was priced."""
    assert 0 <= steps_of(part * (PATTERN_MAX // len(part))) <= STEPS_LARGE


@pytest.mark.parametrize(
    "source",
    [
        r"""s.matches('\\d{7}"')""",
        r"""s.matches("\\d{7}\"")""",
        r"""s.matches(r'\d{7}"')""",
        r"""s . matches ( '''\\d{7}"''' )""",
        r"""s.matches('\x5cd{7}"')""",
        r"""s.matches('\u005cd{7}\042')""",
        "s != 'it\\'s' && s.matches( // isn't it\n r'\\d{7}\"') // '",
    ],
)
def test_a_pattern_is_found_however_it_is_quoted(source: str) -> None:
    """And behind texts and comments with quotes in them."""
    assert compiled(source, variables=("s",), result=Result.TRUTH).truth({"s": '1234567"'})
    assert shape_of(source, spreads=False).pattern_steps == steps_of(r'\d{7}"')


@pytest.mark.parametrize(
    "source", ["s.matches(s)", "matches(s, s)", "s.matches('a' + 'b')", "matches(s, 'a')", "s.matches('a'[0])"]
)
def test_a_pattern_is_a_text_in_quotes(source: str) -> None:
    """One that is worked out may be of any size."""
    with pytest.raises(ExpressionInvalid):
        compiled(source, variables=("s",), result=Result.TRUTH)


def test_a_condition_says_what_is_wrong_with_its_pattern() -> None:
    """In words of ours, for its author."""
    with pytest.raises(ExpressionInvalid, match="must have a regular expression as a text in quotes"):
        condition_of("result.s matches result.p", defaults=False)
    assert condition_of('result.s matches "^ab+$"', defaults=False).holds({"s": "abb"}, now_s=0.0)


def test_the_attack_is_refused() -> None:
    """It ended the controller for all, again after each restart."""
    with pytest.raises(ExpressionInvalid, match="may cost too much"):
        condition_of('result.n.all(x, result.s.matches("[ab]*a[ab]{900}c") == false)', defaults=False)
    condition = condition_of('all(result.n, {result.s matches "[ab]*a[ab]{30}"})', defaults=False)
    assert condition.holds({"n": [1.0, 2.0], "s": LETTERS[:99]}, now_s=0.0)
    with pytest.raises(ExpressionFailed, match="too much for it"):
        condition.holds({"n": [1.0] * 300, "s": LETTERS[:2_000]}, now_s=0.0)


@pytest.mark.parametrize("pattern", [r"(?i)\pL{200}", "[ab]*a[ab]{900}c", "(?:a?){600}"])
def test_a_rule_about_names_is_a_small_pattern(pattern: str) -> None:
    """It is matched where a spec is read, with the name of each metric."""
    with pytest.raises(ValueError, match="too large for a regular expression"):
        matches(pattern, "error-rate")
    assert matches(r"^error-(rate|count)\"?$", "error-rate")


PARTS = st.sampled_from(
    [
        "a", "b", "[ab]", "[^a]", ".", r"\w", r"\W", r"\pL", r"\p{Greek}", r"\PN", "é", r"[\x{100}-\x{10ffff}]",
        "[[:alpha:]]", "a|b",
    ]
)  # fmt: skip
ROUND = st.sampled_from(
    ["§*", "§+", "§?", "(§){2}", "(?:§){9}", "(§){30}", "(?:§){300}", "(?i:§)", "(§|§)", "§§", "(?:§){2,40}", "(?s)§"]
)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 4) -> str:
    """A pattern whose parts are repeated in each other."""
    if depth == 0:
        return draw(PARTS)
    form = draw(ROUND)
    return "".join(
        piece + (draw(patterns(depth - 1)) if at < form.count("§") else "") for at, piece in enumerate(form.split("§"))
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(patterns(), st.sampled_from([0, 60, 2_000, 60_000]))
def test_what_is_not_refused_takes_milliseconds(pattern: str, length: int) -> None:
    """Whatever is repeated in whatever, over a text on which RE2's short cuts fail."""
    before_s = time.process_time()
    with contextlib.suppress(ExpressionFailed, ExpressionInvalid):
        compiled(f"s.matches(r'{pattern}')", variables=("s",), result=Result.TRUTH).truth({"s": LETTERS[:length]})
    assert time.process_time() - before_s < CPU_MAX_S, pattern

"""Looks for expressions that are accepted and take long: `python -m tests.expressions.slowest --inputs 100000`.

It keeps those that took most CPU time, changes them a little, and goes on with what takes longer. Prints the slowest ones, and
ends with 1 if one took longer than a call may in the bounded process.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
import time
from typing import Any

from rollouts.bounded.process import CPU_S
from rollouts.errors import ExpressionFailed, ExpressionInvalid
from rollouts.expressions import Result, compiled

VARIABLES = ("s", "l", "o")
KEPT = 200
SHOWN = 5
CHANGED_IN_FIVE = 4  # of five inputs; the others are new

PATTERNS = ("a", "[ab]", "(a|b)", ".", r"\w", r"\pL", "[^a]", "é", "(?:a?b?)", "a*b", "(a*)*", ".*", "(?i:a)")
TIMES = ("", "*", "+", "{2}", "{9}", "{30}", "{100}", "{900}", "{2,40}")
ATOMS = ("s", "l", "o", "x", "y", "1", "1.5", "'a'", "''", "[s]", "[l, l]", "{'k': s}", "[x, x, s]", "o.s", "l[0]")
FORMS = (
    "§ + §", "§ == §", "§ != §", "[§, §]", "§ in [§]", "§ in l", "§ ? § : §", "§ && §", "§ || §", "!§", "§ < §",
    "{'a': §, 'b': §}",
    "§.split('')", "§.split('a')", "size(§)", "string(§)", "§.replace('a', s)", "§.join(',')", "§.lowerAscii()", "§.upperAscii()",
    "§.trim()", "§.contains(§)", "§.startsWith(§)", "§.endsWith(§)", "§.indexOf(§)", "§.lastIndexOf(§)", "§.substring(1)",
    "§.charAt(3)", "strings.quote(§)", "'%s%s'.format([§, §])", "§.reverse()", "§.matches(¶)", "§.matches(¶)", "§.matches(¶)",
    "double(§)", "int(§)", "timestamp(s)", "duration(s)", "math.greatest(§)", "math.least(l)", "type(§)", "dyn(§)", "has(o.s)",
    "§.map(x, §)", "§.filter(x, §)", "§.all(x, §)", "§.exists(x, §)", "§.exists_one(y, §)", "§.map(x, §, §)", "§[0]", "bytes(§)",
)  # fmt: skip
LETTERS = "".join(random.Random(1).choices("ab", k=1_000_000))  # noqa: S311 - the same each time
TEXTS = ("", "a", LETTERS[:60], LETTERS[:2_000], LETTERS[:30_000], LETTERS, "a" * 4_000, "é" * 3_000, '"' * 3_000)
LISTS: tuple[list[Any], ...] = (
    [], [1, 2], ["a"] * 50, [LETTERS[:50]] * 300, list(range(9_999)), [[1] * 20] * 20, [LETTERS[:30_000]] * 3, [1.5] * 300,
    [{"s": "a" * at} for at in range(99)],
)  # fmt: skip
OBJECTS: tuple[dict[str, Any], ...] = (
    {},
    {"s": "a"},
    {"s": LETTERS[:9_000]},
    {f"k{at}": "a" * at for at in range(300)},
)

Input = tuple[str, int, int, int]


def pattern(rng: random.Random) -> str:
    """Parts, repeated in each other."""
    parts = "".join(rng.choice(PATTERNS) + rng.choice(TIMES) for _ in range(rng.randint(1, 4)))
    return f"({parts}){rng.choice(TIMES)}" if rng.random() < 0.3 else parts


def source(rng: random.Random, depth: int) -> str:
    """An expression in which calls stand in each other."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(ATOMS)
    text = rng.choice(FORMS)
    while "§" in text:
        text = text.replace("§", source(rng, depth - 1), 1)
    while "¶" in text:
        text = text.replace("¶", f"r'{pattern(rng)}'", 1)
    return text


def changed(rng: random.Random, text: str) -> str:
    """The expression with one name or number replaced by an expression, or inside another form."""
    if rng.random() < 0.3:
        form = rng.choice(FORMS).replace("§", text, 1)
        while "§" in form:
            form = form.replace("§", source(rng, 1), 1)
        return form.replace("¶", f"r'{pattern(rng)}'")
    at = rng.randrange(len(text))
    atom = rng.choice([each for each in ATOMS if each in text[at:]] or ["s"])
    head, found, tail = text[at:].partition(atom)
    return text[:at] + head + (source(rng, 2) if found else "") + tail


def cpu_s(given: Input) -> float | None:
    """CPU time of an evaluation; None when it is refused."""
    text, s, l, o = given  # noqa: E741 - the names of the variables
    try:
        expression = compiled(text, variables=VARIABLES, result=Result.ANY)
    except ExpressionInvalid:
        return None
    began_s = time.process_time()
    try:
        expression.value({"s": TEXTS[s], "l": LISTS[l], "o": OBJECTS[o]})
    except ExpressionFailed as error:
        if "too large for it" in str(error):
            return None
    return time.process_time() - began_s


def main() -> int:
    """Prints the slowest; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)  # noqa: S311 - a search
    slowest: list[tuple[float, Input]] = []
    accepted = 0
    for _ in range(given.inputs):
        if slowest and rng.randrange(5) < CHANGED_IN_FIVE:
            text, *places = rng.choice(slowest)[1]
            text = changed(rng, text)
        else:
            text, places = source(rng, 4), [rng.randrange(len(each)) for each in (TEXTS, LISTS, OBJECTS)]
        if rng.random() < 0.5:
            places = [rng.randrange(len(each)) for each in (TEXTS, LISTS, OBJECTS)]
        tried: Input = (text, places[0], places[1], places[2])
        if (took_s := cpu_s(tried)) is None:
            continue
        accepted += 1
        if any(text == each for _, (each, *_) in slowest):
            continue
        (heapq.heappush if len(slowest) < KEPT else heapq.heappushpop)(slowest, (took_s, tried))
    print(f"{given.inputs} inputs, {accepted} evaluated, seed {given.seed}")
    for took_s, tried in heapq.nlargest(SHOWN, slowest):
        again_s = min(cpu_s(tried) or 0.0 for _ in range(3))
        print(f"{took_s * 1000:8.1f} ms, {again_s * 1000:.1f} ms again: {tried}")
    return int(max(slowest)[0] > CPU_S)


if __name__ == "__main__":
    sys.exit(main())

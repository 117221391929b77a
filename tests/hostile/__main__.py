"""Looks for inputs that take long: `python -m tests.hostile --inputs 100000`.

It changes the short inputs of each surface that cost most for their length, and then lets the costliest grow to the length that
comes in. A line for each surface is printed when it is done; exit code 1 for an error that is no refusal.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import groupby

from tests.hostile.entry_points import ENTRY_POINTS, EntryPoint

KEPT = 6
SHORT = (16, 60, 200, 800)
"""Characters of the inputs that are changed: what costs more than its length shows there, and a try takes 0.1 ms."""

SLOW_S = 0.02
ENOUGH_S = 2.0
"""A growing input that takes so long grows no more."""

PIECES = (
    *"{}[]()\"'`\\,:.-+190a \n\t#é²\x00\ud800=*?|;",
    *("{{", "}}", "e9", "1e999", "null", "true", "args.a", "by", "=~", "..", "??", "&&", "not ", "in ", "1h", "<<"),
)


class Broken(Exception):
    """An error that is no refusal."""


def cpu_s(entry: EntryPoint, given: object) -> float:
    """CPU seconds. Raises: Broken."""
    began_s = time.process_time()
    try:
        entry.call(given)
    except Exception as error:
        shown = f"{given[:200]!r}… ({len(given)} characters)" if isinstance(given, str | bytes) else "its input"
        raise Broken(f"{entry.name}: {error!r} for {shown}") from error
    return time.process_time() - began_s


def changed(text: str, rng: random.Random, most: int) -> str:
    """The text with a piece put in, taken out, or repeated."""
    at = rng.randrange(len(text) + 1)
    end = min(len(text), at + rng.choice((1, 2, 8, 64)))
    match rng.randrange(5):
        case 0:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        case 1:
            text = text[:at] + text[end:]
        case 2:
            text = text[:at] + text[at:end] * rng.choice((2, 10, 100)) + text[end:]
        case 3:
            text = text + text
        case _:
            text = text[:at] + rng.choice(PIECES) * rng.choice((2, 50, 500)) + text[end:]
    return text[:most]


def _for_its_length(each: tuple[float, str]) -> float:
    return each[0] / (len(each[1]) + 50)


def searched(entries: Sequence[EntryPoint], inputs: int, rng: random.Random) -> list[str]:
    """The short inputs of a surface that cost most for their length."""
    entry = entries[0]
    most = min(entry.most, max(SHORT))
    pool = [(cpu_s(entry, text), text) for each in entries for size in SHORT for text in [each.make(min(size, most))]]
    known = {text for _, text in pool}
    for _ in range(inputs):
        text = changed(rng.choice(pool)[1], rng, most)
        if text not in known:
            took_s = cpu_s(entry, text)
            if took_s / (len(text) + 50) > min(map(_for_its_length, pool)):
                took_s = min(took_s, cpu_s(entry, text))  # not what the machine did meanwhile
            pool = sorted([*pool, (took_s, text)], key=_for_its_length, reverse=True)[:KEPT]
            known = {each for _, each in pool}
    return [text for _, text in pool]


def grown(entry: EntryPoint, text: str) -> Iterator[tuple[float, str]]:
    """The text, repeated to four times its length and so on up to the length that comes in, with its CPU seconds."""
    size = max(1, len(text))
    while True:
        size = min(size, entry.most)
        given = (text * (size // max(1, len(text)) + 1))[:size]
        took_s = cpu_s(entry, given)
        yield (min(took_s, cpu_s(entry, given)) if took_s > SLOW_S / 2 else took_s), given
        if size == entry.most or took_s > ENOUGH_S:
            return
        size *= 4


def line(worst_s: float, size: int, inputs: int, name: str) -> str:
    return f"{'*' if worst_s > SLOW_S else ' '} {1000 * worst_s:9.2f} ms  {size:9,}  {inputs:8,}  {name}"


def main() -> int:
    """Prints the slowest input of each surface, as it is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000, help="how many texts are tried, of all surfaces together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only surfaces with this in their name")
    asked = parser.parse_args()
    wanted = [each for each in ENTRY_POINTS if asked.only in each.name]
    listed = [each for each in wanted if not each.surface]
    textual = groupby((each for each in wanted if each.surface), key=lambda each: each.surface)
    found = {name: tuple(group) for name, group in textual}
    rng = random.Random(asked.seed)  # noqa: S311 - the same search again for the same seed
    broken = 0
    print(f"  {'worst':>9} CPU  {'size':>9}  {'inputs':>8}  surface (* more than {1000 * SLOW_S:.0f} ms)", flush=True)
    for entry in listed:
        given = entry.make(entry.most)
        print(line(min(cpu_s(entry, given) for _ in range(3)), entry.most, 3, entry.name), flush=True)
    for name, entries in found.items():
        try:
            texts = searched(entries, asked.inputs // max(1, len(found)), rng)
            starts = {*texts, *(each.make(min(max(SHORT), each.most)) for each in entries)}
            worst_s, given = max(each for text in sorted(starts) for each in grown(entries[0], text))
            said = line(worst_s, len(given), asked.inputs // max(1, len(found)), f"{name}: {given[:50]!r}")
        except Broken as error:
            broken += 1
            said = f"! {error}"
        print(said, flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

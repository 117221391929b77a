"""Looks for inputs that take long: `python -m tests.hostile --inputs 100000`. It changes the slowest of each entry point."""

from __future__ import annotations

import argparse
import random
import time
from functools import partial

from tests.hostile.entry_points import ENTRY_POINTS, EntryPoint

KEPT = 6
LENGTHS = (16, 200, 2_000, 20_000)
PIECES = (
    *"{}[]()\"'`\\,:.-+190a \n\t#é²\x00\ud800=*?|;",
    *("{{", "}}", "e9", "1e999", "null", "true", "args.a", "by", "=~", "..", "??", "&&", "not ", "in ", "1h", "<<"),
)


def cpu_s(entry: EntryPoint, given: str) -> float:
    """CPU seconds; an error that is no refusal ends the search with its input."""
    began_s = time.process_time()
    try:
        entry.call(given)
    except Exception as error:
        raise SystemExit(f"{entry.name}: {error!r} for {given[:200]!r}… ({len(given)} characters)") from error
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
    return text[: min(most, max(LENGTHS))]


def searched(entry: EntryPoint, inputs: int, rng: random.Random) -> tuple[float, str]:
    """The slowest input for its length, and its CPU seconds, made as long as it may be in the end."""
    pool = [(cpu_s(entry, given), given) for given in (entry.make(min(size, entry.most)) for size in LENGTHS)]
    for _ in range(inputs):
        _, given = rng.choice(pool)
        given = changed(given, rng, entry.most)
        pool.append((cpu_s(entry, given), given))
        pool = (
            sorted(pool, key=lambda each: each[0] / (len(each[1]) + 200), reverse=True)[:KEPT]
            + sorted(pool, reverse=True)[:2]
        )
    return max((cpu_s(entry, given), given) for _, given in pool)


def main() -> None:
    """Prints the slowest input of each entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    textual = [each for each in ENTRY_POINTS if isinstance(each.make(4), str)]
    rng = random.Random(asked.seed)  # noqa: S311 - the same search again for the same seed
    found = [(*searched(each, asked.inputs // len(textual), rng), each.name) for each in textual]
    for took_s, given, name in sorted(found, reverse=True):
        print(f"{1000 * took_s:8.2f} ms  {len(given):7} characters  {name}: {given[:50]!r}")
    others = [each for each in ENTRY_POINTS if each not in textual]
    for entry in others:
        given = entry.make(entry.most)
        print(f"{1000 * min(map(partial(cpu_s, entry), [given] * 2)):8.2f} ms  {entry.most:7} items       {entry.name}")


if __name__ == "__main__":
    main()

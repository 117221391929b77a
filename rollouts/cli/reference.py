"""Generates the pages of docs/ that list what the code contains.

`python -m rollouts.cli.reference` writes them to `docs/`; `--check` only says whether they are up to date (exit code 1 if not).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rollouts.api.spec.planned import PLANNED
from rollouts.core.model.reasons import Reason


def reasons_page() -> str:
    """The page of all reasons of conditions, Events, log lines and `status.waitingFor`."""
    rows = (f"| `{reason.value}` | {reason.meaning} |" for reason in Reason)
    return _page(
        "Reasons",
        "Conditions, Events, logs and `status.waitingFor` give these reasons and no others.",
        ("| reason | meaning |", "|---|---|", *rows),
    )


def planned_page() -> str:
    """The page of all fields that are refused by name because a later version will carry them out."""
    rows = (
        f"| {part.__name__.removesuffix('Wire')} | `{field}` | {version} |"
        for part, fields in PLANNED.items()
        for field, version in fields.items()
    )
    return _page(
        "Planned fields",
        "The schema accepts these fields. The controller refuses them by name, with the version that will carry them out, and\n"
        "never ignores one.",
        ("| part of the spec | field | planned for |", "|---|---|---|", *rows),
    )


PAGES = {"reasons.md": reasons_page, "planned.md": planned_page}


def _page(title: str, lead: str, table: tuple[str, ...]) -> str:
    return "\n".join(
        (f"# {title}", "", "<!-- Written by `python -m rollouts.cli.reference`. -->", "", lead, "", *table, "")
    )


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the pages; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m rollouts.cli.reference", description="Generates pages of docs/.")
    parser.add_argument("--check", action="store_true", help="only check whether the pages are up to date")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the pages")
    options = parser.parse_args(arguments)
    outdated = False
    for name, page in PAGES.items():
        path, text = options.out / name, page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        outdated = True
        if options.check:
            sys.stderr.write(f"{path} is out of date; run `make docs`\n")
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if options.check and outdated else 0


if __name__ == "__main__":
    sys.exit(main())

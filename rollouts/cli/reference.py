"""Generates the pages of docs/ that list what the code contains.

`python -m rollouts.cli.reference` writes them to `docs/`; `--check` only says whether they are up to date (exit code 1 if not).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rollouts.api.schema import write_files
from rollouts.cli.commands.lint_rules import RULES, LintProblem, LintRule
from rollouts.core.model.reasons import Reason


def reasons_page() -> str:
    """The page of all reasons of conditions, Events, log lines and `status.waitingFor`."""
    rows = (f"| `{reason.value}` | {reason.meaning} | {reason.remedy} |" for reason in Reason)
    return _page(
        "Reasons",
        "Conditions, Events, logs and `status.waitingFor` give these reasons and no others. In a terminal: "
        "`rollouts explain REASON`. An Event about a canary has the annotations `rollouts.dev/revision` and "
        "`rollouts.dev/weight`: which revision was rolled out, and the percent that it was to have then.",
        ("| reason | meaning | what to do |", "|---|---|---|", *rows),
    )


def lint_page() -> str:
    """The page of all rules by which `lint`, `plan` and `doctor` name what they find."""
    problems = [rule for rule in RULES.values() if isinstance(rule, LintProblem)]
    advice = [rule for rule in RULES.values() if not isinstance(rule, LintProblem)]
    return _page(
        "Rules of lint",
        "`rollouts lint` ends each line with the name of a rule; `-o json`, `-o github` and `-o sarif` have it too. Some rules\n"
        "are for `rollouts plan` alone, because only the cluster shows what they find.",
        (
            "## Problems",
            "",
            "The exit code is 1.",
            "",
            *_rules_table(problems),
            "",
            "## Advice",
            "",
            "Unsafe, a warning or a note, as the case is; the exit code stays 0. `--silence RULE` leaves one out.",
            "",
            *_rules_table(advice),
        ),
    )


def _rules_table(rules: Iterable[LintRule]) -> Iterable[str]:
    yield from ("| rule | what happens | what to do |", "|---|---|---|")
    yield from (f"| `{rule.value}` | {rule.meaning} | {rule.remedy} |" for rule in rules)


PAGES = {"reasons.md": reasons_page, "lint-rules.md": lint_page}


def _page(title: str, lead: str, table: tuple[str, ...]) -> str:
    return "\n".join(
        (f"# {title}", "", "<!-- Written by `python -m rollouts.cli.reference`. -->", "", lead, "", *table, "")
    )


def main(arguments: list[str] | None = None) -> int:
    """Writes or checks the pages; returns the exit code."""
    pages = {name: page() for name, page in PAGES.items()}
    module = "rollouts.cli.reference"
    return write_files(pages, arguments, module=module, about="pages of docs/", folder="docs", target="docs")


if __name__ == "__main__":
    sys.exit(main())

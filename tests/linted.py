"""What `lint` finds in a text by itself."""

from __future__ import annotations

from collections.abc import Collection

from rollouts.cli.commands.lint import lint_files
from rollouts.cli.commands.lint_output import LintReport


def lint_text(text: str, *, metrics: Collection[str] | None = None) -> LintReport:
    """The report of a file with that text. Args: see `lint_files`."""
    (report,) = lint_files([("", text)], metrics=metrics)
    return report

"""What `lint` finds in a text by itself."""

from __future__ import annotations

from collections.abc import Collection

from rollouts.cli.commands.lint import known_in, lint
from rollouts.cli.commands.lint_output import LintReport
from rollouts.cli.kubernetes.yaml_text import read_text


def lint_text(text: str, *, metrics: Collection[str] | None = None) -> LintReport:
    """The report of a file with that text. Args: see `lint`."""
    file = read_text(text)
    return lint(file, known_in(file), metrics=metrics)

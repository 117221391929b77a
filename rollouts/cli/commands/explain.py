"""`rollouts explain`: what a reason, or a rule of `lint`, means. Needs no cluster."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from rollouts.cli.commands.lint_rules import RULES
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import Column, Listing, print_drawn, print_line
from rollouts.cli.terminal.options import DataOption, fail, print_data
from rollouts.core.model.reasons import Reason


def explain(
    reason: Annotated[
        str | None,
        typer.Argument(
            metavar="[REASON|RULE]",
            help="As in conditions, Events, logs, `lint` and `plan`.",
            show_default=False,
        ),
    ] = None,
    output: DataOption = None,
) -> None:
    """Explain a reason of conditions, Events, logs and waits, or a rule of `lint` and `plan`; or list all. Needs no cluster.

    For a field of the spec: `kubectl explain rollout.spec`.
    """
    texts = {name.value: (name.meaning, name.remedy) for name in (*RULES.values(), *Reason)}
    if reason is not None:
        names = {name.lower(): name for name in texts}
        if (name := names.get(reason.lower())) is None:
            fail(_unknown(reason, names))
            raise typer.Exit(Exit.USAGE)
        texts = {name: texts[name]}
    if output is not None:
        print_data({name: {"meaning": meaning, "remedy": remedy} for name, (meaning, remedy) in texts.items()}, output)
    elif reason is not None:
        for name, (meaning, remedy) in texts.items():
            for text in filter(None, (f"{name}: {meaning}", remedy)):
                print_line(Console(), text.replace("`rollouts ", "`kubectl rollouts "))
    else:
        rows = [[Text(name), Text(meaning)] for name, (meaning, _) in sorted(texts.items())]
        print_drawn(Console(), Listing([Column("NAME"), Column("MEANING")], rows))


def _unknown(word: str, names: dict[str, str]) -> str:
    if "." in word or word.lower() in ("rollout", "rollouts", "ro"):
        return f"fields are explained by kubectl: `kubectl explain {word}`"
    close = difflib.get_close_matches(word.lower(), names, n=1)
    meant = f"did you mean {names[close[0]]}?" if close else "`kubectl rollouts explain` lists all"
    return f"there is no reason and no rule {word!r}: {meant}"

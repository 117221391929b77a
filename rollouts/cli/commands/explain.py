"""`rollouts explain`: what a reason means. Needs no cluster."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.listing import Column, Listing, print_drawn, print_line
from rollouts.cli.terminal.options import DataOption, fail, print_data
from rollouts.core.model.reasons import Reason


def explain(
    reason: Annotated[
        str | None,
        typer.Argument(metavar="[REASON]", help="As in `Waiting`, conditions, Events and logs.", show_default=False),
    ] = None,
    output: DataOption = None,
) -> None:
    """Explain a reason that conditions, Events, logs and `status.waitingFor` give, or list all of them. Needs no cluster.

    For a field of the spec: `kubectl explain rollout.spec`.
    """
    by_name = {each.value.lower(): each for each in Reason}
    reasons = list(Reason)
    if reason is not None:
        if (found := by_name.get(reason.lower())) is None:
            fail(_unknown(reason, {name: each.value for name, each in by_name.items()}))
            raise typer.Exit(Exit.USAGE)
        reasons = [found]
    if output is not None:
        print_data({each.value: {"meaning": each.meaning, "remedy": each.remedy} for each in reasons}, output)
    elif reason is not None:
        for text in filter(None, (f"{reasons[0].value}: {reasons[0].meaning}", reasons[0].remedy)):
            print_line(Console(), text.replace("`rollouts ", "`kubectl rollouts "))
    else:
        rows = [[Text(each.value), Text(each.meaning)] for each in sorted(reasons)]
        print_drawn(Console(), Listing([Column("REASON"), Column("MEANING")], rows))


def _unknown(word: str, names: dict[str, str]) -> str:
    if "." in word or word.lower() in ("rollout", "rollouts", "ro"):
        return f"fields are explained by kubectl: `kubectl explain {word}`"
    close = difflib.get_close_matches(word.lower(), names, n=1)
    meant = f"did you mean {names[close[0]]}?" if close else "`kubectl rollouts explain` lists all"
    return f"there is no reason {word!r}: {meant}"

"""What stands above the live tree of the demo: how far it is, what it announced, and what its clients counted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollouts.cli.demo.stage import Sent
from rollouts.cli.terminal.text import plain
from rollouts.cli.terminal.tree import weight_bar
from rollouts.cli.view.counts import count_of

EXPECTED_S = 50.0  # the time at which the progress bar is full
_SAID_SHOWN = 2  # a screen may have 24 lines only


def draw_head(
    act: str, *, took_s: float, said: Sequence[str], clients: RenderableType, ascii_only: bool = False
) -> RenderableType:
    """The lines above the tree.

    Args:
        act: title of the act that is played.
        took_s: since the demo began.
        said: announcements, the last of them shown.
        clients: as `clients_line` draws it.
    """
    grid = Table.grid(padding=(0, 1))
    bar = weight_bar(min(99, int(100 * took_s / EXPECTED_S)), ascii_only=ascii_only, cells=20)
    grid.add_row(Text("rollouts demo", "bold"), bar, Text(f"{took_s:.0f} s  {act}"))
    shown = Text("\n".join(plain(text) for text in said[-_SAID_SHOWN:]), "italic", overflow="fold")
    return Group(grid, shown, clients, Text(""))


def clients_line(name: str, shares: Mapping[str, float], total: Sent) -> Text:
    """The shares of the revisions, as the clients count them.

    Args:
        name: of the app whose clients they are.
        shares: by revision, 0 to 1.
        total: of all apps.
    """
    parts = ", ".join(f"{revision or 'nobody'} {share:.0%}" for revision, share in sorted(shares.items()))
    text = Text(f"clients of {name}: {parts or 'none yet'}; {total.sent} sent, ")
    text.append(f"{total.lost} lost", "bold red" if total.lost else "green")
    if total.failed:
        text.append(f", {count_of(total.failed, 'error')}", "yellow")
    return text

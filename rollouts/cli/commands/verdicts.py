"""One object that ends with a verdict, an AnalysisRun or an Experiment: read, and followed until it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from rich.console import Console, RenderableType

from rollouts.cli.commands.get import show
from rollouts.cli.exits import Exit
from rollouts.cli.terminal.text import plain
from rollouts.cli.view.follow import following, named
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.errors import ApiNotFound
from rollouts.objects import Kind, Manifest


class WithVerdict(Protocol):
    """What is shown of such an object."""

    @property
    def phase(self) -> AnalysisPhase:
        """How far it is, or how it ended."""
        ...


_Line = TypeVar("_Line", bound=WithVerdict)


async def read_one(session: Session, kind: Kind, name: str) -> Manifest:
    """The object of the session's namespace. Raises: what `Client` raises."""
    return manifest_from(await session.client.get(kind, session.namespace, name))


async def follow_verdict(
    session: Session,
    kind: Kind,
    name: str,
    *,
    console: Console,
    line_of: Callable[[Manifest], _Line],
    picture: Callable[[_Line, float], RenderableType],
    text: Callable[[_Line], str],
) -> Exit:
    """Shows every change of an object until it is over.

    Args:
        picture, text: of what `line_of` reads, as `show` takes them.

    Returns: OK if it ended Successful, else BAD.

    Raises: ApiNotFound, also when it is deleted meanwhile; what `Client` raises.
    """
    async with following(session, named(kind, session.namespace, name)) as followed:

        def seen() -> _Line | None:
            return next(map(line_of, followed.all(kind)), None)

        if seen() is None:
            raise ApiNotFound(f"there is no {kind.kind} {name} in namespace {session.namespace}")
        await show(
            session,
            followed,
            console=console,
            seen=seen,
            picture=picture,
            text=lambda line, _: [plain(text(line))],
            ended=lambda line: line.phase.over,
        )
        if (last := seen()) is None:
            raise ApiNotFound(f"{kind.kind} {name} was deleted before it was over")
        return Exit.OK if last.phase is AnalysisPhase.SUCCESSFUL else Exit.BAD

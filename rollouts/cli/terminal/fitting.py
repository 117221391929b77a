"""What is drawn of one Rollout where the screen has too few lines for all of it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial

from rich.console import Console, RenderableType

from rollouts.cli.terminal.tree import draw
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.tree import RevisionLine, RolloutView
from rollouts.core.model.frozen import replace

STEPS_SHOWN = 2  # of more only the current one, where lines are scarce


def fitting(
    view: RolloutView, console: Console, *, lines: int, now_s: float, ascii_only: bool = False
) -> RenderableType:
    """The picture with as much as fits into the free lines of the screen; `_with_less` says what is left out first.

    What the Rollout waits for, the analysis that decides and one pod with a problem of each revision are never left out.
    """

    def drawn(shown: RolloutView) -> RenderableType:
        return draw(shown, now_s=now_s, ascii_only=ascii_only)

    # Each is as high as the one before or lower, and to draw one takes milliseconds.
    views = list(_with_less(view))
    at = bisect_left(views[:-1], True, key=lambda shown: len(console.render_lines(drawn(shown), pad=False)) <= lines)
    return drawn(views[at])


def _with_less(view: RolloutView) -> Iterator[RolloutView]:
    """The view with less and less: first without Events, then without what is well, what is over, and what is of lower rank."""
    for first in range(len(view.events)):
        yield replace(view, events=view.events[first:])
    view = replace(view, events=())
    yield view
    waits = _wait(view)

    def with_each(change: Callable[[RevisionLine], RevisionLine]) -> RolloutView:
        nonlocal view
        view = replace(view, revisions=tuple(map(change, view.revisions)))
        return view

    def moves(one: RevisionLine) -> bool:
        return one.revision == view.revision != view.stable

    def with_each_that_stays(change: Callable[[RevisionLine], RevisionLine]) -> RolloutView:
        return with_each(lambda one: one if moves(one) else change(one))

    for with_these in (with_each_that_stays, with_each):
        for well in (6, 3, 2, 1, 0):
            yield with_these(partial(_trimmed, view=view, well=well))
        yield with_these(lambda one: replace(one, config=()))
        for over in (3, 2, 1, 0):
            yield with_these(partial(_trimmed, view=view, over=over))
    view = _with_the_current_step(view)
    yield view
    view = replace(view, conditions=())
    yield view
    for unwell in (3, 1):
        yield with_each(partial(_trimmed, view=view, well=0, unwell=unwell))
    yield with_each(lambda one: replace(one, runs=one.runs[:2] if moves(one) else ()))
    yield with_each(lambda one: replace(one, runs=one.runs[:1]))
    view = replace(view, traffic="", revisions=tuple(revision for revision in view.revisions if revision.roles))
    yield view
    yield with_each(lambda one: replace(one, images=(), leaves_at_s=None))
    yield with_each(
        lambda one: replace(one, runs=tuple(replace(run, name="") if run.name in waits else run for run in one.runs))
    )


def _trimmed(
    revision: RevisionLine,
    view: RolloutView,
    *,
    well: int | None = None,
    unwell: int | None = None,
    over: int | None = None,
) -> RevisionLine:
    """With so many pods and runs at most, None for all: pods that are well, and not; runs that are over and hold nothing.

    Of pods that are not well, those that the wait names come first.
    """
    waits = _wait(view)
    bad = sorted((pod for pod in revision.pods if not pod.well), key=lambda pod: f" {pod.name}:" not in waits)
    pods = (*bad[:unwell], *[pod for pod in revision.pods if pod.well][:well])
    held = [run for run in revision.runs if run.failing or not run.phase.over]
    runs = (*held, *[run for run in revision.runs if run not in held][:over])
    return replace(revision, pods=pods, hidden=revision.hidden + len(revision.pods) - len(pods), runs=runs)


def _wait(view: RolloutView) -> str:
    return view.waiting.message if view.waiting is not None else ""


def _with_the_current_step(view: RolloutView) -> RolloutView:
    """Of the steps the current one, and how many there are before and after it."""
    if len(view.steps) <= STEPS_SHOWN:
        return view
    done, after = view.step_index, max(0, len(view.steps) - view.step_index - 1)
    if view.at_rest or view.steps_skipped:
        return replace(view, steps=(count_of(len(view.steps), "step"),))
    before = (count_of(done, "step"),) if done else ()
    rest = (count_of(after, "more step"),) if after else ()
    return replace(view, steps=(*before, *view.steps[done : done + 1], *rest), step_index=len(before))

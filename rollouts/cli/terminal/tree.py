"""Draws one Rollout in a terminal: it makes something that rich can print of plain values. Pure: no I/O, no clock.

`cli/view/objects.py` reads the values from API objects; `get`, `demo`, the docs' picture and the tests draw them.
Everything that users wrote passes through `plain`, so that a pod's message cannot send control codes to a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from rollouts.cli.terminal.parts import Parts
from rollouts.cli.terminal.runs import RUNS_SHOWN, add_runs, facts_grid
from rollouts.cli.terminal.text import ASCII_MARKS, TerminalMarks, marks_for, plain
from rollouts.cli.view.config import use_text
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.runs import run_text
from rollouts.cli.view.tree import (
    PodLine,
    PodState,
    RevisionLine,
    RolloutView,
    WayOut,
    container_use_text,
    percent_text,
    scaling_texts,
)
from rollouts.cli.view.words import how_long, shares, unsaid, waits_for
from rollouts.core.model.autoscaling import AutoscalingRecord
from rollouts.core.model.frozen import replace
from rollouts.core.model.numbering import revision_title, step_number
from rollouts.core.model.steps import WeightPercent

PODS_SHOWN = 12  # of one revision: a screen has about 50 lines
CONFIG_SHOWN = 6
_BAR_CELLS = 20  # with its words on a terminal of 60 columns
PHASE_STYLE = {
    "Healthy": "bold green",
    "Progressing": "bold cyan",
    "Paused": "bold yellow",
    "Degraded": "bold red",
    "Aborted": "bold red",
    "RolledBack": "bold red",
}
_ROLE_STYLE = {"stable": "green", "active": "green", "canary": "yellow", "preview": "yellow"}


def draw(view: RolloutView, *, now_s: float, ascii_only: bool = False) -> RenderableType:
    """The whole picture of one Rollout, with ages and countdowns at `now_s`."""
    marks = marks_for(ascii_only=ascii_only)
    head = Text.assemble(
        (plain(view.name), "bold"),
        (f"  {plain(view.namespace)}", "dim"),
        f"  {view.strategy}  " if view.strategy else "  ",
        (view.phase or "Unknown", PHASE_STYLE.get(view.phase, "bold")),
    )
    facts = facts_grid()
    for label, value in _facts(view, now_s=now_s, marks=marks):
        facts.add_row(f"  {label}", value)
    parts: list[RenderableType] = [Parts(head), facts, _revisions(view, now_s=now_s, marks=marks)]
    if view.conditions:
        parts.append(Text("  Conditions", "bold"))
        for condition in view.conditions:
            since = f", since {short(now_s - condition.since_s)}" if condition.since_s is not None else ""
            said = _unsaid(condition.message, view, above=[_above(view)])
            text = Text(f"{marks.bad} {plain(condition.type)}", "red")
            text.append(f"  {plain(said)}{' ' if said else ''}({plain(condition.reason)}{since})", "default")
            parts.append(Padding(Parts(text), (0, 0, 0, 2)))
    if view.events:
        events = Table.grid(padding=(0, 2))
        events.add_row(Text("  Events", "bold"), "", "")
        above = [_above(view), *(_unsaid(condition.message, view) for condition in view.conditions)]
        for event in view.events:
            age, style = f"  {short(now_s - event.at_s)} ago", "yellow" if event.warning else "dim"
            said = _unsaid(event.message, view, above=above)
            events.add_row(Text(age, "dim"), Text(plain(event.reason), style), Text(plain(said)))
        parts.append(events)
    return Group(*parts)


def line(view: RolloutView, *, now_s: float) -> str:
    """One Rollout in one line, for output that is not a terminal: `shop/cart Paused, step 2 of 4 (pause until promoted), …`."""
    parts = [f"{view.namespace}/{view.name} {view.phase or 'Unknown'}"]
    if view.steps and view.step_index < len(view.steps):
        parts.append(f"step {step_number(view.step_index)} of {len(view.steps)} ({view.steps[view.step_index]})")
    if view.split_percent is not None:
        parts.append(f"weight {percent_text(view.split_percent)}")
    parts.append(f"pods {view.counts}")
    text = ", ".join(parts)
    if why := waits_for(view, now_s=now_s):
        text += f": {why}"
    return plain(text)


def lines_of(view: RolloutView, now_s: float) -> list[str]:
    """One Rollout in one line, and a line for each of its AnalysisRuns that the tree shows."""
    runs = (run for revision in view.revisions for run in revision.runs[:RUNS_SHOWN])
    return [line(view, now_s=now_s), *(plain(run_text(run)) for run in runs)]


def weight_bar(
    percent: WeightPercent, *, live: WeightPercent | None = None, ascii_only: bool = False, cells: int = _BAR_CELLS
) -> Text:
    """A bar of `cells` cells, `percent` of them filled; at least one cell for anything that is not 0 or 100.

    Args:
        live: what is in force, if that is not `percent`: the cells between the two are half filled.
    """

    def filled(share: WeightPercent) -> int:
        count = round(cells * share / 100)
        return min(max(count, 1), cells - 1) if 0 < share < 100 else count

    first, last = sorted(map(filled, (percent, percent if live is None else live)))
    full, between, empty = ("#", "~", ".") if ascii_only else ("█", "▒", "░")
    return (
        Text(full * first, "yellow") + Text(between * (last - first), "yellow") + Text(empty * (cells - last), "green")
    )


def _facts(view: RolloutView, *, now_s: float, marks: TerminalMarks) -> Iterator[tuple[str, RenderableType]]:
    if view.in_place:
        yield "Updates", Text(plain(f"{view.in_place} in place"))
    if view.problems:
        yield "Spec", Text("\n".join(f"{marks.bad} {plain(problem)}" for problem in view.problems), "red")
    elif view.waiting is not None and not view.stale:
        wait = view.waiting
        said = _unsaid(wait.gist or wait.message, view)
        gist = Text(plain(f"{said} ({wait.reason}){how_long(wait, now_s=now_s)}"))
        yield "Waiting", Group(gist, *(Parts(_way(way, marks=marks)) for way in wait.ways))
    elif why := waits_for(view, now_s=now_s):
        yield ("Waiting" if view.stale else "Message"), Text(plain(_unsaid(why, view)))
    if (wanted := view.split_percent) is not None:
        live = view.live_percent
        bar = weight_bar(wanted, live=0 if live is None else live, ascii_only=marks is ASCII_MARKS)
        yield (
            "Weight",
            Parts(bar + Text(f"  {shares(live, wanted, view.nearest_ratio)}  {plain(view.traffic)}".rstrip())),
        )
    if view.steps:
        yield "Steps", Parts(_steps(view, marks=marks))
    if view.scaling is not None and view.scaling.autoscalers:
        yield "Scaling", Text("\n".join(map(plain, scaling_texts(view.scaling, now_s=now_s))))
    yield "Pods", Text(view.counts)


def _way(way: WayOut, *, marks: TerminalMarks) -> Text:
    text = Text(f"{marks.arrow} kubectl rollouts {plain(way.command)}", "bold")
    return text + Text(f"   {plain(way.purpose)}" if way.purpose else "", "not bold dim")


def _steps(view: RolloutView, *, marks: TerminalMarks) -> Text:
    """The steps with their marks; without ticks where they were not carried out."""
    text = Text()
    if view.at_rest or view.steps_skipped:
        words = Text("  ".join(plain(step) for step in view.steps), "dim")
        return words if view.at_rest else Text("skipped: ", "yellow") + words
    for index, step in enumerate(map(plain, view.steps)):
        text.append("  " if index else "")
        if index < view.step_index:
            text.append(f"{marks.done} {step}", "green")
        elif index == view.step_index:
            text.append(f"{marks.now} {step}", "bold yellow")
        else:
            text.append(f"{marks.todo} {step}", "dim")
    return text


def _revisions(view: RolloutView, *, now_s: float, marks: TerminalMarks) -> RenderableType:
    tree = Tree(Text("Revisions", "bold") if view.revisions else Text("No revisions yet", "dim"), guide_style="dim")
    for revision in view.revisions:
        branch = tree.add(Parts(_revision(revision, view.scaling, now_s=now_s, marks=marks)))
        add_runs(branch, revision.runs, now_s=now_s, marks=marks)
        told: set[str] = set()
        for pod in revision.shown_pods(PODS_SHOWN):
            problem = pod.problem.partition(": ")[0] if pod.problem in told else pod.problem
            told.add(pod.problem)
            branch.add(Parts(_pod(replace(pod, problem=problem), now_s=now_s, marks=marks)))
        if unshown := revision.unshown_text(PODS_SHOWN):
            branch.add(Text(f"{marks.more} {unshown}", "dim"))
        for use in revision.config[:CONFIG_SHOWN]:
            branch.add(Text(plain(use_text(use, arrow=marks.arrow)), "dim"))
        if (hidden := len(revision.config) - CONFIG_SHOWN) > 0:
            branch.add(Text(f"{marks.more} and {count_of(hidden, 'more source')} of configuration", "dim"))
    return Padding(tree, (0, 0, 0, 2))


def _revision(revision: RevisionLine, scaling: AutoscalingRecord | None, *, now_s: float, marks: TerminalMarks) -> Text:
    number, _, name = revision_title(revision.number, revision.revision).partition(" ")
    text = Text.assemble((f"{number} ", "bold"), (plain(name), "cyan"))
    for role in revision.roles:
        text.append(f"  {role}", _ROLE_STYLE.get(role, ""))
    if not revision.roles:
        text.append("  old", "dim")
    text.append(f"  {revision.ready}/{revision.desired} ready", "" if revision.ready >= revision.desired else "yellow")
    if scaling is not None:
        for use in scaling.use:
            if use.revision == revision.revision:
                style = "" if use.utilization_percent is not None else "yellow"
                text.append(f"  {plain(container_use_text(scaling, use, now_s=now_s))}", style)
    text.append(f"  {plain(', '.join(revision.images))}".rstrip(), "dim")
    if leaving := revision.leaving_text(now_s):
        text.append(f"  {marks.dot} {leaving}", "dim")
    return text


def _pod(pod: PodLine, *, now_s: float, marks: TerminalMarks) -> Text:
    age = short(now_s - pod.created_at_s)
    match pod.state:
        case PodState.TERMINATING:
            mark, style = marks.ending, "dim"
        case PodState.READY:
            mark, style = marks.done, "green"
        case PodState.FAILING:
            mark, style = marks.bad, "red"
        case PodState.STARTING:
            mark, style = marks.starting, "yellow"
    return Text.assemble((f"{mark} ", style), plain(pod.name), (f"  {plain(pod.said)}", style), (f"  {age}", "dim"))


def _unsaid(text: str, view: RolloutView, *, above: Iterable[str] = ()) -> str:
    """The text without what the lines of pods and of AnalysisRuns say; "" for one that stands above already."""
    runs = (run for revision in view.revisions for run in revision.runs[:RUNS_SHOWN])
    pods = (pod for revision in view.revisions for pod in revision.shown_pods(PODS_SHOWN))
    text = unsaid(text, runs=runs, pods=pods)
    return "" if any(text in each for each in above) else text


def _above(view: RolloutView) -> str:
    """What the facts say of the wait, or of what is wrong."""
    if view.problems:
        return "; ".join(view.problems)
    return _unsaid(view.waiting.message if view.waiting is not None and not view.stale else view.message, view)

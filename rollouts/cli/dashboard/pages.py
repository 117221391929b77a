"""What all pages share: the frame, the words of a phase with its sign and colour, times, and the bar of the traffic. Pure.

Everything is drawn from values of `cli/view`. htpy escapes what users wrote, and `document` takes characters out that only change
how others are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

import htpy as h
from msgspec import Struct

from rollouts.api.times import format_time
from rollouts.cli.dashboard.links import LinkTemplate
from rollouts.cli.dashboard.rights import NO_LOCKS, Locks
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.tree import RolloutView
from rollouts.cli.view.words import Standing
from rollouts.core.model.steps import WeightPercent
from rollouts.objects import EXPERIMENT, ROLLOUT, Key, Kind

NO_PHASE = "Unknown"
EXPERIMENTS = "/experiments"
"""Where the list of Experiments is, and their pages below it."""

_PHASES: Mapping[str, tuple[str, str]] = {
    "Healthy": ("good", "✔"),
    "Successful": ("good", "✔"),
    "Completed": ("good", "✔"),
    "Promoted": ("good", "✔"),
    "Progressing": ("move", "▶"),
    "Running": ("move", "▶"),
    "Paused": ("wait", "‖"),
    "Inconclusive": ("wait", "?"),
    "Degraded": ("bad", "✘"),
    "Failed": ("bad", "✘"),
    "Error": ("bad", "✘"),
    "Aborted": ("bad", "✘"),
    "RolledBack": ("bad", "↩"),
}
STANDING_COLOURS: Mapping[Standing, str] = {
    Standing.BAD: "bad",
    Standing.PERSON: "wait",
    Standing.MOVING: "move",
    Standing.QUIET: "good",
}
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
# Controls, and characters that turn the direction of text, are invisible, or begin a line.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)


class DashboardPage(Struct, frozen=True):
    """One page: its title for the tab, what its <main> holds, and where its live updates come from, "" for nowhere."""

    title: str
    main: h.Node
    stream: str = ""


class Look(Struct, frozen=True, kw_only=True):
    """A look at the page of an object.

    Args:
        lost: a box about an API server that does not answer; None where it does.
        told: a box with the outcome of the command that was just given; None for none.
        locks: what whoever looks cannot do.
        links: to other servers, about the object, its revisions or templates, and their pods.
    """

    now_s: float
    lost: h.Node = None
    told: h.Node = None
    locks: Locks = NO_LOCKS
    links: tuple[LinkTemplate, ...] = ()


def document(page: DashboardPage, signed_in: h.Node = None) -> bytes:
    """The whole page. `signed_in` says as whom, and has the way out; None where there is one person only."""
    frame = h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.title[page.title],
            h.link(rel="stylesheet", href="/static/style.css"),
            h.link(rel="icon", href="/static/icon.svg"),
            h.script(src="/static/live.js", defer=True),
        ],
        h.body(data_stream=page.stream or None)[
            h.a(".skip", href="#main")["Skip to the content"],
            h.header(".top")[
                h.div[
                    h.a(".brand", href="/")["Rollouts"],
                    h.span("#live", role="status")["" if page.stream else None],
                    signed_in,
                ]
            ],
            h.main("#main")[page.main],
        ],
    ]
    return visible(str(frame)).encode()


def fragment(page: DashboardPage) -> str:
    """Its <main> alone, for pages that are open."""
    return visible(str(h.main("#main")[page.main]))


def visible(text: str) -> str:
    """The text with a mark in place of each character that cannot be seen."""
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def address_of(view: RolloutView, *more: str) -> str:
    """The address of a Rollout's page, or of one below it."""
    return object_address(ROLLOUT, Key(view.namespace, view.name), *more)


def experiment_address(of: Key, *more: str) -> str:
    """The address of an Experiment's page, or of one below it."""
    return object_address(EXPERIMENT, of, *more)


def object_address(kind: Kind, of: Key, *more: str) -> str:
    """The address of the page of a Rollout or an Experiment, or of one below it."""
    root = EXPERIMENTS if kind is EXPERIMENT else "/r"
    return "/".join([root, *(quote(part, safe="") for part in (of.namespace, of.name, *more))])


def phase(word: str) -> h.Element:
    """The word of a phase or of an outcome, with its sign and colour."""
    colour, sign = _PHASES.get(word, ("quiet", "·"))
    return h.span(class_=f"phase {colour}")[h.span(aria_hidden="true")[sign], word or NO_PHASE]


def when(at_s: float, now_s: float, *, ago: str = " ago") -> h.Element:
    """How long ago that was, with the time itself."""
    return h.time(datetime=format_time(float(int(at_s))))[f"{short(now_s - at_s)}{ago}"]


def until(at_s: float, now_s: float) -> h.Element:
    """How long it is to then, with the time itself."""
    left = at_s - now_s
    text = f"{short(left)} left" if left > 0 else f"overdue by {short(-left)}"
    return h.time(datetime=format_time(float(int(at_s))))[text]


def share_bar(wanted: WeightPercent, live: WeightPercent | None, *, label: str) -> h.Element:
    """The canary's share as a bar, and the stable one's beside it; what is still to come or to go is paler."""
    first, last = sorted((float(wanted), float(live or 0)))

    def part(class_: str, begin: float, end: float) -> h.Element:
        return h.rect(class_=class_, x=f"{begin:.4g}", y="0", width=f"{end - begin:.4g}", height="8")

    return h.svg(".bar", viewBox="0 0 100 8", preserveAspectRatio="none", role="img", aria_label=label)[
        part("rest", 0, 100), part("coming", first, last), part("live", 0, first)
    ]


def message(
    title: str, text: str, *, colour: str = "bad", back: str = "/", back_text: str = "All Rollouts"
) -> DashboardPage:
    """A page that says one thing."""
    return DashboardPage(
        title, h.div(".ask")[notice(colour, title, h.p[with_code(text)], heading=h.h1), h.p[h.a(href=back)[back_text]]]
    )


def notice(colour: str, title: str, *more: h.Node, heading: h.Element = h.h2) -> h.Element:
    """A coloured box with a heading, which is the page's own where there is no other."""
    return h.section(class_=f"notice {colour}")[heading[title], *more]


def cell(label: str, content: h.Node) -> h.Element:
    """One cell of a table that a narrow screen shows as a list; what is empty is left out there."""
    return h.td(data_label=label, class_=None if content else "none")[content or None]


def with_code(text: str) -> list[h.Node]:
    """A sentence of the command line, with what stands between backticks as code."""
    parts = text.split("`")
    return [h.code[part] if index % 2 else part for index, part in enumerate(parts)] if len(parts) % 2 else [text]


def with_times(text: str) -> list[h.Node]:
    """A sentence of the command line, with its times in the zone of whoever looks, once the page's script has run."""
    parts = _TIME.split(text)
    return [h.time(".exact", datetime=part)[part] if index % 2 else part for index, part in enumerate(parts)]


def capital(text: str) -> str:
    """The text with a capital letter first; names in it stay as they are."""
    return f"{text[:1].upper()}{text[1:]}"


def sentence(text: str) -> str:
    """What the command line says after `error: `, as a sentence."""
    return capital(text) + ("" if text.endswith((".", "?", "!")) else ".")


def stacked_table(rows: Sequence[Mapping[str, h.Node]]) -> h.Element:
    """A table of at least one row, whose cells stand below each other on narrow screens; without columns that would be empty."""
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    return h.table(".stack")[
        h.thead[h.tr[(h.th(scope="col")[name] for name in columns)]],
        h.tbody[(h.tr[(cell(name, row[name]) for name in columns)] for row in rows)],
    ]


def more(count: int, noun: str) -> h.Node:
    """How many there are that are not shown."""
    return h.p(".soft")[f"and {count_of(count, noun)}"] if count > 0 else None


def facts_line(parts: Iterable[str]) -> str:
    """What there is to say, on one line."""
    return " · ".join(filter(None, parts))

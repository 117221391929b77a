"""How two revisions of a Rollout differ: their pod templates, and what their pods read. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

import htpy as h

from rollouts.cli.dashboard.pages import DashboardPage, address_of, more, notice
from rollouts.cli.view.config import SourceChange
from rollouts.cli.view.config_lines import change_lines, change_steps, change_title
from rollouts.cli.view.difference import comparison_steps, difference, template_of, title_of, yaml_lines
from rollouts.cli.view.objects import RolloutObjects, number_of, revision_of, roles_of, status_of, view_of
from rollouts.objects import Manifest

TEMPLATE_MAX_BYTES = 256 * 1024  # of JSON: a second as YAML
STEPS_MAX = 4_000_000  # a second
LINES_SHOWN = 2_000  # of the template, or of one ConfigMap
_CLASSES = {"+": "added", "-": "gone", "@": "place"}


class _Marks:
    arrow, more = "→", "…"


def diff_page(
    seen: RolloutObjects, before: Manifest | None, after: Manifest | None, changes: Sequence[SourceChange]
) -> DashboardPage:
    """The page.

    Args:
        before, after: the ReplicaSets of the two revisions; None for one that is not kept.
        changes: of the ConfigMaps and Secrets that their pods read.
    """
    view = view_of(seen)
    main: list[h.Node] = [
        h.div(".head")[
            h.h1[f"Changes of {view.name}"],
            h.p(".soft")[h.a(href=address_of(view))["Back to the Rollout"], f" · namespace {view.namespace}"],
        ],
        _choice(seen, before, after),
    ]
    if before is None or after is None:
        if len(seen.replica_sets) > 1:
            why = "One of these two revisions is not kept any more. Choose another one."
        else:
            why = "No earlier revision is kept."
        main.append(notice("wait", "There is nothing to compare", h.p[why]))
        return DashboardPage(f"Changes of {view.name}", h.fragment[main])
    templates = template_of(before), template_of(after)
    is_long = sum(len(json.dumps(each)) for each in templates) > TEMPLATE_MAX_BYTES
    if is_long or comparison_steps(*map(yaml_lines, templates)) > STEPS_MAX:
        template: h.Node = h.p["They are too long to be compared here. The command below compares them."]
    else:
        lines = difference(*templates, ("", ""))[2:]
        template = _lines(lines) if lines else h.p["Both have the same."]
    sources, left = [], STEPS_MAX
    for change in changes:
        sources.append(_source(change, before, after, steps_max=left))
        left -= sum(map(change_steps, change.keys))
    words = f"{revision_of(before)} {revision_of(after)}"
    main += [
        h.section(".card")[h.h2["Pod template"], template],
        sources,
        h.p(".soft")["The same in a terminal:"],
        h.code(".line")[f"kubectl rollouts diff {view.name} {words} -n {view.namespace}"],
        h.code(".line")[f"kubectl rollouts config diff {view.name} {words} --full -n {view.namespace}"]
        if changes
        else None,
    ]
    return DashboardPage(f"Changes of {view.name}", h.fragment[main])


def _choice(seen: RolloutObjects, before: Manifest | None, after: Manifest | None) -> h.Element:
    status = status_of(seen.rollout)
    kept = sorted(seen.replica_sets, key=number_of, reverse=True)

    def select(name: str, label: str, chosen: Manifest | None) -> h.Element:
        options = []
        for each in kept:
            roles = roles_of(revision_of(each), status)
            text = f"{title_of(each)} ({', '.join(roles)})" if roles else title_of(each)
            options.append(h.option(value=revision_of(each), selected=each is chosen)[text])
        return h.label[f"{label} ", h.select(name=name)[options]]

    return h.form(".filters", method="get")[
        select("from", "From", before), select("to", "to", after), h.button["Compare"]
    ]


def _source(change: SourceChange, before: Manifest, after: Manifest, *, steps_max: int) -> h.Element:
    lines: list[str] = []
    for key in change.keys:
        lines += change_lines(change.kind, key, _Marks(), full=False, steps_max=steps_max)
        steps_max -= change_steps(key)
    return h.section(".card")[
        h.h2[change_title(change, title_of(before), title_of(after), _Marks())],
        h.p[change.unknown] if change.unknown else None,
        _lines(lines) if lines else None,
    ]


def _lines(lines: Sequence[str]) -> h.Node:
    shown = (h.span(class_=_CLASSES.get(line[:1]))[f"{line}\n"] for line in lines[:LINES_SHOWN])
    return [h.pre(".diff")[shown], more(len(lines) - LINES_SHOWN, "more line")]

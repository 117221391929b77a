"""The lists, those first that need somebody: the frame of each, and the rows of Rollouts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlencode

import htpy as h
from msgspec import Struct
from msgspec.structs import replace

from rollouts.cli.dashboard.pages import (
    EXPERIMENTS,
    DashboardPage,
    address_of,
    cell,
    notice,
    phase,
    sentence,
    share_bar,
    when,
    with_code,
)
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.objects import RolloutObjects, images_of, view_of
from rollouts.cli.view.tree import RolloutView, percent_text
from rollouts.cli.view.words import Standing, standing_of, waits_briefly
from rollouts.core.model.numbering import step_number
from rollouts.objects import Key, Manifest, whole_number

PAGE_SIZE = 100
WORD_MAX = 200  # characters of a word in an address
_PAGE_DIGITS = 5
_ORDER = [*Standing]


class ListFilter(Struct, frozen=True):
    """A part of the list: its label, and what is in it."""

    label: str
    standings: frozenset[Standing]


FILTERS: Mapping[str, ListFilter] = {
    "": ListFilter("All", frozenset(Standing)),
    "needs": ListFilter("Need a person", frozenset({Standing.BAD, Standing.PERSON})),
    "bad": ListFilter("Went wrong", frozenset({Standing.BAD})),
    "moving": ListFilter("Under way", frozenset({Standing.PERSON, Standing.MOVING})),
}
"""By their words in the address."""


class Listed(Struct, frozen=True, weakref=True):
    """One Rollout of the list, with its images.

    Args:
        version: of the object that it was made of: its uid and resourceVersion.
    """

    version: tuple[str, str]
    view: RolloutView
    images: tuple[str, ...]
    standing: Standing

    @property
    def key(self) -> Key:
        """See `ListRow`."""
        return Key(self.view.namespace, self.view.name)

    @property
    def place(self) -> tuple[float | str, ...]:
        """See `ListRow`: by name."""
        return self.view.namespace, self.view.name

    @property
    def created_at_s(self) -> float:
        """See `ListRow`."""
        return self.view.created_at_s

    @property
    def waits_since_s(self) -> float | None:
        """See `ListRow`."""
        return self.view.waiting.since_s if self.view.waiting is not None else None

    @property
    def searched(self) -> tuple[str, ...]:
        """See `ListRow`."""
        return (self.view.namespace, self.view.name, self.view.phase, self.view.revision, *self.images)

    def cells(self, now_s: float) -> h.Node:
        """See `ListRow`."""
        view, quiet = self.view, self.standing is Standing.QUIET
        # During an update there are more pods than are wanted in the end.
        ready = (
            f"{view.ready}, {view.desired} wanted" if view.ready > view.desired else f"{view.ready} of {view.desired}"
        )
        step = ""
        if view.steps and not view.at_rest:
            index = min(view.step_index, len(view.steps) - 1)
            step = f"{step_number(index)} of {len(view.steps)}"
        return h.fragment[
            h.td[h.a(".row", href=address_of(view))[view.name], h.span(".under")[view.namespace]],
            h.td[phase(view.phase)],
            cell("Revision", _revision(view)),
            cell("Waits for", None if quiet else waits_briefly(view, now_s=now_s)),
            cell("Step", step),
            cell("Canary's traffic", _share(view)),
            cell("Ready", ready),
            cell("Age", when(view.created_at_s, now_s, ago="") if view.created_at_s else ""),
        ]


class ListQuery(Struct, frozen=True):
    """What the address asks for. `only` is one of FILTERS, and `sort` one of SORTS."""

    q: str = ""
    ns: str = ""
    only: str = ""
    sort: str = ""
    page: int = 1
    path: str = "/"

    @classmethod
    def read(cls, fields: Mapping[str, str], path: str = "/") -> ListQuery:
        """What the fields of an address ask for of the list at `path`; what cannot be read is left out."""
        only, sort = fields.get("only", ""), fields.get("sort", "")
        return cls(
            q=fields.get("q", "")[:WORD_MAX],
            ns=fields.get("ns", "")[:WORD_MAX],
            only=only if only in FILTERS else "",
            sort=sort if sort in SORTS else "",
            page=whole_number(fields.get("page", ""), digits=_PAGE_DIGITS) or 1,
            path=path,
        )

    def address(self, **changed: str | int) -> str:
        """The address of another view of the list."""
        fields = {"q": self.q, "ns": self.ns, "only": self.only, "sort": self.sort, "page": 1, **changed}
        words = {name: str(value) for name, value in fields.items() if value not in ("", 1)}
        return f"{self.path}?{urlencode(words)}" if words else self.path

    def elsewhere(self, path: str) -> str:
        """The address of the list at another path, with the same words, filter and order."""
        return replace(self, path=path).address(only=self.only)


class ListRow(Protocol):
    """One object of a list."""

    @property
    def standing(self) -> Standing:
        """How much it needs somebody."""
        ...

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        ...

    @property
    def place(self) -> tuple[float | str, ...]:
        """By what rows of one standing are sorted."""
        ...

    @property
    def created_at_s(self) -> float:
        """When it was created."""
        ...

    @property
    def waits_since_s(self) -> float | None:
        """Since when it has been waiting for something; None where it waits for nothing."""
        ...

    @property
    def searched(self) -> tuple[str, ...]:
        """What the search looks at."""
        ...

    def cells(self, now_s: float) -> h.Node:
        """The cells of its row."""
        ...


class ListSort(Struct, frozen=True):
    """An order of the list: its label, and by what rows are sorted."""

    label: str
    key: Callable[[ListRow], tuple[Any, ...]]


SORTS: Mapping[str, ListSort] = {
    "": ListSort("What needs a person first", lambda row: (_ORDER.index(row.standing), row.place)),
    "wait": ListSort("Longest wait first", lambda row: (row.waits_since_s or float("inf"), str(row.key))),
    "name": ListSort("By name", lambda row: (row.key.name, row.key.namespace)),
    "new": ListSort("Newest first", lambda row: (-row.created_at_s, str(row.key))),
}
"""By their words in the address."""


class ListLook(Struct, frozen=True, kw_only=True):
    """How a list looks.

    Args:
        noun: of one object: `Rollout`.
        columns: as the cells of its rows.
        searched: what the search looks at.
        begin: how somebody comes to the first one.
        commands: for that, with `{namespace}`.
        then: what is to be known of them.
    """

    noun: str
    columns: tuple[str, ...]
    searched: str
    begin: str
    commands: tuple[str, ...]
    then: str = ""

    def title(self, rows: Sequence[ListRow]) -> str:
        """How many there are, and how many need somebody."""
        standings = Counter(row.standing for row in rows)
        needing, wrong = standings[Standing.PERSON], standings[Standing.BAD]
        parts = [count_of(len(rows), self.noun)]
        parts += [f"{needing} {'waits' if needing == 1 else 'wait'} for a person"] if needing else []
        parts += [f"{wrong} went wrong"] if wrong else []
        return ", ".join(parts)


ROLLOUTS_LOOK = ListLook(
    noun="Rollout",
    columns=("Rollout", "Phase", "Revision", "Waits for", "Step", "Canary's traffic", "Ready", "Age"),
    searched="Name, image, phase, revision",
    begin="To make the first one of a Deployment that you have:",
    commands=(
        "kubectl get deployment NAME -n {namespace} -o yaml | kubectl rollouts migrate -f - > rollout.yaml",
        "kubectl apply -f rollout.yaml",
    ),
    then="NAME is one of `kubectl get deployments -n {namespace}`. Its Rollout starts pods of its own, and takes each new image "
    "in steps. The Deployment stays until you delete it.",
)


def listed(rollout: Manifest) -> Listed:
    """One row's values: a tenth of what the whole object takes."""
    view = view_of(RolloutObjects(rollout=rollout))
    return Listed(version_of(rollout), view, images_of(rollout), standing_of(view))


def version_of(thing: Manifest) -> tuple[str, str]:
    """What no two objects of the API server have in common, nor two states of one."""
    return thing["metadata"].get("uid", ""), thing["metadata"].get("resourceVersion", "")


def list_page(
    rows: Iterable[ListRow],
    query: ListQuery,
    *,
    now_s: float,
    lost: h.Node,
    scope: str,
    chooses_namespace: bool = False,
    look: ListLook = ROLLOUTS_LOOK,
) -> DashboardPage:
    """The page.

    Args:
        lost: a box about an API server that does not answer; None where it does.
        scope: the namespace that is listed; "" for all.
        chooses_namespace: another one is listed when it is named.
    """
    everything = [*rows]
    words = query.q.lower().split()
    named = [row for row in everything if not query.ns or row.key.namespace == query.ns]
    texts = [" ".join(row.searched).lower() for row in named]
    found = [row for row, text in zip(named, texts, strict=True) if all(word in text for word in words)]
    counts = {name: sum(row.standing in each.standings for row in found) for name, each in FILTERS.items()}
    shown = sorted(
        (row for row in found if row.standing in FILTERS[query.only].standings),
        key=SORTS[query.sort].key,
    )
    pages = max(1, -(-len(shown) // PAGE_SIZE))
    number = min(query.page, pages)
    part = shown[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    title = look.title(everything)
    main = h.fragment[
        _tabs(query),
        h.div(".head")[h.h1[title], h.p(".soft")[f"in namespace {scope}" if scope else "in all namespaces"]],
        lost,
        _other_namespace(query.path, scope) if chooses_namespace else None,
        _filters(query, None if scope else [*Counter(row.key.namespace for row in everything)], counts, look)
        if everything
        else None,
        _table(part, now_s, look, SORTS[query.sort]) if part else _nothing(everything, query.path, look, scope),
        _paging(query, number, pages) if pages > 1 else None,
    ]
    return DashboardPage(title, main, f"{query.path.rstrip('/')}/events")


def refused_list_page(
    query: ListQuery, why: str, *, scope: str, chooses_namespace: bool, look: ListLook
) -> DashboardPage:
    """Why nothing of a list is shown, with the way to another namespace where one is chosen."""
    said = notice("bad", f"These {look.noun}s are not shown", h.p[with_code(sentence(why))], heading=h.h1)
    other = _other_namespace(query.path, scope) if chooses_namespace else None
    return DashboardPage("Not shown", h.fragment[_tabs(query), said, other])


def _tabs(query: ListQuery) -> h.Element:
    tabs = (("/", "Rollouts"), (EXPERIMENTS, "Experiments"))
    return h.nav(".tabs", aria_label="Lists")[
        (
            h.a(href=query.elsewhere(path), aria_current="page" if path == query.path else None)[label]
            for path, label in tabs
        )
    ]


def _other_namespace(path: str, scope: str) -> h.Element:
    return h.form(".filters", method="get", action=path)[
        h.label(for_="namespace")["Namespace"],
        h.input("#namespace", type="text", name="ns", value=scope, autocomplete="off", spellcheck="false"),
        h.button["Show"],
    ]


def _filters(query: ListQuery, namespaces: Sequence[str] | None, counts: dict[str, int], look: ListLook) -> h.Element:
    """What narrows the list. `namespaces` to choose from; None where only one is listed, which stays."""
    chosen = [query.ns] if query.ns and namespaces is not None and query.ns not in namespaces else []
    options = [
        h.option(value=name, selected=name == query.ns)[name or "All namespaces"]
        for name in ("", *sorted([*(namespaces or ()), *chosen]))
    ]
    return h.div(".filters")[
        h.form(".filters", method="get", action=query.path, role="search")[
            h.input(
                type="search",
                name="q",
                value=query.q,
                placeholder=look.searched,
                aria_label="Search",
                autocomplete="off",
            ),
            h.select(name="ns", aria_label="Namespace")[options]
            if namespaces is not None
            else h.input(type="hidden", name="ns", value=query.ns),
            h.select(name="sort", aria_label="Order")[
                (h.option(value=name, selected=name == query.sort)[each.label] for name, each in SORTS.items())
            ],
            h.input(type="hidden", name="only", value=query.only) if query.only else None,
            h.noscript[h.button["Search"]],
        ],
        h.ul(".chips", aria_label="Filters")[
            (
                h.li[
                    h.a(href=query.address(only=name), aria_current="true" if query.only == name else None)[
                        f"{each.label} {counts[name]}"
                    ]
                ]
                for name, each in FILTERS.items()
            )
        ],
    ]


def _table(rows: Iterable[ListRow], now_s: float, look: ListLook, sort: ListSort) -> h.Element:
    return h.div(".card.list")[
        h.table[
            h.caption(".skip")[f"{look.noun}s: {sort.label}"],
            h.thead[h.tr[(h.th(scope="col")[name] for name in look.columns)]],
            h.tbody[(h.tr(id=str(row.key))[row.cells(now_s)] for row in rows)],
        ]
    ]


def _revision(view: RolloutView) -> h.Node:
    """The current one, and during an update the stable one."""
    if not view.revision:
        return None
    stable = h.span(".under")[f"stable {view.stable}"] if view.stable not in ("", view.revision) else None
    return h.fragment[h.span(".mono")[view.revision], stable]


def _share(view: RolloutView) -> h.Node:
    wanted, live = view.split_percent, view.live_percent
    if wanted is None:
        return None
    text = percent_text(wanted)
    if live != wanted and not view.nearest_ratio:
        text = f"{'not known yet' if live is None else f'{percent_text(live)} now'}, {text} wanted"
    return h.fragment[h.span[text], share_bar(wanted, live, label=text)]


def _nothing(rows: Sequence[ListRow], path: str, look: ListLook, scope: str) -> h.Element:
    if rows:
        return h.div(".card")[h.p[f"No {look.noun} is like that. ", h.a(href=path)["Show all"]]]
    namespace = scope or "NAMESPACE"
    return h.div(".card")[
        h.h2[f"There are no {look.noun}s here yet"],
        h.p[f"They appear here as soon as there are some. {look.begin}"],
        (h.code(".line")[each.format(namespace=namespace)] for each in look.commands),
        h.p(".soft.more")[with_code(look.then.format(namespace=namespace))] if look.then else None,
    ]


def _paging(query: ListQuery, number: int, pages: int) -> h.Element:
    return h.nav(".acts", aria_label="Pages")[
        h.a(".button", href=query.address(only=query.only, page=number - 1))["Previous"] if number > 1 else None,
        h.span[f"page {number} of {pages}"],
        h.a(".button", href=query.address(only=query.only, page=number + 1))["Next"] if number < pages else None,
    ]

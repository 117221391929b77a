"""Where requests go: the wanted split, what a route says, and what its data plane does.

A *route* is any object that moves requests between the stable and the canary Service: an HTTPRoute, a VirtualService, an Ingress.
Its codec is in `traffic/`; here a route is only a name, what it says, and what is known about its data plane.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Annotated, TypeAlias

from msgspec import Struct

from rollouts.core.model.declared import NEEDED
from rollouts.core.model.reasons import Reason


class MatchKind(StrEnum):
    """How a text is matched."""

    EXACT = "exact"
    PREFIX = "prefix"
    REGEX = "regex"


class TextMatch(Struct, frozen=True):
    """A text and how it is matched."""

    kind: MatchKind
    value: str


class NamedMatch(Struct, frozen=True):
    """A header, cookie or query parameter of that name with a value that matches. Header names are lower case."""

    name: str
    value: TextMatch


class RequestMatch(Struct, frozen=True, kw_only=True):
    """Requests that meet all of these conditions; without any, every request."""

    method: TextMatch | None = None
    path: TextMatch | None = None
    headers: tuple[NamedMatch, ...] = ()
    cookies: tuple[NamedMatch, ...] = ()
    query: tuple[NamedMatch, ...] = ()

    @property
    def condition_count(self) -> int:
        """How many conditions it has."""
        alone = (self.method is not None) + (self.path is not None)
        return alone + len(self.headers) + len(self.cookies) + len(self.query)


class MatchRoute(Struct, frozen=True):
    """`setHeaderRoute`: requests that match go to the canary, whatever the weight. `name` is one of `managedRoutes`."""

    name: str
    match: RequestMatch


class MirrorRoute(Struct, frozen=True):
    """`setMirrorRoute`: copies of requests that match any of `matches` (of all, when there is none) go to the canary.

    Args:
        percent: how many of them, 1..100.
    """

    name: str
    matches: tuple[RequestMatch, ...] = ()
    percent: int = 100


class Sticky(Struct, frozen=True):
    """Tells clients apart by the end of one of their cookies, so that each client stays where it was sent.

    Args:
        digits: the characters at the end of its values, all equally frequent.
        seed: decides which clients come first; the revision, so that they are not always the same ones.
    """

    cookie: str
    digits: str
    seed: str = ""


class ExperimentShare(Struct, frozen=True):
    """The part of the requests that goes to the Service of an Experiment's template, beside the canary's.

    Args:
        service: its name, in the Rollout's namespace.
        share: its part of the requests that no managed route takes, 0..1, exact. A wanted one is more than 0. A route has 0
            before it, so that proxies know the Service before requests come, and after it, until none sends requests there.
    """

    service: str
    share: Fraction


class Split(Struct, frozen=True):
    """How a route shares requests, or should.

    Args:
        share: the canary Service's part of the requests that none of the routes below takes, 0..1, exact.
        matches: header routes in the order of `managedRoutes`: the first one that matches wins.
        mirrors: mirror routes in the same order.
        whole: False if the object says this only in part: its rules disagree (then `share` is the largest), or copies of rules
            have changed since. A wanted split is always whole, so the two always differ.
        idle: how many of our rules in the object match no request: they are created before requests come to them, and removed
            after (`traffic/rules/warming.py`). A wanted split has none, so the two always differ.
        sticky: the share is one of clients (`core/routing/stickiness.py`); only where the share is neither 0 nor 1.
        experiments: the shares of Experiments, in the order of their templates; with `share` at most 1. The stable Service gets
            what is left.
    """

    share: Fraction
    matches: tuple[MatchRoute, ...] = ()
    mirrors: tuple[MirrorRoute, ...] = ()
    whole: bool = True
    sticky: Sticky | None = None
    idle: int = 0
    experiments: tuple[ExperimentShare, ...] = ()

    @property
    def reaches_canary(self) -> bool:
        """Whether some request, or a copy of one, goes to the canary Service."""
        return bool(self.share or self.matches or self.mirrors)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The canary's share, and those of Experiments."""
        return (self.share, *[each.share for each in self.experiments])

    @property
    def is_intermediate(self) -> bool:
        """Whether the data plane must have this before the next write: no split that is wanted is so."""
        return bool(self.idle or any(not each.share for each in self.experiments))


ALL_TO_STABLE = Split(Fraction(0))


class RuleSaid(Struct, frozen=True, kw_only=True):
    """One rule of a route, as its object has it.

    Args:
        users: the controller leaves the rule as its user wrote it; False for one that carries the split, or a copy of ours.
        requests: the rule takes requests that match any of these; () when the codec does not know.
        stable, canary: the weights of the two Services in it; both are 0 for a redirect, or for other Services.
        copied_percents: for each mirror to the canary Service, the percentage of the rule's requests that it copies.
        below: its paths continue those of the objects that include this one.
    """

    users: bool
    requests: tuple[RequestMatch, ...] = ()
    stable: Fraction = Fraction(0)
    canary: Fraction = Fraction(0)
    copied_percents: tuple[Fraction, ...] = ()
    below: bool = False

    @property
    def meets_the_pair(self) -> bool:
        """Whether requests of the rule, or copies of them, go to one of the two Services."""
        return bool(self.stable or self.canary or self.copied_percents)


IDLE_HEADER = "x-rollouts-idle"
IDLE_VALUE = "never"
"""The header that an idle rule matches and no request has."""


class Feature(StrEnum):
    """What a route may support besides whole percentages of the requests."""

    HEADER = "header"
    HEADER_REGEX = "header-regex"  # or a prefix, which becomes a regex where the router has no prefixes
    COOKIE = "cookie"
    SEVERAL_COOKIES = "several-cookies"  # of one request
    QUERY = "query"
    METHOD = "method"
    PATH = "path"
    SEVERAL_CONDITIONS = "several-conditions"  # in one header route
    SEVERAL_ROUTES = "several-routes"  # by header, at the same time
    MIRROR = "mirror"
    MIRROR_PERCENT = "mirror-percent"
    EXPERIMENT = "experiment"  # a share for the Service of an Experiment


def features_needed(split: Split) -> frozenset[Feature]:
    """The features that a route needs, besides a share, to express `split`."""
    requests = [
        *(route.match for route in split.matches),
        *(match for route in split.mirrors for match in route.matches),
    ]
    conditions = [
        (Feature.MIRROR, split.mirrors),
        (Feature.EXPERIMENT, split.experiments),
        (Feature.MIRROR_PERCENT, any(mirror.percent < 100 for mirror in split.mirrors)),
        (Feature.SEVERAL_ROUTES, len(split.matches) > 1),
        (Feature.SEVERAL_CONDITIONS, any(route.match.condition_count > 1 for route in split.matches)),
    ]
    for request in requests:
        conditions += (
            (Feature.HEADER, request.headers),
            (Feature.COOKIE, request.cookies),
            (Feature.QUERY, request.query),
            (Feature.METHOD, request.method),
            (Feature.PATH, request.path),
            (Feature.SEVERAL_COOKIES, len(request.cookies) > 1),
            (Feature.HEADER_REGEX, any(header.value.kind is not MatchKind.EXACT for header in request.headers)),
        )
    return frozenset([feature for feature, is_needed in conditions if is_needed])


SETTLE_S = 5.0
"""The default settle time, where neither the codec nor the operator names one. Measured: proxies that get pushes (Envoy) take
less than half a second, one that polls (Traefik) up to 2 s."""


class Answer(StrEnum):
    """What a status says about acceptance."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Acceptance(Struct, frozen=True):
    """Whether all gateways of a route accepted its latest generation; the message says which did not, and why."""

    answer: Answer
    message: str = ""


class VerifiedBy(StrEnum):
    """How a split was found to be live, the best way first; `status.traffic.verifiedBy`."""

    CONFIG = "Config"  # every proxy's own configuration says so
    COUNTERS = "Counters"  # the proxies' counters of requests say so
    SETTLE_TIME = "SettleTime"  # nobody could be asked, and the settle time has passed


class RoutePlace(Struct, frozen=True):
    """The object of a route, whichever router it is for. Its text, `Kind namespace/name`, is in status."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def route_place(text: str) -> RoutePlace | None:
    """Parses the text of a place; None for another text."""
    kind, _, where = text.partition(" ")
    namespace, _, name = where.partition("/")
    return RoutePlace(kind, namespace, name) if kind and namespace and name else None


class RouteName(Struct, frozen=True):
    """One route of a Rollout."""

    router: Annotated[str, "Name of the route's router, as in the spec.", NEEDED]
    kind: Annotated[str, "Kind of the route.", NEEDED]
    namespace: Annotated[str, "Namespace of the route.", NEEDED]
    name: Annotated[str, "Name of the route.", NEEDED]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def place(self) -> RoutePlace:
        """The place of its object."""
        return RoutePlace(self.kind, self.namespace, self.name)


class Pace(Struct, frozen=True, kw_only=True):
    """How often a data plane that does not follow yet is asked: after `first_s`, then after half of the time waited so far.

    Args:
        since_s: since when it is waited for, seconds since 1970.
        first_s, most_s: the shortest and the longest time between an answer and the next question.
    """

    since_s: float
    first_s: float
    most_s: float

    def again_s(self, live: LiveSeen) -> float:
        """When to ask again after the answer `live`, seconds since 1970."""
        return live.at_s + min(self.most_s, max(self.first_s, (live.at_s - self.since_s) / 2))


class LiveSeen(Struct, frozen=True, kw_only=True):
    """The answer of the data plane about a route at `at_s`.

    Args:
        resource_version: the version of the route that the answer is about; it says nothing about another version.
        live: every proxy does what the route says.
        message: which proxy does not, and what it does instead.
        evidence: False when there was nothing to judge by: then `live` is False too, without a meaning.
    """

    at_s: float
    resource_version: str
    live: bool
    by: VerifiedBy
    message: str = ""
    evidence: bool = True


class RouteRefused(Struct, frozen=True, kw_only=True):
    """Why a write of a route was not made at `at_s`: its codec has no words for the split, or the API server refused it.

    Args:
        split: what was to be written; None for the release of the route.
        resource_version: of the route, "" when it was to be created; another version may take the write.
        generation: of the Rollout, whose spec says how the route is written.
        again_s: seconds after which it is tried again, because rights and policies change without an event that we see.
    """

    at_s: float
    split: Split | None
    resource_version: str
    generation: int
    reason: Reason
    message: str
    again_s: float


class RouteSeen(Struct, frozen=True, kw_only=True):
    """A route as its codec read it.

    Args:
        split: what it says; None when it cannot be managed, and `problem` says why and what to do.
        named: the spec names it; else it is here because this Rollout still manages it.
        rewrite_because: why it must be written again from its manifest, which has changed in the spec.
        features: what it supports besides a share; None when its gateways' class was not read yet.
        can_be_asked: there is a data plane to ask whether a split is live; else the controller waits for `settle_s`.
        counted: the answer comes from counters of requests, so it needs requests and time; without requests `settle_s` decides.
        settle_s: within how many seconds every proxy does what the route says, when nobody can be asked.
        live: the data plane's last answer.
        refused: the last write that was refused.
    """

    route: RouteName
    uid: str
    resource_version: str
    split: Split | None
    problem: str = ""
    managed_by: str = ""
    named: bool = True
    rewrite_because: str = ""
    accepted: Acceptance = Acceptance(Answer.UNKNOWN)
    features: frozenset[Feature] | None = frozenset()
    can_be_asked: bool = False
    counted: bool = False
    settle_s: float = SETTLE_S
    live: LiveSeen | None = None
    refused: RouteRefused | None = None


class RouteAbsent(Struct, frozen=True):
    """The API server said at `at_s` that there is no such route, or no such kind (`message`).

    Args:
        ours: the spec has its manifest, and the controller can create it.
        named: the spec names it; else the status records that it was managed by this Rollout.
        refused: why it could not be created.
    """

    route: RouteName
    at_s: float
    message: str = ""
    ours: bool = False
    named: bool = True
    refused: RouteRefused | None = None


class RouteUnasked(Struct, frozen=True):
    """A route that is not watched and was not read yet, or whose answer is too old; `named` as above."""

    route: RouteName
    named: bool = True


Route: TypeAlias = RouteSeen | RouteAbsent | RouteUnasked

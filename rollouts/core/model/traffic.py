"""Where requests go: the split that is wanted, what a route was read to say, and what its data plane was seen to do.

A *route* is whatever object moves requests between the stable and the canary Service: an HTTPRoute, a VirtualService, an Ingress.
Its codec is in `traffic/`; here a route is only a name, what it says, and how far that is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeAlias


class MatchKind(StrEnum):
    """How a text is matched."""

    EXACT = "exact"
    PREFIX = "prefix"
    REGEX = "regex"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A text and how it is matched."""

    kind: MatchKind
    value: str


@dataclass(frozen=True, slots=True)
class NamedMatch:
    """A header, cookie or query parameter of that name with a value that matches. Header names are lower case."""

    name: str
    value: TextMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMatch:
    """Requests for which all of this holds; with nothing given, every request."""

    method: TextMatch | None = None
    path: TextMatch | None = None
    headers: tuple[NamedMatch, ...] = ()
    cookies: tuple[NamedMatch, ...] = ()
    query: tuple[NamedMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class MatchRoute:
    """`setHeaderRoute`: requests that match go to the canary, whatever the weight. `name` is one of `managedRoutes`."""

    name: str
    match: RequestMatch


@dataclass(frozen=True, slots=True)
class MirrorRoute:
    """`setMirrorRoute`: copies of requests that match any of `matches` (of all, when there is none) go to the canary.

    Args:
        percent: how many of them, 1..100.
    """

    name: str
    matches: tuple[RequestMatch, ...] = ()
    percent: int = 100


@dataclass(frozen=True, slots=True)
class Sticky:
    """Clients are told apart by the end of a cookie of theirs, so that each stays where it was sent.

    Args:
        cookie: its name.
        digits: the characters that the ends of its values are made of, each as often as the others.
        seed: which clients come first is drawn from this; the revision, so that it is not always the same ones.
    """

    cookie: str
    digits: str
    seed: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """What a route is to say, or says.

    Args:
        share: of the requests that none of the routes below takes: the canary Service's part, 0..1, exact.
        matches: in the order of `managedRoutes`: the first one that matches wins.
        mirrors: the same.
        whole: False for what was read of an object that says this only in part: rules that disagree (then `share` is the
            largest), or copies of rules that have changed since. Never False in what is wanted, so it always differs.
        idle: so many rules of ours in the object match no request: they are made before requests come to them, and go after they
            went (`traffic/rules/warming.py`). Never in what is wanted, so it always differs.
        sticky: the share is one of clients (`core/routing/stickiness.py`); None for one of requests, drawn each time. Only where
            the share is neither 0 nor 1: there it makes no difference.
    """

    share: Fraction
    matches: tuple[MatchRoute, ...] = ()
    mirrors: tuple[MirrorRoute, ...] = ()
    whole: bool = True
    sticky: Sticky | None = None
    idle: int = 0

    @property
    def reaches_canary(self) -> bool:
        """Some request, or a copy of one, goes to the canary Service."""
        return bool(self.share or self.matches or self.mirrors)


ALL_TO_STABLE = Split(Fraction(0))

IDLE_HEADER = "x-rollouts-idle"
IDLE_VALUE = "never"
"""What an idle rule asks for, and no request has."""


class Feature(StrEnum):
    """What a route may be asked for besides whole percentages of the requests."""

    HEADER = "header"
    HEADER_REGEX = "header-regex"  # or a prefix, which is one where the router has no prefixes
    COOKIE = "cookie"
    SEVERAL_COOKIES = "several-cookies"  # of one request
    QUERY = "query"
    METHOD = "method"
    PATH = "path"
    SEVERAL_CONDITIONS = "several-conditions"  # in one header route
    SEVERAL_ROUTES = "several-routes"  # by header, at the same time
    MIRROR = "mirror"
    MIRROR_PERCENT = "mirror-percent"


def features_needed(split: Split) -> frozenset[Feature]:
    """What a route must be able to do, besides a share, to say `split`."""
    requests = [*(each.match for each in split.matches), *(match for each in split.mirrors for match in each.matches)]
    needed = {Feature.MIRROR} if split.mirrors else set[Feature]()
    if any(each.percent < 100 for each in split.mirrors):
        needed.add(Feature.MIRROR_PERCENT)
    if len(split.matches) > 1:
        needed.add(Feature.SEVERAL_ROUTES)
    if any(_conditions(each.match) > 1 for each in split.matches):
        needed.add(Feature.SEVERAL_CONDITIONS)
    return frozenset(needed.union(*(_of_request(each) for each in requests)))


def _of_request(request: RequestMatch) -> set[Feature]:
    """What a router must know to tell such a request from others."""
    conditions = (
        (Feature.HEADER, request.headers),
        (Feature.COOKIE, request.cookies),
        (Feature.QUERY, request.query),
        (Feature.METHOD, request.method),
        (Feature.PATH, request.path),
        (Feature.SEVERAL_COOKIES, len(request.cookies) > 1),
        (Feature.HEADER_REGEX, any(each.value.kind is not MatchKind.EXACT for each in request.headers)),
    )
    return {feature for feature, condition in conditions if condition}


def _conditions(request: RequestMatch) -> int:
    alone = (request.method is not None) + (request.path is not None)
    return alone + len(request.headers) + len(request.cookies) + len(request.query)


SETTLE_S = 5.0
"""Where nobody can be asked and neither the codec nor the operator says otherwise: proxies that are pushed to (Envoy's) were
measured to take less than half a second, one that polls (Traefik) up to 2 s."""


class Answer(StrEnum):
    """What a status says, or does not."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Whether the route was taken by those it is for, in its latest generation; the message says who has not, and why."""

    answer: Answer
    message: str = ""


class VerifiedBy(StrEnum):
    """How it was found out that a split is in force, the best first; `status.traffic.verifiedBy`."""

    CONFIG = "Config"  # every proxy's own configuration says so
    COUNTERS = "Counters"  # the proxies' counters of requests say so
    PROBES = "Probes"  # requests of our own were answered accordingly
    SETTLE_TIME = "SettleTime"  # nobody could be asked: the declared time went by
    OUTSIDE = "Outside"  # `trafficRouting: {}`: somebody else moves the traffic


@dataclass(frozen=True, slots=True)
class RoutePlace:
    """The object of a route, whichever router it is for. Its text, `Kind namespace/name`, is in status."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def route_place(text: str) -> RoutePlace | None:
    """The place whose text that is; None for another text."""
    kind, _, where = text.partition(" ")
    namespace, _, name = where.partition("/")
    return RoutePlace(kind, namespace, name) if kind and namespace and name else None


@dataclass(frozen=True, slots=True)
class RouteName:
    """One route of a Rollout.

    Args:
        router: name of its provider, as in the spec: `gatewayAPI`, `istio`.
    """

    router: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def place(self) -> RoutePlace:
        """Where its object is."""
        return RoutePlace(self.kind, self.namespace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSeen:
    """What the data plane was found to do with a route at `at_s`.

    Args:
        resource_version: of the route that it was asked about; an answer about another one is worth nothing.
        live: every proxy does what the route says.
        message: which does not, and what it does instead.
        evidence: False when nothing could be told: then `live` is False too, and that says nothing.
    """

    at_s: float
    resource_version: str
    live: bool
    by: VerifiedBy
    message: str = ""
    evidence: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSeen:
    """A route as its codec read it.

    Args:
        split: what it says; None when it cannot be managed, and `problem` says why and what to do.
        managed_by: name of the Rollout that manages it, "" for none.
        named: the spec names it; else it is seen because this Rollout still steers it.
        anew: why it is to be written anew, whatever it says: it is ours, and its manifest in the spec has changed; "" else.
        features: what it may be asked for besides a share; None when its gateways' class is still to be asked.
        can_be_asked: there is a data plane to ask whether a split is live; else `settle_s` are waited.
        counted: its answer is counted from requests, so that it needs some, and time; where none comes `settle_s` hold.
        settle_s: within how many seconds every proxy does what the route says, when nobody can be asked.
        live: the last answer; None when none was asked for or came.
    """

    route: RouteName
    uid: str
    resource_version: str
    split: Split | None
    problem: str = ""
    managed_by: str = ""
    named: bool = True
    anew: str = ""
    accepted: Acceptance = Acceptance(Answer.UNKNOWN)
    features: frozenset[Feature] | None = frozenset()
    can_be_asked: bool = False
    counted: bool = False
    settle_s: float = SETTLE_S
    live: LiveSeen | None = None


@dataclass(frozen=True, slots=True)
class RouteAbsent:
    """The API server said at `at_s` that there is no such route, or no such kind (`message`).

    Args:
        ours: the spec says how to make it, and it can be made.
        named: the spec names it; else the status records that it was managed by this Rollout.
    """

    route: RouteName
    at_s: float
    message: str = ""
    ours: bool = False
    named: bool = True


@dataclass(frozen=True, slots=True)
class RouteUnasked:
    """Not among the routes that are watched, and nobody has asked for it yet, or the answer is too old; `named` as above."""

    route: RouteName
    named: bool = True


Route: TypeAlias = RouteSeen | RouteAbsent | RouteUnasked

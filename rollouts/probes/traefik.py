"""What a Traefik does with a route, read from `/api/rawdata`, its current configuration, which it replaces as a whole.

A router has a rule and leads to a service; a `weighted` service splits among others, down to one for each Kubernetes Service. The
Gateway provider calls these `ROUTER-svc-NAMESPACE-SERVICE-NUMBER`, the other providers `NAMESPACE-SERVICE-PORT`. A `mirroring`
service copies requests.

Source: Traefik v3.7.12 `pkg/api/handler.go`, `pkg/provider/kubernetes/gateway/httproute.go`, `pkg/provider/kubernetes/crd`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from fractions import Fraction
from itertools import chain, islice

import msgspec
from msgspec import Struct

from rollouts.core.model.traffic import MatchKind, TextMatch
from rollouts.ports import LiveQuestion
from rollouts.probes.verdict import Entry, Judgement, RequestCondition, judged

RAW_DATA = "/api/rawdata"

_EVERYTHING = "its configuration"
_OF_GATEWAY_ROUTES = ("httproute-", "grpcroute-")
_DEPTH_MAX = 8  # services within services
_MIRRORS_MAX = 64  # copies of one request; no route has more
_PORT = re.compile(r"(?:(?:http|https|h2c|grpc|tcp)-)?(?:\d{1,5}|http|https|h2c|grpc|web)")
_HEADER = re.compile(r"(Header|HeaderRegexp|Headers|HeadersRegexp)\(`([^`]*)`,\s*`([^`]*)`\)")
_QUERY = re.compile(r"(Query|QueryRegexp)\(`([^`]*)`(?:,\s*`([^`]*)`)?\)")
_PATH = re.compile(r"\b(Path|PathPrefix|PathRegexp)\(`([^`]*)`\)")
_METHOD = re.compile(r"Method\(`([^`]*)`\)")
_QUOTED = re.compile(r'`[^`]*+(?:`|$)|"(?:[^"\\]++|\\.)*+(?:"|$|\\$)')
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")


def live_share(raw: bytes, question: LiveQuestion) -> Judgement:
    """Whether this Traefik follows the route. Raises: msgspec.DecodeError when it is not such an answer."""
    seen = msgspec.json.decode(raw, type=_RawData)
    paths = _Paths(seen.services, question)
    entries: list[Entry] = []
    for name, router in seen.routers.items():
        if name.rpartition("@")[2] == "internal" or router.status == "disabled":
            continue
        path = paths.of(router.service, provider=name.rpartition("@")[2])
        ours = _is_of(name, path.passed, question)
        if ours or (ours is None and path.touches):
            entry = Entry(
                where=f"router {name}",
                group=_EVERYTHING,
                stable=path.weights[0],
                canary=path.weights[1],
                experiments=path.weights[2:],
                conditions=frozenset(_conditions(router.rule)),
                mirror_percents=path.mirrors,
                unknown=f"service {min(path.lost)} is unknown" if path.lost else "",
                path=_request_path(router.rule),
            )
            entries.append(entry)
    return judged(entries, question.split, question.rules)


def side_of_service(name: str, question: LiveQuestion) -> str | None:
    """`stable` or `canary` for the full name of one of this route's two services; None for others and those of other routes."""
    plain = name.partition("@")[0]
    made_of = _is_of(plain, set(), question) if plain.startswith(_OF_GATEWAY_ROUTES) else None
    at = None if made_of is False else _place(plain, _places_of(question))
    return None if at is None else dict(enumerate(("stable", "canary"))).get(at)


def _is_of(name: str, passed: AbstractSet[str], question: LiveQuestion) -> bool | None:
    """Whether a router was made from the route of the question; None when its name does not show that."""
    route = question.route
    names = question.names
    kind = route.kind.lower()
    if kind.endswith("route") and kind.startswith(("http", "grpc")):
        return any(name.startswith(f"{kind}-{_plain(f'{route.namespace}-{own}')}-gw-") for own in names)
    if kind == "traefikservice":
        return any(_plain(f"{route.namespace}-{own}") in passed for own in names)
    return None


class _Path(Struct, frozen=True):
    """Where the requests of a service end, of one request: parts of the Services, copies, and what could not be followed."""

    weights: tuple[Fraction, ...]
    mirrors: tuple[Fraction, ...] = ()
    passed: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()

    @property
    def touches(self) -> bool:
        """Whether it ends at one of the Services."""
        return any(self.weights) or bool(self.mirrors)


class _Paths:
    """The paths of all services. Each is followed once: services in services, seven deep, have more ways than anybody can go."""

    def __init__(self, services: Mapping[str, _Service], question: LiveQuestion) -> None:
        self._services = services
        self._places = _places_of(question)
        self._none = (Fraction(0),) * len(self._places)
        self._known: dict[tuple[str, int], _Path] = {}

    def of(self, name: str, *, provider: str, depth: int = 0) -> _Path:
        """The path of a service. A name without `@` belongs to its parent's provider."""
        full = name if "@" in name else f"{name}@{provider}"
        known = self._known.get((full, depth))
        if known is None:
            known = self._known[full, depth] = self._followed(full, depth)
        return known

    def _followed(self, full: str, depth: int) -> _Path:
        plain, _, provider = full.rpartition("@")
        own = frozenset({plain})
        at = _place(plain, self._places)
        service = self._services.get(full)
        if at is not None:
            return _Path((*self._none[:at], Fraction(1), *self._none[at + 1 :]), passed=own)
        if service is None or depth > _DEPTH_MAX:
            return _Path(self._none, passed=own, lost=frozenset({full}))
        if service.weighted is not None:
            # The scale of the weights themselves is kept, because only the proportion counts.
            total = sum(part.weight for part in service.weighted.services)
            parts = [
                (self.of(part.name, provider=provider, depth=depth + 1), part.weight)
                for part in service.weighted.services
            ]
            return _Path(
                tuple(
                    sum((path.weights[at] * weight for path, weight in parts), Fraction(0)) / (total or 1)
                    for at in range(len(self._none))
                ),
                mirrors=tuple(islice(chain.from_iterable(path.mirrors for path, _ in parts), _MIRRORS_MAX)),
                passed=own.union(*(path.passed for path, _ in parts)),
                lost=frozenset().union(*(path.lost for path, weight in parts if weight and total)),
            )
        if service.mirroring is not None:
            main = self.of(service.mirroring.service, provider=provider, depth=depth + 1)
            copies = [
                Fraction(mirror.percent)
                for mirror in service.mirroring.mirrors or ()
                if mirror.percent and _place(mirror.name.partition("@")[0], self._places) == 1
            ]
            mirrors = (*main.mirrors, *copies)[:_MIRRORS_MAX]
            return _Path(main.weights, mirrors, main.passed | own, main.lost)
        return _Path(self._none, passed=own)


def _places_of(question: LiveQuestion) -> Mapping[str, int]:
    """The Services of the question, the stable one first, by the names that Traefik makes theirs of."""
    return {"-".join(each): at for at, each in enumerate(question.services)}


def _place(plain: str, places: Mapping[str, int]) -> int | None:
    """Which of the Services a service stands for: the longest name that fits, because `cart-canary` begins with `cart`."""
    fits = []
    for service in places:
        prefix = f"{_plain(service)}-"
        by_port = plain.startswith(prefix) and _PORT.fullmatch(plain.removeprefix(prefix)) is not None
        if by_port or re.search(f"-svc-{re.escape(service)}-\\d+$", plain):
            fits.append(service)
    return places[max(fits, key=len)] if fits else None


def _conditions(rule: str) -> Iterator[RequestCondition]:
    rule = _QUOTED.sub(_unquoted, rule)
    for word, name, value in _HEADER.findall(rule):
        yield RequestCondition(name.lower(), value if not word.endswith("Regexp") else None)
    for word, name, value in _QUERY.findall(rule):
        yield RequestCondition(name, value if word == "Query" else None, query=True)
    for value in _METHOD.findall(rule):
        yield RequestCondition(":method", value)


def _request_path(rule: str) -> TextMatch | None:
    """The paths that a rule takes; None for all of them. The Gateway provider writes a prefix as `Path(p) || PathPrefix(p/)`."""
    words = dict(reversed(_PATH.findall(_QUOTED.sub(_unquoted, rule))))
    for word, kind in (("PathPrefix", MatchKind.PREFIX), ("PathRegexp", MatchKind.REGEX), ("Path", MatchKind.EXACT)):
        if word in words:
            return None if (word, words[word]) == ("PathPrefix", "/") else TextMatch(kind, words[word])
    return None


def _unquoted(text: re.Match[str]) -> str:
    """The text without quotes. The Gateway provider writes texts as Go does, `"a\\"b"`; people write them between backticks."""
    if text[0].startswith("`"):
        return text[0]
    try:
        return f"`{msgspec.json.decode(text[0])}`"
    except msgspec.DecodeError:  # an escape sequence that only Go has
        return f"`{text[0][1:-1]}`"


def _plain(name: str) -> str:
    """The name as Traefik writes it: everything except letters and digits becomes one `-`."""
    return _NOT_PLAIN.sub("-", name.lower()).strip("-")


class _Weighted(msgspec.Struct):
    name: str = ""
    weight: int = 1


class _WeightedService(msgspec.Struct):
    services: list[_Weighted] = msgspec.field(default_factory=list)


class _Mirror(msgspec.Struct):
    name: str = ""
    percent: int = 0


class _MirroringService(msgspec.Struct):
    service: str = ""
    mirrors: list[_Mirror] | None = None


class _Service(msgspec.Struct, rename="camel"):
    weighted: _WeightedService | None = None
    mirroring: _MirroringService | None = None


class _Router(msgspec.Struct):
    service: str = ""
    rule: str = ""
    status: str = ""


class _RawData(msgspec.Struct):
    routers: dict[str, _Router] = msgspec.field(default_factory=dict)
    services: dict[str, _Service] = msgspec.field(default_factory=dict)

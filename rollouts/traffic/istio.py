"""Istio: weights of `route[].destination` in the http, tls and tcp routes of a VirtualService. Settings as Argo Rollouts' are.

Routes are tried in order, so a managed route stands right before the one that it copies. Destinations of others stay as they are.
Source: istio.io/api v1.28, networking/v1 VirtualService: weights are relative, and one destination alone needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rollouts.core.traffic import Answer, Feature, MatchKind, MirrorRoute, NamedMatch, RequestMatch, TextMatch, Verdict
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.codec import Context, Objects, Target
from rollouts.traffic.settings import Settings
from rollouts.traffic.steering import Dialect, Path, Rules, Side
from rollouts.traffic.text_matches import both, cookie_pattern

KINDS = tuple(
    Kind("networking.istio.io", version, "VirtualService", "virtualservices")
    for version in ("v1", "v1beta1", "v1alpha3")
)
_LISTS = ("http", "tls", "tcp")
_HTTP_FEATURES = frozenset(Feature)


@dataclass(frozen=True, slots=True)
class _VirtualService(Dialect):
    backends: ClassVar[str] = "route"
    weight_most: ClassVar[int] = 2**31 - 1
    weight_alone: ClassVar[int] = 100

    def lists(self, user: Manifest) -> tuple[Path, ...]:
        return tuple(("spec", name) for name in _LISTS)

    def is_named(self, rule: Manifest, path: Path, name: str) -> bool:
        kind, _, rest = name.partition(" ")
        if kind != path[-1]:
            return False
        if kind == "http":
            return bool(rule.get("name") == rest)
        port, _, hosts = rest.partition(" ")
        return any(
            (not port or str(each.get("port", "")) == port)
            and set(filter(None, hosts.split(","))) <= set(each.get("sniHosts") or ())
            for each in rule.get("match") or ()
        )

    def side(self, backend: Manifest) -> Side | None:
        service, *rest = str(backend.get("destination", {}).get("host", "")).split(".")
        namespace = rest[0] if rest else self.target.namespace
        if namespace != self.context.namespace or rest[1:2] not in ([], ["svc"]):
            return None
        sides = {self.context.stable_service: Side.STABLE, self.context.canary_service: Side.CANARY}
        return sides.get(service)

    def beside(self, stable: Manifest) -> Manifest:
        host = str(stable["destination"]["host"]).replace(self.context.stable_service, self.context.canary_service, 1)
        return {**self._weighted(stable, None), "destination": {**stable["destination"], "host": host}}

    def takes_requests(self, path: Path) -> bool:
        return path[-1] == "http"

    def weight_of(self, backend: Manifest, rule: Manifest) -> int:
        found = backend.get("weight")
        return int(found) if found else 100 if len(rule["route"]) == 1 else 0

    def identity(self, rule: Manifest) -> Any:
        return [rule.get(name) for name in ("name", "match", "mirror", "mirrors")]

    def narrowed(self, rule: Manifest, matches: Sequence[RequestMatch], name: str) -> Manifest | None:
        if not matches:
            return {**rule, "name": name}
        found = [_narrower(own, want) for own in rule.get("match") or [{}] for want in matches]
        kept = [each for each in found if each is not None]
        return {**rule, "name": name, "match": kept} if kept else None

    def mirrored(self, rule: Manifest, mirror: MirrorRoute, canary: Manifest) -> Manifest:
        if "mirror" in rule:
            raise Unroutable("a route mirrors already; write it as mirrors, which holds several")
        to, percent = canary["destination"], {"value": float(mirror.percent)}
        if "mirrors" in rule:
            return {**rule, "mirrors": [*rule["mirrors"], {"destination": to, "percentage": percent}]}
        return {**rule, "mirror": to, "mirrorPercentage": percent}


class _Istio(Rules):
    name = "istio"

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = Settings(settings)
        one = read.part("virtualService")
        services = [each for each in (one, *read.parts("virtualServices")) if each is not None]
        found = [_target(each, namespace) for each in services]
        if read.part("destinationRule") is not None:
            read.refuse("destinationRule", "subsets are not steered; name two Services as hosts in the VirtualService")
        if not services:
            read.refuse("virtualService", "is required")
        read.done()
        return tuple(found)

    def dialect(self, target: Target, context: Context) -> Dialect:
        return _VirtualService(target, context)

    def features(self, objects: Objects, target: Target) -> frozenset[Feature]:
        return _HTTP_FEATURES if (objects.user.get("spec") or {}).get("http") else frozenset()

    def accepted(self, objects: Objects, target: Target) -> Verdict:
        """Istio writes no status unless it is told to (PILOT_ENABLE_STATUS): what is invalid its webhook has refused."""
        return Verdict(Answer.YES)

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        named = (objects.user.get("spec") or {}).get("gateways") or ()
        return tuple(each if "/" in each else f"{target.namespace}/{each}" for each in named if each != "mesh")


def _target(read: Settings, namespace: str) -> Target:
    """`name` may be `name.namespace`, as Argo Rollouts has it."""
    name, _, elsewhere = read.text("name", needed=True).partition(".")
    named = [f"http {each}" for each in read.texts("routes")]
    for kind, field in (("tls", "tlsRoutes"), ("tcp", "tcpRoutes")):
        for route in read.parts(field):
            hosts = ",".join(route.texts("sniHosts"))
            named.append(f"{kind} {route.number('port') or ''} {hosts}".rstrip())
            route.done()
    read.done()
    return Target(kinds=KINDS, namespace=elsewhere or namespace, name=name, options={"rules": tuple(named)})


def _narrower(own: Manifest, want: RequestMatch) -> Manifest | None:
    """One match that holds for the requests of both; None when there are none."""
    cookies = (NamedMatch("cookie", TextMatch(MatchKind.REGEX, cookie_pattern(each))) for each in want.cookies)
    headers = [*want.headers, *cookies]
    found = dict(own)
    for field, text in (("uri", want.path), ("method", want.method)):
        if text is not None and not _add(found, field, text):
            return None
    for field, named in (("headers", headers), ("queryParams", want.query)):
        conditions = dict(own.get(field) or {})
        for each in named:
            if not _add(conditions, each.name, each.value):
                return None
        found |= {field: conditions} if conditions else {}
    return found


def _add(conditions: Manifest, name: str, want: TextMatch) -> bool:
    own = conditions.get(name)
    has = next((TextMatch(kind, own[kind.value]) for kind in MatchKind if own and kind.value in own), None)
    text = both(has, want, of=name)
    if text is not None:
        conditions[name] = {text.kind.value: text.value}
    return text is not None


PROVIDER = _Istio()

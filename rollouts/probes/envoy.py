"""What an Envoy does with a route, read from its admin interface, for the controllers that write Envoy's configuration.

Two dumps are read, of routes and of endpoints; both show what is in effect, not what was sent. The weights are in two places:

* Contour: `weighted_clusters` of the route's action; a cluster is one Service, `NAMESPACE/SERVICE/PORT/HASH`; the metadata of the
  route (`io.projectcontour.*`) names the HTTPRoute or HTTPProxy.
* Envoy Gateway: one cluster for each rule, whose endpoints are in localities with weights. A locality's region is
  `httproute/NAMESPACE/NAME/rule/N/backend/M`: the M-th backend of the N-th rule, so the route's object is needed to find the
  Service. A backend of weight 0 is missing. Backends that cannot share a cluster each have one, of that name, in
  `weighted_clusters`. Copies of requests go to `…/rule/N-mirror-F`, where F is the number of the filter.

Source: Envoy v1.40 `admin/v3/config_dump.proto`, `config/route/v3`, `config/endpoint/v3`; Envoy Gateway v1.9.1
`internal/gatewayapi/helpers.go`, `internal/xds/translator`; Contour v1.33.8 `internal/envoy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import quote

import msgspec

from rollouts.core.model.traffic import MatchKind, TextMatch
from rollouts.ports import LiveQuestion
from rollouts.probes.verdict import Entry, Judgement, RequestCondition, judged

ROUTES = "/config_dump?resource=dynamic_route_configs"
_ENDPOINTS = "/config_dump?include_eds&resource=dynamic_endpoint_configs&name_regex="

_DENOMINATORS = {"HUNDRED": 100, "TEN_THOUSAND": 10_000, "MILLION": 1_000_000}
_PARTS = 4  # in the name of a cluster that names a Service
_PORT_DIGITS = 5
_PLACE = re.compile(r"([a-z]+route)/([^/]+)/([^/]+)/rule/(\d+)(?:-mirror-(\d+))?(?:/backend/(-?\d+))?")

NamespacedService = tuple[str, str]
"""Namespace and name."""


def endpoints_path(question: LiveQuestion) -> str:
    """The path for the endpoints of the route's clusters only, because a gateway has thousands.

    Only Envoy Gateway's clusters are needed; their names begin with the route's.
    """
    names = "|".join(sorted(question.names))
    return _ENDPOINTS + quote(f"[a-z]+route/{question.route.namespace}/({names})/.*", safe="")


def live_share(routes: bytes, endpoints: bytes, question: LiveQuestion) -> Judgement:
    """Whether this Envoy follows the route.

    Args:
        endpoints: body of `endpoints_path`; empty when no cluster has such a name.

    Raises: msgspec.DecodeError when a body is not such a dump.
    """
    dump = msgspec.json.decode(endpoints or b"{}", type=_EndpointDump)
    assignments = {found.endpoint_config.cluster_name: found.endpoint_config for found in dump.configs}
    return judged(list(_entries(routes, assignments, question)), question.split, question.rules)


def service_of_cluster(cluster: str) -> NamespacedService | None:
    """The Service in `NAMESPACE/SERVICE/PORT/HASH` (Contour) or `service/NAMESPACE/SERVICE/PORT` (Envoy Gateway), or None."""
    parts = cluster.split("/")
    if parts[0] == "service" and len(parts) >= _PARTS and parts[3].isdigit() and len(parts[3]) <= _PORT_DIGITS:
        return parts[1], parts[2]
    return (parts[0], parts[1]) if len(parts) == _PARTS and all(parts) else None


def _entries(routes: bytes, assignments: Mapping[str, _Assignment], question: LiveQuestion) -> Iterator[Entry]:
    dump = msgspec.json.decode(routes, type=_RouteDump)
    for config in (found.route_config for found in dump.configs):
        routes_of_config = (
            (route, route.name or f"route {index} of {config.name}/{host.name}")
            for host in config.virtual_hosts
            for index, route in enumerate(host.routes)
        )
        for route, where in routes_of_config:
            origin = _origin(route)
            ours = origin is not None and origin[0] == question.route.namespace and origin[1] in question.names
            if origin is not None and not ours:
                continue
            entry = _entry(route, assignments, question, where=where, group=config.name)
            if ours or entry.shares or entry.mirror_percents:
                yield entry


def _origin(route: _Route) -> NamespacedService | None:
    """Namespace and name of the object that the entry was made from; None when it does not show that."""
    for known in (
        route.metadata.filter_metadata.get(origin) for origin in ("envoy-gateway", "envoy.access_loggers.file")
    ):
        if known is None:
            continue
        if (found := _first_resource(known)) is not None:
            return found
        namespace, name = known.get("io.projectcontour.namespace"), known.get("io.projectcontour.name")
        if isinstance(namespace, str) and isinstance(name, str):
            return namespace, name
    named = _PLACE.match(route.name)
    return (named[2], named[3]) if named is not None else None


def _entry(
    route: _Route, assignments: Mapping[str, _Assignment], question: LiveQuestion, *, where: str, group: str
) -> Entry:
    stable, canary, *experiments = question.services
    weights: dict[NamespacedService | None, Fraction] = {}
    action = route.route or _Action()  # without one it is a redirect, or a direct response
    clusters = [(action.cluster, Fraction(1))] if action.cluster else []
    if action.weighted_clusters is not None:
        clusters += [(part.name, Fraction(part.weight)) for part in action.weighted_clusters.clusters]
    for cluster, weight in clusters:
        behind = _services_of(cluster, assignments, question)
        total = sum(behind.values(), start=Fraction(0))
        for service, part in behind.items():
            weights[service] = weights.get(service, Fraction(0)) + (weight * part / total if total else Fraction(0))
    mirrors = tuple(
        policy.percent
        for policy in action.request_mirror_policies
        # One to a Service that cannot be known may be a mirror of a version before, which had a filter more.
        if {canary, None} & _services_of(policy.cluster, assignments, question).keys()
    )
    by_name = any(
        service_of_cluster(cluster) for cluster, _ in clusters
    )  # Contour's, which has those of weight 0 as well
    absent = None if by_name else Fraction(0)
    lost = None in weights and (weights[None] > 0 or len(weights) == 1)
    return Entry(
        where=where,
        group=group,
        stable=weights.get(stable, Fraction(0)),
        canary=weights.get(canary, Fraction(0)),
        experiments=tuple([weights.get(each, absent) for each in experiments]),
        conditions=frozenset(_conditions(route.match)),
        mirror_percents=mirrors,
        unknown="the Service of its endpoints cannot be known" if lost else "",
        path=_path(route.match),
        redirects=route.redirect is not None,
    )


def _services_of(
    cluster: str, assignments: Mapping[str, _Assignment], question: LiveQuestion
) -> Mapping[NamespacedService | None, Fraction]:
    """The Services behind a cluster, with their weights; None stands for unknown ones."""
    named = service_of_cluster(cluster) or _service_at(cluster, question)
    if named is not None:
        return {named: Fraction(1)}
    assignment = assignments.get(cluster)
    weights: dict[NamespacedService | None, Fraction] = {}
    localities = assignment.endpoints if assignment is not None else []
    # Envoy does not distinguish localities without weights: then each host's own weight counts.
    by_locality = any(locality.load_balancing_weight is not None for locality in localities)
    for locality in localities:
        total = sum(lb_endpoint.weight for lb_endpoint in locality.lb_endpoints)
        share = Fraction(locality.load_balancing_weight or 0) if by_locality else Fraction(total)
        for lb_endpoint in locality.lb_endpoints:
            service = lb_endpoint.service or locality.service or _service_at(locality.locality.region, question)
            weights[service] = weights.get(service, Fraction(0)) + share * Fraction(lb_endpoint.weight, total)
    return weights or {None: Fraction(1)}


def _service_at(place: str, question: LiveQuestion) -> NamespacedService | None:
    """The Service at a place in a rule of the route: `httproute/shop/cart/rule/0/backend/1`, `…/rule/0-mirror-1`."""
    found = _PLACE.fullmatch(place)
    if found is None or (found[5] is None and found[6] is None) or found[2] != question.route.namespace:
        return None
    kind, name, rule_index, mirror, backend = found[1], found[3], int(found[4]), found[5], found[6]
    for manifest in question.objects:
        if str(manifest.get("kind", "")).lower() != kind or manifest.get("metadata", {}).get("name") != name:
            continue
        try:
            rule = manifest["spec"]["rules"][rule_index]
            ref = (
                rule["filters"][int(mirror)]["requestMirror"]["backendRef"]
                if mirror
                else rule["backendRefs"][int(backend)]
            )
            namespace, service = ref.get("namespace", question.route.namespace), ref["name"]
        except (KeyError, IndexError, TypeError, AttributeError):
            return None
        kind = ref.get("kind", "Service")
        # Another kind of backend is known not to be one of the two Services: no namespace has a space in its name.
        return (namespace, service) if kind == "Service" else (f"{kind} in {namespace}", service)
    return None


def _path(match: _Match) -> TextMatch | None:
    """The paths that an entry takes; None for all of them, and for what Envoy has no words for here."""
    if match.path:
        return TextMatch(MatchKind.EXACT, match.path)
    if match.safe_regex is not None:
        return TextMatch(MatchKind.REGEX, match.safe_regex.regex)
    prefix = match.path_separated_prefix or match.prefix
    return TextMatch(MatchKind.PREFIX, prefix) if prefix not in ("", "/") else None


def _conditions(match: _Match) -> Iterator[RequestCondition]:
    for header in match.headers:
        text = header.string_match
        exact = header.exact_match if text is None else text.exact
        yield RequestCondition(header.name.lower(), exact)
    for parameter in match.query_parameters:
        text = parameter.string_match
        yield RequestCondition(parameter.name, None if text is None else text.exact, query=True)


def _first_resource(metadata: Mapping[str, Any]) -> NamespacedService | None:
    """The first of Envoy Gateway's `resources: [{kind, namespace, name}]`."""
    resources = metadata.get("resources")
    first = resources[0] if isinstance(resources, list) and resources else None
    if not isinstance(first, dict):
        return None
    namespace, name = first.get("namespace"), first.get("name")
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else None


class _Metadata(msgspec.Struct):
    filter_metadata: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class _StringMatch(msgspec.Struct):
    exact: str | None = None


class _HeaderMatch(msgspec.Struct):
    name: str = ""
    exact_match: str | None = None
    string_match: _StringMatch | None = None


class _Regex(msgspec.Struct):
    regex: str = ""


class _Match(msgspec.Struct):
    prefix: str = ""
    path_separated_prefix: str = ""
    path: str = ""
    safe_regex: _Regex | None = None
    headers: list[_HeaderMatch] = msgspec.field(default_factory=list)
    query_parameters: list[_HeaderMatch] = msgspec.field(default_factory=list)


class _Percentage(msgspec.Struct):
    numerator: int = 0
    denominator: str = "HUNDRED"


class _RuntimeFraction(msgspec.Struct):
    default_value: _Percentage = msgspec.field(default_factory=_Percentage)


class _MirrorPolicy(msgspec.Struct):
    cluster: str = ""
    runtime_fraction: _RuntimeFraction | None = None

    @property
    def percent(self) -> Fraction:
        if self.runtime_fraction is None:
            return Fraction(100)
        value = self.runtime_fraction.default_value
        return Fraction(100 * value.numerator, _DENOMINATORS.get(value.denominator, 100))


class _ClusterWeight(msgspec.Struct):
    name: str = ""
    weight: int = 0


class _WeightedClusters(msgspec.Struct):
    clusters: list[_ClusterWeight] = msgspec.field(default_factory=list)


class _Action(msgspec.Struct):
    cluster: str = ""
    weighted_clusters: _WeightedClusters | None = None
    request_mirror_policies: list[_MirrorPolicy] = msgspec.field(default_factory=list)


class _Route(msgspec.Struct):
    name: str = ""
    match: _Match = msgspec.field(default_factory=_Match)
    route: _Action | None = None
    redirect: dict[str, Any] | None = None
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _VirtualHost(msgspec.Struct):
    name: str = ""
    routes: list[_Route] = msgspec.field(default_factory=list)


class _RouteConfig(msgspec.Struct):
    name: str = ""
    virtual_hosts: list[_VirtualHost] = msgspec.field(default_factory=list)


class _DynamicRouteConfig(msgspec.Struct):
    route_config: _RouteConfig


class _RouteDump(msgspec.Struct):
    configs: list[_DynamicRouteConfig] = msgspec.field(default_factory=list)


class _Origin(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)

    @property
    def service(self) -> NamespacedService | None:
        """The Service that Envoy Gateway took it from, if Envoy shows the metadata."""
        return _first_resource(self.metadata.filter_metadata.get("envoy-gateway", {}))


class _LbEndpoint(_Origin):
    load_balancing_weight: int | None = None

    @property
    def weight(self) -> int:
        """The weight, at least 1, as in Envoy."""
        return self.load_balancing_weight or 1


class _Place(msgspec.Struct):
    region: str = ""


class _Locality(_Origin):
    locality: _Place = msgspec.field(default_factory=_Place)
    lb_endpoints: list[_LbEndpoint] = msgspec.field(default_factory=list)
    load_balancing_weight: int | None = None


class _Assignment(msgspec.Struct):
    cluster_name: str = ""
    endpoints: list[_Locality] = msgspec.field(default_factory=list)


class _DynamicEndpoints(msgspec.Struct):
    endpoint_config: _Assignment


class _EndpointDump(msgspec.Struct):
    configs: list[_DynamicEndpoints] = msgspec.field(default_factory=list)

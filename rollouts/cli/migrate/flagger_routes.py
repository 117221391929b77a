"""The route of a Flagger Canary, which Flagger made, as an object of its own; and the requests that a match chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.migrate.flagger_canary import FlaggerCanary
from rollouts.cli.migrate.outcome import Ref, Told, ref_of
from rollouts.objects import Kind, Manifest, mapping
from rollouts.traffic.contour.codec import KINDS as CONTOUR
from rollouts.traffic.gateway_api.settings import ROUTE_KINDS
from rollouts.traffic.gloo import KINDS as GLOO
from rollouts.traffic.istio.settings import SERVICE_KINDS
from rollouts.traffic.istio.subsets import RULE_KINDS
from rollouts.traffic.nginx.settings import INGRESS_KINDS
from rollouts.traffic.traefik import KINDS as TRAEFIK

_MADE = {
    "gatewayAPI": ROUTE_KINDS["httpRoutes"][0],
    "istio": SERVICE_KINDS[0],
    "contour": CONTOUR[0],
    "traefik": TRAEFIK[0],
    "gloo": GLOO[0],
}
"""By router: the kind of the route that Flagger makes; with the others it changes one of the user's."""

_KINDS_OF_MATCH = ("exact", "prefix", "regex")
_PATH_TYPES = {"exact": "Exact", "prefix": "PathPrefix", "regex": "RegularExpression"}


def routing_of(canary: FlaggerCanary, router: str) -> Manifest:
    """What the Rollout says of its router."""
    ingress = str(mapping(canary.spec.get("ingressRef")).get("name") or canary.apex)
    route = str(mapping(canary.spec.get("routeRef")).get("name") or canary.apex)
    by_router: dict[str, Manifest] = {
        "gatewayAPI": {"httpRoutes": [{"name": canary.apex}]},
        "istio": {"virtualService": {"name": canary.apex}},
        "nginx": {"stableIngress": ingress},
        "contour": {"httpProxies": [{"name": canary.apex}]},
        "traefik": {"weightedTraefikServiceName": canary.apex},
        "apisix": {"route": {"name": route}},
        "gloo": {"routeTables": [{"name": canary.apex}]},
        "skipper": {"ingress": ingress},
    }
    return by_router[router]


def add_route(canary: FlaggerCanary, router: str, *, by_backend: bool) -> None:
    """Adds the route, unless the files have it.

    Args:
        by_backend: the analysis counts by backends, so Envoy Gateway has to tell them apart (docs/analysis-templates.md).
    """
    kind, of = _MADE.get(router), _RouteSpec(canary)
    if router == "skipper":
        of.note_second_backend()
    if kind is None:
        return
    there = canary.migration.named(of.ref(kind))
    builders = {
        "gatewayAPI": of.gateway_api,
        "istio": of.istio,
        "contour": of.contour,
        "traefik": of.traefik,
        "gloo": of.gloo,
    }
    spec, paths = builders[router]()
    route = there or _object(canary, kind, canary.apex, spec)
    canary.moved(route, {f"spec.service.{name}": to for name, to in paths.items()})
    if router == "istio":
        of.add_destination_rules()
    if there is None:
        given = mapping(canary.service.get("apex"))
        route["metadata"] |= {name: given[name] for name in ("labels", "annotations") if given.get(name)}
        canary.migration.add(route, canary.manifest)
        git = "Flagger made it; it belongs in Git now (`rollouts gitops` prints the fields that Argo CD and Flux must ignore)"
        canary.note(Told.CHANGED, "spec.provider", f"{kind.kind} {canary.apex} comes out: {git}")
    if by_backend and there is None:
        header = {"set": [{"name": "served-by", "value": "canary"}]}
        marks = [{"type": "ResponseHeaderModifier", "responseHeaderModifier": header}]
        spec["rules"][0]["backendRefs"][1]["filters"] = marks
    elif by_backend:
        how = "give its backendRef of the canary a filter, or nothing counts its answers"
        canary.migration.note(Told.TO_DO, route, "spec.rules", how)


def header_matches(canary: FlaggerCanary, match: Mapping[str, Any], path: str) -> list[Manifest]:
    """The conditions of a header route for one match of an A/B test: all of them have to hold."""
    conditions: list[Manifest] = []
    nginx = canary.spec.get("provider") == "nginx"
    for name, value in mapping(match.get("headers")).items():
        at, how = f"{path}.headers.{name}", _text_match(value)
        if how is None:
            canary.note(Told.LEFT_OUT, at, "only exact, prefix and regex can be matched")
        elif nginx and name == "cookie" and "exact" in how:
            conditions.append({"cookieName": how["exact"], "cookieValue": {"exact": "always"}})
        else:
            conditions.append({"headerName": name, "headerValue": how})
    for name, value in mapping(match.get("queryParams")).items():
        if (how := _text_match(value)) is not None:
            conditions.append({"queryParamName": name, "queryParamValue": how})
    for name, field in (("uri", "path"), ("method", "method")):
        if (how := _text_match(match.get(name))) is not None:
            conditions.append({field: how})
    return conditions


def _object(canary: FlaggerCanary, kind: Kind, name: str, spec: Manifest) -> Manifest:
    return {**kind.head, "metadata": {"name": name, **canary.namespace}, "spec": spec}


def _text_match(value: object) -> Manifest | None:
    found = {key: text for key, text in mapping(value).items() if key in _KINDS_OF_MATCH}
    return found if len(found) == 1 else None


def _route_match(match: Mapping[str, Any]) -> Manifest:
    found: Manifest = {}
    if (path := _text_match(match.get("uri"))) is not None:
        ((how, value),) = path.items()
        found["path"] = {"type": _PATH_TYPES[how], "value": value}
    for name in ("headers", "queryParams"):
        given = {key: _text_match(value) for key, value in mapping(match.get(name)).items()}
        kinds = {"exact": "Exact", "regex": "RegularExpression"}
        listed = [
            {"name": key, "type": kinds[how], "value": text}
            for key, value in given.items()
            for how, text in (value or {}).items()
            if how in kinds
        ]
        found |= {name: listed} if listed else {}
    if exact := mapping(match.get("method")).get("exact"):
        found["method"] = exact
    return found


def _header_changes(service: Mapping[str, Any], side: str) -> Manifest:
    changes = mapping(mapping(service.get("headers")).get(side))
    change: Manifest = {
        verb: [{"name": name, "value": value} for name, value in mapping(changes.get(verb)).items()]
        for verb in ("set", "add")
        if changes.get(verb)
    }
    return change | ({"remove": changes["remove"]} if changes.get("remove") else {})


class _RouteSpec(Struct, frozen=True):
    """The spec of a Canary's route, and where in it the fields of `spec.service` are, for each router."""

    canary: FlaggerCanary

    def istio(self) -> tuple[Manifest, Mapping[str, str]]:
        same = ("match", "rewrite", "timeout", "retries", "corsPolicy", "headers")
        service = self.canary.service
        destinations = [{"destination": {"host": each["name"]}, "weight": each["weight"]} for each in self.backends()]
        spec: Manifest = {
            "http": [{**{name: service[name] for name in same if service.get(name)}, "route": destinations}]
        }
        if service.get("delegation"):
            self.canary.note(Told.CHANGED, "spec.service.delegation", "a VirtualService without hosts and gateways")
            return spec, {name: f"spec.http[0].{name}" for name in same}
        given = {name: service.get(name) for name in ("hosts", "gateways")}
        hosts, gateways = (list(map(str, each)) if isinstance(each, list) else [] for each in given.values())
        spec = {
            "hosts": hosts if {self.canary.apex, "*"} & set(hosts) else [*hosts, self.canary.apex],
            "gateways": gateways if "mesh" in gateways else [*gateways, "mesh"],
            **spec,
        }
        return spec, {
            "hosts": "spec.hosts",
            "gateways": "spec.gateways",
            **{name: f"spec.http[0].{name}" for name in same},
        }

    def gateway_api(self) -> tuple[Manifest, Mapping[str, str]]:
        service = self.canary.service
        parents = service.get("gatewayRefs")
        if self.canary.is_in_mesh:
            parents = [{"group": "", "kind": "Service", "name": self.canary.apex, "port": service.get("port", 80)}]
        elif not parents and self.canary.migration.named(self.ref(_MADE["gatewayAPI"])) is None:
            self.canary.note(
                Told.TO_DO, "spec.service.gatewayRefs", "no gatewayRefs: write the parentRefs of the HTTPRoute"
            )
        rule: Manifest = {}
        matches = [_route_match(match) for _, match in entries(service.get("match"))]
        if matches:
            rule["matches"] = matches
        filters = self.filters()
        if filters:
            rule["filters"] = filters
        if service.get("timeout"):
            rule["timeouts"] = {"request": service["timeout"]}
        spec: Manifest = {} if not parents else {"parentRefs": parents}
        if service.get("hosts") and not self.canary.is_in_mesh:
            spec["hostnames"] = service["hosts"]
        spec["rules"] = [{**rule, "backendRefs": self.backends()}]
        to = {"match": "spec.rules[0].matches", "headers": "spec.rules[0].filters", "rewrite": "spec.rules[0].filters",
              "mirror": "spec.rules[0].filters", "timeout": "spec.rules[0].timeouts", "gatewayRefs": "spec.parentRefs",
              "hosts": "spec.hostnames"}  # fmt: skip
        return spec, to

    def contour(self) -> tuple[Manifest, Mapping[str, str]]:
        """Without a virtual host: the user's own HTTPProxy includes it, as with Flagger."""
        service = self.canary.service
        prefixes = [mapping(match.get("uri")).get("prefix") for _, match in entries(service.get("match"))]
        route: Manifest = {"conditions": [{"prefix": next(filter(None, prefixes), "/")}], "services": self.backends()}
        if service.get("timeout"):
            route["timeoutPolicy"] = {"response": service["timeout"]}
        retries = mapping(service.get("retries"))
        if retries:
            named = {"attempts": "count", "perTryTimeout": "perTryTimeout"}
            route["retryPolicy"] = {to: retries[name] for name, to in named.items() if retries.get(name)}
        if uri := mapping(service.get("rewrite")).get("uri"):
            route["pathRewritePolicy"] = {"replacePrefix": [{"replacement": uri}]}
        to = {
            "match": "conditions",
            "timeout": "timeoutPolicy",
            "retries": "retryPolicy",
            "rewrite": "pathRewritePolicy",
        }
        return {"routes": [route]}, {name: f"spec.routes[0].{at}" for name, at in to.items()}

    def traefik(self) -> tuple[Manifest, Mapping[str, str]]:
        return {"weighted": {"services": self.backends()}}, {}

    def gloo(self) -> tuple[Manifest, Mapping[str, str]]:
        destinations = [
            {
                "destination": {"kube": {"ref": {"name": each["name"], **self.canary.namespace}, "port": each["port"]}},
                "weight": each["weight"],
            }
            for each in self.backends()
        ]
        route: Manifest = {"inheritablePathMatchers": True, "routeAction": {"multi": {"destinations": destinations}}}
        if self.canary.service.get("timeout"):
            route["options"] = {"timeout": self.canary.service["timeout"]}
        return {"routes": [route]}, {"timeout": "spec.routes[0].options"}

    def backends(self) -> list[Manifest]:
        port = self.canary.service.get("port", 80)
        return [{"name": name, "port": port, "weight": weight}
                for name, weight in ((self.canary.apex, 100), (self.canary.canary_service, 0))]  # fmt: skip

    def filters(self) -> list[Manifest]:
        service = self.canary.service
        changes = ((side, _header_changes(service, side)) for side in ("request", "response"))
        found = [
            {"type": f"{side.title()}HeaderModifier", f"{side}HeaderModifier": change}
            for side, change in changes
            if change
        ]
        rewrite = mapping(service.get("rewrite"))
        url: Manifest = {"hostname": rewrite["authority"]} if rewrite.get("authority") else {}
        if rewrite.get("uri"):
            full = rewrite.get("type") == "ReplaceFullPath"
            kind, field = (
                ("ReplaceFullPath", "replaceFullPath") if full else ("ReplacePrefixMatch", "replacePrefixMatch")
            )
            url["path"] = {"type": kind, field: rewrite["uri"]}
        if url:
            found.append({"type": "URLRewrite", "urlRewrite": url})
        return found + [{"type": "RequestMirror", "requestMirror": each} for _, each in entries(service.get("mirror"))]

    def add_destination_rules(self) -> None:
        canary, policy = self.canary, self.canary.service.get("trafficPolicy")
        for host in (canary.apex, canary.canary_service) if policy else ():
            rule = _object(canary, RULE_KINDS[0], host, {"host": host, "trafficPolicy": policy})
            canary.migration.add(rule, canary.manifest)
            canary.moved(rule, {"spec.service.trafficPolicy": "spec.trafficPolicy"})

    def note_second_backend(self) -> None:
        """Skipper weighs the backends that a path has."""
        canary = self.canary
        ingress = str(mapping(canary.spec.get("ingressRef")).get("name") or canary.apex)
        if canary.migration.named(self.ref(INGRESS_KINDS[0], ingress)) is None:
            what = f"give each path of Ingress {ingress} Service {canary.canary_service} as a second backend"
            canary.note(Told.TO_DO, "spec.ingressRef.name", what)

    def ref(self, kind: Kind, name: str = "") -> Ref:
        """By which its route of a kind is named among the objects that came in."""
        return Ref(kind.group, kind.kind, ref_of(self.canary.manifest).namespace, name or self.canary.apex)

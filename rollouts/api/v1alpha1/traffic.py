"""Traffic routers and route steps in the spec of a Rollout; field names and meaning are Argo Rollouts'."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rollouts.api.v1alpha1.wire import (
    Bool,
    CelRule,
    Count,
    FreeObject,
    Name,
    Namespace,
    ObjectName,
    PercentNumber,
    ServiceName,
    StringMap,
    Text,
    WholeObject,
    Wire,
    exactly_one,
    needed,
    optional,
)

Names = Annotated[list[Name], Field(max_length=32)]
ObjectNames = Annotated[list[ObjectName], Field(max_length=32)]

_MANAGED = "is required: one of trafficRouting.managedRoutes"


class TlsRoute(Wire):
    """A TLS route of a VirtualService."""

    port: Count | None = optional("Port that the route matches.")
    sni_hosts: Names | None = optional("Server names that the route matches.")


class TcpRoute(Wire):
    """A TCP route of a VirtualService."""

    port: Count | None = optional("Port that the route matches.")


class IstioVirtualService(Wire):
    """A VirtualService whose weights are changed."""

    name: ObjectName | None = needed("Name of the VirtualService, or NAME.NAMESPACE.")
    routes: Names | None = optional("Names of its HTTP routes to manage; optional when it has only one.")
    tls_routes: list[TlsRoute] | None = optional("Its TLS routes to manage.", max_length=32)
    tcp_routes: list[TcpRoute] | None = optional("Its TCP routes to manage.", max_length=32)


class IstioDestinationRule(Wire):
    """A DestinationRule whose subsets select revisions."""

    name: ObjectName | None = needed("Name of the DestinationRule.")
    canary_subset_name: Name | None = needed("Name of the canary's subset.")
    stable_subset_name: Name | None = needed("Name of the stable revision's subset.")
    additional_subset_names: Names | None = optional("Names of subsets for experiments.")


class Istio(Wire):
    """Istio, by weights in VirtualServices."""

    virtual_service: IstioVirtualService | None = optional("The VirtualService to manage.")
    virtual_services: list[IstioVirtualService] | None = optional(
        "Several VirtualServices to manage, instead of virtualService.", max_length=16
    )
    destination_rule: IstioDestinationRule | None = optional(
        "A DestinationRule to manage: its subsets then select the revisions."
    )


class Nginx(Wire):
    """ingress-nginx, by its canary annotations, which other controllers understand too."""

    stable_ingress: ObjectName | None = optional("Name of the stable Service's Ingress.")
    stable_ingresses: ObjectNames | None = optional("Several such Ingresses, instead of stableIngress.")
    annotation_prefix: Text | None = optional("Prefix of the annotations; default nginx.ingress.kubernetes.io.")
    additional_ingress_annotations: StringMap | None = optional(
        "More annotations for the canary Ingress. Names without a prefix get annotationPrefix."
    )
    canary_ingress_annotations: StringMap | None = optional("Annotations for the canary Ingress, by their full names.")


class Stickiness(Wire):
    """Keeps each client on one target group."""

    enabled: Bool | None = optional("Whether clients stay on a target group.")
    duration_seconds: Count | None = optional("For how many seconds, when enabled: 1 to 604800; default 3600.")


class Alb(Wire):
    """AWS Application Load Balancer, by its controller's annotations."""

    ingress: ObjectName | None = optional("Name of the Ingress to manage.")
    ingresses: ObjectNames | None = optional("Several Ingresses to manage, instead of ingress.")
    service_port: Count | None = needed("Port of the Services that get the traffic.")
    root_service: ServiceName | None = optional(
        "The Service that the Ingress names as its backend; default: the stable Service."
    )
    annotation_prefix: Text | None = optional("Prefix of the annotations; default alb.ingress.kubernetes.io.")
    stickiness_config: Stickiness | None = optional("Keeps each client on one target group.")


class Smi(Wire):
    """Service Mesh Interface, by TrafficSplits."""

    root_service: Name | None = optional("Service that clients use.")
    traffic_split_name: Name | None = optional("Name of the TrafficSplit.")


class Ambassador(Wire):
    """Ambassador and Emissary, by Mappings."""

    mappings: Names | None = needed("Names of the stable Service's Mappings.")


class AppMeshVirtualService(Wire):
    """An App Mesh VirtualService."""

    name: Name | None = needed("Name of the VirtualService.")
    routes: Names | None = optional("Names of its router's routes to manage.")


class AppMeshNode(Wire):
    """An App Mesh VirtualNode."""

    name: Name | None = needed("Name of the VirtualNode.")


class AppMeshNodeGroup(Wire):
    """The VirtualNodes of the canary and of the stable revision."""

    canary_virtual_node_ref: AppMeshNode | None = optional("The canary's VirtualNode.")
    stable_virtual_node_ref: AppMeshNode | None = optional("The stable revision's VirtualNode.")


class AppMesh(Wire):
    """AWS App Mesh."""

    virtual_service: AppMeshVirtualService | None = optional("The VirtualService to manage.")
    virtual_node_group: AppMeshNodeGroup | None = optional("The VirtualNodes of the two revisions.")


class Traefik(Wire):
    """Traefik, by its own resources."""

    weighted_traefik_service_name: ObjectName | None = optional("Name of the weighted TraefikService.")


class ApisixRoute(Wire):
    """An ApisixRoute whose weights are changed."""

    name: ObjectName | None = needed("Name of the ApisixRoute.")
    rules: Names | None = optional("Names of its rules to manage; optional when it has only one.")


class Apisix(Wire):
    """Apache APISIX, by ApisixRoutes."""

    route: ApisixRoute | None = optional("The ApisixRoute to manage.")


class GatewayRoute(Wire):
    """A route of the Gateway API whose weights are changed."""

    name: ObjectName | None = needed("Name of the route.")
    namespace: Namespace | None = optional("Namespace of the route; default: the Rollout's.")
    rules: Names | None = optional("Names of its rules to manage; default: all rules that have both Services.")


GatewayRoutes = Annotated[list[GatewayRoute], Field(max_length=32)]


class GatewayApi(Wire):
    """Gateway API, by weights in routes."""

    http_routes: GatewayRoutes | None = optional("HTTPRoutes to manage.")
    grpc_routes: GatewayRoutes | None = optional("GRPCRoutes to manage.")
    tls_routes: GatewayRoutes | None = optional("TLSRoutes to manage.")
    tcp_routes: GatewayRoutes | None = optional("TCPRoutes to manage.")
    features: Names | None = optional(
        "Features that the gateways support although their GatewayClass does not list them: HTTPRouteRequestMirror."
    )


class HttpProxy(Wire):
    """An HTTPProxy whose weights are changed."""

    name: ObjectName | None = needed("Name of the HTTPProxy.")


class Contour(Wire):
    """Contour, by its own resources."""

    http_proxies: list[HttpProxy] | None = needed("HTTPProxies to manage.", max_length=16)


class GlooRouteTable(Wire):
    """A RouteTable of Gloo whose weights are changed."""

    name: ObjectName | None = needed("Name of the RouteTable.")
    namespace: Namespace | None = optional("Namespace of the RouteTable; default: the Rollout's.")


class Gloo(Wire):
    """Gloo Edge, by RouteTables."""

    route_tables: list[GlooRouteTable] | None = needed("RouteTables to manage.", max_length=16)


class Skipper(Wire):
    """Skipper, by its annotation of weights."""

    ingress: ObjectName | None = optional("Name of the Ingress that has both Services as backends.")
    ingresses: ObjectNames | None = optional("Several such Ingresses, instead of ingress.")


class ManagedRoute(Wire):
    """A route that header and mirror steps make."""

    name: Name | None = needed("Name of the route, for the steps.")


class PingPong(Wire):
    """Two Services that change the roles of stable and canary with every update."""

    ping_service: ServiceName | None = needed("The Service that is stable at first.")
    pong_service: ServiceName | None = needed("The Service that is the canary's at first.")


class ClientStickiness(Wire):
    """Makes weights shares of clients, which are told apart by a cookie that they send."""

    cookie_name: Name | None = needed("Name of a cookie with an id of the client or its session.")
    digits: str | None = optional(
        "The last characters of the cookie's values, all equally frequent; default 0123456789abcdef.",
        min_length=2,
        max_length=64,
        pattern=r"^[-_0-9A-Za-z]+$",
    )


class StringMatch(Wire):
    """How a text is matched."""

    RULES = (exactly_one(),)

    exact: Text | None = optional("The whole text.")
    prefix: Text | None = optional("The beginning of the text.")
    regex: Text | None = optional("A regular expression for the text.")


class HeaderMatch(Wire):
    """One condition: on a header, a cookie, a query parameter, the path or the method."""

    RULES = (
        exactly_one("headerName", "cookieName", "queryParamName", "path", "method"),
        *(
            CelRule(f"has(self.{kind}Name) == has(self.{kind}Value)", f"{kind}Name and {kind}Value go together")
            for kind in ("header", "cookie", "queryParam")
        ),
    )

    header_name: Name | None = optional("Name of a header.")
    header_value: StringMatch | None = optional("Value of the header.")
    cookie_name: Name | None = optional("Name of a cookie.")
    cookie_value: StringMatch | None = optional("Value of the cookie.")
    query_param_name: Name | None = optional("Name of a parameter in the query.")
    query_param_value: StringMatch | None = optional("Value of the parameter.")
    path: StringMatch | None = optional(
        "The path. It depends on the router whether a prefix matches only whole path elements."
    )
    method: StringMatch | None = optional("The HTTP method.")


class SetHeaderRouteWire(Wire):
    """Sends requests that match to the canary, whatever the weight."""

    name: Name | None = needed("Name of the route: one of managedRoutes.", missing=_MANAGED)
    match: list[HeaderMatch] | None = optional(
        "Conditions, which must all hold. Without conditions the step removes the route.", max_length=16
    )


class RouteMatch(Wire):
    """Matches the requests for which all of its fields hold."""

    method: StringMatch | None = optional("The HTTP method.")
    path: StringMatch | None = optional("The path.")
    headers: dict[str, StringMatch] | None = optional("Headers and their values.", max_length=16)
    cookies: dict[str, StringMatch] | None = optional("Cookies and their values.", max_length=16)
    query_params: dict[str, StringMatch] | None = optional("Parameters in the query and their values.", max_length=16)


class SetMirrorRouteWire(Wire):
    """Sends copies of requests to the canary."""

    name: Name | None = needed("Name of the route: one of managedRoutes.", missing=_MANAGED)
    match: list[RouteMatch] | None = optional(
        "The requests to copy. Without entries the step removes the route.", max_length=16
    )
    percentage: PercentNumber | None = optional("Percentage of the matching requests to copy; default 100.")


class TrafficRoutingWire(Wire):
    """The routers that split the traffic. If it is empty, somebody else splits the traffic."""

    alb: Alb | None = optional("AWS Application Load Balancer.")
    ambassador: Ambassador | None = optional("Ambassador and Emissary.")
    apisix: Apisix | None = optional("Apache APISIX.")
    app_mesh: AppMesh | None = optional("AWS App Mesh.")
    contour: Contour | None = optional("Contour's HTTPProxy.")
    gateway_api: GatewayApi | None = optional("Gateway API.", alias="gatewayAPI")
    gloo: Gloo | None = optional("Gloo Edge's RouteTable.")
    istio: Istio | None = optional("Istio.")
    nginx: Nginx | None = optional("ingress-nginx, by its canary annotations.")
    skipper: Skipper | None = optional("Skipper.")
    smi: Smi | None = optional("Service Mesh Interface.")
    traefik: Traefik | None = optional("Traefik's TraefikService.")
    plugins: dict[str, FreeObject] | None = optional(
        "Other traffic providers by name, each with its own settings; a TrafficProvider is one.", max_length=8
    )
    managed_routes: list[ManagedRoute] | None = optional(
        "Routes that header and mirror steps make. The first one that matches a request wins.", max_length=32
    )
    own: list[WholeObject] | None = optional(
        "Manifests of objects that the routers name. The controller creates and owns them; Git does not need them.",
        max_length=16,
    )
    stickiness: ClientStickiness | None = optional(
        "Keeps each client on the side to which it was sent: weights are shares of clients."
    )
    max_traffic_weight: Count | None = optional("The sum of all weights; default 100.")

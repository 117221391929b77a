"""Traffic routers and route steps in the spec of a Rollout; field names and meaning are Argo Rollouts'."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rollouts.api.v1alpha1.wire import (
    Bool,
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
    needs,
)

Names = Annotated[list[Name], Field(max_length=32)]
ObjectNames = Annotated[list[ObjectName], Field(max_length=32)]


class TlsRoute(Wire):
    """A TLS route of a VirtualService."""

    port: Count | None = Field(None, description="Port that the route matches.")
    sni_hosts: Names | None = Field(None, description="Server names that the route matches.")


class TcpRoute(Wire):
    """A TCP route of a VirtualService."""

    port: Count | None = Field(None, description="Port that the route matches.")


class IstioVirtualService(Wire):
    """A VirtualService whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Name of the VirtualService, or NAME.NAMESPACE.")
    routes: Names | None = Field(None, description="Names of its HTTP routes to manage; optional when it has only one.")
    tls_routes: Annotated[list[TlsRoute], Field(max_length=32)] | None = Field(
        None, description="Its TLS routes to manage."
    )
    tcp_routes: Annotated[list[TcpRoute], Field(max_length=32)] | None = Field(
        None, description="Its TCP routes to manage."
    )


class IstioDestinationRule(Wire):
    """A DestinationRule whose subsets select revisions."""

    model_config = needs("name", "canarySubsetName", "stableSubsetName")

    name: ObjectName | None = Field(None, description="Name of the DestinationRule.")
    canary_subset_name: Name | None = Field(None, description="Name of the canary's subset.")
    stable_subset_name: Name | None = Field(None, description="Name of the stable revision's subset.")
    additional_subset_names: Names | None = Field(None, description="Names of subsets for experiments.")


class Istio(Wire):
    """Istio, by weights in VirtualServices."""

    virtual_service: IstioVirtualService | None = Field(None, description="The VirtualService to manage.")
    virtual_services: Annotated[list[IstioVirtualService], Field(max_length=16)] | None = Field(
        None, description="Several VirtualServices to manage, instead of virtualService."
    )
    destination_rule: IstioDestinationRule | None = Field(
        None, description="A DestinationRule to manage: its subsets then select the revisions."
    )


class Nginx(Wire):
    """ingress-nginx, by its canary annotations, which other controllers understand too."""

    stable_ingress: ObjectName | None = Field(None, description="Name of the stable Service's Ingress.")
    stable_ingresses: ObjectNames | None = Field(None, description="Several such Ingresses, instead of stableIngress.")
    annotation_prefix: Text | None = Field(
        None, description="Prefix of the annotations; default nginx.ingress.kubernetes.io."
    )
    additional_ingress_annotations: StringMap | None = Field(
        None, description="More annotations for the canary Ingress. Names without a prefix get annotationPrefix."
    )
    canary_ingress_annotations: StringMap | None = Field(
        None, description="Annotations for the canary Ingress, by their full names."
    )


class Stickiness(Wire):
    """Keeps each client on one target group."""

    enabled: Bool | None = Field(None, description="Whether clients stay on a target group.")
    duration_seconds: Count | None = Field(
        None, description="For how many seconds, when enabled: 1 to 604800; default 3600."
    )


class Alb(Wire):
    """AWS Application Load Balancer, by its controller's annotations."""

    model_config = needs("servicePort")

    ingress: ObjectName | None = Field(None, description="Name of the Ingress to manage.")
    ingresses: ObjectNames | None = Field(None, description="Several Ingresses to manage, instead of ingress.")
    service_port: Count | None = Field(None, description="Port of the Services that get the traffic.")
    root_service: ServiceName | None = Field(
        None, description="The Service that the Ingress names as its backend; default: the stable Service."
    )
    annotation_prefix: Text | None = Field(
        None, description="Prefix of the annotations; default alb.ingress.kubernetes.io."
    )
    stickiness_config: Stickiness | None = Field(None, description="Keeps each client on one target group.")


class Smi(Wire):
    """Service Mesh Interface, by TrafficSplits."""

    root_service: Name | None = Field(None, description="Service that clients use.")
    traffic_split_name: Name | None = Field(None, description="Name of the TrafficSplit.")


class Ambassador(Wire):
    """Ambassador and Emissary, by Mappings."""

    model_config = needs("mappings")

    mappings: Names | None = Field(None, description="Names of the stable Service's Mappings.")


class AppMeshVirtualService(Wire):
    """An App Mesh VirtualService."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Name of the VirtualService.")
    routes: Names | None = Field(None, description="Names of its router's routes to manage.")


class AppMeshNode(Wire):
    """An App Mesh VirtualNode."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Name of the VirtualNode.")


class AppMeshNodeGroup(Wire):
    """The VirtualNodes of the canary and of the stable revision."""

    canary_virtual_node_ref: AppMeshNode | None = Field(None, description="The canary's VirtualNode.")
    stable_virtual_node_ref: AppMeshNode | None = Field(None, description="The stable revision's VirtualNode.")


class AppMesh(Wire):
    """AWS App Mesh."""

    virtual_service: AppMeshVirtualService | None = Field(None, description="The VirtualService to manage.")
    virtual_node_group: AppMeshNodeGroup | None = Field(None, description="The VirtualNodes of the two revisions.")


class Traefik(Wire):
    """Traefik, by its own resources."""

    weighted_traefik_service_name: ObjectName | None = Field(None, description="Name of the weighted TraefikService.")


class ApisixRoute(Wire):
    """An ApisixRoute whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Name of the ApisixRoute.")
    rules: Names | None = Field(None, description="Names of its rules to manage; optional when it has only one.")


class Apisix(Wire):
    """Apache APISIX, by ApisixRoutes."""

    route: ApisixRoute | None = Field(None, description="The ApisixRoute to manage.")


class GatewayRoute(Wire):
    """A route of the Gateway API whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Name of the route.")
    namespace: Namespace | None = Field(None, description="Namespace of the route; default: the Rollout's.")
    rules: Names | None = Field(
        None, description="Names of its rules to manage; default: all rules that have both Services."
    )


GatewayRoutes = Annotated[list[GatewayRoute], Field(max_length=32)]


class GatewayApi(Wire):
    """Gateway API, by weights in routes."""

    http_routes: GatewayRoutes | None = Field(None, description="HTTPRoutes to manage.")
    grpc_routes: GatewayRoutes | None = Field(None, description="GRPCRoutes to manage.")
    tls_routes: GatewayRoutes | None = Field(None, description="TLSRoutes to manage.")
    tcp_routes: GatewayRoutes | None = Field(None, description="TCPRoutes to manage.")
    features: Names | None = Field(
        None,
        description="Features that the gateways support although their GatewayClass does not list them: HTTPRouteRequestMirror.",
    )


class HttpProxy(Wire):
    """An HTTPProxy whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Name of the HTTPProxy.")


class Contour(Wire):
    """Contour, by its own resources."""

    model_config = needs("httpProxies")

    http_proxies: Annotated[list[HttpProxy], Field(max_length=16)] | None = Field(
        None, description="HTTPProxies to manage."
    )


class GlooRouteTable(Wire):
    """A RouteTable of Gloo whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Name of the RouteTable.")
    namespace: Namespace | None = Field(None, description="Namespace of the RouteTable; default: the Rollout's.")


class Gloo(Wire):
    """Gloo Edge, by RouteTables."""

    model_config = needs("routeTables")

    route_tables: Annotated[list[GlooRouteTable], Field(max_length=16)] | None = Field(
        None, description="RouteTables to manage."
    )


class Skipper(Wire):
    """Skipper, by its annotation of weights."""

    ingress: ObjectName | None = Field(None, description="Name of the Ingress that has both Services as backends.")
    ingresses: ObjectNames | None = Field(None, description="Several such Ingresses, instead of ingress.")


class ManagedRoute(Wire):
    """A route that header and mirror steps make."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Name of the route, for the steps.")


class PingPong(Wire):
    """Two Services that change the roles of stable and canary with every update."""

    model_config = needs("pingService", "pongService")

    ping_service: ServiceName | None = Field(None, description="The Service that is stable at first.")
    pong_service: ServiceName | None = Field(None, description="The Service that is the canary's at first.")


class ClientStickiness(Wire):
    """Makes weights shares of clients, which are told apart by a cookie that they send."""

    model_config = needs("cookieName")

    cookie_name: Name | None = Field(None, description="Name of a cookie with an id of the client or its session.")
    digits: Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[-_0-9A-Za-z]+$")] | None = Field(
        None, description="The last characters of the cookie's values, all equally frequent; default 0123456789abcdef."
    )


class StringMatch(Wire):
    """How a text is matched."""

    model_config = needs(rules=((exactly_one("exact", "prefix", "regex"), "exactly one of exact, prefix and regex"),))

    exact: Text | None = Field(None, description="The whole text.")
    prefix: Text | None = Field(None, description="The beginning of the text.")
    regex: Text | None = Field(None, description="A regular expression for the text.")


class HeaderMatch(Wire):
    """One condition: on a header, a cookie, a query parameter, the path or the method."""

    model_config = needs(
        rules=(
            (
                exactly_one("headerName", "cookieName", "queryParamName", "path", "method"),
                "exactly one of headerName, cookieName, queryParamName, path and method",
            ),
            *(
                (f"has(self.{kind}Name) == has(self.{kind}Value)", f"{kind}Name and {kind}Value go together")
                for kind in ("header", "cookie", "queryParam")
            ),
        )
    )

    header_name: Name | None = Field(None, description="Name of a header.")
    header_value: StringMatch | None = Field(None, description="Value of the header.")
    cookie_name: Name | None = Field(None, description="Name of a cookie.")
    cookie_value: StringMatch | None = Field(None, description="Value of the cookie.")
    query_param_name: Name | None = Field(None, description="Name of a parameter in the query.")
    query_param_value: StringMatch | None = Field(None, description="Value of the parameter.")
    path: StringMatch | None = Field(
        None, description="The path. It depends on the router whether a prefix matches only whole path elements."
    )
    method: StringMatch | None = Field(None, description="The HTTP method.")


class SetHeaderRouteWire(Wire):
    """Sends requests that match to the canary, whatever the weight."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Name of the route: one of managedRoutes.")
    match: Annotated[list[HeaderMatch], Field(max_length=16)] | None = Field(
        None, description="Conditions, which must all hold. Without conditions the step removes the route."
    )


class RouteMatch(Wire):
    """Matches the requests for which all of its fields hold."""

    method: StringMatch | None = Field(None, description="The HTTP method.")
    path: StringMatch | None = Field(None, description="The path.")
    headers: Annotated[dict[str, StringMatch], Field(max_length=16)] | None = Field(
        None, description="Headers and their values."
    )
    cookies: Annotated[dict[str, StringMatch], Field(max_length=16)] | None = Field(
        None, description="Cookies and their values."
    )
    query_params: Annotated[dict[str, StringMatch], Field(max_length=16)] | None = Field(
        None, description="Parameters in the query and their values."
    )


class SetMirrorRouteWire(Wire):
    """Sends copies of requests to the canary."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Name of the route: one of managedRoutes.")
    match: Annotated[list[RouteMatch], Field(max_length=16)] | None = Field(
        None, description="The requests to copy. Without entries the step removes the route."
    )
    percentage: PercentNumber | None = Field(
        None, description="Percentage of the matching requests to copy; default 100."
    )


class TrafficRoutingWire(Wire):
    """The routers that split the traffic. If it is empty, somebody else splits the traffic."""

    alb: Alb | None = Field(None, description="AWS Application Load Balancer.")
    ambassador: Ambassador | None = Field(None, description="Ambassador and Emissary.")
    apisix: Apisix | None = Field(None, description="Apache APISIX.")
    app_mesh: AppMesh | None = Field(None, description="AWS App Mesh.")
    contour: Contour | None = Field(None, description="Contour's HTTPProxy.")
    gateway_api: GatewayApi | None = Field(None, alias="gatewayAPI", description="Gateway API.")
    gloo: Gloo | None = Field(None, description="Gloo Edge's RouteTable.")
    istio: Istio | None = Field(None, description="Istio.")
    nginx: Nginx | None = Field(None, description="ingress-nginx, by its canary annotations.")
    skipper: Skipper | None = Field(None, description="Skipper.")
    smi: Smi | None = Field(None, description="Service Mesh Interface.")
    traefik: Traefik | None = Field(None, description="Traefik's TraefikService.")
    plugins: Annotated[dict[str, FreeObject], Field(max_length=8)] | None = Field(
        None, description="Other traffic providers by name, each with its own settings; a TrafficProvider is one."
    )
    managed_routes: Annotated[list[ManagedRoute], Field(max_length=32)] | None = Field(
        None, description="Routes that header and mirror steps make. The first one that matches a request wins."
    )
    own: Annotated[list[WholeObject], Field(max_length=16)] | None = Field(
        None,
        description="Manifests of objects that the routers name. The controller creates and owns them; Git does not need them.",
    )
    stickiness: ClientStickiness | None = Field(
        None, description="Keeps each client on the side to which it was sent: weights are shares of clients."
    )
    max_traffic_weight: Count | None = Field(None, description="The sum of all weights; default 100.")

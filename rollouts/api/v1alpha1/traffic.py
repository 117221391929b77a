"""Traffic routers and route steps as the Rollout's spec names them; field names and meaning are Argo Rollouts'."""

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

    name: ObjectName | None = Field(None, description="Its name, or name.namespace.")
    routes: Names | None = Field(None, description="HTTP routes in it; may be left out when there is one.")
    tls_routes: Annotated[list[TlsRoute], Field(max_length=32)] | None = Field(None, description="TLS routes in it.")
    tcp_routes: Annotated[list[TcpRoute], Field(max_length=32)] | None = Field(None, description="TCP routes in it.")


class IstioDestinationRule(Wire):
    """A DestinationRule whose subsets are pointed at revisions."""

    model_config = needs("name", "canarySubsetName", "stableSubsetName")

    name: ObjectName | None = Field(None, description="Its name.")
    canary_subset_name: Name | None = Field(None, description="Subset of the canary.")
    stable_subset_name: Name | None = Field(None, description="Subset of the stable revision.")
    additional_subset_names: Names | None = Field(None, description="Subsets for experiments.")


class Istio(Wire):
    """Istio."""

    virtual_service: IstioVirtualService | None = Field(None, description="The VirtualService.")
    virtual_services: Annotated[list[IstioVirtualService], Field(max_length=16)] | None = Field(
        None, description="Several VirtualServices."
    )
    destination_rule: IstioDestinationRule | None = Field(None, description="The DestinationRule, for subsets.")


class Nginx(Wire):
    """The annotations of ingress-nginx, which other controllers understand too."""

    stable_ingress: ObjectName | None = Field(None, description="The Ingress of the stable Service.")
    stable_ingresses: ObjectNames | None = Field(None, description="Several of them.")
    annotation_prefix: Text | None = Field(None, description="Default nginx.ingress.kubernetes.io.")
    additional_ingress_annotations: StringMap | None = Field(None, description="More annotations for the canary's.")
    canary_ingress_annotations: StringMap | None = Field(None, description="Annotations of the canary Ingress.")


class Stickiness(Wire):
    """Keeps a client on one target group."""

    enabled: Bool | None = Field(None, description="Whether it does.")
    duration_seconds: Count | None = Field(
        None, description="For how long, 1 to 604800; default 3600. Counts when enabled."
    )


class Alb(Wire):
    """AWS Application Load Balancer, by its controller's annotations."""

    model_config = needs("servicePort")

    ingress: ObjectName | None = Field(None, description="The Ingress.")
    ingresses: ObjectNames | None = Field(None, description="Several of them.")
    service_port: Count | None = Field(None, description="Port of the Service in the Ingress.")
    root_service: ServiceName | None = Field(
        None, description="Service that the Ingress names; default: the stable one."
    )
    annotation_prefix: Text | None = Field(None, description="Default alb.ingress.kubernetes.io.")
    stickiness_config: Stickiness | None = Field(None, description="Sticky target groups.")


class Smi(Wire):
    """Service Mesh Interface."""

    root_service: Name | None = Field(None, description="Service that clients use.")
    traffic_split_name: Name | None = Field(None, description="Name of the TrafficSplit.")


class Ambassador(Wire):
    """Ambassador, Emissary."""

    model_config = needs("mappings")

    mappings: Names | None = Field(None, description="Mappings of the stable Service.")


class AppMeshVirtualService(Wire):
    """An App Mesh VirtualService."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Its name.")
    routes: Names | None = Field(None, description="Routes of its router.")


class AppMeshNode(Wire):
    """An App Mesh VirtualNode."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Its name.")


class AppMeshNodeGroup(Wire):
    """The two VirtualNodes."""

    canary_virtual_node_ref: AppMeshNode | None = Field(None, description="The canary's.")
    stable_virtual_node_ref: AppMeshNode | None = Field(None, description="The stable revision's.")


class AppMesh(Wire):
    """AWS App Mesh."""

    virtual_service: AppMeshVirtualService | None = Field(None, description="The VirtualService.")
    virtual_node_group: AppMeshNodeGroup | None = Field(None, description="The VirtualNodes.")


class Traefik(Wire):
    """Traefik's own resources."""

    weighted_traefik_service_name: ObjectName | None = Field(None, description="The TraefikService.")


class ApisixRoute(Wire):
    """An ApisixRoute whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Its name.")
    rules: Names | None = Field(None, description="Rules in it; may be left out when there is one.")


class Apisix(Wire):
    """Apache APISIX."""

    route: ApisixRoute | None = Field(None, description="The ApisixRoute.")


class GatewayRoute(Wire):
    """A route of the Gateway API whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Its name.")
    namespace: Namespace | None = Field(None, description="Its namespace; default: the Rollout's.")
    rules: Names | None = Field(None, description="Names of its rules to steer; default: all that have both Services.")


GatewayRoutes = Annotated[list[GatewayRoute], Field(max_length=32)]


class GatewayApi(Wire):
    """Gateway API."""

    http_routes: GatewayRoutes | None = Field(None, description="HTTPRoutes.")
    grpc_routes: GatewayRoutes | None = Field(None, description="GRPCRoutes.")
    tls_routes: GatewayRoutes | None = Field(None, description="TLSRoutes.")
    tcp_routes: GatewayRoutes | None = Field(None, description="TCPRoutes.")
    features: Names | None = Field(
        None, description="What the gateways support though their class does not say so: HTTPRouteRequestMirror."
    )


class HttpProxy(Wire):
    """An HTTPProxy whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Its name.")


class Contour(Wire):
    """Contour's own resources."""

    model_config = needs("httpProxies")

    http_proxies: Annotated[list[HttpProxy], Field(max_length=16)] | None = Field(None, description="HTTPProxies.")


class GlooRouteTable(Wire):
    """A RouteTable of Gloo whose weights are changed."""

    model_config = needs("name")

    name: ObjectName | None = Field(None, description="Its name.")
    namespace: Namespace | None = Field(None, description="Its namespace; default: the Rollout's.")


class Gloo(Wire):
    """Gloo Edge."""

    model_config = needs("routeTables")

    route_tables: Annotated[list[GlooRouteTable], Field(max_length=16)] | None = Field(None, description="RouteTables.")


class Skipper(Wire):
    """Skipper, by its annotation of weights."""

    ingress: ObjectName | None = Field(None, description="The Ingress that has both Services as backends.")
    ingresses: ObjectNames | None = Field(None, description="Several of them.")


class ManagedRoute(Wire):
    """A route that header and mirror steps make."""

    model_config = needs("name")

    name: Name | None = Field(None, description="Its name.")


class PingPong(Wire):
    """Two Services that take turns at being stable and canary."""

    model_config = needs("pingService", "pongService")

    ping_service: ServiceName | None = Field(None, description="One Service.")
    pong_service: ServiceName | None = Field(None, description="The other.")


class ClientStickiness(Wire):
    """Weights are shares of clients, told apart by a cookie that they bring."""

    model_config = needs("cookieName")

    cookie_name: Name | None = Field(None, description="A cookie with an id of the client or its session.")
    digits: Annotated[str, Field(min_length=2, max_length=64, pattern=r"^[-_0-9A-Za-z]+$")] | None = Field(
        None, description="The characters that its values end with, each as often; default 0123456789abcdef."
    )


class StringMatch(Wire):
    """How a text is matched."""

    model_config = needs(rules=((exactly_one("exact", "prefix", "regex"), "exactly one of exact, prefix and regex"),))

    exact: Text | None = Field(None, description="The whole text.")
    prefix: Text | None = Field(None, description="Its beginning.")
    regex: Text | None = Field(None, description="A regular expression.")


class HeaderMatch(Wire):
    """One condition: a header, a cookie, a query parameter, the path or the method."""

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
    header_value: StringMatch | None = Field(None, description="Its value.")
    cookie_name: Name | None = Field(None, description="Name of a cookie.")
    cookie_value: StringMatch | None = Field(None, description="Its value.")
    query_param_name: Name | None = Field(None, description="Name of a parameter in the query.")
    query_param_value: StringMatch | None = Field(None, description="Its value.")
    path: StringMatch | None = Field(
        None, description="The path; a prefix goes by whole elements where the router does."
    )
    method: StringMatch | None = Field(None, description="HTTP method.")


class SetHeaderRouteWire(Wire):
    """Sends some requests to the canary, whatever the weight."""

    model_config = needs("name")

    name: Name | None = Field(None, description="One of managedRoutes.")
    match: Annotated[list[HeaderMatch], Field(max_length=16)] | None = Field(
        None, description="Conditions, which must all hold; without them the route is removed."
    )


class RouteMatch(Wire):
    """Which requests are mirrored: those for which all of it holds."""

    method: StringMatch | None = Field(None, description="HTTP method.")
    path: StringMatch | None = Field(None, description="Path.")
    headers: Annotated[dict[str, StringMatch], Field(max_length=16)] | None = Field(None, description="Headers.")
    cookies: Annotated[dict[str, StringMatch], Field(max_length=16)] | None = Field(None, description="Cookies.")
    query_params: Annotated[dict[str, StringMatch], Field(max_length=16)] | None = Field(
        None, description="Parameters in the query."
    )


class SetMirrorRouteWire(Wire):
    """Sends copies of requests to the canary."""

    model_config = needs("name")

    name: Name | None = Field(None, description="One of managedRoutes.")
    match: Annotated[list[RouteMatch], Field(max_length=16)] | None = Field(
        None, description="Requests; without them the route is removed."
    )
    percentage: PercentNumber | None = Field(None, description="How many of them; default 100.")


class TrafficRoutingWire(Wire):
    """Who moves the traffic; empty: somebody outside of this Rollout does."""

    alb: Alb | None = Field(None, description="AWS Application Load Balancer.")
    ambassador: Ambassador | None = Field(None, description="Ambassador.")
    apisix: Apisix | None = Field(None, description="Apache APISIX.")
    app_mesh: AppMesh | None = Field(None, description="AWS App Mesh.")
    contour: Contour | None = Field(None, description="Contour's HTTPProxy.")
    gateway_api: GatewayApi | None = Field(None, alias="gatewayAPI", description="Gateway API.")
    gloo: Gloo | None = Field(None, description="Gloo Edge's RouteTable.")
    istio: Istio | None = Field(None, description="Istio.")
    nginx: Nginx | None = Field(None, description="Annotations of ingress-nginx.")
    skipper: Skipper | None = Field(None, description="Skipper.")
    smi: Smi | None = Field(None, description="Service Mesh Interface.")
    traefik: Traefik | None = Field(None, description="Traefik.")
    plugins: Annotated[dict[str, FreeObject], Field(max_length=8)] | None = Field(
        None, description="Providers by name, each with its own settings."
    )
    managed_routes: Annotated[list[ManagedRoute], Field(max_length=32)] | None = Field(
        None, description="Routes that steps make, the first one wins."
    )
    own: Annotated[list[WholeObject], Field(max_length=16)] | None = Field(
        None,
        description="Manifests of objects that the routers name and that the controller makes and owns, so that Git has none.",
    )
    stickiness: ClientStickiness | None = Field(
        None, description="A client stays on the side that it was sent to: weights are shares of clients."
    )
    max_traffic_weight: Count | None = Field(None, description="What all weights add up to; default 100.")

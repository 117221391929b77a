"""The route types that the simulated API server can serve: Gateway API, and the resources of Traefik and Contour.

The CRDs have only the fields that a traffic provider writes and a data plane reads, with the real defaults, limits and atomic
lists (gateway-api v1.6, Traefik 3.7, Contour 1.33); other fields are kept unchecked. They have no CEL rules, because
`sim/storage/validation.py` does not evaluate them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rollouts.objects import Kind, Manifest

GROUP = "gateway.networking.k8s.io"
GATEWAY_CLASS = Kind(GROUP, "v1", "GatewayClass", "gatewayclasses", namespaced=False)
GATEWAY = Kind(GROUP, "v1", "Gateway", "gateways")
HTTP_ROUTE = Kind(GROUP, "v1", "HTTPRoute", "httproutes")
GRPC_ROUTE = Kind(GROUP, "v1", "GRPCRoute", "grpcroutes")
TRAEFIK_SERVICE = Kind("traefik.io", "v1alpha1", "TraefikService", "traefikservices")
HTTP_PROXY = Kind("projectcontour.io", "v1", "HTTPProxy", "httpproxies")


@cache
def gateway_crds() -> tuple[Manifest, ...]:
    """The CustomResourceDefinitions, for `SimulatedCluster(crds=...)` or any API server."""
    grpc_method = _object(
        type=_choice("Exact", "RegularExpression", default="Exact"),
        service=_text(1024, least=0),
        method=_text(1024, least=0),
    )
    return (
        _crd(GATEWAY_CLASS, _CLASS, short="gc"),
        _crd(GATEWAY, _GATEWAY, short="gtw"),
        _crd(HTTP_ROUTE, _route_schema(_HTTP_RULE, default=[{"matches": [_ANY_PATH]}], least=1)),
        _crd(GRPC_ROUTE, _route_schema(_rule(_list(_object(method=grpc_method, headers=_HEADERS), most=64), _FILTERS))),
        _crd(TRAEFIK_SERVICE, _object(required=("metadata", "spec"), **_HEAD, spec=_TRAEFIK_SPEC), has_status=False),
        _crd(HTTP_PROXY, _whole_object(_PROXY_SPEC, _FREE, "metadata", "spec"), short="proxy"),
    )


def _crd(kind: Kind, schema: Manifest, *, short: str = "", has_status: bool = True) -> Manifest:
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        **({"shortNames": [short]} if short else {}),
    }
    version: Manifest = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        **({"subresources": {"status": {}}} if has_status else {}),
    }
    # A real server requires an approval annotation for types under *.k8s.io; these reduced CRDs have no approval.
    approval = {"api-approved.kubernetes.io": "unapproved, a cut for a simulated cluster"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": approval},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


def _object(*, required: tuple[str, ...] = (), **properties: Any) -> Manifest:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _open(*required: str, **properties: Any) -> Manifest:
    """An object that may have other fields too, which are kept unchecked."""
    return {**_FREE, "properties": properties, **({"required": list(required)} if required else {})}


def _list(items: Manifest, *, most: int, least: int = 0, **options: Any) -> Manifest:
    low = {"minItems": least} if least else {}
    return {"type": "array", "items": items, "maxItems": most, **low, "x-kubernetes-list-type": "atomic", **options}


def _any_number(items: Manifest) -> Manifest:
    return {"type": "array", "items": items}


def _text(most: int = 253, *, least: int = 1, **options: Any) -> Manifest:
    low = {"minLength": least} if least else {}
    return {"type": "string", "maxLength": most, **low, **options}


def _choice(*values: str, default: str = "") -> Manifest:
    return {"type": "string", "enum": list(values), **({"default": default} if default else {})}


def _whole(least: int, most: int | None = None, **options: Any) -> Manifest:
    high = {"maximum": most} if most is not None else {}
    return {"type": "integer", "format": "int32", "minimum": least, **high, **options}


_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_HEAD = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
_FREE: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_ANY_PATH: Manifest = {"path": {"type": "PathPrefix", "value": "/"}}
_NAME = _text()
_PORT = _whole(1, 65_535)
_PARENT = _object(
    required=("name",),
    group=_text(least=0, default=GROUP),
    kind=_text(63, default="Gateway"),
    namespace=_text(63),
    name=_NAME,
    sectionName=_NAME,
    port=_PORT,
)
_BACKEND = {
    "group": _text(least=0, default=""),
    "kind": _text(63, default="Service"),
    "namespace": _text(63),
    "name": _NAME,
    "port": _PORT,
}
_CONDITION = _object(
    required=("type", "status", "reason", "message", "lastTransitionTime"),
    type=_text(316, least=0),
    status=_choice("True", "False", "Unknown"),
    observedGeneration={"type": "integer", "format": "int64", "minimum": 0},
    reason=_text(1024),
    message=_text(32_768, least=0),
    lastTransitionTime={"type": "string", "format": "date-time"},
)


def _conditions(*, least: int = 0) -> Manifest:
    by_type = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return _list(_CONDITION, most=8, least=least) | by_type


def _whole_object(spec: Manifest, status: Manifest, *required: str) -> Manifest:
    return _object(required=required, **_HEAD, spec=spec, status=status)


_CONTROLLER_NAME = _text(
    pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$"
) | {"x-kubernetes-validations": [{"message": "Value is immutable", "rule": "self == oldSelf"}]}
_FEATURES = _list(_object(required=("name",), name={"type": "string"}), most=64) | _BY_NAME
_CLASS = _whole_object(
    _object(
        required=("controllerName",),
        controllerName=_CONTROLLER_NAME,
        description=_text(64, least=0),
        parametersRef=_FREE,
    ),
    _object(conditions=_conditions(), supportedFeatures=_FEATURES),
    "spec",
)
_LISTENER = _object(
    required=("name", "port", "protocol"),
    name=_NAME,
    hostname=_NAME,
    port=_PORT,
    protocol=_text(255),
    tls=_FREE,
    allowedRoutes=_FREE,
)
_GATEWAY = _whole_object(
    _object(
        required=("gatewayClassName", "listeners"),
        gatewayClassName=_NAME,
        listeners=_list(_LISTENER, most=64, least=1) | _BY_NAME,
        addresses=_list(_FREE, most=16),
        infrastructure=_FREE,
    ),
    _object(conditions=_conditions(), addresses=_list(_FREE, most=16)),
    "spec",
)


def _route_schema(rule: Manifest, **options: Any) -> Manifest:
    spec = _object(
        hostnames=_list(_text(), most=16),
        parentRefs=_list(_PARENT, most=32),
        rules=_list(rule, most=16, **options),
    )
    parent = _object(
        required=("conditions", "controllerName", "parentRef"),
        parentRef=_PARENT,
        controllerName=_text(),
        conditions=_conditions(least=1),
    )
    return _whole_object(spec, _object(required=("parents",), parents=_list(parent, most=32)), "spec")


def _named_value(most: int) -> Manifest:
    return _object(
        required=("name", "value"),
        type=_choice("Exact", "RegularExpression", default="Exact"),
        name=_text(256, pattern="^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$"),
        value=_text(most),
    )


_HEADERS = _list(_named_value(4096), most=16) | _BY_NAME
_FILTERS = ("ResponseHeaderModifier", "RequestHeaderModifier", "RequestMirror", "ExtensionRef")
_HTTP_FILTERS = ("RequestHeaderModifier", "ResponseHeaderModifier", "RequestMirror", "RequestRedirect", "URLRewrite",
                 "ExtensionRef", "CORS")  # fmt: skip


def _rule(matches: Manifest, kinds: tuple[str, ...], **more: Any) -> Manifest:
    mirror = _object(
        required=("backendRef",),
        backendRef=_object(required=("name",), **_BACKEND),
        percent=_whole(0, 100),
        fraction=_object(required=("numerator",), numerator=_whole(0), denominator=_whole(1, default=100)),
    )
    # The other kinds of filter are kept unchecked: our providers do not write them, and users' rules may contain them.
    filters = _list(_open("type", type=_choice(*kinds), requestMirror=mirror), most=16)
    weight = _whole(0, 1_000_000, default=1)
    backend = _object(required=("name",), **_BACKEND, weight=weight, filters=filters)
    return _object(
        name=_text(),
        matches=matches,
        filters=filters,
        backendRefs=_list(backend, most=16),
        **more,
    )


_PATH = _object(
    type=_choice("Exact", "PathPrefix", "RegularExpression", default="PathPrefix"),
    value=_text(1024, least=0, default="/"),
) | {"default": _ANY_PATH["path"]}
_HTTP_MATCH = _object(
    path=_PATH,
    headers=_HEADERS,
    queryParams=_list(_named_value(1024), most=16) | _BY_NAME,
    method=_choice("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"),
)
_HTTP_RULE = _rule(_list(_HTTP_MATCH, most=64, default=[_ANY_PATH]), _HTTP_FILTERS, timeouts=_FREE)
_SERVER = {
    "name": {"type": "string"},
    "namespace": {"type": "string"},
    "kind": _choice("Service", "TraefikService"),
    "port": {"x-kubernetes-int-or-string": True},
    "weight": {"type": "integer", "minimum": 0},
}
_TRAEFIK_SPEC = _object(
    weighted=_object(services=_any_number(_open("name", **_SERVER)), sticky=_FREE),
    mirroring=_open("name", **_SERVER, mirrors=_any_number(_open("name", **_SERVER, percent={"type": "integer"}))),
    highestRandomWeight=_FREE,
)
_PROXIED_SERVICE = _open(
    *("name", "port"),
    name={"type": "string"},
    port=_whole(1, 65_536),
    weight={"type": "integer", "format": "int64", "minimum": 0},
    mirror={"type": "boolean"},
)
_PROXY_SPEC = _object(
    virtualhost=_FREE,
    routes=_any_number(_open(conditions=_any_number(_FREE), services=_any_number(_PROXIED_SERVICE))),
    includes=_any_number(_FREE),
)

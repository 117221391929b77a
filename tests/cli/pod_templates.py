"""Pod templates in pairs that differ in one place: one that the API server refuses, and its neighbour, which it takes."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from rollouts.objects import Manifest
from tests import build

_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_C = "spec.containers[0]"
_V = "spec.volumes[0]"
_MANY = "DuringSchedulingIgnoredDuringExecution"
_SECURITY, _POD_SECURITY = f"{_C}.securityContext", "spec.securityContext"
_ITEMS = f"{_V}.configMap.items"
_LONG = "a" * 64
_EXEC = {"exec": {"command": ["true"]}}
_GIB = {"requests": {"storage": "1Gi"}}
_PROJECTED = f"{_V}.projected.sources"
_NODES = f"spec.affinity.nodeAffinity.required{_MANY}.nodeSelectorTerms"
_APART = f"spec.affinity.podAntiAffinity.required{_MANY}"
_SELECTED = {"matchLabels": {"app": "cart"}}
_ZONE = {"topologyKey": "zone", "labelSelector": _SELECTED}
_PROFILE = {"type": "Localhost", "localhostProfile": "cart.json"}
_MOUNT = {"name": "config", "mountPath": "/etc/cart"}


class Pair(NamedTuple):
    """A path in the template, with a value for it that is refused and one that is taken."""

    path: str
    refused: Any
    taken: Any

    @property
    def place(self) -> str:
        """What each path of a problem begins with: the object that is changed."""
        return self.path.rpartition(".")[0]

    def template(self, value: Any) -> Manifest:
        """The template with that value there; what is not there on the way is made."""
        found: Manifest = copy.deepcopy(_TEMPLATE)
        place: Any = found
        *parents, last = [int(index) if index else name for name, index in _PART.findall(self.path)]
        for part, after in zip(parents, [*parents, last][1:], strict=True):
            empty: Any = [{}] if isinstance(after, int) else {}
            place = place.setdefault(part, empty) if isinstance(place, dict) else place[part]
        place[last] = copy.deepcopy(value)
        return found


_TEMPLATE = build.pod_template(
    "cart",
    image="cart:1",
    metadata={"labels": {"app": "cart"}},
    container={
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [{"name": "MODE", "value": "fast"}],
        "volumeMounts": [_MOUNT],
    },
    volumes=[{"name": "config", "configMap": {"name": "cart"}}],
)


_PROBED: dict[str, Manifest] = {
    "unprobed": {},
    "http": {"readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "periodSeconds": 5},
             "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 10}},
    "grpc": {"readinessProbe": {"grpc": {"port": 8080, "service": "cart"}},
             "startupProbe": {"grpc": {"port": 8080}, "failureThreshold": 30}},
    "exec": {"livenessProbe": {"exec": {"command": ["cat", "/run/healthy"]}, "timeoutSeconds": 2},
             "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 10"]}}}},
}  # fmt: skip
_FED: dict[str, tuple[Manifest, Manifest]] = {
    "alone": ({"env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}, {}),
    "configured": ({"envFrom": [{"configMapRef": {"name": "cart"}}, {"secretRef": {"name": "cart", "optional": True}}],
                    "volumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}]},
                   {"volumes": [{"name": "tls", "secret": {"secretName": "cart-tls", "items": [
                       {"key": "tls.crt", "path": "crt"}]}}]}),
    "prepared": ({"volumeMounts": [{"name": "work", "mountPath": "/work", "subPath": "data"}]},
                 {"volumes": [{"name": "work", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}],
                  "initContainers": [{"name": "migrate", "image": "migrate:1", "args": ["up"],
                                      "volumeMounts": [{"name": "work", "mountPath": "/work"}]}]}),
    "beside a proxy": ({"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "cart", "key": "token"}}}]},
                       {"initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "ports": [
                           {"name": "admin", "containerPort": 9901}]}], "shareProcessNamespace": True}),
}  # fmt: skip
_PLACED: dict[str, Manifest] = {
    "anywhere": {},
    "spread": {"topologySpreadConstraints": [{**_ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": None}],
               "priorityClassName": "high"},
    "apart": {"affinity": {"podAntiAffinity": {f"preferred{_MANY}": [{"weight": 100, "podAffinityTerm": _ZONE}]}},
              "tolerations": [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]},
    "on some nodes": {"nodeSelector": {"kubernetes.io/os": "linux"}, "serviceAccountName": "cart",
                      "imagePullSecrets": [{"name": "registry"}], "terminationGracePeriodSeconds": 60},
}  # fmt: skip
_SECURED: dict[str, tuple[Manifest, Manifest]] = {
    "open": ({"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}, {}),
    "restricted": ({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": 2, "memory": "1Gi", "ephemeral-storage": "2Gi"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}},
                   {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 2000,
                                        "seccompProfile": {"type": "RuntimeDefault"}},
                    "automountServiceAccountToken": False}),
}  # fmt: skip


def everyday() -> Iterator[tuple[str, Manifest]]:
    """Templates as charts and tutorials have them, each part with each other."""
    for names in product(_PROBED, _FED, _PLACED, _SECURED):
        probed, fed, placed, secured = names
        (container, pod), (limits, user) = _FED[fed], _SECURED[secured]
        ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
        container = {"ports": ports, **_PROBED[probed], **container, **limits}
        labels = {"app": "cart", "app.kubernetes.io/version": "1.4.2"}
        metadata = {"labels": labels, "annotations": {"prometheus.io/scrape": "true", "checksum/config": "5f1c"}}
        template = build.pod_template(
            "cart", image="registry.example/cart:1.4.2", metadata=metadata, container=container,
            **{**pod, **_PLACED[placed], **user},
        )  # fmt: skip
        yield ", ".join(names), template


def _spread(**constraint: Any) -> Manifest:
    return {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_ZONE, **constraint}


def _expression(operator: str, *values: str, key: str = "tier") -> list[Manifest]:
    return [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]


def _field(path: str) -> Manifest:
    return {"fieldRef": {"fieldPath": path}}


def _files(*paths: str) -> list[Manifest]:
    return [{"path": path, **_field("metadata.name")} for path in paths]


def _resource(name: str, **more: Any) -> Manifest:
    return {"resourceFieldRef": {"resource": name, **more}}


def _claim(**spec: Any) -> Manifest:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": _GIB, **spec}
    return {"name": "config", "ephemeral": {"volumeClaimTemplate": {"spec": whole}}}


def _sized(**amounts: dict[str, str]) -> Manifest:
    return {
        "containers": [{"name": "app", "image": "cart:1", "resources": {"requests": {"cpu": "2"}}}],
        "resources": amounts,
    }


def _annotated(name: str, refused: str, taken: str) -> Pair:
    return Pair("metadata.annotations", {name: refused}, {name: taken})


CONTAINERS = [
    Pair(f"{_C}.name", "App", "app"),
    Pair(f"{_C}.name", _LONG, _LONG[1:]),
    Pair(f"{_C}.name", "", "app"),
    Pair(f"{_C}.image", "", "cart:1"),
    Pair(f"{_C}.restartPolicy", "Sometimes", None),
    Pair("spec.initContainers", [{"name": "app", "image": "i"}], [{"name": "init", "image": "i"}]),
    Pair("spec.initContainers", [{"name": "i", "image": "i"}] * 2, [{"name": "i", "image": "i"}]),
    Pair("spec.initContainers", [{"name": "i", "image": "i", "livenessProbe": _EXEC}],
         [{"name": "i", "image": "i", "restartPolicy": "Always", "livenessProbe": _EXEC}]),
    Pair(f"{_C}.resizePolicy", [{"resourceName": "disk", "restartPolicy": "NotRequired"}],
         [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]),
    Pair(f"{_C}.resizePolicy", [{"resourceName": "cpu", "restartPolicy": "Always"}],
         [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
    Pair(f"{_C}.resizePolicy", [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2,
         [{"resourceName": each, "restartPolicy": "NotRequired"} for each in ("cpu", "memory")]),
    Pair(f"{_C}.terminationMessagePolicy", "Log", "File"),
    Pair(f"{_C}.ports[0].containerPort", 0, 1),
    Pair(f"{_C}.ports[0].containerPort", 65536, 65535),
    Pair(f"{_C}.ports[0].hostPort", -1, 0),
    Pair(f"{_C}.ports[0].name", "http_port", "http-port"),
    Pair(f"{_C}.ports[0].name", "8080", "p8080"),
    Pair(f"{_C}.ports", [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}],
         [{"name": "a", "containerPort": 1}, {"name": "b", "containerPort": 2}]),
    Pair(f"{_C}.ports", [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}],
         [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9, "protocol": "UDP"}]),
]  # fmt: skip
ENVIRONMENT = [
    Pair(f"{_C}.env", [{"name": "A=B"}], [{"name": "A.B-c"}]),
    Pair(f"{_C}.env", [{"name": ""}], [{"name": "A"}]),
    Pair(f"{_C}.env[0].valueFrom", _field("metadata.name"), None),
    Pair(f"{_C}.env", [{"name": "A", "valueFrom": {}}], [{"name": "A"}]),
    Pair(f"{_C}.env", [{"name": "A", "valueFrom": {**_field("metadata.name"), **_resource("limits.cpu")}}],
         [{"name": "A", "valueFrom": _field("metadata.name")}]),
    *(Pair(f"{_C}.env", [{"name": "A", "valueFrom": refused}], [{"name": "A", "valueFrom": taken}]) for refused, taken in [
        (_field("metadata.labels"), _field("metadata.labels['app']")),
        (_field("metadata.labels['a b']"), _field("metadata.labels['example.com/app']")),
        (_field('metadata.labels["app"]'), _field("metadata.annotations['Example.com/App']")),
        (_field("spec.nodename"), _field("spec.nodeName")),
        (_field("status.podIp"), _field("status.podIPs")),
        (_field("metadata.name['x']"), _field("metadata.namespace")),
        (_field("status.phase"), _field("spec.serviceAccountName")),
        (_resource("limits.gpu"), _resource("limits.ephemeral-storage")),
        (_resource("limits.cpu", divisor="1M"), _resource("limits.cpu", divisor="1m")),
        (_resource("limits.memory", divisor="3Mi"), _resource("limits.memory", divisor="1Mi")),
        ({"configMapKeyRef": {"name": "Cart", "key": "a"}}, {"configMapKeyRef": {"name": "cart", "key": "a"}}),
        ({"configMapKeyRef": {"name": "cart", "key": "a b"}}, {"configMapKeyRef": {"name": "cart", "key": "a_b"}}),
        ({"secretKeyRef": {"key": "a"}}, {"secretKeyRef": {"name": "cart", "key": "a"}}),
        ({"secretKeyRef": {"name": "cart", "key": "../a"}}, {"secretKeyRef": {"name": "cart", "key": ".a"}}),
    ]),
    Pair(f"{_C}.envFrom", [{"prefix": "A_"}], [{"prefix": "A_", "secretRef": {"name": "cart"}}]),
    Pair(f"{_C}.envFrom", [{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}], [{"configMapRef": {"name": "a"}}]),
    Pair(f"{_C}.envFrom", [{"configMapRef": {"name": "A"}}], [{"configMapRef": {"name": "a"}}]),
    Pair(f"{_C}.envFrom", [{"configMapRef": {"optional": True}}], [{"configMapRef": {"name": "a", "optional": True}}]),
    Pair(f"{_C}.envFrom", [{"prefix": "a=", "secretRef": {"name": "a"}}], [{"prefix": "a-", "secretRef": {"name": "a"}}]),
]  # fmt: skip
PROBES = [
    Pair(f"{_C}.readinessProbe", {}, _EXEC),
    Pair(f"{_C}.readinessProbe", {**_EXEC, "grpc": {"port": 80}}, {"grpc": {"port": 80}}),
    Pair(f"{_C}.readinessProbe", {"exec": {}}, _EXEC),
    Pair(f"{_C}.readinessProbe", {"httpGet": {"port": 0}}, {"httpGet": {"port": 80}}),
    Pair(f"{_C}.readinessProbe", {"httpGet": {"port": "HTTP_PORT"}}, {"httpGet": {"port": "http"}}),
    Pair(f"{_C}.readinessProbe", {"httpGet": {"port": 80, "scheme": "https"}}, {"httpGet": {"port": 80, "scheme": "HTTPS"}}),
    Pair(f"{_C}.readinessProbe", {"httpGet": {"port": 80, "httpHeaders": [{"name": "x y", "value": "1"}]}},
         {"httpGet": {"port": 80, "httpHeaders": [{"name": "X-Y", "value": "1"}]}}),
    Pair(f"{_C}.readinessProbe", {**_EXEC, "periodSeconds": -1}, {**_EXEC, "periodSeconds": 0}),
    Pair(f"{_C}.readinessProbe", {**_EXEC, "terminationGracePeriodSeconds": 1}, {**_EXEC, "successThreshold": 2}),
    Pair(f"{_C}.livenessProbe", {**_EXEC, "successThreshold": 2}, {**_EXEC, "successThreshold": 1}),
    Pair(f"{_C}.startupProbe", {**_EXEC, "terminationGracePeriodSeconds": 0}, {**_EXEC, "terminationGracePeriodSeconds": 1}),
    Pair(f"{_C}.lifecycle.preStop", {}, {"sleep": {"seconds": 1}}),
    Pair(f"{_C}.lifecycle.preStop", {"sleep": {"seconds": 31}}, {"sleep": {"seconds": 30}}),
    Pair(f"{_C}.lifecycle.postStart", {"exec": {"command": []}}, _EXEC),
]  # fmt: skip
RESOURCES = [
    *(Pair(f"{_C}.resources", refused, taken) for refused, taken in [
        ({"limits": {"gpu": 1}}, {"limits": {"example.com/gpu": 1}}),
        ({"limits": {"example.com/gpu": "500m"}}, {"limits": {"example.com/gpu": 2}}),
        ({"requests": {"example.com/gpu": 1}}, {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 1}}),
        ({"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}}, {"limits": {"nvidia.com/gpu": "1"}}),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}),
        ({"limits": {"hugepages-2Mi": "3Mi", "cpu": 1}}, {"limits": {"hugepages-2Mi": "2Mi", "cpu": 1}}),
        ({"requests": {"hugepages-2Mi": "2Mi", "cpu": 1}}, {"limits": {"hugepages-1Gi": "1Gi", "cpu": 1}}),
        ({"limits": {"cpu": "-1"}}, {"limits": {"cpu": 0}}),
        ({"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}, {"requests": {"cpu": 1.5}, "limits": {"cpu": "1500m"}}),
        ({"limits": {"requests.example.com/gpu": 1}}, {"limits": {"cpu": 1, "memory": "1e9"}}),
        ({"limits": {"storage": "1Gi"}}, {"limits": {"ephemeral-storage": "1Gi"}}),
        ({"claims": [{"name": "gpu"}]}, {}),
    ]),
    Pair("spec.resourceClaims", [{"name": "gpu"}], [{"name": "gpu", "resourceClaimName": "gpu"}]),
    Pair("spec.resourceClaims", [{"name": "GPU", "resourceClaimName": "gpu"}],
         [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]),
    Pair("spec", _sized(requests={"cpu": "1"}), _sized(requests={"cpu": "2"})),
    Pair("spec", _sized(limits={"ephemeral-storage": "1Gi"}), _sized(limits={"memory": "1Gi"})),
    Pair("spec.overhead", {"cpu": "-1"}, {"cpu": "1m"}),
]  # fmt: skip
VOLUMES = [
    Pair(f"{_V}.configMap.defaultMode", 999, 420),
    Pair(f"{_V}.configMap.defaultMode", -1, 0),
    Pair(_V, {"name": "config", "secret": {"secretName": "a", "defaultMode": 512}},
         {"name": "config", "secret": {"secretName": "a", "defaultMode": 511}}),
    Pair(_V, {"name": "config", "secret": {}}, {"name": "config", "secret": {"secretName": "a"}}),
    Pair(_V, {"name": "config", "configMap": {}}, {"name": "config", "configMap": {"name": "a"}}),
    Pair(_V, {"name": "config", "emptyDir": {"sizeLimit": "-1Gi"}}, {"name": "config", "emptyDir": {"sizeLimit": "1Gi"}}),
    Pair(_V, {"name": "config", "emptyDir": {}, "hostPath": {"path": "/a"}}, {"name": "config", "emptyDir": {}}),
    Pair(_V, {"name": "config", "persistentVolumeClaim": {"claimName": ""}},
         {"name": "config", "persistentVolumeClaim": {"claimName": "a"}}),
    Pair(_V, {"name": "config", "hostPath": {"path": "/a/../b"}}, {"name": "config", "hostPath": {"path": "/a/..b"}}),
    Pair(_V, {"name": "config", "hostPath": {"path": ""}}, {"name": "config", "hostPath": {"path": "/a", "type": ""}}),
    Pair(_V, {"name": "config", "nfs": {"server": "a", "path": "b"}}, {"name": "config", "nfs": {"server": "a", "path": "/b"}}),
    Pair(_V, {"name": "config", "csi": {"driver": "a b"}}, {"name": "config", "csi": {"driver": "a.example.com"}}),
    Pair(_V, {"name": "config", "ephemeral": {}}, _claim()),
    Pair(_V, _claim(accessModes=[]), _claim(accessModes=["ReadWriteOncePod"])),
    Pair(_V, _claim(accessModes=["ReadWriteOncePod", "ReadOnlyMany"]), _claim(accessModes=["ReadWriteOnce", "ReadOnlyMany"])),
    Pair(_V, _claim(resources={}), _claim()),
    Pair(_V, _claim(resources={"requests": {"storage": "0"}}), _claim()),
    Pair(f"{_V}.name", "Config", "config"),
    Pair("spec.volumes", [{"name": "config"}] * 2, [{"name": "config"}, {"name": "more"}]),
    Pair(_ITEMS, [{"key": "a", "path": "../a"}], [{"key": "a", "path": "a..b"}]),
    Pair(_ITEMS, [{"key": "a", "path": "/a"}], [{"key": "a", "path": "a/b"}]),
    Pair(_ITEMS, [{"key": "a", "path": "..a"}], [{"key": "a", "path": ".a"}]),
    Pair(_ITEMS, [{"key": "a", "path": ""}], [{"key": "a", "path": "a"}]),
    Pair(_ITEMS, [{"key": "", "path": "a"}], [{"key": "a", "path": "a"}]),
    Pair(_ITEMS, [{"key": "a", "path": "a", "mode": 999}], [{"key": "a", "path": "a", "mode": 384}]),
    *(Pair(_V, {"name": "config", "downwardAPI": {"items": [refused]}}, {"name": "config", "downwardAPI": {"items": [taken]}})
      for refused, taken in [
        ({"path": "/name", **_field("metadata.name")}, {"path": "name", **_field("metadata.name")}),
        ({"path": "a/../b", **_field("metadata.name")}, {"path": "labels", **_field("metadata.labels")}),
        ({"path": "node", **_field("spec.nodeName")}, {"path": "label", **_field("metadata.labels['app']")}),
        ({"path": "none"}, {"path": "notes", **_field("metadata.annotations")}),
        ({"path": "cpu", **_resource("limits.cpu")}, {"path": "cpu", **_resource("limits.cpu", containerName="app")}),
        ({"path": "both", **_field("metadata.uid"), **_resource("limits.cpu", containerName="app")},
         {"path": "both", **_field("metadata.uid")}),
    ]),
    Pair(_V, {"name": "config", "downwardAPI": {"defaultMode": 8888}}, {"name": "config", "downwardAPI": {"defaultMode": 292}}),
    *(Pair(_V, {"name": "config", "projected": {"sources": refused}}, {"name": "config", "projected": {"sources": taken}})
      for refused, taken in [
        ([{"configMap": {"name": "a"}, "secret": {"name": "a"}}], [{"configMap": {"name": "a"}}, {"secret": {"name": "a"}}]),
        ([{"configMap": {}}], [{"configMap": {"name": "a"}}]),
        ([{"secret": {"items": [{"key": "a", "path": "a"}]}}], [{"secret": {"name": "a", "items": [{"key": "a", "path": "a"}]}}]),
        ([{"downwardAPI": {"items": _files("a", "a")}}], [{"downwardAPI": {"items": _files("a", "b")}}]),
        ([{"serviceAccountToken": {"path": "a", "expirationSeconds": 599}}],
         [{"serviceAccountToken": {"path": "a", "expirationSeconds": 600}}]),
        ([{"serviceAccountToken": {"path": "../a"}}], [{"serviceAccountToken": {"path": "a"}}]),
    ]),
    Pair(_V, {"name": "config", "projected": {"sources": [], "defaultMode": 999}},
         {"name": "config", "projected": {"sources": [], "defaultMode": 256}}),
    Pair(f"{_C}.volumeMounts[0].name", "confg", "config"),
    Pair(f"{_C}.volumeMounts[0].mountPath", "", "/"),
    Pair(f"{_C}.volumeMounts", [_MOUNT, _MOUNT], [_MOUNT, {**_MOUNT, "mountPath": "/b"}]),
    Pair(f"{_C}.volumeMounts[0].subPath", "/a", "a"),
    Pair(f"{_C}.volumeMounts[0].subPath", "a/../b", "a/..b"),
    Pair(f"{_C}.volumeMounts[0].subPathExpr", "../$(A)", "$(MODE)"),
    Pair(f"{_C}.volumeMounts[0]", {**_MOUNT, "subPath": "a", "subPathExpr": "b"}, {**_MOUNT, "subPathExpr": "b"}),
    Pair(f"{_C}.volumeMounts[0].mountPropagation", "Bidirectional", "HostToContainer"),
    Pair(f"{_C}.volumeMounts[0].mountPropagation", "Both", "None"),
    Pair(f"{_C}.volumeMounts[0]", {**_MOUNT, "recursiveReadOnly": "Enabled"},
         {**_MOUNT, "recursiveReadOnly": "Enabled", "readOnly": True}),
    Pair(f"{_C}.volumeDevices", [{"name": "config", "devicePath": "/dev/a"}], []),
]  # fmt: skip
PLACEMENT = [
    Pair("spec.nodeSelector", {"a b": "c"}, {"example.com/a": "c"}),
    Pair("spec.nodeSelector", {"a": "b c"}, {"a": ""}),
    Pair("spec.tolerations", [{"operator": "Exists", "value": "a"}], [{"operator": "Exists"}]),
    Pair("spec.tolerations", [{"value": "a"}], [{"key": "a", "value": "a"}]),
    Pair("spec.tolerations", [{"key": "a b", "operator": "Exists"}], [{"key": "a/b", "operator": "Exists"}]),
    Pair("spec.tolerations", [{"key": "a", "value": "b c"}], [{"key": "a", "value": "b-c"}]),
    Pair("spec.tolerations", [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}],
         [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 1}]),
    Pair("spec.tolerations", [{"key": "a", "effect": "Never"}], [{"key": "a", "effect": "PreferNoSchedule"}]),
    Pair("spec.topologySpreadConstraints", [_spread(maxSkew=0)], [_spread(maxSkew=1)]),
    Pair("spec.topologySpreadConstraints", [_spread(topologyKey="")], [_spread(topologyKey="zone")]),
    Pair("spec.topologySpreadConstraints", [_spread(), _spread()], [_spread(), _spread(whenUnsatisfiable="ScheduleAnyway")]),
    Pair("spec.topologySpreadConstraints", [_spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway")], [_spread(minDomains=2)]),
    Pair("spec.topologySpreadConstraints", [_spread(minDomains=0)], [_spread(minDomains=1)]),
    Pair("spec.topologySpreadConstraints", [_spread(whenUnsatisfiable="Never")], [_spread(nodeTaintsPolicy="Honor")]),
    Pair("spec.topologySpreadConstraints", [_spread(labelSelector=None, matchLabelKeys=["tier"])],
         [_spread(matchLabelKeys=["tier"])]),
    Pair("spec.topologySpreadConstraints", [_spread(matchLabelKeys=["a b"])], [_spread(matchLabelKeys=["a/b"])]),
    Pair("spec.topologySpreadConstraints", [_spread(labelSelector={"matchExpressions": _expression("In")})],
         [_spread(labelSelector={"matchExpressions": _expression("In", "a")})]),
    Pair("spec.topologySpreadConstraints", [_spread(labelSelector={"matchExpressions": _expression("Exists", "a")})],
         [_spread(labelSelector={"matchExpressions": _expression("Exists")})]),
    Pair("spec.topologySpreadConstraints", [_spread(labelSelector={"matchExpressions": _expression("Gt", "1")})],
         [_spread(labelSelector={"matchExpressions": _expression("NotIn", "1")})]),
    Pair("spec.topologySpreadConstraints", [_spread(labelSelector={"matchLabels": {"a b": "c"}})],
         [_spread(labelSelector={"matchLabels": {"a": "c"}})]),
    *(Pair(_NODES, [refused], [taken]) for refused, taken in [
        ({"matchExpressions": _expression("In")}, {"matchExpressions": _expression("In", "a", "b")}),
        ({"matchExpressions": _expression("Gt", "1", "2")}, {"matchExpressions": _expression("Gt", "1")}),
        ({"matchExpressions": _expression("DoesNotExist", "1")}, {"matchExpressions": _expression("DoesNotExist")}),
        ({"matchExpressions": _expression("Is", "1")}, {"matchExpressions": _expression("NotIn", "1")}),
        ({"matchExpressions": _expression("Exists", key="a b")}, {"matchExpressions": _expression("Exists", key="a/b")}),
        ({"matchFields": _expression("In", "a")}, {"matchFields": _expression("In", "a", key="metadata.name")}),
        ({"matchFields": _expression("In", "a", "b", key="metadata.name")},
         {"matchFields": _expression("NotIn", "a", key="metadata.name")}),
    ]),
    Pair(_NODES, [], [{"matchExpressions": _expression("Exists")}]),
    Pair(f"spec.affinity.nodeAffinity.preferred{_MANY}", [{"weight": 0, "preference": {}}], [{"weight": 1, "preference": {}}]),
    *(Pair(_APART, [refused], [taken]) for refused, taken in [
        ({**_ZONE, "topologyKey": ""}, _ZONE),
        ({**_ZONE, "topologyKey": "a zone"}, {**_ZONE, "topologyKey": "kubernetes.io/hostname"}),
        ({**_ZONE, "labelSelector": {"matchExpressions": _expression("In")}}, {"topologyKey": "zone"}),
        ({**_ZONE, "labelSelector": {"matchExpressions": _expression("In", "a b")}},
         {**_ZONE, "labelSelector": {"matchExpressions": _expression("In", "a-b")}}),
        ({**_ZONE, "namespaces": ["Shop"]}, {**_ZONE, "namespaces": ["shop"]}),
        ({**_ZONE, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]}, {**_ZONE, "mismatchLabelKeys": ["a"]}),
        ({"topologyKey": "zone", "matchLabelKeys": ["a"]}, {**_ZONE, "matchLabelKeys": ["a"]}),
        ({**_ZONE, "namespaceSelector": {"matchLabels": {"a": "b c"}}}, {**_ZONE, "namespaceSelector": {}}),
    ]),
    Pair(f"spec.affinity.podAffinity.preferred{_MANY}", [{"weight": 101, "podAffinityTerm": _ZONE}],
         [{"weight": 100, "podAffinityTerm": _ZONE}]),
    Pair("spec.nodeName", "Node_1", "node-1.example.com"),
    Pair("spec.schedulingGates", [{"name": "a b"}], [{"name": "example.com/a"}]),
    Pair("spec.schedulingGates", [{"name": "a"}] * 2, [{"name": "a"}, {"name": "b"}]),
    Pair("spec.readinessGates", [{"conditionType": "a b"}], [{"conditionType": "example.com/a"}]),
    Pair("spec.priorityClassName", "High_1", "high"),
    Pair("spec.runtimeClassName", "G Visor", "gvisor"),
    Pair("spec.preemptionPolicy", "Always", "Never"),
]  # fmt: skip
SECURITY = [
    Pair(f"{_SECURITY}.runAsUser", -1, 0),
    Pair(f"{_SECURITY}.runAsGroup", 2**31, 2**31 - 1),
    Pair(f"{_POD_SECURITY}.fsGroup", -5, 5),
    Pair(f"{_POD_SECURITY}.supplementalGroups", [1, -1], [1, 2]),
    Pair(f"{_POD_SECURITY}.fsGroupChangePolicy", "Never", "OnRootMismatch"),
    Pair(_SECURITY, {"privileged": True, "allowPrivilegeEscalation": False}, {"privileged": True}),
    Pair(_SECURITY, {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}},
         {"allowPrivilegeEscalation": False, "capabilities": {"add": ["NET_ADMIN"]}}),
    Pair(f"{_SECURITY}.procMount", "Unmasked", "Default"),
    Pair(f"{_SECURITY}.seccompProfile", {"type": "Localhost"}, _PROFILE),
    Pair(f"{_SECURITY}.seccompProfile", {**_PROFILE, "localhostProfile": "../a"}, {**_PROFILE, "localhostProfile": "a/b"}),
    Pair(f"{_SECURITY}.seccompProfile", {**_PROFILE, "type": "RuntimeDefault"}, {"type": "RuntimeDefault"}),
    Pair(f"{_POD_SECURITY}.seccompProfile", {"type": "Default"}, {"type": "Unconfined"}),
    Pair(f"{_POD_SECURITY}.appArmorProfile", {"type": "Localhost"}, _PROFILE),
    Pair(f"{_POD_SECURITY}.sysctls", [{"name": "Kernel.Shm", "value": "1"}], [{"name": "kernel.shm_rmid_forced", "value": "1"}]),
    Pair(f"{_POD_SECURITY}.sysctls", [{"name": "net..a", "value": "1"}], [{"name": "net/ipv4/tcp_rmem", "value": "1"}]),
    Pair(f"{_POD_SECURITY}.sysctls", [{"name": "a.b", "value": "1"}] * 2, [{"name": "a.b", "value": "1"}]),
    Pair(f"{_POD_SECURITY}.windowsOptions", {"runAsUserName": ""}, {"runAsUserName": "ContainerUser"}),
    Pair(f"{_POD_SECURITY}.windowsOptions", {"runAsUserName": "a\\b\\c"}, {"runAsUserName": "domain\\user"}),
    Pair(f"{_POD_SECURITY}.windowsOptions", {"runAsUserName": "user:a"}, {"runAsUserName": "NT AUTHORITY\\SYSTEM"}),
    Pair(f"{_SECURITY}.windowsOptions", {"runAsUserName": "..."}, {"runAsUserName": "a.b"}),
    Pair(f"{_SECURITY}.windowsOptions", {"gmsaCredentialSpecName": "A B"}, {"gmsaCredentialSpecName": "a-b"}),
    Pair("spec", {"containers": [{"name": "app", "image": "c"}], "os": {"name": "windows"}, "securityContext": {"runAsUser": 1}},
         {"containers": [{"name": "app", "image": "c"}], "os": {"name": "linux"}, "securityContext": {"runAsUser": 1}}),
    Pair("spec", {"containers": [{"name": "app", "image": "c"}], "os": {"name": "linux"},
                  "securityContext": {"windowsOptions": {}}},
         {"containers": [{"name": "app", "image": "c"}], "os": {"name": "windows"}, "securityContext": {"windowsOptions": {}}}),
    Pair("spec.os", {"name": "macos"}, {"name": "linux"}),
]  # fmt: skip
PODS = [
    Pair("spec.serviceAccountName", "My_Account", "my-account"),
    Pair("spec.hostname", "my.host", "my-host"),
    Pair("spec.hostname", "Host", "host"),
    Pair("spec.subdomain", "a.b", "a"),
    Pair("spec.hostAliases", [{"ip": "10.0.0", "hostnames": ["a"]}], [{"ip": "10.0.0.1", "hostnames": ["a.b"]}]),
    Pair("spec.hostAliases", [{"ip": "10.0.0.1", "hostnames": ["A"]}], [{"ip": "::1", "hostnames": ["a"]}]),
    Pair("spec", {"containers": [{"name": "app", "image": "c"}], "hostPID": True, "shareProcessNamespace": True},
         {"containers": [{"name": "app", "image": "c"}], "shareProcessNamespace": True}),
    Pair("spec", {"containers": [{"name": "app", "image": "c"}], "hostUsers": False, "hostIPC": True},
         {"containers": [{"name": "app", "image": "c"}], "hostUsers": False}),
    Pair("spec", {"containers": [{"name": "app", "image": "c", "ports": [{"containerPort": 1, "hostPort": 2}]}],
                  "hostNetwork": True},
         {"containers": [{"name": "app", "image": "c", "ports": [{"containerPort": 1}]}], "hostNetwork": True}),
    Pair("spec", {"containers": []}, {"containers": [{"name": "app", "image": "c"}]}),
    Pair("spec.dnsPolicy", "None", "Default"),
    Pair("spec.dnsConfig", {"nameservers": ["dns"]}, {"nameservers": ["10.0.0.10"]}),
    Pair("spec.dnsConfig", {"nameservers": [f"10.0.0.{each}" for each in range(4)]}, {"nameservers": ["1.1.1.1"] * 3}),
    Pair("spec.dnsConfig", {"searches": ["a b"]}, {"searches": ["a.example.com."]}),
    Pair("spec.dnsConfig", {"searches": ["a"] * 33}, {"searches": ["a"] * 32}),
    Pair("spec.dnsConfig", {"options": [{"value": "2"}]}, {"options": [{"name": "ndots", "value": "2"}]}),
    Pair("spec.activeDeadlineSeconds", 5, None),
    Pair("spec.restartPolicy", "Never", "Always"),
    Pair("spec.ephemeralContainers", [{"name": "debug", "image": "d"}], []),
    Pair("metadata.labels", {"app": "cart", "a b": "c"}, {"app": "cart", "example.com/a": "c"}),
    Pair("metadata.labels", {"app": "cart", "a": "b c"}, {"app": "cart", "a": ""}),
    Pair("metadata.annotations", {"a b": "c"}, {"Example.com/a": "c d"}),
    _annotated("notes", "x" * (256 * 1024), "x" * (255 * 1024)),
    _annotated("controller.kubernetes.io/pod-deletion-cost", "low", "-10"),
    _annotated("container.apparmor.security.beta.kubernetes.io/app", "strict", "localhost/strict"),
    _annotated("container.apparmor.security.beta.kubernetes.io/other", "unconfined", "unconfined")._replace(
        taken={"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}),
]  # fmt: skip
LISTS = [
    Pair(f"{_C}.env", [{"name": "A", "value": "1"}] * 2, [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]),
    Pair("spec.imagePullSecrets", [{"name": "a"}] * 2, [{"name": "a"}, {"name": "b"}]),
    Pair("spec.imagePullSecrets", [{}], []),
    Pair("spec.initContainers", [{"name": "i", "image": "i", "env": [{"name": "A"}] * 2}],
         [{"name": "i", "image": "i", "env": [{"name": "A"}]}]),
    Pair(f"{_C}.env", [{"name": f"A{at}"} for at in range(1025)], [{"name": f"A{at}"} for at in range(1024)]),
]  # fmt: skip
"""What the CRD of Rollouts refuses, though ReplicaSets may have it."""
PAIRS = [*CONTAINERS, *ENVIRONMENT, *PROBES, *RESOURCES, *VOLUMES, *PLACEMENT, *SECURITY, *PODS]

"""Rollouts of the test apps as the cases need them, with the Services that clients and strategies use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from tests import build
from tests.e2e.manifests import container_of

Manifest: TypeAlias = dict[str, Any]
App: TypeAlias = Literal["dies", "graceful"]
Drain: TypeAlias = Literal["auto", "off"]

NAME = "web"
REPLICAS = 4
MAX_REQUEST_S = 5  # what the Rollouts say that their longest request takes

STEPS: Sequence[Manifest] = (
    {"setWeight": 25},
    {"pause": {"duration": "2s"}},
    {"setWeight": 50},
    {"pause": {"duration": "2s"}},
)
GATED_STEPS: Sequence[Manifest] = ({"setWeight": 50}, {"pause": {}})
"""Half of the pods, then a person decides: the place to abort at."""


def canary(
    app: App, drain: Drain, *, steps: Sequence[Manifest] = STEPS, spec: Manifest | None = None, **fields: Any
) -> Manifest:
    """A canary that surges by one pod and lacks none; `fields` go into `strategy.canary`, `spec` into `spec`."""
    return _rollout(build.canary(*steps, **fields), app=app, drain=drain, spec=spec)


def blue_green(app: App, drain: Drain, *, spec: Manifest | None = None, **fields: Any) -> Manifest:
    """A blue-green that promotes itself; the old side goes as soon as the policy lets it; arguments as for `canary`."""
    fields = {"autoPromotionSeconds": 1, "scaleDownDelaySeconds": 0, **fields}
    return _rollout(build.blue_green(NAME, f"{NAME}-preview", **fields), app=app, drain=drain, spec=spec)


def service(name: str = NAME) -> Manifest:
    made = build.service(name, app=NAME)
    made["spec"]["ports"] = [{"name": "http", "port": 80, "targetPort": "http"}]
    return made


def autoscaler(target: Manifest, **spec: Any) -> Manifest:
    """An HPA of the Rollout by the CPU of all its pods, as most are; `target` is of that metric."""
    return build.autoscaler(NAME, None, {"type": "Resource", "resource": {"name": "cpu", "target": target}}, **spec)


def new_version(version: str, *, errors_percent: float = 0, work: str = "20ms", burn_millicores: int = 0) -> Manifest:
    """A merge patch of the spec with which the template's pods say that they are `version`.

    Its answers take `work`, as Go writes it, and some are 500; each pod burns CPU beside them.
    """
    told = (version, f"{errors_percent:g}", work, str(burn_millicores))
    return {"template": {"metadata": {"annotations": dict(zip(_TOLD, told, strict=True))}}}


def ready_after(rollout: Manifest, seconds: int) -> Manifest:
    """The same Rollout, of an app that takes so long to be ready."""
    container_of(rollout)["startupProbe"]["initialDelaySeconds"] = seconds
    return rollout


def mounting(rollout: Manifest, *mounts: Manifest, **volumes: Manifest) -> Manifest:
    """The same Rollout, of pods with these volumes, by name, mounted at these places."""
    rollout["spec"]["template"]["spec"]["volumes"] = [{"name": name, **volume} for name, volume in volumes.items()]
    container_of(rollout)["volumeMounts"] = list(mounts)
    return rollout


_TOLD = ("version", "errors-percent", "work", "burn-millicores")
"""What a pod's template tells its app: annotations, which may be missing; environment variables have their names."""

_READY: Manifest = {"httpGet": {"path": "/ready", "port": "http"}, "timeoutSeconds": 5}


def _rollout(strategy: Manifest, *, app: App, drain: Drain, spec: Manifest | None) -> Manifest:
    metadata = {"labels": {"app": NAME}, "annotations": {"version": "1"}}
    container = {
        "name": "web",
        "imagePullPolicy": "Never",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [
            _read("POD_NAME", "metadata.name"),
            # Enough for its share of the requests, and a third less work for the machine.
            {"name": "GOMAXPROCS", "value": "1"},
            *(_read(each.upper().replace("-", "_"), f"metadata.annotations['{each}']") for each in _TOLD),
        ],
        # Soon ready, and not unready because the machine was busy for a second.
        "startupProbe": {**_READY, "periodSeconds": 1, "failureThreshold": 60},
        "readinessProbe": {**_READY, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    pod = {"automountServiceAccountToken": False, "enableServiceLinks": False}
    image = f"registry.local/app-{app}:1"
    template = build.pod_template(NAME, image=image, container=container, metadata=metadata, **pod)
    drains = {"mode": drain.capitalize(), "maxRequestSeconds": MAX_REQUEST_S}
    return build.rollout(strategy, NAME, template=template, **{"replicas": REPLICAS, "drain": drains, **(spec or {})})


def _read(variable: str, field: str) -> Manifest:
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": field}}}

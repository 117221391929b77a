"""Rollouts of the test apps as the cases need them, with the Services that clients and strategies use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

Manifest: TypeAlias = dict[str, Any]
App: TypeAlias = Literal["dies", "graceful"]
Drain: TypeAlias = Literal["auto", "off"]

NAME = "web"
REPLICAS = 4
MAX_REQUEST_S = 5
"""What the Rollouts say that their longest request takes."""

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
    strategy = {"maxSurge": 1, "maxUnavailable": 0, "steps": list(steps), **fields}
    return _rollout({"canary": strategy}, app=app, drain=drain, spec=spec)


def blue_green(app: App, drain: Drain, *, spec: Manifest | None = None, **fields: Any) -> Manifest:
    """A blue-green that promotes itself; the old side goes as soon as the policy lets it; arguments as for `canary`."""
    strategy = {
        "activeService": NAME,
        "previewService": f"{NAME}-preview",
        "autoPromotionSeconds": 1,
        "scaleDownDelaySeconds": 0,
        **fields,
    }
    return _rollout({"blueGreen": strategy}, app=app, drain=drain, spec=spec)


def service(name: str = NAME) -> Manifest:
    """A Service on port 80 for the app's pods."""
    spec = {"selector": {"app": NAME}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def new_version(version: str, *, errors_percent: float = 0, work: str = "20ms", burn_millicores: int = 0) -> Manifest:
    """A merge patch of the spec with which the template's pods say that they are `version`.

    Args:
        errors_percent: of its answers that are 500.
        work: how long each takes, as Go writes it.
        burn_millicores: of a core that each pod uses beside them.
    """
    annotations = {
        "version": version,
        "errors-percent": f"{errors_percent:g}",
        "work": work,
        "burn-millicores": str(burn_millicores),
    }
    return {"template": {"metadata": {"annotations": annotations}}}


def ready_after(rollout: Manifest, seconds: int) -> Manifest:
    """The same Rollout, of an app that takes so long to be ready."""
    (container,) = rollout["spec"]["template"]["spec"]["containers"]
    container["startupProbe"]["initialDelaySeconds"] = seconds
    return rollout


def requesting(rollout: Manifest, *, cpu: str) -> Manifest:
    """The same Rollout, of pods whose container requests so much of a processor."""
    (container,) = rollout["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"]["cpu"] = cpu
    return rollout


def with_state(rollout: Manifest) -> Manifest:
    """The same Rollout, of pods that remember what they were told (`/crash`) when their container is started again."""
    pod = rollout["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "state", "emptyDir": {}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    return rollout


def _rollout(strategy: Manifest, *, app: App, drain: Drain, spec: Manifest | None) -> Manifest:
    return {
        "apiVersion": "rollouts.dev/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": strategy,
            "template": {
                "metadata": {"labels": {"app": NAME}, "annotations": {"version": "1"}},
                "spec": _pod(app),
            },
            **_drain(drain),
            **(spec or {}),
        },
    }


_TOLD = {
    "VERSION": "version",
    "ERRORS_PERCENT": "errors-percent",
    "WORK": "work",
    "BURN_MILLICORES": "burn-millicores",
}
"""What a pod's template tells its app: environment variable by annotation, which may be missing."""

_READY: Manifest = {"httpGet": {"path": "/ready", "port": "http"}, "timeoutSeconds": 5}


def _pod(app: App) -> Manifest:
    container = {
        "name": "web",
        "image": f"registry.local/app-{app}:1",
        "imagePullPolicy": "Never",
        "ports": [{"name": "http", "containerPort": 8080}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {
                "name": "GOMAXPROCS",
                "value": "1",
            },  # enough for its share of the requests, and a third less work for the machine
            *(
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}}
                for name, annotation in _TOLD.items()
            ),
        ],
        # Soon ready, and not unready because the machine was busy for a second.
        "startupProbe": {**_READY, "periodSeconds": 1, "failureThreshold": 60},
        "readinessProbe": {**_READY, "periodSeconds": 5},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }
    return {"automountServiceAccountToken": False, "enableServiceLinks": False, "containers": [container]}


def _drain(drain: Drain) -> Manifest:
    return {"drain": {"mode": drain.capitalize(), "maxRequestSeconds": MAX_REQUEST_S}}

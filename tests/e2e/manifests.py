"""Rollouts and Services as people write them, short enough to be read in a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rollouts.objects import ANALYSIS_RUN, EXPERIMENT
from tests import build

Manifest = dict[str, Any]

KUBE_PROXY = build.config_map(
    "kube-proxy",
    "kube-system",
    data={"config.conf": "kind: KubeProxyConfiguration\nmode: nftables\nnftables: {minSyncPeriod: 1s}\n"},
)
"""What kubeadm leaves in every cluster: by it the controller knows how long proxies take."""

STEPS: Sequence[Manifest] = ({"setWeight": 25}, {"pause": {}}, {"setWeight": 50}, {"pause": {"duration": "5s"}})
"""A gate for a person at a quarter, then five seconds at a half."""

GATE, HALF = 1, 3
"""Indices of the two pauses in STEPS."""

_CONTAINER = {"name": "web", "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}}}


def canary(name: str, *, image: str = "web:1", replicas: int = 4, steps: Sequence[Manifest] = STEPS, spec: Manifest | None = None,
           configured_by: Sequence[str] = (), **fields: Any) -> Manifest:  # fmt: skip
    """A canary; `fields` go into `strategy.canary`, `spec` into `spec`. Its environment is that of the named ConfigMaps."""
    read = [{"configMapRef": {"name": each}} for each in configured_by]
    more = {"envFrom": read} if read else {}
    return _rollout(name, build.canary(*steps, **fields), image, replicas=replicas, container=more, **(spec or {}))


def blue_green(
    name: str, *, image: str = "web:1", replicas: int = 3, spec: Manifest | None = None, **fields: Any
) -> Manifest:
    """A blue-green Rollout with Services NAME-active and NAME-preview; `fields` go into `strategy.blueGreen`."""
    strategy = build.blue_green(f"{name}-active", f"{name}-preview", **fields)
    return _rollout(name, strategy, image, replicas=replicas, container={}, **(spec or {}))


def _rollout(name: str, strategy: Manifest, image: str, *, container: Manifest, **spec: Any) -> Manifest:
    template = build.pod_template(name, image=image, container={**_CONTAINER, **container})
    return build.rollout(strategy, name, template=template, drain={"maxRequestSeconds": 1}, **spec)


def container_of(one: Manifest) -> Manifest:
    """The only container of an object's pod template, to be changed or read."""
    (container,) = one["spec"]["template"]["spec"]["containers"]
    found: Manifest = container
    return found


def service(name: str, *, app: str) -> Manifest:
    return build.service(name, app=app)


def services(app: str, *sides: str) -> list[Manifest]:
    """Services APP-SIDE of the pods labelled `app`."""
    return [service(f"{app}-{side}", app=app) for side in sides]


def config_map(name: str, data: Manifest | None = None, **more: Any) -> Manifest:
    return build.config_map(name, data={"color": "blue"} if data is None else data, **more)


def analysis_run(name: str, metrics: Sequence[Manifest]) -> Manifest:
    return build.manifest(ANALYSIS_RUN, name, spec={"metrics": list(metrics)})


def experiment(name: str, *, image: str = "web:1", **spec: object) -> Manifest:
    """Two pods behind a Service."""
    container = {"ports": [{"containerPort": 80}]}
    blue: Manifest = {
        "name": "blue",
        "replicas": 2,
        "selector": {"matchLabels": {"app": name}},
        "template": build.pod_template(name, image=image, container=container),
        "service": {"name": f"{name}-blue"},
    }
    return build.manifest(EXPERIMENT, name, spec={"templates": [blue], "scaleDownDelaySeconds": 1, **spec})

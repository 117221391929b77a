"""The part of the spec for the annotations of ingress-nginx, as in Argo Rollouts: Ingresses, a prefix, annotations.

Nothing shows when a change is live. ingress-nginx applies at most 0.3 changes a second (`--sync-rate-limit`), its workers look
for new backends once a second (`balancer.lua`), and a new Ingress causes a reload. Higress and MSE are istiods with an Envoy, so
they may wait 10 s (`istio/settings.py`); Alibaba's ALB is a load balancer of the cloud, as AWS's is (`alb/codec.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.objects import Kind
from rollouts.traffic.codec import Target
from rollouts.traffic.nginx.canary_annotations import read_annotations
from rollouts.traffic.settings import SettingsReader

INGRESS_KINDS = (Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),)
DEFAULT_PREFIX = "nginx.ingress.kubernetes.io"
_NO_PING_PONG = (
    "nginx cannot do this: its Ingress leads to one Service, whichever is stable; remove pingPong, and write stableService and "
    "canaryService"
)
_NAME_MOST = 253
_SETTLE_S = {
    DEFAULT_PREFIX: 10.0,  # two changes at --sync-rate-limit, a reload and a look for backends
    "alb.ingress.kubernetes.io": 60.0,
    "higress.io": 15.0,
    "mse.ingress.kubernetes.io": 15.0,
}
"""Settle times by the prefix of the routers that support canaries; to other routers ours would be a second full Ingress."""


def targets_of(settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
    """The Ingresses that the settings name. Raises: SpecInvalid, with every problem at once."""
    read = SettingsReader(settings)
    names = tuple(filter(None, (read.object_name("stableIngress"), *read.object_names("stableIngresses"))))
    prefix = read.text("annotationPrefix", default=DEFAULT_PREFIX).rstrip("/")
    if prefix not in _SETTLE_S:
        known = ", ".join(_SETTLE_S)
        read.refuse(
            "annotationPrefix",
            f"{prefix[:80]!r} is not one of {known}: a router that does not know it takes the canary for a second full Ingress",
        )
    options = {"prefix": prefix, "annotations": read_annotations(read, prefix)}
    if not names:
        read.refuse("stableIngress", "is required, unless stableIngresses is given")
    for name in names:
        if len(name) > _NAME_MOST - len("-canary"):
            read.refuse("stableIngress", f"{name[:20]}… is too long: {name[:20]}…-canary must be a valid name too")
    read.done()
    one = Target(
        kinds=INGRESS_KINDS,
        namespace=namespace,
        name="",
        options=options,
        settle_s=_SETTLE_S[prefix],
        weight_total=None if prefix == DEFAULT_PREFIX else 100,
        no_ping_pong=_NO_PING_PONG,
    )
    return tuple(replace(one, name=name, owned_name=f"{name}-canary") for name in names)

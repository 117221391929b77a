"""The part of the spec for the annotations of ingress-nginx, as in Argo Rollouts: Ingresses, a prefix, annotations.

Nothing shows when a change is live. ingress-nginx applies at most 0.3 changes a second (`--sync-rate-limit`), its workers look
for new backends once a second (`balancer.lua`), and a new Ingress causes a reload. Higress and MSE are istiods with an Envoy, so
they may wait 10 s (`istio/settings.py`); Alibaba's ALB is a load balancer of the cloud, as AWS's is (`alb/codec.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.core.model.grammar import is_label_key, is_snippet
from rollouts.objects import NAME_MAX, Kind
from rollouts.traffic.codec import Target
from rollouts.traffic.settings import SettingsReader

VALUE_MOST = 1_024  # characters
_BY_STEPS = frozenset({"canary-by-header", "canary-by-header-value", "canary-by-header-pattern"})
_BY_WEIGHT = frozenset({"canary", "canary-weight", "canary-weight-total"})
OURS = _BY_STEPS | _BY_WEIGHT
"""Names of the annotations that the controller writes."""

INGRESS_KINDS = (Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),)
DEFAULT_PREFIX = "nginx.ingress.kubernetes.io"
_NO_PING_PONG = (
    "nginx cannot do this: its Ingress leads to one Service, whichever is stable; remove pingPong, and write stableService and "
    "canaryService"
)
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
        if len(name) > NAME_MAX - len("-canary"):
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


def read_annotations(read: SettingsReader, prefix: str) -> Mapping[str, str]:
    """Both maps of the settings as one, with whole keys; annotations that are not allowed are noted as problems.

    Whoever may write Rollouts may not be allowed to write Ingresses. So a key must have the prefix by which the router recognizes
    canaries; another prefix could name another router, a certificate or a DNS record. Snippets are text for the router's
    configuration, which all Ingresses share (CVE-2021-25742), and a second line of a value would be too (CVE-2025-24514).
    """
    found: dict[str, str] = {}
    for field in ("additionalIngressAnnotations", "canaryIngressAnnotations"):
        for given, text in read.text_map(field).items():
            key = given
            if field == "additionalIngressAnnotations" and "/" not in given:
                key = f"{prefix}/{given}"
            for problem in _problems(key, text, prefix):
                read.refuse(f"{field}[{given}]", problem)
            if key in found:
                read.refuse(f"{field}[{given}]", "is given twice; keep one of them")
            found[key] = text
    return found


def _problems(key: str, text: str, prefix: str) -> Iterator[str]:
    before, _, name = key.partition("/")
    if before != prefix:
        yield f"must begin with {prefix}/: an annotation of another prefix could make the Ingress more than a canary"
    elif not is_label_key(key):
        yield f"{name!r} is not a valid key of an annotation after {prefix}/"
    elif name in _BY_STEPS:
        yield "the controller writes this annotation; remove it, and write a setHeaderRoute step"
    elif name in _BY_WEIGHT:
        yield "the controller writes this annotation; remove it, and write setWeight steps"
    elif is_snippet(name):
        yield "would put text into the configuration of every Ingress; remove it"
    elif not text.isprintable():
        yield "must be one line without control characters"
    elif len(text) > VALUE_MOST:
        yield f"must have at most {VALUE_MOST} characters"

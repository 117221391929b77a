"""AWS Application Load Balancer: weights in the `actions.<Service>` annotation of the user's Ingress.

Settings are Argo Rollouts'. The Ingress names the Service with the port `use-annotation`, and the AWS Load Balancer Controller
reads the target groups from the annotation's JSON. Target groups of others stay as they are. Source: AWS Load Balancer
Controller v2, ingress annotations.

Its controller works changes off one load balancer after another, and AWS's API makes it wait; then the load balancer's nodes
follow. Seen by its users: 40 s and more from a change until it was made, minutes when the API throttles (issues 1080, 2070 and
3588 of kubernetes-sigs/aws-load-balancer-controller). Nothing in the cluster tells when it is done; AWS does (`probes/alb.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rollouts.core.traffic import Answer, Verdict
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.annotations import OneAnnotation
from rollouts.traffic.codec import Context, Objects, Target
from rollouts.traffic.settings import Settings
from rollouts.traffic.weights import Pair, weights_for

KINDS = (Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),)
_SETTLE_S = 60.0
_WEIGHT_MOST = 999  # of a target group: AWS, Elastic Load Balancing, TargetGroupTuple


class _Alb(OneAnnotation):
    name = "alb"

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = Settings(settings)
        names = tuple(filter(None, (read.text("ingress"), *read.texts("ingresses"))))
        options: dict[str, Any] = {
            "port": str(read.number("servicePort", needed=True)),
            "root": read.text("rootService"),
            "prefix": read.text("annotationPrefix", default="alb.ingress.kubernetes.io"),
        }
        if (sticky := read.part("stickinessConfig")) is not None:
            duration_s = sticky.number("durationSeconds", default=3600)
            options["sticky"] = {"enabled": sticky.flag("enabled"), "durationSeconds": duration_s}
            sticky.done()
        if not names:
            read.refuse("ingress", "is required, or ingresses")
        read.done()
        return tuple(
            Target(kinds=KINDS, namespace=namespace, name=name, options=options, settle_s=_SETTLE_S) for name in names
        )

    def annotation(self, target: Target, context: Context) -> str:
        return f"{target.options['prefix']}/actions.{target.options['root'] or context.stable_service}"

    def share(self, text: str | None, user: Manifest, target: Target, context: Context) -> Fraction | None:
        return None if text is None else _pair(_groups(_action(text)), context).share

    def text(self, before: str | None, share: Fraction, user: Manifest, target: Target, context: Context) -> str:
        first: Manifest = {"serviceName": context.stable_service, "servicePort": target.options["port"], "weight": 100}
        action: Manifest = {"type": "forward", "forwardConfig": {"targetGroups": [first]}}
        if before is not None:
            action = _action(before)
        groups = _groups(action)
        foreign = any(
            each.get("serviceName") not in (context.stable_service, context.canary_service) for each in groups
        )
        weights = weights_for(share, users=_pair(groups, context), most=_WEIGHT_MOST, fixed_total=foreign)
        pair: Manifest = {context.stable_service: weights.stable, context.canary_service: weights.canary}
        changed = [
            {**each, "weight": pair[each["serviceName"]]} if each.get("serviceName") in pair else each
            for each in groups
        ]
        if not any(each.get("serviceName") == context.canary_service for each in groups):
            changed.append(
                {"serviceName": context.canary_service, "servicePort": target.options["port"], "weight": weights.canary}
            )
        config = {**action["forwardConfig"], "targetGroups": changed}
        if "sticky" in target.options:
            config["targetGroupStickinessConfig"] = target.options["sticky"]
        return json.dumps({**action, "forwardConfig": config}, separators=(",", ":"))

    def accepted(self, objects: Objects, target: Target) -> Verdict:
        """The load balancer's controller writes Events, and an address into the status; nothing about this generation."""
        return Verdict(Answer.YES)

    def gateways(self, objects: Objects, target: Target) -> tuple[str, ...]:
        return ()


def _action(text: str) -> Manifest:
    try:
        action: Manifest = json.loads(text)
        if not isinstance(action["forwardConfig"]["targetGroups"], list):
            raise TypeError("targetGroups")
    except (ValueError, KeyError, TypeError) as error:
        raise Unroutable("its action is no JSON with forwardConfig.targetGroups; mend the annotation") from error
    return action


def _groups(action: Manifest) -> list[Manifest]:
    found: list[Manifest] = action["forwardConfig"]["targetGroups"]
    return found


def _pair(groups: list[Manifest], context: Context) -> Pair:
    """A target group without a weight has 1. Raises: Unroutable."""
    weights = {each.get("serviceName"): int(each.get("weight", 1)) for each in groups}
    if context.stable_service not in weights:
        raise Unroutable(f"its action has no target group for Service {context.stable_service}; add one")
    return Pair(weights[context.stable_service], weights.get(context.canary_service, 0))


PROVIDER = _Alb()

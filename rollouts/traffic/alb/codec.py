"""AWS Application Load Balancer: weights in the `actions.<Service>` annotation of the user's Ingress.

Settings are Argo Rollouts'. The Ingress names the Service with the port `use-annotation`, and the AWS Load Balancer Controller
reads the target groups from the annotation's JSON (`action.py`). Target groups of others stay as they are. Source: AWS Load
Balancer Controller v2, ingress annotations.

That controller applies changes to one load balancer after another, and AWS's API makes it wait; then the load balancer's nodes
follow. Its users saw 40 s and more until a change was applied, and minutes when the API throttled (issues 1080, 2070 and 3588 of
kubernetes-sigs/aws-load-balancer-controller). Nothing in the cluster shows when a change is live: the controller writes Events
and an address, and nothing about a generation. AWS shows it (`probes/alb.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rollouts.core.model.frozen import replace
from rollouts.core.model.grammar import KEY_NAME_MOST, is_object_name
from rollouts.core.model.traffic import RuleSaid
from rollouts.errors import Unroutable
from rollouts.objects import Kind, Manifest
from rollouts.traffic.alb.action import Action, put, service_of
from rollouts.traffic.alb.rules import USE_ANNOTATION, rules_of
from rollouts.traffic.codec import Context, Objects, Target
from rollouts.traffic.rules.annotations import OneAnnotation, default_service, ingress_paths
from rollouts.traffic.rules.weights import weights_for
from rollouts.traffic.settings import SettingsReader

KINDS = (Kind("networking.k8s.io", "v1", "Ingress", "ingresses"),)
_SETTLE_S = 60.0
_WEIGHT_MOST = 999  # of a target group: AWS, Elastic Load Balancing, TargetGroupTuple
_STICKY_MOST_S = 604_800  # a week: AWS, Elastic Load Balancing, TargetGroupStickinessConfig
_SERVICE_MOST = KEY_NAME_MOST - len("actions.")
_NEEDS_ROOT = (
    "needs trafficRouting.alb.rootService, the Service that the Ingress's paths name: without it the annotation is named after "
    "the stable Service, which becomes another one with the first promotion, and the paths do not follow"
)


class _Alb(OneAnnotation):
    name = "alb"

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        read = SettingsReader(settings)
        names = tuple(filter(None, (read.object_name("ingress"), *read.object_names("ingresses"))))
        port = read.number("servicePort", needed=True, least=1, most=65_535)
        options: dict[str, Any] = {
            "root": read.object_name("rootService"),
            "prefix": read.text("annotationPrefix", default="alb.ingress.kubernetes.io").rstrip("/"),
        }
        if not is_object_name(options["prefix"]):
            read.refuse(
                "annotationPrefix", f"{options['prefix']!r} is not a prefix of annotations; write a DNS subdomain"
            )
        if len(options["root"]) > _SERVICE_MOST:
            read.refuse(
                "rootService",
                f"is too long: in an annotation actions.<rootService> it can have {_SERVICE_MOST} characters",
            )
        if (sticky := read.part("stickinessConfig")) is not None:
            options["sticky"] = _stickiness(sticky)
        if not names:
            read.refuse("ingress", "is required, unless ingresses is given")
        read.done()
        one = Target(
            kinds=KINDS,
            namespace=namespace,
            name="",
            options=options,
            settle_s=_SETTLE_S,
            service_port=port,
            no_ping_pong="" if options["root"] else _NEEDS_ROOT,
        )
        return tuple(replace(one, name=name) for name in names)

    def annotation(self, target: Target, context: Context) -> str:
        return f"{target.options['prefix']}/actions.{_root(target, context)}"

    def share(self, text: str | None, user: Manifest, target: Target, context: Context) -> Fraction | None:
        root, services = _root(target, context), [default_service(user)]
        services += [service for _, _, service in ingress_paths(user)]
        ports = [(service.get("name"), (service.get("port") or {}).get("name")) for service in services]
        if (root, USE_ANNOTATION) not in ports:  # the load balancer's controller would ignore the annotation
            raise Unroutable(
                f"none of its paths leads to Service {root} with the port name {USE_ANNOTATION}, so an action has no "
                f"effect; write backend: {{service: {{name: {root}, port: {{name: {USE_ANNOTATION}}}}}}}"
            )
        return None if text is None else Action.of(text).pair(context).share

    def text(self, before: str | None, share: Fraction, user: Manifest, target: Target, context: Context) -> str:
        pair = [(context.stable_service, 100), (context.canary_service, 0)]
        first = [_group(service, target, weight) for service, weight in pair]
        config = {"targetGroups": first}
        action = Action({"type": "forward", "forwardConfig": config}, config, first)
        if before is not None:
            action = Action.of(before)
        services = [service_of(each) for each in action.groups]
        foreign = any(each not in (context.stable_service, context.canary_service) for each in services)
        weights = weights_for(share, users=action.pair(context), most=_WEIGHT_MOST, fixed_total=foreign)
        by_service = {context.stable_service: weights.stable, context.canary_service: weights.canary}
        groups = [
            put(each, "weight", by_service[service]) if service in by_service else each
            for each, service in zip(action.groups, services, strict=True)
        ]
        if context.canary_service not in services:
            groups.append(_group(context.canary_service, target, weights.canary))
        return action.changed(groups, target.options.get("sticky"))

    def rules(self, objects: Objects, target: Target, context: Context) -> tuple[RuleSaid, ...]:
        root, prefix = _root(target, context), target.options["prefix"]
        return rules_of(objects.user, context, root=root, prefix=prefix)


def _group(service: str, target: Target, weight: int) -> Manifest:
    return {"serviceName": service, "servicePort": str(target.service_port), "weight": weight}


def _stickiness(read: SettingsReader) -> Manifest:
    """The stickiness to write. A duration is checked only when stickiness is enabled, as in Argo Rollouts."""
    enabled = read.flag("enabled")
    duration_s = read.number("durationSeconds", default=3_600)
    if enabled and not 1 <= duration_s <= _STICKY_MOST_S:
        read.refuse("durationSeconds", f"must be from 1 to {_STICKY_MOST_S}, not {duration_s}")
    read.done()
    return {"enabled": True, "durationSeconds": duration_s} if enabled else {"enabled": False}


def _root(target: Target, context: Context) -> str:
    """The Service that the paths and the annotation name. Raises: Unroutable when its name is too long for an annotation."""
    root: str = target.options["root"] or context.stable_service
    if len(root) > _SERVICE_MOST:
        raise Unroutable(
            f"an annotation actions.{root} would be too long: use a Service whose name has at most {_SERVICE_MOST} characters "
            "in alb.rootService and in the paths"
        )
    return root


PROVIDER = _Alb()

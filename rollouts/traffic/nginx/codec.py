"""The canary annotations of ingress-nginx, which Traefik, Higress, MSE and Alibaba's ALB understand too: a second Ingress, ours.

The user's Ingress stays as it is; ours, `<name>-canary`, leads the same hosts and paths to the canary Service. It has the same
class. It inherits every other annotation from the user's, so none is copied, and neither is `tls`: ingress-nginx creates servers
from Ingresses that are not canaries, and takes only backends from a canary (internal/ingress/controller, createServers). Headers
go before weights. Source: ingress-nginx, annotations.md#canary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rollouts.core.model.traffic import Feature, MatchKind, Split
from rollouts.errors import Unroutable
from rollouts.objects import Manifest
from rollouts.traffic.codec import ApplyOwned, Context, DeleteOwned, Objects, Op, SharesAlone, Target
from rollouts.traffic.nginx.settings import INGRESS_KINDS, targets_of
from rollouts.traffic.rules.ledger import Ledger, ledger_of, with_ledger
from rollouts.traffic.rules.text_matches import as_regex

KINDS = INGRESS_KINDS
CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_WEIGHT = re.compile(r"[0-9]{1,9}")


class _Nginx(SharesAlone):
    """Its counters tell requests by Ingress and Service, so no rules are compared with them."""

    name = "nginx"
    supported_features = frozenset({Feature.HEADER, Feature.HEADER_REGEX})

    def targets(self, settings: Mapping[str, Any], *, namespace: str) -> tuple[Target, ...]:
        return targets_of(settings, namespace=namespace)

    def read(self, objects: Objects, target: Target, context: Context) -> Split:
        paths = _canary_rules(objects.user, context)
        owned, prefix = objects.owned, target.options["prefix"]
        if owned is None:
            return Split(Fraction(0))
        told: Mapping[str, str] = owned.get("metadata", {}).get("annotations") or {}
        weight, total = (told.get(f"{prefix}/canary-weight", "0"), told.get(f"{prefix}/canary-weight-total", "100"))
        numbers = all(_WEIGHT.fullmatch(each) for each in (weight, total))
        sound = told.get(f"{prefix}/canary") == "true" and numbers and int(total) > 0
        share = min(Fraction(int(weight), int(total)), Fraction(1)) if sound else Fraction(0)
        split = Split(share, ledger_of(owned).matches)
        try:
            wanted = _owned(paths, objects.user, target, split)
        except Unroutable:  # it differs from everything that we write
            return Split(split.share, split.matches, whole=False)
        ours = {name: text for name, text in told.items() if name.startswith(f"{prefix}/canary")}
        asked: Mapping[str, str] = wanted["metadata"]["annotations"]
        same = all(told.get(name) == text for name, text in asked.items()) and set(ours) <= set(asked)
        if sound and split.reaches_canary and same and _covers(owned.get("spec"), wanted["spec"]):
            return split
        return Split(split.share, split.matches, whole=False)

    def plan(self, objects: Objects, target: Target, context: Context, want: Split) -> tuple[Op, ...]:
        self.check_experiments(want, target)
        if self.read(objects, target, context) == want:
            return ()
        if not want.reaches_canary:
            return (DeleteOwned(),)
        if want.sticky:
            raise Unroutable("an Ingress cannot tell clients apart by the value of a cookie; remove stickiness")
        if want.mirrors:
            raise Unroutable("an Ingress cannot mirror to the canary alone; remove the mirror from the steps")
        return (ApplyOwned(_owned(_canary_rules(objects.user, context), objects.user, target, want)),)

    def release(self, objects: Objects, target: Target, context: Context) -> tuple[Op, ...]:
        return () if objects.owned is None else (DeleteOwned(),)


def _owned(rules: list[Manifest], user: Manifest, target: Target, split: Split) -> Manifest:
    annotations = {**target.options["annotations"], **_canary_annotations(split, target)}
    ingress_class = (user.get("spec") or {}).get("ingressClassName")
    annotated_class = (user["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    if annotated_class and not ingress_class:  # the API server accepts only one of the two in a new Ingress
        annotations[CLASS_ANNOTATION] = annotated_class
    manifest = {
        **target.kinds[0].head,
        "metadata": {"name": target.owned_name, "namespace": target.namespace, "annotations": annotations},
        "spec": {**({"ingressClassName": ingress_class} if ingress_class else {}), "rules": rules},
    }
    return with_ledger(manifest, Ledger(matches=split.matches))


def _canary_annotations(split: Split, target: Target) -> dict[str, str]:
    percent, prefix = split.share * 100, target.options["prefix"]
    found = {"canary": "true", "canary-weight": str(percent)}
    if percent.denominator > 1:
        if target.weight_total is not None:
            raise Unroutable(f"{prefix} takes whole percentages only, and {float(percent):g} % is not one")
        found |= {"canary-weight": str(split.share.numerator), "canary-weight-total": str(split.share.denominator)}
    headers = [header for route in split.matches for header in route.match.headers]
    if split.matches:
        match = split.matches[0].match
        if len(split.matches) > 1 or len(headers) != 1 or match.cookies or match.query or match.path or match.method:
            raise Unroutable("a canary Ingress matches one header in one route; keep one of them")
        (header,) = headers
        found["canary-by-header"] = header.name
        if header.value.kind is MatchKind.EXACT:
            found["canary-by-header-value"] = header.value.value
        else:
            found["canary-by-header-pattern"] = as_regex(header.value)
    return {f"{prefix}/{name}": text for name, text in found.items()}


def _canary_rules(user: Manifest, context: Context) -> list[Manifest]:
    """The user's rules for the stable Service, changed to lead to the canary Service. Raises: Unroutable when there are none."""
    found: list[Manifest] = []
    for rule in (user.get("spec") or {}).get("rules") or ():
        paths = []
        for path in (rule.get("http") or {}).get("paths") or ():
            service = (path.get("backend") or {}).get("service") or {}
            if service.get("name") == context.stable_service:
                paths.append({**path, "backend": {"service": {**service, "name": context.canary_service}}})
        if paths:
            found.append({**({"host": rule["host"]} if "host" in rule else {}), "http": {"paths": paths}})
    if not found:
        raise Unroutable(f"none of its paths leads to Service {context.stable_service}; change one so that it does")
    return found


def _covers(there: Any, wanted: Any) -> bool:
    """Whether `there` contains all of `wanted`; the server adds fields."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(name in there and _covers(there[name], value) for name, value in wanted.items())
    if isinstance(there, list) and isinstance(wanted, list):
        return len(there) == len(wanted) and all(map(_covers, there, wanted))
    return bool(there == wanted)


PROVIDER = _Nginx()

"""Judges what an Application Load Balancer does with the requests of an Ingress, by its listeners' rules and its targets' health.

The AWS Load Balancer Controller creates a target group for each Service and port of each Ingress, tags it with its origin,
`NAMESPACE/INGRESS-SERVICE:PORT`, and binds it to the Service by a TargetGroupBinding. So rules that forward to such a target
group are this Ingress's rules. It changes one rule after another, and registers pods meanwhile.

Source: AWS Load Balancer Controller v2, `pkg/deploy/tracking` (tags), `pkg/ingress/model_build_target_group.go`; AWS, Elastic
Load Balancing API 2015-12-01, DescribeRules and DescribeTargetHealth.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.core.model.traffic import MatchKind, TextMatch
from rollouts.metrics.kubernetes_values import ListedItems, json_of
from rollouts.ports import LiveQuestion
from rollouts.probes.verdict import Entry, FiledRules, Judgement, RequestCondition, judged
from rollouts.traffic.alb.rules import HOST, USE_ANNOTATION

RESOURCE_TAG = "ingress.k8s.aws/resource"
SERVICE_LABEL = "kubernetes.io/service-name"
_HEALTHY = "healthy"
_DRAINING = "draining"
_INITIAL = "initial"
_IP = "ip"
_SHOWN = 3  # targets in a message


class TargetGroup(Struct, frozen=True, kw_only=True):
    """One target group that is bound to a Service.

    Args:
        by_address: whether its targets are pods, by IP address; otherwise nodes, by instance.
        shared: whether other clusters have targets in it too.
    """

    arn: str
    service: str
    by_address: bool = True
    ipv6: bool = False
    shared: bool = False

    @property
    def name(self) -> str:
        """The name for messages: `targetgroup/NAME/ID`, without the account."""
        return self.arn.rpartition(":")[2]


class Listener(Struct, frozen=True, kw_only=True):
    """A listener and its rules, as DescribeRules returns them, including the default rule."""

    port: int
    rules: Sequence[Mapping[str, Any]]


class Endpoints(Struct, frozen=True):
    """The addresses of a Service's endpoints; those of pods that are not ready are only in `known`."""

    ready: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()


def bound_groups(listing: bytes, question: LiveQuestion) -> tuple[TargetGroup, ...]:
    """The target groups of the stable and the canary Service, for every Ingress.

    Args:
        listing: TargetGroupBindings of the two Services' namespace, as the API server lists them.

    Raises: msgspec.DecodeError.
    """
    pair = (question.stable_service, question.canary_service)
    return tuple(
        TargetGroup(
            arn=spec.target_group_arn,
            service=spec.service_ref.name,
            by_address=spec.target_type == _IP,
            ipv6=spec.ip_address_type == "ipv6",
            shared=spec.multi_cluster_target_group,
        )
        for spec in (binding.spec for binding in json_of(listing, ListedItems[_Binding]).items or ())
        if spec.service_ref.name in pair and spec.target_group_arn
    )


def is_of(group: TargetGroup, resource: str, question: LiveQuestion) -> bool:
    """Whether a target group with that RESOURCE_TAG was created for the Ingress of the question."""
    route = question.route
    return resource.startswith(f"{route.namespace}/{route.name}-{group.service}:")


def judged_rules(listeners: Iterable[Listener], groups: Sequence[TargetGroup], question: LiveQuestion) -> Judgement:
    """Whether every rule for the two Services, in every listener, splits requests as the split says.

    A rule with the stable target group alone has not followed yet, unless the Ingress has a path that leads to the stable Service
    without the annotation: then the rule does not matter.
    """
    entries = [entry for listener in listeners for entry in _entries(listener, groups, question)]
    if not entries:
        return Judgement(False, f"no rule of its load balancer leads to Service {question.stable_service} yet")
    found = judged(entries, question.split, question.rules)
    rules = FiledRules(question.rules)
    behind = [entry.where for entry in entries if entry.canary == 0 and entry.stable > 0 and not rules.is_users(entry)]
    if not found.live or not behind or question.split.share == 0 or _leads_there_directly(question):
        return found
    return Judgement(False, f"{_few(behind)}: leads to {question.stable_service} alone")


def judged_targets(group: TargetGroup, health: Iterable[Mapping[str, Any]], endpoints: Endpoints) -> Judgement:
    """Whether the target group's targets are the Service's endpoints, and healthy.

    * By address: each ready endpoint must be a healthy target. A target that is not an endpoint is a pod of another revision,
      which the Service selected before. Targets that drain get no new requests, and do not count.
    * By instance: each node leads to all pods, so one must be healthy, and none in the initial state.
    """
    found = [
        (_plain(target.get("Target", {}).get("Id", "")), _State(told.get("State", "unknown"), told.get("Reason", "")))
        for target in health
        for told in (target.get("TargetHealth", {}),)
    ]
    # For a target with several ports the worst state counts, and draining only if there is no other.
    states = dict(sorted(found, key=lambda entry: (entry[1].name != _DRAINING, entry[1].name != _HEALTHY)))
    if not group.by_address:
        problems = [f"{target} is {state}" for target, state in sorted(states.items()) if state.name == _INITIAL]
        if not problems and all(state.name != _HEALTHY for state in states.values()):
            problems = [f"none of its {len(states)} targets is healthy"]
    elif endpoints.ready:
        problems = list(_address_problems(group, states, endpoints))
    else:
        return Judgement(False, f"Service {group.service} has no ready endpoint for {group.name}")
    return Judgement(not problems, f"{group.name} of Service {group.service}: {_few(problems)}" if problems else "")


def _address_problems(group: TargetGroup, states: Mapping[str, _State], endpoints: Endpoints) -> Iterator[str]:
    for address in sorted(endpoints.ready):
        state = states.get(address, _State("not registered"))
        if state.name != _HEALTHY:
            yield f"{address} is {state}"
    for address, state in sorted(states.items()):
        if not group.shared and address not in endpoints.known and state.name != _DRAINING:
            yield f"{address} is not an endpoint and is still registered"


def endpoints_of(listing: bytes, group: TargetGroup) -> Endpoints:
    """The endpoints of the target group's Service.

    Args:
        listing: EndpointSlices, as the API server lists them; those of other Services are left out.

    Raises: msgspec.DecodeError.
    """
    family = "IPv6" if group.ipv6 else "IPv4"
    ready: set[str] = set()
    known: set[str] = set()
    for endpoint_slice in json_of(listing, ListedItems[_Slice]).items or ():
        service = endpoint_slice.metadata.labels.get(SERVICE_LABEL)
        if endpoint_slice.address_type != family or service != group.service:
            continue
        for endpoint in endpoint_slice.endpoints or ():
            addresses = set(map(_plain, endpoint.addresses[:1]))  # the API says that consumers ignore the others
            known |= addresses
            if endpoint.conditions.ready is not False:
                ready |= addresses
    return Endpoints(frozenset(ready), frozenset(known))


class _State(Struct, frozen=True):
    """The state of a target, as DescribeTargetHealth names it."""

    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name


def _entries(listener: Listener, groups: Sequence[TargetGroup], question: LiveQuestion) -> Iterator[Entry]:
    services = {group.arn: group.service for group in groups}
    for rule in listener.rules:
        weights = {question.stable_service: Fraction(0), question.canary_service: Fraction(0)}
        ours = False
        for arn, weight in _forwards(rule):
            if (service := services.get(arn)) is not None:
                ours = True
                weights[service] += weight
        if ours:
            yield Entry(
                where=f"rule {rule.get('Priority', 'default')} of port {listener.port}",
                group=f"port {listener.port}",
                stable=weights[question.stable_service],
                canary=weights[question.canary_service],
                path=_path(rule),
                conditions=frozenset(_conditions(rule)),
            )


def _forwards(rule: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """The target groups of a rule, with their weights."""
    for action in rule.get("Actions", ()):
        if action.get("Type") != "forward":
            continue
        groups = action.get("ForwardConfig", {}).get("TargetGroups")
        for group in groups or [{"TargetGroupArn": action.get("TargetGroupArn", "")}]:
            yield group.get("TargetGroupArn", ""), group.get("Weight", 1)


def _path(rule: Mapping[str, Any]) -> TextMatch | None:
    """The paths that a rule takes: `/x` and `/x/*` for a prefix; None for all."""
    for condition in rule.get("Conditions", ()):
        values = _values(condition, "path-pattern", "PathPatternConfig")
        if values:
            prefixes = [value.removesuffix("/*") for value in values if value.endswith("/*")]
            if not prefixes:
                return TextMatch(MatchKind.EXACT, values[0])
            return TextMatch(MatchKind.PREFIX, prefixes[0]) if prefixes[0] else None
    return None


def _conditions(rule: Mapping[str, Any]) -> Iterator[RequestCondition]:
    for condition in rule.get("Conditions", ()):
        for host in _values(condition, "host-header", "HostHeaderConfig"):
            yield RequestCondition(HOST, host)
        if values := _values(condition, "http-header", "HttpHeaderConfig"):
            name = str(condition.get("HttpHeaderConfig", {}).get("HttpHeaderName", "")).lower()
            yield RequestCondition(name, values[0] if len(values) == 1 else None)
        if condition.get("Field") == "query-string":
            for pair in condition.get("QueryStringConfig", {}).get("Values", ()):
                yield RequestCondition(pair.get("Key", ""), pair.get("Value"), query=True)


def _values(condition: Mapping[str, Any], field: str, config: str) -> list[str]:
    if condition.get("Field") != field:
        return []
    return list(condition.get(config, {}).get("Values") or condition.get("Values") or ())


def _leads_there_directly(question: LiveQuestion) -> bool:
    """Whether a path of the Ingress names the stable Service with a port of its own."""
    for manifest in question.objects:
        spec = manifest.get("spec") or {}
        paths = [path for rule in spec.get("rules") or () for path in (rule.get("http") or {}).get("paths") or ()]
        backends = [path.get("backend") for path in paths] + [spec.get("defaultBackend")]
        for service in ((backend or {}).get("service") or {} for backend in backends):
            port = (service.get("port") or {}).get("name")
            if service.get("name") == question.stable_service and port != USE_ANNOTATION:
                return True
    return False


def _plain(address: str) -> str:
    """The normal form of an address; an instance stays as it is."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def _few(problems: Sequence[str]) -> str:
    rest = len(problems) - _SHOWN
    return ", ".join(problems[:_SHOWN]) + (f", and {rest} more" if rest > 0 else "")


class _ServiceRef(msgspec.Struct):
    name: str = ""


class _BindingSpec(msgspec.Struct, rename="camel"):
    target_group_arn: str = msgspec.field(name="targetGroupARN", default="")
    service_ref: _ServiceRef = msgspec.field(default_factory=_ServiceRef)
    target_type: str = _IP
    ip_address_type: str = ""
    multi_cluster_target_group: bool = False


class _Binding(msgspec.Struct):
    spec: _BindingSpec = msgspec.field(default_factory=_BindingSpec)


class _Conditions(msgspec.Struct):
    ready: bool | None = None


class _Endpoint(msgspec.Struct):
    addresses: list[str] = msgspec.field(default_factory=list)
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)


class _Metadata(msgspec.Struct):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class _Slice(msgspec.Struct, rename="camel"):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    address_type: str = ""
    endpoints: list[_Endpoint] | None = None

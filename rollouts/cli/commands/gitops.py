"""`rollouts gitops`: the fields that Argo CD and Flux must ignore in the objects that a Rollout manages. Pure; no cluster needed.

Only fields that Git contains are listed: both tools ignore what Git does not mention (our label and our annotations).
An exception is a value that server-side apply treats as a whole, as Flux does a Service's selector.
Sources: https://argo-cd.readthedocs.io/en/stable/user-guide/diffing/ (jq paths; `RespectIgnoreDifferences`), and
https://fluxcd.io/flux/components/kustomize/kustomizations/ (`spec.ignore`, since Flux 2.9; JSON pointers, so lists are whole).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from rollouts.api.schema import yaml_text
from rollouts.api.spec.parse import parse_spec
from rollouts.cli.commands.lint_autoscalers import FileAutoscalers, replicas_remarks
from rollouts.cli.kubernetes.parts import is_a
from rollouts.cli.terminal.options import Tool
from rollouts.controller.observe.observer import context_of
from rollouts.controller.observe.places import Place, places_of
from rollouts.core.model.rollout import Canary, RolloutSpec, named_services
from rollouts.core.model.status import RolloutStatus
from rollouts.core.model.workload_ref import Hold, WorkloadKind, WorkloadMode
from rollouts.json_pointer import json_pointer
from rollouts.manifests.ownership import REVISION
from rollouts.objects import ROLLOUT, SERVICE, Key, Kind, Manifest
from rollouts.traffic.codec import Provider
from rollouts.traffic.declared.codec import Declared
from rollouts.traffic.rules.annotations import OneAnnotation


class Fields(Struct, frozen=True):
    """What the controller changes in objects of one kind.

    Args:
        weights: jq paths of the fields that change with every step.
        lists: fields of the spec that contain the weights, and to which managed routes are added.
    """

    weights: tuple[str, ...]
    lists: tuple[str, ...]


_BY_KIND: Mapping[str, Fields] = {
    **dict.fromkeys(
        ("HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"),
        Fields((".spec.rules[]?.backendRefs[]?.weight",), ("rules",)),
    ),
    "VirtualService": Fields(
        tuple(f".spec.{part}[]?.route[]?.weight" for part in ("http", "tls", "tcp")), ("http", "tls", "tcp")
    ),
    "DestinationRule": Fields((f'.spec.subsets[]?.labels["{REVISION}"]',), ("subsets",)),
    "TraefikService": Fields((".spec.weighted.services[]?.weight",), ("weighted",)),
    "HTTPProxy": Fields((".spec.routes[]?.services[]?.weight",), ("routes",)),
    "ApisixRoute": Fields((".spec.http[]?.backends[]?.weight",), ("http",)),
    "RouteTable": Fields((".spec.routes[]?.routeAction.multi.destinations[]?.weight",), ("routes",)),
}


_STEPPED: Mapping[WorkloadKind, tuple[tuple[str, ...], ...]] = {
    WorkloadKind.DEPLOYMENT: (("strategy",), ("minReadySeconds",), ("progressDeadlineSeconds",)),
    WorkloadKind.STATEFUL_SET: (("updateStrategy",),),
    WorkloadKind.DAEMON_SET: (("updateStrategy", "type"),),
}
"""The fields of `spec` by which a workload in place is stepped. A policy keeps them whatever is applied: `hold: Policy`."""


class Ignored(Struct, frozen=True):
    """The fields of one object that the tools must ignore: jq paths for Argo CD, JSON pointers (RFC 6901) for Flux."""

    kind: Kind
    namespace: str
    name: str
    jq: tuple[str, ...]
    pointers: tuple[str, ...]


def ignored_sizes(rollouts: Iterable[Manifest], autoscalers: FileAutoscalers) -> tuple[Ignored, ...]:
    """The number of pods of each Rollout whose file has it, if one of the autoscalers sets it too."""
    pointers = (json_pointer("spec", "replicas"),)
    return tuple(
        Ignored(ROLLOUT, namespace, str(manifest["metadata"]["name"]), (".spec.replicas",), pointers)
        for manifest in rollouts
        if is_a(manifest, ROLLOUT) and any(replicas_remarks(manifest, autoscalers))
        for namespace in [manifest["metadata"].get("namespace") or ""]
    )


def ignored_in(rollouts: Iterable[Manifest], providers: Mapping[str, Provider]) -> tuple[Ignored, ...]:
    """The fields that the controller changes in users' objects for Rollouts that `lint` has passed, each object once.

    Raises: SpecInvalid.
    """
    found: dict[tuple[Kind, str, str], Ignored] = {}
    for manifest in rollouts:
        if not is_a(manifest, ROLLOUT):
            continue
        namespace = (manifest.get("metadata") or {}).get("namespace") or ""
        spec = parse_spec(manifest["spec"])
        for name in named_services(spec.strategy):
            if isinstance(name, str):
                selector = (f'.spec.selector["{spec.revision_label}"]',), ("/spec/selector",)
                found.setdefault((SERVICE, namespace, name), Ignored(SERVICE, namespace, name, *selector))
        found |= _ignored_workload(spec, namespace)
        for place in places_of(spec, providers, namespace=namespace):
            target, (jq, pointers) = place.target, _route_fields(place, spec, namespace)
            if jq and place.own is None:  # what the Rollout brings along is not in Git
                key = target.kinds[0], target.namespace, target.name
                found.setdefault(key, Ignored(*key, jq, pointers))
    return tuple(found.values())


def _ignored_workload(spec: RolloutSpec, namespace: str) -> dict[tuple[Kind, str, str], Ignored]:
    """The workload that is stepped in place, unless a policy keeps its fields."""
    ref = spec.workload_ref
    if ref is None or ref.mode is not WorkloadMode.IN_PLACE or ref.hold is Hold.POLICY:
        return {}
    jq = tuple(f".spec.{'.'.join(path)}" for path in _STEPPED[ref.kind])
    pointers = tuple(json_pointer("spec", *path) for path in _STEPPED[ref.kind])
    key = ref.kind.resource, namespace, ref.name
    return {key: Ignored(*key, jq, pointers)}


def gitops_text(ignored: tuple[Ignored, ...], tools: Iterable[Tool]) -> str:
    """The settings as YAML to be merged into an Application, a Kustomization or a HelmRelease."""
    documents: list[tuple[str, Manifest]] = []
    for tool in tools:
        match tool:
            case Tool.ARGO_CD:
                rules = [{**_names(thing, group=True), "jqPathExpressions": list(thing.jq)} for thing in ignored]
                options = {"syncOptions": ["RespectIgnoreDifferences=true"]}
                spec = {"syncPolicy": options, "ignoreDifferences": rules}
                documents.append(("Argo CD: into the Application that holds these objects.", {"spec": spec}))
            case Tool.FLUX:
                flux = [
                    {
                        "target": {name: f"^{text}$" for name, text in _names(thing).items()},
                        "paths": list(thing.pointers),
                    }
                    for thing in ignored
                ]
                into = "Flux: into the Kustomization (Flux 2.9 or later) that holds these objects."
                documents.append((into, {"spec": {"ignore": flux}}))
                drift = {"driftDetection": {"mode": "enabled", "ignore": flux}}
                into = "Flux: or into the HelmRelease that holds them, if it looks for drift."
                documents.append((into, {"spec": drift}))
    return "---\n".join(f"# {comment}\n{yaml_text(document)}" for comment, document in documents)


def _route_fields(place: Place, spec: RolloutSpec, namespace: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    kind = place.target.kinds[0].kind
    provider: object = place.provider
    if isinstance(provider, OneAnnotation):
        context = context_of(Key(namespace, ""), spec, RolloutStatus())
        annotation = provider.annotation(place.target, context)
        return (f'.metadata.annotations["{annotation}"]',), (json_pointer("metadata", "annotations", annotation),)
    if place.target.owned_name:  # the controller changes an object that it owns
        return (), ()
    fields = _declared_fields(provider) if isinstance(provider, Declared) else _BY_KIND.get(kind)
    if fields is None:  # a provider of another package: its fields are unknown here
        return (".spec",), ("/spec",)
    lists = tuple(f".spec.{name}" for name in fields.lists)
    routing = spec.strategy.traffic_routing if isinstance(spec.strategy, Canary) else None
    whole = routing is not None and routing.managed_routes and not place.target.subsets
    return (lists if whole else fields.weights), tuple(f"/spec/{name}" for name in fields.lists)


def _declared_fields(provider: Declared) -> Fields | None:
    """The fields in which a declared router has its weights; None when they are outside of `spec`."""
    root, *steps = provider.backends.split(".")
    if root != "spec" or not steps:
        return None
    path = "".join(f".{step.removesuffix('[]')}{'[]?' if step.endswith('[]') else ''}" for step in steps)
    return Fields((f".spec{path}.{provider.weight}",), (steps[0].removesuffix("[]"),))


def _names(thing: Ignored, *, group: bool = False) -> dict[str, str]:
    names = {"group": thing.kind.group} if group or thing.kind.group else {}
    names |= {"kind": thing.kind.kind, "name": thing.name}
    return names | ({"namespace": thing.namespace} if thing.namespace else {})

"""The Services of a Flagger Canary, which Flagger made: those of clients and of the canary."""

from __future__ import annotations

from typing import Any

from rollouts.cli.kubernetes.parts import entries, entries_at
from rollouts.cli.migrate.flagger_canary import FlaggerCanary
from rollouts.cli.migrate.outcome import Ref, Told, ref_of
from rollouts.objects import SERVICE, Manifest, mapping

_PORT_FIELDS = {"portName": "name", "port": "port", "targetPort": "targetPort", "appProtocol": "appProtocol"}
_METADATA = ("labels", "annotations")
_NOT_CONTAINERS_OF_THE_APP = ("istio-proxy", "linkerd-proxy", "envoy")


def services_of(canary: FlaggerCanary, rollout: Manifest) -> list[Manifest]:
    """Those that the files do not have."""
    refs = [
        Ref("", SERVICE.kind, ref_of(canary.manifest).namespace, name) for name in (canary.apex, canary.canary_service)
    ]
    there = list(map(canary.migration.named, refs))
    spec, made = _service_spec(canary, rollout, mapping(mapping(there[0]).get("spec")).get("ports")), list[Manifest]()
    for ref, service, part in zip(refs, there, ("apex", "canary"), strict=True):
        given = mapping(canary.service.get(part))
        metadata = {"name": ref.name, **canary.namespace, **{key: given[key] for key in _METADATA if given.get(key)}}
        found = service or {**SERVICE.head, "metadata": metadata, "spec": spec}
        made += [] if service else [found]
        canary.moved(found, {f"spec.service.{field}": "spec.ports" for field in _PORT_FIELDS})
        canary.moved(found, {f"spec.service.{part}": "metadata", "spec.service.trafficDistribution": "spec"})
        canary.moved(found, {"spec.service.name": "metadata.name"})
    return made


def _service_spec(canary: FlaggerCanary, rollout: Manifest, own_ports: object) -> Manifest:
    """What both Services have: the pods' labels, without the one that tells the Rollout's from the Deployment's, and ports."""
    service = canary.service
    first = {to: service[name] for name, to in _PORT_FIELDS.items() if service.get(name) is not None}
    found = _discovered(canary, first) if service.get("portDiscovery") else []
    selector = mapping(mapping(canary.deployment.get("spec")).get("selector")).get("matchLabels")
    selector = selector or mapping(rollout["spec"].get("selector")).get("matchLabels")
    spec: Manifest = {"selector": dict(mapping(selector)), "ports": [{"name": "http", "port": 80, **first}, *found]}
    if own_ports:
        spec["ports"] = [
            {key: value for key, value in port.items() if key != "nodePort"} for _, port in entries(own_ports)
        ]
    if service.get("headless"):
        spec["clusterIP"] = "None"
        canary.note(Told.CHANGED, "spec.service.headless", "clusterIP: None")
    if service.get("trafficDistribution"):
        spec["trafficDistribution"] = service["trafficDistribution"]
    return spec


def _discovered(canary: FlaggerCanary, first: Manifest) -> list[Manifest]:
    """Ports of the containers, as Flagger finds them."""
    canary.note(Told.CHANGED, "spec.service.portDiscovery", "the ports of the containers are in the Services")
    pod = mapping(mapping(mapping(canary.deployment.get("spec")).get("template")).get("spec"))
    taken: list[Any] = [first.get("port", 80), first.get("targetPort")]
    found: list[Manifest] = []
    for _, container in entries_at(pod, "containers", ""):
        for _, port in entries_at(container, "ports", ""):
            number, name = port.get("containerPort"), str(port.get("name") or "")
            if container.get("name") in _NOT_CONTAINERS_OF_THE_APP or number in taken or name in taken:
                continue
            taken.append(number)
            protocol = {"protocol": port["protocol"]} if port.get("protocol") else {}
            found.append({"name": name or f"port-{number}", "port": number, "targetPort": name or number, **protocol})
    return found

"""What is wrong with a cluster, and what to do: pure functions of what `doctor_reads` saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands import rollout_needs
from rollouts.cli.commands.doctor_finding import Diagnosis, Level, conditions_of
from rollouts.cli.commands.doctor_reads import ClusterSeen, Installed, routers_of
from rollouts.core.model.drain import ProxyMode
from rollouts.objects import Manifest

OLDEST_SERVER = (1, 30)  # the chart's kubeVersion
LEASE_OLD_S = 60.0  # four times the lease's duration: clocks of two machines may differ by some seconds

_IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
_APPLY_CRDS = "rollouts crds | kubectl apply --server-side --force-conflicts -f -"


def diagnoses(seen: ClusterSeen, *, version: str) -> list[Diagnosis]:
    """Everything that was looked at, in the order in which faults are worth repairing."""
    server = Diagnosis("API server", Level.OK, seen.server.git_version)
    if (seen.server.major, seen.server.minor) < OLDEST_SERVER:
        fix = f"Rollouts need Kubernetes {'.'.join(map(str, OLDEST_SERVER))} or newer: upgrade it"
        server = Diagnosis("API server", Level.FAULT, f"is {seen.server.git_version}", fix)
    found = [
        server,
        *_crds(seen),
        *_controllers(seen),
        *_leases(seen),
        *_versions(seen, version),
        *_rights(seen),
        *rollout_needs.secrets(seen),
        *_proxy(seen),
        *_routers(seen),
        *rollout_needs.routes(seen),
        *rollout_needs.metrics(seen),
        *_prometheus(seen),
    ]
    for provider in seen.providers:
        for condition in conditions_of(provider, "Ready", "Accepted"):
            name = f"{provider.get('kind') or 'provider'} {provider['metadata']['name']}"
            fix = f"change it: {condition.get('reason', '')}, see docs/reasons.md"
            found.append(Diagnosis("providers", Level.FAULT, f"{name}: {condition.get('message', '')}", fix))
    if seen.refused:
        says = f"not looked at, because you may not {', '.join(seen.refused)}"
        found.append(Diagnosis("your rights", Level.NOTE, says, "ask again as an administrator"))
    return found


def _crds(seen: ClusterSeen) -> Iterator[Diagnosis]:
    if "get customresourcedefinitions" in seen.refused:
        return  # the last line tells it
    ours = {crd["metadata"]["name"]: crd for crd in crd_manifests()}
    good = 0
    if absent := [name for name, crd in seen.crds.items() if crd is None]:
        yield Diagnosis("CRDs", Level.FAULT, f"not installed: {', '.join(absent)}", _APPLY_CRDS)
    for name, crd in seen.crds.items():
        if crd is None:
            continue
        if crd["metadata"].get("deletionTimestamp"):
            find = f"find what has a finalizer: kubectl get {name} -A -o yaml | grep -A2 finalizers"
            says = f"{name} is being deleted, and every object of it"
            yield Diagnosis("CRDs", Level.FAULT, says, f"{find}; then install it again")
            continue
        if bad := conditions_of(crd, "Established", "NamesAccepted"):
            fix = "another CRD has its names: kubectl get crds, and delete the other one or this one"
            yield Diagnosis("CRDs", Level.FAULT, f"{name} is not served: {bad[0].get('message', '')}", fix)
            continue
        fields, wanted = _fields(crd), _fields(ours[name])
        if lacking := sorted(wanted - fields):
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            by_helm = crd["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "Helm"
            fix = "helm upgrade rollouts ./helm/rollouts" if by_helm else _APPLY_CRDS
            yield Diagnosis("CRDs", Level.FAULT, f"{name} is older than this program: it lacks {lacking[0]}{more}", fix)
        elif unknown := sorted(fields - wanted):
            says = f"{name} is newer than this program: it has {unknown[0]}, which this program does not know"
            yield Diagnosis("CRDs", Level.WARNING, says, "install the program of the controller's version: make cli")
        else:
            good += 1
    if good == len(ours):
        yield Diagnosis("CRDs", Level.OK, f"{good}, as this program knows them")


def _fields(crd: Manifest) -> set[str]:
    """Paths of all fields of the version that this program uses."""

    def walk(schema: Manifest, path: str) -> Iterator[str]:
        for name, part in (schema.get("properties") or {}).items():
            here = f"{path}.{name}" if path else name
            yield here
            yield from walk(part, here)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield from walk(schema[key], f"{path}[]")

    versions = {version["name"]: version.get("schema", {}) for version in crd.get("spec", {}).get("versions") or ()}
    return set(walk(versions.get("v1alpha1", {}).get("openAPIV3Schema") or {}, ""))


def _controllers(seen: ClusterSeen) -> Iterator[Diagnosis]:
    if not seen.controllers and "list deployments" not in seen.refused:
        fix = "helm install rollouts ./helm/rollouts --namespace rollouts-system --create-namespace"
        if alive := [lease for lease in seen.other_leases if _age_s(lease, seen.now_s) <= LEASE_OLD_S]:
            holder = alive[0]["spec"].get("holderIdentity", "")
            says = f"no Deployment of the chart, but {holder} holds the Lease in {alive[0]['metadata']['namespace']}"
            yield Diagnosis("controller", Level.NOTE, says)
        else:
            yield Diagnosis("controller", Level.FAULT, "there is none: nothing moves any Rollout", fix)
    for controller in seen.controllers:
        where = controller.where
        wanted = controller.deployment["spec"].get("replicas", 1)
        available = controller.deployment.get("status", {}).get("availableReplicas", 0)
        says = f"{where}: {available} of {wanted} replicas are available"
        if wanted == 0:
            fix = f"kubectl scale deployment {controller.name} -n {controller.namespace} --replicas 2"
            yield Diagnosis("controller", Level.FAULT, f"{where} is scaled to 0 replicas", fix)
        elif available >= wanted:
            yield Diagnosis("controller", Level.OK, says)
        else:
            why, fix = _why_unavailable(controller)
            yield Diagnosis("controller", Level.FAULT if available == 0 else Level.WARNING, f"{says}{why}", fix)
    yield from _rivals(seen.controllers)


def _why_unavailable(controller: Installed) -> tuple[str, str]:
    """The reason and the fix."""
    for pod in controller.pods:
        name = f"-n {controller.namespace} {pod['metadata']['name']}"
        for container in pod.get("status", {}).get("containerStatuses") or ():
            reason = (container.get("state", {}).get("waiting") or {}).get("reason")
            if reason in _IMAGE_REASONS:
                image = container.get("image", "")
                fix = f"bring it to the nodes (make image; kind load docker-image {image}), or --set image.repository="
                return f": {image}: {reason}", fix
            if reason:
                return f": {reason}", f"kubectl logs {name} --previous"
        for condition in conditions_of(pod, "PodScheduled"):
            return f": {condition.get('message', 'not scheduled')}", f"kubectl describe pod {name}"
    for condition in conditions_of(controller.deployment, "ReplicaFailure", said=("True",)):
        return f": {condition.get('message', '')}", "let the namespace take its pods: quotas, admission, PodSecurity"
    return "", f"kubectl describe deployment {controller.name} -n {controller.namespace}"


def _rivals(controllers: Sequence[Installed]) -> Iterator[Diagnosis]:
    """Two releases that manage the same namespace, each with a Lease of its own, act against each other."""
    for index, controller in enumerate(controllers):
        for other in controllers[:index]:
            mine, theirs = set(controller.flags("namespace")), set(other.flags("namespace"))
            if not mine or not theirs or mine & theirs:
                says = f"{other.where} and {controller.where} manage the same Rollouts"
                fix = "uninstall one, or give each its own namespaces (watchNamespaces)"
                yield Diagnosis("controller", Level.FAULT, says, fix)


def _leases(seen: ClusterSeen) -> Iterator[Diagnosis]:
    for controller in seen.controllers:
        running = controller.deployment.get("status", {}).get("availableReplicas", 0)
        where = controller.where
        if not controller.elects:
            if controller.deployment["spec"].get("replicas", 1) > 1:
                fix = "set leaderElection=true, or replicas=1"
                yield Diagnosis("leader", Level.FAULT, f"{where}: several replicas, and none is elected", fix)
            continue
        logs = f"kubectl logs -n {controller.namespace} deployment/{controller.name}"
        if "get leases" in seen.refused or not running:  # that its pods do not run is the fault
            continue
        if controller.lease is None or not controller.lease.get("spec", {}).get("holderIdentity"):
            yield Diagnosis("leader", Level.FAULT, f"{where}: replicas run, and none has taken the Lease", logs)
            continue
        age_s, holder = _age_s(controller.lease, seen.now_s), controller.lease["spec"]["holderIdentity"]
        if age_s > LEASE_OLD_S:
            says = f"{where}: {holder} renewed the Lease {age_s:.0f} s ago, and nobody has taken over"
            yield Diagnosis("leader", Level.FAULT, says, logs)
        else:
            yield Diagnosis("leader", Level.OK, f"{where}: {holder} leads")


def _versions(seen: ClusterSeen, version: str) -> Iterator[Diagnosis]:
    for controller in seen.controllers:
        if controller.version and controller.version != version:
            says = f"{controller.where} is {controller.version}, this program is {version}"
            fix = "use one version: helm upgrade, or make cli in its source tree"
            yield Diagnosis("versions", Level.WARNING, says, fix)
        elif controller.version:
            yield Diagnosis("versions", Level.OK, f"{controller.where} and this program are {version}")


def _rights(seen: ClusterSeen) -> Iterator[Diagnosis]:
    for controller in seen.controllers:
        if controller.missing is None:
            why = "you may not create subjectaccessreviews"
            says = f"whether {controller.where} has its rights was not looked at: {why}"
            yield Diagnosis("rights", Level.NOTE, says)
        elif controller.missing:
            some = ", ".join(map(str, controller.missing[:5])) + (", …" if len(controller.missing) > 5 else "")
            upgrade = f"helm upgrade {controller.name} ./helm/rollouts -n {controller.namespace}"
            fix = f"{upgrade} (rbac.create and routers are values of it)"
            yield Diagnosis("rights", Level.FAULT, f"{controller.where} may not {some}", fix)
        else:
            yield Diagnosis("rights", Level.OK, f"{controller.where} has the rights that it needs")
    if seen.own_missing:
        some = ", ".join(map(str, seen.own_missing))
        fix = "have an administrator bind you to the ClusterRole view or edit (rbac.aggregateToUserRoles)"
        yield Diagnosis("rights", Level.WARNING, f"you may not {some}", fix)


def _proxy(seen: ClusterSeen) -> Iterator[Diagnosis]:
    mode = seen.proxy.mode
    for controller in seen.controllers:
        declared = next(iter(controller.flags("proxy-mode")), "auto")
        if declared == "auto" and controller.flags("namespace") and mode is not ProxyMode.UNKNOWN:
            says = f"{controller.where} may not ask with watchNamespaces, so it drains pods for two minutes"
            yield Diagnosis("proxy mode", Level.WARNING, says, f"helm upgrade … --set proxyMode={mode}")
        elif declared == "auto" and mode is ProxyMode.UNKNOWN:
            says = f"{seen.proxy.known_by.partition('; set the mode')[0]}; pods are drained for two minutes"
            fix = "helm upgrade … --set proxyMode=iptables (or nftables, ipvs, other)"
            yield Diagnosis("proxy mode", Level.WARNING, says, fix)
        elif declared != "auto" and mode not in (ProxyMode.UNKNOWN, declared):
            says = f"{controller.where} is told {declared}, and {seen.proxy.known_by}"
            yield Diagnosis("proxy mode", Level.FAULT, says, f"helm upgrade … --set proxyMode={mode}")
        else:
            says = seen.proxy.known_by if declared == "auto" else f"{declared}, as it is told"
            yield Diagnosis("proxy mode", Level.OK, says)


def _routers(seen: ClusterSeen) -> Iterator[Diagnosis]:
    used = routers_of(seen.rollouts)
    for router in sorted(used):
        count = sum(router in routers_of([rollout]) for rollout in seen.rollouts)
        who = "1 Rollout needs" if count == 1 else f"{count} Rollouts need"
        if not seen.served.get(router):
            fix = f"install the CRDs of {router}, or take it out of the Rollouts"
            yield Diagnosis("routers", Level.FAULT, f"{who} {router}, and the API server does not have its routes", fix)
        for controller in seen.controllers:
            if router not in controller.flags("router"):
                routers = ",".join([*controller.flags("router"), router])
                says = f"{who} {router}, and {controller.where} may not change its routes"
                yield Diagnosis("routers", Level.FAULT, says, f"helm upgrade … --set routers={{{routers}}}")
    if seen.served.get("gatewayAPI"):
        yield from _gateway_classes(seen, needed="gatewayAPI" in used)
    elif not used:
        yield Diagnosis("routers", Level.OK, "no Rollout needs one; weights are the ratio of pods")


def _gateway_classes(seen: ClusterSeen, *, needed: bool) -> Iterator[Diagnosis]:
    good = True
    for gateway_class in seen.gateway_classes:
        for condition in conditions_of(gateway_class, "Accepted", said=("False", "Unknown")):
            good, name = False, gateway_class["metadata"]["name"]
            fix = f"run the controller of that class: kubectl describe gatewayclass {name}"
            says = f"GatewayClass {name} is not accepted: {condition.get('message', '')}"
            yield Diagnosis("Gateway API", Level.WARNING, says, fix)
    if not seen.gateway_classes and "list gatewayclasses" not in seen.refused:
        level = Level.FAULT if needed else Level.NOTE
        fix = "install a gateway, such as Envoy Gateway, Traefik or Contour" if needed else ""
        says = "is installed, and there is no GatewayClass: nobody carries routes out"
        yield Diagnosis("Gateway API", level, says, fix)
    elif good:
        names = ", ".join(gateway_class["metadata"]["name"] for gateway_class in seen.gateway_classes)
        yield Diagnosis("Gateway API", Level.OK, f"classes: {names}")


def _prometheus(seen: ClusterSeen) -> Iterator[Diagnosis]:
    for target in seen.prometheus:
        if not target.in_cluster:
            says = f"{target.url} is not a Service of this cluster; it was not asked from here"
            yield Diagnosis("Prometheus", Level.NOTE, says)
        elif not target.exists:
            says, fix = f"{target.url}: there is no such Service", "helm upgrade … --set prometheusUrl="
            yield Diagnosis("Prometheus", Level.FAULT, says, fix)
        elif target.ready == 0:
            fix = "kubectl get pods in its namespace: none that the Service selects is ready"
            yield Diagnosis("Prometheus", Level.FAULT, f"{target.url}: the Service has no ready endpoint", fix)
        else:
            yield Diagnosis("Prometheus", Level.OK, f"{target.url}: {target.ready} ready")


def _age_s(lease: Manifest, now_s: float) -> float:
    """Seconds since the holder renewed; infinite when nobody ever did."""
    try:
        return now_s - datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return float("inf")

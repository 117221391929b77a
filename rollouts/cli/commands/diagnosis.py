"""What is wrong with a cluster, and what to do: pure functions of what `doctor_reads` saw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands import rollout_needs
from rollouts.cli.commands.doctor_finding import Diagnosis, Level, conditions_of
from rollouts.cli.commands.doctor_reads import ClusterSeen, HoldPolicies, Installed, in_place, routers_of
from rollouts.cli.commands.doctor_release import Release, Upgradable, Upgrade, Values, release_of, with_commands
from rollouts.cli.view.counts import count_of
from rollouts.core.model.drain import ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.errors import APPLY_CRDS
from rollouts.objects import Manifest

OLDEST_SERVER = (1, 30)  # the chart's kubeVersion
LEASE_OLD_S = 60.0  # four times the lease's duration: clocks of two machines may differ by some seconds

_IMAGE_REASONS = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
_RELEASE = Release("rollouts", "rollouts-system")  # as docs/getting-started.md installs it


def diagnoses(seen: ClusterSeen, *, version: str) -> list[Diagnosis]:
    """Everything that was looked at, in an order in which the fixes can be run one after the other."""
    server = Diagnosis("API server", Level.OK, seen.server.git_version)
    if (seen.server.major, seen.server.minor) < OLDEST_SERVER:
        hint = f"Rollouts need Kubernetes {'.'.join(map(str, OLDEST_SERVER))} or newer: upgrade it"
        server = Diagnosis("API server", Level.FAULT, f"is {seen.server.git_version}", hint=hint)
    crds, rivals = list(_crds(seen)), _rivals(seen)
    seen = replace(seen, controllers=tuple(each for each in seen.controllers if each.where not in rivals))
    found = [
        server,
        *crds,
        *rivals.values(),
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
        *_metric_servers(seen),
        *_workloads(seen),
        *_holds(seen),
    ]
    for provider in seen.providers:
        for condition in conditions_of(provider, "Ready", "Accepted"):
            name = f"{provider.get('kind') or 'provider'} {provider['metadata']['name']}"
            hint = f"change its spec; `rollouts explain {condition.get('reason', '')}` says more"
            found.append(Diagnosis("providers", Level.FAULT, f"{name}: {condition.get('message', '')}", hint=hint))
    if seen.refused:
        says = f"not looked at, because you may not {', '.join(seen.refused)}"
        found.append(Diagnosis("your rights", Level.NOTE, says, hint="ask again as an administrator"))
    return with_commands(found, [crd for crd in seen.crds.values() if crd is not None])


def _crds(seen: ClusterSeen) -> Iterator[Diagnosis]:
    if "get customresourcedefinitions" in seen.refused:
        return  # the last line tells it
    ours = {crd["metadata"]["name"]: crd for crd in crd_manifests()}
    good = 0
    if absent := [name for name, crd in seen.crds.items() if crd is None]:
        yield _of_crds(seen, f"not installed: {', '.join(absent)}")
    for name, crd in seen.crds.items():
        if crd is None:
            continue
        if crd["metadata"].get("deletionTimestamp"):
            hint = f"if the wait does not end, find what has a finalizer: kubectl get {name} -A -o yaml | grep -A2 finalizers"
            says = f"{name} is being deleted, and every object of it"
            yield _of_crds(seen, says, f"kubectl wait --for=delete crd/{name} --timeout=5m", hint=hint)
            continue
        if bad := conditions_of(crd, "Established", "NamesAccepted"):
            hint = "another CRD has its names: delete the other one or this one"
            says = f"{name} is not served: {bad[0].get('message', '')}"
            yield Diagnosis("CRDs", Level.FAULT, says, "kubectl get crds", hint)
            continue
        fields, wanted = _fields(crd), _fields(ours[name])
        if lacking := sorted(wanted - fields):
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            yield _of_crds(seen, f"{name} is older than this program: it lacks {lacking[0]}{more}")
        elif unknown := sorted(fields - wanted):
            says = f"{name} is newer than this program: it has {unknown[0]}, which this program does not know"
            hint = "install the program of the controller's version: `make cli` in its source tree"
            yield Diagnosis("CRDs", Level.WARNING, says, hint=hint)
        else:
            good += 1
    if good == len(ours):
        yield Diagnosis("CRDs", Level.OK, f"{good}, as this program knows them")


def _of_crds(seen: ClusterSeen, says: str, *first: str, hint: str = "") -> Diagnosis:
    """A fault that an installation of the CRDs repairs, after the commands `first`: by Helm where they are a release's.

    With neither CRDs nor a controller that is the installation of both.
    """
    present = [crd for crd in seen.crds.values() if crd is not None]
    releases = [release for each in seen.controllers if (release := release_of(each.deployment))]
    owners = [release for crd in present if (release := release_of(crd))]
    if _nobody_controls(seen):
        upgrade = _installation(seen)
    elif upgraded := [owner for owner in owners if owner in releases]:
        upgrade = Upgrade(upgraded[0])
    elif releases and not present:
        upgrade = Upgrade(releases[0], {"crds.enabled": "true"})
    else:
        return Diagnosis("CRDs", Level.FAULT, says, " && ".join((*first, APPLY_CRDS)), hint)
    return Upgradable("CRDs", Level.FAULT, says, hint=hint, upgrade=replace(upgrade, first=first))


def _nobody_controls(seen: ClusterSeen) -> bool:
    """Whether there is no controller, neither one of the chart nor one that holds the Lease from elsewhere."""
    return not seen.controllers and "list deployments" not in seen.refused and not _alive_elsewhere(seen)


def _alive_elsewhere(seen: ClusterSeen) -> list[Manifest]:
    """A holder that has ended in order has left no name."""
    held = [lease for lease in seen.other_leases if lease.get("spec", {}).get("holderIdentity")]
    return [lease for lease in held if _age_s(lease, seen.now_s) <= LEASE_OLD_S]


def _installation(seen: ClusterSeen) -> Upgrade:
    """Of everything. CRDs that an uninstalled release has left say its name; others have to be taken over."""
    present = [crd for crd in seen.crds.values() if crd is not None]
    owners = [release for crd in present if (release := release_of(crd))]
    release = owners[0] if owners else _RELEASE
    return Upgrade(release, is_installed=False, takes_ownership=owners.count(release) < len(present))


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


def _by_values(
    controller: Installed, check: str, level: Level, says: str, values: Values, *, hint: str = ""
) -> Diagnosis:
    """A fault that other values of the chart repair."""
    if release := release_of(controller.deployment):
        return Upgradable(check, level, says, hint=hint, upgrade=Upgrade(release, values))
    told = " ".join(f"{name}={value if isinstance(value, str) else ','.join(value)}" for name, value in values.items())
    by_hand = (
        f"it is no release of Helm: render the chart again where its manifests come from{told and f', with {told}'}"
    )
    return Diagnosis(check, level, says, hint=f"{by_hand}; {hint}" if hint else by_hand)


def _controllers(seen: ClusterSeen) -> Iterator[Diagnosis]:
    if _nobody_controls(seen):
        says = "there is none: nothing moves any Rollout"
        yield Upgradable("controller", Level.FAULT, says, upgrade=_installation(seen))
    elif not seen.controllers and (alive := _alive_elsewhere(seen)):
        holder, namespace = alive[0]["spec"]["holderIdentity"], alive[0]["metadata"]["namespace"]
        says = f"no Deployment of the chart, but {holder} holds the Lease in {namespace}"
        yield Diagnosis("controller", Level.NOTE, says)
    for controller in seen.controllers:
        where = controller.where
        wanted = controller.deployment["spec"].get("replicas", 1)
        available = controller.deployment.get("status", {}).get("availableReplicas", 0)
        says = f"{where}: {available} of {wanted} replicas are available"
        if wanted == 0:
            says = f"{where} is scaled to 0 replicas"
            if release_of(controller.deployment):
                yield _by_values(controller, "controller", Level.FAULT, says, {"replicas": "2"})
            else:
                scale = f"kubectl scale deployment {controller.name} --namespace {controller.namespace} --replicas 2"
                yield Diagnosis("controller", Level.FAULT, says, scale)
        elif available >= wanted:
            yield Diagnosis("controller", Level.OK, says)
        else:
            why, fix, hint = _why_unavailable(controller)
            level = Level.FAULT if available == 0 else Level.WARNING
            yield Diagnosis("controller", level, f"{says}{why}", fix, hint)


def _why_unavailable(controller: Installed) -> tuple[str, str, str]:
    """The reason, the command that shows more, and what a person has to do."""
    for pod in controller.pods:
        name = f"-n {controller.namespace} {pod['metadata']['name']}"
        for container in pod.get("status", {}).get("containerStatuses") or ():
            reason = (container.get("state", {}).get("waiting") or {}).get("reason")
            if reason in _IMAGE_REASONS:
                image = container.get("image", "")
                load = f"`make image` and `kind load docker-image {image}`"
                hint = f"bring it to the nodes by {load}, or push it to a registry and set image.repository"
                return f": {image}: {reason}", "", hint
            if reason:
                return f": {reason}", f"kubectl logs {name} --previous", ""
        for condition in conditions_of(pod, "PodScheduled"):
            return f": {condition.get('message', 'not scheduled')}", f"kubectl describe pod {name}", ""
    for condition in conditions_of(controller.deployment, "ReplicaFailure", said=("True",)):
        hint = "let the namespace take its pods: quotas, admission, Pod Security"
        return f": {condition.get('message', '')}", "", hint
    return "", f"kubectl describe deployment {controller.name} -n {controller.namespace}", ""


def _rivals(seen: ClusterSeen) -> dict[str, Diagnosis]:
    """Two releases that manage the same namespace, each with a Lease of its own, act against each other: by the one to remove.

    The one that has the CRDs stays, else the older one. Of the other nothing else is worth repairing.
    """
    owners = [release_of(crd) for crd in seen.crds.values() if crd is not None]

    def rank(controller: Installed) -> tuple[bool, str, str]:
        release = release_of(controller.deployment)
        created = controller.deployment["metadata"].get("creationTimestamp", "")
        return release is None or release not in owners, created, controller.where

    kept: list[Installed] = []
    found: dict[str, Diagnosis] = {}
    for controller in sorted(seen.controllers, key=rank):
        mine = set(controller.flags("namespace"))
        for other in kept:
            theirs = set(other.flags("namespace"))
            if mine and theirs and not mine & theirs:
                continue
            release = release_of(controller.deployment)
            name, namespace = controller.name, controller.namespace
            fix = f"kubectl delete deployment {name} --namespace {namespace}"
            if release:
                fix = f"helm uninstall {release.name} --namespace {release.namespace}"
            says = f"{other.where} and {controller.where} manage the same Rollouts"
            hint = "or give each its own namespaces (watchNamespaces)"
            found[controller.where] = Diagnosis("controller", Level.FAULT, says, fix, hint)
            break
        else:
            kept.append(controller)
    return found


def _leases(seen: ClusterSeen) -> Iterator[Diagnosis]:
    for controller in seen.controllers:
        running = controller.deployment.get("status", {}).get("availableReplicas", 0)
        where = controller.where
        if not controller.elects:
            if controller.deployment["spec"].get("replicas", 1) > 1:
                says = f"{where}: several replicas, and none is elected"
                yield _by_values(controller, "leader", Level.FAULT, says, {"leaderElection": "true"})
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
            theirs, ours = (tuple(map(int, re.findall(r"\d+", each))) for each in (controller.version, version))
            if theirs < ours:
                yield _by_values(controller, "versions", Level.WARNING, says, {})
            else:
                hint = "install the program of the controller's version: `make cli` in its source tree"
                yield Diagnosis("versions", Level.WARNING, says, hint=hint)
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
            says = f"{controller.where} may not {some}"
            yield _by_values(controller, "rights", Level.FAULT, says, {"rbac.create": "true"})
        else:
            yield Diagnosis("rights", Level.OK, f"{controller.where} has the rights that it needs")
    if seen.own_missing:
        some = ", ".join(map(str, seen.own_missing))
        hint = "have an administrator bind you to the ClusterRole view or edit (rbac.aggregateToUserRoles)"
        yield Diagnosis("rights", Level.WARNING, f"you may not {some}", hint=hint)


def _proxy(seen: ClusterSeen) -> Iterator[Diagnosis]:
    mode = seen.proxy.mode
    for controller in seen.controllers:
        declared = next(iter(controller.flags("proxy-mode")), "auto")
        if declared == "auto" and controller.flags("namespace") and mode is not ProxyMode.UNKNOWN:
            says = f"{controller.where} may not ask with watchNamespaces, so it drains pods for two minutes"
            yield _by_values(controller, "proxy mode", Level.WARNING, says, {"proxyMode": str(mode)})
        elif declared == "auto" and mode is ProxyMode.UNKNOWN:
            says = f"{seen.proxy.known_by.partition('; set the mode')[0]}; pods are drained for two minutes"
            hint = "set the chart's proxyMode to what the nodes use: iptables, nftables, ipvs or other"
            yield Diagnosis("proxy mode", Level.WARNING, says, hint=hint)
        elif declared != "auto" and mode not in (ProxyMode.UNKNOWN, declared):
            says = f"{controller.where} is configured with {declared}, and {seen.proxy.known_by}"
            yield _by_values(controller, "proxy mode", Level.FAULT, says, {"proxyMode": str(mode)})
        else:
            says = seen.proxy.known_by if declared == "auto" else f"{declared}, as configured"
            yield Diagnosis("proxy mode", Level.OK, says)


def _routers(seen: ClusterSeen) -> Iterator[Diagnosis]:
    used = routers_of(seen.rollouts)
    for router in sorted(used):
        if not seen.served.get(router):
            says = f"{_needing(seen, [router])}, and the API server does not have its routes"
            hint = f"install the CRDs of {router}, or remove it from the Rollouts"
            yield Diagnosis("routers", Level.FAULT, says, hint=hint)
    for controller in seen.controllers:
        allowed = controller.flags("router")
        if lacking := sorted(used - {*allowed}):
            its = "its" if len(lacking) == 1 else "their"
            says = f"{_needing(seen, lacking)}, and {controller.where} may not change {its} routes"
            yield _by_values(controller, "routers", Level.FAULT, says, {"routers": (*allowed, *lacking)})
    if seen.served.get("gatewayAPI"):
        yield from _gateway_classes(seen, needed="gatewayAPI" in used)
    elif not used:
        yield Diagnosis("routers", Level.OK, "no Rollout needs one; weights are the ratio of pods")


def _needing(seen: ClusterSeen, routers: Sequence[str]) -> str:
    count = sum(bool(routers_of([rollout]) & {*routers}) for rollout in seen.rollouts)
    return f"{count_of(count, 'Rollout')} need{'s' if count == 1 else ''} {', '.join(routers)}"


def _gateway_classes(seen: ClusterSeen, *, needed: bool) -> Iterator[Diagnosis]:
    good = True
    for gateway_class in seen.gateway_classes:
        for condition in conditions_of(gateway_class, "Accepted", said=("False", "Unknown")):
            good, name = False, gateway_class["metadata"]["name"]
            says = f"GatewayClass {name} is not accepted: {condition.get('message', '')}"
            hint = "the controller of that class has to run"
            yield Diagnosis("Gateway API", Level.WARNING, says, f"kubectl describe gatewayclass {name}", hint)
    if not seen.gateway_classes and "list gatewayclasses" not in seen.refused:
        level = Level.FAULT if needed else Level.NOTE
        hint = "install a gateway, such as Envoy Gateway, Traefik or Contour" if needed else ""
        says = "is installed, and there is no GatewayClass: nobody carries routes out"
        yield Diagnosis("Gateway API", level, says, hint=hint)
    elif good:
        names = ", ".join(gateway_class["metadata"]["name"] for gateway_class in seen.gateway_classes)
        yield Diagnosis("Gateway API", Level.OK, f"classes: {names}")


def _prometheus(seen: ClusterSeen) -> Iterator[Diagnosis]:
    for target in seen.prometheus:
        if not target.in_cluster:
            says = f"{target.url} is not a Service of this cluster; it was not asked from here"
            yield Diagnosis("Prometheus", Level.NOTE, says)
        elif not target.exists:
            says, hint = (
                f"{target.url}: there is no such Service",
                "or create it, or set prometheusUrl to the right one",
            )
            for controller in seen.controllers:
                if target.url in controller.flags("prometheus-url"):
                    yield _by_values(controller, "Prometheus", Level.FAULT, says, {"prometheusUrl": ""}, hint=hint)
        elif target.ready == 0:
            hint = "none of the pods that the Service selects is ready: `kubectl get pods` in its namespace"
            yield Diagnosis("Prometheus", Level.FAULT, f"{target.url}: the Service has no ready endpoint", hint=hint)
        else:
            yield Diagnosis("Prometheus", Level.OK, f"{target.url}: {target.ready} ready")


def _metric_servers(seen: ClusterSeen) -> Iterator[Diagnosis]:
    """Those of MetricProviders. Nobody is asked: their credentials are the controller's."""
    elsewhere = 0
    for name, target in sorted(seen.metric_servers.items()):
        if target.in_cluster and not target.exists:
            says = f"MetricProvider {name}: {target.url}: there is no such Service"
            yield Diagnosis("metric servers", Level.WARNING, says, hint="change its spec.url, or create the Service")
        elif target.in_cluster and not target.ready:
            says = f"MetricProvider {name}: {target.url}: the Service has no ready endpoint"
            hint = "none of the pods that the Service selects is ready: `kubectl get pods` in its namespace"
            yield Diagnosis("metric servers", Level.FAULT, says, hint=hint)
        else:
            elsewhere += 1
    if elsewhere:
        says = f"{count_of(elsewhere, 'MetricProvider')} whose answers were not asked for"
        yield Diagnosis(
            "metric servers", Level.NOTE, says, hint="`rollouts analysis providers --ask` asks each of them"
        )


def _workloads(seen: ClusterSeen) -> Iterator[Diagnosis]:
    """The kinds of workloads that Rollouts name, and for which a controller is not set up."""
    used = sorted(set(filter(None, map(_named_kind, seen.rollouts))))
    for controller in seen.controllers:
        allowed = controller.flags("workload")
        if lacking := [plural for plural in used if plural not in allowed]:
            named = count_of(sum(_named_kind(rollout) in lacking for rollout in seen.rollouts), "Rollout")
            says = f"{named} with workloadRef to {', '.join(lacking)}, and {controller.where} is not set up for them"
            yield _by_values(controller, "workloads", Level.FAULT, says, {"workloads": (*allowed, *lacking)})


def _named_kind(rollout: Manifest) -> str:
    """The resource that `workloadRef` names, as the chart's value `workloads` does; "" for none."""
    kind = (rollout.get("spec", {}).get("workloadRef") or {}).get("kind")
    return next((each.resource.plural for each in WorkloadKind if each == kind), "")


def _holds(seen: ClusterSeen) -> Iterator[Diagnosis]:
    """What keeps a new template of a workload that is updated in place from its pods until the update begins."""
    if seen.holds is None or any(each.startswith("list mutatingadmissionpolic") for each in seen.refused):
        return
    read = {plural for controller in seen.controllers for plural in controller.flags("workload")}
    named = [(_named_kind(rollout), rollout, in_place(rollout)) for rollout in seen.rollouts]
    wanted = [
        (plural, rollout)
        for plural, rollout, ref in named
        if ref and ref.get("hold") != "AtRest" and (plural in read or not seen.controllers)
    ]
    for plural in sorted({plural for plural, _ in wanted}):
        if plural in seen.holds.held:
            yield Diagnosis("holds", Level.OK, f"a policy of the API server holds {plural}")
        else:
            yield _unheld(seen, seen.holds, plural, [rollout for of, rollout in wanted if of == plural])


_AT_REST = {"statefulsets": "have a partition that no pod reaches", "daemonsets": "have OnDelete"}


def _unheld(seen: ClusterSeen, holds: HoldPolicies, plural: str, rollouts: Sequence[Manifest]) -> Diagnosis:
    """No policy holds workloads of a kind. Their own fields hold them between updates, unless a Rollout insists on the policy."""
    demanding = [rollout for rollout in rollouts if in_place(rollout).get("hold") == "Policy"]
    if not holds.served:
        why = f"{seen.server.git_version} serves no MutatingAdmissionPolicy, Kubernetes 1.36 does"
    elif unbound := holds.unbound(plural):
        why = f"MutatingAdmissionPolicy {unbound} has no binding, so it holds nothing"
    else:
        why = f"no policy of the API server holds {plural}"
    names = ", ".join(f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in demanding or rollouts)
    says, hint = f"{why}: {plural} of {names} {_AT_REST.get(plural, 'are paused')} between updates (hold: AtRest)", ""
    if demanding:
        says, hint = (
            f"{why}, and {names} has workloadRef.hold: Policy",
            "or set it to Auto" if holds.served else "set it to Auto",
        )
    if not holds.served or not seen.controllers:
        return Diagnosis("holds", Level.FAULT if demanding else Level.NOTE, says, hint=hint)
    kinds = dict.fromkeys((*seen.controllers[0].flags("workload"), *sorted(holds.held), plural))
    values: Values = {"workloads": tuple(kinds), "admission.holds": "true"}
    level = Level.FAULT if demanding else Level.WARNING
    return _by_values(seen.controllers[0], "holds", level, says, values, hint=hint)


def _age_s(lease: Manifest, now_s: float) -> float:
    """Seconds since the holder renewed; infinite when nobody ever did."""
    try:
        return now_s - datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return float("inf")

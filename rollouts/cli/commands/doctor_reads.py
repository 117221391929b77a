"""What `rollouts doctor` reads of a cluster: every question is optional, and what may not be asked is on a list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct, field

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands.rbac import config_secrets_named, secrets_named
from rollouts.cli.view.follow import Collection, list_all
from rollouts.cli.view.rights import OWN_REVIEW, REVIEW, Right, denied
from rollouts.cli.view.session import Session
from rollouts.cluster.decoding import manifest_from
from rollouts.cluster.discovery import ServerVersion, first_served, server_version
from rollouts.controller.facts.proxies import proxy_facts
from rollouts.controller.facts.route_kinds import kinds_of
from rollouts.core.model.drain import ProxyFacts
from rollouts.core.model.workload_ref import WORKLOAD_RESOURCES
from rollouts.errors import ApiForbidden, ApiNotFound
from rollouts.metrics.requests import origin_of
from rollouts.objects import (
    ANALYSIS_TEMPLATE,
    AUTOSCALER,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    LEASE,
    METRIC_PROVIDER,
    POD,
    ROLLOUT,
    SERVICE,
    STATEFUL_SET,
    TRAFFIC_PROVIDER,
    Kind,
    Manifest,
)
from rollouts.settings import DEFAULT_LEASE_NAME
from rollouts.traffic.gateway_api.codec import KINDS
from rollouts.traffic.registry import registry

CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
API_SERVICE = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False)
GATEWAY_CLASS = Kind("gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses", namespaced=False)
ADMISSION = "admissionregistration.k8s.io"

CHART_LABEL = "app.kubernetes.io/name=rollouts"


_EVERYWHERE: tuple[tuple[str, str, str], ...] = (
    ("rollouts.dev", "rollouts", "get list watch patch"),
    ("rollouts.dev", "rollouts/status", "patch"),
    ("rollouts.dev", "analysisruns", "get list watch create patch delete"),
    ("rollouts.dev", "analysisruns/status", "patch"),
    ("rollouts.dev", "analysistemplates", "get list watch"),
    ("rollouts.dev", "experiments", "get list watch"),
    ("rollouts.dev", "experiments/status", "patch"),
    ("apps", "replicasets", "get list watch create patch delete"),
    ("", "services", "get list watch create patch delete"),
    ("discovery.k8s.io", "endpointslices", "list watch"),
    ("", "pods", "list"),
    ("metrics.k8s.io", "pods", "list"),
    ("autoscaling", "horizontalpodautoscalers", "list"),
    ("", "pods/eviction", "create"),
    ("events.k8s.io", "events", "create"),
)
"""What every controller needs where it works: the table in the chart's templates/_rules.tpl, without what a value turns off."""

_OF_CONFIGURATION = (("", "configmaps", "get list watch create patch delete"),)
"""What it needs besides, unless it is told `--config-versioning=off`."""
_OF_THE_CLUSTER = ("clusteranalysistemplates", "trafficproviders", "metricproviders")
"""What a controller of all namespaces reads besides."""


class Installed(Struct, frozen=True):
    """One controller, as its Deployment says.

    Args:
        lease: the Lease that its replicas compete for; None when nobody has ever held it.
        missing: rights that its ServiceAccount lacks; None when nobody may tell.
        missing_secrets: rights that it lacks to Secrets which Rollouts and AnalysisTemplates name.
    """

    deployment: Manifest
    pods: tuple[Manifest, ...] = ()
    lease: Manifest | None = None
    missing: tuple[Right, ...] | None = ()
    missing_secrets: tuple[Right, ...] = ()

    @property
    def namespace(self) -> str:
        """Where it runs."""
        return str(self.deployment["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The Deployment's name."""
        return str(self.deployment["metadata"]["name"])

    @property
    def account(self) -> str:
        """Its ServiceAccount's name."""
        return str(self.deployment["spec"]["template"]["spec"].get("serviceAccountName", "default"))

    @property
    def where(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def version(self) -> str:
        """The version that the chart names; "" without one."""
        return str(self.deployment["metadata"].get("labels", {}).get("app.kubernetes.io/version", ""))

    def flags(self, name: str) -> list[str]:
        """The values of a flag of the controller, `--NAME=VALUE`, in their order."""
        containers = self.deployment["spec"]["template"]["spec"]["containers"]
        words = (word for part in containers for word in (*part.get("command", ()), *part.get("args", ())))
        return [word.partition("=")[2] for word in words if word.startswith(f"--{name}=")]

    @property
    def elects(self) -> bool:
        """Whether its replicas compete for a Lease."""
        containers = self.deployment["spec"]["template"]["spec"]["containers"]
        return not any("--no-leader-elect" in container.get("args", ()) for container in containers)


class ServerUrl(Struct, frozen=True):
    """What the URL of a metric server leads to: perhaps a Service of the cluster, with so many ready endpoints."""

    url: str
    in_cluster: bool
    exists: bool = False
    ready: int = 0


class HoldPolicies(Struct, frozen=True, kw_only=True):
    """The API server's policies for workloads that Rollouts update in place.

    Args:
        served: whether it has MutatingAdmissionPolicies at all.
        policies: those of the chart that hold workloads.
    """

    served: bool
    policies: tuple[Manifest, ...] = ()
    bindings: tuple[Manifest, ...] = ()

    @property
    def held(self) -> frozenset[str]:
        """Plurals of the kinds that a policy with a binding holds."""
        return frozenset(plural for plural, name in self._policies() if name in self._bound())

    def unbound(self, plural: str) -> str:
        """The name of a policy for that kind without a binding; "" when there is none."""
        return next((name for of, name in self._policies() if of == plural and name not in self._bound()), "")

    def _policies(self) -> Iterator[tuple[str, str]]:
        for policy in self.policies:
            for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
                yield from ((plural, policy["metadata"]["name"]) for plural in rule["resources"])

    def _bound(self) -> set[str]:
        return {binding["spec"].get("policyName", "") for binding in self.bindings}


class ClusterSeen(Struct, frozen=True, kw_only=True):
    """A cluster, as far as the person may see it.

    Args:
        crds: by name; None for one that is not installed.
        served: by router: whether the API server has its routes.
        route_crds: of the kinds of the Gateway API that Rollouts name, by the field that names them.
        holds: None while no Rollout updates a workload in place.
        own_missing: what the person may not do with Rollouts.
        refused: what was forbidden to ask, in words.
    """

    now_s: float
    server: ServerVersion
    crds: Mapping[str, Manifest | None] = field(default_factory=dict)
    controllers: tuple[Installed, ...] = ()
    other_leases: tuple[Manifest, ...] = ()
    proxy: ProxyFacts = ProxyFacts()
    rollouts: tuple[Manifest, ...] = ()
    served: Mapping[str, bool] = field(default_factory=dict)
    route_crds: Mapping[str, Manifest | None] = field(default_factory=dict)
    gateway_classes: tuple[Manifest, ...] = ()
    holds: HoldPolicies | None = None
    autoscalers: tuple[Manifest, ...] = ()
    api_services: tuple[Manifest, ...] = ()
    providers: tuple[Manifest, ...] = ()
    prometheus: tuple[ServerUrl, ...] = ()
    metric_servers: Mapping[str, ServerUrl] = {}
    own_missing: tuple[Right, ...] = ()
    refused: tuple[str, ...] = ()


async def read_cluster(session: Session, *, controller_namespace: str | None) -> ClusterSeen:
    """Reads all of it. Raises: what `Client` raises, but ApiForbidden and ApiNotFound only for the server's version."""
    reader = _Reader(session)
    server = await server_version(session.api, deadline_s=session.request_timeout_s)
    names = [crd["metadata"]["name"] for crd in crd_manifests()]
    crds = dict(zip(names, await asyncio.gather(*(reader.one(CRD, None, name) for name in names)), strict=True))
    rollouts = await reader.all(ROLLOUT) if crds.get("rollouts.rollouts.dev") else ()
    templates = await reader.all(ANALYSIS_TEMPLATE) if crds.get("analysistemplates.rollouts.dev") else ()
    named = secret_rights([*rollouts, *templates])
    controllers = await _controllers(reader, controller_namespace, secrets=named)
    metric_providers = await reader.all(METRIC_PROVIDER)
    leases = await reader.all(LEASE, controller_namespace, fieldSelector=f"metadata.name={DEFAULT_LEASE_NAME}")
    routers = {router for controller in controllers for router in controller.flags("router")} | routers_of(rollouts)
    served = {}
    for router in sorted(routers & registry().keys()):
        kinds = [kind for versions in kinds_of(registry()[router]) for kind in versions]
        served[router] = await first_served(session.api, kinds, deadline_s=session.request_timeout_s) is not None
    own = [Right("rollouts.dev", "rollouts", verb, session.namespace) for verb in ("get", "list", "watch", "patch")]
    urls = dict.fromkeys(url for controller in controllers for url in controller.flags("prometheus-url"))
    return ClusterSeen(
        now_s=session.clock.now_s(),
        server=server,
        crds=crds,
        controllers=tuple(controllers),
        other_leases=tuple(lease for lease in leases if all(lease != controller.lease for controller in controllers)),
        proxy=await proxy_facts(session.client),
        rollouts=tuple(rollouts),
        served=served,
        route_crds={
            name: await reader.one(CRD, None, f"{KINDS[name][0].plural}.{KINDS[name][0].group}")
            for name in sorted({name for rollout in rollouts for name in route_fields_of(rollout)})
        },
        gateway_classes=await reader.all(GATEWAY_CLASS) if served.get("gatewayAPI") else (),
        holds=await _holds(reader) if any(map(in_place, rollouts)) else None,
        autoscalers=tuple(
            autoscaler
            for autoscaler in await reader.all(AUTOSCALER)
            if (target := autoscaler.get("spec", {}).get("scaleTargetRef", {})).get("kind") == ROLLOUT.kind
            and target.get("apiVersion", "").startswith(f"{ROLLOUT.group}/")
        ),
        api_services=await reader.all(API_SERVICE),
        providers=(*await reader.all(TRAFFIC_PROVIDER), *metric_providers),
        prometheus=tuple([await _target(reader, url) for url in urls]),
        metric_servers={
            each["metadata"]["name"]: await _target(reader, url)
            for each in metric_providers
            if origin_of(url := str(each.get("spec", {}).get("url")))
        },
        own_missing=await denied(session, own, OWN_REVIEW, {}),
        refused=tuple(dict.fromkeys(reader.refused)),
    )


async def installed_controllers(session: Session) -> tuple[tuple[Manifest, ...], tuple[str, ...]]:
    """The Deployments of controllers in all namespaces, and what was forbidden to ask, in words.

    Raises: what `Client` raises, but neither ApiForbidden nor ApiNotFound.
    """
    reader = _Reader(session)
    return await reader.all(DEPLOYMENT, labelSelector=CHART_LABEL), tuple(reader.refused)


def canary_of(rollout: Manifest) -> Manifest:
    """The strategy of a Rollout by canary; empty for another one."""
    canary: Manifest = (rollout.get("spec", {}).get("strategy") or {}).get("canary") or {}
    return canary


def in_place(rollout: Manifest) -> Manifest:
    """The workload that a Rollout updates in place; empty for one with pods of its own."""
    reference: Manifest = rollout.get("spec", {}).get("workloadRef") or {}
    return reference if reference.get("mode") == "InPlace" else {}


def routers_of(rollouts: Iterable[Manifest]) -> set[str]:
    """The routers that Rollouts name, of those that this program knows."""
    found: set[str] = set()
    for rollout in rollouts:
        routing = canary_of(rollout).get("trafficRouting") or {}
        found |= {*routing, *(routing.get("plugins") or {})} & set(registry())
    return found


def route_fields_of(rollout: Manifest) -> list[str]:
    """The fields of `trafficRouting.gatewayAPI` that name routes in a Rollout: `httpRoutes`, `grpcRoutes`."""
    routing = (canary_of(rollout).get("trafficRouting") or {}).get("gatewayAPI") or {}
    return [field for field in KINDS if routing.get(field)]


def secret_rights(manifests: Sequence[Manifest]) -> list[Right]:
    """The rights to single Secrets that Rollouts and AnalysisTemplates of a cluster need, as `rollouts rbac` grants them."""
    try:
        versioned, named = config_secrets_named(manifests, ()), secrets_named(manifests, ())
    except ValueError:
        return []  # a Secret whose name is none: the object's own status says so
    by_role = (*versioned.items(), *named.items())
    reads = {(role.namespace, name) for role, names in by_role for name in names}
    return [
        *(Right("", "secrets", "get", namespace, name) for namespace, name in sorted(reads)),
        *(Right("", "secrets", "create", namespace) for namespace in sorted({role.namespace for role in versioned})),
    ]


def needed(controller: Installed) -> list[Right]:
    """The rights that a controller cannot do without, with its flags."""
    namespaces = controller.flags("namespace") or [""]
    rules = [*_EVERYWHERE, *(() if "off" in controller.flags("config-versioning") else _OF_CONFIGURATION)]
    if namespaces == [""]:
        rules += [("rollouts.dev", plural, "get list watch") for plural in _OF_THE_CLUSTER]
    for router in controller.flags("router"):
        resources = {(kind.group, kind.plural) for versions in kinds_of(registry().get(router)) for kind in versions}
        rules += [(group, plural, "get list watch patch") for group, plural in sorted(resources)]
    rules += _of_workloads(controller)
    rights = [
        Right(group, resource, verb, namespace)
        for namespace in namespaces
        for group, resource, verbs in rules
        for verb in verbs.split()
    ]
    if controller.elects:
        rights.append(Right("coordination.k8s.io", "leases", "create", controller.namespace))
    return rights


def _of_workloads(controller: Installed) -> list[tuple[str, str, str]]:
    """What it needs for the kinds of workloads that it was told to watch."""
    named = controller.flags("workload")
    rules = [(kind.group, kind.plural, "get list watch patch") for kind in WORKLOAD_RESOURCES if kind.plural in named]
    if DAEMON_SET.plural in named or STATEFUL_SET.plural in named:
        rules += [("", "pods", "watch delete")]
    if DAEMON_SET.plural in named:
        rules += [("apps", "controllerrevisions", "get list")]
    return rules


class _Reader:
    """Reads objects; a kind that is not served has none, and what is forbidden is noted."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.refused: list[str] = []

    async def one(self, kind: Kind, namespace: str | None, name: str) -> Manifest | None:
        """One object; None when there is none, or when it may not be read."""
        try:
            return manifest_from(await self.session.client.get(kind, namespace, name))
        except ApiNotFound:
            pass
        except ApiForbidden:
            self.refused.append(f"get {kind.plural}")
        return None

    async def all(self, kind: Kind, namespace: str | None = None, **query: str) -> tuple[Manifest, ...]:
        """All objects that a query finds; namespace None is for all."""
        try:
            return (await list_all(self.session, Collection(kind=kind, namespace=namespace, query=query)))[0]
        except ApiNotFound:
            pass
        except ApiForbidden:
            self.refused.append(f"list {kind.plural}")
        return ()


async def _holds(reader: _Reader) -> HoldPolicies:
    name = "MutatingAdmissionPolicy"
    kinds = [
        Kind(ADMISSION, version, name, "mutatingadmissionpolicies", namespaced=False) for version in ("v1", "v1beta1")
    ]
    session = reader.session
    kind = await first_served(session.api, kinds, deadline_s=session.request_timeout_s)
    if kind is None:
        return HoldPolicies(served=False)
    binding = Kind(ADMISSION, kind.version, f"{name}Binding", "mutatingadmissionpolicybindings", namespaced=False)
    policies = await reader.all(kind, labelSelector=CHART_LABEL)
    return HoldPolicies(
        served=True,
        policies=tuple(each for each in policies if ".hold-" in each["metadata"]["name"]),
        bindings=await reader.all(binding),
    )


async def _controllers(reader: _Reader, namespace: str | None, *, secrets: Sequence[Right]) -> list[Installed]:
    found = []
    for deployment in await reader.all(DEPLOYMENT, namespace, labelSelector=CHART_LABEL):
        metadata = deployment["metadata"]
        labels = deployment["spec"]["selector"].get("matchLabels") or {}
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        bare = Installed(deployment)
        lease_namespace = next(iter(bare.flags("lease-namespace")), metadata["namespace"])
        lease_name = next(iter(bare.flags("lease-name")), DEFAULT_LEASE_NAME)
        managed = bare.flags("namespace")
        mine = [right for right in secrets if not managed or right.namespace in managed]
        pods = await reader.all(POD, metadata["namespace"], labelSelector=selector)
        lease = await reader.one(LEASE, lease_namespace, lease_name)
        missing = await _missing(reader.session, bare, needed(bare))
        found.append(Installed(deployment, pods, lease, missing, await _missing(reader.session, bare, mine) or ()))
    return found


async def _missing(session: Session, controller: Installed, rights: Sequence[Right]) -> tuple[Right, ...] | None:
    """Those of the rights that its ServiceAccount lacks; None when nobody may tell."""
    namespace = controller.namespace
    user = f"system:serviceaccount:{namespace}:{controller.account}"
    # Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/.
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    try:
        return await denied(session, rights, REVIEW, {"user": user, "groups": groups})
    except ApiForbidden:
        return None


async def _target(reader: _Reader, url: str) -> ServerUrl:
    """A host `SERVICE.NAMESPACE`, `SERVICE.NAMESPACE.svc` or with the cluster's domain names a Service."""
    name, _, rest = (urlsplit(url).hostname or "").partition(".")
    namespace, _, domain = rest.partition(".")
    if not namespace or (domain and domain.split(".")[0] != "svc"):
        return ServerUrl(url, in_cluster=False)
    if await reader.one(SERVICE, namespace, name) is None:
        return ServerUrl(url, in_cluster=True)
    slices = await reader.all(ENDPOINT_SLICE, namespace, labelSelector=f"kubernetes.io/service-name={name}")
    endpoints = [endpoint for endpoint_slice in slices for endpoint in endpoint_slice.get("endpoints") or ()]
    ready = sum(bool(endpoint.get("conditions", {}).get("ready", True)) for endpoint in endpoints)
    return ServerUrl(url, in_cluster=True, exists=True, ready=ready)

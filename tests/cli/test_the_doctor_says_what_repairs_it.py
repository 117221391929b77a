"""What `rollouts doctor` concludes from what it saw: each fault with its fix, and no fault where there is none."""

from __future__ import annotations

import copy
import shlex
import subprocess
from typing import Any

import pytest

from rollouts.api.schema import crd_manifests
from rollouts.cli.commands.diagnosis import diagnoses
from rollouts.cli.commands.doctor import summary
from rollouts.cli.commands.doctor_finding import Diagnosis, Level
from rollouts.cli.commands.doctor_reads import ClusterSeen, Installed, ServerUrl, read_cluster, secret_rights
from rollouts.cli.view.rights import Right
from rollouts.cli.view.session import session_on
from rollouts.cluster.discovery import ServerVersion
from rollouts.core.model.drain import ProxyFacts, ProxyMode
from rollouts.core.model.frozen import replace
from rollouts.errors import APPLY_CRDS
from rollouts.objects import METRIC_PROVIDER, ROLLOUT
from rollouts.ports import Request, Response
from rollouts.sim.clock import run_virtual
from rollouts.sim.cluster import SimulatedCluster
from tests import build
from tests.controller.test_the_process_outlives_what_objects_hold import Spoiling
from tests.controller.test_the_process_outlives_what_objects_hold import rollout as deep_rollout

VERSION = "0.1.0"
NOW_S = 1_800_000_000.0
RENEWED = "2027-01-15T07:59:58.000000Z"  # two seconds before


HELM = "meta.helm.sh/release-name"


def of_release(name: str = "rollouts", namespace: str = "rollouts-system") -> dict[str, str]:
    """What Helm notes on the objects of a release."""
    return {HELM: name, "meta.helm.sh/release-namespace": namespace}


def controller(
    *flags: str,
    replicas: int = 2,
    available: int = 2,
    namespace: str = "rollouts-system",
    by_helm: bool = True,
    version: str = VERSION,
    **more: Any,
) -> Installed:
    """A controller as the chart installs it, that leads."""
    mode = [] if any(each.startswith("--proxy-mode") for each in flags) else ["--proxy-mode=auto"]
    args = ["controller", "--leader-elect", *mode, "--router=gatewayAPI", *flags]
    spec = {"template": {"spec": {"containers": [{"args": args}], "serviceAccountName": "rollouts"}}}
    deployment = {
        "metadata": {
            "name": "rollouts",
            "namespace": namespace,
            "labels": {"app.kubernetes.io/version": version},
            "annotations": of_release(namespace=namespace) if by_helm else {},
        },
        "spec": {"replicas": replicas, **spec},
        "status": {"availableReplicas": available},
    }
    lease = {"metadata": {"namespace": namespace}, "spec": {"holderIdentity": "pod_1", "renewTime": RENEWED}}
    return Installed(deployment, **{"lease": lease, **more})


def healthy(**changes: Any) -> ClusterSeen:
    """A cluster on which everything is in place, but for the changes."""
    seen = ClusterSeen(
        now_s=NOW_S,
        server=ServerVersion(1, 34, "v1.34.1"),
        crds={crd["metadata"]["name"]: crd for crd in crd_manifests()},
        controllers=(controller(),),
        proxy=ProxyFacts(mode=ProxyMode.NFTABLES, known_by="ConfigMap kube-system/kube-proxy says nftables"),
        served={"gatewayAPI": False},
    )
    return replace(seen, **changes)


def worse(seen: ClusterSeen, level: Level = Level.FAULT) -> list[Diagnosis]:
    """The findings of that level."""
    return [each for each in diagnoses(seen, version=VERSION) if each.level is level]


def pod(*, waiting: str = "", unscheduled: str = "") -> dict[str, Any]:
    """A pod that does not run, and why."""
    image = f"localhost/rollouts:{VERSION}"
    conditions = [{"type": "PodScheduled", "status": "False", "message": unscheduled}] if unscheduled else []
    statuses = [{"image": image, "state": {"waiting": {"reason": waiting}}}] if waiting else []
    return {"metadata": {"name": "rollouts-x"}, "status": {"containerStatuses": statuses, "conditions": conditions}}


def changed_crd(**metadata: Any) -> dict[str, Any]:
    """All CRDs, that of Rollouts with other metadata."""
    crds = {crd["metadata"]["name"]: copy.deepcopy(crd) for crd in crd_manifests()}
    crds["rollouts.rollouts.dev"]["metadata"] |= metadata
    return crds


def test_where_everything_is_in_place_nothing_is_wrong() -> None:
    """A doctor that finds something on every cluster is not asked twice."""
    found = diagnoses(healthy(), version=VERSION)

    assert {each.level for each in found} == {Level.OK}
    assert summary(found) == "nothing is wrong"


def crd_with(fields: dict[str, Any], *, without: str = "") -> dict[str, Any]:
    """All CRDs, that of Rollouts with more fields of the spec, or without one."""
    crds = changed_crd()
    version = crds["rollouts.rollouts.dev"]["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec |= fields
    spec.pop(without, None)
    return crds


def proxied(mode: ProxyMode, *controllers: Installed) -> ClusterSeen:
    """The controller was told one thing about the proxy, and the cluster says another."""
    return healthy(controllers=controllers, proxy=ProxyFacts(mode=mode, known_by="it is so"))


def gateway_class(accepted: str) -> dict[str, Any]:
    """A class whose controller has said so."""
    condition = {"type": "Accepted", "status": accepted, "message": "Waiting for controller"}
    return {"metadata": {"name": "eg"}, "status": {"conditions": [condition]}}


def rollout(**spec: Any) -> dict[str, Any]:
    """A Rollout of the namespace shop."""
    return build.manifest(ROLLOUT, "cart", "shop", spec=spec)


A_TENTH = {"setMirrorRoute": {"name": "copy", "match": [{"path": {"prefix": "/"}}], "percentage": 10}}


def routed(field: str, crd: dict[str, Any] | None, *steps: dict[str, Any]) -> ClusterSeen:
    """A Rollout whose routes are those of the Gateway API, and the CRD of that kind of routes."""
    routing = {"gatewayAPI": {field: [{"name": "cart"}]}}
    one = rollout(strategy={"canary": {"trafficRouting": routing, "steps": list(steps)}})
    return gateways(gateway_class("True"), rollouts=(one,), route_crds={field: crd})


def route_crd(version: str, *, percent: bool = True) -> dict[str, Any]:
    """The CRD of a kind of routes, as far as the doctor looks into it."""
    schema: dict[str, Any] = {"properties": {"percent" if percent else "backendRef": {"type": "integer"}}}
    for name in ("requestMirror", "filters", "rules", "spec"):
        schema = {"properties": {name: {"items": schema} if name in ("filters", "rules") else schema}}
    return {
        "metadata": {"annotations": {"gateway.networking.k8s.io/bundle-version": "v1.0.0"}},
        "spec": {"versions": [{"name": version, "served": True, "schema": {"openAPIV3Schema": schema}}]},
    }


def gateways(*classes: dict[str, Any], **changes: Any) -> ClusterSeen:
    """A cluster that serves the Gateway API with these classes."""
    return healthy(served={"gatewayAPI": True}, gateway_classes=classes, **changes)


def measured(*groups: str, **changes: Any) -> ClusterSeen:
    """A Rollout that asks what its container uses, and APIs of metrics that are served."""
    one = rollout(autoscaling={"containerResource": {"container": "app", "resource": "cpu"}})
    return healthy(rollouts=(one,), api_services=tuple(map(api_service, groups)), **changes)


def api_service(group: str) -> dict[str, Any]:
    """An API that is served."""
    return {"spec": {"group": group}, "status": {"conditions": [{"type": "Available", "status": "True"}]}}


def inactive(reason: str) -> dict[str, Any]:
    """An autoscaler of the Rollout that does not scale."""
    condition = {"type": "ScalingActive", "status": "False", "reason": reason, "message": "no metrics for cpu"}
    made = build.autoscaler("cart", "shop", metadata={"name": "cart-hpa"}, metrics=[])
    return {**made, "status": {"conditions": [condition]}}


def scaled(reason: str, **autoscaling: Any) -> ClusterSeen:
    """A Rollout, and its autoscaler that does not scale."""
    return healthy(rollouts=(rollout(autoscaling=autoscaling),), autoscalers=(inactive(reason),))


def multiplied(target: str, **canary: Any) -> ClusterSeen:
    """A canary whose autoscaler goes by a number from outside of the cluster."""
    external = {"metric": {"name": "waiting"}, "target": {"type": target}}
    autoscaler = inactive("ScalingDisabled")
    autoscaler["spec"] |= {"metrics": [{"type": "External", "external": external}]}
    groups = (api_service("external.metrics.k8s.io"),)
    return healthy(rollouts=(rollout(strategy={"canary": canary}),), autoscalers=(autoscaler,), api_services=groups)


def lone(**pod_: str) -> ClusterSeen:
    """A controller whose one pod does not run."""
    return healthy(controllers=(controller(available=0, pods=(pod(**pod_),), lease=None),))


LEASE = controller().lease
RELEASED = {"metadata": {"namespace": "x"}, "spec": {"holderIdentity": "", "renewTime": RENEWED}}
SHOP = controller("--namespace=shop", "--proxy-mode=nftables")
NO_METRIC = "shop/cart-hpa does not scale: FailedGetResourceMetric: no metrics for cpu"
URL = "http://p.monitoring:9090"
FAULT, WARNING, NOTE = Level.FAULT, Level.WARNING, Level.NOTE
WRONG: dict[str, tuple[ClusterSeen, Level, str, str]] = {
    # the first failure of a first install is an image that no node has
    "an image that is nowhere": (
        lone(waiting="ImagePullBackOff"), FAULT, "localhost/rollouts:0.1.0: ImagePullBackOff", "kind load docker-image"),
    "a crash": (lone(waiting="CrashLoopBackOff"), FAULT, "CrashLoopBackOff", "kubectl logs"),
    "no node": (lone(unscheduled="0/3 nodes are available"), FAULT, "0/3 nodes are available", "kubectl describe pod"),
    "the standby lacks": (healthy(controllers=(controller(available=1),)), WARNING, "1 of 2 replicas", ""),
    "each of them would act": (healthy(controllers=(controller("--no-leader-elect"),)), FAULT, "none is elected", ""),
    "two that overlap": (
        healthy(controllers=(SHOP, controller(namespace="other"))), FAULT, "manage the same Rollouts", ""),
    "no Lease": (healthy(controllers=(controller(lease=None),)), FAULT, "none has taken the Lease", ""),
    "a Lease that nobody holds": (
        healthy(controllers=(controller(lease=RELEASED),)), FAULT, "none has taken the Lease", ""),
    # somebody develops it: there is no Deployment, and Rollouts go on
    "a controller outside": (
        healthy(controllers=(), other_leases=(LEASE,)), NOTE, "pod_1 holds the Lease", ""),
    "every Rollout goes with its CRD": (
        healthy(crds=changed_crd(deletionTimestamp="2026-01-01T00:00:00Z")), FAULT, "is being deleted", ""),
    # a version by its name says little: what counts is whether a field would be dropped
    "an older CRD": (healthy(crds=crd_with({}, without="paused")), FAULT, "it lacks spec.paused", ""),
    "a newer CRD": (healthy(crds=crd_with({"later": {"type": "string"}})), WARNING, "it has spec.later", ""),
    # too short a drain loses requests; one of two minutes only costs time
    "a proxy mode that is contradicted": (
        proxied(ProxyMode.NFTABLES, controller("--proxy-mode=ipvs")), FAULT, "with ipvs, and it is so", "proxyMode=nftables"),
    "an unknown proxy mode": (proxied(ProxyMode.UNKNOWN, controller()), WARNING, "drained for two minutes", "iptables, nftables"),
    "a controller that may not ask for it": (
        proxied(ProxyMode.NFTABLES, controller("--namespace=shop")), WARNING, "may not ask", "proxyMode=nftables"),
    # a route of it is never accepted, and the Rollout waits for that
    "a GatewayClass that nobody carries out": (
        gateways(gateway_class("Unknown")), WARNING, "eg is not accepted: Waiting for controller", ""),
    "no GatewayClass": (gateways(), NOTE, "there is no GatewayClass", ""),
    # the API server drops a field that it does not know without a word, and then all requests are mirrored
    "a part is mirrored": (
        routed("httpRoutes", route_crd("v1", percent=False), A_TENTH), FAULT,
        "the installed Gateway API (v1.0.0) drops the percentage", "install a newer Gateway API"),
    "no such kind of routes": (
        routed("grpcRoutes", None), FAULT, "needs GRPCRoute, which the installed Gateway API does not have",
        "install a newer Gateway API"),
    "an older version of routes": (
        routed("httpRoutes", route_crd("v1alpha2")), FAULT, "needs HTTPRoute", "install a newer Gateway API"),
    # its steps wait for a number that nobody measures
    "no metrics API": (measured(), FAULT, "Rollout shop/cart asks what its container app uses", "install metrics-server"),
    "APIs that may not be listed": (measured(refused=("list apiservices",)), NOTE, "list apiservices", ""),
    # it says nothing about the load, so a step that waits for it never completes
    "an autoscaler that a Rollout waits for": (
        scaled("FailedGetResourceMetric", settled=True), FAULT, NO_METRIC, "kubectl describe hpa cart-hpa -n shop"),
    "an autoscaler that nobody waits for": (
        scaled("FailedGetResourceMetric"), WARNING, NO_METRIC, "kubectl describe hpa cart-hpa -n shop"),
    # it grows during each update, without more load
    "an autoscaler that multiplies by all pods": (
        multiplied("Value", trafficRouting={}), WARNING, "scales by the Value of waiting", "AverageValue"),
    # it cannot be asked from a laptop; whether something is there can
    "Prometheus without a pod": (
        healthy(prometheus=(ServerUrl(URL, in_cluster=True, exists=True),)), FAULT, "no ready endpoint", ""),
    "Prometheus without a Service": (
        healthy(prometheus=(ServerUrl(URL, in_cluster=True),), controllers=(controller(f"--prometheus-url={URL}"),)),
        FAULT, "there is no such Service", "--set prometheusUrl="),
    "a metric server without a pod": (
        healthy(metric_servers={"thanos": ServerUrl(URL, in_cluster=True, exists=True)}), FAULT, "MetricProvider thanos", ""),
    "a metric server without a Service": (
        healthy(metric_servers={"thanos": ServerUrl(URL, in_cluster=True)}), WARNING, "there is no such Service", ""),
    "a metric server": (
        healthy(metric_servers={"dd": ServerUrl("https://api.datadoghq.com", in_cluster=False)}), NOTE,
        "1 MetricProvider whose answers were not asked for", "analysis providers --ask"),
    "Prometheus elsewhere": (
        healthy(prometheus=(ServerUrl("https://prometheus.example.com", in_cluster=False),)), NOTE, "example.com", ""),
}  # fmt: skip

UPGRADE = "helm upgrade --install rollouts ./helm/rollouts --namespace rollouts-system"
INSTALL = f"{UPGRADE} --create-namespace"
CHANGE = f"{UPGRADE} --reset-then-reuse-values"
NO_CRDS = dict.fromkeys(crd["metadata"]["name"] for crd in crd_manifests())
OLD = crd_with({}, without="paused")
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
UNMANAGED = controller(by_helm=False)
SECOND = controller(namespace="second", replicas=0, available=0)


def installed_by(release: dict[str, str], crds: dict[str, Any]) -> dict[str, Any]:
    """CRDs with Helm's notes."""
    return {name: {**crd, "metadata": {**crd["metadata"], "annotations": release}} for name, crd in crds.items()}


def needing(*routers: str) -> dict[str, Any]:
    """A Rollout for each of the routers."""
    each = [rollout(strategy={"canary": {"trafficRouting": {router: {}}}}) for router in routers]
    return {"rollouts": tuple(each), "served": dict.fromkeys(routers, True)}


LOST = "trafficproviders.rollouts.dev"
FIXED: dict[str, tuple[ClusterSeen, list[str]]] = {
    "neither CRDs nor a controller": (healthy(crds=NO_CRDS, controllers=()), [INSTALL]),
    "a controller that was just uninstalled": (
        healthy(crds=NO_CRDS, controllers=(), other_leases=(RELEASED,)), [INSTALL]),
    "CRDs that kubectl applied": (healthy(controllers=()), [f"{INSTALL} --take-ownership"]),
    "older CRDs that kubectl applied": (healthy(crds=OLD, controllers=()), [f"{INSTALL} --take-ownership"]),
    "CRDs that an uninstalled release left": (
        healthy(crds=installed_by(of_release("prod", "delivery"), crd_with({})), controllers=()),
        ["helm upgrade --install prod ./helm/rollouts --namespace delivery --create-namespace"]),
    "older CRDs of the release": (healthy(crds=installed_by(of_release(), OLD)), [CHANGE]),
    "older CRDs that kubectl applies": (healthy(crds=OLD), [APPLY_CRDS]),
    "a release that has lost its CRDs": (healthy(crds=NO_CRDS), [f"{CHANGE} --set crds.enabled=true"]),
    "no CRDs, and a controller without Helm": (healthy(crds=NO_CRDS, controllers=(UNMANAGED,)), [APPLY_CRDS]),
    "no CRDs, and a controller elsewhere": (
        healthy(crds=NO_CRDS, controllers=(), other_leases=(LEASE,)), [APPLY_CRDS]),
    "a CRD that is being deleted": (
        healthy(crds=changed_crd(**GOING, annotations=of_release())),
        [f"kubectl wait --for=delete crd/rollouts.rollouts.dev --timeout=5m && {CHANGE} --take-ownership"]),
    "routers": (
        healthy(**needing("istio", "nginx", "alb", "traefik")),
        [f"{CHANGE} --set 'routers={{gatewayAPI,alb,istio,nginx,traefik}}'"]),
    "routers, a right and an older release": (
        healthy(controllers=(controller(missing=(Right("", "pods", "list"),), version="0.0.9"),), **needing("istio")),
        [f"{CHANGE} --set rbac.create=true --set 'routers={{gatewayAPI,istio}}'"]),
    "replicas": (healthy(controllers=(controller(replicas=0, available=0),)), [f"{CHANGE} --set replicas=2"]),
    "replicas, and a CRD that Helm has lost": (
        healthy(
            controllers=(controller(replicas=0, available=0),),
            crds={**installed_by(of_release(), crd_with({})), LOST: crd_with({})[LOST]}),
        [f"{CHANGE} --take-ownership --set replicas=2"]),
    "replicas without Helm": (
        healthy(controllers=(controller(replicas=0, available=0, by_helm=False),)),
        ["kubectl scale deployment rollouts --namespace rollouts-system --replicas 2"]),
    # to scale it up would make two that act against each other
    "a second controller of no replicas": (
        healthy(crds=installed_by(of_release(), crd_with({})), controllers=(SECOND, controller())),
        ["helm uninstall rollouts --namespace second"]),
    "a newer controller": (healthy(controllers=(controller(version="0.2.0"),)), [""]),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "level", "says", "fix"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_alone_with_its_weight_and_its_fix(
    seen: ClusterSeen, level: Level, says: str, fix: str
) -> None:
    """Rollouts go on without a standby; with two that act, or without a CRD, they do not."""
    (found,) = [each for each in diagnoses(seen, version=VERSION) if each.level is not Level.OK]

    assert found.level is level
    assert says in found.says and fix in f"{found.fix} {found.hint}"
    assert found.level is Level.NOTE or found.fix or found.hint


def test_each_fix_is_a_command_for_bash() -> None:
    """People paste what stands behind an arrow; what only they can do is a hint, and they have no checkout with its docs."""
    seen = [*(each[0] for each in WRONG.values()), *(each[0] for each in FIXED.values())]
    found = [one for each in seen for one in diagnoses(each, version=VERSION)]
    commands = {one.fix for one in found if one.fix}

    read = subprocess.run(["bash", "-n"], input="\n".join(commands), capture_output=True, text=True, check=False)

    assert (read.returncode, read.stderr) == (0, "")
    assert {shlex.split(one)[0] for one in commands} == {"helm", "kubectl", "rollouts"}
    assert [one for one in commands if "…" in one or "..." in one] == []
    assert [one for one in found if "docs/" in f"{one.says}{one.fix}{one.hint}"] == []


def test_an_api_of_metrics_that_is_missing_is_one_finding() -> None:
    """A missing metrics-server was a line for each autoscaler and each Rollout, and one more for each that does not scale."""
    waiting = rollout(autoscaling={"containerResource": {"container": "app", "resource": "cpu"}, "settled": True})
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    autoscalers = [inactive("FailedGetResourceMetric") for _ in range(4)]
    for each in autoscalers:
        each["spec"]["metrics"] = [cpu]

    (found,) = worse(healthy(rollouts=(waiting,), autoscalers=tuple(autoscalers)))

    assert found.says.startswith("metrics.k8s.io is not available. Rollout shop/cart asks what its container app uses")
    assert found.says.endswith("; and 2 more")
    assert worse(healthy(rollouts=(waiting,), autoscalers=tuple(autoscalers)), Level.WARNING) == []


@pytest.mark.parametrize(("seen", "fixes"), FIXED.values(), ids=FIXED)
def test_all_that_a_release_lacks_is_one_command(seen: ClusterSeen, fixes: list[str]) -> None:
    """Of four lines for one release the last one won, bash expanded its braces, and it went to the wrong namespace."""
    found = [*worse(seen), *worse(seen, Level.WARNING)]

    assert list(dict.fromkeys(one.fix for one in found)) == fixes


def test_the_program_says_which_values_to_set_where_helm_does_not_manage_the_controller() -> None:
    """Argo CD renders the chart, kustomize has a base of it: an upgrade by hand would be a second release."""
    (found,) = worse(proxied(ProxyMode.NFTABLES, controller("--proxy-mode=ipvs", by_helm=False)))

    assert found.fix == ""
    assert "with proxyMode=nftables" in found.hint


@pytest.mark.parametrize(
    "seen",
    [
        healthy(controllers=(SHOP, controller("--namespace=cart", "--proxy-mode=nftables", namespace="other"))),
        gateways(gateway_class("True")),
        routed("httpRoutes", route_crd("v1"), A_TENTH),
        routed("httpRoutes", route_crd("v1", percent=False)),
        measured("metrics.k8s.io"),
        scaled("ScalingDisabled", settled=True),
        multiplied("AverageValue", trafficRouting={}),
        multiplied("Value", trafficRouting={}, dynamicStableScale=True),
        multiplied("Value"),
        healthy(prometheus=(ServerUrl(URL, in_cluster=True, exists=True, ready=1),)),
    ],
    ids=["controllers of tenants", "GatewayClass accepted", "API new enough", "API old and enough", "metrics API",
         "at 0 replicas", "an average", "a stable that goes down", "no routes", "Prometheus ready"],
)  # fmt: skip
def test_what_is_in_place_is_no_fault(seen: ClusterSeen) -> None:
    """Each is near to something that is told."""
    assert {each.level for each in diagnoses(seen, version=VERSION)} == {Level.OK}


def test_secrets_that_a_rollout_versions_and_an_analysis_names_need_rights_of_their_own() -> None:
    """They are as `rollouts rbac` grants them: each by its name. A Rollout that did not opt in needs none."""
    container = {"name": "app", "envFrom": [{"secretRef": {"name": "token"}}]}
    template = {"spec": {"containers": [container]}}
    argument = {"name": "key", "valueFrom": {"secretKeyRef": {"name": "api-key", "key": "key"}}}
    analysis = build.analysis_template(name="smoke", namespace="shop", args=[argument])
    opted_in = rollout(template=template, configVersioning={"secrets": True})

    rights = secret_rights([opted_in, analysis])
    (fault,) = worse(healthy(controllers=(controller(missing_secrets=tuple(rights)),)))

    assert list(map(str, rights)) == [
        "get secrets/api-key in shop", "get secrets/rollouts-config-key in shop", "get secrets/token in shop",
        "create secrets in shop",
    ]  # fmt: skip
    assert secret_rights([rollout(template=template)]) == []
    assert "rollouts-system/rollouts may not get secrets/api-key in shop" in fault.says
    assert "rollouts rbac -f - --service-account rollouts-system/rollouts | kubectl apply -f -" in fault.fix


def test_what_was_forbidden_to_ask_is_no_fault() -> None:
    """A developer sees part of the cluster, and that part may be in order."""
    seen = healthy(
        crds=dict.fromkeys(healthy().crds),
        controllers=(),
        refused=("get customresourcedefinitions", "list deployments"),
        own_missing=(Right("rollouts.dev", "rollouts", "patch", "shop"),),
    )

    assert worse(seen) == []
    assert [each.says for each in worse(seen, Level.WARNING)] == ["you may not patch rollouts.rollouts.dev in shop"]
    assert "get customresourcedefinitions" in worse(seen, Level.NOTE)[0].says


def test_everything_bad_comes_with_what_repairs_it() -> None:
    """A fault without a fix is what the status shows already."""
    broken = healthy(
        server=ServerVersion(1, 29, "v1.29.0"),
        crds=dict.fromkeys(healthy().crds),
        controllers=(controller(f"--prometheus-url={URL}", missing=(Right("", "services", "patch"),), available=1),),
        prometheus=(ServerUrl(URL, in_cluster=True),),
    )

    bad = [*worse(broken), *worse(broken, Level.WARNING)]

    assert {each.check for each in bad} >= {"API server", "CRDs", "controller", "rights", "Prometheus"}
    assert [each for each in bad if not (each.fix or each.hint)] == []


class Reviewed(Spoiling):
    """Serves reviews of rights, too, and grants all."""

    async def request(self, request: Request, *, deadline_s: float) -> Response:
        if request.path.endswith("accessreviews"):
            return Response(201, b'{"status":{"allowed":true}}')
        return await super().request(request, deadline_s=deadline_s)


@pytest.mark.parametrize("levels", [900, 1_100, 5_000])
def test_the_doctor_reads_the_whole_cluster(levels: int) -> None:
    """The API server keeps 10,000 levels, and Python's parser reads a tenth: the doctor ended with a traceback for everybody."""

    async def seen() -> ClusterSeen:
        async with SimulatedCluster() as cluster:
            for crd in crd_manifests():
                cluster.apply(crd)
            cluster.apply(deep_rollout("cart", more=f"deep-{levels}"))
            cluster.apply(
                build.manifest(METRIC_PROVIDER, "thanos", None, spec={"url": "http://thanos.monitoring:9090"})
            )
            session = session_on(Reviewed(cluster.api), namespace="default", request_timeout_s=5.0)
            return await read_cluster(session, controller_namespace=None)

    found = run_virtual(seen())

    assert [each["metadata"]["name"] for each in found.rollouts] == ["cart"]
    assert found.metric_servers == {"thanos": ServerUrl("http://thanos.monitoring:9090", in_cluster=True)}

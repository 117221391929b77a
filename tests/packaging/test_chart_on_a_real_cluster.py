"""The Helm chart, rendered by Helm and taken by a real API server: its objects, its rights, and nothing beyond them."""

from __future__ import annotations

import importlib
import json
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rollouts.cli.commands.doctor_reads import Installed, needed
from rollouts.controller.command import _settings
from rollouts.settings import DEFAULT_LEASE_NAME
from rollouts.traffic.registry import registry
from tests.lab.chart import RELEASE_NAMESPACE, render
from tests.lab.control_plane import ControlPlane
from tests.packaging.built_in_templates import TEMPLATES
from tests.packaging.rendered import container, granted, only, rules

pytestmark = pytest.mark.controlplane

VARIANTS = {
    "defaults": [],
    "some namespaces": ["--set", "watchNamespaces={shop,cart}"],
    "everything on": [
        "--set",
        (
            "priorityClassName=system-cluster-critical,imagePullSecrets[0].name=pull,fullnameOverride=delivery,crds.keep=false,"
            "networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus,metrics.dashboard.enabled=true,"
            "env[0].name=HTTPS_PROXY,env[0].value=http://proxy:3128,tolerations[0].operator=Exists,"
            "extraVolumes[0].name=more,extraVolumes[0].emptyDir.medium=Memory,extraVolumeMounts[0].name=more,"
            "extraVolumeMounts[0].mountPath=/more,analysis.mounts[0].name=prom,analysis.mounts[0].secret=prom,"
            "commonLabels.team=delivery,commonAnnotations.owner=delivery,deploymentAnnotations.note=x,hostNetwork=true,"
            "dnsConfig.options[0].name=ndots,terminationGracePeriodSeconds=45,logLevel=debug,podDisruptionBudget.minAvailable=50%,"
            "initContainers[0].name=first,initContainers[0].image=x,extraContainers[0].name=beside,extraContainers[0].image=x,"
            "extraObjects[0].apiVersion=v1,extraObjects[0].kind=ConfigMap,extraObjects[0].metadata.name=more"
        ),
    ],
    "everything off": [
        "--set",
        (
            "leaderElection=false,metrics.service=false,podDisruptionBudget.enabled=false,rbac.aggregateToUserRoles=false,replicas=1,"
            "crds.enabled=false,networkPolicy.enabled=false,configVersioning=false,admission.fences=false"
        ),
    ],
    "a proxy mode by hand": ["--set", "proxyMode=ipvs"],
    "every router": ["--set", f"routers={{{','.join(sorted(registry()))}}}"],
    "a declared route": ["--set", "declaredRoutes[0].group=apisix.apache.org,declaredRoutes[0].resource=apisixroutes"],
    "routes of our own": ["--set", "ownRoutes=true,declaredRoutes[0].group=a.io,declaredRoutes[0].resource=routes"],
    "metrics of analyses": [
        "--set",
        (
            "analysis.secrets={prom,other},analysis.mounts[0].name=prom,analysis.mounts[0].secret=prom,analysis.ca.configMap=ca,"
            "analysis.mounts[1].name=ca,analysis.mounts[1].configMap=ca,dataPlaneCa.secret=ca,analysis.tenantHosts={*.example},"
            "analysis.tenantHttp=true,analysis.refusedNetworks={203.0.113.0/24},analysis.jobs.enabled=true,"
            "analysis.customMetrics={pods/http_requests,ingresses.networking.k8s.io/hits},analysis.externalMetrics={s0-queue}"
        ),
    ],
    "an image by digest": ["--set", f"image.digest=sha256:{'0' * 64}"],
}

# What the controller's ServiceAccount may do where it works, as the table in templates/_rules.tpl has it.
WHERE_IT_WORKS = {
    ("rollouts.dev", "rollouts"): {"get", "list", "watch", "patch"},
    ("rollouts.dev", "rollouts/status"): {"patch"},
    ("rollouts.dev", "rollouts/finalizers"): {"update"},
    ("rollouts.dev", "analysisruns"): {"get", "list", "watch", "create", "patch", "delete"},
    ("rollouts.dev", "analysisruns/status"): {"patch"},
    ("rollouts.dev", "analysistemplates"): {"get", "list", "watch"},
    ("rollouts.dev", "experiments"): {"get", "list", "watch", "create", "patch", "delete"},
    ("rollouts.dev", "experiments/status"): {"patch"},
    ("rollouts.dev", "experiments/finalizers"): {"update"},
    ("apps", "replicasets"): {"get", "list", "watch", "create", "patch", "delete"},
    ("", "services"): {"get", "list", "watch", "create", "patch", "delete"},
    ("discovery.k8s.io", "endpointslices"): {"list", "watch"},
    ("", "pods"): {"list", "patch"},
    ("metrics.k8s.io", "pods"): {"list"},
    ("autoscaling", "horizontalpodautoscalers"): {"list"},
    ("", "pods/eviction"): {"create"},
    ("", "configmaps"): {"get", "list", "watch", "create", "patch", "delete"},
    ("events.k8s.io", "events"): {"create"},
    **{
        ("gateway.networking.k8s.io", routes): {"get", "list", "watch", "patch"}
        for routes in ("httproutes", "grpcroutes", "tlsroutes", "tcproutes")
    },
    ("gateway.networking.k8s.io", "gateways"): {"get"},
    ("gateway.networking.k8s.io", "gatewayclasses"): {"get"},
}
EVERYWHERE = WHERE_IT_WORKS | {
    ("", "nodes"): {"list"},
    ("rollouts.dev", "clusteranalysistemplates"): {"get", "list", "watch", "create"},
    ("rollouts.dev", "trafficproviders"): {"get", "list", "watch"},
    ("rollouts.dev", "trafficproviders/status"): {"patch"},
    ("rollouts.dev", "metricproviders"): {"get", "list", "watch"},
    ("rollouts.dev", "metricproviders/status"): {"patch"},
}
WITHOUT_A_FENCE = {
    ("events.k8s.io", "events"),
    ("rollouts.dev", "rollouts/finalizers"),
    ("rollouts.dev", "experiments/finalizers"),
    *(
        ("rollouts.dev", f"{each}/status")
        for each in ("rollouts", "analysisruns", "experiments", "metricproviders", "trafficproviders")
    ),
}
"""What the API server lets nobody do more with: a status has its subresource, and an Event is told to people."""
ABOUT_PROXIES = {("apps", "daemonsets"): {"get"}}  # and ConfigMaps, which it may read everywhere
IN_ITS_OWN_NAMESPACE = EVERYWHERE | {("coordination.k8s.io", "leases"): {"get", "create", "update"}}


def _granted(plane: ControlPlane, kubeconfig: Path, namespace: str) -> dict[tuple[str, str], set[str]]:
    """What the API server's own authorizer lists for a user, without what every authenticated user may ask about itself."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    words = ("create", "--validate=false", "-f", "-", "-o", "json")
    answer = plane.kubectl(*words, input=json.dumps(review), kubeconfig=kubeconfig)
    found: dict[tuple[str, str], set[str]] = {}
    for rule in json.loads(answer.stdout)["status"]["resourceRules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return {
        key: verbs
        for key, verbs in found.items()
        if key[0] not in {"authorization.k8s.io", "authentication.k8s.io"}
        and key != ("certificates.k8s.io", "clustertrustbundles")
    }


@pytest.mark.parametrize("arguments", VARIANTS.values(), ids=VARIANTS)
def test_the_api_server_accepts_every_object(
    control_plane: ControlPlane, helm: Path, controller_kubeconfig: Path, arguments: list[str]
) -> None:
    """A server-side dry run runs the API server's whole validation, which `helm lint` does not."""
    documents = render(helm, *arguments)
    created = {"apiVersion": "v1", "kind": "List", "items": documents}
    for missing in ("shop", "cart"):
        control_plane.api.post("/api/v1/namespaces", json={"metadata": {"name": missing}})

    done = control_plane.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", "-"), input=json.dumps(created)
    )

    assert done.stdout.count("(server dry run)") == len(documents)
    # Another test of the same control plane may have applied the CRDs on the client's side.
    told = [line for line in done.stderr.splitlines() if "last-applied-configuration" not in line]
    assert "arning" not in "".join(told)


@pytest.mark.parametrize("arguments", VARIANTS.values(), ids=VARIANTS)
def test_no_rule_grants_everything_or_any_secret(helm: Path, arguments: list[str]) -> None:
    """A controller that can be read out through its token must not be a way to the cluster's Secrets."""
    for rule in rules(render(helm, *arguments)):
        words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        if rule.get("resourceNames") == ["prom", "other"]:
            # What the administrator names for MetricProviders, and nothing else.
            assert (rule["resources"], rule["verbs"]) == (["secrets"], ["get"])
            words.remove("secrets")
        assert not words & {"*", "secrets", "escalate", "bind", "impersonate"}, rule


def test_metrics_of_analyses_open_only_what_is_named(helm: Path) -> None:
    """Credentials and Jobs need a value of the chart each; without one the controller has neither a right nor a flag for them."""
    closed, opened = (render(helm, *VARIANTS[each]) for each in ("defaults", "metrics of analyses"))
    flags = {each: container(documents)["args"] for each, documents in (("closed", closed), ("opened", opened))}

    assert [rule for rule in rules(closed) if {"secrets", "jobs"} & {*rule["resources"]}] == []
    adapted = {
        group: (rule["resources"], rule["verbs"])
        for rule in rules(opened)
        for group in rule["apiGroups"]
        if group.endswith(".metrics.k8s.io")
    }
    assert adapted == {
        "custom.metrics.k8s.io": (["pods/http_requests", "ingresses.networking.k8s.io/hits"], ["get"]),
        "external.metrics.k8s.io": (["s0-queue"], ["get", "list"]),
    }
    assert not any("custom.metrics" in str(rule) or "external.metrics" in str(rule) for rule in rules(closed))
    assert [rule["verbs"] for rule in rules(opened) if "jobs" in rule["resources"]] == [["get", "create", "delete"]]
    about = ("metrics-", "tenant", "job")
    assert [each for each in flags["closed"] if any(word in each for word in about)] == ["--metrics-address=:8080"]
    more = {"--job-metrics", "--tenant-metrics=*.example", "--tenant-metrics-http"}
    assert more | {"--metrics-ca=/etc/rollouts/metrics-ca/ca.crt"} <= set(flags["opened"])
    assert _settings(flags["opened"][1:]).metrics.jobs


def test_templates_of_analyses_come_where_the_controller_may_read_them(helm: Path) -> None:
    """With the chart's labels; an administrator of a few namespaces could not create them.

    Where their kind comes with the same install, the controller gets them with Helm's notes, and the right to create them.
    """
    served = ("--api-versions", "rollouts.dev/v1alpha1/ClusterAnalysisTemplate")
    variants = {name: render(helm, *VARIANTS[name], *served) for name in ("defaults", "some namespaces")}
    variants["switched off"] = render(helm, "--set", "analysis.templates.enabled=false")
    found = {
        name: {one["metadata"]["name"]: one for one in documents if one["kind"] == "ClusterAnalysisTemplate"}
        for name, documents in variants.items()
    }

    assert found == {"defaults": found["defaults"], "some namespaces": {}, "switched off": {}}
    assert rules(variants["defaults"]) == rules(variants["switched off"])
    assert set(found["defaults"]) == set(TEMPLATES)
    first = render(helm)
    given = {file: json.loads(text) for file, text in only(first, "ConfigMap")["data"].items()}
    for one in given.values():
        del (
            one["metadata"]["annotations"]["meta.helm.sh/release-name"],
            one["metadata"]["annotations"]["meta.helm.sh/release-namespace"],
        )
    assert given == {f"{name}.json": one for name, one in found["defaults"].items()}
    assert granted(first) - granted(variants["defaults"]) == {("rollouts.dev", "clusteranalysistemplates", "create")}
    for name, one in found["defaults"].items():
        assert one["metadata"].pop("labels")["app.kubernetes.io/managed-by"] == "Helm"
        assert one == TEMPLATES[name]


def test_the_controller_may_do_exactly_what_the_table_says(
    control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str
) -> None:
    """The authorizer's own list is compared, so that a right from another binding would show too."""
    assert _granted(control_plane, controller_kubeconfig, namespace) == EVERYWHERE
    assert _granted(control_plane, controller_kubeconfig, RELEASE_NAMESPACE) == IN_ITS_OWN_NAMESPACE
    assert _granted(control_plane, controller_kubeconfig, "kube-system") == EVERYWHERE | ABOUT_PROXIES


@pytest.mark.parametrize("router", sorted(registry()))
def test_each_router_may_change_its_own_routes_and_no_other(helm: Path, router: str) -> None:
    """A codec that learns of a kind, and a chart that does not, would end in a Rollout that is forbidden to go on."""
    module = importlib.import_module(type(registry()[router]).__module__)
    versions = module.KINDS.values() if isinstance(module.KINDS, Mapping) else (module.KINDS,)
    kinds = {(kind.group, kind.plural) for each in versions for kind in each}

    with_it = granted(render(helm, "--set", f"routers={{{router}}}"))
    without = granted(render(helm, "--set-json", "routers=[]"))

    assert {(group, plural) for group, plural, verb in with_it - without if verb == "patch"} == kinds
    assert with_it >= {(*kind, verb) for kind in kinds for verb in ("get", "list", "watch")}


def test_what_a_traffic_provider_steers_may_be_changed_and_created_in_dry_runs(helm: Path) -> None:
    """To create is more than the work needs, and RBAC knows no dry run: so in the release's own namespace alone."""
    documents = render(helm, *VARIANTS["a declared route"])
    given = {
        (one["kind"], one["metadata"].get("namespace"), verb)
        for one in documents
        for group, _, verb in granted([one])
        if group == "apisix.apache.org"
    }

    assert given == {
        *(("ClusterRole", None, verb) for verb in ("get", "list", "watch", "patch")),
        ("Role", RELEASE_NAMESPACE, "create"),
    }


def test_routes_are_created_only_where_the_administrator_lets_rollouts_bring_them(helm: Path) -> None:
    """Whoever may write a Rollout could else take a host name through the controller."""
    creates = [
        {
            group
            for group, _, verb in granted(render(helm, "--set-json", 'routers=["gatewayAPI","traefik"]', *more))
            if verb == "create"
        }
        for more in ([], VARIANTS["routes of our own"])
    ]

    assert creates[1] - creates[0] == {"gateway.networking.k8s.io", "traefik.io", "a.io"}


@pytest.mark.parametrize(
    "arguments",
    [[], VARIANTS["every router"], ["--set", "workloads={statefulsets}"], ["--set", "workloads={daemonsets}"]],
    ids=["defaults", "every router", "StatefulSets", "DaemonSets"],
)
def test_the_doctor_asks_about_rights_that_the_chart_gives(helm: Path, arguments: list[str]) -> None:
    """Otherwise it would find a fault that no value of the chart repairs; and of the rights that matter most it misses none."""
    documents = render(helm, *arguments)
    given = granted(documents)

    asked = {(right.group, right.resource, right.verb) for right in needed(Installed(only(documents, "Deployment")))}

    assert asked <= given
    assert {each for each in given if each[1] == "pods" and each[2] in {"watch", "delete"}} <= asked
    writes = {each for each in given if each[2] in {"patch", "create"} and each[0] in {"rollouts.dev", "apps", ""}}
    left_out = {("rollouts.dev", f"{each}/status", "patch") for each in ("trafficproviders", "metricproviders")}
    left_out |= {("rollouts.dev", "clusteranalysistemplates", "create")}
    users = {
        (*each, verb)
        for each in (("rollouts.dev", kind) for kind in ("rollouts", "analysistemplates", "experiments"))
        for verb in ("create", "patch")
    }
    assert writes - asked <= left_out | users | {("", "pods", "patch"), ("rollouts.dev", "rollouts/scale", "patch")}


def test_of_leases_it_may_read_and_change_its_own_alone(helm: Path) -> None:
    """In the same namespace other controllers have theirs: to change one of those is to make two of them lead."""
    leases = [rule for rule in rules(render(helm)) if "leases" in rule["resources"]]
    unnamed = {verb for rule in leases if not rule.get("resourceNames") for verb in rule["verbs"]}
    named = {verb for rule in leases if rule.get("resourceNames") == [DEFAULT_LEASE_NAME] for verb in rule["verbs"]}

    assert unnamed == {"create"}  # its path has no name
    assert named == {"get", "update"}


def test_pods_are_changed_only_where_the_administrator_lets_their_metadata_follow_their_role(helm: Path) -> None:
    """The labels of any pod decide which Services and NetworkPolicies it is behind; without canaryMetadata nobody needs that."""
    verbs = [
        {verb for _, resource, verb in granted(render(helm, *more)) if resource == "pods"}
        for more in ([], ["--set", "podMetadata=false"])
    ]

    assert verbs == [{"list", "patch"}, {"list"}]


def test_without_versions_of_configmaps_it_may_read_four_objects_of_kube_system(helm: Path) -> None:
    """By name: the ConfigMaps of kube-system hold more than proxy modes. A mode that is named by hand asks for nothing there."""
    off = ("--set", "configVersioning=false")
    found = rules(render(helm, *off))
    asked = [rule for rule in found if rule["resources"] != ["leases"]]
    by_name = {name for rule in asked for name in rule.get("resourceNames", [])}
    unnamed = [
        rule for rule in found if {"configmaps", "daemonsets"} & {*rule["resources"]} and "resourceNames" not in rule
    ]

    assert by_name == {"kube-proxy", "kube-proxy-config", "cilium-config"}
    assert unnamed == []
    declared = render(helm, *off, "--set", "proxyMode=nftables")
    assert {one["metadata"].get("namespace") for one in declared} <= {None, RELEASE_NAMESPACE}
    assert not any("nodes" in rule["resources"] for rule in rules(declared))


def test_with_named_namespaces_it_may_do_nothing_elsewhere(
    control_plane: ControlPlane, helm: Path, namespace: str
) -> None:
    """In a cluster of many tenants each controller is confined by RBAC, not by its own good will."""
    release = f"confined-{secrets.token_hex(3)}"
    documents = render(
        helm,
        *("--set", f"watchNamespaces={{{namespace}}},rbac.aggregateToUserRoles=false"),
        *("--set", f"serviceAccount.name={release}"),
    )
    rbac = [one for one in documents if one["kind"] in {"Role", "RoleBinding", "ServiceAccount"}]
    with control_plane.fresh_namespace() as own:
        moved = json.loads(json.dumps(rbac).replace(f'"{RELEASE_NAMESPACE}"', f'"{own}"'))
        control_plane.apply(*moved)
        kubeconfig = control_plane.service_account_kubeconfig(own, release)

        here = _granted(control_plane, kubeconfig, namespace)
        elsewhere = _granted(control_plane, kubeconfig, "default")

    assert here == WHERE_IT_WORKS
    assert elsewhere == {}
    assert "ClusterRole" not in {one["kind"] for one in documents}


def test_no_role_of_users_writes_a_status(helm: Path) -> None:
    """Whoever writes the status of an AnalysisRun forges a verdict, and an update is promoted without evidence."""
    roles = [one for one in render(helm) if one["kind"] == "ClusterRole"]
    users = [one for one in roles if any("aggregate-to" in label for label in one["metadata"]["labels"])]

    assert {one["metadata"]["name"] for one in users} == {"rollouts-view", "rollouts-edit"}
    for rule in rules(users):
        of_status = [each for each in rule["resources"] if each.endswith("/status") or "*" in each]
        assert not of_status or set(rule["verbs"]) <= {"get", "list", "watch"}, rule


def test_the_deployment_runs_under_the_restricted_pod_security_standard(
    control_plane: ControlPlane, helm: Path, namespace: str
) -> None:
    """Clusters that enforce it must be able to run the controller without an exception."""
    control_plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    documents = render(helm)
    wanted = [one for one in documents if one["kind"] in {"Deployment", "ServiceAccount", "PodDisruptionBudget"}]
    control_plane.apply(*json.loads(json.dumps(wanted).replace(f'"{RELEASE_NAMESPACE}"', f'"{namespace}"')))

    control_plane.kubectl("rollout", "status", "deployment/rollouts", "--timeout=55s", "-n", namespace)

    pods = json.loads(control_plane.kubectl("get", "pods", "-o", "json", "-n", namespace).stdout)["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2


def test_a_fence_names_the_lease_that_a_flag_names(helm: Path) -> None:
    """Otherwise a controller with a Lease of another name could never lead."""
    flags = "extraArguments={--lease-name,web,--log-format,--lease-name=shop}"
    policies = [one for one in render(helm, "--set", flags) if one["kind"] == "ValidatingAdmissionPolicy"]
    (fence,) = [one for one in policies if one["metadata"]["name"] == f"rollouts.{RELEASE_NAMESPACE}.leases"]

    (told,) = [each["expression"] for each in fence["spec"]["validations"]]
    assert "object.metadata.name in ['rollouts-controller', 'web', 'shop']" in told


@pytest.mark.parametrize("arguments", VARIANTS.values(), ids=VARIANTS)
def test_each_kind_that_the_controller_may_write_has_a_fence(helm: Path, arguments: list[str]) -> None:
    """A new right of the chart without a fence would open more than the controller needs, without anybody noticing."""
    documents = render(helm, *arguments)
    fences = [one for one in documents if one["kind"] == "ValidatingAdmissionPolicy"]
    fenced = {
        (group, resource)
        for one in fences
        for rule in one["spec"]["matchConstraints"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    ours = [one for one in documents if "aggregate-to" not in json.dumps(one["metadata"].get("labels"))]
    writes = {"create", "update", "patch", "delete"}
    written = {(group, resource) for group, resource, verb in granted(ours) if verb in writes}

    if arguments != VARIANTS["everything off"]:
        assert written - fenced == {each for each in WITHOUT_A_FENCE if each in written}
    assert {one["spec"]["failurePolicy"] for one in fences} <= {"Fail"}


def test_the_controller_understands_the_flags_that_the_deployment_passes(helm: Path) -> None:
    """A chart and a program of one version that do not fit would crash-loop on the first install."""
    variants = (
        "watchNamespaces={shop}",
        "leaderElection=false,replicas=1",
        "dataPlanes[0]=edge/public=envoy:http://a:1,prometheusUrl=http://p:9090",
        "dataPlanes[0]=istio=prometheus:istio,settleTimes[0]=alb=120,dataPlaneCa.secret=ca",
        "fluxEvents=http://notification-controller.flux-system.svc/",
    )
    arguments = [word for values in variants for word in container(render(helm, "--set", values))["args"]]
    flags = {word.partition("=")[0] for word in arguments if word.startswith("--")}
    command = [sys.executable, "-m", "rollouts", "controller", "--help"]
    environment = {"COLUMNS": "250", "TERM": "dumb"}

    help_text = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    assert flags >= {"--namespace", "--leader-elect", "--no-leader-elect", "--metrics-address", "--health-address"}
    assert flags >= {"--data-plane", "--prometheus-url", "--data-plane-ca", "--settle-time"}
    assert [flag for flag in sorted(flags) if flag not in help_text] == []


def test_who_steers_an_alb_may_read_which_target_groups_aws_is_asked_about(helm: Path) -> None:
    """Nothing of it is changed; and the flag itself is one that the chart lets through."""
    asked = ("--set", "routers={alb}", "--set", "dataPlanes[0]=alb=aws:eu-west-1")
    documents = render(helm, *asked)
    found = [rule for rule in rules(documents) if "elbv2.k8s.aws" in rule["apiGroups"]]

    assert [(rule["resources"], rule["verbs"]) for rule in found] == [(["targetgroupbindings"], ["get", "list"])]
    assert "--data-plane=alb=aws:eu-west-1" in container(documents)["args"]


def test_a_misspelt_value_is_refused(helm: Path) -> None:
    """Helm ignores unknown values without a schema; a misspelt `watchNamespaces` would then mean the whole cluster."""
    with pytest.raises(AssertionError, match="watchNamespace"):
        render(helm, "--set", "watchNamespace={shop}")


def test_prometheus_finds_the_metrics_service(helm: Path) -> None:
    """The ServiceMonitor selects the metrics Service by its labels, and that Service selects the controller's pods."""
    documents = {one["kind"]: one for one in render(helm, "--set", "metrics.serviceMonitor.enabled=true")}
    monitor, service, deployment = documents["ServiceMonitor"], documents["Service"], documents["Deployment"]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()

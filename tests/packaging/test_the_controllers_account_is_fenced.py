"""Promise: who has taken over the controller's account can write with it only what the controller writes.

Here the account has every right in a namespace, so that nothing but the chart's fences (`templates/fences.yaml`) refuses. That
they refuse nothing that the controller needs is what all end-to-end tests show: they run as this account, and one refusal fails
the run. For the routes of all routers tests/traffic/test_real_api_servers_take_it.py shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.objects import ANALYSIS_RUN, ANALYSIS_TEMPLATE, EXPERIMENT, ROLLOUT, Kind
from rollouts.sim.network.gateway_types import HTTP_ROUTE, gateway_crds
from tests import build
from tests.lab.chart import CONTROLLER_USER, FENCED, RBAC_GROUP, as_user, every_right, install_crds, wait_until_fenced
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

Object = dict[str, Any]

CORE, APPS, ROLLOUTS = "/api/v1", "/apis/apps/v1", "/apis/rollouts.dev/v1alpha1"
ROUTES, LEASES = "/apis/gateway.networking.k8s.io/v1", "/apis/coordination.k8s.io/v1"
TEMPLATE: Object = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "web:1"}]}}
MARKS = {"rollouts.dev/name": "web", "rollouts.dev/revision": "abc"}
OWNED = {"kind": "Rollout", "apiVersion": "rollouts.dev/v1alpha1", "name": "web", "uid": "u", "controller": True}


def replica_set(*, labels: Mapping[str, str] = MARKS, owners: tuple[Object, ...] = (), image: str = "web:1") -> Object:
    """One without pods."""
    template = {**TEMPLATE, "spec": {"containers": [{"name": "app", "image": image}]}}
    return {
        # The owners do not exist, and without a finalizer the garbage collector would delete it.
        "metadata": {"labels": dict(labels), "ownerReferences": list(owners), "finalizers": ["example.com/stays"]},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def service(**spec: Any) -> Object:
    """One that selects pods of `app: web`."""
    return {
        "metadata": {"labels": {"team": "web"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec},
    }


def of_kind(kind: Kind, spec: Object, metadata: Object | None = None) -> Object:
    """One without a name."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata or {}, "spec": spec}


A_TEMPLATE = of_kind(ANALYSIS_TEMPLATE, {"metrics": []})
RULES = [build.http_rule(build.backend("web"))]
ROUTE = of_kind(HTTP_ROUTE, {"parentRefs": [{"name": "public"}], "hostnames": ["shop.example"], "rules": RULES})
WORKLOAD: Object = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
PAUSED = {"annotations": {"rollouts.dev/pause": "true"}}
A_ROLLOUT = of_kind(ROLLOUT, {**WORKLOAD, "strategy": {"canary": {"steps": [{"setWeight": 50}]}}}, PAUSED)
COPY_LABELS = {"rollouts.dev/config-copy": "true", "rollouts.dev/name": "web"}
A_COPY: Object = {"metadata": {"labels": COPY_LABELS}}
RUN = of_kind(ANALYSIS_RUN, {"metrics": [{"name": "pods", "interval": "10m", "provider": {"kubernetes": {}}}]})
A_POD: Object = {"metadata": {"labels": MARKS}, "spec": TEMPLATE["spec"]}
EVIL: Object = {"spec": {"containers": [{"name": "app", "image": "evil"}]}}
EVIL_TEMPLATE: Object = {"spec": {"template": EVIL}}


@dataclass(frozen=True)
class Forged:
    """A write that the controller never makes."""

    group: str
    path: str  # of the collection, after the group's version
    there: Object | None = None  # what a user has put there before; None for nothing
    patch: Object | None = None  # merge patch of it; None to delete it, or to create `made`
    made: Object | None = None


def _changed(group: str, path: str, there: Object, patch: Object) -> Forged:
    return Forged(group, path, there=there, patch=patch)


OF_A_POD = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}
OF_A_DEPLOYMENT = {**OWNED, "kind": "Deployment", "apiVersion": "apps/v1"}
TOKEN: Object = {
    "immutable": True,
    "type": "kubernetes.io/service-account-token",
    "metadata": {"labels": COPY_LABELS, "annotations": {"kubernetes.io/service-account.name": "default"}},
}
A_RIGHT = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
GROUP = {"name": "a", "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
AN_EXPERIMENT = of_kind(EXPERIMENT, {"templates": [GROUP]})


def _served(changes: Object) -> Object:
    """A Service that an Experiment controls."""
    owned = {**OWNED, "kind": EXPERIMENT.kind}
    spec = {"selector": {"rollouts.dev/revision": "abc"}, "ports": [{"port": 80}], **changes}
    return {"metadata": {"ownerReferences": [owned]}, "spec": spec}


FORGED = {
    "a ConfigMap that is no copy": Forged(CORE, "configmaps", made={"immutable": True, "data": {"a": "b"}}),
    "a copy that can be changed": Forged(CORE, "configmaps", made=A_COPY),
    "a foreign ConfigMap's data": _changed(CORE, "configmaps", {"data": {"a": "b"}}, {"data": {"a": "c"}}),
    "a foreign ConfigMap's label": _changed(CORE, "configmaps", {}, {"metadata": {"labels": COPY_LABELS}}),
    "a foreign ConfigMap deleted": Forged(CORE, "configmaps", there={"data": {"a": "b"}}),
    "a copy's owner": _changed(CORE, "configmaps", A_COPY, {"metadata": {"ownerReferences": [OF_A_POD]}}),
    "a Secret": Forged(CORE, "secrets", made={"immutable": True, "stringData": {"a": "b"}}),
    "a token": Forged(CORE, "secrets", made=TOKEN),
    "a foreign Secret": _changed(CORE, "secrets", {"stringData": {"a": "b"}}, {"stringData": {"a": "c"}}),
    "a foreign Secret deleted": Forged(CORE, "secrets", there={"stringData": {"a": "b"}}),
    "a Service": Forged(CORE, "services", made=service()),
    "a Service's ports": _changed(CORE, "services", service(), {"spec": {"ports": [{"port": 80, "targetPort": 81}]}}),
    "a Service's selector": _changed(CORE, "services", service(), {"spec": {"selector": {"app": "evil"}}}),
    "a Service's other key": _changed(CORE, "services", service(), {"spec": {"selector": {"tier": "a"}}}),
    "a Service's addresses": _changed(CORE, "services", service(), {"spec": {"externalIPs": ["192.0.2.1"]}}),
    "a Service's policy": _changed(CORE, "services", service(), {"spec": {"publishNotReadyAddresses": True}}),
    "a Service's label": _changed(CORE, "services", service(), {"metadata": {"labels": {"team": "evil"}}}),
    "a Service's annotation": _changed(CORE, "services", service(), {"metadata": {"annotations": {"a.b/c": "d"}}}),
    "a Service deleted": Forged(CORE, "services", there=service()),
    "a route": Forged(ROUTES, "httproutes", made=ROUTE),
    "a route's host": _changed(ROUTES, "httproutes", ROUTE, {"spec": {"hostnames": ["bank.example"]}}),
    "a route's gateway": _changed(ROUTES, "httproutes", ROUTE, {"spec": {"parentRefs": [{"name": "other"}]}}),
    "a route's annotation": _changed(ROUTES, "httproutes", ROUTE, {"metadata": {"annotations": {"a.b/c": "d"}}}),
    "a route's owner": _changed(ROUTES, "httproutes", ROUTE, {"metadata": {"ownerReferences": [OWNED]}}),
    "a route deleted": Forged(ROUTES, "httproutes", there=ROUTE),
    "a Lease of another name": Forged(LEASES, "leases", made={"spec": {"holderIdentity": "me"}}),
    "another's Lease": _changed(LEASES, "leases", {}, {"spec": {"holderIdentity": "me"}}),
    "a ReplicaSet of nobody": Forged(APPS, "replicasets", made=replica_set()),
    "a foreign ReplicaSet's size": _changed(APPS, "replicasets", replica_set(labels={}), {"spec": {"replicas": 1}}),
    "a ReplicaSet of a Deployment": _changed(
        APPS, "replicasets", replica_set(owners=(OF_A_DEPLOYMENT,)), {"spec": {"replicas": 1}}
    ),
    "a foreign ReplicaSet taken": _changed(
        APPS, "replicasets", replica_set(labels={}), {"metadata": {"labels": MARKS, "ownerReferences": [OWNED]}}
    ),
    "a foreign ReplicaSet deleted": Forged(APPS, "replicasets", there=replica_set(labels={})),
    "the image of a ReplicaSet": _changed(APPS, "replicasets", replica_set(owners=(OWNED,)), EVIL_TEMPLATE),
    "a Deployment": Forged(APPS, "deployments", made={"spec": WORKLOAD}),
    "a Deployment's image": _changed(APPS, "deployments", {"spec": WORKLOAD}, EVIL_TEMPLATE),
    "a pod": Forged(CORE, "pods", made=A_POD),
    "a pod's image": _changed(CORE, "pods", A_POD, EVIL),
    "a foreign pod's label": _changed(CORE, "pods", {"spec": TEMPLATE["spec"]}, {"metadata": {"labels": {"a": "b"}}}),
    "a pod's revision": _changed(CORE, "pods", A_POD, {"metadata": {"labels": {"rollouts.dev/revision": "evil"}}}),
    "a pod deleted": Forged(CORE, "pods", there=A_POD),
    "a Rollout": Forged(ROLLOUTS, "rollouts", made=A_ROLLOUT),
    "a Rollout's template": _changed(ROLLOUTS, "rollouts", A_ROLLOUT, EVIL_TEMPLATE),
    "a command": _changed(
        ROLLOUTS, "rollouts", A_ROLLOUT, {"metadata": {"annotations": {"rollouts.dev/promote": "true"}}}
    ),
    "a Rollout's label": _changed(ROLLOUTS, "rollouts", A_ROLLOUT, {"metadata": {"labels": {"a": "b"}}}),
    "a Rollout deleted": Forged(ROLLOUTS, "rollouts", there=A_ROLLOUT),
    "an AnalysisRun of nobody": Forged(ROLLOUTS, "analysisruns", made=RUN),
    "a run of a user ended": _changed(ROLLOUTS, "analysisruns", RUN, {"spec": {"terminate": True}}),
    "a run of a user deleted": Forged(ROLLOUTS, "analysisruns", there=RUN),
    "a template of analyses": Forged(ROLLOUTS, "analysistemplates", made=A_TEMPLATE),
    "an Experiment": Forged(ROLLOUTS, "experiments", made=AN_EXPERIMENT),
    "an Experiment ended": _changed(ROLLOUTS, "experiments", AN_EXPERIMENT, {"spec": {"terminate": True}}),
    "an Experiment's pods": _changed(
        ROLLOUTS, "experiments", AN_EXPERIMENT, {"metadata": {"annotations": {"rollouts.dev/keep-pods": "true"}}}
    ),
    "an Experiment's Service for all": Forged(CORE, "services", made=_served({"type": "NodePort"})),
    "an Experiment's Service of others": Forged(CORE, "services", made=_served({"selector": {"app": "web"}})),
    "a right": Forged(f"/apis/{RBAC_GROUP}/v1", "roles", made={"rules": [A_RIGHT]}),
    "a token of an account": Forged(
        CORE, "serviceaccounts/default/token", made={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    ),
}


@pytest.fixture(scope="module")
def forger(control_plane: ControlPlane, controller_kubeconfig: Path) -> Iterator[tuple[httpx.Client, str]]:
    """Writes as the controller's account in a namespace in which it has every right, so that only fences are left."""
    install_crds(control_plane, *gateway_crds())
    with control_plane.fresh_namespace(stays=True) as namespace, as_user(control_plane, CONTROLLER_USER) as client:
        control_plane.apply(every_right(CONTROLLER_USER, namespace))
        wait_until_fenced(client, namespace)
        yield client, namespace


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_write_is_refused(control_plane: ControlPlane, forger: tuple[httpx.Client, str], name: str) -> None:
    """The same write is taken from an administrator: it is not refused for another reason."""
    forged, (account, namespace) = FORGED[name], forger
    home = f"{forged.group}/namespaces/{namespace}/{forged.path}"
    called = re.sub("[^a-z]+", "-", name.lower())
    if forged.there is not None:
        control_plane.api.post(home, json=_named(forged.there, called)).raise_for_status()

    answers = [_sent(client, home, forged, called) for client in (account, control_plane.api)]

    assert (answers[0].status_code, FENCED in answers[0].text) == (403, True), answers[0].text
    assert answers[1].is_success, answers[1].text


def _named(one: Object, name: str) -> Object:
    return {**one, "metadata": {"name": name, **one.get("metadata", {})}}


def _sent(client: httpx.Client, home: str, forged: Forged, name: str) -> httpx.Response:
    query = {"dryRun": "All"}
    if forged.made is not None:
        made = forged.made if "/" in forged.path else _named(forged.made, name)  # a subresource's object has none
        return client.post(home, params=query, json=made)
    if forged.patch is not None:
        merge = "merge-patch" if "kind" in (forged.there or {}) else "strategic-merge-patch"  # of a custom resource
        content = {"Content-Type": f"application/{merge}+json"}
        return client.patch(f"{home}/{name}", params=query, json=forged.patch, headers=content)
    return client.delete(f"{home}/{name}", params=query)

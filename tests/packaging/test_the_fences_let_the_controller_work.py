"""Promise: a fence refuses no write that the controller makes, on ordinary days and on worse ones.

The builders of `manifests/` make the writes. They are sent as an account with every value of the chart, behind its fences, where
it has every right: what is refused is refused by a fence. Routes are in tests/traffic/test_real_api_servers_take_it.py. The
account of end-to-end tests has fences, too: adoption, evictions, routes of ours and spent commands are in tests/e2e.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollouts.api.spec.experiment import parse_experiment
from rollouts.core.analysis.source import JobMetric
from rollouts.core.experiment.model import ExperimentStatus, ExperimentView, MakeRun, SetReplicaSet
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, RunDraft
from rollouts.core.model.config import ConfigKind, ConfigUse, ConfigVersioning
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import RevertTemplate, StepDaemonSet, StepStatefulSet
from rollouts.core.model.intents import (
    CopyOwner,
    CreateAnalysisRun,
    CreateReplicaSet,
    LetPodsGo,
    MarkWorkload,
    PatchReplicaSet,
    ReleaseService,
    ReleaseWorkload,
    SwitchService,
    TerminateAnalysisRun,
)
from rollouts.core.model.nodes import HeldNodes, OwnType
from rollouts.core.model.rollout import PodMetadata, Rollout
from rollouts.core.model.status import AbortNote
from rollouts.core.model.workload import NO_POD, PartitionFields, PartitionHeld
from rollouts.core.model.workload_ref import WorkloadKind
from rollouts.manifests.adoption import adoption_patch, release_patch
from rollouts.manifests.analysis_job import MeasuringJob, job_manifest
from rollouts.manifests.analysis_run import analysis_run, let_go_patch, termination_patch
from rollouts.manifests.config_copy import config_copy, config_copy_probe, config_key
from rollouts.manifests.experiment import experiment_replica_set, experiment_run, experiment_service, pods_patch
from rollouts.manifests.in_place import disowned, hold_question
from rollouts.manifests.named_workload import mark_workload, release_workload
from rollouts.manifests.nodes import daemon_set_patch, revert_patch
from rollouts.manifests.ownership import FIELD_MANAGER, controller_reference, owner_reference
from rollouts.manifests.partition import stateful_set_patch
from rollouts.manifests.service import mark_service, release_service, switch_service
from rollouts.manifests.workload import replica_set, replica_set_patch
from rollouts.objects import (
    ANALYSIS_RUN,
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    EXPERIMENT,
    JOB,
    POD,
    REPLICA_SET,
    ROLLOUT,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
)
from rollouts.sim.network.gateway_types import gateway_crds
from tests import build
from tests.behaviour import reading
from tests.lab.chart import (
    FENCED,
    RELEASE_NAMESPACE,
    another_account,
    as_user,
    every_right,
    install_crds,
    wait_until_fenced,
    wait_until_held,
)
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

ACCOUNT = "works"
WORKLOADS = "{{deployments,statefulsets,daemonsets,replicasets,podtemplates}}"
VALUES = (
    f"revertTemplates=true,analysis.jobs.enabled=true,ownRoutes=true,workloads={WORKLOADS},watchNamespaces={{{{{{}}}}}}"
)
"""Only in its own namespace: the policy for authors of Jobs asks everybody but this account, controllers of tests too."""
TEMPLATE = build.pod_template("web", image="web:1")
SPEC = build.rollout({"canary": {}}, replicas=0)["spec"]
FLAGS = ConfigUse(kind=ConfigKind.CONFIG_MAP, source="flags", content="h", copy="flags-h")
ROLE = PodMetadata(labels={"role": "canary"}, annotations={"why": "new"})
STAYS = "example.com/stays"
"""A finalizer: controllers of the control plane, too, delete objects, such as pods that a ReplicaSet has too many of."""


@dataclass(frozen=True)
class Bench:
    """A namespace, the account that works in it, and the Rollout whose objects it writes: else they were garbage to collect."""

    plane: ControlPlane
    account: httpx.Client
    namespace: str
    rollout: Rollout

    def there(self, kind: Kind, manifest: Manifest, *, name: str = "") -> Manifest:
        """An object that a user, or an earlier pass, has made; what the API server has of it."""
        made = {**manifest, "apiVersion": kind.api_version, "kind": kind.kind}
        made["metadata"] = {**manifest.get("metadata", {}), "finalizers": [STAYS]} | ({"name": name} if name else {})
        answer = self.plane.api.post(kind.path(self.namespace), json=made)
        assert answer.is_success, answer.text
        found: Manifest = answer.json()
        return found

    def creates(self, kind: Kind, manifest: Manifest, **query: str) -> Manifest:
        answer = self.account.post(kind.path(self.namespace), json=manifest, params=query)
        assert answer.status_code == httpx.codes.CREATED, answer.text
        found: Manifest = answer.json()
        return found

    def patches(self, kind: Kind, name: str, body: Any) -> Manifest:
        """The account changes an object, by JSON Patch if the body is a list."""
        form = "json-patch" if isinstance(body, list) else "merge-patch"
        content = {"Content-Type": f"application/{form}+json"}
        path, manager = kind.path(self.namespace, name), {"fieldManager": FIELD_MANAGER}
        answer = self.account.patch(path, content=json.dumps(body), headers=content, params=manager)
        assert answer.is_success, answer.text
        found: Manifest = answer.json()
        return found

    def deletes(self, kind: Kind, name: str) -> None:
        answer = self.account.delete(kind.path(self.namespace, name))
        assert answer.is_success, answer.text


@pytest.fixture(scope="module")
def bench(control_plane: ControlPlane, controller_kubeconfig: Path) -> Iterator[Bench]:
    """The account has its fences before it begins, and workloads are held."""
    install_crds(control_plane, *gateway_crds())
    user = f"system:serviceaccount:{RELEASE_NAMESPACE}:{ACCOUNT}"
    with control_plane.fresh_namespace(stays=True) as namespace, as_user(control_plane, user) as account:
        another_account(control_plane, ACCOUNT, "--set", VALUES.format(namespace), holds=True)
        control_plane.apply(every_right(user, namespace))
        wait_until_fenced(account, namespace)
        wait_until_held(control_plane, namespace, DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
        web = build.manifest(ROLLOUT, "web", spec=SPEC)
        made = control_plane.api.post(ROLLOUT.path(namespace), json=web).raise_for_status().json()
        yield Bench(control_plane, account, namespace, reading.rollout(made))


def test_a_dry_run_asks_what_holds_a_deployment(bench: Bench) -> None:
    """Another template in a dry run, and nothing else of a template: neither another one, nor the same one to be stored."""
    marks = {
        "labels": {"rollouts.dev/managed": "true", "rollouts.dev/hold": "true"},
        "annotations": {"rollouts.dev/managed-by": "web"},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    made = bench.there(DEPLOYMENT, {"metadata": {"name": "asked", **marks}, "spec": spec})
    path, question = (
        DEPLOYMENT.path(bench.namespace, "asked"),
        hold_question(WorkloadKind.DEPLOYMENT, made["metadata"]["uid"]),
    )
    content, dry = {"Content-Type": "application/merge-patch+json"}, {"dryRun": "All"}

    answer = bench.account.patch(path, json=question, headers=content, params=dry)
    stored = bench.account.patch(path, json=question, headers=content)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "evil"}]}}}}
    other = bench.account.patch(path, json=image, headers=content, params=dry)

    assert answer.is_success, answer.text
    assert answer.json()["spec"]["paused"]
    assert [FENCED in each.text for each in (stored, other)] == [True, True]


def test_replica_sets_are_made_changed_and_deleted(bench: Bench) -> None:
    """With everything that a patch may say."""
    create = CreateReplicaSet(revision="abc", number=3, replicas=0, pod_metadata=PodMetadata())
    made = bench.creates(REPLICA_SET, replica_set(bench.rollout, create))["metadata"]
    whole = PatchReplicaSet(
        name=made["name"],
        uid=made["uid"],
        revision="abc",
        replicas=0,
        restart_surge=1,
        abort_note=AbortNote("abc", 0, 1.5, 2.5, "alice"),
        min_ready_s=5,
        number=4,
        pod_metadata=ROLE,
        replaced_metadata=PodMetadata(labels={"role": "stable"}),
        pods_carry_metadata=False,
        config=(FLAGS,),
    )

    bench.patches(REPLICA_SET, made["name"], replica_set_patch(whole))
    bench.deletes(REPLICA_SET, made["name"])


@pytest.mark.parametrize("owner", [None, {"apiVersion": "apps.example/v1", "kind": "App", "name": "a", "uid": "u-2"}])
def test_a_copy_of_a_config_map_is_made_adopted_released_and_deleted(bench: Bench, owner: Manifest | None) -> None:
    """`retain` makes it without an owner; a tool may have put one of its own beside."""
    keeping = replace(bench.rollout, spec=replace(bench.rollout.spec, config_versioning=ConfigVersioning(retain=True)))
    use = replace(FLAGS, copy="flags-owned" if owner else "flags-free")
    made = bench.creates(CONFIG_MAP, config_copy(keeping, use, data={"a": "b"}, binary_data={}))["metadata"]
    if owner is not None:
        path = CONFIG_MAP.path(bench.namespace, use.copy)
        theirs = {"metadata": {"ownerReferences": [owner], "finalizers": [STAYS]}}
        merge = {"Content-Type": "application/merge-patch+json"}
        patched = bench.plane.api.patch(path, content=json.dumps(theirs), headers=merge).raise_for_status()
        made = patched.json()["metadata"]
    version = made["resourceVersion"]
    adopt = adoption_patch(bench.rollout, uid=made["uid"], resource_version=version, has_owners=owner is not None)
    adopted = bench.patches(CONFIG_MAP, use.copy, adopt)["metadata"]
    release = release_patch(
        bench.rollout, uid=made["uid"], resource_version=adopted["resourceVersion"], owner_index=int(owner is not None)
    )

    bench.patches(CONFIG_MAP, use.copy, release)
    bench.deletes(CONFIG_MAP, use.copy)


def test_secrets_are_copied_and_asked_for(bench: Bench) -> None:
    """The copy goes with its ReplicaSet; the key of the namespace with nobody; and a dry run asks about a lost copy."""
    use = ConfigUse(kind=ConfigKind.SECRET, source="db", content="h", copy="db-h")
    owner = CopyOwner("web-abc", "u-3")
    copy = config_copy(bench.rollout, use, data={}, binary_data={"a": "Yg=="}, secret_type="Opaque", owner=owner)

    bench.creates(SECRET, copy)
    bench.creates(SECRET, config_key(bench.namespace, b"0" * 32))
    bench.creates(SECRET, config_copy_probe(bench.namespace, "lost", rollout="web"), dryRun="All")


@pytest.mark.parametrize("label", ["rollouts.dev/revision", "pod-template-hash"])
def test_a_service_is_switched_marked_and_given_back(bench: Bench, label: str) -> None:
    """Also one that has no label, no annotation and no selector of its own."""
    of = label.replace("/", "-").replace(".", "-")
    for name, spec in (
        (f"web-{of}", {"selector": {"app": "web"}, "ports": [{"port": 80}]}),
        (f"bare-{of}", {"ports": [{"port": 80}]}),
    ):
        seen = bench.there(SERVICE, {"spec": spec}, name=name)["metadata"]
        uid, version = seen["uid"], seen["resourceVersion"]
        switch = SwitchService(name=name, uid=uid, resource_version=version, revision="abc")
        version = bench.patches(SERVICE, name, switch_service(switch, rollout="web", label=label))["metadata"][
            "resourceVersion"
        ]
        mark = mark_service(uid=uid, resource_version=version, rollout="web")
        version = bench.patches(SERVICE, name, mark)["metadata"]["resourceVersion"]
        bench.patches(SERVICE, name, release_service(ReleaseService(name=name, uid=uid, resource_version=version)))


@pytest.mark.parametrize("kind", WorkloadKind)
def test_a_workload_is_marked_and_released(bench: Bench, kind: WorkloadKind) -> None:
    """Whatever else it has of labels, of annotations and of a spec stays its user's."""
    template = build.pod_template("web", image="web:1")
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    if kind is not WorkloadKind.DAEMON_SET:
        spec["replicas"] = 0
    of_kind = {"template": template} if kind is WorkloadKind.POD_TEMPLATE else {"spec": spec}
    name = f"of-{kind.lower()}"
    uid = bench.there(kind.resource, of_kind, name=name)["metadata"]["uid"]
    mark = mark_workload(MarkWorkload(kind=kind, name=name, uid=uid, resource_version=""), rollout="web")
    release = release_workload(ReleaseWorkload(kind=kind, name=name, uid=uid, resource_version=""))

    for body in (mark, release):
        del body["metadata"]["resourceVersion"]  # its own controller writes status meanwhile
        bench.patches(kind.resource, name, body)


def _observed(bench: Bench, kind: Kind, name: str) -> dict[str, Any]:
    """The workload once its own controller has written its status, which is an entry of managed fields, too."""

    def is_observed(one: dict[str, Any]) -> bool:
        return bool(one.get("status", {}).get("observedGeneration") == one["metadata"]["generation"])

    return bench.plane.until(kind.path(bench.namespace), name, is_observed)


def test_a_stateful_set_is_stepped_and_its_pods_are_deleted(bench: Bench) -> None:
    """Its `updateStrategy`, with the note of what it was; and no pod that another kind controls."""
    marks = {"labels": {"rollouts.dev/managed": "true", "rollouts.dev/hold": "true"}}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "db"}},
        "template": build.pod_template("db", image="db:1"),
    }
    seen = bench.there(STATEFUL_SET, {"metadata": {"name": "db", **marks}, "spec": spec})["metadata"]
    own = PartitionFields(partition=0)
    held = PartitionHeld(number=1, replicas=0, partition=NO_POD, own=own)
    for fields, note in ((PartitionFields(partition=NO_POD), held), (own, None)):
        step = StepStatefulSet(name="db", uid=seen["uid"], resource_version="", fields=fields, held=note)
        body = stateful_set_patch(step)
        del body["metadata"]["resourceVersion"]  # its own controller writes status meanwhile
        bench.patches(STATEFUL_SET, "db", body)
    disowns = disowned(_observed(bench, STATEFUL_SET, "db"))
    assert disowns is not None
    bench.patches(STATEFUL_SET, "db", disowns)
    pod = build.pod_template("db", image="db:1")
    elsewhere = bench.there(CONFIG_MAP, {"data": {}}, name="db")["metadata"][
        "uid"
    ]  # an owner that exists, or the pod goes
    for owner, uid, name in ((STATEFUL_SET, seen["uid"], "db-7"), (CONFIG_MAP, elsewhere, "other")):
        owned = {**pod["metadata"], "ownerReferences": [controller_reference(owner, name="db", uid=uid)]}
        bench.there(POD, {"metadata": owned, "spec": pod["spec"]}, name=name)

    bench.deletes(POD, "db-7")
    refused = bench.account.delete(POD.path(bench.namespace, "other"))
    assert FENCED in refused.text


def test_a_daemon_set_is_stepped_and_gets_a_template_back(bench: Bench) -> None:
    """Its type, with the note of what it was; with `revertTemplates` also a template, and of one that is not held none."""
    marks = {"labels": {"rollouts.dev/managed": "true", "rollouts.dev/hold": "true"}}
    made = build.pod_template("agent", image="agent:1", nodeSelector={"on": "no-node"})
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": made}
    seen = bench.there(DAEMON_SET, {"metadata": {"name": "agent", **marks}, "spec": spec})["metadata"]
    bench.there(DAEMON_SET, {"metadata": {"name": "free"}, "spec": spec})
    note = HeldNodes(number=1, own=OwnType(on_delete=False))
    for on_delete, held in ((True, note), (False, None)):
        step = StepDaemonSet(name="agent", uid=seen["uid"], resource_version="", on_delete=on_delete, held=held)
        body = daemon_set_patch(step)
        del body["metadata"]["resourceVersion"]  # its own controller writes status meanwhile
        bench.patches(DAEMON_SET, "agent", body)
    disowns = disowned(_observed(bench, DAEMON_SET, "agent"))
    assert disowns is not None
    bench.patches(DAEMON_SET, "agent", disowns)
    limits = {"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}}
    other = bench.account.patch(
        DAEMON_SET.path(bench.namespace, "agent"), json=limits, headers={"Content-Type": "application/merge-patch+json"}
    )
    template = {"metadata": made["metadata"], "spec": {**made["spec"], "terminationGracePeriodSeconds": 7}}
    revert = RevertTemplate(name="agent", uid=seen["uid"], resource_version="", controller_revision="agent-a")
    operations = revert_patch(revert, {"data": {"spec": {"template": {"$patch": "replace", **template}}}})

    bench.patches(DAEMON_SET, "agent", operations[2:])
    content = {"Content-Type": "application/json-patch+json"}
    path = DAEMON_SET.path(bench.namespace, "free")
    refused = bench.account.patch(path, content=json.dumps(operations[2:]), headers=content)
    assert [FENCED in each.text for each in (refused, other)] == [True, True]


def test_a_run_is_ended_and_deleted_and_one_of_a_user_when_its_time_has_come(bench: Bench) -> None:
    """`ttlStrategy` of a run that somebody made by hand."""
    metrics = {"metrics": [{"name": "pods", "interval": "10m", "provider": {"kubernetes": {}}}]}
    owned = {"metadata": {"ownerReferences": [owner_reference(bench.rollout)]}, "spec": metrics}
    seen = bench.there(ANALYSIS_RUN, owned, name="owned")["metadata"]
    bench.there(ANALYSIS_RUN, {"spec": {**metrics, "ttlStrategy": {"secondsAfterCompletion": 1}}}, name="by-hand")

    bench.patches(ANALYSIS_RUN, "owned", termination_patch(TerminateAnalysisRun(name="owned", uid=seen["uid"])))
    bench.deletes(ANALYSIS_RUN, "owned")
    bench.deletes(ANALYSIS_RUN, "by-hand")


def test_an_experiment_gets_its_pods_its_service_and_its_run(bench: Bench) -> None:
    """Resized, ended and deleted, too."""
    wire = {
        "name": "blue",
        "selector": {"matchLabels": {"app": "web"}},
        "template": build.pod_template("web", image="web:1", container={"ports": [{"containerPort": 80}]}),
        "replicas": 0,
        "service": {},
    }
    made = bench.there(EXPERIMENT, {"metadata": {"name": "exp"}, "spec": {"templates": [wire], "duration": "1h"}})
    spec, uid = parse_experiment(made["spec"]), made["metadata"]["uid"]
    of = ExperimentView(
        name="exp", uid=uid, generation=1, created_at_s=0, now_s=0, spec=spec, status=ExperimentStatus()
    )
    metrics = {"metrics": [{"name": "pods", "interval": "10m", "provider": {"kubernetes": {}}}]}
    run = MakeRun(name="exp-run", draft=RunDraft(json.dumps(metrics).encode(), "", ""))

    pods = bench.creates(REPLICA_SET, experiment_replica_set(of, bench.namespace, spec.groups[0]))["metadata"]
    service = bench.creates(SERVICE, experiment_service(of, bench.namespace, spec.groups[0]))["metadata"]
    ended = bench.creates(ANALYSIS_RUN, experiment_run(of, bench.namespace, run))["metadata"]
    resize = SetReplicaSet(name=pods["name"], uid=pods["uid"], replicas=0, min_ready_s=3)
    bench.patches(REPLICA_SET, pods["name"], pods_patch(resize))
    bench.patches(ANALYSIS_RUN, "exp-run", termination_patch(TerminateAnalysisRun(name="exp-run", uid=ended["uid"])))
    bench.deletes(SERVICE, service["name"])


def test_an_experiment_of_a_step_is_made_ended_and_deleted(bench: Bench) -> None:
    """The Rollout owns it."""
    wire = {"name": "new", "replicas": 0, "selector": {"matchLabels": {"app": "web"}}}
    spec = {"templates": [{**wire, "template": build.pod_template("web", image="web:1")}], "duration": "1h"}
    intent = CreateAnalysisRun(
        name="of-step",
        gate=AnalysisGate(AnalysisKind.EXPERIMENT, 0),
        revision="b",
        attempt=0,
        draft=RunDraft(json.dumps(spec).encode(), "b", "a", keeps_pods=True),
    )

    made = bench.creates(EXPERIMENT, analysis_run(bench.rollout, intent))["metadata"]
    ends = TerminateAnalysisRun(name="of-step", uid=made["uid"], kind=EXPERIMENT)
    bench.patches(EXPERIMENT, "of-step", termination_patch(ends))
    lets_go = LetPodsGo(name="of-step", uid=made["uid"], until_s=1_800_000_000.0)
    bench.patches(EXPERIMENT, "of-step", let_go_patch(lets_go))
    bench.deletes(EXPERIMENT, "of-step")


def test_a_measurement_makes_its_job_and_deletes_it(bench: Bench) -> None:
    """Under the account of Jobs, and owned by its run."""
    metrics = {"metrics": [{"name": "smoke", "provider": {"job": {"spec": {"template": {"spec": TEMPLATE["spec"]}}}}}]}
    run = bench.there(ANALYSIS_RUN, {"spec": metrics}, name="run")["metadata"]
    job = MeasuringJob(namespace=bench.namespace, run="run", uid=run["uid"], metric="smoke", number=1,
                       service_account="rollouts-job-metrics")  # fmt: skip
    metric = JobMetric(spec={"template": {"spec": TEMPLATE["spec"]}}, metadata={"labels": {"team": "web"}})

    bench.creates(JOB, job_manifest(job, metric))
    bench.deletes(JOB, job.name)

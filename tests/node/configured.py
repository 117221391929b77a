"""A ConfigMap that is edited while clients use the pods that read it, in each of the ways in which a pod can read one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from tests.e2e.stage import REVISION, Stage
from tests.node.cutover import Seen, usual_rate
from tests.node.cutover_report import Case
from tests.node.moves import DONE_WITHIN_S, until_phase, until_waiting_for, wait_until_done
from tests.node.real_node import Proxy, RealNode
from tests.node.traffic import traffic
from tests.node.workload import GATED_STEPS, NAME, REPLICAS, Manifest, canary, service

SOURCE = "app-config"
OLD, NEW = "old", "new"
KUBELET_FOLLOWS_S = 90
"""Longer than a kubelet takes to write an edited ConfigMap into the volumes of its pods: it looks at each pod once a minute."""

Answers = Mapping[str, Sequence[Mapping[str, str]]]
"""By revision: what each of its ready pods says that its configuration is."""


@dataclass(frozen=True, kw_only=True)
class Configured(Seen):
    """An edit as it went.

    Args:
        first: the revision before the edit.
        canary: the revision of the edit.
        half_way: the pods' answers while a person had to decide, long after any kubelet has followed the edit.
        aborted: after the abort.
        promoted: after a second attempt and its promotion.
        back: after a rollback, with the edit still in the source.
        copies: the ConfigMaps of the Rollout in the end.
    """

    first: str
    canary: str
    half_way: Answers
    aborted: Answers
    promoted: Answers
    back: Answers
    copies: Sequence[Manifest]


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A canary of four pods that read one ConfigMap as an environment variable, as a volume and by subPath."""

    rate: float = field(default_factory=usual_rate)
    proxy: Proxy = Proxy("iptables")
    alone: bool = False
    flags: Sequence[str] = ()

    def run(self, node: RealNode, stage: Stage) -> Configured:
        """Edits the source, aborts, tries again, promotes and rolls back, under load."""
        stage.apply(source(OLD), service(), reading(canary("dies", "auto", steps=GATED_STEPS)))
        first = str(until_phase(stage, "Healthy")["status"]["currentRevision"])
        address = stage.get("services", NAME)["spec"]["clusterIP"]
        with traffic(node, f"http://{address}/", rate=self.rate, name=f"load-{stage.namespace}") as running:
            began = time.monotonic()
            stage.apply(source(NEW))
            new = str(until_waiting_for(stage, "PromotionNeeded")["status"]["currentRevision"])
            threading.Event().wait(KUBELET_FOLLOWS_S)
            half_way = answers(stage)
            stage.annotate(NAME, "abort", "true")
            until_phase(stage, "Aborted")
            stage.until_pods(NAME, {first: REPLICAS}, within_s=DONE_WITHIN_S)
            aborted = answers(stage)
            stage.annotate(NAME, "retry", "true")
            until_waiting_for(stage, "PromotionNeeded")
            stage.annotate(NAME, "promote", "true")
            wait_until_done(stage)
            promoted = answers(stage)
            stage.annotate(NAME, "rollback", first)
            until_waiting_for(stage, "PromotionNeeded")
            stage.annotate(NAME, "promote", "true")
            stage.until(
                "rollouts", NAME, lambda one: one["status"].get("stableRevision") == first, within_s=DONE_WITHIN_S
            )
            stage.until_pods(NAME, {first: REPLICAS}, within_s=DONE_WITHIN_S)
            back = answers(stage)
            took_s = time.monotonic() - began
        outcome = running.outcome
        row = Case(
            case="edit of a ConfigMap",
            proxy=str(self.proxy),
            drain="auto",
            app="dies",
            connections="new",
            protocol="http1",
            sent=outcome.sent,
            failed=dict(outcome.failed),
            seconds=round(took_s, 1),
            timeline=outcome.seconds,
        )
        return Configured(
            outcome=outcome,
            row=row,
            namespace=stage.namespace,
            slowest_sync_s=node.slowest_sync_s(),
            first=first,
            canary=new,
            half_way=half_way,
            aborted=aborted,
            promoted=promoted,
            back=back,
            copies=stage.all("configmaps", f"rollouts.dev/name={NAME}"),
        )


def source(value: str) -> Manifest:
    """The user's ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SOURCE}, "data": {"value": value}}


def reading(rollout: Manifest) -> Manifest:
    """The same Rollout, of pods that read the ConfigMap in all three ways."""
    pod = rollout["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    pod["volumes"] = [{"name": "config", "configMap": {"name": SOURCE}}]
    container["env"].append({"name": "CONFIG", "valueFrom": {"configMapKeyRef": {"name": SOURCE, "key": "value"}}})
    container["volumeMounts"] = [
        {"name": "config", "mountPath": "/config"},
        {"name": "config", "mountPath": "/config-value", "subPath": "value"},
    ]
    return rollout


def answers(stage: Stage) -> dict[str, list[dict[str, str]]]:
    """What the running pods say, by revision."""
    said: dict[str, list[dict[str, str]]] = {}
    for pod in stage.all("pods", f"app={NAME}"):
        if "deletionTimestamp" in pod["metadata"]:
            continue
        url = f"http://{pod['status']['podIP']}:8080/config"
        revision = pod["metadata"]["labels"][REVISION]
        said.setdefault(revision, []).append(json.loads(httpx.get(url, timeout=5, trust_env=False).text))
    return said

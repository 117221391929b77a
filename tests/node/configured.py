"""A ConfigMap that is edited while clients use the pods that read it, in each of the ways in which a pod can read one."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx

from tests.build import config_map
from tests.e2e.manifests import container_of
from tests.e2e.stage import REVISION, Stage
from tests.node.cutover import Seen, UnderLoad
from tests.node.moves import abort, until_phase, until_waiting_for, wait_until_done, wait_until_stable
from tests.node.real_node import RealNode
from tests.node.workload import GATED_STEPS, NAME, Manifest, canary, mounting, service

SOURCE = "app-config"
OLD, NEW = "old", "new"
KUBELET_FOLLOWS_S = 90
"""Longer than a kubelet takes to write an edited ConfigMap into the volumes of its pods: it looks at each pod once a minute."""

Answers = Mapping[str, Sequence[Mapping[str, str]]]
"""By revision: what each of its ready pods says that its configuration is."""


@dataclass(frozen=True, kw_only=True)
class Configured(Seen):
    """An edit as it went."""

    first: str  # the revision before the edit
    canary: str  # the revision of the edit
    half_way: Answers  # the pods' answers while a person had to decide, long after any kubelet has followed the edit
    aborted: Answers  # after the abort
    promoted: Answers  # after a second attempt and its promotion
    back: Answers  # after a rollback, with the edit still in the source
    copies: Sequence[Manifest]  # the ConfigMaps of the Rollout in the end


@dataclass(frozen=True, kw_only=True)
class Edit(UnderLoad):
    """A canary of four pods that read one ConfigMap as an environment variable, as a volume and by subPath."""

    def run(self, node: RealNode, stage: Stage) -> Configured:
        """Edits the source, aborts, tries again, promotes and rolls back, under load."""
        stage.apply(source(OLD), service(), reading(canary("dies", "auto", steps=GATED_STEPS)))
        first = str(until_phase(stage, "Healthy")["status"]["currentRevision"])
        read: list[Answers] = []
        canaries: list[str] = []

        def act() -> None:
            stage.apply(source(NEW))
            canaries.append(str(until_waiting_for(stage, "PromotionNeeded")["status"]["currentRevision"]))
            threading.Event().wait(KUBELET_FOLLOWS_S)
            read.append(answers(stage))
            abort(stage)
            read.append(answers(stage))
            stage.annotate(NAME, "retry", "true")
            until_waiting_for(stage, "PromotionNeeded")
            stage.annotate(NAME, "promote", "true")
            wait_until_done(stage)
            read.append(answers(stage))
            stage.annotate(NAME, "rollback", first)
            until_waiting_for(stage, "PromotionNeeded")
            stage.annotate(NAME, "promote", "true")
            wait_until_stable(stage, first)
            read.append(answers(stage))

        seen = self.seen(node, stage, act, case="edit of a ConfigMap")
        copies = stage.all("configmaps", f"rollouts.dev/name={NAME}")
        half_way, aborted, promoted, back = read
        return Configured(
            **vars(seen),
            first=first,
            canary=canaries[0],
            half_way=half_way,
            aborted=aborted,
            promoted=promoted,
            back=back,
            copies=copies,
        )


def source(value: str) -> Manifest:
    return config_map(SOURCE, data={"value": value})


def reading(rollout: Manifest) -> Manifest:
    """The same Rollout, of pods that read the ConfigMap in all three ways."""
    of_key = {"valueFrom": {"configMapKeyRef": {"name": SOURCE, "key": "value"}}}
    container_of(rollout)["env"].append({"name": "CONFIG", **of_key})
    mounts = ({"mountPath": "/config"}, {"mountPath": "/config-value", "subPath": "value"})
    return mounting(rollout, *({"name": "config", **each} for each in mounts), config={"configMap": {"name": SOURCE}})


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

"""Where a pod may run: the node that it names, its node selector, its required node affinity, and the taints that it tolerates.

Preferences, resources, and the operators Gt and Lt are not looked at.
Source: k8s.io/component-helpers scheduling/corev1 (nodeaffinity, `ToleratesTaint`).
"""

from __future__ import annotations

from rollouts.objects import Manifest
from rollouts.sim.storage.history import Stored
from rollouts.sim.storage.selectors import selects

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
_CORDONED: Manifest = {"key": "node.kubernetes.io/unschedulable", "effect": NO_SCHEDULE}


def fits(spec: Manifest, node: Stored) -> bool:
    """Whether the spec of a pod selects this node; what the node says to it is `tolerates`."""
    name = node.metadata["name"]
    wanted = spec.get("nodeSelector") or {}
    if spec.get("nodeName", name) != name or not wanted.items() <= node.labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(
        selects({"matchExpressions": term.get("matchExpressions") or ()}, node.labels)
        and selects({"matchExpressions": term.get("matchFields") or ()}, {"metadata.name": name})
        for term in required["nodeSelectorTerms"]
    )


def node_of(spec: Manifest) -> str:
    """The node that a pod is on, or that its affinity names; "" for none."""
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [field for term in required.get("nodeSelectorTerms") or () for field in term.get("matchFields") or ()]
    return next((str(field["values"][0]) for field in fields if field["key"] == "metadata.name"), "")


def tolerates(spec: Manifest, node: Stored, *effects: str) -> bool:
    """Whether a pod tolerates all taints of a node that have one of these effects; a cordoned node has one."""
    of_node = node.manifest.get("spec") or {}
    taints = [*(of_node.get("taints") or ()), *([_CORDONED] if of_node.get("unschedulable") else [])]
    tolerations = spec.get("tolerations") or ()
    return all(
        any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
        if taint["effect"] in effects
    )


def _tolerates(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect", taint["effect"]) != taint["effect"]:
        return False
    if toleration.get("key", taint["key"]) != taint["key"]:
        return False
    is_any = toleration.get("operator", "Equal") == "Exists"
    return is_any or bool(toleration.get("value", "") == taint.get("value", ""))

"""Manifests that the tests of the simulated cluster begin with."""

from __future__ import annotations

from typing import Any

from rollouts.objects import Manifest


def replica_set(name: str, *, replicas: int, image: str = "app:1", **options: Any) -> Manifest:
    """A ReplicaSet; `pre_stop_s`, `grace_s`, `startup_s`, `min_ready_s` are seconds, `annotations` are the pods'."""
    container: Manifest = {"name": "app", "image": image}
    if "pre_stop_s" in options:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": options["pre_stop_s"]}}}
    annotations = {"sim.rollouts.dev/startup-seconds": str(options["startup_s"])} if "startup_s" in options else {}
    annotations |= options.get("annotations", {})
    labels = {"app": options.get("app", name), "rollouts.dev/revision": options.get("revision", "r1"), "set": name}
    pod: Manifest = {"containers": [container]}
    if "grace_s" in options:
        pod["terminationGracePeriodSeconds"] = options["grace_s"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "minReadySeconds": options.get("min_ready_s", 0),
            "selector": {"matchLabels": {"set": name}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": pod},
        },
    }


def service(name: str, **selector: str) -> Manifest:
    """A Service that selects by `app`, or by what is given."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"rollouts.dev/managed": "true"}},
        "spec": {"selector": selector or {"app": name}, "ports": [{"port": 80}]},
    }

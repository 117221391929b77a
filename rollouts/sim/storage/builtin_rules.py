"""Defaults and validation of the built-in types: the part that matters to rollouts.

Unlike the real server this one does not know every field of the built-in types, so it keeps unknown fields and does not check
their types. Source: k8s.io/kubernetes pkg/apis/{core,apps}/{v1/defaults.go,validation/validation.go}.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from rollouts.objects import Manifest
from rollouts.sim.storage.refusals import Cause, compact_json, value_invalid, value_not_supported, value_required
from rollouts.sim.storage.selectors import selects

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_PERCENT = re.compile(r"^[0-9]+%$")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def metadata_problems(metadata: Manifest) -> Iterator[Cause]:
    """The problems of the name, labels or annotations of any object."""
    name = metadata.get("name", "")
    if not _SUBDOMAIN.match(name) or len(name) > 253:
        yield value_invalid("metadata.name", json.dumps(name), _NAME_RULE)
    yield from label_problems(metadata.get("labels") or {}, "metadata.labels")
    for key, value in (metadata.get("annotations") or {}).items():
        if not isinstance(value, str):
            yield Cause(f"metadata.annotations.{key}", "FieldValueTypeInvalid", "Invalid value: must be a string")


def label_problems(labels: Manifest, path: str) -> Iterator[Cause]:
    """The label values that are not allowed."""
    for value in labels.values():
        if not isinstance(value, str) or len(value) > 63 or not _LABEL_VALUE.match(value):
            yield value_invalid(path, json.dumps(value), _LABEL_RULE)


def labels_not_selected(labels: Manifest) -> Cause:
    """The problem of a pod template that its own selector does not select."""
    return value_invalid(
        "spec.template.metadata.labels", compact_json(labels), "`selector` does not match template `labels`"
    )


def never_negative(value: Any, path: str) -> Iterator[Cause]:
    """The problem of a number below 0."""
    if isinstance(value, int) and value < 0:
        yield value_invalid(path, f"{value}", "must be greater than or equal to 0")


def share_problems(share: int | str, path: str) -> Iterator[Cause]:
    """The problems of a number of pods that may be a percentage of all, as `25%`."""
    yield from never_negative(share, path)
    if isinstance(share, str) and not _PERCENT.match(share):
        yield value_invalid(path, json.dumps(share), _PERCENT_RULE)


def more_than_all(share: int | str, path: str) -> Iterator[Cause]:
    """The problem of a percentage above 100."""
    if isinstance(share, str) and share_number(share) > 100:
        yield value_invalid(path, json.dumps(share), "must not be greater than 100%")


def share_number(share: int | str) -> int:
    """The number of pods, or of percent; 0 for a text that is no percentage."""
    if isinstance(share, int):
        return share
    return int(share[:-1]) if _PERCENT.match(share) else 0


def pod_defaults(pod: Manifest) -> Manifest:
    """A Pod, or the template of one, with the server's defaults."""
    spec = pod.get("spec") or {}
    filled = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **spec,
    }
    for group in ("containers", "initContainers"):
        if isinstance(spec.get(group), list):
            containers = [_container_with_defaults(container) for container in spec[group]]
            filled[group] = spec[group] if containers == spec[group] else containers
    return pod if filled == spec else {**pod, "spec": filled}


def _container_with_defaults(container: Manifest) -> Manifest:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition(":")[2]
    filled = {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always" if tag in {"", "latest"} else "IfNotPresent",
        **container,
    }
    if isinstance(container.get("ports"), list):
        filled["ports"] = [{"protocol": "TCP", **port} for port in container["ports"]]
    return filled


def workload_defaults(workload: Manifest) -> Manifest:
    """A ReplicaSet or Deployment with the server's defaults."""
    spec = workload.get("spec") or {}
    template = pod_defaults(spec.get("template") or {})
    metadata = template.get("metadata") or {}
    if not all(metadata.values()):  # the real server keeps no map that a patch has emptied
        template = {**template, "metadata": {name: value for name, value in metadata.items() if value}}
    if "replicas" in spec and template is spec.get("template"):
        return workload
    return {**workload, "spec": {"replicas": 1, **spec, "template": template}}


def service_defaults(service: Manifest) -> Manifest:
    """A Service with the server's defaults, except the cluster address."""
    spec = service.get("spec") or {}
    filled = {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", **spec}
    if isinstance(spec.get("ports"), list):
        filled["ports"] = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec["ports"]]
    return service if filled == spec else {**service, "spec": filled}


def pod_problems(new: Manifest, _old: Manifest | None) -> Iterator[Cause]:
    """The problems of a Pod."""
    yield from pod_spec_problems(new.get("spec") or {}, "spec")


def pod_spec_problems(spec: Manifest, path: str) -> Iterator[Cause]:
    """The problems of a pod's spec at a path; only at `spec` itself an image is required."""
    containers = spec.get("containers")
    if not containers:
        yield value_required(f"{path}.containers")
    names: set[str] = set()
    for index, container in enumerate(containers or ()):
        here = f"{path}.containers[{index}]"
        if not container.get("name"):
            yield value_required(f"{here}.name")
        elif container["name"] in names:
            yield Cause(f"{here}.name", "FieldValueDuplicate", f"Duplicate value: {json.dumps(container['name'])}")
        names.add(container.get("name", ""))
        if path == "spec" and not container.get("image"):
            yield value_required(f"{here}.image")


def workload_problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a ReplicaSet or Deployment, including a changed selector."""
    spec = new.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if isinstance(spec.get("replicas"), int) and spec["replicas"] < 0:
        yield value_invalid("spec.replicas", f"{spec['replicas']}", "must be greater than or equal to 0")
    if selector is None:
        yield value_required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield value_invalid("spec.selector", compact_json(selector), "empty selector is invalid for deployment")
    elif not selects(selector, labels):
        yield labels_not_selected(labels)
    yield from label_problems(labels, "spec.template.metadata.labels")
    yield from pod_spec_problems(template.get("spec") or {}, "spec.template.spec")
    restart = (template.get("spec") or {}).get("restartPolicy")
    if restart != "Always":
        yield value_not_supported("spec.template.spec.restartPolicy", restart, ("Always",))
    if old is not None and old["spec"].get("selector") != selector:
        yield value_invalid("spec.selector", compact_json(selector), "field is immutable")


def service_problems(new: Manifest, _old: Manifest | None) -> Iterator[Cause]:
    """The problems of a Service."""
    spec = new.get("spec") or {}
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield value_required("spec.ports")
    yield from label_problems(spec.get("selector") or {}, "spec.selector")

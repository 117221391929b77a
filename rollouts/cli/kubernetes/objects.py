"""What the API server refuses in objects beside Rollouts: Services, autoscalers, ConfigMaps, Secrets, and any metadata. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.cli.kubernetes.definitions import label_problems
from rollouts.cli.kubernetes.formats import LABEL_WORDS, config_key, dns_label
from rollouts.cli.kubernetes.parts import entries_at, number, repeated
from rollouts.cli.kubernetes.pods import annotation_problems, rules, unique
from rollouts.cli.kubernetes.schema import JOB_SPEC, Problem, field_problems, kinds
from rollouts.core.model.grammar import is_object_name
from rollouts.core.placeholders import PLACE
from rollouts.objects import mapping

_ENCRYPTED = "sops"  # a tool's own field: what it has encrypted is no base64 yet
_METRIC_FIELDS = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}
_TARGETS = {"Utilization": "averageUtilization", "AverageValue": "averageValue", "Value": "value"}
_NAME_RULE = (
    "a name is lower-case letters, digits, '-' and '.', 253 at most, and begins and ends with a letter or digit"
)


def object_problems(manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Path and message of what the API server would refuse; nothing for a kind that is not known. Raises: nothing."""
    kind, api_version = str(manifest.get("kind")), str(manifest.get("apiVersion"))
    if kind == "HorizontalPodAutoscaler" and api_version.startswith("autoscaling/v2beta"):
        yield "apiVersion", f"{api_version} is not served since Kubernetes 1.26; write autoscaling/v2"
    definition = kinds().get((api_version, kind))
    if definition is None or _ENCRYPTED in manifest:
        return
    found = [(path.removeprefix("."), message) for path, message in field_problems(dict(manifest), definition, "")]
    match kind:
        case "Service":
            found += _service_problems(mapping(manifest.get("spec")))
        case "HorizontalPodAutoscaler":
            found += _autoscaler_problems(mapping(manifest.get("spec")))
        case _:
            found += _data_problems(manifest, kind)
    yield from unique(found)


def job_problems(spec: object, path: str) -> Iterator[Problem]:
    """What the API server would refuse in the Job of a metric; texts with `{{` are filled in before the Job is made."""
    found = [*field_problems(spec, JOB_SPEC, path, filled_later=True)]
    template = _filled(mapping(spec).get("template"))
    found += rules(template, f"{path}.template")
    pod = mapping(mapping(template).get("spec"))
    if pod.get("restartPolicy") == "Always":
        why = "must be Never or OnFailure in a Job; remove it for Never"
        found.append((f"{path}.template.spec.restartPolicy", why))
    yield from unique(found)


def _filled(value: Any) -> Any:
    """With a letter in place of each argument: most rules take it."""
    match value:
        case dict():
            return {name: _filled(part) for name, part in value.items()}
        case list():
            return [_filled(part) for part in value]
        case str():
            return PLACE.sub("x", value)
        case _:
            return value


def _service_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    ports = list(entries_at(spec, "ports", "spec"))
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield "spec.ports", "is required: at least one port"
    for path, port in ports:
        if len(ports) > 1 and not port.get("name"):
            yield f"{path}.name", "is required where a Service has several ports"
    yield from repeated((f"{path}.name", port.get("name")) for path, port in ports)
    yield from repeated((f"{path}.port", (port.get("port"), port.get("protocol") or "TCP")) for path, port in ports)


def _autoscaler_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    least, most = number(spec.get("minReplicas")), number(spec.get("maxReplicas"))
    if most is not None and most < 1:
        yield "spec.maxReplicas", f"must be 1 or more, not {most}"
    elif least is not None and most is not None and least > most:
        yield "spec.minReplicas", f"is {least}, more than maxReplicas {most}; change one of them"
    if least is not None and least < 0:
        yield "spec.minReplicas", f"must be 0 or more, not {least}"
    for path, metric in entries_at(spec, "metrics", "spec"):
        field = _METRIC_FIELDS.get(str(metric.get("type")))
        if field is None:
            yield f"{path}.type", f"must be one of {', '.join(_METRIC_FIELDS)}, not {metric.get('type')!r}"
        elif not isinstance(metric.get(field), dict):
            yield f"{path}.{field}", f"is required for a metric of type {metric['type']}"
        else:
            target = mapping(metric[field].get("target"))
            wanted = _TARGETS.get(str(target.get("type")))
            if wanted is None:
                yield f"{path}.{field}.target.type", f"must be one of {', '.join(_TARGETS)}, not {target.get('type')!r}"
            elif target.get(wanted) is None:
                yield f"{path}.{field}.target.{wanted}", f"is required for a target of type {target['type']}"


def _data_problems(manifest: Mapping[str, Any], kind: str) -> Iterator[Problem]:
    for field in ("data", "binaryData", "stringData"):
        for key in mapping(manifest.get(field)):
            if config_key(str(key)):
                yield f"{field}.{key}", "a key is letters, digits, '-', '_' and '.', 253 at most"
            elif field == "binaryData" and kind == "ConfigMap" and key in mapping(manifest.get("data")):
                yield f"{field}.{key}", "is in data too; remove one of them"


def metadata_problems(metadata: object) -> Iterator[Problem]:
    """Path and message of what the API server would refuse in `metadata`; that there is no name is told elsewhere.

    An annotation `rollouts.dev/pause: true` is one: without quotes it is no text, and the whole object is refused.

    Sources: kubernetes, apimachinery/pkg/api/validation/objectmeta.go · …/pkg/apis/meta/v1/validation/validation.go

    Raises: nothing.
    """
    if not isinstance(metadata, dict):
        return
    problems = list(field_problems(metadata, "ObjectMeta", "metadata"))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if isinstance(name, str) and name and not is_object_name(name):
        problems.append(("metadata.name", f"{_NAME_RULE}; not {name!r}"))
    if isinstance(namespace, str) and dns_label(namespace):
        problems.append(("metadata.namespace", f"a namespace is {LABEL_WORDS}; not {namespace!r}"))
    problems += label_problems(metadata.get("labels"), "metadata.labels")
    problems += annotation_problems(mapping(metadata.get("annotations")), "metadata.annotations")
    yield from unique(problems)

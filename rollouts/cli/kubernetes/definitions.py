"""The rules between fields of one object of a pod template, by its definition in Kubernetes' schema. Pure.

Source: kubernetes, pkg/apis/core/validation/validation.go, which the tests ask about each rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from rollouts.cli.kubernetes.formats import KEY_WORDS, VALUE_WORDS
from rollouts.cli.kubernetes.parts import entries_at, repeated
from rollouts.cli.kubernetes.schema import Problem, quantity
from rollouts.core.model.grammar import is_label_key, is_label_value
from rollouts.objects import mapping

PartRule: TypeAlias = Callable[[Mapping[str, Any], str], Iterator[Problem]]
"""Reads an object and its path."""

_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_HUGE = "hugepages-"
_FIELD_PATHS = ("metadata.name", "metadata.namespace", "metadata.uid")
_ENV_FIELD_PATHS = (
    *_FIELD_PATHS,
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_FILE_FIELD_PATHS = (*_FIELD_PATHS, "metadata.labels", "metadata.annotations")
_SUBSCRIPTED = ("metadata.labels", "metadata.annotations")
_RESOURCE_FIELDS = tuple(f"{side}.{name}" for side in ("limits", "requests") for name in _RESOURCES)
_SCALES = ("", *"kMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_CPU_DIVISORS = (Fraction(1), Fraction(1, 1000))
_BYTE_DIVISORS = tuple(quantity(f"1{scale}") for scale in _SCALES)
_LOCAL = "Localhost"


def part_problems(definition: str, part: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """What the API server refuses in one object, whatever is beside it."""
    for rule in _RULES.get(definition, ()):
        yield from rule(part, at)


def label_problems(labels: object, path: str) -> Iterator[Problem]:
    """What is wrong with the keys and values of labels."""
    for name, value in mapping(labels).items():
        if not is_label_key(str(name)):
            yield f"{path}.{name}", f"a key is {KEY_WORDS}"
        elif isinstance(value, str) and not is_label_value(value):
            yield f"{path}.{name}", f"a value is {VALUE_WORDS}; not {value!r}"


def _exactly_one(*known: str) -> PartRule:
    def rule(part: Mapping[str, Any], at: str) -> Iterator[Problem]:
        given = [name for name in known if part.get(name) is not None]
        if len(given) != 1:
            yield at, f"needs exactly one of {', '.join(known)}; it has {' and '.join(given) or 'none'}"

    return rule


def one_source(part: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """No two sources of one volume."""
    given = [name for name, value in part.items() if name != "name" and value is not None]
    if len(given) > 1:
        yield at, f"may have one source only; it has {' and '.join(given)}"


def _needs(*names: str) -> PartRule:
    """Fields that the schema leaves optional because an older API did."""

    def rule(part: Mapping[str, Any], at: str) -> Iterator[Problem]:
        yield from ((f"{at}.{name}", "is required") for name in names if not part.get(name))

    return rule


def _unique(field: str, *names: str) -> PartRule:
    """Entries of a list that differ in these fields."""

    def rule(part: Mapping[str, Any], at: str) -> Iterator[Problem]:
        found = [
            (path, tuple(str(entry.get(name) or "") for name in names)) for path, entry in entries_at(part, field, at)
        ]
        yield from repeated((f"{path}.{names[0]}", values) for path, values in found if values[0])

    return rule


def env_var(variable: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """No value beside a source of one."""
    source = variable.get("valueFrom")
    if isinstance(source, dict) and variable.get("value"):
        yield f"{at}.valueFrom", "cannot stand beside value; remove one of them"


def env_source(source: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """A field of the pod, or a resource, that an environment variable may have."""
    yield from _field_path(source, at, _ENV_FIELD_PATHS)
    yield from _resource_field(source, at)


def downward_file(item: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """A field of the pod, or a resource, that a file may have."""
    yield from _field_path(item, at, _FILE_FIELD_PATHS)
    yield from _resource_field(item, at)
    if isinstance(field := item.get("resourceFieldRef"), dict) and not field.get("containerName"):
        yield f"{at}.resourceFieldRef.containerName", "is required for a file"


def _field_path(holder: Mapping[str, Any], at: str, known: tuple[str, ...]) -> Iterator[Problem]:
    path = mapping(holder.get("fieldRef")).get("fieldPath")
    if not isinstance(path, str) or not path or path in known:
        return
    name, bracket, rest = path.partition("['")
    if bracket and name in _SUBSCRIPTED and rest.endswith("']"):
        key = rest.removesuffix("']")
        if is_label_key(key if name.endswith("labels") else key.lower()):
            return
        why = f"{key!r} can be no key"
    else:
        why = f"must be one of {', '.join(known)}, or a key such as metadata.labels['app']"
    yield f"{at}.fieldRef.fieldPath", f"{why}; not {path!r}"


def _resource_field(holder: Mapping[str, Any], at: str) -> Iterator[Problem]:
    field, path = mapping(holder.get("resourceFieldRef")), f"{at}.resourceFieldRef"
    name, divisor = str(field.get("resource") or ""), quantity(field.get("divisor"))
    if name and name not in _RESOURCE_FIELDS and not name.startswith((f"limits.{_HUGE}", f"requests.{_HUGE}")):
        yield f"{path}.resource", f"must be one of {', '.join(_RESOURCE_FIELDS)}, not {name!r}"
    elif divisor and divisor not in (_CPU_DIVISORS if name.endswith(".cpu") else _BYTE_DIVISORS):
        known = "1m or 1" if name.endswith(".cpu") else "1, 1k, 1M, 1G, 1Ki, 1Mi, 1Gi or larger"
        yield f"{path}.divisor", f"must be {known}, not {field['divisor']}"


def mount(mount: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Sub-paths that exclude each other, and read-only mounts below mounts."""
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield f"{at}.subPathExpr", "cannot stand beside subPath; remove one of them"
    recursive = mount.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if mount.get("readOnly") is not True:
            yield f"{at}.recursiveReadOnly", "needs readOnly: true"
        if mount.get("mountPropagation") not in (None, "None"):
            yield f"{at}.recursiveReadOnly", "cannot stand beside mountPropagation; remove one of them"
    elif recursive not in (None, "", "Disabled"):
        yield f"{at}.recursiveReadOnly", f"must be one of Disabled, IfPossible, Enabled, not {recursive!r}"


def resource_amounts(resources: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Requests against limits, and what devices and huge pages ask for."""
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    for side, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            yield from _resource(str(name), value, f"{at}.{side}.{name}")
    for name, value in requests.items():
        amount, limit, path = quantity(value), quantity(limits.get(name)), f"{at}.requests.{name}"
        overcommits = "/" not in name and not name.startswith(_HUGE)
        if amount is None or (limit is None and (name in limits or overcommits)):
            continue
        if limit is None:
            yield path, f"needs a limit of the same amount; write limits.{name}: {value}"
        elif amount > limit:
            yield path, f"is {value}, more than its limit {limits[name]}; raise the limit, or request less"
        elif amount < limit and not overcommits:
            yield path, f"must be the same as its limit {limits[name]}, not {value}"
    names = {*limits, *requests}
    if any(name.startswith(_HUGE) for name in names) and not names & {"cpu", "memory"}:
        yield at, "huge pages need cpu or memory beside them; add a request or a limit"


def overhead(pod: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """What a pod takes beside its containers."""
    for name, value in mapping(pod.get("overhead")).items():
        yield from _resource(str(name), value, f"{at}.overhead.{name}")


def _resource(name: str, value: object, path: str) -> Iterator[Problem]:
    amount = quantity(value)
    extended = "/" in name and "kubernetes.io/" not in name
    if "/" not in name and name not in _RESOURCES and not name.startswith(_HUGE):
        yield path, f"is no resource of a container; there are {', '.join(_RESOURCES)}"
    elif not is_label_key(name) or (extended and name.startswith("requests.")):
        yield path, "is no name of a resource, such as example.com/gpu"
    elif amount is not None and amount < 0:
        yield path, f"must be 0 or more, not {value}"
    elif amount is not None and extended and amount.denominator != 1:
        yield path, f"must be a whole number, not {value}: devices are not shared"
    elif name.startswith(_HUGE) and amount is not None:
        page = quantity(name.removeprefix(_HUGE))
        if not page or amount % page or not amount:
            yield path, f"must be a multiple of {name.removeprefix(_HUGE)}, not {value}"


def selector_values(requirement: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """As many values as the operator takes."""
    operator, values = requirement.get("operator"), requirement.get("values")
    count = len(values) if isinstance(values, list) else 0
    if operator in ("In", "NotIn") and not count:
        yield f"{at}.values", f"is required with operator {operator}: at least one value"
    elif operator in ("Exists", "DoesNotExist") and count:
        yield f"{at}.values", f"must be empty with operator {operator}; remove it, or write operator: In"
    elif operator in ("Gt", "Lt") and count != 1:
        yield f"{at}.values", f"must be exactly one value with operator {operator}"


def node_term(term: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Operators, and the one field of a node."""
    for path, requirement in entries_at(term, "matchExpressions", at):
        if not requirement.get("operator"):
            yield f"{path}.operator", "is required"
    for path, requirement in entries_at(term, "matchFields", at):
        values = requirement.get("values")
        if requirement.get("key") != "metadata.name":
            yield f"{path}.key", f"must be metadata.name, the only field of a node, not {requirement.get('key')!r}"
        if requirement.get("operator") not in ("In", "NotIn"):
            yield f"{path}.operator", f"must be In or NotIn for a field, not {requirement.get('operator')!r}"
        elif isinstance(values, list) and len(values) > 1:
            yield f"{path}.values", "must be exactly one value for a field"


def toleration(toleration: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Keys, values and seconds that fit the operator and the effect."""
    operator, value = toleration.get("operator") or "Equal", toleration.get("value")
    if operator == "Exists" and value:
        yield f"{at}.value", "must be empty with operator Exists; remove it, or write operator: Equal"
    elif operator == "Equal" and isinstance(value, str) and not is_label_value(value):
        yield f"{at}.value", f"must be {VALUE_WORDS}, not {value!r}"
    if not toleration.get("key") and operator != "Exists":
        yield f"{at}.operator", "must be Exists where no key is given; write operator: Exists, or a key"
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield f"{at}.effect", "must be NoExecute with tolerationSeconds"


def spread(constraint: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """What only a hard constraint may have."""
    action = constraint.get("whenUnsatisfiable")
    if constraint.get("minDomains") is not None and action == "ScheduleAnyway":
        yield f"{at}.minDomains", "needs whenUnsatisfiable: DoNotSchedule; remove it, or change that"
    yield from label_key_lists(constraint, at)


def label_key_lists(term: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Label keys beside a selector."""
    match, mismatch = (
        keys if isinstance(keys := term.get(name), list) else [] for name in ("matchLabelKeys", "mismatchLabelKeys")
    )
    if (match or mismatch) and term.get("labelSelector") is None:
        yield f"{at}.{'matchLabelKeys' if match else 'mismatchLabelKeys'}", "needs a labelSelector beside it"
    for index, key in enumerate(match):
        if key in mismatch:
            yield f"{at}.matchLabelKeys[{index}]", "is in mismatchLabelKeys too; remove one of them"


def profile(profile: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """A profile of the node, by its name."""
    name = profile.get("localhostProfile")
    if profile.get("type") == _LOCAL and not name:
        yield f"{at}.localhostProfile", "is required with type Localhost"
    elif profile.get("type") in ("RuntimeDefault", "Unconfined") and name is not None:
        yield f"{at}.localhostProfile", "is for type Localhost; remove it, or change the type"


def privilege_escalation(security: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """Rights that a container both has and gives up."""
    if security.get("allowPrivilegeEscalation") is not False:
        return
    path = f"{at}.allowPrivilegeEscalation"
    if security.get("privileged") is True:
        yield path, "cannot be false with privileged: true; remove one of them"
    added = mapping(security.get("capabilities")).get("add")
    if isinstance(added, list) and "CAP_SYS_ADMIN" in added:
        yield path, "cannot be false with the capability CAP_SYS_ADMIN; remove one of them"


def empty_dir(source: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """A size."""
    limit = quantity(source.get("sizeLimit"))
    if limit is not None and limit < 0:
        yield f"{at}.sizeLimit", f"must be 0 or more, not {source['sizeLimit']}"


def projected_paths(source: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """No two files of one path."""
    found = []
    for path, projection in entries_at(source, "sources", at):
        for name in ("secret", "configMap", "downwardAPI"):
            part = mapping(projection.get(name))
            found += [
                (f"{item}.path", entry.get("path")) for item, entry in entries_at(part, "items", f"{path}.{name}")
            ]
    yield from repeated(iter(found))


def ephemeral_claim(spec: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """The modes and the size of a volume that is made with the pod."""
    modes = spec.get("accessModes")
    if not modes:
        yield f"{at}.accessModes", "is required: at least one mode, such as ReadWriteOnce"
    elif isinstance(modes, list) and "ReadWriteOncePod" in modes and len(modes) > 1:
        yield f"{at}.accessModes", "ReadWriteOncePod cannot stand beside other modes"
    storage = mapping(mapping(spec.get("resources")).get("requests")).get("storage")
    amount = quantity(storage)
    if storage is None:
        yield f"{at}.resources.requests.storage", "is required: the size of the volume"
    elif amount is not None and amount <= 0:
        yield f"{at}.resources.requests.storage", f"must be more than 0, not {storage}"


def exec_command(action: Mapping[str, Any], at: str) -> Iterator[Problem]:
    """A program."""
    if not action.get("command"):
        yield f"{at}.command", "is required: the program and its arguments, as a list"


_TERMS: tuple[PartRule, ...] = (label_key_lists,)
_RULES: Mapping[str, tuple[PartRule, ...]] = {
    "AppArmorProfile": (profile,),
    "ConfigMapEnvSource": (_needs("name"),),
    "ConfigMapKeySelector": (_needs("name"),),
    "ConfigMapProjection": (_needs("name"),),
    "ConfigMapVolumeSource": (_needs("name"),),
    "Container": (
        _unique("ports", "name"),
        _unique("resizePolicy", "resourceName"),
        _unique("volumeMounts", "mountPath"),
        _unique("volumeDevices", "name"),
        _unique("volumeDevices", "devicePath"),
    ),
    "DownwardAPIVolumeFile": (_exactly_one("fieldRef", "resourceFieldRef"), downward_file),
    "EmptyDirVolumeSource": (empty_dir,),
    "EnvFromSource": (_exactly_one("configMapRef", "secretRef"),),
    "EnvVar": (env_var,),
    "EnvVarSource": (
        _exactly_one("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"),
        env_source,
    ),
    "EphemeralVolumeSource": (_needs("volumeClaimTemplate"),),
    "ExecAction": (exec_command,),
    "LabelSelector": (lambda selector, at: label_problems(selector.get("matchLabels"), f"{at}.matchLabels"),),
    "LabelSelectorRequirement": (selector_values,),
    "LifecycleHandler": (_exactly_one("exec", "httpGet", "tcpSocket", "sleep"),),
    "NodeSelector": (_needs("nodeSelectorTerms"),),
    "NodeSelectorRequirement": (selector_values,),
    "NodeSelectorTerm": (node_term,),
    "PersistentVolumeClaimSpec": (ephemeral_claim,),
    "PodAffinityTerm": _TERMS,
    "PodDNSConfigOption": (_needs("name"),),
    "PodResourceClaim": (_exactly_one("resourceClaimName", "resourceClaimTemplateName"),),
    "PodSecurityContext": (_unique("sysctls", "name"),),
    "PodSpec": (
        overhead,
        _unique("volumes", "name"),
        _unique("schedulingGates", "name"),
        _unique("resourceClaims", "name"),
        _unique("topologySpreadConstraints", "topologyKey", "whenUnsatisfiable"),
    ),
    "Probe": (_exactly_one("exec", "httpGet", "tcpSocket", "grpc"),),
    "ProjectedVolumeSource": (projected_paths,),
    "ResourceRequirements": (resource_amounts,),
    "SeccompProfile": (profile,),
    "SecretEnvSource": (_needs("name"),),
    "SecretKeySelector": (_needs("name"),),
    "SecretProjection": (_needs("name"),),
    "SecretVolumeSource": (_needs("secretName"),),
    "SecurityContext": (privilege_escalation,),
    "Toleration": (toleration,),
    "TopologySpreadConstraint": (spread,),
    "Volume": (one_source,),
    "VolumeMount": (mount,),
    "VolumeProjection": (one_source,),
}

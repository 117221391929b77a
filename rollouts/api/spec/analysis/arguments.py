"""ArgumentValues of an analysis: merged from templates and from those who use them, and what each of them is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from rollouts.api.problems import Problems
from rollouts.api.spec.reading import check_needed
from rollouts.api.v1alpha1.analysis import TemplateArgumentSource
from rollouts.api.v1alpha1.analysis_template import TemplateArgument
from rollouts.api.v1alpha1.template_scalars import OPEN
from rollouts.core.analysis.metric import SecretReference

_PART = re.compile(r"""\.?([^.\[\]'"]+) | \['([^']*)'\] | \["([^"]*)"\] | \[(\d+)\]""", re.VERBOSE)
"""A step of the path of a field."""


class NotInStatusError(ValueError):
    """A field of status that is not there: the controller may write it later."""


class ArgumentValues(Struct, frozen=True):
    """What is put into metrics, by name.

    Args:
        values: of those that have one.
        secrets: those that stay references until a request is sent.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretReference] = field(default_factory=dict)


class Updated(Struct, frozen=True, kw_only=True):
    """The Rollout that an analysis is about: what the arguments of its run are taken from.

    Args:
        manifest: with the pod template that is rolled out, also where that is another object's (`with_its_template`).
    """

    manifest: Mapping[str, Any]
    stable: str
    latest: str


def with_its_template(manifest: Mapping[str, Any], template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The Rollout as if the template of the workload that it names stood in it; itself without `workloadRef`."""
    spec = manifest.get("spec")
    if not isinstance(spec, Mapping) or spec.get("workloadRef") is None or not template:
        return manifest
    return {**manifest, "spec": {**spec, "template": template}}


def check_arguments(arguments: Sequence[TemplateArgument], root: str, problems: Problems) -> None:
    """Adds what is wrong with each of them, whether or not it has a value."""
    names: set[str] = set()
    for index, argument in enumerate(arguments):
        path = f"{root}.args[{index}]"
        check_needed(argument, path, problems)
        if argument.name in names:
            problems.add(f"{path}.name", f"{argument.name!r} is the name of another argument too")
        elif argument.name is not None:
            names.add(argument.name)
        if argument.value is not None and OPEN in argument.value:
            problems.add(f"{path}.value", f"must not have {OPEN} in it: a value is put in as it is")
        if argument.value is not None and argument.value_from is not None:
            problems.add(path, "needs one of value and valueFrom; it has both")
        if argument.value_from is not None:
            _check_source(argument.value_from, f"{path}.valueFrom", problems)


def _check_source(source: TemplateArgumentSource, path: str, problems: Problems) -> None:
    secret, field_ref = source.secret_key_ref, source.field_ref
    if sum(part is not None for part in (secret, field_ref, source.pod_template_hash_value)) != 1:
        problems.add_missing(path, "needs exactly one of secretKeyRef, fieldRef and podTemplateHashValue")
    if secret is not None:
        check_needed(secret, f"{path}.secretKeyRef", problems)
    if field_ref is not None:
        check_needed(field_ref, f"{path}.fieldRef", problems)


def known_arguments(arguments: Sequence[TemplateArgument]) -> ArgumentValues:
    """Those whose value, or whose Secret, is known; `check_arguments` has found nothing wrong with them."""
    values: dict[str, str] = {}
    secrets: dict[str, SecretReference] = {}
    for argument in arguments:
        name = argument.name or ""
        secret = argument.value_from.secret_key_ref if argument.value_from is not None else None
        if argument.value is not None:
            values[name] = argument.value
        elif secret is not None:
            secrets[name] = SecretReference(argument=name, name=secret.name or "", key=secret.key or "")
    return ArgumentValues(values, secrets)


def resolved_arguments(
    arguments: Sequence[TemplateArgument], of: Updated | None, root: str, problems: Problems
) -> tuple[TemplateArgument, ...]:
    """The same with the values that come from the Rollout; those of Secrets stay references."""
    return tuple(_resolved(argument, of, f"{root}.args[{index}]", problems) for index, argument in enumerate(arguments))


def _resolved(argument: TemplateArgument, of: Updated | None, path: str, problems: Problems) -> TemplateArgument:
    source = argument.value_from
    if source is None or source.secret_key_ref is not None:
        return argument
    if of is None:
        problems.add(f"{path}.valueFrom", "is taken from a Rollout, and there is none: give a value")
        return argument
    value = ""
    if source.pod_template_hash_value is not None:
        value = of.stable if source.pod_template_hash_value == "Stable" else of.latest
    elif source.field_ref is not None and source.field_ref.field_path is not None:
        try:
            value = field_value(of.manifest, source.field_ref.field_path)
        except ValueError as error:
            may_come = isinstance(error, NotInStatusError)
            problems.add(f"{path}.valueFrom.fieldRef.fieldPath", str(error), may_come=may_come)
    if OPEN in value:
        problems.add(path, f"must not have {OPEN} in its value")
    return TemplateArgument(name=argument.name, value=value)


def field_value(manifest: Mapping[str, Any], path: str) -> str:
    """The text of a field that is no object and no list: `metadata.labels['region']`, `spec.template.metadata.labels.version`.

    Source: Kubernetes' downward API, and Argo Rollouts' `fieldRef` for what it adds.

    Raises: ValueError that says what is wrong with the path.
    """
    value: Any = manifest
    parts = _parts(path)
    for part in parts:
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            absent = NotInStatusError if parts[0] == "status" else ValueError
            raise absent(f"the Rollout has no {path}: {part!r} is not there")
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            raise ValueError(f"{path} must be a text, a number or a truth value, not an object or a list")


def _parts(path: str) -> list[str]:
    if not path:
        raise ValueError("is no path of a field")
    if _PART.sub("", path):
        raise ValueError(f"is no path of a field: {path!r}; write metadata.labels['region']")
    return [next(group for group in match.groups() if group is not None) for match in _PART.finditer(path)]


def merged_defaults(
    lists: Sequence[tuple[str, Sequence[TemplateArgument]]], problems: Problems
) -> tuple[TemplateArgument, ...]:
    """ArgumentValues of several templates as one list: the one of two that has a value; both only if they agree."""
    merged: dict[str, TemplateArgument] = {}
    for root, arguments in lists:
        for index, argument in enumerate(arguments):
            name = argument.name or ""
            before = merged.get(name)
            if before is None or not _has_value(before):
                merged[name] = argument
            elif _has_value(argument) and (argument.value, argument.value_from) != (before.value, before.value_from):
                problems.add(f"{root}.args[{index}]", f"{name!r} has another default in another template")
    return tuple(merged.values())


def with_given(
    defaults: Sequence[TemplateArgument], given: Sequence[TemplateArgument], path: str, problems: Problems
) -> tuple[TemplateArgument, ...]:
    """The arguments that templates ask for, with what their user gives. What no template asks for is left out, as Argo does."""
    values = {argument.name: argument for argument in given if _has_value(argument)}
    merged = tuple(values.get(argument.name, argument) for argument in defaults)
    for argument in merged:
        if not _has_value(argument):
            problems.add(path, f"needs a value for {argument.name!r}, which a template asks for")
    return merged


def _has_value(argument: TemplateArgument) -> bool:
    return argument.value is not None or argument.value_from is not None

"""What a client accepts: whole objects, or only their metadata, as JSON.

The real server also knows YAML, protobuf and tables, which nobody asks this one for without another choice.
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
"""

from __future__ import annotations

from enum import Enum

from rollouts.sim.storage.refusals import not_acceptable
from rollouts.sim.storage.registry import Resource

_MEDIA_TYPES = frozenset(("application/json", "application/*", "*/*", ""))
_SERVED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


class Form(Enum):
    """The part of an object, or of the objects of a list, that an answer has."""

    WHOLE = ""
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


def form_of(accept: str) -> Form:
    """The form that the header `Accept` asks for: the first one that this server has.

    Raises: Refused (406), when it has none of them.
    """
    for choice in accept.split(","):
        media_type, *parameters = (each.strip() for each in choice.split(";"))
        asked = dict(each.split("=", 1) for each in parameters if "=" in each)
        if media_type not in _MEDIA_TYPES:
            continue
        if "as" not in asked:
            return Form.WHOLE
        if (asked.get("g"), asked.get("v")) == ("meta.k8s.io", "v1"):
            for form in (Form.METADATA, Form.METADATA_LIST):
                if asked["as"] == form.value:
                    return form
    raise not_acceptable(f"only the following media types are accepted: {_SERVED}")


def guard_one(form: Form, resource: Resource) -> None:
    """Raises: Refused (406), when one object was asked for as a list."""
    if form is Form.METADATA_LIST:
        raise not_acceptable(_mismatch(form, "not a list", _go_type(resource)))


def guard_list(form: Form, resource: Resource) -> None:
    """Raises: Refused (406), when a list was asked for as one object."""
    if form is Form.METADATA:
        raise not_acceptable(_mismatch(form, "a list", f"{_go_type(resource)}List"))


def _mismatch(form: Form, what: str, go_type: str) -> str:
    return f"you requested {form.value}, but the requested object is {what} (*{go_type})"


def _go_type(resource: Resource) -> str:
    if resource.is_custom:
        return "unstructured.Unstructured"
    return f"{resource.kind.group.partition('.')[0] or 'core'}.{resource.kind.kind}"

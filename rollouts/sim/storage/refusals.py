"""The API server's refusals, with the codes, reasons and messages of the real one.

Source: k8s.io/apimachinery pkg/api/errors; tests/contract compares them with the real server.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from rollouts.objects import Kind, Manifest


class Refused(Exception):
    """The API server refuses a request with a `Status` object, whose code, reason and details these are."""

    def __init__(self, code: int, reason: str, message: str, details: Manifest | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Manifest:
        """The `Status` object."""
        status: Manifest = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            status["details"] = self.details
        return status


class Cause(Struct, frozen=True):
    """One reason why an object is invalid: a dotted path, `FieldValueRequired` or the like, and the message after the path."""

    field: str
    reason: str
    message: str


def value_required(field: str, why: str = "") -> Cause:
    """A field that must be there is not."""
    return Cause(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def value_invalid(field: str, value: str, rule: str) -> Cause:
    """A field's value, as JSON, breaks a rule."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {value}: {rule}")


def value_forbidden(field: str, why: str) -> Cause:
    """A field may not have this value, or may not be changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {why}")


def value_not_supported(field: str, value: object, supported: Iterable[object]) -> Cause:
    """A field's value is none of those that there are."""
    choices = ", ".join(json.dumps(choice) for choice in supported)
    message = f"Unsupported value: {json.dumps(value)}: supported values: {choices}"
    return Cause(field, "FieldValueNotSupported", message)


def value_too_many(field: str, count: int, most: int) -> Cause:
    """A list or map has too many items."""
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {most} items")


def compact_json(value: object) -> str:
    """A value as the server's messages have it."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def not_found(kind: Kind, name: str) -> Refused:
    """404: the object does not exist."""
    return Refused(404, "NotFound", f'{_resource(kind)} "{name}" not found', _details(kind, name))


class NoSuchPath(Refused):
    """404 for a path that is not served; the real server answers it in plain text."""

    TEXT = b"404 page not found\n"

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def method_not_allowed() -> Refused:
    """405."""
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_acceptable(message: str) -> Refused:
    """406: the client accepts nothing that the server has."""
    return Refused(406, "NotAcceptable", message)


def already_exists(kind: Kind, name: str) -> Refused:
    """409 AlreadyExists."""
    return Refused(409, "AlreadyExists", f'{_resource(kind)} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str) -> Refused:
    """409 Conflict: the object has changed since the writer read it."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {_resource(kind)} "{name}": {why}'
    return Refused(409, "Conflict", message, _details(kind, name))


def precondition_failed(kind: Kind, name: str, *, what: str, wanted: str, found: str) -> Refused:
    """409 Conflict of a delete; `what` is `UID` or `ResourceVersion`."""
    tail = "deleted and then recreated" if what == "UID" else "modified"
    who = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    message = (
        f'Operation cannot be fulfilled on {who} "{name}": the {what} in the precondition ({wanted}) '
        f"does not match the {what} in record ({found}). The object might have been {tail}"
    )
    return Refused(409, "Conflict", message, _details(kind, name, of=kind.kind))


def namespace_terminates(kind: Kind, name: str, namespace: str) -> Refused:
    """403: nothing is created in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated",
             "field": "metadata.namespace"}  # fmt: skip
    details = {"name": name, "kind": kind.plural, "causes": [cause]}
    return Refused(403, "Forbidden", f'{_resource(kind)} "{name}" is forbidden: {why}', details)


def denied_by_policy(kind: Kind, name: str, message: str) -> Refused:
    """403: a ValidatingAdmissionPolicy denies the write; the real server's message also names the policy and its binding."""
    denied = f"ValidatingAdmissionPolicy denied request: {message}"
    return Refused(403, "Forbidden", f'{_resource(kind)} "{name}" is forbidden: {denied}', _details(kind, name))


def apply_conflict(conflicts: list[tuple[str, str]]) -> Refused:
    """409 for a server-side apply; `conflicts` are pairs of the other manager, as the real server describes it, and a field."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field}
        for manager, field in conflicts
    ]
    word = "conflict" if len(conflicts) == 1 else "conflicts"
    if len(conflicts) == 1:
        text = f" conflict with {conflicts[0][0]}: {conflicts[0][1]}"
    else:
        by_manager: dict[str, list[str]] = {}
        for manager, field in conflicts:
            by_manager.setdefault(manager, []).append(field)
        text = "".join(f" conflicts with {m}:\n- " + "\n- ".join(fields) for m, fields in by_manager.items())
    message = f"Apply failed with {len(conflicts)} {word}:{text}"
    return Refused(409, "Conflict", message, {"causes": causes})


def invalid(kind: Kind, name: str, causes: list[Cause]) -> Refused:
    """422: the object breaks its type's rules; every cause is listed."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    who = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = _details(kind, name, of=kind.kind)
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return Refused(422, "Invalid", f'{who} "{name}" is invalid: {text}', details)


def bad_request(message: str) -> Refused:
    """400."""
    return Refused(400, "BadRequest", message)


def expired(message: str) -> Refused:
    """410: the resourceVersion or the continue token is no longer kept."""
    return Refused(410, "Expired", message)


def unsupported_media_type() -> Refused:
    """415."""
    return Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def options_invalid(options: str, field: str, reason: str, message: str) -> Refused:
    """422 for the parameters of a request; `options` is `ListOptions` or `PatchOptions`."""
    return Refused(
        422,
        "Invalid",
        f'{options}.meta.k8s.io "" is invalid: {field}: {message}',
        {"group": "meta.k8s.io", "kind": options, "causes": [{"reason": reason, "message": message, "field": field}]},
    )


def too_large_resource_version(wanted: int, current: int) -> Refused:
    """504: the reader asks for a newer state than this server has."""
    message = f"Too large resource version: {wanted}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Refused(504, "Timeout", message, {"retryAfterSeconds": 1, "causes": [cause]})


def too_many_requests(message: str, *, retry_after_s: int, causes: list[Any] | None = None) -> Refused:
    """429: try again later."""
    details: Manifest = {"retryAfterSeconds": retry_after_s} if retry_after_s else {}
    if causes:
        details["causes"] = causes
    return Refused(429, "TooManyRequests", message, details)


def _resource(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _details(kind: Kind, name: str, *, of: str | None = None) -> Manifest:
    details: Manifest = {"name": name, "kind": of or kind.plural}
    if kind.group:
        details["group"] = kind.group
    return details

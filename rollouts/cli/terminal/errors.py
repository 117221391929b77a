"""What went wrong with the cluster, in one sentence with the fix. Pure."""

from __future__ import annotations

import re

from rollouts.errors import (
    ApiExists,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnauthenticated,
    ApiUnavailable,
    RolloutsError,
)

APPLY_CRDS = "kubectl rollouts crds | kubectl apply --server-side -f -"
_DENIED = re.compile(r'\bcannot (\w+) resource "([^"]+)"(?:.*? in the namespace "([^"]+)")?')
_REQUEST = re.compile(r"^(?P<method>[A-Z]+) (?P<path>/\S*): (?P<rest>.*)$", re.DOTALL)
_MISSING = re.compile(r': 404 NotFound ([^".\s]+)(?:\.\S*)? "([^"]+)" not found')
_NAMESPACE = re.compile(r"/namespaces/([^/\s]+)/")
_STATUS = re.compile(r"^\d+ \w+ ")


def error_text(error: RolloutsError) -> str:
    """The sentence for people."""
    match error:
        case ApiNotFound() if is_not_served(error):
            return f"Rollouts are not installed in this cluster, or not this version of them: `{APPLY_CRDS}`"
        case ApiNotFound() if (missing := _MISSING.search(str(error))) is not None:
            return _missing(missing[1], missing[2], str(error))
        case ApiForbidden():
            return _forbidden(str(error))
        case ApiUnauthenticated():
            return "the API server does not know who you are: log in again, or look at the user of `kubectl config view --minify`"
        case ApiUnavailable():
            return _unavailable(str(error))
        case ApiExists() | ApiInvalid() if (found := _REQUEST.match(str(error))) is not None:
            return f"the API server refuses it: {_STATUS.sub('', found['rest'])}"
        case _:
            return str(error)


def is_not_served(error: ApiNotFound) -> bool:
    """Whether the API server does not serve the resource type at all; it has other words for a missing object."""
    return any(words in str(error) for words in ("404 page not found", "could not find the requested resource"))


def _missing(plural: str, name: str, said: str) -> str:
    if plural == "namespaces":
        return f"there is no namespace {name}: `kubectl create namespace {name}`, or name another one by -n"
    namespace = _NAMESPACE.search(said)
    where = f" in namespace {namespace[1]}" if namespace is not None else ""
    return f'{plural} "{name}" not found{where}: `kubectl get {plural} -A` lists all'


def _forbidden(said: str) -> str:
    found = _DENIED.search(said)
    if found is None:
        return f"the API server refuses: {said}"
    verb, resource, namespace = found.groups()
    where = f"in namespace {namespace}" if namespace else "in every namespace"
    role = "view" if verb in ("get", "list", "watch") else "edit"
    return (
        f"you may not {verb} {resource} {where}: ask for the ClusterRole `{role}`, which the chart extends to Rollouts"
    )


def _unavailable(said: str) -> str:
    found = _REQUEST.match(said)
    why = found["rest"] if found else said
    return f"the API server cannot be reached: {why}; is it the right cluster? (`kubectl cluster-info`)"

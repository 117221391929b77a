"""What went wrong with the cluster, in one sentence with the fix. Pure."""

from __future__ import annotations

import re

from rollouts.core.model.status import Verb
from rollouts.errors import (
    APPLY_CRDS,
    ApiExists,
    ApiForbidden,
    ApiInvalid,
    ApiNotFound,
    ApiUnauthenticated,
    ApiUnavailable,
    RolloutsError,
)

_DENIED = re.compile(r'\bcannot (\w+) resource "([^"]+)"(?:.*? in the namespace "([^"]+)")?')
_POLICY = re.compile(r"\bValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: (.*)", re.DOTALL)
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
            plural, name = missing[1], missing[2]
            if plural == "namespaces":
                return f"there is no namespace {name}: `kubectl create namespace {name}`, or name another one by -n"
            within = _NAMESPACE.search(str(error))
            where = f" in namespace {within[1]}" if within is not None else ""
            return f'{plural} "{name}" not found{where}: `kubectl get {plural} -A` lists all'
        case ApiForbidden() if (policy := _POLICY.search(str(error))) is not None:
            return f"the policy {policy[1]} refuses it: {policy[2]}"
        case ApiForbidden():
            denied = _DENIED.search(str(error))
            if denied is None:
                return f"the API server refuses: {error}"
            verb, resource, namespace = denied.groups()
            return may_not_text(verb, resource, namespace)
        case ApiUnauthenticated():
            return "the API server does not know who you are: log in again, or look at the user of `kubectl config view --minify`"
        case ApiUnavailable():
            request = _REQUEST.match(str(error))
            why = request["rest"] if request else str(error)
            return f"the API server cannot be reached: {why}; is it the right cluster? (`kubectl cluster-info`)"
        case ApiExists() | ApiInvalid() if (request := _REQUEST.match(str(error))) is not None:
            return f"the API server refuses it: {_STATUS.sub('', request['rest'])}"
        case _:
            return str(error)


def may_not_text(verb: str, resource: str, namespace: str | None) -> str:
    """The sentence about a right that somebody lacks, in one namespace or in all. `verb` may be several, with commas."""
    where = f"in namespace {namespace}" if namespace else "in every namespace"
    if {*verb.split(", ")} <= {*Verb}:
        return f"you may not {verb} {resource} {where}: ask for the ClusterRole `rollouts-commands` of the chart"
    if verb == "impersonate":
        return (
            f"you may not impersonate these {resource}: ask for a ClusterRole with the verb `impersonate` on {resource}"
        )
    role = "view" if verb in ("get", "list", "watch") else "edit"
    return (
        f"you may not {verb} {resource} {where}: ask for the ClusterRole `{role}`, which the chart extends to Rollouts"
    )


def is_not_served(error: ApiNotFound) -> bool:
    """Whether the API server does not serve the resource type at all; it has other words for a missing object."""
    return any(words in str(error) for words in ("404 page not found", "could not find the requested resource"))

"""Parts of what Helm renders of the chart."""

from __future__ import annotations

from typing import Any

Documents = list[dict[str, Any]]


def only(documents: Documents, kind: str) -> dict[str, Any]:
    (found,) = [one for one in documents if one["kind"] == kind]
    return found


def container(documents: Documents) -> dict[str, Any]:
    """The controller's."""
    found: dict[str, Any] = only(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    return found


def rules(documents: Documents) -> Documents:
    return [rule for one in documents if one["kind"] in {"Role", "ClusterRole"} for rule in one["rules"]]


def named(documents: Documents, ending: str) -> Documents:
    """Those whose names end so."""
    return [one for one in documents if one["metadata"]["name"].endswith(ending)]


def granted(documents: Documents) -> set[tuple[str, str, str]]:
    """Group, resource and verb of everything that their rules allow."""
    return {
        (group, resource, verb)
        for rule in rules(documents)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }

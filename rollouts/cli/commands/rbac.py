"""`rollouts rbac`: the Roles with which the controller may read the Secrets that analyses and Rollouts name. Pure; no cluster.

They name each Secret: the controller may get those, may list none, and may read no other. For copies of the Secrets of Rollouts
it may create Secrets, which RBAC cannot limit by name; it may change and delete none. Each object has Roles of its own: who
applies those of one file takes no right from another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.cli.kubernetes.parts import is_a
from rollouts.core.config.references import references
from rollouts.core.model.config import ConfigKind
from rollouts.manifests.ownership import CONFIG_KEY_NAME
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    ROLLOUT,
    SECRET,
    Manifest,
    name_problem,
    namespace_problem,
)

ROLE_NAME = "rollouts-analysis-secrets"
CONFIG_ROLE_NAME = "rollouts-config-secrets"
_NAMESPACED = (ANALYSIS_TEMPLATE.kind, ANALYSIS_RUN.kind)
_RBAC = "rbac.authorization.k8s.io"


class Account(Struct, frozen=True):
    """The ServiceAccount of the controller."""

    namespace: str
    name: str


class RoleKey(Struct, frozen=True, order=True):
    """A Role: its namespace and its name, which says whose Secrets it is about."""

    namespace: str
    name: str


SecretsNamed: TypeAlias = Mapping[RoleKey, tuple[str, ...]]
"""The names of Secrets in their order, by the Role that is to open them, in the order of the Roles."""


def parse_account(text: str) -> Account:
    """Reads NAMESPACE/NAME. Raises: ValueError that says what is allowed."""
    namespace, slash, name = text.partition("/")
    if not slash or namespace_problem(namespace) or name_problem(name):
        raise ValueError(f"must be NAMESPACE/NAME of a ServiceAccount, not {text!r}")
    return Account(namespace, name)


def secrets_named(manifests: Sequence[Manifest], namespaces: Sequence[str]) -> SecretsNamed:
    """The Secrets that arguments of analyses name.

    Args:
        namespaces: of objects that have none of their own, such as ClusterAnalysisTemplates.

    Raises: ValueError for an object whose namespace or name is not known, and for a Secret whose name is not.
    """
    found: dict[RoleKey, set[str]] = {}
    for manifest in manifests:
        names = tuple(_secrets_of(manifest))
        for name in names:
            if problem := name_problem(name):
                raise ValueError(f"{_title(manifest)}: the name of a Secret {problem}")
        if names:
            role = f"{ROLE_NAME}-{manifest['kind'].lower()}-{_name_of(manifest)}"
            for namespace in _namespaces_of(manifest, namespaces):
                found.setdefault(RoleKey(namespace, role), set()).update(names)
    return {key: tuple(sorted(found[key])) for key in sorted(found)}


def config_secrets_named(manifests: Sequence[Manifest], namespaces: Sequence[str]) -> SecretsNamed:
    """The Secrets that Rollouts version, and that of the key.

    Args:
        namespaces: of Rollouts that name none.

    Raises: ValueError for a Rollout whose namespace or name is not known.
    """
    found: dict[RoleKey, set[str]] = {}
    for manifest in manifests:
        spec = _object(manifest.get("spec"))
        versioning = _object(spec.get("configVersioning"))
        if not is_a(manifest, ROLLOUT) or versioning.get("secrets") is not True or versioning.get("mode") == "Off":
            continue
        refs = references(_object(spec.get("template")), secrets=True)
        if names := [ref.name for ref in refs if ref.kind is ConfigKind.SECRET]:
            role = f"{CONFIG_ROLE_NAME}-{_name_of(manifest)}"
            for namespace in _namespaces_of(manifest, namespaces):
                found.setdefault(RoleKey(namespace, role), {CONFIG_KEY_NAME}).update(names)
    return {key: tuple(sorted(found[key])) for key in sorted(found)}


def roles(secrets: SecretsNamed, account: Account) -> list[Manifest]:
    """Roles and RoleBindings for the Secrets of analyses."""
    return _roles(secrets, account, makes_copies=False)


def config_roles(secrets: SecretsNamed, account: Account) -> list[Manifest]:
    """Roles and RoleBindings for the Secrets that Rollouts version, and their copies."""
    return _roles(secrets, account, makes_copies=True)


def _roles(secrets: SecretsNamed, account: Account, *, makes_copies: bool) -> list[Manifest]:
    made: list[Manifest] = []
    for role, names in secrets.items():
        metadata = {"name": role.name, "namespace": role.namespace}
        about = {"apiGroups": [SECRET.group], "resources": [SECRET.plural]}
        rules: list[Manifest] = [{**about, "resourceNames": list(names), "verbs": ["get"]}]
        if makes_copies:
            rules.append({**about, "verbs": ["create"]})
        head = {"apiVersion": f"{_RBAC}/v1"}
        made += [
            {**head, "kind": "Role", "metadata": metadata, "rules": rules},
            {
                **head,
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": role.name},
                "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
            },
        ]
    return made


def _namespaces_of(manifest: Manifest, namespaces: Sequence[str]) -> Sequence[str]:
    own = _object(manifest.get("metadata")).get("namespace")
    if manifest["kind"] in (*_NAMESPACED, ROLLOUT.kind) and isinstance(own, str) and own:
        return (own,)
    if not namespaces:
        raise ValueError(f"{_title(manifest)}: has no namespace; name those in which it is used, with -n")
    return namespaces


def _name_of(manifest: Manifest) -> str:
    """The name of an object, or what the API server makes it of."""
    metadata = _object(manifest.get("metadata"))
    name = str(metadata.get("name") or metadata.get("generateName") or "").rstrip("-")
    if problem := name_problem(name):
        raise ValueError(f"{manifest['kind']}: metadata.name {problem}")
    return name


def _secrets_of(manifest: Manifest) -> Iterator[str]:
    kinds = (*_NAMESPACED, CLUSTER_ANALYSIS_TEMPLATE.kind)
    if manifest.get("apiVersion") != ANALYSIS_TEMPLATE.api_version or manifest.get("kind") not in kinds:
        return
    args = _object(manifest.get("spec")).get("args")
    for argument in args if isinstance(args, list) else ():
        reference = _object(_object(_object(argument).get("valueFrom")).get("secretKeyRef"))
        if isinstance(reference.get("name"), str):
            yield reference["name"]


def _title(manifest: Manifest) -> str:
    return f"{manifest.get('kind')} {_object(manifest.get('metadata')).get('name')}"


def _object(value: Any) -> Manifest:
    return value if isinstance(value, dict) else {}

"""`rollouts rbac`: the Roles with which the controller may read the Secrets that analyses and Rollouts name. Pure; no cluster.

They name each Secret: the controller may get those, may list none, and may read no other. For copies of the Secrets of Rollouts
it may create Secrets, which RBAC cannot limit by name; it may change and delete none. Each object has Roles of its own: who
applies those of one file takes no right from another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeAlias

import typer
from msgspec import Struct

from rollouts.cli.exits import Exit
from rollouts.cli.terminal.options import FilesOption, fail, note, read_manifests
from rollouts.core.config.references import references
from rollouts.core.model.config import ConfigKind
from rollouts.manifests.ownership import CONFIG_KEY_NAME
from rollouts.objects import (
    CLUSTER_ANALYSIS_TEMPLATE,
    ROLLOUT,
    SECRET,
    Manifest,
    mapping,
    name_problem,
    namespace_problem,
)

ROLE_NAME = "rollouts-analysis-secrets"
CONFIG_ROLE_NAME = "rollouts-config-secrets"
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


def rbac(
    files: FilesOption,
    account: Annotated[
        str, typer.Option("--service-account", metavar="NAMESPACE/NAME", help="The controller's ServiceAccount.")
    ] = "rollouts-system/rollouts",
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "-n", "--namespace", metavar="NAME", help="Where objects without a namespace are used; repeatable."
        ),
    ] = None,
) -> None:
    """Print the Roles with which the controller may read the Secrets that analyses and Rollouts in files name. Needs no cluster.

    Secrets of a Rollout's pods count with `configVersioning.secrets: true`. Each object has a Role of its own, which says each
    Secret by name; for copies of a Rollout's Secrets there is the right to create Secrets, too. Apply them by:
    `rollouts rbac -f FILE | kubectl apply -f -`.
    """
    from rollouts.api.schema import yaml_text  # noqa: PLC0415 - main.py says why

    manifests = read_manifests(files)
    try:
        named = secrets_named(manifests, namespaces or ())
        versioned = config_secrets_named(manifests, namespaces or ())
        controller = parse_account(account)
    except ValueError as wrong:
        fail(str(wrong))
        raise typer.Exit(Exit.USAGE) from None
    made = [*roles(named, controller), *roles(versioned, controller, makes_copies=True)]
    if not made:
        note("no argument of an analysis in the files names a Secret, and no Rollout versions one")
    sys.stdout.write("---\n".join(yaml_text(manifest) for manifest in made))


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
            prefix = f"{ROLE_NAME}-{manifest['kind'].lower()}"
            for role in _roles_of(manifest, prefix, namespaces):
                found.setdefault(role, set()).update(names)
    return {role: tuple(sorted(found[role])) for role in sorted(found)}


def config_secrets_named(manifests: Sequence[Manifest], namespaces: Sequence[str]) -> SecretsNamed:
    """The Secrets that Rollouts version, and that of the key.

    Args:
        namespaces: of Rollouts that name none.

    Raises: ValueError for a Rollout whose namespace or name is not known.
    """
    found: dict[RoleKey, set[str]] = {}
    for manifest in manifests:
        spec = mapping(manifest.get("spec"))
        versioning = mapping(spec.get("configVersioning"))
        ours = (manifest.get("apiVersion"), manifest.get("kind")) == (ROLLOUT.api_version, ROLLOUT.kind)
        if not ours or versioning.get("secrets") is not True or versioning.get("mode") == "Off":
            continue
        refs = references(mapping(spec.get("template")), secrets=True)
        if names := [ref.name for ref in refs if ref.kind is ConfigKind.SECRET]:
            for role in _roles_of(manifest, CONFIG_ROLE_NAME, namespaces):
                found.setdefault(role, {CONFIG_KEY_NAME}).update(names)
    return {role: tuple(sorted(found[role])) for role in sorted(found)}


def roles(secrets: SecretsNamed, account: Account, *, makes_copies: bool = False) -> list[Manifest]:
    """Roles and RoleBindings for Secrets; with copies, the controller may create Secrets, too."""
    made: list[Manifest] = []
    head, about = {"apiVersion": f"{_RBAC}/v1"}, {"apiGroups": [SECRET.group], "resources": [SECRET.plural]}
    subjects = [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}]
    for role, names in secrets.items():
        metadata = {"name": role.name, "namespace": role.namespace}
        rules: list[Manifest] = [{**about, "resourceNames": list(names), "verbs": ["get"]}]
        rules += [{**about, "verbs": ["create"]}] if makes_copies else []
        made.append({**head, "kind": "Role", "metadata": metadata, "rules": rules})
        role_ref = {"apiGroup": _RBAC, "kind": "Role", "name": role.name}
        made.append({**head, "kind": "RoleBinding", "metadata": metadata, "roleRef": role_ref, "subjects": subjects})
    return made


def _roles_of(manifest: Manifest, prefix: str, namespaces: Sequence[str]) -> list[RoleKey]:
    """The Role of an object, in each namespace where it is used. Its name is what the API server makes it of."""
    metadata = mapping(manifest.get("metadata"))
    name = str(metadata.get("name") or metadata.get("generateName") or "").rstrip("-")
    if problem := name_problem(name):
        raise ValueError(f"{manifest['kind']}: metadata.name {problem}")
    own = metadata.get("namespace")
    if manifest["kind"] != CLUSTER_ANALYSIS_TEMPLATE.kind and isinstance(own, str) and own:
        namespaces = (own,)
    if not namespaces:
        raise ValueError(f"{_title(manifest)}: has no namespace; name those in which it is used, with -n")
    return [RoleKey(namespace, f"{prefix}-{name}") for namespace in namespaces]


def _secrets_of(manifest: Manifest) -> Iterator[str]:
    from rollouts.cli.kubernetes.parts import arguments_in  # noqa: PLC0415 - main.py says why

    for _, argument in arguments_in(manifest):
        reference = mapping(mapping(argument.get("valueFrom")).get("secretKeyRef"))
        if isinstance(reference.get("name"), str):
            yield reference["name"]


def _title(manifest: Manifest) -> str:
    return f"{manifest.get('kind')} {mapping(manifest.get('metadata')).get('name')}"

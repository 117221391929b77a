"""Promise: `rollouts rbac` prints the rights that the Secrets of analyses need, and none besides."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.commands.rbac import Account, RoleKey, parse_account, roles, secrets_named
from rollouts.cli.exits import Exit
from rollouts.objects import Manifest
from tests.cli.command_line import CommandLine

API = "rollouts.dev/v1alpha1"


def template(
    *secrets: str, kind: str = "AnalysisTemplate", namespace: str = "shop", name: str = "t", **head: Any
) -> Manifest:
    """A template whose arguments come from Secrets."""
    args = [{"name": each, "valueFrom": {"secretKeyRef": {"name": each, "key": "token"}}} for each in secrets]
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": {"args": [{"name": "a"}, *args]}, **head}


@pytest.mark.parametrize(
    ("manifests", "namespaces", "secrets"),
    [
        ([template("b", "a"), template("a", "c"), template("d", namespace="cart")], (), {"cart": "d", "shop": "abc"}),
        ([template("a", kind="AnalysisRun")], ("other",), {"shop": "a"}),
        ([template("a", namespace="")], ("one", "two"), {"one": "a", "two": "a"}),
        ([template("a", kind="ClusterAnalysisTemplate", namespace="")], ("one",), {"one": "a"}),
        ([template(namespace="")], (), {}),
        ([template("a", kind="ConfigMap"), template("a", apiVersion="argoproj.io/v1alpha1")], (), {}),
        ([template(spec={"args": [None, {"valueFrom": {"fieldRef": {"fieldPath": "a"}}}]}), template(spec=[])], (), {}),
    ],
)
def test_each_secret_is_named_once_in_its_namespace(
    manifests: list[Manifest], namespaces: tuple[str, ...], secrets: dict[str, str]
) -> None:
    """A template of the cluster needs the namespaces in which it is used."""
    named = secrets_named(manifests, namespaces)

    assert {role.namespace: "".join(each) for role, each in named.items()} == secrets


def test_each_object_has_a_role_of_its_own() -> None:
    """Somebody who applies the Roles of one file would otherwise take the rights of all other files of the namespace."""
    of_cluster = template("a", kind="ClusterAnalysisTemplate", namespace="")
    run = template("a", kind="AnalysisRun", name="")
    run["metadata"]["generateName"] = "by-hand-"

    assert secrets_named([template("a"), template("b", name="u"), of_cluster, run], ("shop",)) == {
        RoleKey("shop", "rollouts-analysis-secrets-analysisrun-by-hand"): ("a",),
        RoleKey("shop", "rollouts-analysis-secrets-analysistemplate-t"): ("a",),
        RoleKey("shop", "rollouts-analysis-secrets-analysistemplate-u"): ("b",),
        RoleKey("shop", "rollouts-analysis-secrets-clusteranalysistemplate-t"): ("a",),
    }


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (template("a", namespace=""), "AnalysisTemplate t: has no namespace"),
        (template("a", kind="ClusterAnalysisTemplate"), "ClusterAnalysisTemplate t: has no namespace"),
        (template("A/b"), "AnalysisTemplate t: the name of a Secret must be the name of an object"),
        (template("a", name="../x"), "AnalysisTemplate: metadata.name must be the name of an object"),
    ],
)
def test_what_is_not_known_is_not_guessed(manifest: Manifest, words: str) -> None:
    """A Role in the wrong namespace opens the wrong Secret."""
    with pytest.raises(ValueError, match=words):
        secrets_named([manifest], ())


def test_a_role_may_get_these_secrets_and_nothing_else() -> None:
    """No list, no watch, no other name; bound to the one account."""
    role, binding = roles({RoleKey("shop", "of-t"): ("a", "b")}, Account("rollouts-system", "rollouts"))

    secrets = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]}
    assert role["rules"] == [secrets]
    assert role["metadata"] == binding["metadata"] == {"name": "of-t", "namespace": "shop"}
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "of-t"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "rollouts", "namespace": "rollouts-system"}]


def test_an_account_is_namespace_and_name() -> None:
    """As the chart calls it; a name alone would be of any namespace."""
    assert parse_account("a/b") == Account("a", "b")
    for wrong in ("b", "/b", "a/", "a/b/c", "A/b"):
        with pytest.raises(ValueError, match="NAMESPACE/NAME"):
            parse_account(wrong)


def test_the_command_prints_yaml_that_kubectl_takes(typed: CommandLine) -> None:
    """`rollouts rbac -f templates.yaml | kubectl apply -f -`."""
    file = typed.file(template("a"), template("b", namespace=""))

    made = list(yaml.safe_load_all(typed("rbac", "-f", file, "--service-account", "r/c", "-n", "cart").out))
    role = "rollouts-analysis-secrets-analysistemplate-t"
    assert made == roles({RoleKey("cart", role): ("b",), RoleKey("shop", role): ("a",)}, Account("r", "c"))
    assert "has no namespace" in typed("rbac", "-f", file, code=Exit.USAGE).err
    assert "names a Secret" in typed("rbac", "-f", typed.file(template())).err

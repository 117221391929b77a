"""Promise: `rollouts rbac` prints the rights that the Secrets of analyses and of Rollouts need, and none besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import yaml

from rollouts.cli.commands.rbac import (
    Account,
    RoleKey,
    config_secrets_named,
    parse_account,
    roles,
    secrets_named,
)
from rollouts.cli.exits import Exit
from rollouts.manifests.ownership import CONFIG_KEY_NAME
from rollouts.objects import Manifest
from tests.cli.command_line import CommandLine
from tests.cli.test_secrets_are_known_by_commands import reading

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


def test_arguments_of_experiments_count() -> None:
    """Of the kind, and of a step of a Rollout."""
    args = template("a", "b")["spec"]["args"]
    tried = {"analyses": [{"name": "x", "templateName": "t", "args": args}, {"name": "y", "templateName": "t"}]}
    canary = {"steps": [{"setWeight": 1}, {"experiment": tried}]}

    assert secrets_named([template(kind="Experiment", spec=tried), template(kind="Experiment", spec=[])], ()) == {
        RoleKey("shop", "rollouts-analysis-secrets-experiment-t"): ("a", "b"),
    }
    assert secrets_named([template(kind="Rollout", spec={"strategy": {"canary": canary}})], ()) == {
        RoleKey("shop", "rollouts-analysis-secrets-rollout-t"): ("a", "b"),
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


ABOUT = {"apiGroups": [""], "resources": ["secrets"]}


@pytest.mark.parametrize(
    ("made", "more"), [(roles, []), (partial(roles, makes_copies=True), [{**ABOUT, "verbs": ["create"]}])]
)
def test_a_role_may_get_these_secrets_and_nothing_else(
    made: Callable[..., list[Manifest]], more: list[Manifest]
) -> None:
    """No list, no watch, no other name; bound to the one account. RBAC cannot limit the names of what is created."""
    role, binding = made({RoleKey("shop", "of-t"): ("a", "b")}, Account("rollouts-system", "rollouts"))

    assert role["rules"] == [{**ABOUT, "resourceNames": ["a", "b"], "verbs": ["get"]}, *more]
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


ROLE = "rollouts-config-secrets-cart"


@pytest.mark.parametrize(
    ("manifests", "named"),
    [
        ([reading("b", "a")], {RoleKey("one", ROLE): ("a", "b", CONFIG_KEY_NAME)}),
        ([reading("a", mode="On"), reading("a", secrets=False), reading("a", secrets=True, mode="Off")], {}),
        ([{**reading("a"), "metadata": {"name": "x", "namespace": "two"}}],
         {RoleKey("two", "rollouts-config-secrets-x"): ("a", CONFIG_KEY_NAME)}),
        # two teams of a namespace would otherwise take the rights from each other, in turn
        ([reading("a"), {**reading("b"), "metadata": {"name": "x"}}, reading("c")],
         {RoleKey("one", ROLE): ("a", "c", CONFIG_KEY_NAME),
          RoleKey("one", "rollouts-config-secrets-x"): ("b", CONFIG_KEY_NAME)}),
        ([{**reading("a"), "apiVersion": "argoproj.io/v1alpha1"}], {}),
    ],
)  # fmt: skip
def test_the_secrets_of_rollouts_that_opted_in_are_named_with_the_key(
    manifests: list[Manifest], named: Mapping[RoleKey, tuple[str, ...]]
) -> None:
    """A Rollout that has not said so needs no right, and gets none."""
    assert config_secrets_named(manifests, ("one",)) == named


def test_the_command_prints_the_roles_of_rollouts(typed: CommandLine) -> None:
    """`rollouts rbac -f rollout.yaml -n shop | kubectl apply -f -`."""
    file = typed.file(reading())

    made = list(yaml.safe_load_all(typed("rbac", "-f", file, "-n", "shop").out))
    assert made == roles(
        {RoleKey("shop", ROLE): ("db", CONFIG_KEY_NAME)}, Account("rollouts-system", "rollouts"), makes_copies=True
    )
    assert "Rollout cart: has no namespace" in typed("rbac", "-f", file, code=Exit.USAGE).err

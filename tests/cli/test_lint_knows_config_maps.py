"""Promise: `lint` finds the keys that a ConfigMap in the files lacks, and says what the cluster must have."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rollouts.cli.commands.lint_output import LintReport
from rollouts.core.config.content import copy_name
from rollouts.core.model.config import ConfigKind
from rollouts.objects import Manifest
from tests import build
from tests.cli.command_line import CommandLine
from tests.cli.configured import config_map, secret
from tests.linted import lint_text

APP = config_map("app", {"LEVEL": "info"}, {"logo.png": b"\x89"})
COPY = copy_name(ConfigKind.CONFIG_MAP, rollout="cart", source="app", content="bcdfghjklm")


def cart(*, env: list[Manifest] | None = None, env_from: list[Manifest] | None = None, volumes: list[Manifest] | None = None,
         mounts: list[Manifest] | None = None, **spec: Any) -> Manifest:  # fmt: skip
    """A Rollout whose one container takes its configuration from there."""
    container = {"env": env or [], "envFrom": env_from or [], "volumeMounts": mounts or []}
    template = build.pod_template("cart", image="cart:1", container=container, volumes=volumes or [])
    return build.rollout({"canary": {}}, "cart", template=template, **spec)


def key(name: str, of: str = "app", **more: Any) -> Manifest:
    """A variable from one key of a ConfigMap."""
    return {"name": f"KEY_{name}", "valueFrom": {"configMapKeyRef": {"name": of, "key": name, **more}}}


def linted(*manifests: Manifest) -> LintReport:
    """The report on a file with these objects."""
    return lint_text(yaml.safe_dump_all(manifests, sort_keys=False))


def about_config(report: LintReport) -> list[str]:
    """The advice about configuration: severity and text."""
    words = ("is not in these files", "looks like a copy", "mounted by subPath")
    return [each.message for each in report.advice if any(word in each.message for word in words)]


ITEMS = {"configMap": {"name": "app", "items": [{"key": "LEVL", "path": "l"}]}}


@pytest.mark.parametrize(
    ("rollout", "path"),
    [
        (cart(env=[key("LEVEL"), key("LEVL")]), "containers[0].env[1].valueFrom.configMapKeyRef.key"),
        (cart(volumes=[{"name": "v", **ITEMS}]), "volumes[0].configMap.items[0].key"),
        (cart(volumes=[{"name": "v", "projected": {"sources": [ITEMS]}}]),
         "volumes[0].projected.sources[0].configMap.items[0].key"),
    ],
)  # fmt: skip
def test_a_key_that_the_config_map_lacks_is_a_problem(rollout: Manifest, path: str) -> None:
    """Pods would stay in CreateContainerConfigError, each of them, whatever the strategy."""
    text = yaml.safe_dump_all([rollout, APP], sort_keys=False)
    (problem,) = lint_text(text).problems

    assert text.splitlines()[problem.line - 1].strip().removeprefix("- ") == "key: LEVL", "editors jump there"
    assert problem.message == (
        f"spec.template.spec.{path}: ConfigMap app in these files has no key 'LEVL': the pods do not start without it"
    )


@pytest.mark.parametrize(
    "rollout",
    [
        cart(env=[key("LEVEL"), key("logo.png")]),
        cart(env=[key("LEVL", optional=True)]),
        cart(env=[key("LEVL", of="elsewhere")]),
        cart(env_from=[{"configMapRef": {"name": "app"}}]),
    ],
    ids=["keys of both kinds", "optional", "of another ConfigMap", "all keys"],
)
def test_what_pods_can_start_with_is_no_problem(rollout: Manifest) -> None:
    """A false alarm is one that people learn to ignore."""
    assert linted(rollout, APP).problems == []


def test_keys_of_secrets_are_checked_without_their_values() -> None:
    """`stringData` is data when it is stored."""
    env = [
        {"name": name.upper(), "valueFrom": {"secretKeyRef": {"name": "db", "key": name}}}
        for name in ("user", "password", "pasword")
    ]
    stored = {**secret("db", {"user": "cart"}), "stringData": {"password": "hunter2"}}

    (problem,) = linted(cart(env=env), stored).problems

    assert "Secret db in these files has no key 'pasword'" in problem.message
    assert "hunter2" not in problem.message


def test_a_config_map_of_another_namespace_is_another_one() -> None:
    """Pods read their own namespace only."""
    elsewhere = {**APP, "metadata": {"name": "app", "namespace": "other"}}

    report = linted(cart(env=[key("LEVL")]), elsewhere)

    assert report.problems == []
    assert len(about_config(report)) == 1


def test_a_config_map_that_is_not_in_the_files_is_a_note() -> None:
    """Charts keep it apart, so it is no problem; a typing error looks the same."""
    rollout = cart(env=[key("LEVEL")], env_from=[{"configMapRef": {"name": "flags", "optional": True}}])
    (note,) = about_config(linted(rollout))

    assert note.startswith(
        "note: spec.template.spec.containers[0].env[0].valueFrom.configMapKeyRef: ConfigMap app is not"
    )
    assert "the rollout waits if the cluster lacks it" in note
    off = {**rollout, "spec": {**rollout["spec"], "configVersioning": {"mode": "Off"}}}
    assert "its pods do not start if the cluster lacks it" in about_config(linted(off))[0]
    assert about_config(linted(rollout, APP)) == []


def test_each_source_is_told_once_and_what_the_cluster_keeps_is_not() -> None:
    """Fifty variables of one ConfigMap are one note; Secrets are seldom in files."""
    root_ca = {"name": "ca", "configMap": {"name": "kube-root-ca.crt"}}
    volumes = [root_ca, {"name": "db", "secret": {"secretName": "db"}}]

    assert len(about_config(linted(cart(env=[key("A"), key("B"), key("C")], volumes=volumes)))) == 1


def test_a_copy_is_not_to_be_named_by_hand() -> None:
    """The controller deletes it when no revision has it any more, and then these pods do not start."""
    by_name = about_config(linted(cart(env_from=[{"configMapRef": {"name": COPY}}]), APP))
    beside = about_config(linted(cart(env_from=[{"configMapRef": {"name": each}} for each in ("app", COPY)])))
    labels = {"name": "any", "labels": {"rollouts.dev/config-copy": "true"}}
    by_label = about_config(linted(cart(env_from=[{"configMapRef": {"name": "any"}}]), {**APP, "metadata": labels}))

    for found in (by_name[0], beside[-1], by_label[0]):
        assert found.startswith("warning: ") and "looks like a copy that the controller made" in found
    assert by_name[0].endswith("name ConfigMap app instead")


@pytest.mark.parametrize("name", ["app-7f9c2k5m4h", "app-settings", "app-bcdfghjklmn"])
def test_names_with_a_hash_of_others_are_left_alone(name: str) -> None:
    """Kustomize and Helm hash names too; these objects are in the files, and their plain names are nowhere."""
    found = about_config(linted(cart(env_from=[{"configMapRef": {"name": name}}]), config_map(name, {"A": "1"})))

    assert found == []


def test_a_file_mounted_by_sub_path_is_a_note_only_without_versioning() -> None:
    """With versioning each revision has its own file, so the pitfall is gone."""
    volumes = [{"name": "v", "configMap": {"name": "app"}}, {"name": "w", "configMap": {"name": "left"}}]
    mounts = [{"name": "v", "mountPath": "/a", "subPath": "LEVEL"}, {"name": "w", "mountPath": "/b", "subPathExpr": "L"},
              {"name": "v", "mountPath": "/c"}]  # fmt: skip
    metadata = {"name": "left", "annotations": {"rollouts.dev/config-versioning": "off"}}
    left = {**config_map("left", {"L": "1"}), "metadata": metadata}

    on = about_config(linted(cart(volumes=volumes, mounts=mounts), APP, left))
    off = about_config(linted(cart(volumes=volumes, mounts=mounts, configVersioning={"mode": "Off"}), APP, left))

    (note,) = on
    assert note.startswith("note: spec.template.spec.containers[0].volumeMounts[1]: ")
    assert len(off) == 2 and "an edit of ConfigMap app never reaches a file that is mounted by subPath" in off[0]


def test_files_are_read_together(typed: CommandLine) -> None:
    """The ConfigMap is often in a file of its own."""
    files = typed.file(cart(env=[key("LEVL")]), name="rollout.yaml"), typed.file(APP, name="config.yaml")

    assert "has no key 'LEVL'" in typed("lint", "-f", files[0], "-f", files[1], code=1).out

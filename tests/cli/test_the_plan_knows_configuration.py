"""Promise: a plan says which ConfigMaps a change versions and which Rollouts it starts; what may not be read does not stop it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rollouts.api.spec.parse import parse_spec
from rollouts.cli.demo.manifests import service
from rollouts.cli.plan.config import ConfigState, PlannedConfig
from rollouts.cli.plan.words import config_lines
from rollouts.core.config.content import config_revision
from rollouts.core.model.config import ConfigUse
from rollouts.manifests.ownership import HASH_SCHEME_LABEL
from rollouts.objects import CONFIG_MAP, REPLICA_SET, ROLLOUT, SERVICE, Manifest
from tests import build
from tests.cli.configured import KINDS, MAP, config_map, noted, secret, use
from tests.cli.runs import OWNER, Served, replica_set

OLD = config_map("app", {"LEVEL": "info", "SAME": "1"})
NEW = config_map("app", {"LEVEL": "debug", "SAME": "1", "MORE": "x"})
FLAGS = config_map("flags", {"on": "yes"})


def cart(
    name: str = "cart", *, refs: tuple[Mapping[str, Any], ...] = (), image: str = "cart:1", **spec: Any
) -> Manifest:
    """A Rollout whose pods take their environment from the ConfigMaps app and flags, and from `refs`."""
    sources = [{"configMapRef": {"name": "app"}}, {"configMapRef": {"name": "flags"}}, *refs]
    probe = {"httpGet": {"path": "/", "port": 80}}
    template = build.pod_template(name, image=image, container={"envFrom": sources, "readinessProbe": probe})
    strategy = {"canary": {"steps": [{"setWeight": 50}, {"pause": {}}]}}
    return build.rollout(strategy, name, template=template, **spec)


def revision_of(rollout: Manifest, *uses: ConfigUse) -> str:
    """The revision of its template with these contents."""
    return config_revision(parse_spec(rollout["spec"]).template_hash, uses)


async def install(there: Served, rollout: Manifest, *sources: Manifest, copied: bool = True, key: bytes = b"") -> str:
    """The revision of the Rollout, rolled out with these sources, and all that belongs to it.

    It reads the sources themselves where they are not copied, as the version before did; `key` is that of Secrets' hashes.
    """
    name = rollout["metadata"]["name"]
    uses = tuple(use(each, copied=copied, key=key) for each in sources)
    revision = revision_of(rollout, *(uses if copied else ()))
    status = {"phase": "Healthy", "currentRevision": revision, "stableRevision": revision, "observedGeneration": 1,
              "currentStepIndex": 2}  # fmt: skip
    await there.create(ROLLOUT, {**rollout, "status": status})
    made = await there.object(ROLLOUT, name)
    owner = [{**OWNER, "name": name, "uid": made["metadata"]["uid"]}]
    of = noted(replica_set(made), revision, 1, *uses)
    labels = {**of["metadata"]["labels"], "rollouts.dev/name": name, "app": name}
    labels |= {HASH_SCHEME_LABEL: "v2" if copied else "v1"}
    metadata = {**of["metadata"], "name": f"{name}-{revision}", "labels": labels, "ownerReferences": owner}
    spec = {**of["spec"], "replicas": 2, "selector": {"matchLabels": labels}}
    spec["template"]["metadata"]["labels"] = labels
    counts = {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "observedGeneration": 1}
    await there.create(REPLICA_SET, {**of, "metadata": metadata, "spec": spec, "status": counts})
    for each, its in zip(sources, uses, strict=True):
        await there.create(KINDS[its.kind], each)
        if copied:
            copy = {**each, "metadata": {"name": its.copy, "ownerReferences": owner}, "immutable": True}
            await there.create(KINDS[its.kind], copy)
    return revision


async def planned(there: Served, *manifests: Manifest) -> dict[str, Any]:
    """The plan of a file with these objects, as data; its exit code says whether anything is unsafe."""
    said = await there.run("plan", "-f", there.file(*manifests), "-o", "json", code=None)
    document: dict[str, Any] = json.loads(said.out)
    assert said.code == (5 if any(each["unsafe"] for each in document["plans"]) else 0)
    return document


def rules(plan: dict[str, Any]) -> dict[str, str]:
    """The findings about configuration, with their severity."""
    return {each["rule"]: each["severity"] for each in plan["findings"] if each["rule"].startswith("Config")}


async def test_a_changed_config_map_is_a_new_revision_with_its_own_copy(there: Served) -> None:
    """The steps are those of the update, although the template is the same; keys are compared with the running copy."""
    before = await install(there, cart(), OLD, FLAGS)
    again = await planned(there, cart(), OLD, FLAGS)
    document = await planned(there, cart(), NEW)

    (same,) = again["plans"]  # no update: the next one is shown, as ever
    assert (same["revision"]["target"], same["revision"]["changes"], same["supposed"]) == (before, False, True)
    assert [each["starts"] for each in again["configMaps"]] == [[], []] and len(same["steps"]) >= 2
    (plan,) = document["plans"]
    after = revision_of(cart(), use(NEW), use(FLAGS))
    revisions = {"template": after, "current": before, "stable": before, "target": after}
    assert plan["revision"] == {**revisions, "changes": True}
    assert (plan["supposed"], plan["stuck"]) == (False, None)
    assert [step["what"] for step in plan["steps"]][:2] == ["1 setWeight 50", "2 pause until promoted"]
    assert plan["config"] == [
        {"kind": "ConfigMap", "name": name, "change": change, "changedKeys": keys, "copy": use(source).copy}
        for name, change, keys, source in (("app", "changed", ["LEVEL", "MORE"], NEW), ("flags", "same", None, FLAGS))
    ]
    assert document["configMaps"] == [
        {"namespace": "default", "name": "app", "exists": True, "changedKeys": ["LEVEL", "MORE"], "starts": ["cart"]}
    ]

    await there.create(SERVICE, service("default", "cart", app="cart"))
    shown = (await there.run("plan", "-f", there.file(cart(), NEW))).out
    assert f"Config    ConfigMap app changed: 2 keys (LEVEL, MORE) -> copy {use(NEW).copy}" in shown
    assert "unchanged: 1 ConfigMap" in shown
    assert "ConfigMap app  default  changed: 2 keys (LEVEL, MORE)\n  starts 1 update: cart" in shown


async def test_contents_that_are_not_in_the_file_are_the_clusters(there: Served) -> None:
    """An edit that the controller has not followed yet is part of the next revision too."""
    await install(there, cart(), OLD, FLAGS)
    await there.session.client.delete(CONFIG_MAP, "default", "flags")
    await there.create(CONFIG_MAP, changed := config_map("flags", {"on": "no"}))
    (plan,) = (await planned(there, cart(image="cart:2")))["plans"]

    assert plan["revision"]["target"] == revision_of(cart(image="cart:2"), use(OLD), use(changed))
    assert {each["name"]: each["change"] for each in plan["config"]} == {"app": "same", "flags": "changed"}


async def test_a_rollout_of_the_version_before_is_not_started_by_a_plan_without_changes(there: Served) -> None:
    """Its revision is the hash of the template, and the contents that were seen first belong to it."""
    before = await install(there, cart(), OLD, FLAGS, copied=False)
    (same,) = (await planned(there, cart()))["plans"]
    (edited,) = (await planned(there, cart(), NEW))["plans"]

    assert same["revision"]["target"] == before
    assert edited["revision"]["target"] == revision_of(cart(), use(NEW), use(FLAGS))
    assert {each["name"]: each["change"] for each in edited["config"]} == {"app": "changed", "flags": "same"}


async def test_config_maps_alone_tell_which_rollouts_they_start(there: Served) -> None:
    """A shared ConfigMap is edited by somebody who does not know all that read it."""
    off = cart("quiet", configVersioning={"mode": "Off"})
    other = cart("other")
    other["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "flags"}}]
    await install(there, cart(), OLD, FLAGS)
    for each in (off, other):
        await there.create(ROLLOUT, {**each, "status": None})
    document = await planned(there, NEW, config_map("brand-new", {"A": "1"}))

    assert document["plans"] == []
    assert {each["name"]: (each["exists"], each["changedKeys"], each["starts"]) for each in document["configMaps"]} == {
        "app": (True, ["LEVEL", "MORE"], ["cart"]),
        "brand-new": (False, ["A"], []),
    }


async def test_what_may_not_be_read_is_a_note_and_the_update_is_planned(there: Served) -> None:
    """Whoever plans in a pipeline may have fewer rights than the controller."""
    await install(there, cart(), OLD, FLAGS)
    there.door.refused = ("/configmaps",)
    same = await planned(there, cart())
    document = await planned(there, cart(image="cart:2"), NEW)

    assert same["plans"][0]["revision"]["changes"] is False
    (plan,) = document["plans"]
    assert rules(plan) == {"ConfigUnknown": "note"}
    assert plan["revision"]["target"] == revision_of(cart(image="cart:2"), use(NEW), use(FLAGS))
    assert {each["name"]: each["changedKeys"] for each in plan["config"]} == {"app": None, "flags": None}
    assert plan["steps"] and plan["stuck"] is None
    assert document["configMaps"][0]["exists"] is None


async def test_a_config_map_that_is_nowhere_is_a_finding_and_the_update_is_planned(there: Served) -> None:
    """The Rollout would wait for it, so nothing of the plan would happen; one that is optional may be absent."""
    refs = ({"configMapRef": {"name": "nowhere"}}, {"configMapRef": {"name": "extra", "optional": True}})
    (plan,) = (await planned(there, cart(refs=refs), OLD, FLAGS))["plans"]

    assert rules(plan) == {"ConfigMissing": "unsafe"}
    (finding,) = [each for each in plan["findings"] if each["rule"] == "ConfigMissing"]
    assert finding["what"].startswith("ConfigMap nowhere is neither in namespace default nor in the file")
    assert [(each["name"], each["change"]) for each in plan["config"] if each["name"] != "nowhere"] == [
        ("app", "new"),
        ("extra", "absent"),
        ("flags", "new"),
    ]
    assert [each["name"] for each in plan["config"] if each["copy"]] == ["app", "flags"]
    assert plan["steps"] and (plan["exists"], plan["supposed"]) == (False, True)


def test_each_state_of_a_source_is_a_line_of_its_own_and_the_same_ones_are_counted() -> None:
    """People look for what changes; of forty that stay the same the number is enough."""
    shown = [
        PlannedConfig(kind=MAP, name="a", state=ConfigState.CHANGED, keys=tuple("123456"), copy="a-x"),
        PlannedConfig(kind=MAP, name="b", state=ConfigState.CHANGED, keys=None, copy="b-x"),
        PlannedConfig(kind=MAP, name="c", state=ConfigState.NEW, keys=None, copy=""),
        PlannedConfig(kind=MAP, name="d", state=ConfigState.ABSENT, keys=None, copy=""),
        PlannedConfig(kind=MAP, name="e", state=ConfigState.SAME, keys=None, copy="e-x"),
        PlannedConfig(kind=MAP, name="f", state=ConfigState.SAME, keys=None, copy=""),
    ]

    assert list(config_lines(tuple(shown))) == [
        "ConfigMap a changed: 6 keys (1, 2, 3, 4, 5, ...) -> copy a-x",
        "ConfigMap b changed -> copy b-x",
        "ConfigMap c, read as it is",
        "ConfigMap d: absent, which its references allow",
        "unchanged: 2 ConfigMaps",
    ]


async def test_an_edit_of_an_immutable_config_map_is_a_warning(there: Served) -> None:
    """The API server refuses the file, and nothing is rolled out."""
    await there.create(CONFIG_MAP, {**OLD, "immutable": True})
    (plan,) = (await planned(there, cart(), NEW, FLAGS))["plans"]
    (same,) = (await planned(there, cart(), {**OLD, "immutable": True}, FLAGS))["plans"]

    assert rules(plan) == {"ConfigLocked": "warning"}
    assert rules(same) == {}
    assert next((each["name"], each["copy"]) for each in same["config"]) == ("app", None), "it needs no copy"


async def test_a_source_that_is_left_alone_is_no_part_of_the_revision(there: Served) -> None:
    """Its annotation in the file counts, as it will in the cluster."""
    left = {**OLD, "metadata": {"name": "app", "annotations": {"rollouts.dev/config-versioning": "off"}}}
    (plan,) = (await planned(there, cart(), left, FLAGS))["plans"]

    assert [each["name"] for each in plan["config"]] == ["flags"]
    assert plan["revision"]["target"] == revision_of(cart(), use(FLAGS))


async def test_no_secret_is_read_that_is_not_versioned(there: Served) -> None:
    """A plan in a pipeline needs no right to read Secrets."""
    refs = ({"secretRef": {"name": "db"}},)
    there.door.refused = ("/secrets",)
    (plan,) = (await planned(there, cart(refs=refs), OLD, FLAGS, secret("db", {"a": "b"})))["plans"]

    assert rules(plan) == {}
    assert [each["kind"] for each in plan["config"]] == ["ConfigMap", "ConfigMap"]

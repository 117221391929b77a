"""Promise: commands know the Secrets that a Rollout versions by their names and their keys, and show no value."""

from __future__ import annotations

import json
from typing import Any

import yaml

from rollouts.manifests.config_copy import config_key
from rollouts.objects import ROLLOUT, SECRET, Manifest
from tests.cli import configured
from tests.cli.configured import config_map, secret, use
from tests.cli.runs import Served
from tests.cli.test_the_plan_knows_configuration import cart, install, planned, revision_of, rules

KEY = b"k" * 32
OPTED_IN = {"secrets": True}
OLD, NEW = secret("db", {"password": "hunter2", "user": "shop"}), secret("db", {"password": "hunter3", "user": "shop"})


def reading(*names: str, **versioning: Any) -> Manifest:
    """A Rollout whose pods take their environment from these Secrets."""
    made = cart(configVersioning=versioning or OPTED_IN)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"secretRef": {"name": each}} for each in names or ("db",)]
    return made


async def stored(there: Served, **more: Any) -> str:
    """The Rollout with the old Secret; the revision."""
    await there.create(SECRET, config_key("default", KEY))
    return await install(there, reading(), OLD, key=KEY, **more)


async def test_a_rotated_secret_in_the_file_is_a_new_revision(there: Served) -> None:
    """The same hash as the controller's, because whoever may read Secrets may read the key; keys are named, values are not."""
    before = await stored(there)
    document = await planned(there, reading(), NEW)
    (same,) = (await planned(there, reading()))["plans"]

    (plan,) = document["plans"]
    after = revision_of(reading(), use(NEW, key=KEY))
    assert (same["revision"]["target"], plan["revision"]["target"]) == (before, after)
    db = {"name": "db", "changedKeys": ["password"]}
    assert plan["config"] == [{**db, "kind": "Secret", "change": "changed", "copy": "db-*"}]
    assert document["configMaps"] == []
    assert document["secrets"] == [{**db, "namespace": "default", "exists": True, "starts": ["cart"]}]
    assert "hunter" not in str(document)

    there.door.refused = ("/secrets",)
    (plan,) = (await planned(there, reading(), NEW))["plans"]
    assert plan["revision"]["target"] == before, "without the right they are taken as unchanged"
    assert rules(plan) == {"ConfigUnknown": "note"}


async def test_secrets_alone_tell_which_rollouts_they_start(there: Served) -> None:
    """One that nobody versions is not even read."""
    await stored(there)
    document = await planned(there, NEW, secret("other", {"a": "b"}))

    assert [(each["name"], each["starts"]) for each in document["secrets"]] == [("db", ["cart"])]


async def test_a_revision_that_reads_the_secret_itself_is_compared_by_its_hash(there: Served) -> None:
    """It has no copy: the source counts while it has the content that is noted."""
    await stored(there, copied=False)
    await there.create(ROLLOUT, {**cart("else"), "status": None})
    revision = (await there.object(ROLLOUT, "cart"))["status"]["currentRevision"]
    shown = (await there.run("config", "list", "cart")).out

    assert revision in shown
    assert use(OLD, key=KEY).content in shown
    assert use(OLD).content not in shown
    assert "hunter" not in shown


async def test_all_of_it_can_be_read_by_programs_but_no_value_of_a_secret(there: Served) -> None:
    """Not even its size. With the key of the namespace the contents of the copies have the hashes that are noted."""
    flags = (config_map("flags", {"on": "no"}), config_map("flags", {"on": "yes"}))
    await there.create(SECRET, config_key("default", KEY))
    await configured.install(there, (flags[0], OLD), (flags[1], NEW), key=KEY)
    difference = json.loads((await there.run("config", "diff", "stable", "canary", "-o", "json", code=1)).out)
    listed = json.loads((await there.run("config", "list", "cart", "-o", "json")).out)
    assert yaml.safe_load((await there.run("config", "list", "cart", "-o", "yaml")).out) == listed
    await there.run("config", "list", "cart", "-o", "wide", code=2)

    by_kind = {each["kind"]: each for each in difference["changes"]}
    assert by_kind["Secret"]["keys"] == [{"key": "password", "before": {}, "after": {}}]
    change = {"key": "on", "before": {"bytes": 2, "text": "no"}, "after": {"bytes": 3, "text": "yes"}}
    assert by_kind["ConfigMap"]["keys"] == [change]
    assert "hunter" not in str(difference)
    assert (difference["before"], difference["after"]) == ("oldrev", "newrev")
    newest, oldest = listed
    assert (newest["revision"], newest["roles"], oldest["number"]) == ("newrev", ["canary"], 1)
    of = use(flags[1])
    assert newest["config"][0] == {"kind": "ConfigMap", "source": "flags", "copy": of.copy, "content": of.content}

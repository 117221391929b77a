"""The whole controller and Secrets: read only if a Rollout asks for it, by name, shown to nobody, and copied for a revision."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from rollouts.manifests.ownership import CONFIG_KEY_NAME
from rollouts.objects import EVENT, REPLICA_SET, ROLLOUT, SECRET, Manifest
from rollouts.ports import JSON, METADATA, Request, Response
from tests import build
from tests.controller.configured import Configured, canary, config_map, configured
from tests.controller.door import refusal

pytestmark = pytest.mark.virtual_time(limit_s=4_000)

NAME = "token"
OLD, NEW = "pl4nted-0ld-t0ken", "pl4nted-n3w-t0ken"
OPTED_IN = {"configVersioning": {"secrets": True, "settleSeconds": 0}}


def secret(value: str = OLD, name: str = NAME, **more: Any) -> Manifest:
    """A Secret of the user's, as `kubectl apply` leaves it: its content is in an annotation too."""
    data = {"token": base64.b64encode(value.encode()).decode()}
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": data})}
    annotations = applied | more.pop("annotations", {})
    of = {"metadata": {"annotations": annotations}, "type": "Opaque", "data": data}
    return build.secret(name, "default", **{**of, **more})


def reading(name: str = "web", source: str = NAME, **spec: Any) -> Manifest:
    """A Rollout whose container gets its environment from a Secret, by default one that opted in."""
    made = canary(name, **{**OPTED_IN, **spec})
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["envFrom"] = [{"secretRef": {"name": source}}]
    return made


def named(stage: Configured, revision: str, rollout: str = "web") -> str:
    """The Secret that a revision's pods read."""
    (container,) = stage.replica_sets(rollout)[revision]["spec"]["template"]["spec"]["containers"]
    (source,) = container["envFrom"]
    return str(source["secretRef"]["name"])


def value(stage: Configured, name: str) -> str:
    """What is in a Secret."""
    found = stage.cluster.get(SECRET, "default", name)
    assert found is not None, f"no Secret {name}"
    return base64.b64decode(found["data"]["token"]).decode()


def copies(stage: Configured) -> set[str]:
    """The Secrets that are the controller's copies."""
    found = stage.cluster.list(SECRET, "default")
    return {each["metadata"]["name"] for each in found if each["metadata"]["name"] not in (NAME, CONFIG_KEY_NAME)}


def asked(stage: Configured) -> list[Request]:
    """Every request about Secrets so far."""
    return [each for each in stage.door.asked if "/secrets" in each.path]


def refused(method: str) -> Callable[[Request], Response | None]:
    """Refuses requests about Secrets, as RBAC does."""
    verb = {"GET": "get", "POST": "create"}[method]
    message = f'secrets is forbidden: User "rollouts" cannot {verb} resource "secrets" in API group ""'

    def refuse(request: Request) -> Response | None:
        about = "/secrets" in request.path and request.method == method
        return refusal(403, "Forbidden", message) if about else None

    return refuse


@pytest.fixture
async def first(stage: Configured) -> str:
    """The revision of a Rollout that reads a Secret, and is Healthy."""
    stage.apply(secret(), reading())
    return await stage.until_healthy()


async def test_without_opting_in_no_secret_is_ever_asked_for(stage: Configured) -> None:
    """A controller that reads Secrets is worth stealing: it takes a person's word for each Rollout."""
    stage.apply(secret(), config_map(), reading(configVersioning={}))
    first = await stage.until_healthy()
    stage.apply(secret(NEW))
    await asyncio.sleep(600)
    assert list(stage.replica_sets()) == [first]
    assert named(stage, first) == NAME
    assert asked(stage) == []


async def test_a_rotated_secret_takes_the_steps_and_old_pods_keep_theirs(stage: Configured, first: str) -> None:
    """At the gate each revision reads a copy of its own; after the promotion the history keeps the old one."""
    assert (named(stage, first) != NAME, value(stage, named(stage, first))) == (True, OLD)
    stage.apply(secret(NEW))
    paused = await stage.until(lambda one: one.get("phase") == "Paused")
    second = paused["currentRevision"]
    assert (value(stage, named(stage, first)), value(stage, named(stage, second))) == (OLD, NEW)
    stage.annotate("promote", f"{second}@full")
    assert await stage.until_healthy(at=first) == second
    assert copies(stage) == {named(stage, first), named(stage, second)}


async def test_a_revert_leads_back_to_the_former_revision(stage: Configured, first: str) -> None:
    """Equal contents are one revision, though each ReplicaSet has copies of its own."""
    stage.apply(secret(NEW))
    await stage.until(lambda one: one.get("phase") == "Paused")
    stage.apply(secret())
    back = await stage.until(lambda one: one.get("phase") == "Healthy")
    assert back["currentRevision"] == first


async def test_only_named_secrets_and_the_key_are_read_and_none_is_listed_or_changed(stage: Configured) -> None:
    """The Role has `get` on these names and `create`, and no other right: see `rollouts rbac`."""
    stage.apply(secret(), secret("of somebody else", "other"), reading(revisionHistoryLimit=0))
    first = await stage.until_healthy()
    stage.apply(secret(NEW))
    await stage.promoted(at=first)
    await asyncio.sleep(120)
    stage.delete("web", kind=ROLLOUT)
    await asyncio.sleep(60)
    assert copies(stage) == {"other"}, "the cluster's garbage collector deletes copies with their ReplicaSets"
    assert {each.method for each in asked(stage)} == {"GET", "POST"}
    read = {each.path for each in asked(stage) if each.method == "GET"}
    assert read == {SECRET.path("default", NAME), SECRET.path("default", CONFIG_KEY_NAME)}
    assert {each.path for each in asked(stage) if each.method == "POST"} == {SECRET.path("default")}


async def test_contents_are_read_once_for_each_version_and_looks_bring_none(stage: Configured) -> None:
    """Twenty looks in ten minutes are metadata alone; a restart reads no content at all."""
    stage.apply(secret(), reading())
    await stage.until_healthy()
    stage.door.asked.clear()
    await asyncio.sleep(600)
    await stage.restarted()
    await asyncio.sleep(60)
    assert {each.accept for each in asked(stage)} == {METADATA}
    assert 20 <= len(asked(stage)) <= 26


async def test_the_value_is_in_nothing_that_the_controller_writes_or_logs() -> None:
    """Everybody may read a Rollout's status, Events and ReplicaSets; only copies hold the value."""
    with capture_logs() as logs:
        async with configured() as stage:
            stage.apply(secret(), reading())
            first = await stage.until_healthy()
            stage.apply(secret(NEW))
            await stage.promoted(at=first)
            shown = [stage.cluster.list(kind, "default") for kind in (ROLLOUT, REPLICA_SET, EVENT)]
            secrets = [each["metadata"] for each in stage.cluster.list(SECRET, "default")]
            text = json.dumps([*shown, [each for each in secrets if each["name"] != NAME]])
            for planted in (OLD, NEW):
                assert planted not in text
                assert base64.b64encode(planted.encode()).decode() not in text
            assert json.dumps(shown).count("is kept as") == 2, "the Events are there"
    for planted in (OLD, NEW):
        assert planted not in repr(logs)
        assert base64.b64encode(planted.encode()).decode() not in repr(logs)


async def test_nobody_finds_the_value_by_trying_hashes() -> None:
    """Two namespaces with one password: without the key of the namespace its hash says nothing, not even that they are equal."""
    hashes = []
    for _ in range(2):
        async with configured() as stage:
            stage.apply(secret("1234"), reading())
            first = await stage.until_healthy()
            (noted,) = json.loads(stage.replica_sets()[first]["metadata"]["annotations"]["rollouts.dev/config"])
            hashes.append((first, noted["hash"], noted["copy"]))
    one, other = hashes
    assert not set(one) & set(other)


async def test_without_the_rights_the_rollout_waits_and_names_the_command(stage: Configured, first: str) -> None:
    """The running revision stays; the right to create is asked for as well."""
    stage.apply(secret(NEW))
    stage.door.answers = refused("GET")
    message = await stage.until_waiting("ConfigForbidden")
    assert "rollouts rbac -f" in message
    assert list(stage.replica_sets()) == [first]

    stage.door.answers = refused("POST")
    asks = "rollouts rbac -f"
    await stage.until(lambda one: asks in json.dumps(one.get("conditions")) and one["currentRevision"] != first)
    sizes = {revision: each["spec"]["replicas"] for revision, each in stage.replica_sets().items()}
    assert sizes.pop(first) == 2
    assert set(sizes.values()) == {0}, "no pod begins without its copy"

    stage.door.answers = lambda _request: None
    await stage.promoted(at=first)


async def test_a_copy_has_the_type_of_its_source_and_tokens_of_accounts_are_left_alone(stage: Configured) -> None:
    """A library may look at the type; the control plane takes a second token of an account for one that it must fill."""
    made = secret(name="tls", type="kubernetes.io/tls") | {"data": {"tls.crt": "YQ==", "tls.key": "Yg=="}}
    token = secret(name="account", type="kubernetes.io/service-account-token")
    token["metadata"]["annotations"]["kubernetes.io/service-account.name"] = "default"
    stage.apply(made, token, reading(source="tls"), reading("other", source="account"))
    first = await stage.until_healthy()
    copy = stage.cluster.get(SECRET, "default", named(stage, first))
    assert copy is not None
    assert (copy["type"], copy["data"], copy["immutable"]) == (made["type"], made["data"], True)
    assert named(stage, await stage.until_healthy("other"), "other") == "account"


async def test_an_immutable_secret_is_used_as_it_is_and_one_that_is_off_is_not_even_read(stage: Configured) -> None:
    """What nobody can change needs no copy, and what somebody leaves out needs no hash."""
    off = secret(name="off", annotations={"rollouts.dev/config-versioning": "off"})
    stage.apply(secret(immutable=True), off, reading(), reading("other", source="off"))
    assert named(stage, await stage.until_healthy()) == NAME
    assert named(stage, await stage.until_healthy("other"), "other") == "off"
    contents = {each.path for each in asked(stage) if each.accept == JSON and each.method == "GET"}
    assert contents == {SECRET.path("default", NAME), SECRET.path("default", CONFIG_KEY_NAME)}


async def test_a_missing_secret_is_waited_for_and_a_deleted_one_harms_no_pod(stage: Configured) -> None:
    """An error is never read as absence; a 404 to a look is."""
    stage.apply(reading())
    assert "Secret token does not exist" in await stage.until_waiting("ConfigNotFound")
    stage.apply(secret())
    first = await stage.until_healthy()
    stage.delete(NAME, kind=SECRET)
    await stage.until_waiting("ConfigNotFound")
    assert value(stage, named(stage, first)) == OLD
    stage.apply(secret())
    assert await stage.until_healthy() == first


async def test_a_replica_set_that_is_made_again_has_copies_of_its_own(stage: Configured, first: str) -> None:
    """Those of the one that was deleted are still there for a moment, and go."""
    before = named(stage, first)
    stage.delete(stage.replica_sets()[first]["metadata"]["name"], kind=REPLICA_SET)
    await stage.until(lambda one: one.get("phase") != "Healthy")
    await stage.until_healthy()
    await asyncio.sleep(30)
    assert named(stage, first) != before
    assert copies(stage) == {named(stage, first)}


async def test_looks_that_fail_are_never_read_as_absence(stage: Configured, first: str) -> None:
    """For a minute what was seen before counts; then the Rollout says why it cannot know better, and stays."""
    body = json.dumps({"kind": "Status", "message": "etcdserver: leader changed"}).encode()
    stage.door.answers = lambda request: Response(500, body) if "/secrets" in request.path else None
    await asyncio.sleep(60)
    assert (stage.cluster.get(ROLLOUT, "default", "web") or {})["status"].get("waitingFor") is None
    assert "leader changed" in await stage.until_waiting("ConfigNotRead")
    stage.door.answers = lambda _request: None
    assert await stage.until_healthy() == first


async def test_a_refusal_in_the_words_of_a_webhook_shows_no_value() -> None:
    """An admission webhook may repeat what it was sent, and the reason goes into a condition."""
    with capture_logs() as logs:
        async with configured() as stage:
            stage.apply(secret(), reading())
            first = await stage.until_healthy()
            said = f"admission webhook denied the request: {NEW} is too short"
            body = json.dumps({"kind": "Status", "code": 422, "reason": "Invalid", "message": said}).encode()
            stage.door.answers = lambda request: (
                Response(422, body) if "/secrets" in request.path and request.method == "POST" else None
            )
            stage.apply(secret(NEW))
            await stage.until(lambda one: "shown to nobody" in json.dumps(one))
            assert NEW not in json.dumps([stage.cluster.list(kind, "default") for kind in (ROLLOUT, EVENT)])
            assert stage.replica_sets()[first]["spec"]["replicas"] == 2
    assert NEW not in repr(logs)

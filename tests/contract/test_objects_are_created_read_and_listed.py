"""Promise: objects are made once, keep what they were given, and are found by name, label and page."""

from __future__ import annotations

import pytest

from rollouts.objects import CONFIG_MAP, REPLICA_SET, SECRET, SERVICE
from rollouts.ports import Request
from tests import build
from tests.build import replica_set
from tests.contract.conversation import WIDGET, Conversation, config_map, widget
from tests.patience import PATIENCE_S


async def test_a_created_object_gets_what_only_the_server_can_give(api: Conversation) -> None:
    """uid, resourceVersion and creationTimestamp are the server's; everything we build on refers to them."""
    answer = await api.create(CONFIG_MAP, config_map("one", labels={"a": "b"}, key="value"))

    assert answer.status == 201
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("ConfigMap", "v1")
    assert answer.metadata["namespace"] == api.namespace
    assert len(answer.metadata["uid"]) == 36
    assert answer.metadata["creationTimestamp"].endswith("Z")
    assert answer.version > 0
    assert "generation" not in answer.metadata
    assert (await api.get(CONFIG_MAP, "one")).body == answer.body


async def test_a_name_can_be_taken_only_once(api: Conversation) -> None:
    """AlreadyExists and Conflict are both 409; only the reason tells them apart."""
    await api.made(CONFIG_MAP, config_map("one"))

    answer = await api.create(CONFIG_MAP, config_map("one"))

    assert (answer.status, answer.reason) == (409, "AlreadyExists")
    assert answer.message == 'configmaps "one" already exists'
    assert answer.body["details"] == {"name": "one", "kind": "configmaps"}


async def test_a_generated_name_starts_as_asked(api: Conversation) -> None:
    """Pods of a ReplicaSet and EndpointSlices are named this way."""
    answer = await api.create(CONFIG_MAP, {"metadata": {"generateName": "some-"}})

    assert answer.status == 201
    assert answer.metadata["name"].startswith("some-")
    assert len(answer.metadata["name"]) == len("some-") + 5


async def test_what_does_not_exist_is_not_found_by_its_full_name(api: Conversation) -> None:
    """The message and details name the resource with its group, as clients print them."""
    plain = await api.get(CONFIG_MAP, "none")
    grouped = await api.get(REPLICA_SET, "none")
    elsewhere = await api.send("POST", CONFIG_MAP.path("no-such-namespace"), config_map("one"))

    assert (plain.status, plain.reason, plain.message) == (404, "NotFound", 'configmaps "none" not found')
    assert grouped.message == 'replicasets.apps "none" not found'
    assert grouped.body["details"] == {"name": "none", "group": "apps", "kind": "replicasets"}
    assert (elsewhere.status, elsewhere.message) == (404, 'namespaces "no-such-namespace" not found')


async def test_an_unknown_type_is_a_404_without_an_object(api: Conversation) -> None:
    """That is how a missing CRD looks: plain text, no `Status` to decode."""
    path = f"/apis/contract.rollouts.dev/v1/namespaces/{api.namespace}/gadgets"
    response = await api.api.request(Request("GET", path), deadline_s=PATIENCE_S)

    assert (response.status, response.body) == (404, b"404 page not found\n")


async def test_a_replica_set_gets_the_defaults_of_its_type(api: Conversation) -> None:
    """What we read back has more fields than what we sent: comparing whole objects would never be equal."""
    spec = (await api.made(REPLICA_SET, replica_set("rs")))["spec"]["template"]["spec"]

    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["securityContext"] == {}
    assert spec["containers"] == [
        {
            "name": "app",
            "image": "app:1",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
    ]


async def test_a_service_gets_an_address_and_target_ports(api: Conversation) -> None:
    """EndpointSlices and kube-proxy read the target port from here."""
    body = await api.made(SERVICE, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})

    assert body["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert body["spec"]["type"] == "ClusterIP"
    assert body["spec"]["clusterIP"].count(".") == 3


async def test_resource_versions_rise_as_integers_over_all_types(api: Conversation) -> None:
    """The store orders events by them (KEP-5504)."""
    versions = [
        int((await api.made(CONFIG_MAP, config_map("a")))["metadata"]["resourceVersion"]),
        int((await api.made(WIDGET, widget("b")))["metadata"]["resourceVersion"]),
        int((await api.made(CONFIG_MAP, config_map("c")))["metadata"]["resourceVersion"]),
    ]

    assert versions == sorted(set(versions))
    assert (await api.list(CONFIG_MAP)).version >= versions[-1]


async def test_a_list_is_in_the_order_of_names(api: Conversation) -> None:
    """Pages rely on a stable order."""
    for name in ("b", "c", "a"):
        await api.made(WIDGET, widget(name))

    assert await api.names(WIDGET) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=web", ["a", "b"]),
        ("tier==web,env!=prod", ["b"]),
        ("env in (prod, test)", ["a", "b"]),
        ("tier notin (web)", ["c", "d"]),
        ("env", ["a", "b"]),
        ("!env", ["c", "d"]),
        ("tier=none", []),
    ],
)
async def test_labels_select(api: Conversation, selector: str, names: list[str]) -> None:
    """Watches and lists of the controller are filtered this way at the server."""
    everything = {
        "a": {"tier": "web", "env": "prod"},
        "b": {"tier": "web", "env": "test"},
        "c": {"tier": "db"},
        "d": {},
    }
    for name, labels in everything.items():
        await api.made(WIDGET, {**widget(name), "metadata": {"name": name, "labels": labels}})

    assert await api.names(WIDGET, labelSelector=selector) == names


async def test_fields_select(api: Conversation) -> None:
    """A watch of one object, and one of a kind of Secrets, are lists with such a selector."""
    await api.made(SECRET, build.secret("a", type="a.b/c"))
    await api.made(SECRET, build.secret("b"))

    for selector, name in (("metadata.name=b", "b"), ("metadata.name!=b", "a"), ("type=a.b/c", "a")):
        assert await api.names(SECRET, fieldSelector=selector) == [name]


async def test_a_list_in_pages_is_one_consistent_list(api: Conversation) -> None:
    """An object made between two pages is not in the list, and every page has the first one's resourceVersion."""
    for name in ("a", "b", "c", "d", "e"):
        await api.made(CONFIG_MAP, config_map(name))
    selector = {"fieldSelector": "metadata.name!=kube-root-ca.crt", "limit": "2"}

    first = await api.list(CONFIG_MAP, **selector)
    await api.made(CONFIG_MAP, config_map("bb"))
    await api.delete(CONFIG_MAP, "e")
    second = await api.list(CONFIG_MAP, **selector, **{"continue": first.metadata["continue"]})
    third = await api.list(CONFIG_MAP, **selector, **{"continue": second.metadata["continue"]})

    pages = [[item["metadata"]["name"] for item in page.body["items"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert first.version == second.version == third.version
    assert "continue" not in third.metadata


async def test_a_list_can_be_asked_to_be_no_older_than_what_was_seen(api: Conversation) -> None:
    """So a relist never comes from a cache that lags; a server that has not been there says so, and does not wait for ever."""
    await api.made(CONFIG_MAP, config_map("a"))
    seen = (await api.list(CONFIG_MAP)).version
    since = {"limit": "500", "resourceVersionMatch": "NotOlderThan"}

    again = await api.list(CONFIG_MAP, **since, resourceVersion=str(seen))
    future = await api.list(CONFIG_MAP, **since, resourceVersion=str(seen + 1_000_000))

    assert again.status == 200
    assert again.version >= seen
    assert (future.status, future.reason) == (504, "Timeout")
    assert "Too large resource version" in future.body["message"]


async def test_items_of_built_in_lists_do_not_repeat_their_kind(api: Conversation) -> None:
    """Who decodes list items by their kind finds none there; custom resources carry it."""
    await api.made(CONFIG_MAP, config_map("a"))
    await api.made(WIDGET, widget("a"))

    built_in, custom = await api.list(CONFIG_MAP), await api.list(WIDGET)

    assert (built_in.body["kind"], custom.body["kind"]) == ("ConfigMapList", "WidgetList")
    assert "kind" not in built_in.body["items"][0]
    assert custom.body["items"][0]["kind"] == "Widget"


async def test_a_dry_run_changes_nothing(api: Conversation) -> None:
    """`lint` and the check of a template ask the server this way; the answer to a deletion is the same, too."""
    created = await api.create(REPLICA_SET, replica_set("rs"), dryRun="All")
    await api.made(WIDGET, widget("a"))
    deleted = await api.delete(WIDGET, "a", {"dryRun": ["All"]})

    assert (created.status, deleted.status) == (201, 200)
    assert created.body["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert (await api.get(REPLICA_SET, "rs")).status == 404
    assert (await api.get(WIDGET, "a")).status == 200

"""Promise: the pods of a revision read copies wherever the template names a source, and nothing else of the template changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings

from rollouts.core.config.content import content_hash, copy_name
from rollouts.core.config.references import places, references
from rollouts.core.model.config import ConfigKind, ConfigRef, ConfigUse, ConfigVersioning
from rollouts.core.model.frozen import replace
from rollouts.core.model.intents import CopyOwner, CreateReplicaSet
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.revision import canonical_json
from rollouts.core.model.rollout import Canary, PodMetadata, Rollout
from rollouts.manifests.config_copy import config_copy, config_key, config_key_of, rewritten
from rollouts.manifests.ownership import config_note_of, config_note_text, injection_of, owner_reference
from rollouts.manifests.workload import replica_set
from rollouts.objects import name_problem
from tests.build import config_map
from tests.core.config.templates import EVERYWHERE, Template, random_templates
from tests.core.model import world

CREATE = CreateReplicaSet(revision="abc", number=3, replicas=2, pod_metadata=PodMetadata())
SLEEP = Injection(containers=("c1",), pre_stop_s=6, grace_s=41, native=True)
RANDOM = random_templates()


def _use(ref: ConfigRef, content: str = "h") -> ConfigUse:
    name = copy_name(ref.kind, rollout="cart", source=ref.name, content=content)
    return ConfigUse(kind=ref.kind, source=ref.name, content=content, copy=name, uid="u-9", resource_version="7")


def _uses(template: Template) -> tuple[ConfigUse, ...]:
    return tuple(map(_use, references(template, secrets=True)))


def _rollout(template: Template = EVERYWHERE, *, retain: bool = False, name: str = "cart") -> Rollout:
    versioning = ConfigVersioning(secrets=True, retain=retain)
    there = world(Canary()).rollout
    spec = replace(there.spec, template_json=canonical_json(template), config_versioning=versioning)
    return replace(there, name=name, spec=spec)


def _without_names(template: Template) -> str:
    """The template's text, with one word for the name in every place."""
    there = copy.deepcopy(template)
    for place in places(there):
        place.holder[place.field] = "a-name"
    return json.dumps(there)


def _as_refs(uses: Iterable[ConfigUse], template: Template) -> tuple[ConfigRef, ...]:
    optional = {(ref.kind, ref.name): ref.optional for ref in references(template, secrets=True)}
    return tuple(sorted(ConfigRef(use.kind, use.copy, optional[use.kind, use.source]) for use in uses))


@settings(max_examples=150, deadline=None)
@given(template=RANDOM)
@example(template=EVERYWHERE)
def test_every_reference_is_renamed_and_nothing_else(template: Template) -> None:
    """In the environment, volumes and projections of all containers. A forgotten place would read a value that changes."""
    before, uses = copy.deepcopy(template), _uses(template)

    made = rewritten(template, uses)

    assert references(made, secrets=True) == _as_refs(uses, template)
    assert _without_names(made) == _without_names(template)
    assert template == before


def test_what_is_used_as_it_is_keeps_its_name() -> None:
    """An immutable source, one that is opted out, and Secrets without the opt-in."""
    files = ConfigRef(ConfigKind.CONFIG_MAP, "files")

    made = rewritten(EVERYWHERE, [replace(_use(files), copy="")])

    assert made == EVERYWHERE


def test_a_chain_of_names_is_renamed_once() -> None:
    """A source may have the name of another one's copy."""
    first, second = ({"configMap": {"name": name}} for name in ("a", "b"))
    uses = [
        ConfigUse(kind=ConfigKind.CONFIG_MAP, source="a", content="h", copy="b"),
        ConfigUse(kind=ConfigKind.CONFIG_MAP, source="b", content="h", copy="c"),
    ]

    made = rewritten({"spec": {"volumes": [first, second]}}, uses)

    assert [each["configMap"]["name"] for each in made["spec"]["volumes"]] == ["b", "c"]


def test_a_replica_set_notes_what_its_pods_read() -> None:
    """The note is what garbage collection and a rollback go by."""
    uses = _uses(EVERYWHERE)

    made = replica_set(_rollout(), replace(CREATE, config=uses))

    assert made["metadata"]["labels"]["rollouts.dev/hash-scheme"] == "v2"
    assert config_note_of(made["metadata"]["annotations"]) == uses
    assert references(made["spec"]["template"], secrets=True) == _as_refs(uses, EVERYWHERE)


def test_without_uses_a_replica_set_is_of_the_first_scheme() -> None:
    """Templates without references, and those that are opted out, are made as before."""
    made = replica_set(_rollout(), CREATE)

    assert made["metadata"]["labels"]["rollouts.dev/hash-scheme"] == "v1"
    assert "rollouts.dev/config" not in made["metadata"]["annotations"]
    assert made["spec"]["template"]["spec"] == EVERYWHERE["spec"]


def test_sleeps_and_copies_do_not_touch_each_other() -> None:
    """Two rewritings of one template: each is noted, and neither undoes the other."""
    uses = _uses(EVERYWHERE)

    sleeping, copying = replace(CREATE, injection=SLEEP), replace(CREATE, config=uses)
    both = replica_set(_rollout(), replace(sleeping, config=uses))
    sleeps, copies = (replica_set(_rollout(), each)["spec"]["template"] for each in (sleeping, copying))

    assert injection_of(both["metadata"]["annotations"]) == SLEEP
    assert config_note_of(both["metadata"]["annotations"]) == uses
    assert both["spec"]["template"] == rewritten(sleeps, uses)
    assert _without_names(both["spec"]["template"]) == _without_names(sleeps)
    assert both["spec"]["template"] != copies


NOTED = {"kind": "Secret", "source": "a", "hash": "h", "copy": "", "uid": "", "resourceVersion": ""}


@pytest.mark.parametrize(
    "text",
    [
        *("", "}", "{}", '"x"', "[1]", "[[]]", "[{}]", "[" * 100_000),
        *(
            json.dumps([{**NOTED, **changes}])
            for changes in (
                *({"kind": "Pod"}, {"kind": ["Secret"]}, {"hash": 1}),
                *({"source": "a/../b"}, {"copy": "../b"}, {"source": "", "copy": "b"}),
            )
        ),
        json.dumps([{**NOTED, "copy": "b"}, None]),
    ],
    ids=lambda text: text[:60],
)
def test_a_note_that_cannot_be_read_in_full_is_no_note(text: str) -> None:
    """Half of it would let copies go that pods still read; and no name in it may lead to another path."""
    assert config_note_of({"rollouts.dev/config": text}) is None
    assert config_note_of({"rollouts.dev/config": json.dumps([NOTED])}) is not None


@pytest.mark.parametrize("uses", [(), (_use(ConfigRef(ConfigKind.SECRET, "keys")),), _uses(EVERYWHERE)], ids=len)
def test_a_note_is_read_as_it_was_written(uses: tuple[ConfigUse, ...]) -> None:
    """An empty note is not the same as none: somebody has looked, and there was nothing."""
    assert config_note_of({"rollouts.dev/config": config_note_text(uses)}) == uses
    assert config_note_of({}) is None


def test_a_copy_is_whole_and_immutable() -> None:
    """With the content as it was read, and with what tells later whose it is and what is in it."""
    use = _use(ConfigRef(ConfigKind.CONFIG_MAP, "files"), content_hash({"a": "1"}, {"b": "AAEC"}))

    made = config_copy(_rollout(), use, data={"a": "1"}, binary_data={"b": "AAEC"})

    metadata = {
        "labels": {"rollouts.dev/name": "cart", "rollouts.dev/config-copy": "true"},
        "annotations": {"rollouts.dev/config-source": "files", "rollouts.dev/content": use.content},
        "ownerReferences": [owner_reference(_rollout())],
    }
    content = {"data": {"a": "1"}, "binaryData": {"b": "AAEC"}}
    assert made == config_map(use.copy, "shop", metadata=metadata, immutable=True, **content)
    assert content_hash(made["data"], made["binaryData"]) == use.content


@pytest.mark.parametrize("kind", ConfigKind)
def test_an_empty_source_has_a_copy_too(kind: ConfigKind) -> None:
    """Its pods would else see what is written into it later."""
    made = config_copy(_rollout(), _use(ConfigRef(kind, "empty"), content_hash({}, {})), data={}, binary_data={})

    assert (made["kind"], made["immutable"]) == (kind.value, True)
    assert content_hash(made.get("data"), made.get("binaryData")) == content_hash({}, {})


def test_a_copy_of_a_secret_has_its_type_and_belongs_to_its_replica_set() -> None:
    """Also where copies of ConfigMaps are retained: nobody wants old credentials left behind."""
    use = _use(ConfigRef(ConfigKind.SECRET, "tls"))
    owner, entries = CopyOwner("web-7f", "uid-7f"), {"tls.key": "AAEC"}

    more: dict[str, Any] = {"binary_data": entries, "secret_type": "kubernetes.io/tls", "owner": owner}
    made = config_copy(_rollout(retain=True), use, data={}, **more)

    assert (made["apiVersion"], made["kind"], made["type"]) == ("v1", "Secret", "kubernetes.io/tls")
    assert (made["data"], made["immutable"], "binaryData" in made) == (entries, True, False)
    (reference,) = made["metadata"]["ownerReferences"]
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7f", "uid": "uid-7f"}
    assert reference == {**controller, "controller": True}


def test_the_key_of_a_namespace_is_read_as_it_was_written() -> None:
    """Another key is another hash of everything; what somebody else put there is no key."""
    made = config_key("shop", b"k" * 32)

    assert config_key_of(made["data"]) == b"k" * 32
    assert made["immutable"] is True
    for other in ({}, {"key": "AAEC"}, {"key": "not base64!"}):
        assert config_key_of(other) is None


def test_retained_copies_belong_to_nobody() -> None:
    """An owner reference would take them along when the Rollout is deleted. Its name is on them still."""
    use = _use(ConfigRef(ConfigKind.CONFIG_MAP, "conf"))
    made = config_copy(_rollout(retain=True, name="x" * 80), use, data={}, binary_data={})

    assert "ownerReferences" not in made["metadata"]
    assert len(made["metadata"]["labels"]["rollouts.dev/name"]) <= 63
    assert name_problem(made["metadata"]["name"]) == ""


def test_what_is_written_is_json() -> None:
    """Words of enumerations and mappings of the core must have become plain values."""
    made = config_copy(_rollout(), _use(ConfigRef(ConfigKind.CONFIG_MAP, "files")), data={"a": "1"}, binary_data={})

    assert json.loads(json.dumps(made)) == made

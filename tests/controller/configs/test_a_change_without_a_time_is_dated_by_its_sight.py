"""Promise: an edit that the API server does not date settles too: it counts from the moment at which it was seen.

An update that only removes a key moves no time in managedFields, since these date what somebody sets.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import rollouts.controller.configs.contents as contents_module
from rollouts.cluster.structs import ConfigMapMetadata, ConfigMapObject
from rollouts.controller.configs.contents import Contents, SecretSeen
from rollouts.controller.workqueue.askers import SourceKey
from rollouts.core.model.config import ConfigKind
from rollouts.objects import Key

NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:00:09Z"
SEEN_S = 1_767_272_400.0


def _seen(version: int, changed_at: str, uid: str = "u") -> ConfigMapMetadata:
    given: dict[str, Any] = {"name": "conf", "namespace": "shop", "uid": uid, "resource_version": str(version)}
    return ConfigMapMetadata(**given, changed_at=changed_at)


def _shown(contents: Contents, kind: ConfigKind, before: ConfigMapMetadata | None, after: ConfigMapMetadata) -> None:
    """The watch, or a look, shows a version after another one."""
    if kind is ConfigKind.CONFIG_MAP:
        contents.learn(ConfigMapObject(before) if before else None, ConfigMapObject(after), now_s=SEEN_S)
        return
    for each in (before, after):
        contents.look((kind, "shop", "conf"), SecretSeen(each), now_s=SEEN_S)


@pytest.mark.parametrize("kind", ConfigKind)
@pytest.mark.parametrize(
    ("before", "after", "expected_s"),
    [
        (_seen(1, NOON), _seen(2, NOON), SEEN_S),
        (_seen(1, NOON), _seen(2, LATER), None),
        (_seen(1, NOON), _seen(1, NOON), None),
        (None, _seen(2, NOON), None),
    ],
    ids=["a key is removed", "a key is set", "nothing has changed", "the first that this process sees"],
)
def test_only_a_change_that_was_seen_and_has_no_time_is_dated(
    kind: ConfigKind, before: ConfigMapMetadata | None, after: ConfigMapMetadata, expected_s: float | None
) -> None:
    """After a start nobody knows when it was: then it is taken for old, and begins its update at once."""
    contents = Contents()
    source: SourceKey = (kind, "shop", "conf")
    contents.askers.asks(Key("shop", "cart"), [source])

    _shown(contents, kind, before, after)

    assert contents.undated_change_s.get(source) == expected_s


def test_the_next_change_with_a_time_and_a_deletion_end_it() -> None:
    """The API server's clock counts wherever it says anything."""
    contents = Contents()
    source: SourceKey = (ConfigKind.CONFIG_MAP, "shop", "conf")
    contents.askers.asks(Key("shop", "cart"), [source])
    for ending in (_seen(3, LATER), None):
        _shown(contents, ConfigKind.CONFIG_MAP, _seen(1, NOON), _seen(2, NOON))
        contents.learn(
            ConfigMapObject(_seen(2, NOON)), ConfigMapObject(ending) if ending is not None else None, now_s=SEEN_S + 9
        )
        assert contents.undated_change_s.get(source) is None


@pytest.mark.parametrize("kind", ConfigKind)
def test_a_source_that_goes_is_dated_until_it_is_there_again(kind: ConfigKind) -> None:
    """Pods that need it wait for it, and status says since when it is gone."""
    contents = Contents()
    source: SourceKey = (kind, "shop", "conf")
    contents.askers.asks(Key("shop", "cart"), [source])
    _shown(contents, kind, None, _seen(1, NOON))

    if kind is ConfigKind.SECRET:
        assert contents.look(source, SecretSeen(None), now_s=SEEN_S)
    else:
        contents.learn(ConfigMapObject(_seen(1, NOON)), None, now_s=SEEN_S)
    gone_s = contents.gone_since_s.get(source)
    _shown(contents, kind, None, _seen(5, LATER, uid="another"))

    assert (gone_s, contents.gone_since_s.get(source)) == (SEEN_S, None)


def test_nothing_is_kept_of_what_nobody_names() -> None:
    """A cluster has tens of thousands of ConfigMaps that are not ours."""
    contents = Contents()

    _shown(contents, ConfigKind.CONFIG_MAP, _seen(1, NOON), _seen(2, NOON))

    assert contents.undated_change_s.get((ConfigKind.CONFIG_MAP, "shop", "conf")) is None


@pytest.mark.parametrize("gone", [False, True])
def test_what_is_kept_of_sources_is_bounded(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A namespace may be full of them, and each may change without a time, or go. The oldest ones make room."""
    monkeypatch.setattr(contents_module, "KEPT_MAX", 2)
    contents = Contents()
    for name in ("a", "b", "c"):
        contents.askers.asks(Key("shop", name), [(ConfigKind.CONFIG_MAP, "shop", name)])
        before, after = (msgspec.structs.replace(_seen(version, NOON), name=name) for version in (1, 2))
        contents.learn(ConfigMapObject(before), None if gone else ConfigMapObject(after), now_s=SEEN_S)

    kept = contents.gone_since_s if gone else contents.undated_change_s
    assert [name for _, _, name in kept] == ["b", "c"]

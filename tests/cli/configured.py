"""A Rollout with two revisions and their ConfigMaps, as the controller leaves them, for the tests of the command line."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from rollouts.cli.view.config import hash_of
from rollouts.core.config.content import copy_name
from rollouts.core.model.config import ConfigKind, ConfigUse
from rollouts.manifests.ownership import CONFIG_NOTE, config_note_text
from rollouts.objects import CONFIG_MAP, REPLICA_SET, ROLLOUT, SECRET, Kind, Manifest
from tests import build
from tests.cli.runs import OWNER, Served, replica_set, rollout

MAP, SECRET_KIND = ConfigKind.CONFIG_MAP, ConfigKind.SECRET
KINDS: Mapping[ConfigKind, Kind] = {MAP: CONFIG_MAP, SECRET_KIND: SECRET}


def config_map(name: str, data: Mapping[str, str], binary: Mapping[str, bytes] | None = None) -> Manifest:
    """A ConfigMap."""
    encoded = {key: base64.b64encode(value).decode() for key, value in (binary or {}).items()}
    more: dict[str, Any] = {"binaryData": encoded} if encoded else {}
    return build.config_map(name, data=dict(data), **more)


def secret(name: str, data: Mapping[str, str]) -> Manifest:
    """A Secret."""
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return build.secret(name, type="Opaque", data=encoded)


def use(source: Manifest, *, copied: bool = True, key: bytes = b"") -> ConfigUse:
    """What a revision of the Rollout cart has of this source; `key` is that of the hash of a Secret."""
    kind, name = ConfigKind(source["kind"]), source["metadata"]["name"]
    content = hash_of(kind, source, key=key)
    copy = copy_name(kind, rollout="cart", source=name, content=content) if copied else ""
    return ConfigUse(kind=kind, source=name, content=content, copy=copy)


def noted(manifest: Manifest, revision: str, number: int, *uses: ConfigUse) -> Manifest:
    """The ReplicaSet of a revision with the note of its configuration."""
    labels = {**manifest["metadata"]["labels"], "rollouts.dev/revision": revision}
    annotations = {"rollouts.dev/revision-number": str(number), CONFIG_NOTE: config_note_text(uses)}
    metadata = {**manifest["metadata"], "name": f"cart-{revision}", "labels": labels, "annotations": annotations}
    spec: dict[str, Any] = json.loads(json.dumps(manifest["spec"]))
    spec["selector"] = {"matchLabels": labels}
    spec["template"]["metadata"]["labels"] = labels
    return {**manifest, "metadata": metadata, "spec": spec}


async def install(
    there: Served, before: tuple[Manifest, ...], after: tuple[Manifest, ...], *, key: bytes = b""
) -> None:
    """The Rollout cart with the stable revision `oldrev` and the canary `newrev`, and the copies of what each has."""
    await there.create(ROLLOUT, rollout())
    made = await there.object(ROLLOUT, "cart")
    owner = [{**OWNER, "uid": made["metadata"]["uid"]}]
    for number, (revision, sources) in enumerate((("oldrev", before), ("newrev", after)), start=1):
        await there.create(
            REPLICA_SET, noted(replica_set(made), revision, number, *[use(each, key=key) for each in sources])
        )
    copies = {use(each, key=key).copy: each for each in (*before, *after)}
    for name, each in copies.items():
        metadata = {"name": name, "ownerReferences": owner}
        await there.create(KINDS[ConfigKind(each["kind"])], {**each, "metadata": metadata, "immutable": True})

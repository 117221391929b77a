"""Images that are packed without a registry are what container runtimes read."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from tests.node import images


def _read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as packed:
        return {entry.name: extracted.read() for entry in packed if (extracted := packed.extractfile(entry))}


def _blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    content = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert descriptor["size"] == len(content)
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    return content


def test_an_image_holds_its_program_and_runs_it(tmp_path: Path) -> None:
    """Each descriptor must name what is there, or the import fails with a message about digests."""
    program = tmp_path / "app"
    program.write_bytes(b"\x7fELF")
    archive = tmp_path / "image.tar"

    images.pack(program, names=["registry.local/app:1", "registry.local/app:2"], archive=archive)

    files = _read(archive)
    manifests = json.loads(files["index.json"])["manifests"]
    names = [one["annotations"]["io.containerd.image.name"] for one in manifests]
    manifest = json.loads(_blob(files, manifests[0]))
    config = json.loads(_blob(files, manifest["config"]))
    layer = _blob(files, manifest["layers"][0])
    with tarfile.open(fileobj=io.BytesIO(layer)) as content:
        inside = {entry.name: entry.mode for entry in content}
    assert names == ["registry.local/app:1", "registry.local/app:2"]
    assert config["config"]["Entrypoint"] == ["/app"]
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert inside == {"app": 0o755}

"""Container images without a registry: one static program each, packed as the OCI image layout that `ctr images import` reads."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pack(program: Path, *, names: list[str], archive: Path) -> None:
    """Writes `archive`, an image under each of `names` (with registry and tag) that runs `program` and holds nothing else.

    Source: https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md; the name's annotation is containerd's.
    """
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    layer = blob(_LAYER, _tar({program.name: program.read_bytes()}, mode=0o755))
    settings = {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    config = blob(_CONFIG, _json(settings))
    manifest = blob(_MANIFEST, _json({"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": [layer]}))
    named = [{**manifest, "annotations": {"io.containerd.image.name": name}} for name in names]
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": named}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), **blobs}
    archive.write_bytes(_tar(files, mode=0o644))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()

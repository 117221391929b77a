"""A machine that cannot run a real node says why and what to do; the programs and images of one are what they must be."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.lab import binaries
from tests.node import images, machine


def test_without_root_there_is_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Namespaces, mounts and control groups are root's; pytest as a person must not try."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(machine.NodeUnavailable, match="needs root on Linux"):
        machine.prepare()


@pytest.mark.skipif(sys.platform != "linux", reason="there is no node elsewhere")
def test_without_a_package_manager_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other distributions have these programs under other names; a person finds them by Debian's."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(machine.NodeUnavailable, match="containerd, containernetworking-plugins, iproute2"):
        machine.prepare()


def test_programs_of_a_node_are_not_asked_of_who_runs_the_control_plane_alone(tmp_path: Path) -> None:
    """A kubelet takes a minute to build; tests of the control plane must not be skipped for want of one."""
    for program in binaries.PROGRAMS:
        (tmp_path / program.name).write_text("#!/bin/sh\n")
        (tmp_path / program.name).chmod(0o755)
    environment = {"ROLLOUTS_LAB_BIN": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    assert binaries.folder(environment) == tmp_path
    with pytest.raises(binaries.LabUnavailable, match=r"kubelet, kube-proxy, .* `make node`"):
        binaries.folder(environment, programs=(*binaries.PROGRAMS, *binaries.NODE_PROGRAMS))


def test_a_programs_own_sources_are_part_of_its_stamp(tmp_path: Path) -> None:
    """After a change of a test app the old image must not pass for the new one."""
    (tmp_path / "go.mod").write_text("module app\n")
    program = binaries.Program("app", os.path.relpath(tmp_path, Path(binaries.__file__).parent), ".", 1)
    (tmp_path / "main.go").write_text("package main\n")
    before = program.stamp()

    (tmp_path / "main.go").write_text("package main // changed\n")

    assert program.stamp() != before


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

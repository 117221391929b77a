"""A machine that cannot run a real node says why and what to do; the programs of one are what they must be."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.lab import binaries
from tests.node import machine


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


def test_a_programs_own_sources_are_part_of_its_stamp(tmp_path: Path) -> None:
    """After a change of a test app the old image must not pass for the new one."""
    (tmp_path / "go.mod").write_text("module app\n")
    program = binaries.Program("app", os.path.relpath(tmp_path, Path(binaries.__file__).parent), ".", 1)
    (tmp_path / "main.go").write_text("package main\n")
    before = program.stamp()

    (tmp_path / "main.go").write_text("package main // changed\n")

    assert program.stamp() != before

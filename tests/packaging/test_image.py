"""The Dockerfile, as far as it can be checked without a container engine.

Its build stage is carried out step by step in a temporary folder: the same commands, with the image's paths moved there.
What only an engine can show (the base image, the final stage's COPY and USER, a read-only root) is checked by
`test_the_image_runs_read_only_without_rights`, which is skipped with the reason where no engine answers.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.wheels import NO_NETWORK, instead_of_the_index

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile: its stage, its keyword and the rest of the line."""

    stage: str
    keyword: str
    rest: str


def _instructions() -> list[Instruction]:
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    stage, found = "", []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        keyword, _, rest = line.partition(" ")
        if keyword == "FROM":
            stage = rest.rpartition(" AS ")[2]
        found.append(Instruction(stage=stage, keyword=keyword, rest=rest.strip()))
    return found


def _ends_in_the_image() -> dict[str, str]:
    return {one.keyword: one.rest for one in _instructions() if one.stage == "runtime"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build stage, carried out below a temporary folder that stands for `/`; once for all workers of a run."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with (shared / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done := shared / "image.done").exists():
            shutil.rmtree(shared / "image", ignore_errors=True)
            _build(shared / "image")
            done.touch()
    return shared / "image"


def _build(root: Path) -> None:
    source = root / "src"
    source.mkdir(parents=True)
    pip = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1", **instead_of_the_index()}
    environment = {**os.environ, **pip, "PYTHON": sys.executable}
    for one in _instructions():
        if one.keyword == "ARG" and "=" in one.rest:
            name, _, value = one.rest.partition("=")
            environment[name] = value
        if one.stage != "build":
            continue
        if one.keyword == "COPY":
            *names, target = shlex.split(one.rest)
            for name in names:
                _copy(ROOT / name, source / target if len(names) == 1 and target != "./" else source / name)
        elif one.keyword == "RUN":
            command = re.sub(r"(?<![\w.])/(opt|wheels)\b", rf"{root}/\1", one.rest)
            command = re.sub(r"(^|&& )python ", r'\1"$PYTHON" ', command)
            done = subprocess.run(
                ["/bin/sh", "-c", command], cwd=source, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{one.rest}\n{done.stdout}{done.stderr}"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def test_everything_that_is_copied_exists_and_reaches_the_builder() -> None:
    """.dockerignore lets only named files through; a COPY of another one fails on the build machine."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}

    copies = [one.rest for one in _instructions() if one.keyword == "COPY" and not one.rest.startswith("--from")]
    copied = {source.removeprefix("./") for rest in copies for source in shlex.split(rest)[:-1]}

    assert copied <= allowed
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_image_runs_as_a_user_without_rights() -> None:
    """The chart demands runAsNonRoot, which needs a numeric user in the image."""
    user, _, group = _ends_in_the_image()["USER"].partition(":")

    assert int(user) > 0
    assert int(group) > 0


def test_the_build_stage_makes_an_environment_in_which_the_program_starts(built: Path) -> None:
    """The locks, their hashes, the wheel and the entry point fit together; nothing comes from this checkout."""
    entry = _ends_in_the_image()["ENTRYPOINT"].replace("/opt/", f"{built}/opt/")
    command = shlex.split(entry.strip("[]").replace(",", " "))

    done = subprocess.run([*command, "--version"], cwd="/", capture_output=True, text=True, check=False, env={})

    assert done.returncode == 0, done.stderr
    assert re.search(r"\d+\.\d+\.\d+", done.stdout)


def test_the_environment_holds_what_the_program_needs_and_no_installer(built: Path) -> None:
    """A read-only container without pip cannot be made to install anything."""
    packages = next(built.glob("opt/rollouts/lib/python3*/site-packages"))

    assert not [one.name for one in packages.iterdir() if re.match(r"(pip|setuptools|hatchling)\b", one.name)]
    assert list(packages.glob("rollouts/_crds/*.yaml"))
    assert list(packages.glob("rollouts_dev-*.dist-info/licenses/LICENSE"))
    assert list(packages.glob("rollouts/__pycache__/*.pyc"))
    assert list(packages.glob("rollouts/py.typed"))  # whoever imports the package is checked against its types
    assert list(packages.glob("uvloop/loop.*.so"))  # the controller takes it where it is: 10 to 14 % less CPU a request


def test_the_image_says_what_it_is() -> None:
    """A registry's page, a scanner and `docker inspect` read these labels. Source: OCI image-spec v1.1.1, annotations.md."""
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', _ends_in_the_image()["LABEL"]))

    assert labels.keys() >= {"title", "description", "licenses", "version", "revision"}
    assert (labels["version"], labels["revision"]) == ("${VERSION}", "${REVISION}")


def _make_image(path: str) -> subprocess.CompletedProcess[str]:
    """`make image`, with programs from this PATH."""
    return subprocess.run(
        ["make", "image", "IMAGE=localhost/rollouts-test:0"],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def _why_not_built(done: subprocess.CompletedProcess[str], path: str) -> str:
    """What this machine lacks; "" when the image was built, or when the Dockerfile is to blame."""
    if done.returncode == 0:
        return ""
    if "none of them answers" in done.stderr:
        return "no container engine answers: base image, final stage and read-only root are not checked here"
    if NO_NETWORK.search(done.stdout + done.stderr):
        return f"the package index cannot be reached from a build: {done.stderr[-300:]}"
    if (builder := re.search(r"^building .* with (\w+)$", done.stdout, re.MULTILINE)) is None:
        return ""
    (base,) = [one.rest.partition("=")[2] for one in _instructions() if one.rest.startswith("PYTHON_IMAGE=")]
    pull = [shutil.which(builder[1], path=path) or builder[1], "pull", base]
    pulled = subprocess.run(pull, capture_output=True, text=True, check=False, timeout=300)
    if pulled.returncode == 0:
        return ""
    return f"{builder[1]} is installed, and cannot pull {base}: {pulled.stderr.strip()[-300:]}"


def test_the_image_runs_read_only_without_rights() -> None:
    """`make image` on a container engine, where there is one: it ends well only when the image starts."""
    done = _make_image(os.environ["PATH"])
    if reason := _why_not_built(done, os.environ["PATH"]):
        pytest.skip(reason)

    assert done.returncode == 0, done.stderr
    assert "is built and starts: rollouts " in done.stdout


@pytest.mark.parametrize(("pulls", "reason"), [("false", "docker is installed, and cannot pull "), ("true", "")])
def test_only_a_base_image_that_cannot_be_pulled_excuses_a_failed_build(
    tmp_path: Path, pulls: str, reason: str
) -> None:
    """A machine may have an engine and no registry. A Dockerfile that is broken must not be excused by that."""
    engine = tmp_path / "docker"
    engine.write_text(
        f'#!/bin/sh\ncase $1 in info) true ;; pull) {pulls} ;; *) echo "no such step" >&2; false ;; esac\n'
    )
    engine.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"

    done = _make_image(path)

    assert done.returncode != 0
    assert reason in _why_not_built(done, path) if reason else _why_not_built(done, path) == ""

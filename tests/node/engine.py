"""The controller's image, built by `make image` as a person builds it, with buildah and a base image of this machine's own.

buildah is the machine's own, or Debian's package unpacked into a folder of the run: nothing is installed. It keeps its
images in that folder too. What the build installs comes from the package index, through the machine's network.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.lab.processes import run
from tests.node.base_image import DOCKERFILE, pack_base
from tests.node.machine import outside

IMAGE = "localhost/rollouts"  # the name that `make image` and the chart agree on, without its tag
_BUILT_WITHIN_S = 600
_PACKAGES = ("buildah", "libgpgme11", "libassuan0", "libsubid4")
"""buildah, and the libraries of its that few machines have."""

_BASE_NAME = re.compile(r"^ARG PYTHON_IMAGE=(\S+)$", re.MULTILINE)
_SETTINGS = {
    "policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}',
    "registries.conf": 'unqualified-search-registries = ["docker.io"]\n',
    # What pip is told on this machine, and the authorities that it trusts: seen while building, and in no layer.
    "containers.conf": "[containers]\nvolumes = [{volumes}]\n",
    "storage.conf": '[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/running"\n',
}
_SEEN_BY_PIP = ("/etc/pip.conf", "/etc/ssl/certs")
_MISSING = "#!/bin/sh\nexit 1\n"  # another engine than buildah does not answer, whatever the machine has


class NoEngine(Exception):
    """buildah cannot be had on this machine; the message says why."""


@dataclass(frozen=True)
class Engine:
    """buildah with a folder of its own, which holds its settings, its images and the programs that `make image` finds first."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For `make image`, and for buildah itself."""
        return {
            **os.environ,
            "HOME": str(self.folder),
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "BUILDAH_ISOLATION": "chroot",
            "CONTAINERS_CONF": f"{self.folder}/containers.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{self.folder}/registries.conf",
            "CONTAINERS_STORAGE_CONF": f"{self.folder}/storage.conf",
        }

    def make_image(self, checkout: Path, *, tag: str) -> str:
        """`make image` in a checkout; what it prints. Raises: AssertionError with its output."""
        words = ["make", "--no-print-directory", "image", f"IMAGE={IMAGE}:{tag}"]
        return outside(*words, within_s=_BUILT_WITHIN_S, env=self.environment, cwd=checkout)

    def save(self, *, tag: str, archive: Path) -> None:
        """Writes an image for the nodes, by the command that `make image` ends with."""
        name = f"{IMAGE}:{tag}"
        self._buildah("push", name, f"docker-archive:{archive}:{name}")

    def make_base(self, checkout: Path) -> None:
        """Builds the base image, under the name that the checkout's Dockerfile begins with."""
        found = _BASE_NAME.search((checkout / "Dockerfile").read_text())
        assert found is not None, "the Dockerfile names no PYTHON_IMAGE"
        context = self.folder / "base"
        context.mkdir()
        pack_base(context / "base.tar")
        (context / "Dockerfile").write_text(DOCKERFILE)
        self._buildah("build", "--tag", f"docker.io/library/{found[1]}", str(context))
        shutil.rmtree(context)

    def _buildah(self, *arguments: str) -> None:
        outside(self.folder / "bin" / "buildah", *arguments, within_s=_BUILT_WITHIN_S, env=self.environment)


def engine_in(folder: Path) -> Engine:
    """An engine that has no image yet. Raises: NoEngine."""
    (folder / "bin").mkdir(parents=True)
    containers = folder / ".config" / "containers"
    containers.mkdir(parents=True)
    volumes = ", ".join(f'"{path}:{path}:ro"' for path in _SEEN_BY_PIP if Path(path).exists())
    for name, text in _SETTINGS.items():
        home = containers if name == "policy.json" else folder
        settings = text.replace("{volumes}", volumes).replace("{folder}", str(folder))
        (home / name).write_text(settings)
    for other in ("docker", "podman"):
        _write_program(folder / "bin" / other, _MISSING)
    own = shutil.which("buildah")
    _write_program(folder / "bin" / "buildah", f'#!/bin/sh\nexec {own} "$@"\n' if own else _unpacked(folder / "debian"))
    return Engine(folder)


def _unpacked(folder: Path) -> str:
    """Unpacks Debian's packages; a script that runs buildah with the loader's cache extended by their libraries.

    buildah starts itself again with an empty environment, so LD_LIBRARY_PATH would not reach it.
    """
    if not shutil.which("apt-get"):
        raise NoEngine("buildah is not installed, and there is no apt-get to fetch it")
    packages = folder / "packages"
    packages.mkdir(parents=True)
    try:
        outside("apt-get", "-qq", "download", *_PACKAGES, within_s=300, cwd=packages)
    except AssertionError as reason:
        raise NoEngine(f"buildah is not installed, and cannot be fetched: {reason}") from reason
    for package in packages.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder)
    libraries = {path.parent for path in folder.rglob("lib*.so.*")}
    config, cache = folder / "loader.conf", folder / "loader.cache"
    config.write_text("\n".join([*map(str, sorted(libraries)), "include /etc/ld.so.conf", ""]))
    run("/sbin/ldconfig", "-X", "-C", cache, "-f", config)
    mounted = f'mount --bind {cache} /etc/ld.so.cache && exec {folder}/usr/bin/buildah "$@"'
    return f"#!/bin/sh\nexec unshare --mount sh -c '{mounted}' buildah \"$@\"\n"


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)

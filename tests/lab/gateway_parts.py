"""What the gateways and Argo Rollouts need beside their own programs: Envoy, from its wheel, and the CRDs in their Go modules.

Both go into the lab's cache folder once: a node's network namespace reaches no registry. Nothing of them is in this project.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.documents import documents
from tests.lab.binaries import (
    ARGO_ROLLOUTS,
    BUILT_WITHIN_S,
    GATEWAY_PROGRAMS,
    LabUnavailable,
    cache_folder,
    go_program,
    install_wheel,
)
from tests.lab.processes import run

ENVOY_VERSION = "1.40.0"

_HERE = Path(__file__).parent
_ENVOY_LOCK = _HERE / "envoy-requirements.lock"


@dataclass(frozen=True, slots=True)
class Definitions:
    """CRDs of one product."""

    name: str
    module: str  # folder, from this file's, whose go.mod says the version
    source: str  # Go module that carries them
    files: str  # glob below the Go module


_OF_TRAEFIK = "docs/content/reference/dynamic-configuration/kubernetes-crd-definition-v1.yml"
_OF_ENVOY_GATEWAY = "charts/gateway-crds-helm/templates/generated/*.yaml"
DEFINITIONS = (
    Definitions("gateway-api", "envoy-gateway", "sigs.k8s.io/gateway-api", "config/crd/standard/*.yaml"),
    Definitions("envoy-gateway", "envoy-gateway", "github.com/envoyproxy/gateway", _OF_ENVOY_GATEWAY),
    Definitions("contour", "contour", "github.com/projectcontour/contour", "examples/contour/01-crds.yaml"),
    Definitions("traefik", "traefik", "github.com/traefik/traefik/v3", _OF_TRAEFIK),
    Definitions(
        ARGO_ROLLOUTS.name, ARGO_ROLLOUTS.module, "github.com/argoproj/argo-rollouts", "manifests/crds/*-crd.yaml"
    ),
)

_ENVOYS = frozenset({"envoy-gateway", "contour"})  # whose proxies are Envoys


def prepare(products: Collection[str]) -> None:
    """Gets what is missing for these products, by their names in DEFINITIONS. Raises: LabUnavailable."""
    if not _ENVOYS.isdisjoint(products) and not envoy().exists():
        install_wheel(_ENVOY_LOCK, _wheel())
        envoy().chmod(0o755)
    _get_definitions(products)


def _get_definitions(names: Collection[str]) -> None:
    for each in DEFINITIONS:
        if each.name not in names:
            continue
        kept = _kept(each)
        if not kept.exists():
            part = kept.with_suffix(".new")
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(_read(each, go_program())))
            part.replace(kept)


def main() -> int:
    """`python -m tests.lab.gateway_parts`: gets the CRDs of the Gateway API and of all gateways."""
    try:
        _get_definitions({"gateway-api", *(each.name for each in GATEWAY_PROGRAMS)})
    except LabUnavailable as reason:
        print(f"lab: {reason}", file=sys.stderr)
        return 1
    return 0


def envoy() -> Path:
    """Envoy's program; there after `prepare`."""
    return _wheel() / "envoy" / "_bin" / "envoy"


def crds(name: str) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of one product, by its name in DEFINITIONS; there after `prepare`."""
    definitions = next(each for each in DEFINITIONS if each.name == name)
    found: list[dict[str, Any]] = json.loads(_kept(definitions).read_text())
    return found


def _wheel() -> Path:
    return cache_folder().parent / f"envoy-{hashlib.sha256(_ENVOY_LOCK.read_bytes()).hexdigest()[:12]}"


def _kept(definitions: Definitions) -> Path:
    versions = hashlib.sha256((_HERE / definitions.module / "go.mod").read_bytes()).hexdigest()[:12]
    return cache_folder().parent / "crds" / f"{definitions.name}-{versions}.json"


def _read(definitions: Definitions, go: Path) -> list[dict[str, Any]]:
    words = [str(go), "mod", "download", "-json", definitions.source]
    done = run(*words, cwd=_HERE / definitions.module, within_s=BUILT_WITHIN_S, code=None)
    if done.returncode != 0:
        raise LabUnavailable(
            f"the CRDs of {definitions.name} cannot be had:\n{done.stdout[-500:]}{done.stderr[-2000:]}"
        )
    folder = Path(json.loads(done.stdout)["Dir"])
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob(definitions.files)):
        text = "".join(line for line in file.open() if not line.startswith("{{"))  # Helm's
        found += [one for one in documents(text) if one["kind"] == "CustomResourceDefinition"]
    if not found:
        raise LabUnavailable(f"{definitions.source} has no CRD in {definitions.files}")
    return found


if __name__ == "__main__":
    sys.exit(main())

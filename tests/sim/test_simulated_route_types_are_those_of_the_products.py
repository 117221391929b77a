"""Promise: the simulated route types refuse, fill in and merge what the products' own CRDs do, field by field.

The products' CRDs come from their Go modules, fetched once by the lab (`make lab`); without them this is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rollouts.objects import Manifest
from rollouts.sim.network.gateway_types import gateway_crds
from tests.lab import gateway_parts

PRODUCTS = ("gateway-api", "traefik", "contour")
KEYWORDS = (
    "type", "enum", "default", "minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "minProperties",
    "maxProperties", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string",
)  # fmt: skip
SERVERS_OWN = frozenset(("apiVersion", "kind", "metadata"))


@pytest.fixture(scope="module")
def products() -> dict[str, Manifest]:
    """The schemas that the products ship, by the name of their CRD and version."""
    try:
        crds = [crd for name in PRODUCTS for crd in gateway_parts.crds(name)]
    except FileNotFoundError as exc:
        pytest.skip(f"the lab has not fetched the products' CRDs: {exc.filename}")
    return {
        f"{crd['metadata']['name']} {version['name']}": version["schema"]["openAPIV3Schema"]
        for crd in crds
        for version in crd["spec"]["versions"]
    }


def differences(ours: Manifest, theirs: Manifest | None, path: str) -> Iterator[str]:
    """What the cut says otherwise than the original. What the cut leaves free, it leaves out."""
    if theirs is None:
        yield f"{path}: not in the original"
        return
    free = ours.get("x-kubernetes-preserve-unknown-fields") and not ours.get("properties")
    for keyword in () if free else KEYWORDS:
        mine, original = ours.get(keyword), theirs.get(keyword)
        if keyword == "x-kubernetes-list-type" and {mine, original} == {None, "atomic"}:
            continue  # the same to server-side apply
        if keyword == "default" and mine is None and ".status" in path:
            continue  # what a Gateway says before a controller has seen it
        if mine != original:
            yield f"{path}: {keyword} is {mine!r}, in the original {original!r}"
    if not free and set(ours.get("required") or ()) != set(theirs.get("required") or ()):
        yield f"{path}: required is {ours.get('required')}, in the original {theirs.get('required')}"
    for name, part in (ours.get("properties") or {}).items():
        if path.count(".") or name not in SERVERS_OWN:
            yield from differences(part, (theirs.get("properties") or {}).get(name), f"{path}.{name}")
    if isinstance(ours.get("items"), dict):
        yield from differences(ours["items"], theirs.get("items") or {}, f"{path}[]")


@pytest.mark.parametrize("crd", gateway_crds(), ids=lambda crd: crd["metadata"]["name"])
def test_what_the_cut_says_the_original_says(crd: Any, products: dict[str, Manifest]) -> None:
    """Limits, defaults, choices and list types; what is not in the cut is kept as it comes, or never written by us."""
    (version,) = crd["spec"]["versions"]
    original = products[f"{crd['metadata']['name']} {version['name']}"]

    assert list(differences(version["schema"]["openAPIV3Schema"], original, crd["spec"]["names"]["kind"])) == []

"""Defaults and validation of PersistentVolumeClaims, and of the templates of a StatefulSet's.

Source: k8s.io/kubernetes pkg/apis/core/{v1/defaults.go,validation/validation.go}.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.objects import Manifest
from rollouts.sim.storage.refusals import Cause, value_forbidden, value_not_supported, value_required

FIRST_STATUS: Manifest = {"phase": "Pending"}
IN_USE = "kubernetes.io/pvc-protection"
"""The finalizer of every claim: it goes when no pod uses the claim."""
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def with_defaults(claim: Manifest) -> Manifest:
    """A PersistentVolumeClaim with the server's defaults."""
    spec = {"volumeMode": "Filesystem", **(claim.get("spec") or {})}
    return claim if spec == claim.get("spec") else {**claim, "spec": spec}


def protected(claim: Manifest) -> Manifest:
    """A new claim with the finalizer of the admission plugin StorageObjectInUseProtection."""
    metadata = claim["metadata"]
    return {**claim, "metadata": {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), IN_USE]}}


def problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a PersistentVolumeClaim, including a changed spec."""
    yield from spec_problems(new.get("spec") or {}, "spec")
    if old is not None and _fixed_part(new, old) != _fixed_part(old, old):
        yield value_forbidden("spec", _FIXED)


def spec_problems(spec: Manifest, path: str) -> Iterator[Cause]:
    """The problems of a claim's spec at a path."""
    if not spec.get("accessModes"):
        yield value_required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in spec.get("accessModes") or ():
        if mode not in _ACCESS_MODES:
            yield value_not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield value_required(f"{path}.resources[storage]")


def _fixed_part(claim: Manifest, old: Manifest) -> Manifest:
    """The spec without what may change: the size of a bound claim, and the volume until the claim has one."""
    spec, before = claim["spec"], old["spec"]
    free = {"volumeName"} if not before.get("volumeName") else set()
    if (old.get("status") or {}).get("phase") == "Bound":
        free |= {"resources", "volumeAttributesClassName"}
    return {name: value for name, value in spec.items() if name not in free}

"""The routers' own CRDs, out of the Go modules that they are released in, and objects of them on a real API server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from functools import lru_cache
from pathlib import Path

import httpx
import pytest

from rollouts.objects import Manifest
from rollouts.traffic.codec import PatchUser
from tests.documents import documents
from tests.traffic.cases.case import Crd

FETCH_WITHIN_S = 240
SERVED_WITHIN_S = 30
NOT_SERVED_NOW = (404, 503)
"""A new kind is served a moment after its CRD is there; and not while another test brings another version of the CRD."""

AS_US = {"fieldManager": "rollouts", "fieldValidation": "Strict"}


def created(api: httpx.Client, path: str, manifest: Manifest) -> None:
    """Makes the object as a user does, as soon as the kind is served."""
    deadline = time.monotonic() + SERVED_WITHIN_S
    while True:
        answer = api.post(path, params={"fieldValidation": "Strict"}, json=manifest)
        if answer.status_code not in NOT_SERVED_NOW or time.monotonic() > deadline:
            break
    assert answer.status_code == 201, answer.text


def patched(api: httpx.Client, path: str, op: PatchUser, read: Manifest) -> httpx.Response:
    """The answer to a patch with the guard of the version that was read."""
    guard = {"op": "replace", "path": "/metadata/resourceVersion", "value": read["metadata"]["resourceVersion"]}
    content = json.dumps([guard, *map(dict, op.operations)])
    return api.patch(path, params=AS_US, content=content, headers={"Content-Type": "application/json-patch+json"})


def manifests(crd: Crd, kind: str) -> list[Manifest]:
    """The CRDs of that kind in the file, as servers of today take them. Skips the test without Go or a way to the module."""
    file = _module(crd.module) / crd.path
    found = [one for one in documents(file.read_text()) if one["kind"] == "CustomResourceDefinition"]
    return [_as_v1(one) for one in found if one["spec"]["names"]["kind"] == kind]


def _as_v1(crd: Manifest) -> Manifest:
    """A CRD of the API's version v1beta1 in that of today; what it says of the objects is untouched, be it nothing."""
    if crd["apiVersion"] == "apiextensions.k8s.io/v1":
        return crd
    spec = crd["spec"]
    any_schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    validation = spec.get("validation")
    schema = {"type": "object", **validation["openAPIV3Schema"]} if validation else any_schema
    versions = [
        {**each, "schema": {"openAPIV3Schema": schema if each["served"] else any_schema}} for each in spec["versions"]
    ]
    kept = {name: spec[name] for name in ("group", "scope", "names")}
    metadata = {"name": crd["metadata"]["name"], "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": crd["kind"], "metadata": metadata}
    return {**head, "spec": {**kept, "versions": versions}}


@lru_cache
def _module(module: str) -> Path:
    """The module's folder in the module cache, fetched when it is not there yet."""
    if shutil.which("go") is None:
        pytest.skip(f"no Go to fetch {module} with")
    done = subprocess.run(
        ["go", "mod", "download", "-json", module],
        env={**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        timeout=FETCH_WITHIN_S,
        check=False,
    )
    told = json.loads(done.stdout or "{}")
    if "Dir" not in told:
        pytest.skip(f"cannot fetch {module}: {told.get('Error', done.stderr)}")
    return Path(told["Dir"])

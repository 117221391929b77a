"""A running control plane as tests see it: addresses, kubeconfigs, kubectl, and what its audit log says.

etcd, kube-apiserver (RBAC, audit log), kube-controller-manager, kube-scheduler and kwok with five nodes, all real programs on
loopback. `supervisor.py` starts and ends them; this object is only a handle, read from the file that the supervisor writes,
so that several test processes share one control plane.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from tests.lab.credentials import write_kubeconfig
from tests.lab.processes import run

HANDLE_FILE = "control-plane.json"
RARE_COLLECTIONS = {"GOGC": "400"}
"""Environment of the Go programs: kube-apiserver takes a fifth less CPU, and 300 MB more."""

AT_WORK = {
    "rollouts": "/apis/rollouts.dev/v1alpha1",
    "experiments": "/apis/rollouts.dev/v1alpha1",
    "analysisruns": "/apis/rollouts.dev/v1alpha1",
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "services": "/api/v1",
    "pods": "/api/v1",
}
"""What programs work on, with its group; those that would make others again come first."""

NODES = tuple(f"kwok-node-{number}" for number in range(5))


def whole_events(log: Path, *, since: int, about: str = "") -> Iterator[dict[str, Any]]:
    """Events of an audit log that begin at byte `since` or later; the one at either end may be half written yet.

    Only those with the word `about`: the log of a whole run would take hundreds of megabytes of objects.
    """
    with log.open("rb") as file:
        file.seek(max(0, since - 1))
        if since:  # up to the end of the line that was being written at that moment
            file.readline()
        for line in file:
            if line.endswith(b"\n") and about.encode() in line:
                yield json.loads(line)


def condition(one: Mapping[str, Any], kind: str) -> tuple[str, str]:
    """Status and reason of an object's condition; ("", "") when it is not there."""
    conditions = one.get("status", {}).get("conditions") or ()
    return next(((each["status"], each.get("reason", "")) for each in conditions if each["type"] == kind), ("", ""))


def is_true(one: Mapping[str, Any], kind: str) -> bool:
    """Whether a condition of an object holds."""
    return condition(one, kind)[0] == "True"


@dataclass(frozen=True)
class ControlPlane:
    """The real control plane of this test run."""

    folder: str  # its files; kubeconfigs may be added. Gone after the run
    programs: str  # folder of the binaries (kubectl, helm and the rest)
    url: str  # of the API server
    certificate: str  # PEM file that verifies the API server
    token: str  # an administrator's bearer token
    process_ids: Mapping[str, int]  # by program name, for tests that stop one

    @classmethod
    def load(cls, folder: Path) -> ControlPlane:
        """Raises: FileNotFoundError until the control plane is ready."""
        return cls(**json.loads((folder / HANDLE_FILE).read_text()))

    def save(self) -> None:
        """Makes the handle visible to other processes, whole or not at all."""
        part = Path(self.folder, f"{HANDLE_FILE}.new")
        part.write_text(json.dumps(asdict(self)))
        part.replace(Path(self.folder, HANDLE_FILE))

    @property
    def kubeconfig_admin(self) -> Path:
        return Path(self.folder, "admin.kubeconfig")

    @property
    def logs(self) -> Path:
        """Where NAME.log of each program is, and the audit log."""
        return Path(self.folder, "logs")

    @cached_property
    def api(self) -> httpx.Client:
        """Administrator's HTTP client for tests that look at the API themselves; relative URLs, 30 s deadline."""
        return self.client()

    def client(self, headers: Mapping[str, str] | None = None) -> httpx.Client:
        """One more such client, with these headers besides."""
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}", "User-Agent": "lab", **(headers or {})},
            verify=ssl.create_default_context(cafile=self.certificate),
            timeout=30,
            trust_env=False,
        )

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - the name that subprocess.run gives it
        kubeconfig: Path | None = None,
        check: bool = True,
        within_s: int = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl, as the administrator unless another kubeconfig is given."""
        return run(
            Path(self.programs, "kubectl"),
            f"--kubeconfig={kubeconfig or self.kubeconfig_admin}",
            *arguments,
            env={
                **RARE_COLLECTIONS,
                "KUBECACHEDIR": str(Path(self.folder, "kubectl-cache")),
                "PATH": "/usr/bin:/bin",
                "HOME": self.folder,
            },
            text=input,
            within_s=within_s,
            code=0 if check else None,
        )

    def helm(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs Helm as the administrator, for two minutes at most. Raises: as `kubectl`."""
        settings = {"HOME": self.folder, "PATH": "/usr/bin:/bin", "KUBECONFIG": str(self.kubeconfig_admin)}
        return run(Path(self.programs, "helm"), *arguments, env=settings, within_s=120, code=0 if check else None)

    def typed(self, text: str, *, home: Path, cwd: Path, within_s: float, env: Mapping[str, str] = os.environ,
              kubeconfig: Path | None = None, code: int = 0) -> str:  # fmt: skip
        """Runs lines as a shell does that stops at the first failure; what they print. Raises: as `kubectl`.

        Who types them has kubectl, Helm and our programs on the PATH, and a home for more programs.
        """
        before = f"{home}/local/bin:{self.programs}:{Path(sys.executable).parent}"
        settings = {
            **env,
            "PATH": f"{before}:{env.get('PATH', '/usr/bin:/bin')}",
            "PREFIX": f"{home}/local",
            "KUBECONFIG": str(kubeconfig or self.kubeconfig_admin),
            **{f"HELM_{each}_HOME": f"{home}/helm" for each in ("CACHE", "CONFIG", "DATA")},
        }
        return run("bash", "-euo", "pipefail", "-c", text, cwd=cwd, env=settings, within_s=within_s, code=code).stdout

    def apply(self, *manifests: Mapping[str, Any], namespace: str | None = None, dry_run: bool = False) -> None:
        """Server-side apply of these objects, as the administrator, whoever else has written them before.

        kubectl would ask for the schemas of all kinds each time. After a new CRD the API server has to make them again, which
        takes a second.
        """
        query = {"fieldManager": "lab", "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        as_apply = {"Content-Type": "application/apply-patch+yaml"}
        served = {version: self.served(version) for version in {one["apiVersion"] for one in manifests}}
        for manifest in manifests:
            metadata = manifest["metadata"]
            home = served[manifest["apiVersion"]][manifest["kind"]]
            path = f"{home.format(namespace=metadata.get('namespace', namespace or 'default'))}/{metadata['name']}"
            answer = self.api.patch(path, params=query, content=json.dumps(manifest), headers=as_apply)
            assert answer.is_success, f"{path}: {answer.text}"

    def patch(self, path: str, change: Any, *, form: str = "merge") -> dict[str, Any]:
        """The object after a patch (`form`: merge or json). Raises: AssertionError with the API server's words."""
        headers = {"Content-Type": f"application/{form}-patch+json"}
        answer = self.api.patch(path, content=json.dumps(change), headers=headers)
        assert answer.is_success, f"{path}: {answer.text}"
        patched: dict[str, Any] = answer.json()
        return patched

    def served(self, version: str) -> dict[str, str]:
        """The path of each kind of a group and version, if that is served; where a kind has namespaces, with `{namespace}`."""
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = self.api.get(group)
        kinds = [] if answer.status_code == httpx.codes.NOT_FOUND else answer.raise_for_status().json()["resources"]
        homes = {True: "/namespaces/{namespace}", False: ""}
        return {
            one["kind"]: f"{group}{homes[one['namespaced']]}/{one['name']}" for one in kinds if "/" not in one["name"]
        }

    @contextmanager
    def watch(self, path: str, *, timeout_s: int, **parameters: str) -> Iterator[Iterator[dict[str, Any]]]:
        """Watch events of a collection, the existing objects first; the stream ends after `timeout_s` seconds.

        For a second after a CRD was applied the API server refuses to watch its kind (429): then it is asked again as it says.
        """
        query = {"watch": "1", "timeoutSeconds": str(timeout_s), **parameters}
        deadline = time.monotonic() + timeout_s
        while True:
            with self.api.stream("GET", path, params=query, timeout=timeout_s + 5) as answer:
                if answer.status_code != httpx.codes.TOO_MANY_REQUESTS or time.monotonic() > deadline:
                    answer.raise_for_status()
                    yield (json.loads(line) for line in answer.iter_lines())
                    return
            time.sleep(float(answer.headers["Retry-After"]))

    def until(
        self, collection: str, name: str, holds: Callable[[dict[str, Any]], bool], *, within_s: int = 30
    ) -> dict[str, Any]:
        """Watches one object of a collection until `holds`; that object."""
        last: dict[str, Any] = {}
        with self.watch(collection, timeout_s=within_s, fieldSelector=f"metadata.name={name}") as events:
            for event in events:
                last = event["object"]
                if event["type"] in ("ADDED", "MODIFIED") and holds(last):
                    return last
        said = json.dumps(last.get("status", last))
        raise AssertionError(f"{collection.rpartition('/')[2]}/{name} did not get there within {within_s} s: {said}")

    @contextmanager
    def fresh_namespace(self, *, stays: bool = False, ends: Iterable[str] = AT_WORK) -> Iterator[str]:
        """A new namespace that can take pods (its `default` ServiceAccount is there); deleted at the end, not waited for.

        Args:
            stays: only what is at work in it is deleted. For a namespace the controller manager asks for every kind that is
                served, twice: 350 requests, many times what a test needs.
            ends: the kinds that are deleted then, of `AT_WORK`.
        """
        name = self.new_namespace()
        try:
            yield name
        finally:
            if stays:
                self.end_in(name, ends)
            else:
                self.api.delete(f"/api/v1/namespaces/{name}").raise_for_status()

    def new_namespace(self) -> str:
        """Makes a namespace that can take pods, and leaves it."""
        name = f"test-{secrets.token_hex(4)}"
        self.api.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
        self.wait_for_default_account(name)
        return name

    def end_in(self, namespace: str, kinds: Iterable[str] = AT_WORK) -> None:
        """Deletes the objects of these kinds in a namespace; by default all that start pods or manage them."""
        for kind in kinds:
            answer = self.api.delete(f"{AT_WORK[kind]}/namespaces/{namespace}/{kind}")
            if answer.status_code != httpx.codes.NOT_FOUND:  # where the CRD is not installed
                answer.raise_for_status()

    def wait_for_default_account(self, namespace: str) -> None:
        """Pods are refused until the controller manager has made the namespace's `default` ServiceAccount."""
        self.until(f"/api/v1/namespaces/{namespace}/serviceaccounts", "default", lambda _: True)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig for a ServiceAccount, with a token of the TokenRequest API that is good for a day."""
        answer = self.api.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", json={"spec": {"expirationSeconds": 86400}}
        )
        answer.raise_for_status()
        return write_kubeconfig(
            Path(self.folder, f"{namespace}-{name}-{secrets.token_hex(4)}.kubeconfig"),
            url=self.url,
            certificate=Path(self.certificate),
            token=answer.json()["status"]["token"],
            user=f"{namespace}-{name}",
            namespace=namespace,
        )

    def audit_mark(self) -> int:
        """A place in the audit log (bytes): `audit_events(since=mark)` gives what came after it."""
        return (self.logs / "audit.log").stat().st_size

    def audit_events(self, *, since: int = 0, user: str | None = None) -> list[dict[str, Any]]:
        """Audit events (level Metadata, one for each answered request), oldest first, of everybody or of one user name."""
        events = whole_events(self.logs / "audit.log", since=since, about=user or "")
        return [event for event in events if user is None or event["user"].get("username") == user]

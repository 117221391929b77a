"""Starts etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on free ports, in a folder of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.certificates import write_certificate
from tests.lab import binaries
from tests.lab.control_plane import NODES, ControlPlane, is_true
from tests.lab.credentials import write_kubeconfig, write_signing_key, write_tokens
from tests.lab.loopback import wait_for
from tests.lab.processes import ProcessEnded, Processes, free_ports

READY_WITHIN_S = 90.0
STOP_PATIENCE_S = 1.0
MANAGER_FLAGS = "ROLLOUTS_LAB_MANAGER_FLAGS"
"""Environment variable with more flags of kube-controller-manager, for a control plane of a test's own."""

_SERVED_AS = "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1"
_STAGES = Path(__file__).parent / "stages"
_AUDIT_POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
# Nodes that no kubelet reports for stay as kwok has made them, and there is no cloud.
_CONTROLLERS = (
    "*,-node-lifecycle-controller,-node-ipam-controller,-node-route-controller,-service-lb-controller,"
    "-endpoints-controller,-endpointslice-mirroring-controller"
)
"""All but those that need a cloud or more of a node, and those of Endpoints, which nothing here reads: they were every twentieth
request."""
_ENDS_WHAT_ENDS: dict[str, Any] = {
    "matchConstraints": {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"]}]
    },
    "matchConditions": [{"name": "kwok", "expression": "request.userInfo.username == 'kwok'"}],
    "validations": [
        {"expression": "has(oldObject.metadata.deletionTimestamp)", "message": "nobody has deleted this pod"}
    ],
}
"""kwok deletes a pod that ends by its name alone, and on a busy machine twice: the second time it met the next pod of a
StatefulSet. A kubelet names the uid (kubernetes pkg/kubelet/status/status_manager.go)."""
# Their own limit of 20 to 50 requests/s would make the tests wait for them.
_NO_CLIENT_LIMIT = ("--kube-api-qps=1000", "--kube-api-burst=2000")


@contextmanager
def started(folder: Path) -> Iterator[ControlPlane]:
    """A control plane of one's own inside this process, for programs that are not pytest (the benchmark).

    Guarantees: ready when entered, all programs ended when left; `folder` stays, for its logs.
    Raises: LabUnavailable, ProcessEnded, TimeoutError.
    """
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    processes = Processes(folder / "logs")
    try:
        plane = _start_on_ports_that_stay_free(folder, processes)
        yield plane
        plane.api.close()
    finally:
        processes.stop(patience_s=STOP_PATIENCE_S)


def start_without_nodes(folder: Path, processes: Processes, *, programs: Path) -> ControlPlane:
    """A control plane to which the caller adds nodes; for a network namespace of one's own, where no port is taken."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    at = _Layout(folder, programs, listens_on="0.0.0.0")  # noqa: S104 - of that namespace
    return _handle(at, _start_servers(at, processes), processes)


class _Layout:
    """Where everything of one control plane is, on ports that are free now."""

    def __init__(self, folder: Path, programs: Path, *, listens_on: str = "127.0.0.1") -> None:
        self.folder, self.programs, self.listens_on = folder, programs, listens_on
        etcd, self.etcd_peer_port, self.api_port, self.manager_port, self.scheduler_port, self.kwok_port = free_ports(6)
        self.url, self.etcd_url = f"https://127.0.0.1:{self.api_port}", f"http://127.0.0.1:{etcd}"
        self.signing_key = folder / "service-accounts.key"
        self.tokens = folder / "tokens.csv"
        self.audit_policy = folder / "audit-policy.yaml"
        self.kubeconfig = folder / "admin.kubeconfig"
        self.kwok_kubeconfig = folder / "kwok.kubeconfig"
        self.certificate = folder / "certificates" / "server.crt"
        self.key = self.certificate.with_suffix(".key")
        self.serving = (f"--tls-cert-file={self.certificate}", f"--tls-private-key-file={self.key}")


def _start_on_ports_that_stay_free(folder: Path, processes: Processes) -> ControlPlane:
    for _ in range(2):
        try:
            return _start(folder, processes)
        except ProcessEnded as reason:
            if "address already in use" not in str(reason):
                raise
            # Another program took a port between our choice and our use of it: choose again.
            processes.stop(patience_s=STOP_PATIENCE_S)
            shutil.rmtree(folder / "etcd", ignore_errors=True)
    return _start(folder, processes)


def _start(folder: Path, processes: Processes) -> ControlPlane:
    at = _Layout(folder, binaries.folder())
    token = _start_servers(at, processes)
    processes.start("kwok", _kwok(at), environment={"HOME": str(folder)})  # kwok reads and writes ~/.kwok
    plane = _handle(at, token, processes)
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "kwok-ends-what-ends"}}
    binding = {"policyName": "kwok-ends-what-ends", "validationActions": ["Deny"]}
    plane.apply(
        {**policy, "kind": "ValidatingAdmissionPolicy", "spec": _ENDS_WHAT_ENDS},
        {**policy, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    )
    for number, name in enumerate(NODES):
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": f"zone-{number % 3}",
        }
        plane.api.post("/api/v1/nodes", json={"metadata": {"name": name, "labels": labels}}).raise_for_status()
    for name in NODES:
        plane.until("/api/v1/nodes", name, lambda node: is_true(node, "Ready"))
    plane.wait_for_default_account("default")
    processes.check()
    return plane


def _start_servers(at: _Layout, processes: Processes) -> str:
    """etcd, API server, controllers and scheduler; the administrator's token."""
    write_signing_key(at.signing_key)
    # Without it each server makes an RSA authority and an RSA key, which takes longer to make and to answer with.
    at.certificate.parent.mkdir(parents=True, exist_ok=True)
    write_certificate(at.certificate, at.key, names=_SERVED_AS)
    token, kwoks = write_tokens(at.tokens, "lab-admin", "kwok")
    at.audit_policy.write_text(_AUDIT_POLICY)
    for kubeconfig, user, its in ((at.kubeconfig, "lab-admin", token), (at.kwok_kubeconfig, "kwok", kwoks)):
        write_kubeconfig(kubeconfig, url=at.url, certificate=at.certificate, token=its, user=user, namespace="default")
    processes.start("etcd", _etcd(at))
    processes.start("kube-apiserver", _api_server(at))
    # It says that it is ready before its certificate can be trusted by anybody, so that is not checked.
    with httpx.Client(verify=False, timeout=5, trust_env=False) as client:  # noqa: S501 - a liveness question on loopback
        ready = f"{at.url}/readyz"
        wait_for(lambda: client.get(ready).text == "ok", "kube-apiserver", processes, within_s=READY_WITHIN_S)
    processes.start("kube-controller-manager", _controller_manager(at))
    processes.start("kube-scheduler", _scheduler(at))
    return token


def _handle(at: _Layout, token: str, processes: Processes) -> ControlPlane:
    return ControlPlane(
        folder=str(at.folder),
        programs=str(at.programs),
        url=at.url,
        certificate=str(at.certificate),
        token=token,
        process_ids=processes.ids(),
    )


def _etcd(at: _Layout) -> list[str | Path]:
    return [
        at.programs / "etcd",
        f"--data-dir={at.folder / 'etcd'}",
        "--unsafe-no-fsync",  # the data need not outlive the run
        f"--listen-client-urls={at.etcd_url}",
        f"--advertise-client-urls={at.etcd_url}",
        f"--listen-peer-urls=http://127.0.0.1:{at.etcd_peer_port}",
        "--log-level=warn",
    ]


def _api_server(at: _Layout) -> list[str | Path]:
    return [
        at.programs / "kube-apiserver",
        f"--etcd-servers={at.etcd_url}",
        f"--bind-address={at.listens_on}",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # EndpointSlices refuse loopback addresses
        f"--secure-port={at.api_port}",
        *at.serving,
        f"--token-auth-file={at.tokens}",
        "--authorization-mode=RBAC",
        # Its taint on new nodes is removed by the node lifecycle controller, which does not run here.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={at.signing_key}",
        f"--service-account-signing-key-file={at.signing_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--audit-policy-file={at.audit_policy}",
        f"--audit-log-path={at.folder / 'logs' / 'audit.log'}",
        "--audit-log-maxsize=100000",  # MB: one file, never rotated
    ]


def _controller_manager(at: _Layout) -> list[str | Path]:
    return [
        at.programs / "kube-controller-manager",
        f"--kubeconfig={at.kubeconfig}",
        f"--secure-port={at.manager_port}",
        "--bind-address=127.0.0.1",
        *at.serving,
        f"--service-account-private-key-file={at.signing_key}",
        f"--root-ca-file={at.certificate}",
        f"--controllers={_CONTROLLERS}",
        "--leader-elect=false",
        "--horizontal-pod-autoscaler-sync-period=1s",  # its own 15 s would make the tests wait for it
        *_NO_CLIENT_LIMIT,
        *os.environ.get(MANAGER_FLAGS, "").split(),
    ]


def _scheduler(at: _Layout) -> list[str | Path]:
    return [
        at.programs / "kube-scheduler",
        f"--kubeconfig={at.kubeconfig}",
        f"--secure-port={at.scheduler_port}",
        "--bind-address=127.0.0.1",
        *at.serving,
        "--leader-elect=false",
        *_NO_CLIENT_LIMIT,
    ]


def _kwok(at: _Layout) -> list[str | Path]:
    return [
        at.programs / "kwok",
        f"--kubeconfig={at.kwok_kubeconfig}",
        "--manage-all-nodes=true",
        "--cidr=10.64.0.0/12",
        "--node-lease-duration-seconds=0",
        f"--server-address=127.0.0.1:{at.kwok_port}",
        *(f"--config={stage}" for stage in sorted(_STAGES.glob("*.yaml"))),
    ]

"""The lab is a real Kubernetes: what the other real-control-plane tests lean on holds."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rollouts.objects import POD
from tests import build
from tests.lab.control_plane import ControlPlane
from tests.lab.processes import is_running

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.controlplane


def test_a_service_account_may_do_only_what_rbac_grants(control_plane: ControlPlane, namespace: str) -> None:
    """Authorization is on: a missing permission of the chart shows as a 403, here and in the audit log."""
    control_plane.kubectl("create", "serviceaccount", "nobody", "-n", namespace)
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "nobody")
    mark = control_plane.audit_mark()

    refused = control_plane.kubectl("get", "pods", "-n", namespace, kubeconfig=kubeconfig, check=False)

    assert "cannot list resource" in refused.stderr
    events = control_plane.audit_events(since=mark, user=f"system:serviceaccount:{namespace}:nobody")
    assert 403 in {event["responseStatus"]["code"] for event in events}


def test_what_plays_the_kubelets_ends_no_pod_that_nobody_has_deleted(
    control_plane: ControlPlane, namespace: str
) -> None:
    """kwok names no uid: a second deletion of a StatefulSet's pod would take the next one of that name."""
    control_plane.wait_for_default_account(namespace)
    pod = build.manifest(POD, "runs", namespace, spec=build.pod_template("runs", image="app:1")["spec"])
    control_plane.apply(pod)
    kwok = control_plane.kubeconfig_admin.with_name("kwok.kubeconfig")

    refused = control_plane.kubectl("delete", "pod", "runs", "-n", namespace, kubeconfig=kwok, check=False)

    assert "nobody has deleted this pod" in refused.stderr
    control_plane.kubectl("delete", "pod", "runs", "-n", namespace)


def test_the_control_plane_ends_with_its_owner(tmp_path: Path, lab_programs: Path) -> None:
    """A pytest process that is killed leaves nothing behind: no process, no folder; the logs are kept."""
    folder = tmp_path / "plane"
    start = (
        "import os, sys, pathlib; from tests.lab.supervisor import shared;"
        "plane = shared(pathlib.Path(sys.argv[1]), owner=os.getpid());"
        "print(*plane.process_ids.values(), flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ROLLOUTS_LAB_LOGS": str(tmp_path / "logs")}
    with subprocess.Popen(
        [sys.executable, "-c", start, str(folder)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        process_ids = [int(word) for word in owner.stdout.readline().split()]
        supervisor = int((folder / "supervisor.pid").read_text())
        running_before = [is_running(one) for one in process_ids]
        handle = os.pidfd_open(supervisor)

        os.kill(owner.pid, signal.SIGKILL)

    ended, _, _ = select.select([handle], [], [], 15)
    os.close(handle)
    assert ended
    assert running_before == [True] * 5
    assert not any(is_running(one) for one in process_ids)
    assert not folder.exists()
    assert (tmp_path / "logs" / "plane" / "kube-apiserver.log").exists()

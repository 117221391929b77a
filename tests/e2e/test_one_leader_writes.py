"""Two controllers, one leader: only one of them writes, and a leader that was stopped past its lease never writes again."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.controllers import Controller
from tests.e2e.manifests import Manifest, canary
from tests.e2e.stage import Stage
from tests.lab.chart import CONTROLLER_USER, RELEASE, RELEASE_NAMESPACE
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane

EXIT_LEASE_LOST = 1
TAKEOVER_WITHIN_S = 40  # the lease's 15 s, and time for two busy cores
STEPS: Sequence[Manifest] = ({"setWeight": 50}, {"pause": {"duration": "3s"}})
WEBS = tuple(f"web{number}" for number in range(6))


def _credential(kubeconfig: Path) -> str:
    """How the audit log calls its token, which tells two controllers of one account apart."""
    claims = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"].split(".")[1]
    return f"JTI={json.loads(base64.urlsafe_b64decode(claims + '=' * (-len(claims) % 4)))['jti']}"


class _Pair:
    """Two controllers of one namespace, and the Lease that they compete for."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane, self._namespace = plane, namespace
        both = [plane.service_account_kubeconfig(RELEASE_NAMESPACE, RELEASE) for _ in range(2)]
        self.kubeconfigs = {_credential(each): each for each in both}
        self._begins = plane.audit_mark()

    def start(self, credential: str) -> Controller:
        """One of the two, at work in that namespace alone."""
        log = self._plane.logs / f"controller-{self._namespace}-{credential[4:12]}.log"
        election = ["--leader-elect", "--lease-name", self._namespace]
        return Controller(self.kubeconfigs[credential], log=log, arguments=["-n", self._namespace, *election])

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        """Credential and audit event of every answered request, in the order in which they were answered."""
        events = self._plane.audit_events(since=self._begins, user=CONTROLLER_USER)
        told = [event for event in events if event["stage"] == "ResponseComplete"]
        found = [(event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0], event) for event in told]
        ours = (one for one in found if one[0] in self.kubeconfigs)  # other tests have controllers too
        return sorted(ours, key=lambda one: str(one[1]["stageTimestamp"]))

    def writers(self) -> list[str]:
        """Whose each write was, the Lease's left out, in their order."""
        return [
            credential
            for credential, event in self.requests()
            if event["verb"] not in ("get", "list", "watch") and event["objectRef"]["resource"] != "leases"
        ]

    def holder(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{RELEASE_NAMESPACE}/leases/{self._namespace}"
        return str(self._plane.api.get(path).raise_for_status().json()["spec"]["holderIdentity"])


@pytest.mark.usefixtures("controller_kubeconfig")  # the chart is there
def test_one_leader_writes_and_a_stopped_one_never_again(control_plane: ControlPlane, namespace: str) -> None:
    """A leader that hangs (a stopped VM, a swapped-out node) comes back with plans of long ago: none of them may land.

    It is stopped in the middle of timed pauses, so that on its return it has a write to make for every Rollout at once.
    """
    stage = Stage(control_plane, namespace)
    pair = _Pair(control_plane, namespace)
    first, second = pair.kubeconfigs
    with pair.start(first) as one, pair.start(second) as two:
        stage.rolled_out(*(canary(name, replicas=2, steps=STEPS) for name in WEBS))
        writers = pair.writers()
        leader, standby, old, new = (one, two, first, second) if writers[0] == first else (two, one, second, first)
        assert set(writers) == {old}
        held_by = pair.holder()

        stage.apply(*(canary(name, image="web:2", replicas=2, steps=STEPS) for name in WEBS))
        for name in WEBS:
            stage.until_at(name, "TimedPause", image="web:2")
        leader.signal(signal.SIGSTOP)
        for name in WEBS:
            stage.until_phase(name, "Healthy", within_s=TAKEOVER_WITHIN_S)
        assert pair.holder() not in ("", held_by)
        stage.apply(*(canary(name, image="web:3", replicas=2, steps=STEPS) for name in WEBS))
        leader.signal(signal.SIGCONT)
        code = leader.wait(within_s=TAKEOVER_WITHIN_S)
        for name in WEBS:
            done = stage.wait_ready(name)
            stage.until_pods(name, {done["status"]["currentRevision"]: 2})
        standby.stop()

    writers = pair.writers()
    taken_over = writers.index(new)
    assert code == EXIT_LEASE_LOST
    assert set(writers[:taken_over]) == {old}
    assert set(writers[taken_over:]) == {new}
    assert [event["requestURI"] for _, event in pair.requests() if event["responseStatus"]["code"] == 403] == []

"""The real controller as a process of its own: started as the chart starts it, stopped, killed and read out by tests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from tests.e2e.manifests import KUBE_PROXY
from tests.e2e.stage import Stage
from tests.lab.chart import RELEASE_NAMESPACE, install_chart
from tests.lab.control_plane import ControlPlane
from tests.lab.processes import run

ROOT = Path(__file__).parent.parent.parent
ENDS_WITHIN_S = 25.0

# As `python -m rollouts`, but for the request to the kernel (prctl(2), PR_SET_PDEATHSIG) to end it with a pytest that is killed.
_RUN_MODULE = "import runpy; runpy.run_module('rollouts', run_name='__main__', alter_sys=True)"
_END_WITH_THE_PARENT = "import ctypes; ctypes.CDLL(None).prctl(1, 15); " if sys.platform == "linux" else ""


_NO_AUTHORITIES = {"SSL_CERT_FILE": os.devnull}
"""When aiohttp is imported it reads the certificates of all authorities that the system trusts: a tenth of a start. A kubeconfig
names its own."""


def rollouts(*arguments: str | Path, text: str | None = None, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """`rollouts …` in a checkout, with this input; what it printed. Raises: AssertionError when it ends with another code."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return run(sys.executable, "-m", "rollouts", *arguments, cwd=ROOT, env=settings, text=text, code=code)


class Controller:
    """One controller process. As a context manager it is ended on the way out, in order, unless it was killed before."""

    def __init__(self, kubeconfig: Path, *, log: Path, arguments: Sequence[str]) -> None:
        """Starts it with more flags; does not wait for it to be ready, as nobody has to in a cluster. The log gets its lines."""
        self._log = log
        command = [sys.executable, "-c", f"{_END_WITH_THE_PARENT}{_RUN_MODULE}", "controller"]
        command += ["--kubeconfig", str(kubeconfig), "--lease-namespace", RELEASE_NAMESPACE, "--metrics-address=0"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **_NO_AUTHORITIES},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self.stop()
        else:
            self._process.wait(0)

    def stop(self) -> None:
        """Ends it as Kubernetes does."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            code = self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the controller did not end within {ENDS_WITHIN_S:.0f} s of SIGTERM") from None
        assert code == 0, f"the controller ended with {code}:\n{self.log_end()}"
        crashes = [line for line in self.log_lines() if line.get("event") == "reconcile_crashed"]
        assert crashes == []

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._process.kill()
        self._process.wait(ENDS_WITHIN_S)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; does nothing when it has ended."""
        self._process.send_signal(number)

    def wait(self, *, within_s: float) -> int:
        """Its exit code, when it ends by itself. Raises: subprocess.TimeoutExpired."""
        return self._process.wait(within_s)

    def log_lines(self) -> list[dict[str, Any]]:
        """What it logged, as JSON; lines of other forms are left out."""
        lines = []
        for line in self._log.read_text(errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                lines.append(json.loads(line))
        return [line for line in lines if isinstance(line, dict)]

    def log_end(self) -> str:
        """The last of its log, for a failure's message."""
        return self._log.read_text(errors="replace")[-3000:]


@contextlib.contextmanager
def confined_controller(
    plane: ControlPlane, kubeconfig: Path, *namespaces: str, leader_elect: bool = True, flags: Sequence[str] = ()
) -> Iterator[Controller]:
    """A controller that works in these namespaces alone, under a lease of the first one's name, so that tests do not meet.

    Tests that kill it elect no leader: the next one need not wait for a dead one's lease.
    """
    name = namespaces[0]
    election = ["--leader-elect", "--lease-name", name] if leader_elect else ["--no-leader-elect"]
    confined = [word for each in namespaces for word in ("-n", each)]
    log = plane.logs / f"controller-{name}.log"
    with Controller(kubeconfig, log=log, arguments=[*confined, *election, *flags]) as controller:
        yield controller


@contextlib.contextmanager
def charts_controller(plane: ControlPlane, *arguments: str) -> Iterator[Stage]:
    """A namespace of the test's own control plane, with a controller at work in all, and the rights by Helm's words."""
    plane.apply(KUBE_PROXY)
    kubeconfig = install_chart(plane, *arguments)
    with plane.fresh_namespace(stays=True) as namespace:
        log = plane.logs / f"controller-{namespace}.log"
        with Controller(kubeconfig, log=log, arguments=["--no-leader-elect"]):
            yield Stage(plane, namespace)

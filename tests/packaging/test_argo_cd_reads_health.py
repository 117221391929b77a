"""The lines of docs/gitops.md for Argo CD say what a Rollout's status says; run by Lua, as Argo CD runs them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs" / "gitops.md"
LUA = shutil.which("lua5.1") or shutil.which("lua")


def _script() -> str:
    found = re.search(r"health\.rollouts\.dev_Rollout: \|\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ("nil", "Progressing: waiting for the controller to see the latest spec"),
        ('{observedGeneration = 1, phase = "Healthy"}', "Progressing: waiting for the controller to see the latest spec"),
        ('{observedGeneration = 2, phase = "Healthy"}', "Healthy: Healthy"),
        ('{observedGeneration = 2, phase = "Paused", message = "step 1"}', "Suspended: step 1"),
        ('{observedGeneration = 2, phase = "Aborted", message = "held back"}', "Degraded: held back"),
        ('{observedGeneration = 2, phase = "RolledBack", message = "back from b to a"}', "Degraded: back from b to a"),
        ('{observedGeneration = 2, phase = "Degraded", message = "late"}', "Degraded: late"),
    ],
)  # fmt: skip
def test_argo_cd_says_what_status_says(status: str, health: str) -> None:
    """A Rollout that was rolled back must not look as if all were well."""
    if LUA is None:
        pytest.skip("no Lua interpreter (Debian: lua5.1)")
    world = f"obj = {{metadata = {{generation = 2}}, status = {status}}}"
    asked = f"{world}\nlocal function check()\n{_script()}\nend\nlocal said = check()\nprint(said.status .. ': ' .. said.message)"

    done = subprocess.run([LUA, "-"], input=asked, capture_output=True, text=True, timeout=10, check=False)

    assert (done.stdout.strip(), done.stderr) == (health, "")

"""What docs/gitops.md says of Helm 3: `--wait` waits for kinds that Helm knows, and a Rollout is none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.manifests import canary
from tests.lab.control_plane import ControlPlane

pytestmark = pytest.mark.controlplane


def test_helm_says_that_a_release_is_deployed_while_its_rollout_has_no_pod(
    control_plane: ControlPlane, controller_kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    """No controller works in this namespace, so the Rollout has not even a status."""
    chart = tmp_path / "cart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: cart\nversion: 0.1.0\n")
    (chart / "templates" / "rollout.json").write_text(json.dumps(canary("cart")))

    done = control_plane.helm("install", "cart", str(chart), "--namespace", namespace, "--wait", "--timeout", "60s")

    rollout = json.loads(control_plane.kubectl("get", "rollout", "cart", "-n", namespace, "-o", "json").stdout)
    assert "STATUS: deployed" in done.stdout
    assert "status" not in rollout

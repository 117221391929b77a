"""Files that are generated are what they say they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.packaging.chart_readme import PAGE, page

ROOT = Path(__file__).parent.parent.parent
# kubectl apply keeps the last applied object in an annotation, and annotations may hold 262,144 bytes in all.
CLIENT_SIDE_APPLY_BYTES = 262_144


def test_the_crds_are_what_the_models_generate() -> None:
    """The models are the one source; `make crds` writes the files anew."""
    command = [sys.executable, "-m", "rollouts.api.schema", "--check"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_carries_the_same_crds() -> None:
    """Helm installs its own copy; a stale one would refuse what the controller understands."""
    ours = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
    charts = {path.name: path.read_text() for path in (ROOT / "helm" / "rollouts" / "files" / "crds").glob("*.yaml")}

    assert ours
    assert charts == ours


def test_the_charts_readme_is_what_its_values_say() -> None:
    """values.yaml is the one source; `make docs` writes the page anew."""
    assert PAGE.read_text() == page()


def test_the_crds_can_be_applied_client_side() -> None:
    """GitOps tools that apply on the client's side keep the whole object in one annotation."""
    sizes = {path.name: path.stat().st_size for path in (ROOT / "crds").glob("*.yaml")}

    assert {name: size for name, size in sizes.items() if size >= CLIENT_SIDE_APPLY_BYTES} == {}

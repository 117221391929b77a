"""Promise: a package that is installed beside the controller may bring a router, as docs/traffic-declared-routers.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.traffic.contour.codec import PROVIDER
from rollouts.traffic.registry import installed


def test_a_router_of_an_installed_package_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing that the package offers to other programs is loaded."""
    metadata = tmp_path / "mypackage-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[rollouts.traffic]\nmyrouter = myrouter:ROUTER\n[console_scripts]\nother = no_such_module:main\n"
    )
    (tmp_path / "myrouter.py").write_text("from rollouts.traffic.contour.codec import PROVIDER as ROUTER\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert installed.__wrapped__() == (PROVIDER,)

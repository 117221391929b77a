"""What tests of the chart share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def helm(lab_programs: Path) -> Path:
    """Helm 3, built from its Go module."""
    return lab_programs / "helm"

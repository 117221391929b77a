"""Files that are generated are what they say they are; for those of crds/ see tests/api/test_the_crd.py."""

from __future__ import annotations

from pathlib import Path

from tests.packaging.chart_readme import PAGE, SCHEMA, page, schema

ROOT = Path(__file__).parent.parent.parent


def test_the_chart_carries_the_same_crds() -> None:
    """Helm installs its own copy; a stale one would refuse what the controller understands."""
    ours = {path.name: path.read_text() for path in (ROOT / "crds").glob("*.yaml")}
    charts = {path.name: path.read_text() for path in (ROOT / "helm" / "rollouts" / "files" / "crds").glob("*.yaml")}

    assert ours
    assert charts == ours


def test_the_charts_readme_and_schema_are_what_its_values_say() -> None:
    """values.yaml is the one source; `make docs` writes both again."""
    assert PAGE.read_text() == page()
    assert SCHEMA.read_text() == schema()

"""The seed of Hypothesis' examples where `CI` is set: other examples for each content of the project, the same for one.

So a change is tried with examples that nobody has tried before, and what failed in CI fails at a desk too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
SEED_OPTION = "hypothesis_seed"  # of Hypothesis' own plugin


@pytest.hookimpl(
    tryfirst=True
)  # before Hypothesis reads it; the workers of pytest-xdist get the options of this process
def pytest_configure(config: pytest.Config) -> None:
    """Sets the seed, unless somebody has given one."""
    if os.environ.get("CI") and getattr(config.option, SEED_OPTION) is None:
        setattr(config.option, SEED_OPTION, str(_of_tree()))


def pytest_report_header(config: pytest.Config) -> str | None:
    """How the same examples are played again."""
    seed = getattr(config.option, SEED_OPTION)
    return None if seed is None else f"examples: PYTEST_ADDOPTS=--hypothesis-seed={seed} plays the same ones again"


def _of_tree() -> int:
    """From the hash of the commit's tree: a commit of the same content has the same one."""
    done = subprocess.run(
        ["git", "rev-parse", "HEAD^{tree}"], cwd=_ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    return int(done.stdout[:8], 16) if done.returncode == 0 else 1

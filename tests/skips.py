"""Why tests may be skipped where everything is there that one line installs; there, any other skip fails the run.

Such a run is one with `$ROLLOUTS_LAB_REQUIRED`, as `.ci/run` sets it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

import pytest

KNOWN = (
    r"a real node is started by `make (node|gateways)`",  # with steps of their own in `.ci/run`
    r"tier 4 boots an IPVS kernel for five minutes: `make ipvs`",  # the same
    r"make ipvs has not run here",  # it comes after these tests, and not every processor can boot its kernel
    r"no container engine answers",
    r"\w+ is installed, and cannot pull ",  # an engine without a registry
    r"no Chromium is installed",  # a browser is a third of a gigabyte, and no page needs one to be served
    r"the simulated server evaluates only CEL rules about `oldSelf`",  # a difference that the contract names
)

_UNKNOWN = pytest.StashKey[list[str]]()


def unknown(reasons: Iterable[str]) -> list[str]:
    """The reasons that are not in the list, each once."""
    return [each for each in dict.fromkeys(reasons) if not any(re.match(known, each) for known in KNOWN)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run, as each skip that nobody expects is a promise that nobody looks at."""
    config = session.config
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("ROLLOUTS_LAB_REQUIRED") or hasattr(config, "workerinput") or reporter is None:
        return
    reasons = [str(each.longrepr[2]).removeprefix("Skipped: ") for each in reporter.stats.get("skipped", [])]
    config.stash[_UNKNOWN] = unknown(reasons)
    if config.stash[_UNKNOWN]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Names them."""
    for reason in config.stash.get(_UNKNOWN, []):
        terminalreporter.write_line(f"ERROR skipped without a reason that tests/skips.py knows: {reason}", red=True)

"""Promise: whatever is sent over HTTP goes through one module, to an address that one module has judged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROLLOUTS = Path(__file__).parents[2] / "rollouts"

PLACES = {
    # What opens connections or names an address, and the only files that may.
    r"\bAsyncHTTPTransport\(|handle_async_request|\bhttpx\.(?:Async)?Client\b|\bhttpx\.(?:get|post|request|stream)\(": {
        "probes/exchange.py"
    },
    r"\bReplica\(": {"probes/exchange.py"},
    r"getaddrinfo|open_connection|create_connection|\bloop\.sock_connect|urlopen|http\.client": {"probes/exchange.py"},
    r"\bpool_manager\b|ClientSession\(|\b_session\.request\(": {"cluster/connection.py"},
    r"create_client\(|botocore\.session\.get_session\(": {"probes/alb_asker.py"},
    r"\burl_problem\(|\bmay_be_asked\(": {
        *("metrics/addresses.py", "metrics/declared.py", "probes/exchange.py", "cli/commands/analysis.py"),
    },
    r"\breplicas\([^)]*rules=": {"probes/exchange.py", "probes/metric_asker.py"},
}


@pytest.mark.parametrize("pattern", PLACES)
def test_only_the_module_for_it_does_it(pattern: str) -> None:
    """A second place would be a second set of rules about addresses."""
    found = {
        path.relative_to(ROLLOUTS).as_posix()
        for path in ROLLOUTS.rglob("*.py")
        if "sim" not in path.relative_to(ROLLOUTS).parts and re.search(pattern, _code(path))
    }

    assert found == PLACES[pattern]


def _code(path: Path) -> str:
    """Without docstrings and comments."""
    text = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text(encoding="utf-8"))
    return re.sub(r"#.*", "", text)

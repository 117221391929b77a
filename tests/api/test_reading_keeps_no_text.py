"""Promise: what is read of objects is kept by who needs it, not by the parser: updates bring texts that never come again."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable

import pytest

from rollouts.api.spec.parse import parse_spec
from rollouts.api.status.wire import read_status
from tests.api.specs import CANARY, changed

READ = 3_000


def _status(number: int) -> object:
    return read_status(json.dumps({"currentRevision": f"r{number:09}", "stableRevision": f"s{number:09}"}).encode())


def _spec(number: int) -> object:
    containers = [{"name": "app", "image": f"app:{number:09}"}]
    return parse_spec(json.dumps(changed(CANARY, template__spec__containers=containers)).encode())


@pytest.mark.parametrize("read", [_status, _spec])
def test_reading_leaves_nothing_behind(read: Callable[[int], object]) -> None:
    """The parser kept up to 16,384 texts, a megabyte and more, until they were all of the past."""
    read(0)
    gc.collect()
    before = sys.getallocatedblocks()

    for number in range(1, READ + 1):
        read(number)
    gc.collect()

    assert sys.getallocatedblocks() - before < READ / 4  # some hundred belong to caches with a limit


def test_what_most_specs_have_is_kept_once() -> None:
    """A controller keeps the spec of each Rollout, and most of a cluster drain in the same way."""
    one, other = (parse_spec(changed(CANARY, replicas=replicas)) for replicas in (1, 2))
    longer = parse_spec(changed(CANARY, drain={"timeoutSeconds": 77}))

    assert one.drain is other.drain
    assert one.config_versioning is other.config_versioning
    assert longer.drain.timeout_s == 77

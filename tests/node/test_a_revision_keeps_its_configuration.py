"""On a real kubelet, pods of a revision read the configuration that the revision began with, and no request is lost.

Without copies a kubelet writes an edited ConfigMap into the volumes of stable pods within two minutes, before anybody has judged
it.
"""

from __future__ import annotations

import pytest

from tests.node.configured import NEW, OLD, SOURCE, Answers, Configured, Edit
from tests.node.workload import REPLICAS


@pytest.mark.parametrize("seen", [Edit()], indirect=True, ids=["edit-of-a-configmap"])
def test_configuration_goes_through_the_steps_as_a_version_does(seen: Configured) -> None:
    """Canary pods answer with the new value and stable ones with the old, however they read it; abort and rollback restore it."""
    assert seen.outcome.failed == {}, seen.outcome.failures
    assert seen.first != seen.canary
    assert_read(seen.half_way, {seen.first: OLD, seen.canary: NEW})
    assert_read(seen.aborted, {seen.first: OLD})
    assert_read(seen.promoted, {seen.canary: NEW})
    assert_read(seen.back, {seen.first: OLD})
    assert sum(map(len, seen.promoted.values())) == sum(map(len, seen.back.values())) == REPLICAS

    of_source = {one["data"]["value"]: one for one in seen.copies}
    assert sorted(of_source) == [NEW, OLD], "one copy for each content, and none for an attempt"
    assert all(one["immutable"] and one["metadata"]["name"].startswith(SOURCE) for one in seen.copies)


def assert_read(said: Answers, expected: dict[str, str]) -> None:
    """Every pod of each revision reads its value as an environment variable, from a volume and by subPath."""
    assert said.keys() == expected.keys()
    for revision, value in expected.items():
        for answer in said[revision]:
            assert answer == {"env": value, "volume": value, "subPath": value}, revision

"""Promise: an edit of a ConfigMap goes through a canary; no pod changes its mind, and a way back brings the old value back.

Each pod reads it as a variable, as a mounted file and by subPath, from a kubelet that treats these three as a real one does.
"""

from __future__ import annotations

import pytest

from tests.behaviour.configured import CONFIGURED, MANIFESTS, watched
from tests.behaviour.stage import play

ENDS = {"rolled_back": "RolledBack", "deleted": ""}


@pytest.mark.parametrize("name", CONFIGURED)
def test_pods_answer_with_what_their_revision_says(name: str) -> None:
    """From the first answer to the last, however they read it."""
    run = play(MANIFESTS, CONFIGURED[name], alongside=watched())

    assert run.violations == []
    assert run.unexpected == []
    assert run.end["status"].get("phase", "") == ENDS.get(name, "Healthy")
    named = {
        use[3] for *_, annotations in run.end["replicaSets"].values() for use in annotations["rollouts.dev/config"]
    }
    assert set(run.end["configMaps"]) == {*named, "conf"}

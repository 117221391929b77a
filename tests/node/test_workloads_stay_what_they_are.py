"""A Deployment, a StatefulSet and a DaemonSet are updated in place under load: no client notices, and each pod starts once."""

from __future__ import annotations

from tests.node.in_place import ACTS, BY_ORDINALS, SHAPES, InPlace, Kept, lost_pods
from tests.node.lanes import seen_of


@seen_of(*(InPlace(shape=shape, act=act) for shape in SHAPES for act in ACTS))
def test_an_update_in_place_loses_no_request(seen: Kept) -> None:
    """A promotion, a newer template and the ways back, of an app that dies on SIGTERM. Uids tell which pods stayed."""
    shape = seen.job.shape

    assert seen.outcome.failed == {}, seen.outcome.failures
    assert seen.course.at_gate
    assert lost_pods(seen.course, shape, seen.job.act) == set()
    before, after = seen.storage
    assert len(before) == (
        2 * shape.replicas if shape == BY_ORDINALS else 0
    )  # a claim for each pod, and what the pod reads there
    assert before == after

"""Promise: however late EndpointSlices are, pods stay from then on until no proxy brings requests and the longest one is over."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rollouts.core.model.drain import DrainSpec
from rollouts.core.model.rollout import Strategy
from tests.core.coming_to_rest import assert_comes_to_rest
from tests.core.drain.test_a_cutover_is_waited_for import SWITCHED
from tests.core.test_any_world_is_safe_and_comes_to_rest import UNHURRIED, played
from tests.core.worlds import edited, running

SHORT = DrainSpec(max_request_s=10.0)
OURS = ("pass", "pass", "pass", "crash")
THEIRS = ("all pods are ready", "one slice catches up", "slices catch up", "time passes", "promote now", "abort")
TAPES = st.lists(
    st.tuples(st.one_of(st.sampled_from(OURS), st.sampled_from(THEIRS)), st.integers(0, 3), st.integers(0, 2)),
    min_size=20,
    max_size=60,
)


@settings(UNHURRIED, max_examples=300)
@given(strategy=st.sampled_from(SWITCHED), tape=TAPES)
def test_late_slices_shorten_no_drain(strategy: Strategy, tape: list[tuple[str, int, int]]) -> None:
    """`played` judges by the world's slices and its own arithmetic (`departures.py`)."""
    assert_comes_to_rest(played(edited(running(strategy, replicas=2, drain=SHORT), revision="b"), tape))

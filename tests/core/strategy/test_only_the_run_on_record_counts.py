"""Promise: a verdict is that of the run that the controller asked for, with the spec that it asked for, and of no other.

Who may make AnalysisRuns may give one our labels and our owner reference, and a metric that always succeeds. Only the controller
writes the status of Rollouts and of runs. So what counts is on record there: the hash of the spec before the run exists, and the
uid of the run with that spec before it has a verdict.
"""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.context.pass_context import context_of
from rollouts.core.lifecycle.analyses import run_name
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisPhase, run_spec_hash
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Strategy
from rollouts.core.model.status import Phase
from tests.core.measured_runs import runs_measured
from tests.core.model import World, annotated, snapshot
from tests.core.strategy.test_analyses_guard_an_update import AFTER, AT_STEP, BEFORE, IN_BACKGROUND
from tests.core.updates import measuring, waiting, waits_for
from tests.core.worlds import edited, reconciled, running, settled, steps_of

EASY = run_spec_hash(b'{"metrics":[{"name":"easy"}]}')
STRATEGIES = {"step": AT_STEP, "background": IN_BACKGROUND, "pre-promotion": BEFORE, "post-promotion": AFTER}
EACH_GATE = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))


def _changed(there: World, **changes: Any) -> World:
    """The runs, changed by somebody, with a success that somebody has arranged."""
    good = {"phase": AnalysisPhase.SUCCESSFUL, "measured": True, "completed_at_s": there.now_s}
    runs = tuple(replace(each, resource_version="x", **{**good, **changes}) for each in there.runs)
    return replace(there, runs=runs)


def _told(there: World) -> str:
    return waiting(there).message if waits_for(there) is Reason.ANALYSIS_INVALID else ""


def _verdicts(there: World) -> list[AnalysisPhase]:
    return [each.phase for each in there.status.analyses if each.phase.over]


@EACH_GATE
def test_a_run_that_somebody_made_in_place_of_ours_is_not_believed(strategy: Strategy) -> None:
    """It has our name, our labels, our owner reference, another spec, and a success. Once it is deleted, ours is made again."""
    there = measuring(strategy)

    there = settled(_changed(there, uid="forged", spec_hash=EASY))

    assert _verdicts(there) == []
    assert there.status.stable_revision == "a"
    assert "somebody else" in _told(there)
    assert f"kubectl delete analysisrun {there.runs[0].name} -n shop" in _told(there)
    assert any(each.reason is Reason.ANALYSIS_INVALID for each in there.notices)

    there = settled(replace(there, runs=()))
    assert _told(there) == ""
    there = settled(annotated(replace(there, unmeasured=False), "promote", "true"))
    assert (there.status.phase, there.status.stable_revision) == (Phase.HEALTHY, "b")


@EACH_GATE
@pytest.mark.parametrize(
    "edits",
    [{"spec_hash": EASY}, {"spec_hash": EASY, "generation": 2}, {"generation": 3}, {"generation": 2}],
    ids=["another spec", "edited", "edited and edited back", "edited and the same"],
)
def test_a_run_whose_spec_was_edited_is_not_believed(strategy: Strategy, edits: dict[str, Any]) -> None:
    """The CRD refuses edits of all but `terminate`; a cluster with an older CRD may not."""
    there = settled(_changed(measuring(strategy), **edits))

    assert _verdicts(there) == []
    assert there.status.stable_revision == "a"
    assert "was edited" in _told(there)


def test_a_run_that_is_told_to_end_is_believed() -> None:
    """`terminate` is the one field that may change."""
    there = settled(_changed(measuring(AT_STEP), generation=2, terminate=True))

    assert _verdicts(there) == [AnalysisPhase.SUCCESSFUL]
    assert there.status.phase is Phase.HEALTHY


def test_a_run_that_was_there_before_it_was_asked_for_is_none_of_ours() -> None:
    """Names of later runs can be worked out from status. One made early, with the right spec, measures other traffic."""
    there = replace(running(AT_STEP), unmeasured=True, bad=frozenset("b"))
    there = settled(edited(there, revision="b"))
    assert there.status.analyses == ()
    gate = AnalysisGate(AnalysisKind.STEP, 1)
    seen = snapshot(there)
    name = run_name(context_of(seen, seen.status), gate, 1)
    early = replace(measuring(AT_STEP).runs[0], name=name, uid="early", phase=AnalysisPhase.SUCCESSFUL)

    there = settled(replace(there, runs=(early,), bad=frozenset()))

    assert _verdicts(there) == []
    assert [each.uid for each in there.status.analyses] == [each.uid for each in there.runs if each.uid != "early"]
    assert there.status.phase is not Phase.HEALTHY


def test_the_spec_is_on_record_before_the_run_exists() -> None:
    """A controller that ends after any write leaves nothing that the next one would have to believe by its name."""
    there = replace(running(AT_STEP), unmeasured=True)
    there = edited(there, revision="b")
    before = [each for each in steps_of(there) if not each.runs][-1]

    recorded = reconciled(before, writes=1)

    assert recorded.runs == ()
    assert [(each.spec_hash, each.uid) for each in recorded.status.analyses] == [(run_spec_hash(b"{}"), "")]
    assert settled(recorded).runs != ()


def _old_record(there: World) -> World:
    """As a controller left it that noted neither hash nor uid."""
    records = tuple(replace(each, spec_hash="", uid="") for each in there.status.analyses)
    return replace(there, status=replace(there.status, analyses=records))


def test_a_run_of_an_older_controller_goes_on_if_its_spec_is_what_would_be_made_now() -> None:
    """An upgrade in mid-run begins no measurement again."""
    there = measuring(AT_STEP)
    mine = [each.uid for each in there.runs]

    there = settled(_old_record(there))
    assert [(each.uid, each.spec_hash != "") for each in there.status.analyses] == [(mine[0], True)]
    there = settled(runs_measured(there))

    assert there.status.phase is Phase.HEALTHY
    assert [each.uid for each in there.runs] == mine


@pytest.mark.parametrize(
    "run",
    [{"phase": AnalysisPhase.SUCCESSFUL}, {"spec_hash": EASY}, {"generation": 2}],
    ids=["over", "other", "edited"],
)
def test_any_other_run_of_an_older_controller_is_made_again(run: dict[str, Any]) -> None:
    """Nobody can tell it from a forged one. The new run has a name of its own."""
    there = measuring(AT_STEP)
    before = there.runs[0]

    there = settled(_old_record(replace(there, runs=(replace(before, **run),))))

    assert [each.run for each in there.status.analyses] == [
        each.name for each in there.runs if each.name != before.name
    ]
    assert len(there.runs) == 2
    assert there.status.phase is not Phase.HEALTHY


@pytest.mark.parametrize(
    ("spec", "same"),
    [
        (b'{"b":[1.0,{"c":null}],"a":"x"}', True),
        (b'{ "a": "x", "b": [1, {}], "terminate": true }', True),
        (b'{"a":"x","b":[1.5,{}]}', False),
        (b'{"a":"x","b":[{},1]}', False),
        (b"[" * 100_000, False),
        (b'{"a":"\\ud800"}', False),
    ],
)
def test_a_spec_has_the_hash_that_it_had_before_the_api_server_kept_it(spec: bytes, same: bool) -> None:
    """The server drops nulls, sorts keys, and writes 1.0 as 1; whoever ends a run adds `terminate`."""
    assert (run_spec_hash(spec) == run_spec_hash(b'{"a":"x","b":[1,{}]}')) is same

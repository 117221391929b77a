"""Promise: worlds in which much happens to ConfigMaps, to the load, or after a promotion without a verdict keep the same rules.

The worlds of test_any_world_is_safe_and_comes_to_rest.py, with more of one kind of moves. `ROLLOUTS_DEEP=1` looks at many more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.config import ConfigVersioning
from rollouts.core.model.frozen import replace
from rollouts.core.model.workload_ref import ScaleDownWorkload
from tests.core.coming_to_rest import assert_comes_to_rest, at_rest, healed
from tests.core.config_worlds import CONFIGURATION, CRED, OF_SECRETS, REFS, WITH_SECRET, source_written
from tests.core.load_moves import GATES, LOAD
from tests.core.measured_runs import UNJUDGED
from tests.core.model import World, world
from tests.core.named_workloads import REF, deployment
from tests.core.test_any_world_is_safe_and_comes_to_rest import (
    ANALYSED,
    BLUE_GREENS,
    CANARIES,
    ENVIRONMENT,
    EVERY,
    MORE,
    PASSES,
    PEOPLE,
    TAPES,
    UNHURRIED,
    WITH_ROUTES,
    WORKLOAD,
    played,
    upgraded,
)
from tests.core.worlds import edited, running, settled

STRATEGIES = (CANARIES[0], CANARIES[1], WITH_ROUTES[2], BLUE_GREENS[0], BLUE_GREENS[1], ANALYSED[0])


def _tapes(own: Iterable[str], *often: str) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    """What happens, with these moves besides."""
    names = [
        *(st.sampled_from(sorted(each)) for each in (PASSES, own, {**ENVIRONMENT, **PEOPLE})),
        *map(st.just, ("pass", "all pods are ready", "time passes", *often)),
    ]
    return st.lists(st.tuples(st.one_of(names), st.integers(0, 7), st.integers(0, 7)), max_size=60)


EDITED = "a source is edited, or created"
EDITS, SECRET_EDITS = _tapes(CONFIGURATION, EDITED), _tapes(CONFIGURATION, EDITED, *OF_SECRETS)
LOADS = _tapes(LOAD)
OF_WORKLOADS = _tapes(WORKLOAD, "a new template", "the workload is made")


@cache
def _start(number: int, *, from_before: bool, secrets: bool = False) -> World:
    """The first content is rolled out; `from_before` by a version of this program that made no copies."""
    refs = WITH_SECRET if secrets else REFS
    versioning = ConfigVersioning(secrets=secrets)
    there = world(STRATEGIES[number], replicas=2, config_refs=() if from_before else refs, config_versioning=versioning)
    there = settled(source_written(source_written(there, "v1"), "v1", CRED.name))
    return upgraded(there) if from_before else there


ORPHANED_AFTER_AN_EDIT = [("pass", 0, 0), (EDITED, 1, 0), ("crash", 1, 0), ("a replica set loses its owner", 0, 0)]
"""While nobody owns the ReplicaSet, its note of what the pods read is not seen; the update that follows is a true one."""


@MORE
@given(number=st.sampled_from(range(len(STRATEGIES))), from_before=st.booleans(), tape=EDITS)
@example(number=0, from_before=True, tape=ORPHANED_AFTER_AN_EDIT)
def test_any_sequence_of_edits_is_safe_and_comes_to_rest(
    number: int, from_before: bool, tape: list[tuple[str, int, int]]
) -> None:
    """Edits, deletions, reverts, updates, aborts, crashes, lost copies and reads that fail, are slow or out of date."""
    assert_comes_to_rest(played(_start(number, from_before=from_before), tape))


WITHOUT_ITS_CONTENT = [("a replica set is deleted", 0, 0), ("pass", 0, 0), ("the Secret is rotated, or created", 1, 0)]
"""The stable revision's ReplicaSet is made again, and the content of its copy is nowhere any more."""


ONE_COPY_GONE_AND_ONE_NOT_MADE = [
    (EDITED, 0, 1), ("crash", 0, 0), ("time passes", 0, 3), ("crash", 1, 0), ("pass", 0, 0), ("all pods are ready", 0, 0),
    (EDITED, 1, 0), ("a copy is deleted", 0, 0), ("the Secret is rotated, or created", 0, 0),
]  # fmt: skip
"""The copy of the Secret was made again in each pass, and never noted: the pods waited for the copy of the ConfigMap."""


@MORE
@given(number=st.sampled_from(range(len(STRATEGIES))), tape=SECRET_EDITS)
@example(number=0, tape=ONE_COPY_GONE_AND_ONE_NOT_MADE)
@example(number=0, tape=WITHOUT_ITS_CONTENT)
def test_any_sequence_with_a_secret_is_safe_and_comes_to_rest(number: int, tape: list[tuple[str, int, int]]) -> None:
    """The same for a Rollout that versions a Secret, too: no pod begins before its copy, and no note is a lie."""
    assert_comes_to_rest(played(_start(number, from_before=False, secrets=True), tape))


@cache
def gated(number: int, replicas: int, gate: int) -> World:
    """A new template comes to a Rollout whose steps wait for its autoscaler."""
    return edited(settled(world(EVERY[number], replicas=replicas, autoscaling=GATES[gate])), revision="b")


@MORE
@given(number=st.sampled_from(range(len(EVERY))), replicas=st.integers(1, 6), gate=st.integers(0, 2), tape=LOADS)
def test_an_update_that_waits_for_its_autoscaler_is_safe_and_comes_to_rest(
    number: int, replicas: int, gate: int, tape: list[tuple[str, int, int]]
) -> None:
    """Answers that change at any time, are old, partial, impossible or missing, and a gate that changes while it is asked."""
    assert_comes_to_rest(played(gated(number, replicas, gate), tape))


@cache
def measuring(number: int, replicas: int) -> World:
    """The world in which the analyses of an update measure, and say nothing yet; `number` of EVERY."""
    there = edited(replace(running(EVERY[number], replicas=replicas), unmeasured=True), revision="b")
    return replace(settled(there), unmeasured=False)


@cache
def named(number: int, replicas: int) -> World:
    """A Rollout has its template from a Deployment, and that has a new one."""
    scale_down = tuple(ScaleDownWorkload)[(number + replicas) % 3]
    there = world(EVERY[number], replicas=replicas, workload_ref=replace(REF, scale_down=scale_down))
    there = settled(replace(there, workload=deployment(there.version)))
    return edited(there, revision="b")


@MORE
@given(number=st.sampled_from(range(len(EVERY))), replicas=st.integers(1, 6), tape=OF_WORKLOADS)
def test_a_template_of_a_workload_is_safe_and_comes_to_rest(
    number: int, replicas: int, tape: list[tuple[str, int, int]]
) -> None:
    """The workload is edited, deleted, made again, loses its marks, is taken by others, or may not be seen for a while."""
    there = played(named(number, replicas), tape)

    assert_comes_to_rest(there)
    workload, reference = at_rest(healed(there)).workload, there.rollout.spec.workload_ref
    assert workload is not None and reference is not None
    if reference.scale_down is not ScaleDownWorkload.NEVER:
        assert workload.replicas == 0 or there.rollout.spec.replicas == 0


FIRST = len(EVERY) - len(ANALYSED)


@UNHURRIED
@given(number=st.sampled_from(range(FIRST, len(EVERY))), replicas=st.integers(1, 6), tape=TAPES)
def test_an_update_that_a_person_takes_on_without_a_verdict(
    number: int, replicas: int, tape: list[tuple[str, int, int]]
) -> None:
    """Crashes, stale views, edits, runs that end meanwhile and other commands; the invariants look at every decision."""
    there = measuring(number, replicas)
    waits_for = [each.gate for each in there.status.analyses if each.gate.kind is not AnalysisKind.BACKGROUND]
    named = [f"b@skip-{each.promoted_as}" for each in waits_for]
    skips = [("promote without a verdict", UNJUDGED.index(each), 0) for each in named if each in UNJUDGED]

    assert_comes_to_rest(played(there, [*skips, *tape]))

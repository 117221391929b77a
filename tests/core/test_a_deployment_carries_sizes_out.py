"""Promise: sizes that the policy wants of a Deployment become one move: fields, a ReplicaSet that moves, or a size of one."""

from __future__ import annotations

from typing import Any

import pytest

from rollouts.core.carrier.deployment import as_own, carried, reachable
from rollouts.core.context.pass_context import context_of
from rollouts.core.model.frozen import replace
from rollouts.core.model.in_place_intents import CreateInDeployment
from rollouts.core.model.intents import AskPods, Decision, Intent, RemoveAnnotation, SwitchService
from rollouts.core.model.rollout import Percent
from rollouts.core.model.snapshot import Pod, PodsSeen, ReplicaSet, ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus, Verb
from rollouts.core.model.workload_ref import Hold
from rollouts.core.scale.canary_sizes import Sizes
from tests.core.deployment_views import (
    ABORTED,
    BEGUN,
    HELD_S,
    NOW_S,
    ONE_NEW,
    PREVIEWED,
    PROMOTED,
    QUARTER,
    fields_of,
    inside,
    moved,
    moves_of,
    outside,
    ready_after,
    sized,
    stepped,
    view,
)
from tests.core.deployments import USERS
from tests.core.model import T0, service

UNTOLD: Any = ("something",)
_A4, _B0, _B1 = inside("a", 4), inside("b", 0), inside("b", 1)
_RUNS: dict[str, Any] = {"paused": False, "fields": QUARTER}
_OLDER: dict[str, Any] = {"paused": False, "fields": USERS}
FORWARD: dict[str, Any] = {
    "no set yet": (view(_A4), {"new": 0}, [CreateInDeployment(revision="b")]),
    "none is wanted": (view(_A4), {}, []),
    "no set yet, and not paused": (view(_A4, paused=False), {"new": 0}, [stepped(ONE_NEW, paused=True)]),
    "an older one shrinks beside it": (view(_A4, outside("c", 2)), {"c": 1}, [sized("c", 1)]),
    "an older one does not grow": (view(_A4, outside("c", 2)), {"c": 3}, []),
    "the first, for an old one": (view(_A4, _B0), {"a": 3, "b": 1}, [stepped(QUARTER)]),
    "the first, above": (view(_A4, _B0), {"b": 1}, [stepped(fields_of(Percent(25), Percent(0)))]),
    "old ones alone": (view(_A4, _B1), {"a": 2}, [stepped(fields_of(Percent(0), Percent(50)))]),
    "one of three": (
        view(inside("a", 3), _B0, replicas=3, spread=3),
        {"a": 2, "b": 1}, [stepped(fields_of(Percent(0), Percent(34)), replicas=3)]
    ),
    "one above three": (
        view(inside("a", 3), _B0, replicas=3, spread=3),
        {"b": 1}, [stepped(fields_of(Percent(33), Percent(0)), replicas=3)]
    ),
    "one of three hundred": (
        view(inside("a", 300), _B0, replicas=300), {"a": 299, "b": 1}, [stepped(fields_of(Percent(0), 1), replicas=300)]
    ),
    "one above three hundred": (
        view(inside("a", 300), _B0, replicas=300), {"b": 1}, [stepped(fields_of(1, Percent(0)), replicas=300)]
    ),
    "all above": (view(_A4, _B0), {"b": 4}, [stepped(fields_of(Percent(100), Percent(0)))]),
    "more than all above": (view(_A4, _B0), {"b": 5}, [stepped(fields_of(5, Percent(0)))]),
    "no pod is wanted": (view(_A4, _B0), {}, []),
    "no replicas": (view(inside("a", 0), _B0, replicas=0), {"b": 1}, []),
    "it is done": (view(inside("a", 3), _B1, **_RUNS), {}, []),
    "its controller has not acted": (view(_A4, _B1, **_RUNS), {"a": 2, "b": 2}, []),
    "too few old ones stay": (
        view(inside("a", 2), inside("b", 2), **_RUNS), {"a": 1, "b": 3}, [stepped(fields_of(Percent(0), Percent(75)))]
    ),
    "too many old ones": (view(inside("a", 4), inside("b", 0), **_RUNS), {"a": 2, "b": 2}, []),
    "too many old ones, after scaling": (
        view(inside("a", 4), inside("b", 0), spread=5, **_RUNS),
        {"a": 2, "b": 2}, [stepped(fields_of(Percent(0), Percent(50)))]
    ),
    "with one above": (
        view(_A4, _B1, paused=False, fields=fields_of(1, 0)), {"a": 3}, [stepped(fields_of(Percent(0), Percent(25)))]
    ),
    "an older one with what is done": (
        view(inside("a", 3), _B1, outside("c", 2), **_RUNS),
        {"a": 2, "b": 2, "c": 0}, [sized("c", 0), stepped(fields_of(Percent(0), Percent(50)))]
    ),
    "it comes in again": (view(_A4, outside("b", 0)), {"b": 1}, [moved("b", into=True)]),
    "when paused": (view(_A4, outside("b", 0), paused=False), {"b": 1}, [stepped(ONE_NEW, paused=True)]),
    "when nothing is to do": (view(_A4, outside("b", 0)), {}, []),
    "to take an old one": (view(_A4, outside("b", 0)), {"a": 3}, [moved("b", into=True)]),
    "not while stable ones are missing": (view(inside("a", 3), outside("b", 0)), {"b": 1}, []),
    "not before it has shrunk": (view(_A4, outside("b", 2)), {"a": 3, "b": 1}, [sized("b", 1)]),
    "not while its pods count": (view(_A4, outside("b", 1, min_ready_s=0)), {"b": 2}, [ready_after("b", HELD_S)]),
    "not while one is available": (view(_A4, outside("b", 1, available=1)), {"b": 2}, []),
    "not before it is seen": (view(_A4, outside("b", 1, observed=False)), {"b": 2}, []),
    "with room": (
        view(_A4, outside("b", 2)), {"b": 3}, [stepped(fields_of(2, 0), paused=True)]
    ),
    "with pods": (view(_A4, outside("b", 1)), {"b": 3}, [moved("b", into=True)]),
}  # fmt: skip
BACK: dict[str, Any] = {
    "an abort": (view(inside("a", 3), _B1, status=ABORTED, **_RUNS), {}, [stepped(QUARTER, paused=True)]),
    "then it leaves": (view(inside("a", 3), _B1, status=ABORTED), {}, [moved("b", into=False)]),
    "then stable ones grow": (
        view(inside("a", 3), outside("b", 1), status=ABORTED, fields=QUARTER), {"b": 0}, [sized("b", 0)]
    ),
    "paused": (
        view(inside("a", 3), outside("b", 1), status=ABORTED, **_RUNS), {"b": 0}, [stepped(QUARTER, paused=True)]
    ),
    "all are there": (
        view(_A4, outside("b", 1), status=ABORTED, fields=QUARTER),
        {"b": 0}, [stepped(ONE_NEW, paused=True), sized("b", 0)]
    ),
    "it is over": (view(_A4, outside("b", 0), status=ABORTED), {}, []),
    "more stable ones": (view(inside("a", 2), inside("b", 2)), {"a": 3}, [moved("b", into=False)]),
    "fewer new ones": (view(inside("a", 2), inside("b", 2)), {"b": 1}, [moved("b", into=False)]),
    "fewer, when its controller has not acted": (view(_A4, _B1, **_RUNS), {"b": 0}, []),
    "fewer, and paused": (view(inside("a", 3), _B1, **_RUNS), {"b": 0}, [stepped(QUARTER, paused=True)]),
    "an older one": (view(_A4, inside("c", 1)), {"c": 0, "new": 0}, [moved("c", into=False)]),
    "an older one and the new one": (
        view(inside("a", 3), inside("c", 1), _B1), {"a": 4}, [moved("c", into=False), moved("b", into=False)]
    ),
    "an older one, with another that shrinks": (
        view(_A4, inside("c", 1), outside("d", 2)), {"d": 1}, [moved("c", into=False), sized("d", 1)]
    ),
    "an empty older one stays": (view(_A4, inside("c", 0)), {"new": 0}, [CreateInDeployment(revision="b")]),
    "no stable one is left": (
        view(inside("a", 0), inside("b", 4), status=ABORTED), {}, [sized("a", 1)]
    ),
    "room for the first": (
        view(inside("a", 0), inside("b", 5), status=ABORTED), {}, [stepped(fields_of(2, 0), paused=True)]
    ),
    "no replicas": (
        view(inside("a", 0), inside("b", 1), status=ABORTED, replicas=0), {}, [moved("b", into=False)]
    ),
    "no stable one": (view(inside("b", 1), status=ABORTED), {}, []),
}  # fmt: skip
BEGINS: dict[str, Any] = {
    "the first is made": (
        view(_A4, held=False, fields=USERS), {"new": 0}, [stepped(replace(QUARTER, max_surge=Percent(25)), paused=True, number=1)]
    ),
    "the first is wanted": (
        view(_A4, _B0, held=False, fields=USERS),
        {"b": 1}, [stepped(fields_of(Percent(25), Percent(25)), paused=True, number=1)]
    ),
    "nothing is wanted": (view(_A4, _B0, held=False, fields=USERS), {}, []),
    "nothing keeps it": (
        view(_A4, _B0, held=False, **_OLDER), {}, [stepped(fields_of(Percent(25), Percent(25)), paused=True, number=1)]
    ),
    "an abort keeps it": (view(_A4, _B0, held=False, status=ABORTED), {"b": 1}, []),
    "an older one has pods": (
        view(_A4, inside("c", 1), held=False, fields=USERS),
        {}, [stepped(fields_of(Percent(25), Percent(25)), paused=True, number=1)]
    ),
    "somebody has written fields": (
        view(_A4, _B1, paused=False, written=ONE_NEW, fields=QUARTER), {}, [stepped(QUARTER, paused=True)]
    ),
    "nobody has": (view(inside("a", 3), _B1, written=QUARTER, **_RUNS), {}, []),
    "not on record": (view(_A4, now=replace(BEGUN, stable_revision="c")), {"new": 0}, []),
    "not on record either": (view(_A4, now=replace(BEGUN, current_revision="c")), {"new": 0}, []),
    "the abort is not on record": (view(_A4, _B1, now=ABORTED), {}, []),
    "no verdict on record": (view(_A4, now=replace(BEGUN, analyses=UNTOLD)), {"new": 0}, []),
    "no command on record": (view(_A4, now=replace(BEGUN, commands=UNTOLD)), {"new": 0}, []),
    "no first revision": (view(_A4, status=replace(BEGUN, stable_revision="")), {"new": 0}, []),
    "not observed": (view(_A4, observed=False), {"new": 0}, []),
    "deleted": (view(_A4, deleting=True), {"new": 0}, []),
    "not known": (view(_A4, strays=None), {"new": 0}, []),
    "another's": (view(_A4, managed_by="x"), {"new": 0}, []),
}  # fmt: skip
_B4 = inside("b", 4)
REST: dict[str, Any] = {"status": PROMOTED, "updated": 4}
AT_REST: dict[str, Any] = {
    "the fields go back": (view(_B4, **REST), {}, [stepped(USERS, number=None)]),
    "they are back": (view(_B4, held=False, **_OLDER, **REST), {}, []),
    "it was paused by a policy": (view(_B4, held=False, fields=USERS, **REST), {}, [stepped(USERS, number=None)]),
    "it stays paused": (view(_B4, held=False, fields=USERS, kept=Hold.AT_REST, **REST), {}, []),
    "it is paused": (
        view(_B4, held=False, kept=Hold.AT_REST, **_OLDER, **REST), {}, [stepped(USERS, paused=True, number=None)]
    ),
    "not known what holds it": (view(_B4, held=False, hold=None, **_OLDER, **REST), {}, []),
    "not known, so it stays paused": (view(_B4, hold=None, **REST), {}, [stepped(USERS, paused=True, number=None)]),
    "its controller has not seen its set": (view(_B4, status=PROMOTED, updated=0), {}, []),
    "no pods, so nothing to see": (
        view(inside("b", 0), replicas=0, status=PROMOTED, updated=0), {}, [stepped(USERS, number=None)]
    ),
    "older ones return empty": (
        view(_B4, outside("a", 0), outside("c", 0, replicas=1), outside("d", 2), **REST), {"d": 1},
        [moved("a", into=True), sized("d", 1), stepped(USERS, number=None)],
    ),
    "older ones return empty, afterwards": (
        view(_B4, outside("a", 0), held=False, **_OLDER, **REST), {}, [moved("a", into=True)]
    ),
    "another is inside": (
        view(_B4, inside("a", 1, min_ready_s=0), kept=Hold.AT_REST, **REST),
        {},
        [stepped(USERS, number=None)],
    ),
    "another is inside, and counts again": (
        view(_B4, inside("a", 1), **REST), {}, [ready_after("a", 0), stepped(USERS, number=None)]
    ),
    "it is outside without pods": (view(outside("b", 0), **REST), {}, [moved("b", into=True)]),
    "no set": (view(_A4, **REST), {}, []),
}  # fmt: skip

BY: dict[str, Any] = {"strategy": PREVIEWED}
ROOM = fields_of(Percent(100), 0)
_COUNTED = inside("a", 4, min_ready_s=0)
BESIDE: dict[str, Any] = {
    "it begins": (view(_A4, held=False, fields=USERS, **BY), {"new": 0}, [stepped(ONE_NEW, paused=True, number=1)]),
    "nothing keeps it": (view(_A4, held=False, **_OLDER, **BY), {}, [stepped(ONE_NEW, paused=True, number=1)]),
    "nothing is wanted": (view(_A4, held=False, fields=USERS, **BY), {}, []),
    "no update, and one outside": (
        view(_A4, outside("b", 2), held=False, fields=USERS, status=ABORTED, **BY), {"b": 1}, [sized("b", 1)]
    ),
    "no update, and one grows": (
        view(_A4, outside("b", 2), held=False, fields=USERS, status=ABORTED, **BY),
        {"b": 3}, [sized("b", 3, grows=True)]
    ),
    "not observed": (view(_A4, observed=False, **BY), {"new": 0}, []),
    "not paused": (view(_A4, paused=False, **BY), {"new": 0}, [stepped(ONE_NEW, paused=True)]),
    "other fields": (view(_A4, fields=QUARTER, **BY), {"new": 0}, [stepped(ONE_NEW, paused=True)]),
    "the new one is made": (
        view(_COUNTED, outside("c", 2), **BY),
        {"new": 0, "c": 1}, [CreateInDeployment(revision="b", beside=True), sized("c", 1)]
    ),
    "none is wanted": (view(_COUNTED, **BY), {}, []),
    "not after an abort": (view(_COUNTED, status=ABORTED, **BY), {"new": 0}, []),
    "a new one that is inside leaves": (view(_A4, _B0, **BY), {"b": 1}, [moved("b", into=False)]),
    "an empty one stays": (view(_COUNTED, _B0, **BY), {}, []),
    "not in an abort": (view(_COUNTED, _B0, status=ABORTED, **BY), {"b": 1}, []),
    "it grows": (view(_COUNTED, outside("b", 1), **BY), {"b": 2}, [sized("b", 2, grows=True)]),
    "no stable one is there": (view(outside("b", 1), **BY), {"b": 2}, [sized("b", 2, grows=True)]),
    "it counts again": (view(_COUNTED, outside("b", 2), outside("c", 2), **BY), {}, [ready_after("b", 0)]),
    "both count again": (view(inside("a", 4), outside("b", 2), **BY), {"b": 1}, [ready_after("a", 0), sized("b", 1)]),
    "an older one with pods leaves": (view(_A4, inside("c", 1), **BY), {"new": 0}, [moved("c", into=False)]),
    "that of an older one, begun anew": (
        view(_A4, inside("c", 1), held=False, fields=USERS, **BY), {}, [stepped(ONE_NEW, paused=True, number=1)]
    ),
    "promoted": (
        view(_A4, outside("b", 4), held=False, **_OLDER, **REST, **BY), {}, [stepped(ONE_NEW, paused=True, number=1)]
    ),
    "promoted, and paused": (
        view(_A4, outside("b", 4), paused=False, **REST, **BY), {}, [stepped(ONE_NEW, paused=True)]
    ),
    "promoted, not observed": (
        view(_A4, outside("b", 4), observed=False, **REST, **BY), {"b": 5}, [sized("b", 5, grows=True)]
    ),
    "promoted, and its controller has not seen it": (view(_A4, outside("b", 4), observed=False, **REST, **BY), {}, []),
    "at another size": (view(_A4, outside("b", 4), **REST, **BY), {"b": 5}, [sized("b", 5, grows=True)]),
    "none counts first": (
        view(inside("a", 4, min_ready_s=0), outside("b", 4, min_ready_s=0), **REST, **BY), {},
        [ready_after("b", HELD_S), ready_after("a", HELD_S)],
    ),
    "none counts yet": (view(_A4, outside("b", 4, available=1), **REST, **BY), {}, []),
    "none of the others": (view(inside("a", 4, available=1), outside("b", 4), **REST, **BY), {}, []),
    "not known yet": (view(_A4, outside("b", 4, observed=False), **REST, **BY), {}, []),
    "room for all": (view(_A4, outside("b", 4), **REST, **BY), {}, [stepped(ROOM, paused=True)]),
    "it comes in": (view(_A4, outside("b", 4), fields=ROOM, **REST, **BY), {}, [moved("b", into=True)]),
    "its number comes first": (
        view(_A4, _B4, fields=ROOM, status=PROMOTED, updated=0, **BY), {"a": 4}, []
    ),
    "the old one leaves": (view(_A4, _B4, fields=ROOM, **REST, **BY), {"a": 4}, [moved("a", into=False)]),
    "the old one is to go": (view(_A4, _B4, **REST, **BY), {"a": 0}, [stepped(USERS, number=None)]),
    "stable ones are out": (view(outside("a", 4), _B0, **BY), {}, [stepped(ROOM, paused=True)]),
    "stable ones come in": (view(outside("a", 4), _B0, fields=ROOM, **BY), {}, [moved("a", into=True)]),
    "a stable one of none": (
        view(outside("a", 0), inside("b", 0), fields=ROOM, replicas=0, **BY), {}, [moved("a", into=True)]
    ),
    "not while others are there": (view(outside("a", 0), inside("b", 1), **BY), {"a": 4}, [sized("a", 4, grows=True)]),
    "others first": (view(outside("a", 0), inside("b", 1), **BY), {}, []),
}  # fmt: skip
_ALL, _ONE = {"cart": "", "cart-preview": ""}, {"cart": "b", "cart-preview": "b"}


def _selects(name: str, revision: str) -> SwitchService:
    return SwitchService(name=name, uid=f"uid-{name}", resource_version="1", revision=revision)


SERVICES: dict[str, Any] = {
    "narrowed when paused": (
        view(_A4, services=_ALL, **BY), {"new": 0}, [_selects("cart", "a"), _selects("cart-preview", "a")]
    ),
    "narrowed in the write that pauses": (
        view(_A4, services={"cart": "", "cart-preview": "a"}, paused=False, **BY), {},
        [_selects("cart", "a"), stepped(ONE_NEW, paused=True)][::-1],
    ),
    "narrowed as it begins": (
        view(_A4, services=_ALL, held=False, **_OLDER, **BY), {},
        [
            stepped(fields_of(Percent(25), Percent(25)), paused=True, number=1),
            *(_selects("cart", "a"), _selects("cart-preview", "a")),
        ],
    ),
    "narrowed before anything changes hands": (
        view(_A4, outside("b", 4), services=_ALL, **REST, **BY),
        {}, [_selects("cart", "b"), _selects("cart-preview", "b")]
    ),
    "widened at rest": (
        view(_B4, inside("a", 0), services=_ONE, held=False, **_OLDER, **REST, **BY), {},
        [_selects("cart", ""), _selects("cart-preview", "")],
    ),
    "not in an update": (view(_COUNTED, services={"cart": "a", "cart-preview": "a"}, **BY), {}, []),
    "not while pods end": (
        view(_B4, inside("a", 0, terminating=1), services=_ONE, held=False, **_OLDER, **REST, **BY), {}, []
    ),
    "not where nobody counts those": (
        view(_B4, inside("a", 0, terminating=None), services=_ONE, held=False, **_OLDER, **REST, **BY), {}, []
    ),
    "not while there are some": (
        view(_B4, inside("a", 0, replicas=1), services=_ONE, held=False, **_OLDER, **REST, **BY), {}, []
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "sizes", "moves"),
    [
        pytest.param(*case, id=f"{name}: {what}")
        for name, table in (
            ("forward", FORWARD),
            ("back", BACK),
            ("begins", BEGINS),
            ("at rest", AT_REST),
            ("beside", BESIDE),
            ("services", SERVICES),
        )
        for what, case in table.items()
    ],
)
def test_the_next_move_is_one_that_takes_no_pod_that_is_needed(
    seen: tuple[Snapshot, RolloutStatus], sizes: dict[str, int], moves: list[Intent]
) -> None:
    """It follows from the published status, and from what the Deployment's controller has carried out."""
    assert list(moves_of(seen, **sizes)) == moves


def _pod(number: int, since_s: float | None, **given: Any) -> Pod:
    made: dict[str, Any] = {"revision": "b", "ready": since_s is not None, "ready_since_s": since_s, **given}
    return Pod(name=f"pod-{number}", uid=f"pod-{number}", created_at_s=T0, **made)


PODS = (
    *(_pod(1, NOW_S - 20), _pod(2, NOW_S - 19), _pod(3, None), _pod(4, NOW_S - 30, deleting=True)),
    *(_pod(5, NOW_S - 50, revision="a"), _pod(6, NOW_S - 30, ready=False), _pod(7, None, ready=True)),
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (outside("b", 3), outside("b", 3, available=1, min_ready_s=20)),
        (outside("b", 3, ready=0), outside("b", 3, ready=0, min_ready_s=20)),
        (inside("a", 1), inside("a", 1, available=1, min_ready_s=20)),
        (inside("c", 1), inside("c", 1, min_ready_s=20)),
        (inside("b", 3, min_ready_s=20, available=3), inside("b", 3, min_ready_s=20, available=3)),
        (outside("b", 3, min_ready_s=20, observed=False), outside("b", 3, min_ready_s=20, observed=False)),
        (inside("b", 3, min_ready_s=20, observed=False), inside("b", 3, min_ready_s=20, observed=False, available=1)),
        (
            inside("b", 3, min_ready_s=20, observed=False, available=2),
            inside("b", 3, min_ready_s=20, observed=False, available=2),
        ),
        (inside("b", 1, min_ready_s=20, observed=False), inside("b", 1, min_ready_s=20, available=1)),
        (
            inside("b", 1, replicas=2, min_ready_s=20, observed=False),
            inside("b", 1, replicas=2, min_ready_s=20, observed=False, available=1),
        ),
        (
            inside("b", 2, replicas=1, ready=1, min_ready_s=20, observed=False),
            inside("b", 2, replicas=1, ready=1, min_ready_s=20, observed=False, available=1),
        ),
    ],
)
def test_the_policy_counts_pods_by_the_users_own_min_ready_seconds(before: ReplicaSet, after: ReplicaSet) -> None:
    """Only the list of pods says since when one is ready, as long as the Deployment's controller counts none."""
    seen, _ = view(before, min_ready_s=20, pods=PODS)

    assert as_own(seen) == replace(seen, replica_sets=(after,))


def test_without_min_ready_seconds_a_ready_pod_is_available() -> None:
    """No list of pods is needed."""
    seen, _ = view(outside("b", 3, ready=2))

    assert as_own(seen).replica_sets == (outside("b", 3, ready=2, available=2, min_ready_s=0),)


@pytest.mark.parametrize(
    ("sets", "selected", "shown"),
    [
        ((_B4, inside("a", 0)), "", "b"),
        ((_B4, inside("a", 0, replicas=1)), "", ""),
        ((_B4, _A4), "", ""),
        ((_B4,), "x", "x"),
        ((inside("b", 0),), "", "a"),
        ((), "", "a"),
    ],
)
def test_a_service_without_a_revision_selects_the_only_one_that_has_pods(
    sets: tuple[ReplicaSet, ...], selected: str, shown: str
) -> None:
    """Without any it is the stable one's. A Service of somebody else is left as it is."""
    seen, _ = view(*sets, services={"cart": selected, "cart-preview": selected}, **BY)
    others = replace(
        seen, services={**seen.services, "cart-preview": service("cart-preview", managed_by="x", watched=True)}
    )

    found = [as_own(each).services.values() for each in (seen, others)]
    revisions = [[each.revision for each in services if isinstance(each, ServiceSeen)] for services in found]
    assert revisions == [[shown, shown], [shown, ""]]


def _sizes(new: int, stable: int, wanted_new: int, wanted_stable: int) -> Sizes:
    return Sizes(new=new, stable=stable, older=(), wanted_new=wanted_new, wanted_stable=wanted_stable)


@pytest.mark.parametrize(
    ("of", "asked", "held"),
    [
        (view(inside("a", 5), inside("b", 3)), _sizes(2, 6, 2, 6), _sizes(3, 5, 3, 5)),
        (view(inside("a", 5), inside("b", 3)), _sizes(2, 8, 2, 6), _sizes(3, 7, 3, 5)),
        (view(inside("a", 5), inside("b", 3)), _sizes(2, 3, 2, 6), _sizes(3, 5, 3, 5)),
        (view(inside("a", 1), inside("b", 3)), _sizes(2, 2, 2, 2), _sizes(3, 1, 3, 1)),
        (view(inside("a", 0), inside("b", 3)), _sizes(2, 1, 2, 1), _sizes(2, 1, 2, 1)),
        (view(inside("a", 6), inside("b", 3)), _sizes(2, 6, 2, 6), _sizes(2, 6, 2, 6)),
        (view(inside("a", 5), inside("b", 2)), _sizes(2, 6, 2, 6), _sizes(2, 6, 2, 6)),
        (view(inside("a", 5), outside("b", 3)), _sizes(2, 6, 2, 6), _sizes(2, 6, 2, 6)),
        (view(inside("a", 5), inside("b", 3), status=ABORTED), _sizes(2, 6, 2, 6), _sizes(2, 6, 2, 6)),
        (view(inside("a", 5)), _sizes(2, 6, 2, 6), _sizes(2, 6, 2, 6)),
        (view(inside("b", 3)), _sizes(2, 6, 2, 6), _sizes(2, 6, 2, 6)),
    ],
)
def test_one_new_pod_too_many_stays_where_a_scaling_has_left_it(
    of: tuple[Snapshot, RolloutStatus], asked: Sizes, held: Sizes
) -> None:
    """The Deployment's controller rounds by itself, and one new pod more is one old pod less."""
    seen, status = of

    assert reachable(context_of(seen, status), asked) == held


@pytest.mark.parametrize(
    ("pods", "age_s", "asks", "at_s"),
    [
        (None, 0.0, True, NOW_S + 30),
        ((), 1.0, True, NOW_S + 30),
        ((), 0.5, False, NOW_S + 0.5),
        ((_pod(1, NOW_S - 5), _pod(2, NOW_S - 6)), 9.0, False, NOW_S + 14),
        ((_pod(1, NOW_S - 20), _pod(2, NOW_S - 25)), 9.0, False, NOW_S + 30),
    ],
    ids=["never listed", "listed too long ago", "listed a moment ago", "all are known", "all are available"],
)
def test_pods_are_listed_when_some_are_ready_of_which_no_list_says_since_when(
    pods: tuple[Pod, ...] | None, age_s: float, asks: bool, at_s: float
) -> None:
    """The next pass is when one of them is available. What is no size stays in the decision."""
    seen, status = view(inside("b", 2), min_ready_s=20, observed=False)
    seen = replace(seen, pods=None if pods is None else PodsSeen(NOW_S - age_s, pods))
    other = RemoveAnnotation(verb=Verb.PROMOTE, value="true")
    decision = Decision(status=status, intents=(other,), requeue_at_s=NOW_S + 30, status_first=True)
    listed = AskPods("app=cart", "uid-cart")

    asked = replace(decision, intents=(other, *((listed,) if asks else ())), requeue_at_s=at_s)
    assert carried(seen, decision) == asked
    assert carried(seen, replace(decision, intents=(AskPods(),))).intents == (listed,)

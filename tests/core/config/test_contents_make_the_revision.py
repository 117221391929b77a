"""Promise: a revision is the template with the contents of its sources; what is not known changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rollouts.core.config.content import copy_name
from rollouts.core.config.target import CLOCKS_APART_S, SPREAD_EACH_S, config_plan
from rollouts.core.model.config import (
    SETTLE_S,
    ConfigHold,
    ConfigKind,
    ConfigPlan,
    ConfigRef,
    ConfigUse,
    ConfigVersioning,
    CopySeen,
    Source,
    SourceAbsent,
    SourceKnown,
    SourceLeftAlone,
    SourceUnread,
)
from rollouts.core.model.frozen import replace
from rollouts.core.model.reasons import Reason
from rollouts.core.model.rollout import Canary
from rollouts.core.model.snapshot import ReplicaSet, Snapshot
from rollouts.core.model.status import Command, RolloutStatus, Verb
from tests.core.config_worlds import CONF, MAYBE
from tests.core.model import T0, snapshot, world
from tests.core.sources import SourceKey

LONG_AGO_S = T0 - 3600.0
ABSENT = SourceAbsent()
CONF_KEY, MAYBE_KEY = (CONF.kind, CONF.name), (MAYBE.kind, MAYBE.name)


def _known(content: str = "v1", **changes: Any) -> SourceKnown:
    given: dict[str, Any] = {
        "content": content, "immutable": False, "uid": "uid-conf", "resource_version": "7", "changed_at_s": LONG_AGO_S,
    }  # fmt: skip
    return SourceKnown(**{**given, **changes})


def _seen(conf: Source, maybe: Source = ABSENT, *, refs: Any = (CONF, MAYBE), **changes: Any) -> Snapshot:
    """A Rollout of template `a` whose template names both sources."""
    seen = replace(snapshot(world(Canary(), config_refs=refs)), sources={CONF_KEY: conf, MAYBE_KEY: maybe})
    return replace(seen, **changes)


def _plan(seen: Snapshot) -> ConfigPlan:
    plan = config_plan(seen)
    assert plan is not None
    return plan


def _hold(seen: Snapshot) -> ConfigHold:
    hold = _plan(seen).hold
    assert hold is not None
    return hold


def _replica_set(revision: str, config: tuple[ConfigUse, ...] | None = (), **changes: Any) -> ReplicaSet:
    return ReplicaSet(
        name=f"cart-{revision}", uid=f"uid-{revision}", resource_version="1", revision=revision, number=1,
        created_at_s=LONG_AGO_S, spec_replicas=4, config=config, **changes,
    )  # fmt: skip


def _on_record(seen: Snapshot, **changes: Any) -> Snapshot:
    """The same Rollout once that revision is rolled out, with its ReplicaSet."""
    plan = _plan(seen)
    status = RolloutStatus(current_revision=plan.revision, stable_revision=plan.revision)
    return replace(seen, status=status, replica_sets=(_replica_set(plan.revision, plan.uses, **changes),))


def _uses(seen: Snapshot) -> dict[str, tuple[str, str]]:
    return {each.source: (each.content, each.copy) for each in _plan(seen).uses}


def test_a_template_without_references_needs_no_plan() -> None:
    """Its revision is its hash, as it always was."""
    assert config_plan(_seen(_known(), refs=())) is None


def test_each_content_and_each_template_is_a_revision_of_its_own() -> None:
    """And the same two have the same revision again, so a revert is found."""
    seen = _seen(_known("v1"))
    other = replace(seen.rollout, spec=replace(seen.rollout.spec, template_hash="b"))

    revisions = [
        _plan(each).revision
        for each in (seen, _seen(_known("v2")), replace(seen, rollout=other), _seen(_known("v1"), _known("v1")))
    ]

    assert len(set(revisions)) == 4
    assert _plan(_seen(_known("v1", uid="another", resource_version="9"))).revision == revisions[0]


def test_a_new_replica_set_names_copies_and_nothing_for_an_absent_optional_source() -> None:
    """The copy's name tells source, Rollout and content. What is absent has a name that nobody uses.

    Under its own name it would reach running pods as soon as somebody creates it.
    """
    made = copy_name(ConfigKind.CONFIG_MAP, rollout="cart", source="conf", content="v1")
    nothing = copy_name(ConfigKind.CONFIG_MAP, rollout="cart", source="maybe", content="")

    assert _uses(_seen(_known("v1"))) == {"conf": ("v1", made), "maybe": ("", nothing)}
    assert not any(each.has_copy for each in _plan(_seen(_known("v1"))).uses if each.source == "maybe")


def test_an_immutable_source_needs_no_copy_and_counts_all_the_same() -> None:
    """Nobody can change it; Kustomize's and Helm's hashed names are like that. Its content is what rolls out."""
    assert _uses(_seen(_known("v1", immutable=True)))["conf"] == ("v1", "")
    assert _plan(_seen(_known("v1", immutable=True))).revision == _plan(_seen(_known("v1"))).revision


def test_a_source_that_is_left_alone_is_no_part_of_the_revision() -> None:
    """With every source left alone the revision is the template's hash."""
    assert set(_uses(_seen(_known(), SourceLeftAlone()))) == {"conf"}
    assert _plan(_seen(SourceLeftAlone(), SourceLeftAlone())) == ConfigPlan(revision="a")


def test_a_read_that_fails_is_told_although_another_one_is_under_way() -> None:
    """The one under way says nothing, and it is the other that people wait for."""
    hold = _hold(_seen(SourceUnread(), SourceUnread("etcdserver: leader changed")))

    assert hold.message == "etcdserver: leader changed"


@pytest.mark.parametrize(
    ("conf", "reason", "message"),
    [
        (SourceUnread(), Reason.CONFIG_NOT_READ, ""),
        (SourceUnread("etcdserver: leader changed"), Reason.CONFIG_NOT_READ, "etcdserver: leader changed"),
        (SourceUnread("grant get", needs_a_person=True), Reason.CONFIG_FORBIDDEN, "grant get"),
        (SourceAbsent(), Reason.CONFIG_NOT_FOUND, "ConfigMap conf does not exist: create it"),
    ],
)
def test_what_is_not_known_or_missing_holds_the_revision_on_record(conf: Source, reason: Reason, message: str) -> None:
    """An error is never read as absence, and a missing source takes nothing from the pods that run."""
    before = _on_record(_seen(_known("v1")))
    changed = replace(before.rollout, spec=replace(before.rollout.spec, template_hash="b"))

    seen = replace(before, rollout=changed, sources={**before.sources, CONF_KEY: conf})
    plan, hold = _plan(seen), _hold(seen)

    assert (plan.revision, plan.uses, plan.baseline) == (before.status.current_revision, (), None)
    assert hold.reason is reason
    assert hold.message.startswith(message)


@pytest.mark.parametrize(
    ("sources", "unread"),
    [
        ({CONF_KEY: SourceUnread("not listed yet", asks=False), MAYBE_KEY: SourceUnread()}, (MAYBE,)),
        ({CONF_KEY: SourceUnread("refused", needs_a_person=True), MAYBE_KEY: SourceUnread()}, (CONF, MAYBE)),
        ({}, (CONF, MAYBE)),
    ],
    ids=["the watch has not shown it yet", "it may not be read", "nobody has looked yet"],
)
def test_a_source_that_a_read_may_make_known_is_asked_for(
    sources: dict[SourceKey, Source], unread: tuple[ConfigRef, ...]
) -> None:
    """The others are waited for. A Rollout that never had a revision has none meanwhile."""
    plan = _plan(replace(_seen(_known()), sources=sources))

    assert (plan.hold is not None, plan.unread, plan.revision) == (True, unread, "")


def test_a_wiped_status_stays_at_the_newest_revision_that_serves() -> None:
    """A restored backup must not roll out anything before the contents are known."""
    old, new = _replica_set("x"), replace(_replica_set("y"), number=2)
    gone = replace(_replica_set("z"), number=3, deleting=True)

    assert _plan(_seen(SourceUnread(), replica_sets=(new, old, gone))).revision == "y"


def test_a_rollback_in_effect_leaves_the_revision_that_the_spec_means() -> None:
    """While nothing is known, the spec's revision is the one that the rollback left, so it holds."""
    rollback = Command(Verb.ROLLBACK, "true", "left", T0, target="back")
    status = RolloutStatus(current_revision="back", stable_revision="back", commands=(rollback,))

    assert _plan(_seen(SourceUnread(), status=status)).revision == "left"
    assert (
        _plan(_seen(SourceUnread(), status=replace(status, commands=(replace(rollback, over=True),)))).revision
        == "back"
    )


# --- ReplicaSets of an earlier version


def _upgraded(config: tuple[ConfigUse, ...] | None = (), **changes: Any) -> Snapshot:
    """A Rollout that an earlier version of this program made: its ReplicaSet names the sources."""
    status = RolloutStatus(current_revision="a", stable_revision="a")
    return _seen(_known("v1"), status=status, replica_sets=(_replica_set("a", config),), **changes)


def test_an_upgrade_rolls_out_nothing_and_notes_what_is_there() -> None:
    """The contents seen first are those of the pods that run."""
    plan = _plan(_upgraded())

    assert (plan.revision, plan.uses, plan.hold) == ("a", plan.baseline, None)
    assert plan.baseline is not None
    assert [(each.source, each.content, each.copy) for each in plan.baseline] == [("conf", "v1", ""), ("maybe", "", "")]


def test_a_note_is_written_once_and_its_contents_are_what_a_change_is_measured_by() -> None:
    """Then a change is a revision with copies, and the way back is the ReplicaSet that was there first."""
    baseline = _plan(_upgraded()).baseline
    noted = _upgraded(baseline)

    assert (_plan(noted).revision, _plan(noted).baseline) == ("a", None)
    changed = _plan(replace(noted, sources={**noted.sources, CONF_KEY: _known("v2")}))
    assert changed.revision == _plan(_seen(_known("v2"))).revision
    assert changed.uses[0].copy


@pytest.mark.parametrize("left", [1, None], ids=["it lacks a source that was left alone before", "nobody can read it"])
def test_a_note_that_says_too_little_is_written_again(left: int | None) -> None:
    """Somebody has damaged it, or the source belongs to it from now on; that is no change of any content."""
    baseline = _plan(_upgraded()).baseline
    assert baseline is not None

    plan = _plan(_upgraded(baseline[:left] if left else None))

    assert (plan.revision, plan.baseline) == ("a", baseline)


@pytest.mark.parametrize("deleting", [True, False])
def test_a_replica_set_that_somebody_deletes_comes_again_as_it_was(deleting: bool) -> None:
    """Its loss is no change of the template or of a content."""
    seen = _upgraded()
    left = tuple(replace(each, deleting=True) for each in seen.replica_sets) if deleting else ()

    assert _plan(replace(seen, replica_sets=left)).revision == "a"


def _edited_at(at_s: float, content: str = "v2", *, settle_s: float = SETTLE_S, **changes: Any) -> Snapshot:
    before = _on_record(_seen(_known("v1")))
    spec = replace(before.rollout.spec, config_versioning=ConfigVersioning(settle_s=settle_s))
    sources = {**before.sources, CONF_KEY: _known(content, changed_at_s=at_s, **changes)}
    return replace(before, rollout=replace(before.rollout, spec=spec), sources=sources)


def _gone(at_s: float | None) -> Snapshot:
    """The optional source has gone; None when nobody saw when."""
    seen = _on_record(_seen(_known("v1"), _known("v1")))
    return replace(seen, sources={**seen.sources, MAYBE_KEY: SourceAbsent(at_s)})


SETTLES: dict[str, tuple[Callable[[], Snapshot], float | None]] = {
    "files of one `kubectl apply` come one after another": (lambda: _edited_at(T0), T0 + SETTLE_S),
    "its time is nearly over": (lambda: _edited_at(T0 - SETTLE_S + 0.1), T0 + 0.1),
    "its time is over": (lambda: _edited_at(T0 - SETTLE_S), None),
    "settleSeconds: 0": (lambda: _edited_at(T0, settle_s=0.0), None),
    "an optional source went a second ago": (lambda: _gone(T0 - 1.0), T0 - 1.0 + SETTLE_S),
    "one that went while nobody looked is long gone": (lambda: _gone(None), None),
    "a first revision: nothing serves yet": (lambda: _seen(_known("v1", changed_at_s=T0)), None),
    "reverted in time: the content is on record": (lambda: _edited_at(T0, "v1"), None),
    "a clock that is ahead by a minute": (lambda: _edited_at(T0 + CLOCKS_APART_S), T0 + SETTLE_S),
    "by more: nobody's clock": (lambda: _edited_at(T0 + CLOCKS_APART_S + 1.0), None),
}


@pytest.mark.parametrize(("seen", "until_s"), SETTLES.values(), ids=list(SETTLES))
def test_a_change_waits_for_others_that_belong_to_it(seen: Callable[[], Snapshot], until_s: float | None) -> None:
    """Together they are one revision."""
    plan = _plan(seen())

    assert (plan.hold and plan.hold.deadline_s) == until_s
    if plan.hold is not None:
        assert (plan.hold.reason, plan.revision) == (Reason.CONFIG_SETTLING, seen().status.current_revision)


def test_the_last_of_several_changes_counts() -> None:
    """Each starts the time again."""
    seen = _edited_at(T0 - SETTLE_S)
    hold = _hold(replace(seen, sources={**seen.sources, MAYBE_KEY: _known("v1", changed_at_s=T0 - 1.0)}))

    assert hold.deadline_s == T0 - 1.0 + SETTLE_S
    assert hold.message.startswith("ConfigMap maybe has changed")


def test_rollouts_that_share_a_source_start_one_after_another() -> None:
    """Each has its turn, the same one in every pass and after a restart; all begin within half a second for each."""
    shared = 40
    turns = set()
    for number in range(shared):
        seen = _edited_at(T0, shared_by=shared)
        seen = replace(seen, rollout=replace(seen.rollout, uid=f"uid-{number}"))
        hold = _hold(seen)
        assert hold == _hold(replace(seen, now_s=T0 + 1.0))
        assert hold.deadline_s is not None
        turns.add(hold.deadline_s - T0 - SETTLE_S)
        assert "one after another" in hold.message

    assert len(turns) == shared
    assert min(turns) >= 0.0
    assert max(turns) < shared * SPREAD_EACH_S
    assert max(turns) - min(turns) > shared * SPREAD_EACH_S / 2


def _taken(seen: Snapshot) -> CopySeen:
    use = _plan(seen).uses[0]
    return CopySeen(
        kind=use.kind, name=use.copy, uid="u", resource_version="1", source=use.source, content=use.content,
        created_at_s=T0, problem="ConfigMap is not ours: delete it",
    )  # fmt: skip


def test_a_copy_that_nobody_has_compared_is_read_before_it_is_used() -> None:
    """Somebody may have made it before us; why the last read failed is what people wait for."""
    seen = _seen(_known())
    copy = replace(_taken(seen), problem="", checked=False, unread_because="etcdserver: leader changed")

    plan = _plan(replace(seen, copies=(copy,)))

    assert plan.hold == ConfigHold(Reason.CONFIG_NOT_READ, "etcdserver: leader changed")
    assert (plan.unread, plan.uses) == ((ConfigRef(copy.kind, copy.name),), ())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, "ConfigMap is not ours: delete it"),
        ({"problem": "", "deleting": True}, "is being deleted; if it stays, something has put a finalizer on it"),
        (
            {"problem": "", "claimed": True, "owned": False},
            "goes with an earlier Rollout of that name; if it stays, delete it",
        ),
    ],
    ids=["somebody else has taken its name", "an earlier one is being deleted", "an earlier one is about to go"],
)
def test_a_copy_that_cannot_be_used_holds_the_revision_on_record(how: dict[str, Any], words: str) -> None:
    """The message says what helps: without a word the Rollout would try to create it again and again.

    Once the ReplicaSet is there, its pods read that copy already.
    """
    seen = _edited_at(LONG_AGO_S)
    copies = (replace(_taken(seen), **how),)
    held = replace(seen, copies=copies)

    assert _plan(held).revision == seen.status.current_revision
    assert (_hold(held).reason, words in _hold(held).message) == (Reason.CONFIG_COPY_NOT_USABLE, True)
    made = _replica_set(_plan(seen).revision, _plan(seen).uses)
    if not how:
        assert _plan(replace(seen, copies=copies, replica_sets=(*seen.replica_sets, made))).hold is None

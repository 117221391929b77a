"""What a pass records in `.status`: a closed union of changes, and the one place that applies them.

A rule returns changes and never rewrites a status itself. Counts, conditions and the current wait are computed at the end of the
pass (`core/lifecycle/conditions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from rollouts.core.model.analysis import AnalysisRecord
from rollouts.core.model.frozen import replace
from rollouts.core.model.pod_exit import Injection
from rollouts.core.model.status import (
    Abort,
    Command,
    Cutover,
    Given,
    GivenBack,
    HistoryEntry,
    RolloutStatus,
    ScaleDown,
    Traffic,
    Verb,
    stable_before,
)
from rollouts.core.model.steps import WeightPercent
from rollouts.core.model.traffic import RouteName

_ABOUT_UPDATES = frozenset({Verb.PROMOTE, Verb.ABORT, Verb.RETRY, Verb.ROLLBACK})
_AUTHORS_MAX = 8


class RecoverRevisions(Struct, frozen=True):
    """Revisions that status lacks, found in the cluster or in the history. Whether pods were just evicted is lost with them."""

    stable_revision: str
    current_revision: str
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(
            status,
            stable_revision=self.stable_revision,
            current_revision=self.current_revision,
            evicting_since_s=self.at_s,
        )


class StartUpdate(Struct, frozen=True, kw_only=True):
    """Starts the update to another revision.

    Args:
        step_index: 0, or the number of steps when they are skipped.
        gate_passed: blue-green: there is nothing to preview.
        injection: what is added to its pod template; None for nothing.
        ended: the history entry of the unfinished update that it replaces; None when there is none.
        history_limit: how many entries the history keeps, at least 3.
    """

    revision: str
    revision_number: int
    strategy_hash: str
    step_index: int
    gate_passed: bool
    injection: Injection | None
    at_s: float
    ended: HistoryEntry | None
    history_limit: int

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(
            _at_first_step(status, at_s=self.at_s),
            current_revision=self.revision,
            revision_number=self.revision_number,
            strategy_hash=self.strategy_hash,
            step_index=self.step_index,
            gate_passed=self.gate_passed,
            attempt=0,
            authors=tuple(
                Given(each.verb, each.by)
                for each in status.commands
                if each.by is not None and each.verb is Verb.ROLLBACK and each.holds and each.target == self.revision
            ),
            injection=self.injection,
            history=status.history if self.ended is None else _with_entry(status, self.ended, limit=self.history_limit),
        )


class StartSteps(Struct, frozen=True):
    """Starts the update again at the first step of a changed list of steps."""

    strategy_hash: str
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(_at_first_step(status, at_s=self.at_s), strategy_hash=self.strategy_hash)


class KeepStepsDone(Struct, frozen=True):
    """Keeps a finished update finished although the list of steps has changed."""

    strategy_hash: str
    step_count: int

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, strategy_hash=self.strategy_hash, step_index=self.step_count, gate_passed=True)


class Retry(Struct, frozen=True):
    """Tries the current revision again from its first step."""

    attempt: int
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(_at_first_step(status, at_s=self.at_s), attempt=self.attempt)


class AbortUpdate(Struct, frozen=True):
    """Aborts the current revision; its steps start over when it is tried again."""

    abort: Abort

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(
            status,
            abort=self.abort,
            authors=_with_authors(status, status.commands),
            step_index=0,
            step_started_at_s=None,
            gate_started_at_s=None,
            gate_passed=False,
            progressed_at_s=self.abort.at_s,
        )


class DeclareAbort(Struct, frozen=True):
    """Makes an existing abort last as long as its annotation."""

    abort: Abort

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, abort=replace(self.abort, declared=True))


class SkipSteps(Struct, frozen=True):
    """Skips all steps because somebody promoted the update past them; the state after the last step must still be reached."""

    step_count: int
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, step_index=self.step_count, step_started_at_s=self.at_s)


class CompleteStep(Struct, frozen=True):
    """The previous step is done, and step `step_index` begins."""

    step_index: int
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, step_index=self.step_index, step_started_at_s=self.at_s, progressed_at_s=self.at_s)


class SetCanaryWeight(Struct, frozen=True):
    """Sets the share of traffic, or of pods, that the canary should have now; None for a strategy without one."""

    weight_percent: WeightPercent | None

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, weight_percent=self.weight_percent)


class RecordGate(Struct, frozen=True):
    """Blue-green: records when the preview reached its gate, and whether it passed."""

    started_at_s: float | None
    passed: bool

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, gate_started_at_s=self.started_at_s, gate_passed=self.passed)


class RecordSelected(Struct, frozen=True):
    """Blue-green: records the revisions that the Services' selectors name."""

    active_revision: str
    preview_revision: str

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, active_revision=self.active_revision, preview_revision=self.preview_revision)


class Promote(Struct, frozen=True):
    """Makes the current revision the stable one.

    Args:
        ended: the history entry of the update.
        history_limit: how many entries the history keeps, at least 3.
    """

    step_count: int
    at_s: float
    ended: HistoryEntry
    history_limit: int

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(
            status,
            stable_revision=status.current_revision,
            step_index=self.step_count,
            finished_at_s=self.at_s,
            progressed_at_s=self.at_s,
            history=_with_entry(status, self.ended, limit=self.history_limit),
            commands=tuple(each for each in status.commands if not (each.verb is Verb.PROMOTE and each.taken_off)),
            authors=(),
        )


class ExchangeRoles(Struct, frozen=True):
    """`pingPong`: the two Services exchange roles, so the traffic of the former canary Service is that of the stable one now."""

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        traffic = status.traffic
        if traffic is not None:
            traffic = Traffic(
                desired_percent=0, seen_at_s=traffic.seen_at_s, observed_percent=0, verified_by=traffic.verified_by
            )
        return replace(status, traffic=traffic, pong_is_stable=not status.pong_is_stable)


class RecordCommands(Struct, frozen=True):
    """Records the judged commands."""

    commands: tuple[Command, ...]

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, commands=self.commands, authors=_with_authors(status, self.commands))


class RecordCutovers(Struct, frozen=True):
    """Records the present state of the cutovers."""

    cutovers: tuple[Cutover, ...]

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, cutovers=self.cutovers)


class RecordScaleDowns(Struct, frozen=True):
    """Records the old revisions that keep their pods for a while."""

    scale_downs: tuple[ScaleDown, ...]

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, scale_downs=self.scale_downs)


class RecordTraffic(Struct, frozen=True):
    """Records which split is wanted and which was found live; None without routers."""

    traffic: Traffic | None

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, traffic=self.traffic)


class RecordReleased(Struct, frozen=True):
    """Records routes that the spec no longer names and that may still send requests to the canary Service."""

    given_back: tuple[GivenBack, ...]

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, given_back=self.given_back)


class RecordElsewhere(Struct, frozen=True):
    """Records the routes in other namespaces that this Rollout manages or is about to manage."""

    elsewhere: tuple[RouteName, ...]

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, elsewhere=self.elsewhere)


class RecordEvictions(Struct, frozen=True):
    """Records that pods may be evicted from now on, before the first is; None: every ReplicaSet has counted those that were."""

    since_s: float | None

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, evicting_since_s=self.since_s)


class RecordRestart(Struct, frozen=True):
    """Records that pods older than `older_than_s` have been replaced, and that every ReplicaSet has counted the evicted ones."""

    older_than_s: float
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, restarted_at_s=self.older_than_s, evicting_since_s=None, progressed_at_s=self.at_s)


class RecordAnalysis(Struct, frozen=True):
    """Records the latest run of a gate, its verdict, or that somebody promoted the revision past it."""

    record: AnalysisRecord

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        others = tuple([each for each in status.analyses if each.gate != self.record.gate])
        return replace(status, analyses=(*others, self.record))


class StepBack(Struct, frozen=True):
    """Goes back to the step that is done again once somebody promotes the revision past the verdict that has taken it back."""

    step_index: int
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(status, step_index=self.step_index, step_started_at_s=self.at_s, progressed_at_s=self.at_s)


class GoForward(Struct, frozen=True):
    """Tries the step again to which a verdict has gone back: in a new attempt, so all evidence is measured again."""

    attempt: int
    at_s: float

    def on(self, status: RolloutStatus) -> RolloutStatus:
        """The status after this change."""
        return replace(
            status, attempt=self.attempt, step_started_at_s=self.at_s, progressed_at_s=self.at_s, analyses=()
        )


StatusChange: TypeAlias = (
    RecoverRevisions
    | StartUpdate
    | StartSteps
    | KeepStepsDone
    | Retry
    | AbortUpdate
    | DeclareAbort
    | SkipSteps
    | CompleteStep
    | SetCanaryWeight
    | RecordGate
    | RecordSelected
    | Promote
    | ExchangeRoles
    | RecordCommands
    | RecordCutovers
    | RecordScaleDowns
    | RecordTraffic
    | RecordReleased
    | RecordElsewhere
    | RecordEvictions
    | RecordRestart
    | RecordAnalysis
    | StepBack
    | GoForward
)


def apply(status: RolloutStatus, changes: Iterable[StatusChange]) -> RolloutStatus:
    """The status after the changes, in their order; the same object when there are none."""
    for change in changes:
        status = change.on(status)
    return status


def _at_first_step(status: RolloutStatus, *, at_s: float) -> RolloutStatus:
    return replace(
        status,
        step_index=0,
        step_started_at_s=at_s,
        started_at_s=at_s,
        finished_at_s=None,
        progressed_at_s=at_s,
        weight_percent=0,
        abort=None,
        gate_started_at_s=None,
        gate_passed=False,
        analyses=(),
    )


def _with_authors(status: RolloutStatus, commands: tuple[Command, ...]) -> tuple[Given, ...]:
    """Who gave commands during this update: those who are known, and those of accepted commands about the current revision."""
    if not any(each.by for each in commands) or status.current_revision == status.stable_revision:
        return status.authors
    fresh = (
        Given(each.verb, each.by)
        for each in commands
        if each.by is not None
        and each.holds
        and each.verb in _ABOUT_UPDATES
        and each.revision == status.current_revision
    )
    return tuple(dict.fromkeys((*status.authors, *fresh)))[-_AUTHORS_MAX:]


def _with_entry(status: RolloutStatus, ended: HistoryEntry, *, limit: int) -> tuple[HistoryEntry, ...]:
    """The newest entries; among them, whatever came to nothing since, those of the last two revisions that became stable."""
    entries = (*status.history, ended)
    stable = stable_before(entries, "")
    before = stable_before(entries, stable.revision) if stable is not None else None
    needed = [each for each in (stable, before) if each is not None]
    others = [each for each in entries if each not in needed]
    kept = (*needed, *others[-(limit - len(needed)) :])
    return tuple(each for each in entries if each in kept)

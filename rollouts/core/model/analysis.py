"""Analyses as the policy sees them: what a spec asks for, the runs that exist, and the verdicts that status records.

How metrics are measured and judged is none of the policy's business: `core/analysis` and the controller's runs do that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, TypeAlias

from msgspec import Struct

from rollouts.core.model.declared import FLAT, NEEDED, AtMost, Json, Time, WhenUnreadable
from rollouts.core.model.numbering import step_number
from rollouts.core.model.revision import canonical_json
from rollouts.objects import ANALYSIS_RUN, EXPERIMENT, Kind


class AnalysisPhase(StrEnum):
    """Of a measurement, of a metric and of a run."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCESSFUL = "Successful"
    INCONCLUSIVE = "Inconclusive"
    ERROR = "Error"
    FAILED = "Failed"

    @property
    def over(self) -> bool:
        """Nothing follows it."""
        return self not in (AnalysisPhase.PENDING, AnalysisPhase.RUNNING)

    @property
    def bad(self) -> bool:
        """It stops what waits for it: neither a success nor still open."""
        return self.over and self is not AnalysisPhase.SUCCESSFUL

    def worse_than(self, other: AnalysisPhase) -> bool:
        """Of two that are over: they stand in their order from the best. Source of the order: Argo Rollouts' `IsWorse`."""
        phases = list(AnalysisPhase)
        return phases.index(self) > phases.index(other)


class AnalysisKind(StrEnum):
    """When in an update an analysis is made. The value is its name in labels, in status and in `promote: <revision>@<name>`."""

    STEP = "step"
    BACKGROUND = "background"
    PRE_PROMOTION = "pre-promotion"
    POST_PROMOTION = "post-promotion"
    BEFORE_UPDATE = "before-update"
    EXPERIMENT = "experiment"  # a step that is an Experiment; what it has found stands in the place of a run's verdict

    @property
    def object_kind(self) -> Kind:
        """The kind of the object that gives the verdict."""
        return EXPERIMENT if self is AnalysisKind.EXPERIMENT else ANALYSIS_RUN

    @property
    def is_step(self) -> bool:
        """Whether it is made at a step of its own, which a promotion names by its index."""
        return self in (AnalysisKind.STEP, AnalysisKind.EXPERIMENT)

    def fails_with(self, phase: AnalysisPhase) -> bool:
        """Whether a run that ends so has failed: an Experiment with an Error could not be carried out as the spec asks for it."""
        return phase is AnalysisPhase.FAILED or (self is AnalysisKind.EXPERIMENT and phase is AnalysisPhase.ERROR)


class OnFailure(StrEnum):
    """What follows when an analysis fails."""

    ABORT = "abort"
    HOLD = "hold"  # the update stands still until somebody promotes or aborts it
    STEP_BACK = "stepBack"  # the same, and the canary's weight goes back to the one before


class OnDeadline(StrEnum):
    """What follows when an analysis has no verdict at its deadline. Never a success."""

    HOLD = "hold"  # the update stands still until somebody promotes or aborts it
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What a spec says of one analysis.

    Args:
        path: where it stands, such as `spec.strategy.canary.analysis`.
        settings: as it is written: templates, arguments and rules, which only the builder of runs understands.
        templates: the names of its templates, for messages and for the identity of a step.
        starting_step: index of the step from which a background analysis runs.
        deadline_s: from the time when its run is asked for to the one when its verdict must be there; None for no end.
    """

    path: str
    settings: Mapping[str, Any] = field(hash=False)
    templates: tuple[str, ...]
    on_failure: OnFailure = OnFailure.ABORT
    starting_step: int = 0
    deadline_s: float | None = None
    on_deadline: OnDeadline = OnDeadline.HOLD


class AnalysisGate(Struct, frozen=True):
    """One place in an update that an analysis guards."""

    kind: Annotated[
        AnalysisKind,
        "Where it is: step, background, pre-promotion, post-promotion, before-update or experiment.",
        NEEDED,
    ]
    step: Annotated[int | None, "Index of the step; only of the kinds step and experiment."] = None

    @property
    def promoted_as(self) -> int | AnalysisKind:
        """The name by which a promotion passes its verdict: the step's index, or the kind of an analysis that is no step."""
        return self.kind if self.step is None else self.step

    @property
    def what(self) -> str:
        """In the words of a sentence: an analysis, or an experiment."""
        return "experiment" if self.kind is AnalysisKind.EXPERIMENT else "analysis"

    def __str__(self) -> str:
        return f"{self.kind} {self.what}" if self.step is None else f"step {step_number(self.step)} {self.what}"


Passable: TypeAlias = int | AnalysisKind | AnalysisGate
"""What a promotion passes: a step or its verdict, the verdict of an analysis without a step, or an analysis without a verdict."""


@dataclass(frozen=True, slots=True)
class RunDraft:
    """The spec of a run, complete but for secrets.

    Args:
        spec_json: `spec` of the AnalysisRun, JSON: a copy of the templates, so that editing them changes no run.
        latest, stable: the revisions that its arguments may name.
        labels, annotations: `analysisRunMetadata`.
        keeps_pods: of an Experiment: it keeps its pods, also after its end, until the Rollout lets them go.
    """

    spec_json: bytes
    latest: str
    stable: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    keeps_pods: bool = False

    @property
    def spec_hash(self) -> str:
        """What identifies the spec; worked out at each use."""
        return run_spec_hash(self.spec_json)


class DraftProblem(Struct, frozen=True):
    """Why no run can be made now: a template is missing, or it is wrong together with the arguments.

    Args:
        message: what is wrong and what to do; several problems are joined with "; ".
        comes_later: all that is missing are fields of `status`, which the update itself may write until its analysis begins.
    """

    message: str
    comes_later: bool = False


class TemplatesUnread(Struct, frozen=True):
    """An Experiment can be made once the pod templates of its revisions are read: no watch keeps them.

    Args:
        replica_sets: name and uid of each that is to be read; () while one of them is not there yet.
    """

    replica_sets: tuple[tuple[str, str], ...]


Draft: TypeAlias = RunDraft | DraftProblem | TemplatesUnread


def run_spec_hash(spec_json: bytes) -> str:
    """SHA-256 of a run's spec as the API server keeps it: without nulls, 1.0 as 1, and without `terminate`, which may change.

    It is not shortened: whoever may make runs must not find another spec with the same hash. `UNREADABLE` for what is no JSON.
    """
    try:
        spec = json.loads(spec_json or b"{}", parse_float=_number)
        known = {name: value for name, value in spec.items() if name != "terminate"} if isinstance(spec, dict) else spec
        return hashlib.sha256(canonical_json(known)).hexdigest()
    except (ValueError, RecursionError):
        return UNREADABLE


UNREADABLE = "unreadable"
"""In place of the hash of a spec that nobody can read: no spec of ours has it."""


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else value


class TemplateService(Struct, frozen=True):
    """The Service of one template of an Experiment; `ready` counts the ready pods that its EndpointSlices show."""

    template: str
    service: str
    ready: int = 0


class RunSeen(Struct, frozen=True, kw_only=True):
    """An AnalysisRun that this Rollout's uid controls, or an Experiment.

    Args:
        gate: from its labels; None when they are unreadable.
        message: why it has this phase; of one that runs: what its last measurements say.
        measured: each metric that counts has a measurement with a verdict.
        errors_in_a_row: the most, of a metric that counts and goes on, at the end of what was measured.
        terminate: somebody has told it to end.
        shortest_s: from its start to its earliest success; infinity when a metric goes on until somebody ends it; None when
            that is not known.
        spec_hash: of its spec as it is now; "" for a run that cannot be read.
        generation: how often its spec was written.
        services: of the templates of an Experiment that have one.
        kept_until_s: until when the pods of an Experiment must stay; infinity until the Rollout lets them go, 0 for no time.
    """

    name: str
    uid: str
    resource_version: str
    gate: AnalysisGate | None
    revision: str
    created_at_s: float
    phase: AnalysisPhase = AnalysisPhase.PENDING
    message: str = ""
    measured: bool = False
    errors_in_a_row: int = 0
    terminate: bool = False
    deleting: bool = False
    completed_at_s: float | None = None
    shortest_s: float | None = None
    spec_hash: str = ""
    generation: int = 1
    services: tuple[TemplateService, ...] = ()
    kept_until_s: float = 0.0


RECORD_MESSAGE_MAX = 1_024
"""Characters: there may be a record for every step, and an object of the API server holds 1.5 MB."""


class AnalysisRecord(Struct, frozen=True, kw_only=True):
    """The latest AnalysisRun, or Experiment, at one place of the current update.

    A record that cannot be read in full is left out: its run is looked at again, and half a record never becomes a success.

    Args:
        number: a background analysis that somebody promoted past begins anew.
        phase: once it is over, the verdict: it stays, whatever becomes of the run.
        back_to_percent: None for a verdict that took nothing back. One that cannot be read is 0: nothing else is known to be
            low enough.
        spec_hash: "" in a record of a controller that kept none.
        uid: "" before it was seen with that spec. Nothing that a run says counts before.
    """

    gate: Annotated[AnalysisGate, FLAT]
    number: Annotated[int, "Number of the run at this place in this attempt, from 1."]
    run: Annotated[str, "Name of the AnalysisRun, or of the Experiment.", NEEDED]
    phase: Annotated[
        AnalysisPhase,
        "Pending, Running, Successful, Failed, Inconclusive or Error; a verdict stays, whatever becomes of the run.",
        NEEDED,
    ]
    message: Annotated[str, "Why, in a sentence.", AtMost(RECORD_MESSAGE_MAX)] = ""
    at_s: Annotated[Time, "When the run was asked for; of a verdict: when it was recorded.", NEEDED] = 0.0
    passed: Annotated[
        bool, "Whether somebody promoted the revision past the verdict, or, in phase Pending, without one."
    ] = False
    back_to_percent: Annotated[
        int | Fraction | None,
        "The weight to which the verdict took the canary back, until somebody promotes, retries or aborts it.",
        Json("backToWeight"),
        WhenUnreadable(0),
    ] = None
    spec_hash: Annotated[
        str, "SHA-256 of the spec that the run was asked for with; a run with another spec does not count."
    ] = ""
    uid: Annotated[str, "uid of the run, once it was seen with that spec; a run with another uid does not count."] = ""

    @property
    def settled(self) -> bool:
        """Whether nothing that its run measures counts any more: the verdict is on record, or a person went on without one."""
        return self.phase.over or self.passed

    @property
    def opens(self) -> bool:
        """Whether the update may go on: the verdict is a success, or a person went on without one."""
        return self.phase is AnalysisPhase.SUCCESSFUL or self.passed

    @property
    def held(self) -> bool:
        """Whether its verdict is no success and nobody has promoted the revision past it."""
        return self.phase.bad and not self.passed

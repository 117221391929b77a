"""Experiments as values: their pods, their analyses, what they wait for, how they ended, and what ending one would do. Pure.

Objects come as the server's JSON, and their status may be anything: what cannot be read is left out and is no error.
"""

from __future__ import annotations

import hashlib
import json
import math

from msgspec import Struct

from rollouts.api.status.experiment import read_experiment_status
from rollouts.api.times import time_or_0
from rollouts.cli.exits import Exit
from rollouts.cli.view.durations import short
from rollouts.cli.view.objects import controlled_by, event_lines, images_of, pod_line, revision_of
from rollouts.cli.view.runs import RunLine, rollout_of, run_line
from rollouts.cli.view.tree import EventLine, RevisionLine, WaitLine
from rollouts.cli.view.verb_plans import Nothing
from rollouts.cli.view.words import Standing, how_long
from rollouts.core.experiment.model import ExperimentSpec, ExperimentStatus, GroupStatus, RunRecord
from rollouts.core.experiment.times import ends_at_s, leaves_at_s, waits_until_s
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.reasons import Reason
from rollouts.errors import SpecInvalid
from rollouts.manifests.ownership import kept_until_s
from rollouts.objects import Manifest, mapping, mappings

EVENTS_SHOWN = 12


class ExperimentLine(Struct, frozen=True, kw_only=True):
    """One Experiment.

    Args:
        ending: somebody has told it to end, and it has not.
        wanted: how many pods it is to have, of all templates.
        images: of the containers of all templates.
        rollout: whose step it is; "" for none.
        problems: why its spec cannot be carried out.
        deadline_s: when its present wait ends by itself; None for one that only verdicts end.
        leaves_at_s: when the Services and pods of one that is over go; None before, and when that is not known.
    """

    namespace: str
    name: str
    created_at_s: float
    status: ExperimentStatus
    ending: bool = False
    wanted: int = 0
    images: tuple[str, ...] = ()
    rollout: str = ""
    problems: tuple[str, ...] = ()
    deadline_s: float | None = None
    leaves_at_s: float | None = None

    @property
    def phase(self) -> AnalysisPhase:
        """How far it is, or how it ended."""
        return self.status.phase

    @property
    def available(self) -> str:
        """How many pods are available, of all templates."""
        return str(sum(group.available_replicas for group in self.status.groups))

    @property
    def available_of(self) -> str:
        """The same, with how many there are to be while it runs and that is known: `2 of 4`."""
        return f"{self.available} of {self.wanted}" if self.wanted and not self.phase.over else self.available

    def lasts(self, now_s: float) -> str:
        """How long it has run with all of its pods: `for 3m`, `took 2m, 5m ago`."""
        began_s, ended_s = self.status.available_at_s, self.status.completed_at_s
        if ended_s is not None:
            took = f"took {short(ended_s - began_s)}, " if began_s is not None else ""
            return f"{took}{short(now_s - ended_s)} ago"
        return f"for {short(now_s - (self.created_at_s if began_s is None else began_s))}"

    @property
    def standing(self) -> Standing:
        """How much it needs somebody: one that is Inconclusive is for a person to judge."""
        if self.phase is AnalysisPhase.INCONCLUSIVE:
            return Standing.PERSON
        if self.phase.bad or self.problems:
            return Standing.BAD
        return Standing.QUIET if self.phase.over else Standing.MOVING

    @property
    def gist(self) -> str:
        """What it waits for, or how it ended, without the time."""
        if self.phase is AnalysisPhase.PENDING and not self.status.message:
            return "waits for the controller"
        return self.status.message

    def waits(self, now_s: float) -> str:
        """What it waits for and how long that can take, or how it ended: `…, 3m left`."""
        if self.deadline_s is None:
            return self.gist
        return f"{self.gist}{how_long(WaitLine('', '', None, self.deadline_s), now_s=now_s)}"


class GroupLine(Struct, frozen=True, kw_only=True):
    """The pods of one template: what the controller has on record, and what was seen."""

    status: GroupStatus
    pods: RevisionLine


class ExperimentAnalysisLine(Struct, frozen=True):
    """One analysis: what the controller has on record, and its run; None for one that cannot be read."""

    record: RunRecord
    run: RunLine | None

    @property
    def title(self) -> str:
        """Which one it is."""
        return f"Analysis {self.record.name}"


class ExperimentObjects(Struct, frozen=True, kw_only=True):
    """One Experiment with its ReplicaSets, pods, Events and AnalysisRuns, as the API server gave them."""

    experiment: Manifest
    replica_sets: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    events: tuple[Manifest, ...] = ()
    runs: tuple[Manifest, ...] = ()


class WholeExperiment(Struct, frozen=True, kw_only=True):
    """One Experiment with everything that is shown of it.

    Args:
        lasts_s: from the time when all pods were available; None where its analyses end it.
        ends_at_s: when that is over; None also before its pods were available.
    """

    line: ExperimentLine
    groups: tuple[GroupLine, ...] = ()
    analyses: tuple[ExperimentAnalysisLine, ...] = ()
    events: tuple[EventLine, ...] = ()
    lasts_s: float | None = None
    ends_at_s: float | None = None


class Termination(Struct, frozen=True):
    """What ends an Experiment, guarded by its uid, and what that does."""

    patch: Manifest
    meaning: str

    @property
    def mark(self) -> str:
        """Recognizes what somebody was shown: the object, and what ending it does."""
        return hashlib.sha256(json.dumps([self.patch, self.meaning], sort_keys=True).encode()).hexdigest()


def experiment_line(manifest: Manifest) -> ExperimentLine:
    """The Experiment of a manifest."""
    metadata, spec = mapping(manifest.get("metadata")), _spec_of(manifest)
    status, _ = read_experiment_status(mapping(manifest.get("status")))
    templates = mappings(mapping(manifest.get("spec")).get("templates"))
    created_at_s = time_or_0(metadata.get("creationTimestamp"))
    invalid = next((each for each in status.conditions if each.type == Reason.INVALID_SPEC and each.status), None)
    return ExperimentLine(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        created_at_s=created_at_s,
        status=status,
        ending=bool(mapping(manifest.get("spec")).get("terminate")) and not status.phase.over,
        wanted=0 if spec is None else sum(group.replicas for group in spec.groups),
        images=tuple(image for each in templates for image in images_of({"spec": each})),
        rollout=rollout_of(manifest),
        problems=tuple(invalid.message.split("; ")) if invalid is not None and not status.phase.over else (),
        deadline_s=None if spec is None else waits_until_s(spec, status, created_at_s=created_at_s),
        leaves_at_s=_leaves_at_s(spec, status, kept_until_s(mapping(metadata.get("annotations")))),
    )


def _leaves_at_s(spec: ExperimentSpec | None, status: ExperimentStatus, kept_s: float) -> float | None:
    if spec is None or not status.phase.over:
        return None
    at_s = leaves_at_s(spec, status, kept_until_s=kept_s)
    return at_s if math.isfinite(at_s) else None


def whole_experiment(seen: ExperimentObjects) -> WholeExperiment:
    """The values that its page is drawn from."""
    line, spec = experiment_line(seen.experiment), _spec_of(seen.experiment)
    runs = {run["metadata"]["name"]: run_line(run) for run in seen.runs}
    return WholeExperiment(
        line=line,
        groups=tuple(_group_line(group, line, seen) for group in line.status.groups),
        analyses=tuple(ExperimentAnalysisLine(record, runs.get(record.run)) for record in line.status.runs),
        events=event_lines(seen.events)[-EVENTS_SHOWN:],
        lasts_s=None if spec is None else spec.lasts_s,
        ends_at_s=None if spec is None or line.phase.over else ends_at_s(spec, line.status),
    )


def group_text(group: GroupStatus) -> str:
    """The pods of one template, in a few words."""
    return f"{group.available_replicas} of {group.replicas} available"


def experiment_text(line: ExperimentLine) -> str:
    """One Experiment in one line, for output that is not a terminal."""
    text = f"{line.namespace}/{line.name} {line.phase}{', ending' if line.ending else ''}"
    return f"{text}: {line.status.message}" if line.status.message else text


def plan_termination(manifest: Manifest) -> Termination | Nothing:
    """Ends the Experiment now."""
    line, spec = experiment_line(manifest), _spec_of(manifest)
    if line.phase.over:
        return Nothing(f"{line.name} is over already: {line.phase}", Exit.BAD)
    if line.ending:
        return Nothing(f"{line.name} is ending already", Exit.OK)
    patch: Manifest = {"metadata": {"uid": manifest["metadata"]["uid"]}, "spec": {"terminate": True}}
    kept = kept_until_s(mapping(mapping(manifest.get("metadata")).get("annotations"))) > 0
    return Termination(patch, _what_ending_does(line.status, spec, kept=kept))


def _what_ending_does(status: ExperimentStatus, spec: ExperimentSpec | None, *, kept: bool) -> str:
    """See `core/experiment/decide.py`.

    Args:
        kept: its pods stay until its Rollout lets them go.
    """
    if status.started_at_s is None:
        return "it ends Inconclusive before it has begun, and no pods are made"
    after = "then" if spec is None else f"{short(spec.scale_down_delay_s)} later"
    after = "once no route sends them requests" if kept else after
    if status.available_at_s is None:
        return f"it ends Inconclusive, as not all of its pods are available yet; they go {after}"
    measuring = [record.name for record in status.runs if not record.phase.over]
    if measuring or (spec is not None and len(status.runs) < len(spec.analyses)):
        which = f" ({', '.join(measuring)})" if measuring else ""
        return f"its analyses{which} are judged by what they have measured, which is how it ends; its pods go {after}"
    return f"it ends Successful, as nothing is left to measure; its pods go {after}"


def _group_line(group: GroupStatus, line: ExperimentLine, seen: ExperimentObjects) -> GroupLine:
    made = next((each for each in seen.replica_sets if revision_of(each) == group.pod_template_hash), None)
    pods = [pod_line(pod) for pod in seen.pods if made is not None and controlled_by(pod, made)]
    return GroupLine(
        status=group,
        pods=RevisionLine(
            revision=group.pod_template_hash,
            number=0,
            roles=(),
            images=() if made is None else images_of(made),
            ready=group.ready_replicas,
            desired=group.replicas,
            pods=tuple(sorted(pods, key=lambda pod: (pod.created_at_s, pod.name))),
            leaves_at_s=line.leaves_at_s,
        ),
    )


def _spec_of(manifest: Manifest) -> ExperimentSpec | None:
    """None for one that cannot be carried out."""
    from rollouts.api.spec.experiment import parse_experiment  # noqa: PLC0415 - `get` must not wait for the models of specs

    try:
        return parse_experiment(mapping(manifest.get("spec")))
    except SpecInvalid:
        return None

"""What each command by annotation writes: promote, abort, retry, pause, resume, rollback, restart. Pure.

Each plan is made from what the Rollout shows now, so it names a revision and a step and cannot act on another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from rollouts.api import verbs as patches
from rollouts.api.times import format_time
from rollouts.cli.exits import Exit
from rollouts.cli.view.counts import count_of
from rollouts.cli.view.in_place import in_place
from rollouts.cli.view.objects import (
    RolloutObjects,
    names_revision,
    number_of,
    revision_of,
    status_of,
    view_of,
)
from rollouts.cli.view.runs import about
from rollouts.cli.view.tree import RolloutView, percent_text
from rollouts.core.model.analysis import AnalysisGate, AnalysisKind, AnalysisRecord
from rollouts.core.model.numbering import revision_title, step_number
from rollouts.core.model.status import Command, RolloutStatus, Verb, previous_revision
from rollouts.core.model.workload_ref import Hold, OnAbort, WorkloadKind
from rollouts.core.strategy.autoscaling import waits_at_gate
from rollouts.manifests.ownership import PREFIX
from rollouts.objects import Manifest, mapping

FIELD_MANAGER = "kubectl-rollouts"  # who gave a command, in its record and its Event


@dataclass(frozen=True, slots=True)
class CommandWrite:
    """The annotations that give a command, and what they mean.

    Args:
        patch: merge patch of the Rollout's annotations, from `api/verbs.py`.
        verb: the command whose record in `status.commands` shows the answer.
        meaning: for people: `lets revision x pass step 1`.
        target: for a rollback, the revision to go back to.
        loses: what is lost by it, for people; "" for nothing.
        counts: follows the meaning, for people.
    """

    patch: Manifest
    verb: Verb
    meaning: str
    target: str = ""
    # Counts change all the time, and change nothing of what is asked for.
    loses: str = field(default="", compare=False)
    counts: str = field(default="", compare=False)

    @property
    def words(self) -> str:
        """The meaning with its counts."""
        return f"{self.meaning}{self.counts}"

    @property
    def annotations(self) -> Mapping[str, str | None]:
        """The annotations to set, and those to remove (None)."""
        annotations: Mapping[str, str | None] = self.patch["metadata"]["annotations"]
        return annotations

    @property
    def value(self) -> str | None:
        """The annotation's value, which the record repeats; None when the annotation is removed, and the record with it."""
        return self.annotations[PREFIX + self.verb]


class Nothing(Struct, frozen=True):
    """Nothing is written, and why; `code` says whether that is an error."""

    why: str
    code: Exit


PlannedWrite = Callable[[RolloutObjects], CommandWrite | Nothing]


def plan_promote(
    seen: RolloutObjects,
    *,
    full: bool = False,
    step: int | None = None,
    gate: AnalysisKind | None = None,
    skip_analysis: bool = False,
) -> CommandWrite | Nothing:
    """Lets the current revision pass the gate it stands at, the gate given, or all of them.

    Args:
        full: everything that is left, analyses too.
        step: the step to pass; None for where it stands.
        gate: the analysis whose verdict to pass; `step` is that of the current step.
        skip_analysis: the analysis that measures now, without its verdict.
    """
    status = status_of(seen.rollout)
    revision = status.current_revision
    if not revision:
        return Nothing("the controller has not seen this Rollout yet", Exit.UNFINISHED)
    if revision == status.stable_revision:
        return Nothing(f"revision {revision} is stable already: there is nothing to promote", Exit.OK)
    if status.abort is not None:
        return Nothing(f"revision {revision} is aborted: retry it first", Exit.BAD)
    steps = view_of(seen).steps
    if step is not None and not 0 <= step < max(len(steps), 1):
        last = step_number(max(len(steps), 1) - 1)
        return Nothing(f"there is no step {step_number(step)}: the steps are {step_number(0)} to {last}", Exit.USAGE)
    held = _held(status)
    if skip_analysis:
        return _without_verdict(seen, status, held)
    if gate is not None and (held is None or held.gate.kind is not gate):
        return Nothing(f"no verdict of the {gate} analysis waits for a promotion", Exit.BAD)
    paused = paused_words(seen)
    if not full and step is None and held is not None:
        return _past_verdict(revision, held, paused)
    index = status.step_index if step is None else step
    if full:
        too = " and every analysis" if status.analyses else ""
        meaning = f"lets revision {revision} pass every step{too}{paused}"
        return CommandWrite(patches.promote(revision, full=True), Verb.PROMOTE, meaning)
    promoted = (command.passes for command in status.commands if command.promotes(status))
    if index >= max(len(steps), 1) or any(passed in (None, index) for passed in promoted):
        waits = f"; it waits: {status.waiting_for.message}" if status.waiting_for is not None else ""
        return Nothing(f"no step of revision {revision} is left to promote here{waits}", Exit.OK)
    passable = (held is not None and held.gate.step == index) or (waits_at_gate(status) and index == status.step_index)
    if steps and steps[index].startswith(("analysis", "experiment")) and not passable:
        why = "a promotion passes its verdict, once there is one that holds the update"
        others = "--skip-analysis passes it without one, --full passes everything"
        return Nothing(f"step {step_number(index)} has an {steps[index].split()[0]}: {why}; {others}", Exit.BAD)
    # A blue-green update has one gate, and it is number 0.
    which = f"step {step_number(index)} ({steps[index]}); {_next_stop(steps, after=index)}" if steps else "its gate"
    return CommandWrite(
        patches.promote(revision, step=index), Verb.PROMOTE, f"lets revision {revision} pass {which}{paused}"
    )


def _held(status: RolloutStatus) -> AnalysisRecord | None:
    """The verdict that only a person can pass, in the controller's order: one that took the weight back, one without a step."""
    if status.stepped_back is not None:
        return status.stepped_back
    held = [
        analysis for analysis in status.analyses if analysis.held and analysis.gate.step in (None, status.step_index)
    ]
    return min(held, key=lambda each: each.gate.step is not None, default=None)


def _past_verdict(revision: str, held: AnalysisRecord, paused: str) -> CommandWrite:
    patch = patches.promote(revision, step=held.gate.step, analysis=_without_step(held.gate))
    meaning = f"lets revision {revision} pass the verdict of its {about(held.gate)}, which is {held.phase}{paused}"
    if held.back_to_percent is not None:
        meaning = f"lets revision {revision} go forward again, and its {about(held.gate)} measure again{paused}"
    return CommandWrite(patch, Verb.PROMOTE, meaning)


def _without_verdict(
    seen: RolloutObjects, status: RolloutStatus, held: AnalysisRecord | None
) -> CommandWrite | Nothing:
    """Passes the analysis that the update waits for; what measures beside the steps goes on."""
    if held is not None:
        why = f"its {about(held.gate)} has a verdict, which is {held.phase}"
        return Nothing(f"{why}: promote passes it, without --skip-analysis", Exit.BAD)
    open_ones = [analysis for analysis in status.analyses if not analysis.settled]
    beside = [each for each in open_ones if each.gate.kind is AnalysisKind.BACKGROUND]
    measures = next((each for each in open_ones if each not in beside), None)
    if measures is None:
        why = "no analysis that the update waits for measures now"
        if beside:
            why += f"; to end the one beside the steps: rollouts analysis terminate {beside[0].run}"
        return Nothing(f"{why}: there is nothing to pass without a verdict", Exit.BAD)
    gate = measures.gate
    patch = patches.promote(status.current_revision, step=gate.step, analysis=_without_step(gate), unjudged=True)
    steps = view_of(seen).steps
    stop = f"; {_next_stop(steps, after=gate.step)}" if gate.step is not None else ""
    goes_on = "; the background analysis continues" if beside else ""
    meaning = f"lets revision {status.current_revision} pass its {about(gate)} without a verdict{stop}{goes_on}"
    lost = f"lost: what {gate.kind.object_kind.kind} {measures.run} has measured; it is ended, and nothing that it says counts"
    return CommandWrite(patch, Verb.PROMOTE, f"{meaning}{paused_words(seen)}", loses=lost)


def _without_step(gate: AnalysisGate) -> AnalysisKind | None:
    return gate.kind if gate.step is None else None


def _next_stop(steps: tuple[str, ...], *, after: int) -> str:
    stops = (
        index for index in range(after + 1, len(steps)) if steps[index].startswith(("pause", "analysis", "experiment"))
    )
    stop = next(stops, None)
    return "no later step stops it" if stop is None else f"it stops next at step {step_number(stop)} ({steps[stop]})"


def paused_words(seen: RolloutObjects) -> str:
    """A reminder that no other command ends a pause; "" when the Rollout is not paused."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return "; it stays paused by spec.paused in its manifest"
    if annotations_of(seen.rollout).get(PREFIX + Verb.PAUSE) == "true":
        return f"; it stays paused until `kubectl rollouts resume {seen.rollout['metadata']['name']}`"
    return ""


def plan_abort(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Aborts the current revision: the stable revision gets all traffic."""
    status = status_of(seen.rollout)
    revision = status.current_revision
    if not revision or revision == status.stable_revision:
        return Nothing("no update is under way: there is nothing to abort (to go back, use undo)", Exit.BAD)
    if status.abort is not None:
        return Nothing(f"revision {revision} is aborted already", Exit.OK)
    view = view_of(seen)
    done = f"{min(view.step_index, len(view.steps))} of {count_of(len(view.steps), 'step')}, " if view.steps else ""
    share = f"{percent_text(view.split_percent)} of the traffic, " if view.split_percent is not None else ""
    pods = f"{count_of(status.updated_replicas, 'pod')} of revision {revision}"
    lost = f"lost: {done}{share}{pods}; a retry begins again at its first step"
    after, counts = _after_abort(seen, view)
    meaning = f"aborts revision {revision}; {after}"
    return CommandWrite(patches.abort(revision), Verb.ABORT, meaning, loses=lost, counts=counts)


def _after_abort(seen: RolloutObjects, view: RolloutView) -> tuple[str, str]:
    """Which pods serve after an abort, and how many of them are ready unless all are."""
    workload = in_place(seen.rollout)
    if workload is not None and workload.kind is WorkloadKind.DAEMON_SET:
        reverts = seen.rollout["spec"]["workloadRef"].get("onAbort") == OnAbort.REVERT_TEMPLATE
        again = f"{workload} gets the template of revision {view.stable} again"
        return again if reverts else "the nodes that have it keep it, and no other node gets it", ""
    if not view.stable:
        return "no other one can serve", ""
    ready, stable = "", next((line for line in view.revisions if line.revision == view.stable), None)
    if stable is not None and stable.ready < stable.desired:
        are = "is" if stable.ready == 1 else "are"
        ready = f", of which {stable.ready} of {count_of(stable.desired, 'pod')} {are} ready"
    return f"revision {view.stable} gets all traffic", ready


def plan_retry(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Tries a revision that was aborted, or went back, again from its first step; removes an `abort` annotation that stands.

    A promotion of the attempt before that nobody but `rollouts` has set goes, too: it has no effect any more. One in a manifest
    stays, because who sets it again promotes the new attempt.
    """
    status = status_of(seen.rollout)
    if not status.may_be_retried:
        return Nothing("nothing is aborted: there is nothing to retry", Exit.BAD)
    revision = status.current_revision
    attempt = status.attempt + 1
    meaning = f"tries revision {revision} again (attempt {attempt}){paused_words(seen)}"
    setters = set()
    for entry in seen.rollout["metadata"].get("managedFields") or ():
        metadata = mapping(mapping(entry.get("fieldsV1")).get("f:metadata"))
        if f"f:{PREFIX}{Verb.PROMOTE}" in mapping(metadata.get("f:annotations")):
            setters.add(entry.get("manager"))
    withdraws = [Verb.PROMOTE] if setters == {FIELD_MANAGER} else []
    return CommandWrite(patches.retry(revision, attempt=attempt, withdraws=withdraws), Verb.RETRY, meaning)


def plan_pause(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Pauses the steps; scaling goes on."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return Nothing("spec.paused is set already", Exit.OK)
    return CommandWrite(patches.pause(), Verb.PAUSE, "pauses its steps")


def plan_resume(seen: RolloutObjects) -> CommandWrite | Nothing:
    """Removes the pause annotation; only its author ends a pause in the manifest."""
    if (seen.rollout.get("spec") or {}).get("paused"):
        return Nothing("it is paused by spec.paused: remove that from its manifest", Exit.BAD)
    if PREFIX + Verb.PAUSE not in annotations_of(seen.rollout):
        return Nothing("it is not paused by annotation; to pass a step that waits for promotion, use promote", Exit.BAD)
    return CommandWrite(patches.resume(), Verb.PAUSE, "resumes its steps")


def plan_rollback(seen: RolloutObjects, *, to: str | None) -> CommandWrite | Nothing:
    """Goes back to a kept revision without touching the spec.

    Args:
        to: a revision, or its number (`3`, `#3`); None for the previous revision.
    """
    status = status_of(seen.rollout)
    if not status.current_revision:
        return Nothing("the controller has not seen this Rollout yet", Exit.UNFINISHED)
    in_force_rollback = _rollback_that_holds(status)
    template = status.current_revision if in_force_rollback is None else in_force_rollback.revision
    kept = {revision_of(replica_set): number_of(replica_set) for replica_set in seen.replica_sets}
    if to is None:
        if in_force_rollback is not None:
            return Nothing(f"{_rolled_back(in_force_rollback)} already; use `--to` for another revision", Exit.OK)
        previous = previous_revision(status, template=template, kept=kept)
        if previous and (kubectl := _of_its_workload(seen, "undo", target=previous)):
            return Nothing(kubectl, Exit.BAD)
        if not previous:
            why = "it is the first one, or older ones are beyond spec.revisionHistoryLimit"
            return Nothing(f"no revision before {template} is kept: {why}", Exit.BAD)
        meaning = f"rolls back from revision {template} to revision {previous}{paused_words(seen)}"
        return CommandWrite(patches.rollback_to_previous(template), Verb.ROLLBACK, meaning, target=previous)
    revision = next((one for one, number in kept.items() if names_revision(to, one, number=number)), "")
    if not revision:
        listed = ", ".join(revision_title(number, revision) for revision, number in kept.items())
        return Nothing(f"revision {to} is not kept; the kept revisions: {listed or 'none'}", Exit.BAD)
    if in_force_rollback is not None and revision == in_force_rollback.target:
        return Nothing(f"{_rolled_back(in_force_rollback)} already", Exit.OK)
    if in_force_rollback is None and revision == template:
        serves = revision == status.stable_revision
        why = "is stable already" if serves else "is the template's, and is being rolled out"
        return Nothing(f"revision {revision} {why}", Exit.OK)
    number = kept[revision]
    if revision != template and (kubectl := _of_its_workload(seen, "undo", target=revision, number=number)):
        return Nothing(kubectl, Exit.BAD)
    meaning = f"rolls back from revision {template} to revision {revision}"
    if revision == template:
        meaning = f"goes forward to revision {revision}, the template's"
    return CommandWrite(patches.rollback(revision), Verb.ROLLBACK, f"{meaning}{paused_words(seen)}", target=revision)


def _rollback_that_holds(status: RolloutStatus) -> Command | None:
    """The rollback that is in effect instead of the template's revision; one for an earlier template is not in effect."""
    rollbacks = (command for command in status.commands if command.verb is Verb.ROLLBACK and command.holds)
    return next((rollback for rollback in rollbacks if rollback.target != rollback.revision), None)


def _rolled_back(in_force_rollback: Command) -> str:
    return f"it is rolled back from revision {in_force_rollback.revision} to revision {in_force_rollback.target}"


def plan_restart(seen: RolloutObjects, *, at_s: float) -> CommandWrite | Nothing:
    """Replaces every pod that is older than that time, when it has come."""
    if kubectl := _of_its_workload(seen, "restart"):
        return Nothing(kubectl, Exit.BAD)
    at_s = float(int(at_s))  # the API server keeps no fractions of a pod's age
    name = seen.rollout["metadata"]["name"]
    return CommandWrite(
        patches.restart(at_s), Verb.RESTART, f"replaces the pods of {name} that are older than {format_time(at_s)}"
    )


def _of_its_workload(seen: RolloutObjects, verb: str, *, target: str = "", number: int = 0) -> str:
    """What to type instead where a workload in place needs a new template for it; "" where it needs none.

    Args:
        target: of a rollback; the workload still makes pods of the stable revision, but a DaemonSet does not.
        number: of that revision; 0 for the previous one.
    """
    workload, metadata = in_place(seen.rollout), seen.rollout["metadata"]
    if workload is None:
        return ""
    if target == status_of(seen.rollout).stable_revision != "" and workload.kind is not WorkloadKind.DAEMON_SET:
        return ""
    to = f" --to-revision={number}" if number else ""
    kubectl = f"kubectl rollout {verb} {workload.for_kubectl}{to} -n {metadata['namespace']}"
    decides = f"{workload} is updated in place, so its template decides: {kubectl}"
    is_paused = workload.kind is WorkloadKind.DEPLOYMENT
    if is_paused and seen.rollout["spec"]["workloadRef"].get("hold") == Hold.AT_REST:
        return f"{decides}; kubectl refuses that while the Deployment is paused: apply the other template then"
    return f"{decides}; the steps of this Rollout follow"


def annotations_of(rollout: Manifest) -> Mapping[str, str]:
    """The annotations of an object."""
    annotations: Mapping[str, str] = rollout["metadata"].get("annotations") or {}
    return annotations

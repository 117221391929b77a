"""Promote, abort, retry, pause, rollback and restart as merge patches of a Rollout's annotations.

Every builder takes `resource_version`. If it is given, the write fails with a conflict when the Rollout has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from rollouts.api.spec.metadata import OUR_PREFIX
from rollouts.api.times import format_time
from rollouts.core.model.analysis import AnalysisKind
from rollouts.core.model.status import Verb
from rollouts.objects import Manifest


def promote(
    revision: str,
    *,
    step: int | None = None,
    analysis: AnalysisKind | None = None,
    full: bool = False,
    unjudged: bool = False,
    resource_version: str = "",
) -> Manifest:
    """Lets `revision` pass one gate: a step, the verdict of an analysis without a step, all (`full`), or where it waits.

    Args:
        unjudged: the analysis at that gate, while it measures, without a verdict.
    """
    gate = "full" if full else analysis if analysis is not None else step
    suffix = "" if gate is None else f"@{'skip-' if unjudged else ''}{gate}"
    return _annotate({Verb.PROMOTE: f"{revision}{suffix}"}, resource_version)


def abort(revision: str, *, resource_version: str = "") -> Manifest:
    """Aborts `revision` for as long as the annotation stands."""
    return _annotate({Verb.ABORT: revision}, resource_version)


def retry(revision: str, *, attempt: int, withdraws: Iterable[Verb] = (), resource_version: str = "") -> Manifest:
    """Asks for attempt number `attempt` (1 is the first retry), and removes the abort annotation, which would forbid it.

    Args:
        withdraws: commands of the attempt before whose annotations go, too.
    """
    asked = {Verb.RETRY: f"{revision}@{attempt}", Verb.ABORT: None}
    return _annotate(asked | dict.fromkeys(withdraws), resource_version)


def pause(*, resource_version: str = "") -> Manifest:
    """Pauses the steps; scaling continues."""
    return _annotate({Verb.PAUSE: "true"}, resource_version)


def resume(*, resource_version: str = "") -> Manifest:
    """Ends a pause by removing its annotation."""
    return withdraw(Verb.PAUSE, resource_version=resource_version)


def rollback(revision: str, *, resource_version: str = "") -> Manifest:
    """Goes back to the kept revision `revision`."""
    return _annotate({Verb.ROLLBACK: revision}, resource_version)


def rollback_to_previous(current_revision: str, *, resource_version: str = "") -> Manifest:
    """Goes back to the revision before `current_revision`. Because it is named, the command does not act twice."""
    return _annotate({Verb.ROLLBACK: f"previous@{current_revision}"}, resource_version)


def restart(at_s: float, *, resource_version: str = "") -> Manifest:
    """Replaces pods older than `at_s` (seconds since 1970)."""
    return _annotate({Verb.RESTART: format_time(at_s)}, resource_version)


def withdraw(verb: Verb, *, resource_version: str = "") -> Manifest:
    """Removes the annotation of a command."""
    return _annotate({verb: None}, resource_version)


def _annotate(values: dict[Verb, str | None], resource_version: str) -> Manifest:
    metadata: Manifest = {"annotations": {f"{OUR_PREFIX}{verb.value}": value for verb, value in values.items()}}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return {"metadata": metadata}

"""Experiments as values: their pods, their analyses, and how they ended. Pure.

Objects come as the server's JSON, and their status may be anything: what cannot be read is left out and is no error.
"""

from __future__ import annotations

from msgspec import Struct

from rollouts.api.status.experiment import read_experiment_status
from rollouts.api.times import time_or_0
from rollouts.cli.view.durations import short
from rollouts.core.experiment.model import ExperimentStatus, GroupStatus
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.objects import Manifest, mapping


class ExperimentLine(Struct, frozen=True, kw_only=True):
    """One Experiment.

    Args:
        ending: somebody has told it to end, and it has not.
    """

    namespace: str
    name: str
    created_at_s: float
    status: ExperimentStatus
    ending: bool = False

    @property
    def phase(self) -> AnalysisPhase:
        """How far it is, or how it ended."""
        return self.status.phase

    @property
    def available(self) -> str:
        """How many pods are available, of all templates."""
        return str(sum(group.available_replicas for group in self.status.groups))

    def lasts(self, now_s: float) -> str:
        """How long it has run with all of its pods: `for 3m`, `took 2m, 5m ago`."""
        began_s, ended_s = self.status.available_at_s, self.status.completed_at_s
        if ended_s is not None:
            took = f"took {short(ended_s - began_s)}, " if began_s is not None else ""
            return f"{took}{short(now_s - ended_s)} ago"
        return f"for {short(now_s - (self.created_at_s if began_s is None else began_s))}"


def experiment_line(manifest: Manifest) -> ExperimentLine:
    """The Experiment of a manifest."""
    metadata = mapping(manifest.get("metadata"))
    status, _ = read_experiment_status(mapping(manifest.get("status")))
    return ExperimentLine(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        created_at_s=time_or_0(metadata.get("creationTimestamp")),
        status=status,
        ending=bool(mapping(manifest.get("spec")).get("terminate")) and not status.phase.over,
    )


def group_text(group: GroupStatus) -> str:
    """The pods of one template, in a few words."""
    return f"{group.available_replicas} of {group.replicas} available"


def experiment_text(line: ExperimentLine) -> str:
    """One Experiment in one line, for output that is not a terminal."""
    text = f"{line.namespace}/{line.name} {line.phase}{', ending' if line.ending else ''}"
    return f"{text}: {line.status.message}" if line.status.message else text

"""`.status` of an Experiment to and from the wire, without loss: by the fields that `core/experiment/model.py` declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rollouts.api.status.codec import SHAPES, JsonShape, from_json, schema_of, to_json
from rollouts.core.experiment.model import ExperimentStatus, GroupStatus, RunRecord
from rollouts.objects import Manifest

SHAPES.update(
    {
        GroupStatus: JsonShape(required=("name", "status")),
        RunRecord: JsonShape(required=("name", "analysisRun", "phase")),
    }
)


def experiment_status_to_wire(status: ExperimentStatus) -> Manifest:
    """The status as JSON; what is unset is left out."""
    return to_json(status)


def read_experiment_status(wire: Mapping[str, Any] | None) -> tuple[ExperimentStatus, tuple[str, ...]]:
    """The status, and what could not be read: one sentence with a path for each. None and {} are a new Experiment's."""
    problems: list[str] = []
    return from_json(ExperimentStatus, wire if isinstance(wire, Mapping) else {}, "status", problems), tuple(problems)


def experiment_status_schema() -> Manifest:
    """The schema of `.status` for the CRD."""
    return schema_of(ExperimentStatus)

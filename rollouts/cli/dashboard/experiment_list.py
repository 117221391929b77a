"""The list of Experiments: its rows. Pure."""

from __future__ import annotations

import htpy as h
from msgspec import Struct

from rollouts.cli.dashboard.list_page import ListLook, version_of
from rollouts.cli.dashboard.pages import cell, experiment_address, phase, when
from rollouts.cli.view.experiments import ExperimentLine, experiment_line
from rollouts.cli.view.words import Standing, briefly
from rollouts.objects import Key, Manifest

EXPERIMENTS_LOOK = ListLook(
    noun="Experiment",
    columns=("Experiment", "Phase", "Waits for, or how it ended", "Available", "Lasts", "Age"),
    searched="Name, image, phase",
    begin="To see what a file would do:",
    commands=("kubectl rollouts lint -f experiment.yaml",),
)


class ListedExperiment(Struct, frozen=True, weakref=True):
    """One Experiment of the list. `version` is that of the object that it was made of."""

    version: tuple[str, str]
    line: ExperimentLine

    @property
    def standing(self) -> Standing:
        """See `ListRow`."""
        return self.line.standing

    @property
    def key(self) -> Key:
        """See `ListRow`."""
        return Key(self.line.namespace, self.line.name)

    @property
    def place(self) -> tuple[float | str, ...]:
        """See `ListRow`: the newest first, as they stay after their end."""
        return -self.line.created_at_s, self.line.namespace, self.line.name

    @property
    def created_at_s(self) -> float:
        """See `ListRow`."""
        return self.line.created_at_s

    @property
    def waits_since_s(self) -> float | None:
        """See `ListRow`: since all of its pods were available, or since it was created."""
        return None if self.line.phase.over else self.line.status.available_at_s or self.line.created_at_s

    @property
    def searched(self) -> tuple[str, ...]:
        """See `ListRow`."""
        return (self.line.namespace, self.line.name, self.line.phase, *self.line.images)

    def cells(self, now_s: float) -> h.Node:
        """See `ListRow`."""
        line = self.line
        return h.fragment[
            h.td[h.a(".row", href=experiment_address(self.key))[line.name], h.span(".under")[line.namespace]],
            h.td[phase(line.phase), h.span(".under")["ending"] if line.ending else None],
            cell("Ended" if line.phase.over else "Waits for", briefly(line.waits(now_s))),
            cell("Available", line.available_of),
            cell("Lasts", line.lasts(now_s)),
            cell("Age", when(line.created_at_s, now_s, ago="") if line.created_at_s else ""),
        ]


def listed_experiment(experiment: Manifest) -> ListedExperiment:
    """One row's values."""
    return ListedExperiment(version_of(experiment), experiment_line(experiment))

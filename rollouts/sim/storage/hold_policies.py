"""What the chart's policies for workloads that a Rollout updates in place do to a write, in a simulated API server.

Source: helm/rollouts/templates/holds.yaml; tests/contract plays the same table on it and on the real API server with those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from rollouts.manifests.ownership import HELD, HOLD, MANAGED, MANAGED_BY, PARTITION, PREFIX
from rollouts.objects import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind, Manifest
from rollouts.sim.storage.refusals import denied_by_policy

Policy: TypeAlias = Callable[["WrittenWorkload"], Manifest]
"""From an update to what is written instead. Raises: Refused."""

NO_POD = 2**31 - 1  # a partition of a StatefulSet that no ordinal reaches


class WrittenWorkload(Struct, frozen=True):
    """An update of a workload, as a policy sees it.

    Args:
        old, new: with defaults.
        whole: it is a whole manifest of somebody who has not read the workload: without a uid.
    """

    old: Manifest
    new: Manifest
    whole: bool

    def marks(self, part: str, *, after: bool = False) -> Mapping[str, str]:
        """Its `labels` or `annotations`, before the update or after it."""
        found: Mapping[str, str] = (self.new if after else self.old)["metadata"].get(part) or {}
        return found

    @property
    def is_new_template(self) -> bool:
        """Whether the pod template changes."""
        return bool(self.new["spec"].get("template") != self.old["spec"].get("template"))

    @property
    def holds(self) -> bool:
        """Whether nothing may follow the new template."""
        return HOLD in self.marks("labels") and self.is_new_template

    @property
    def same_update(self) -> bool:
        """Whether the number of the update stays; the controller raises it in each of its writes."""
        before, after = self.marks("annotations").get(HELD), self.marks("annotations", after=True).get(HELD)
        return self.whole or before == after

    @property
    def guards(self) -> bool:
        """Whether an update is under way, and the write is not the controller's."""
        return HELD in self.marks("annotations") and self.same_update

    @property
    def keeps_hold(self) -> bool:
        """Whether a hold that no update has taken over yet stays: nobody takes its label off."""
        has_label = self.whole or HOLD in self.marks("labels", after=True)
        return HOLD in self.marks("labels") and has_label and self.same_update

    def with_spec(self, fields: Mapping[str, Any], *, noted: Mapping[str, str] | None = None) -> Manifest:
        """The object that is written, with these fields of the spec; a whole manifest keeps the marks that were there.

        Args:
            noted: annotations that the policy adds.
        """
        metadata = dict(self.new["metadata"])
        for part in ("labels", "annotations") if self.whole else ():
            if kept := {name: value for name, value in self.marks(part).items() if name.startswith(PREFIX)}:
                metadata[part] = {**self.marks(part, after=True), **kept}
        if noted:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **noted}
        return {**self.new, "metadata": metadata, "spec": {**self.new["spec"], **fields}}


def _deployment(write: WrittenWorkload) -> Manifest:
    before, fields = write.old["spec"], dict[str, Any]()
    if write.guards:
        fields = {name: before[name] for name in ("strategy", "progressDeadlineSeconds")}
        fields["minReadySeconds"] = before.get("minReadySeconds", 0)
    was_paused = before.get("paused", False)
    if write.holds or (write.whole and was_paused):
        fields["paused"] = True
    written = write.with_spec(fields)
    annotations, name = write.marks("annotations"), write.old["metadata"]["name"]
    rollout = annotations.get(MANAGED_BY, "")
    if was_paused and write.guards and not written["spec"].get("paused"):
        raise denied_by_policy(DEPLOYMENT, name, f"an update of Rollout {rollout} has paused this Deployment")
    return written


def _stateful_set(write: WrittenWorkload) -> Manifest:
    before = write.old["spec"]["updateStrategy"]
    is_held = (before.get("rollingUpdate") or {}).get("partition") == NO_POD
    stays = write.guards or (is_held and write.keeps_hold)
    strategy = before if stays else write.new["spec"]["updateStrategy"]
    noted: Mapping[str, str] = {}
    if write.holds and strategy["type"] != "OnDelete":
        rolling = strategy.get("rollingUpdate") or {}
        if not write.guards and rolling.get("partition") != NO_POD:
            noted = {PARTITION: str(rolling.get("partition", ""))}
        strategy = {**strategy, "rollingUpdate": {**rolling, "partition": NO_POD}}
    return write.with_spec({"updateStrategy": strategy}, noted=noted)


def _daemon_set(write: WrittenWorkload) -> Manifest:
    before = write.old["spec"]["updateStrategy"]
    is_held = before["type"] == "OnDelete" and "rollingUpdate" in before
    stays = write.guards or (is_held and write.keeps_hold)
    strategy = before if stays else write.new["spec"]["updateStrategy"]
    return write.with_spec({"updateStrategy": {**strategy, "type": "OnDelete"} if write.holds else strategy})


POLICIES: Mapping[Kind, Policy] = {DEPLOYMENT: _deployment, STATEFUL_SET: _stateful_set, DAEMON_SET: _daemon_set}


def admitted(kind: Kind, write: WrittenWorkload) -> Manifest:
    """What is written instead of the update. Raises: Refused (403)."""
    is_managed = MANAGED in write.marks("labels") or MANAGED in write.marks("labels", after=True)
    is_marked = HOLD in write.marks("labels") or HELD in write.marks("annotations")
    policy = POLICIES.get(kind)
    return policy(write) if policy is not None and is_managed and is_marked else write.new

"""The analyses of one Rollout: the AnalysisRuns and Experiments that it owns, and those that could be made for its update now.

Templates are read only while an update is under way, and a draft is made once for each version of what it is made of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from rollouts.api.spec.analysis.arguments import Updated, with_its_template
from rollouts.api.spec.analysis.in_rollouts import use_in
from rollouts.api.spec.analysis.templates import BYTES_MAX, Find, TemplateName, run_of
from rollouts.api.spec.experiment_step import PodsBeside, experiment_of, pods_beside
from rollouts.cluster.decoding import json_object
from rollouts.cluster.store import NamespacedName, Store
from rollouts.cluster.structs import AnalysisTemplateObject, Metadata, RolloutObject, ServiceObject
from rollouts.controller.observe.services import ready_pods
from rollouts.controller.workqueue.askers import Askers
from rollouts.controller.workqueue.owned import is_controlled_by
from rollouts.controller.workqueue.runs_seen import RunsSeen, unread
from rollouts.core.config.target import as_its_sources_say
from rollouts.core.model.analysis import Analysis, AnalysisGate, AnalysisKind, Draft, DraftProblem, RunDraft, RunSeen
from rollouts.core.model.frozen import replace
from rollouts.core.model.rollout import Canary, analyses
from rollouts.core.model.snapshot import ServiceSeen, Snapshot
from rollouts.core.model.status import RolloutStatus
from rollouts.core.one_way import target_of
from rollouts.core.strategy.beginning import has_no_pods_yet
from rollouts.errors import SpecInvalid, SpecProblem
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    EXPERIMENT,
    ROLLOUT,
    SERVICE,
    Key,
    Kind,
    Manifest,
)
from rollouts.recent import Recent

DRAFTED_MAX = 500  # Rollouts whose drafts are kept; more updates at once make drafts anew
ESCAPED_MAX = 6  # the API server writes `<` as `\u003c`
READ_BYTES_MAX = 65_536
"""Of templates that one pass reads for one Rollout, and the rest of one analysis: 40 ms. The next pass reads on."""
MESSAGE_MAX = 2_000  # characters: it becomes a part of one line in status
_JUDGES = (ANALYSIS_RUN, EXPERIMENT)
WhyUnseen: TypeAlias = Callable[[Kind, str], str]
"""Why the objects of a kind and a namespace cannot be seen, and what helps; "" when they can."""
_READS_STATUS = re.compile(rb'"fieldPath"\s*:\s*"[^"]{0,3}status\b')


class _Drafted(Struct, frozen=True):
    """The drafts of one Rollout, and everything that they were made of.

    Args:
        made_of: what is known of the Rollout.
        templates: the version of each template that was asked for, whether it exists or not.
        drafts: by gate; the next pass adds those that are not there yet.
    """

    made_of: tuple[Any, ...]
    templates: Mapping[NamespacedName, object] = field(default_factory=dict)
    drafts: Mapping[AnalysisGate, Draft] = field(default_factory=dict)


class Analyses:
    """Reads AnalysisRuns, Experiments and templates from the store.

    Args:
        why_unseen: why the objects of a kind and a namespace cannot be seen, and what helps; "" when they can. The kind's CRD may
            be missing, or the controller may not watch it.
    """

    def __init__(self, store: Store, *, why_unseen: WhyUnseen = lambda _kind, _namespace: "") -> None:
        self.seen = RunsSeen()
        """What is read of AnalysisRuns and Experiments."""
        self.askers = Askers[NamespacedName]()
        """Which Rollouts depend on which templates, and on which runs of somebody else under a name that they need."""
        self._store = store
        self._why_unseen = why_unseen
        self._drafted: Recent[str, _Drafted] = Recent(DRAFTED_MAX)

    def observed(self, snapshot: Snapshot, rollout: RolloutObject, pods: Mapping[str, bytes]) -> Snapshot:
        """`snapshot` with the runs of its Rollout, and with those that can be made for the update now.

        Args:
            pods: the pod templates that were read, by the uid of their ReplicaSet.
        """
        key, uid = Key(snapshot.rollout.namespace, snapshot.rollout.name), snapshot.rollout.uid
        runs, taken = self._runs(key, uid), self._taken(key, uid, snapshot.status)
        drafts = self._drafts(key, as_its_sources_say(snapshot), rollout, taken, pods)
        return replace(snapshot, runs=runs, taken_runs=taken, drafts=drafts) if runs or drafts else snapshot

    def _runs(self, key: Key, uid: str) -> tuple[RunSeen, ...]:
        """Those that the Rollout of that key and uid controls, also those that cannot be read; the oldest first."""
        runs: list[RunSeen] = []
        for table in map(self._store.table, _JUDGES):
            runs += [
                self._with_pods(key, self.seen.seen(run))
                for run in table.owned_by(key.namespace, uid)
                if is_controlled_by(run.metadata, key, uid)
                and (key.namespace, run.metadata.name) not in table.unreadable
            ]
            runs += [
                unread(run)
                for (namespace, _), run in table.unreadable.items()
                if namespace == key.namespace and is_controlled_by(run.metadata, key, uid)
            ]
        return tuple(sorted(runs, key=lambda run: (run.created_at_s, run.name)))

    def _with_pods(self, key: Key, run: RunSeen) -> RunSeen:
        """An Experiment that may get requests, with the ready pods of its Services; one of somebody else has none of them."""
        if math.isfinite(run.kept_until_s) or not run.services:
            return run
        found = []
        for each in run.services:
            service: ServiceObject | None = self._store.table(SERVICE).get(key.namespace, each.service)
            of = Key(key.namespace, run.name)
            ours = service is not None and is_controlled_by(service.metadata, of, run.uid, EXPERIMENT)
            there = ours and service is not None and service.metadata.deletion_timestamp is None
            found.append(replace(each, ready=ready_pods(self._store, key.namespace, each.service) if there else 0))
        return replace(run, services=tuple(found))

    def _taken(self, key: Key, uid: str, status: RolloutStatus) -> frozenset[str]:
        """Names in status under which somebody else has an AnalysisRun, or an Experiment."""
        runs = (
            (record.run, self._store.table(record.gate.kind.object_kind).get(key.namespace, record.run))
            for record in status.analyses
        )
        return frozenset(name for name, run in runs if run is not None and not is_controlled_by(run.metadata, key, uid))

    def _drafts(
        self,
        key: Key,
        snapshot: Snapshot,
        rollout: RolloutObject,
        taken: frozenset[str],
        pods: Mapping[str, bytes],
    ) -> Mapping[AnalysisGate, Draft]:
        """The runs that can be made for the update that is under way, or that begins; {} while there is none."""
        latest = target_of(snapshot, snapshot.status)
        wanted = dict(_next_analyses(snapshot, latest))
        metadata = rollout.metadata
        if not wanted:
            self.forget(key, metadata.uid)
            return {}
        reads_status = _READS_STATUS.search(bytes(rollout.spec)) is not None
        made_of = (
            *(metadata.generation, metadata.labels, metadata.annotations, tuple(wanted)),
            *(latest, snapshot.status.stable_revision),
            *(self._why_unseen(kind, key.namespace) for kind in _JUDGES),
            *(beside.known if (beside := _beside(snapshot, wanted, latest, pods)) is not None else ()),
            *(metadata.resource_version if reads_status else "", snapshot.rollout.spec.template_hash),
        )
        known = self._drafted.get(metadata.uid)
        if (
            known is None
            or known.made_of != made_of
            or any(self._version(*template) != version for template, version in known.templates.items())
        ):
            known = _Drafted(made_of)
        if len(known.drafts) < len(wanted):
            manifest = with_its_template(_manifest(rollout), json_object(snapshot.rollout.spec.template_json))
            of = Updated(manifest=manifest, stable=snapshot.status.stable_revision, latest=latest)
            known = self._drafted[metadata.uid] = self._with_more(key.namespace, known, wanted, of, beside)
        self.askers.asks(key, (*known.templates, *((key.namespace, name) for name in taken)))
        return known.drafts

    def forget(self, key: Key, uid: str) -> None:
        """Drops what is known of a Rollout that is gone."""
        self.askers.asks(key, ())
        self._drafted.pop(uid, None)

    def _with_more(
        self,
        namespace: str,
        known: _Drafted,
        wanted: Mapping[AnalysisGate, Analysis],
        of: Updated,
        beside: PodsBeside | None,
    ) -> _Drafted:
        """The drafts with those that this pass can add: all of them, unless very large templates are named."""
        templates, drafts, read_bytes, most_bytes = dict(known.templates), dict(known.drafts), 0, math.inf

        def find(name: TemplateName) -> Mapping[str, Any] | None:
            nonlocal read_bytes
            where = "" if name.cluster_scope else namespace
            templates[where, name.name] = self._version(where, name.name)
            spec, size_bytes = template_spec(self._store, self._why_unseen, name, where)
            read_bytes += size_bytes
            if read_bytes > most_bytes:
                raise too_much(name)
            return spec

        for gate, analysis in wanted.items():
            if gate in drafts or read_bytes >= READ_BYTES_MAX:
                continue
            if why := self._why_unseen(gate.kind.object_kind, namespace):
                drafts[gate] = DraftProblem(f"no {gate.kind.object_kind.kind} can be made: {why}")
            elif gate.kind is AnalysisKind.EXPERIMENT and beside is not None:
                most_bytes = read_bytes + READ_BYTES_MAX
                drafts[gate] = _experiment_draft(analysis, find, of, beside)
            else:
                most_bytes = math.inf
                drafts[gate] = _draft(analysis, find, of)
        return _Drafted(known.made_of, templates, drafts)

    def _version(self, namespace: str, name: str) -> object:
        """What changes when a template does; for a template that is not seen: why."""
        kind = ANALYSIS_TEMPLATE if namespace else CLUSTER_ANALYSIS_TEMPLATE
        if why := self._why_unseen(kind, namespace):
            return why
        table = self._store.table(kind)
        seen = table.unreadable.get((namespace, name)) or table.get(namespace, name)
        return None if seen is None else (seen.metadata.uid, seen.metadata.resource_version)


def too_much(name: TemplateName) -> SpecInvalid:
    """The templates of an Experiment are more than are read."""
    why = f"is too much: the templates of all analyses of an Experiment have at most {READ_BYTES_MAX} bytes"
    return SpecInvalid((SpecProblem(str(name), why),))


def template_spec(
    store: Store, why_unseen: WhyUnseen, name: TemplateName, namespace: str
) -> tuple[Mapping[str, Any] | None, int]:
    """The spec of a template and its size in bytes; None when it does not exist.

    Args:
        namespace: "" for one of the cluster.

    Raises: SpecInvalid, when that is not known, or it cannot be read.
    """
    kind = CLUSTER_ANALYSIS_TEMPLATE if name.cluster_scope else ANALYSIS_TEMPLATE
    if why := why_unseen(kind, namespace):
        raise SpecInvalid((SpecProblem(str(name), f"is not known: {why}"),))
    table = store.table(kind)
    if (unreadable := table.unreadable.get((namespace, name.name))) is not None:
        raise SpecInvalid((SpecProblem(str(name), f"cannot be read: {unreadable.why}; make it smaller"),))
    template: AnalysisTemplateObject | None = table.get(namespace, name.name)
    if template is None:
        return None, 0
    if len(bytes(template.spec)) > ESCAPED_MAX * BYTES_MAX:
        raise SpecInvalid((SpecProblem(f"{name}.spec", f"is too much: a run carries at most {BYTES_MAX} bytes"),))
    if not isinstance(spec := _json(bytes(template.spec)), dict):
        raise SpecInvalid((SpecProblem(f"{name}.spec", "is no object, or it is nested too deeply"),))
    return spec, len(bytes(template.spec))


def _next_analyses(snapshot: Snapshot, latest: str) -> Iterable[tuple[AnalysisGate, Analysis]]:
    """What may begin next for the revision `latest`: of the steps the present one, and all before the first pod of an update."""
    status, rollout = snapshot.status, snapshot.rollout
    aborted = status.abort is not None and status.abort.revision == latest
    if rollout.deleting or aborted or latest == status.stable_revision:
        return ()
    every = analyses(rollout.spec.strategy).items()
    if has_no_pods_yet(snapshot, status, latest):
        return every
    step = status.step_index if latest == status.current_revision else 0
    return ((gate, analysis) for gate, analysis in every if gate.step is None or gate.step == step)


def _draft(analysis: Analysis, find: Find, of: Updated) -> Draft:
    try:
        spec = msgspec.json.encode(run_of(use_in(analysis), find, of))
    except SpecInvalid as invalid:
        comes_later = all(problem.may_come for problem in invalid.problems)
        return DraftProblem(str(invalid)[:MESSAGE_MAX], comes_later=comes_later)
    except (RecursionError, UnicodeError) as error:
        return DraftProblem(f"{analysis.path}: the AnalysisRun cannot be written as JSON: {error}")
    metadata = analysis.settings.get("analysisRunMetadata") or {}
    return RunDraft(
        spec_json=spec,
        latest=of.latest,
        stable=of.stable,
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
    )


def _beside(
    snapshot: Snapshot, wanted: Collection[AnalysisGate], latest: str, templates: Mapping[str, bytes]
) -> PodsBeside | None:
    """The pods of both revisions, of which an Experiment makes more; None where none is wanted."""
    if not any(gate.kind is AnalysisKind.EXPERIMENT for gate in wanted):
        return None
    sets: dict[str, tuple[str, str] | None] = {}
    for role, revision in (("stable", snapshot.status.stable_revision), ("canary", latest)):
        found = (each for each in snapshot.replica_sets if each.revision == revision and not each.deleting)
        sets[role] = next(((each.name, each.uid) for each in found), None)
    read = {role: templates.get(found[1]) for role, found in sets.items() if found is not None}
    strategy = snapshot.rollout.spec.strategy
    service = snapshot.services.get(strategy.stable_service or "") if isinstance(strategy, Canary) else None
    ports = service.ports if isinstance(service, ServiceSeen) else None
    return replace(pods_beside(snapshot.rollout.spec), sets=sets, templates=read, ports=ports)


def _experiment_draft(analysis: Analysis, find: Find, of: Updated, beside: PodsBeside) -> Draft:
    try:
        return experiment_of(analysis, find, of, beside)
    except SpecInvalid as invalid:
        comes_later = all(problem.may_come for problem in invalid.problems)
        return DraftProblem(str(invalid)[:MESSAGE_MAX], comes_later=comes_later)
    except (RecursionError, UnicodeError) as error:
        return DraftProblem(f"{analysis.path}: the Experiment cannot be written as JSON: {error}")


def _manifest(rollout: RolloutObject) -> Manifest:
    """The Rollout as far as it is kept: what `fieldRef` may name."""
    metadata: Metadata = rollout.metadata
    return {
        **ROLLOUT.head,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "generation": metadata.generation,
            "resourceVersion": metadata.resource_version,
            "labels": metadata.labels or {},
            "annotations": metadata.annotations or {},
        },
        "spec": _json(bytes(rollout.spec)),
        "status": _json(bytes(rollout.status)),
    }


def _json(data: bytes) -> Any:
    """What JSON says; None when nobody can read it."""
    try:
        return msgspec.json.decode(data) if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None

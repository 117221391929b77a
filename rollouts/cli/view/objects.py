"""Reads API objects into the values that `cli/terminal` draws. Pure.

Objects come as the server's JSON. The CRD's schema has checked their spec, but anybody may have edited their status. A value that
cannot be read is left out and is no error, because people need this most when a Rollout is broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from rollouts.api.status.wire import status_from_wire
from rollouts.api.times import time_or_0
from rollouts.cli.view.config import uses_of
from rollouts.cli.view.durations import short
from rollouts.cli.view.in_place import in_place
from rollouts.cli.view.runs import RunLine, run_line
from rollouts.cli.view.tree import (
    ConditionLine,
    EventLine,
    PodLine,
    RevisionLine,
    RolloutView,
    WaitLine,
    WayOut,
)
from rollouts.cluster.structs import PodObject
from rollouts.controller.observe.pods import pod_of
from rollouts.core.lifecycle.conditions import WARNED
from rollouts.core.lifecycle.preview import PREVIEW_READY
from rollouts.core.model.reasons import Reason
from rollouts.core.model.status import Phase, RolloutStatus, Traffic, WaitingFor
from rollouts.core.model.steps import WeightPercent
from rollouts.core.scale.replicas import target_pair
from rollouts.manifests.ownership import NAME, name_label, revision_number_of
from rollouts.manifests.ownership import revision_of as label_of_revision
from rollouts.objects import ANALYSIS_RUN, DEPLOYMENT, ROLLOUT, Kind, Manifest, mapping, mappings, whole_number

EVENTS_SHOWN = 6
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_GOOD_WHEN_FALSE = frozenset(
    {"Stalled", "Aborted", "RolledBack", "InvalidSpec", "InvalidCommand", "Paused", "Reconciling", *WARNED}
)
_SHORTENED = frozenset({Reason.TIMED_PAUSE, Reason.AUTO_PROMOTION})
_GIVEN_UP = frozenset(
    {
        Reason.PODS_NOT_AVAILABLE,
        Reason.PROGRESS_DEADLINE_EXCEEDED,
        Reason.REPLICA_FAILURE,
        Reason.ANALYSIS_RUNNING,
        Reason.ANALYSIS_INVALID,
        Reason.ROUTE_NOT_FOUND,
        Reason.ROUTE_NOT_USABLE,
        Reason.ROUTE_NOT_ACCEPTED,
        Reason.SERVICE_NOT_FOUND,
        Reason.SERVICE_NOT_USABLE,
        Reason.TRAFFIC_SWITCHING,
    }
)


class RolloutObjects(Struct, frozen=True, kw_only=True):
    """One Rollout with its ReplicaSets, pods, Events and AnalysisRuns, as the API server gave them."""

    rollout: Manifest
    replica_sets: tuple[Manifest, ...] = ()
    pods: tuple[Manifest, ...] = ()
    events: tuple[Manifest, ...] = ()
    runs: tuple[Manifest, ...] = ()


def view_of(seen: RolloutObjects) -> RolloutView:
    """The values that the tree of this Rollout is drawn from."""
    metadata = seen.rollout["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    spec = mapping(seen.rollout.get("spec"))
    status = status_of(seen.rollout)
    strategy = mapping(spec.get("strategy"))
    canary = mapping(strategy.get("canary"))
    kind = "Canary" if "canary" in strategy else "BlueGreen" if "blueGreen" in strategy else ""
    unfinished = status.current_revision != status.stable_revision
    wait = status.waiting_for
    desired = _desired(seen, spec, status)
    invalid = next((c for c in status.conditions if c.type == "InvalidSpec" and c.status), None)
    return RolloutView(
        namespace=namespace,
        name=name,
        in_place=str(in_place(seen.rollout) or ""),
        phase=status.phase if status.observed_generation else "",
        created_at_s=time_or_0(_created(seen.rollout)),
        revision=status.current_revision,
        stable=status.stable_revision,
        message=status.message,
        strategy=kind,
        weight_percent=status.weight_percent if kind == "Canary" else None,
        live_percent=_live_percent(status),
        nearest_ratio=_nearest_ratio(status, desired, canary),
        traffic=traffic_words(status.traffic),
        steps=tuple(step_words(step) for step in canary.get("steps") or ()),
        step_index=status.step_index,
        at_rest=not unfinished,
        steps_skipped=status.step_index > 0 and status.step_started_at_s == status.started_at_s,
        desired=desired,
        updated=status.updated_replicas,
        ready=status.ready_replicas,
        available=status.available_replicas,
        waiting=wait_line(wait, status, namespace=namespace, name=name) if wait else None,
        revisions=_revisions(seen, status),
        conditions=_bad_conditions(status),
        events=event_lines(seen.events)[-EVENTS_SHOWN:],
        problems=tuple(invalid.message.split("; ")) if invalid else (),
        stale=status.observed_generation < metadata.get("generation", 0),
        verdicts=tuple(analysis for analysis in status.analyses if analysis.settled),
        scaling=status.autoscaling,
    )


def run_named(name: str, seen: RolloutObjects) -> RunLine | None:
    """The AnalysisRun of that name about the Rollout; None for none."""
    records = {record.run: record for record in status_of(seen.rollout).analyses}
    named = (run_line(run, records.get(name)) for run in seen.runs if run["metadata"]["name"] == name)
    return next((run for run in named if run.kind is ANALYSIS_RUN), None)


def wait_line(wait: WaitingFor, status: RolloutStatus, *, namespace: str, name: str) -> WaitLine:
    """The wait, with the commands taken out of its message (`core/context/pass_context.py` puts them in)."""
    verb = rf"(?:promote|abort|retry|resume|rollback) {re.escape(name)}|(?:analysis|experiment) terminate [a-z0-9.-]+"
    command = rf"rollouts ((?:{verb}) -n {re.escape(namespace)}(?: --to [a-z0-9.-]+| --skip-analysis)?)"
    named = re.compile(rf"(?:[;:] (to [^:;]+))?: {command}")
    ways = tuple(WayOut(found[2], found[1] or "") for found in named.finditer(wait.message))
    if not ways and status.stable_revision not in ("", status.current_revision):
        if wait.reason in _SHORTENED:
            ways = (WayOut(f"promote {name} -n {namespace}", "to go on at once"),)
        elif wait.reason in _GIVEN_UP and status.abort is None:
            ways = (WayOut(f"abort {name} -n {namespace}", "to give up"),)
    return WaitLine(wait.reason, wait.message, wait.since_s, wait.deadline_s, named.sub("", wait.message), ways)


def traffic_words(traffic: Traffic | None) -> str:
    """What the weights do not say: `confirmed (Config)`, `route beta confirmed`, `route beta desired, no route confirmed`."""
    if traffic is None:
        return ""
    wanted, observed = (
        f"route {', '.join(routes)}" if routes else "" for routes in (traffic.desired_routes, traffic.observed_routes)
    )
    if wanted != observed:
        return f"{wanted or 'no route'} desired, {observed or 'no route'} confirmed"
    if traffic.observed_percent != traffic.desired_percent:
        return ""
    by = f" ({traffic.verified_by})" if traffic.verified_by is not None else ""
    return f"{wanted} confirmed{by}".lstrip()


def status_of(rollout: Manifest) -> RolloutStatus:
    """The Rollout's status, with defaults for what is missing or unreadable."""
    return status_from_wire(mapping(rollout.get("status")))


def step_words(step: Mapping[str, Any]) -> str:
    """One step of a canary in the manifest's own words: `setWeight 25`, `pause 5s`, `pause until promoted`."""
    for word, value in step.items():
        match word, value:
            case "pause", {"duration": int(seconds)}:
                return f"pause {short(seconds)}"
            case "pause", {"duration": duration}:
                return f"pause {duration}"
            case "pause", _:
                return "pause until promoted"
            case "analysis", {"templates": [_, *_] as templates}:
                names = (str(mapping(template).get("templateName", "?")) for template in templates)
                return f"analysis {', '.join(names)}"
            case _, Mapping():
                return " ".join([word, *(f"{key} {item}" for key, item in value.items() if _is_scalar(item))])
            case _:
                return f"{word} {value}" if _is_scalar(value) else word
    return "(empty)"


def event_lines(events: Iterable[Manifest]) -> tuple[EventLine, ...]:
    """The lines of the Events, oldest first."""
    lines = [
        EventLine(
            at_s=time_or_0(event.get("eventTime") or event.get("deprecatedLastTimestamp") or _created(event)),
            reason=event.get("reason") or "",
            message=event.get("note") or "",
            warning=event.get("type") == "Warning",
        )
        for event in events
    ]
    return tuple(sorted(lines, key=lambda line: line.at_s))


def belongs_to(event: Manifest, about: Manifest, kind: Kind = ROLLOUT) -> bool:
    """Whether an Event is about this Rollout, or object of another kind, and not about an earlier one of the same name."""
    regarding, uid = mapping(event.get("regarding")), about["metadata"]["uid"]
    named = (regarding.get("kind"), regarding.get("name")) == (kind.kind, about["metadata"]["name"])
    return named and regarding.get("uid", uid) == uid


def controlled_by(candidate: Manifest, rollout: Manifest) -> bool:
    """Whether `rollout` is the object's controller, by uid: a label proves nothing, because anybody can set it.

    Of an update in place so is the workload that it names.
    """
    metadata = mapping(candidate.get("metadata"))
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if any(owner.get("uid") == rollout["metadata"]["uid"] for owner in owners):
        return True
    workload = in_place(rollout)
    return workload is not None and workload.controls(owners)


def query_of_its_pods(rollout: Manifest) -> Mapping[str, str]:
    """What to list for the revisions and pods of a Rollout: its label; in place the selector of the workload.

    The workload's pods have no label of ours, nor have the ReplicaSets of a Deployment without pods, and ControllerRevisions.
    """
    selector = status_of(rollout).selector if in_place(rollout) is not None else ""
    return {"labelSelector": selector or f"{NAME}={name_label(rollout['metadata']['name'])}"}


def images_of(replica_set: Manifest) -> tuple[str, ...]:
    """Images of the template's containers, in order."""
    pod_spec = mapping(mapping(mapping(replica_set.get("spec")).get("template")).get("spec"))
    return tuple(str(container.get("image") or "?") for container in mappings(pod_spec.get("containers")))


def update_command(rollout: Manifest) -> str:
    """The command that gives the pods of a Rollout another image, which starts an update; `IMAGE` is for whoever types it."""
    spec = mapping(rollout.get("spec"))
    if reference := mapping(spec.get("workloadRef")):
        workload = f"{str(reference.get('kind', '')).lower()}/{reference.get('name', '')}"
        return f"kubectl set image {workload} CONTAINER=IMAGE"
    containers = mapping(mapping(spec.get("template")).get("spec")).get("containers") or ()
    names: list[str] = [container["name"] for container in containers]
    return f"kubectl rollouts set image {rollout['metadata']['name']} {names[0] if names else 'CONTAINER'}=IMAGE"


def number_of(replica_set: Manifest) -> int:
    """The revision's number; 0 when it cannot be read."""
    return revision_number_of(mapping(replica_set.get("metadata")).get("annotations") or {})


def revision_of(thing: Manifest) -> str:
    """The revision label of a ReplicaSet or pod; "" for none."""
    return label_of_revision(mapping(thing.get("metadata")).get("labels") or {})


def names_revision(word: str, revision: str, *, number: int, roles: Iterable[str] = ()) -> bool:
    """Whether what somebody typed means this revision: its hash, its number (`4`, `#4`), or a role."""
    digits = word.removeprefix("#")
    return word in (revision, *roles) or (digits.isdecimal() and int(digits) == number)


def pod_line(pod: Manifest) -> PodLine:
    """The line of one pod: ready or not, and why not, by the controller's own rules."""
    seen = pod_of(msgspec.convert(pod, PodObject))
    return PodLine(
        name=seen.name, created_at_s=seen.created_at_s, ready=seen.ready, deleting=seen.deleting, problem=seen.problem
    )


def _revisions(seen: RolloutObjects, status: RolloutStatus) -> tuple[RevisionLine, ...]:
    pods: dict[str, list[Manifest]] = {}
    for pod in seen.pods:
        pods.setdefault(revision_of(pod), []).append(pod)
    leaves = {entry.revision: entry.at_s for entry in status.scale_downs}
    records = {record.run: record for record in status.analyses}
    runs = [run_line(run, records.get(run["metadata"]["name"])) for run in seen.runs]
    runs.sort(key=lambda run: (not run.failing, run.phase.over, not run.decides, -run.created_at_s, run.name))
    lines = []
    for replica_set in seen.replica_sets:
        revision = revision_of(replica_set)
        own = sorted(pods.get(revision, ()), key=lambda pod: (_created(pod), pod["metadata"]["name"]))
        line = RevisionLine(
            revision=revision,
            number=number_of(replica_set),
            roles=roles_of(revision, status),
            images=images_of(replica_set),
            ready=mapping(replica_set.get("status")).get("readyReplicas", 0),
            desired=mapping(replica_set.get("spec")).get("replicas", 1),
            pods=tuple(pod_line(pod) for pod in own),
            leaves_at_s=leaves.get(revision),
            runs=tuple(run for run in runs if run.revision == revision),
            config=uses_of(replica_set),
        )
        if line.desired or line.pods or line.roles:  # the others are `history`
            lines.append(line)
    return tuple(sorted(lines, key=lambda line: (-line.number, line.revision)))


def is_run_about(run: Manifest, rollout: Manifest) -> bool:
    """Whether an AnalysisRun is the Rollout's own, or made by hand about it: its label names it, and nobody controls it."""
    if controlled_by(run, rollout):
        return True
    metadata = mapping(run.get("metadata"))
    owned = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    return not owned and (metadata.get("labels") or {}).get(NAME) == name_label(rollout["metadata"]["name"])


def roles_of(revision: str, status: RolloutStatus) -> tuple[str, ...]:
    """The roles of a revision: `active`, `preview`, `stable`, `canary`; none for an old revision."""
    if not revision:
        return ()
    if status.active_revision:
        named = {"active": status.active_revision, "preview": status.preview_revision}
        roles = [role for role, whose in named.items() if revision == whose]
        if revision == status.stable_revision and "active" not in roles:
            roles.append("stable")
        if revision == status.current_revision != status.stable_revision and not roles:
            roles.append("preview")
        return tuple(roles)
    if revision == status.stable_revision:
        return ("stable",)
    return ("canary",) if revision == status.current_revision else ()


def _bad_conditions(status: RolloutStatus) -> tuple[ConditionLine, ...]:
    """The conditions that are not good; those with the same message (`Ready`, `Stalled`, `Aborted`) share a line."""
    # The head and the line "Waiting" say more of an update; not ready is normal then.
    # A preview begins without pods, and its wait says so; what is wrong with the spec has a line of its own.
    unfinished = status.phase in (Phase.PAUSED, Phase.PROGRESSING)
    left_out = {"InvalidSpec", PREVIEW_READY, *(("Paused", "Reconciling", "Ready") if unfinished else ())}
    lines: dict[tuple[str, str], ConditionLine] = {}
    for condition in status.conditions:
        if condition.type in left_out or condition.status != (condition.type in _GOOD_WHEN_FALSE):
            continue
        key = condition.reason, condition.message
        types = f"{lines[key].type}, {condition.type}" if key in lines else condition.type
        lines[key] = ConditionLine(types, *key, condition.since_s)
    return tuple(lines.values())


def _live_percent(status: RolloutStatus) -> WeightPercent | None:
    """The canary's share: as it was last found live, or without routers of the available pods; None where that is not known.

    Counts are those of status, which every command and `kubectl get` show. ReplicaSets are a moment ahead of it.
    """
    if status.traffic is not None:
        return status.traffic.observed_percent
    pods = status.available_replicas
    return round(100 * min(status.updated_available_replicas, pods) / pods) if pods else None


def _desired(seen: RolloutObjects, spec: Mapping[str, Any], status: RolloutStatus) -> int:
    """The pods that there shall be; in place the workload says that, and a Deployment notes it on its ReplicaSets."""
    if in_place(seen.rollout) is None:
        replicas = spec.get("replicas", 1)
        return replicas if isinstance(replicas, int) else 1
    noted = [status.hpa_replicas]
    for each in seen.replica_sets:
        annotations, size = mapping(each["metadata"].get("annotations")), mapping(each.get("spec")).get("replicas", 1)
        owned = any(owner.get("kind") == DEPLOYMENT.kind for owner in each["metadata"].get("ownerReferences") or ())
        number = whole_number(str(annotations.get(_DESIRED, "")), digits=9)
        noted += [number] if owned and size and number is not None else []
    return noted[-1]


def _nearest_ratio(status: RolloutStatus, replicas: int, canary: Mapping[str, Any]) -> str:
    """The available pods of an update by the ratio of pods, where they are as many as its weight asks for."""
    wanted = status.weight_percent
    if status.traffic is not None or wanted is None:
        return ""
    surge = 0 if str(canary.get("maxSurge")).rstrip("%") == "0" else 1  # by default a quarter of the pods
    pair = target_pair(replicas=replicas, weight_percent=wanted, surge=surge)
    pods, updated = status.available_replicas, status.updated_available_replicas
    return f"{updated} of {pods} pods" if (updated, pods - updated) == (pair.canary, pair.stable) else ""


def _created(thing: Manifest) -> str:
    created: str = mapping(thing.get("metadata")).get("creationTimestamp") or ""
    return created


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))

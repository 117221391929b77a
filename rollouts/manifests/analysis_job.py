"""The Kubernetes Job of a measurement: its manifest, and what its status says. Pure.

A Job is bound to its measurement by its name: made a second time it is the same one. The AnalysisRun owns it, so it goes with the
run. Source of fields and conditions: https://kubernetes.io/docs/concepts/workloads/controllers/job/, KEP-3998.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.core.analysis.source import JobMetric
from rollouts.core.model.analysis import AnalysisPhase
from rollouts.core.model.frozen import replace
from rollouts.manifests.ownership import PREFIX
from rollouts.objects import ANALYSIS_RUN, JOB, Manifest, mapping, mappings

RUN_UID = f"{PREFIX}analysis-run-uid"
RUN = f"{PREFIX}analysis-run"
METRIC = f"{PREFIX}metric"

NAME_MAX = 52
"""Characters of a Job's name: its pods' host names are the name, an index and five more, 63 at most."""
KEPT_MIN_S = 600
"""A Job that ends is looked at within a minute. One that is deleted sooner (`ttlSecondsAfterFinished`) would tell nothing."""
INDEXES_MAX = 100_000  # of an Indexed Job. Source: Job validation, completions
INDEXES_MAX_CHARACTERS = 4_096
"""Of a list of indexes that is read here: hundreds of ranges. Kubernetes allows 64 KiB, which would delay each look."""
RULES_MAX = 20  # of a success policy. Source: Job validation, maxSuccessPolicyRule

_UNFIT = re.compile(r"[^a-z0-9]+")
_WORD = re.compile(r"[A-Za-z]{1,64}")


class MeasuringJob(Struct, frozen=True, kw_only=True):
    """What a Job is made for: the measurement of that number, from 1, of a metric of an AnalysisRun."""

    namespace: str
    run: str
    uid: str
    metric: str
    number: int
    service_account: str

    @property
    def name(self) -> str:
        """Of the Job; another run, metric or number gives another name."""
        digest = hashlib.sha256(f"{self.uid}/{self.metric}".encode()).hexdigest()[:12]
        end = f"{digest}-{self.number}"
        readable = _UNFIT.sub("-", self.metric.lower())[: NAME_MAX - len(end) - 1].strip("-")
        return f"{readable}-{end}" if readable else f"m-{end}"

    def numbered(self, number: int) -> str:
        """The name of the Job of another measurement of this metric."""
        return replace(self, number=number).name


class JobVerdict(Struct, frozen=True):
    """What a Job says of its measurement, and why, in words of ours; Running while it has not ended."""

    phase: AnalysisPhase
    message: str = ""


def job_problem(metric: JobMetric, *, service_account: str) -> str:
    """Why no Job is made of a metric; "" for nothing.

    Whoever writes templates must not get what the account of Jobs is there to keep from them, nor other people's pods.
    """
    spec = metric.spec
    template = mapping(spec.get("template"))
    pod = mapping(template.get("spec"))
    if not pod:
        return "job.spec.template.spec is missing"
    for name in ("serviceAccountName", "serviceAccount"):
        if pod.get(name) not in (None, "", service_account):
            return f"job.spec.template.spec.{name}: Jobs of metrics run as {service_account}; leave it out"
    if spec.get("manualSelector") or spec.get("selector"):
        return "job.spec.selector and manualSelector: leave them out, the API server makes the selector"
    rules = mapping(spec.get("successPolicy")).get("rules")
    if not isinstance(rules, list):
        return ""
    if len(rules) > RULES_MAX:
        return f"job.spec.successPolicy.rules: at most {RULES_MAX}"
    for index, rule in enumerate(map(mapping, rules)):
        given = rule.get("succeededIndexes")
        if isinstance(given, str) and len(given) > INDEXES_MAX_CHARACTERS:
            where = f"job.spec.successPolicy.rules[{index}].succeededIndexes"
            return f"{where}: at most {INDEXES_MAX_CHARACTERS:,} characters; write ranges, such as 0-99"
    return ""


def job_manifest(of: MeasuringJob, metric: JobMetric) -> Manifest:
    """The Job; `job_problem` has found nothing wrong with the metric."""
    spec: Manifest = dict(metric.spec)
    template = dict(mapping(spec.get("template")))
    pod = {name: part for name, part in mapping(template.get("spec")).items() if name != "serviceAccount"}
    pod = {"restartPolicy": "Never", **pod, "serviceAccountName": of.service_account}
    template["spec"] = pod
    spec["template"] = template
    ttl_s = spec.get("ttlSecondsAfterFinished")
    if isinstance(ttl_s, int) and ttl_s < KEPT_MIN_S:
        spec["ttlSecondsAfterFinished"] = KEPT_MIN_S
    labels, annotations = (mapping(metric.metadata.get(name)) for name in ("labels", "annotations"))
    return {
        **JOB.head,
        "metadata": {
            "name": of.name,
            "namespace": of.namespace,
            "labels": {**labels, RUN_UID: of.uid},
            "annotations": {**annotations, RUN: of.run, METRIC: of.metric},
            "ownerReferences": [{**ANALYSIS_RUN.head, "name": of.run, "uid": of.uid, "controller": True}],
        },
        "spec": spec,
    }


def is_made_for(job: Manifest, uid: str) -> bool:
    """Whether the AnalysisRun of that uid controls the Job."""
    owners = mappings(mapping(job.get("metadata")).get("ownerReferences"))
    return any(owner.get("controller") is True and owner.get("uid") == uid for owner in owners)


def job_verdict(job: Manifest, metric: JobMetric) -> JobVerdict:
    """What the Job says. Raises: nothing that a Job's author could cause.

    A failure comes before a success policy, as in Kubernetes. A policy that the API server does not know is held here, by the
    indexes that have succeeded.
    """
    status = mapping(job.get("status"))
    conditions = _true_conditions(status)
    for kind in ("Failed", "FailureTarget"):
        if kind in conditions:
            return JobVerdict(AnalysisPhase.FAILED, f"the Job failed ({conditions[kind]})")
    succeeded = status.get("succeeded")
    for kind in ("Complete", "SuccessCriteriaMet"):
        if kind in conditions:
            if kind == "Complete" and not (isinstance(succeeded, int) and succeeded > 0):
                return JobVerdict(AnalysisPhase.INCONCLUSIVE, "the Job is complete, and none of its pods has succeeded")
            return JobVerdict(AnalysisPhase.SUCCESSFUL)
    policy, done = metric.spec.get("successPolicy"), status.get("completedIndexes")
    if isinstance(policy, dict) and isinstance(done, str) and success_policy_holds(policy, done):
        return JobVerdict(AnalysisPhase.SUCCESSFUL, "the Job's successPolicy holds")
    return JobVerdict(AnalysisPhase.RUNNING, "the Job is suspended" if "Suspended" in conditions else "")


def success_policy_holds(policy: Mapping[str, Any], completed: str) -> bool:
    """Whether one of its rules holds: all of `succeededIndexes`, or `succeededCount` of them, or that many of all.

    Args:
        completed: indexes that have succeeded, as in `status.completedIndexes`: `0,2-4`. Of a longer list than
            INDEXES_MAX_CHARACTERS the rest has not succeeded yet: the Job's conditions say how it ends.
    """
    if len(completed) > INDEXES_MAX_CHARACTERS:
        completed = completed[: INDEXES_MAX_CHARACTERS + 1].rpartition(",")[0]
    done = _indexes(completed)
    for rule in mappings(policy.get("rules")):
        given, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        wanted = _indexes(given) if isinstance(given, str) else done
        needed = count if isinstance(count, int) else wanted.bit_count() if isinstance(given, str) else 0
        if needed > 0 and (done & wanted).bit_count() >= needed:
            return True
    return False


def _indexes(text: str) -> int:
    """`0,2-4` as a number with a bit for each index; what is no interval is left out."""
    bits = 0
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isascii() or not first.isdigit() or (last and not (last.isascii() and last.isdigit())):
            continue
        begin, end = int(first[:9]), min(int((last or first)[:9]), INDEXES_MAX)
        if begin <= end:
            bits |= ((1 << (end - begin + 1)) - 1) << begin
    return bits


def _true_conditions(status: Mapping[str, Any]) -> dict[str, str]:
    """The conditions that hold, with their reasons, which are words of the Job controller; anything else is not repeated."""
    reasons = {}
    for condition in mappings(status.get("conditions")):
        if condition.get("status") == "True":
            reason = condition.get("reason")
            fit = isinstance(reason, str) and _WORD.fullmatch(reason)
            reasons[str(condition.get("type"))] = str(reason) if fit else "without a reason"
    return reasons

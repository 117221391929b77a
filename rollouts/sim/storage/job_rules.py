"""Defaults and validation of Jobs, as far as metrics use them.

Source: k8s.io/kubernetes pkg/apis/batch/{v1/defaults.go,validation/validation.go} and pkg/registry/batch/job/strategy.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollouts.objects import Manifest
from rollouts.sim.storage.builtin_rules import label_problems, labels_not_selected, pod_defaults, pod_spec_problems
from rollouts.sim.storage.refusals import Cause, compact_json, value_invalid, value_not_supported, value_required
from rollouts.sim.storage.selectors import selects

INDEXED = "Indexed"
_MAX_INT32 = 2**31 - 1
_NEVER_NEGATIVE = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
                   "backoffLimitPerIndex", "maxFailedIndexes")  # fmt: skip
_IMMUTABLE = ("completions", "selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex",
              "successPolicy", "managedBy")  # fmt: skip


def with_defaults(job: Manifest) -> Manifest:
    """A Job with the server's defaults."""
    spec = job.get("spec") or {}
    template = pod_defaults(spec.get("template") or {})
    filled = {
        "backoffLimit": _MAX_INT32 if "backoffLimitPerIndex" in spec else 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed",
        "suspend": False,
        **({} if "parallelism" in spec else {"completions": 1}),
        **spec,
        "template": template,
    }
    labels = (template.get("metadata") or {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        job = {**job, "metadata": {**job["metadata"], "labels": labels}}
    return job if filled == spec else {**job, "spec": filled}


def with_selector(job: Manifest) -> Manifest:
    """A new Job with the selector and the pod labels that the server makes of its uid, unless `manualSelector` is true."""
    spec = job.get("spec") or {}
    if spec.get("manualSelector"):
        return job
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    template = spec.get("template") or {}
    metadata = template.get("metadata") or {}
    own = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    labels = {**own, **(metadata.get("labels") or {})}
    selector = spec.get("selector") or {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return {
        **job,
        "spec": {**spec, "selector": selector, "template": {**template, "metadata": {**metadata, "labels": labels}}},
    }


def problems(new: Manifest, old: Manifest | None) -> Iterator[Cause]:
    """The problems of a Job, including changed fields that are immutable."""
    spec = new.get("spec") or {}
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    for name in _NEVER_NEGATIVE:
        if isinstance(spec.get(name), int) and spec[name] < 0:
            yield value_invalid(f"spec.{name}", f"{spec[name]}", "must be greater than or equal to 0")
    selector = spec.get("selector") or {}
    selected = selector.get("matchLabels") or {}
    uids = (selected.get("batch.kubernetes.io/controller-uid"), selected.get("controller-uid"))
    if not selector:
        yield value_required("spec.selector")
    elif not spec.get("manualSelector") and new["metadata"]["uid"] not in uids:
        yield value_invalid("spec.selector", compact_json(selector), "`selector` not auto-generated")
    elif not selects(selector, labels):
        yield labels_not_selected(labels)
    yield from label_problems(labels, "spec.template.metadata.labels")
    yield from pod_spec_problems(template.get("spec") or {}, "spec.template.spec")
    if (template.get("spec") or {}).get("restartPolicy") not in ("Never", "OnFailure"):
        yield value_required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    yield from _indexed_problems(spec)
    if old is not None:
        yield from _immutable_problems(spec, old)


def _indexed_problems(spec: Manifest) -> Iterator[Cause]:
    mode, policy = spec.get("completionMode"), spec.get("successPolicy")
    if mode not in ("NonIndexed", INDEXED):
        yield value_not_supported("spec.completionMode", mode, (INDEXED, "NonIndexed"))
    if mode == INDEXED and "completions" not in spec:
        yield value_required("spec.completions", "when completion mode is Indexed")
    if policy is None:
        return
    if mode != INDEXED:
        yield value_invalid("spec.successPolicy", compact_json(policy), "requires indexed completion mode")
    if not policy.get("rules"):
        message = "at least one rules must be specified when the successPolicy is specified"
        yield value_required("spec.successPolicy.rules", message)
    for index, rule in enumerate(policy.get("rules") or ()):
        if "succeededIndexes" not in rule and "succeededCount" not in rule:
            message = "at least one of succeededCount or succeededIndexes must be specified"
            yield value_required(f"spec.successPolicy.rules[{index}]", message)


def _immutable_problems(spec: Manifest, old: Manifest) -> Iterator[Cause]:
    before = old.get("spec") or {}
    for name in _IMMUTABLE:
        if spec.get(name) == before.get(name):
            continue
        if name == "template" and before.get("suspend") and "startTime" not in (old.get("status") or {}):
            continue  # only a Job that never ran may change it
        indexed = spec.get("completionMode") == INDEXED == before.get("completionMode")
        if name == "completions" and indexed and spec.get(name) == spec.get("parallelism"):
            continue  # an elastic Job is scaled by both at once
        yield value_invalid(f"spec.{name}", compact_json(spec.get(name)), "field is immutable")

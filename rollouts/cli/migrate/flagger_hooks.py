"""The webhooks of a Flagger Canary: analyses that ask the same servers the same, at the places where Flagger asks them.

Flagger takes a status up to 202 for a yes. A `confirm-…` hook waits until it gets one; another refusal counts as a failed check.
Source: https://docs.flagger.app/usage/webhooks
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rollouts.cli.kubernetes.parts import entries
from rollouts.cli.migrate.flagger_canary import FlaggerCanary
from rollouts.cli.migrate.outcome import Told, name_of, ref_of
from rollouts.metrics.kubernetes_values import go_duration_s
from rollouts.objects import ANALYSIS_TEMPLATE, Manifest

YES = "result <= 202"
NO_END = 1_000_000
"""Errors in a row: a server that does not answer is asked for as long as Flagger would ask it."""

_CHECKSUM = {"name": "checksum", "valueFrom": {"podTemplateHashValue": "Latest"}}
_TIMEOUT_S, _TIMEOUT_MAX_S = 10.0, 300.0
_WAITS = {"failureLimit": -1, "consecutiveSuccessLimit": 1, "consecutiveErrorLimit": NO_END}
_INSTEAD = {
    "post-rollout": (
        "nothing is asked after an update: let the pipeline that applies it wait for `kubectl rollouts status {}`, which ends"
        " with 0 after a promotion and with 1 after a rollback, and send it then"
    ),
    "event": (
        "no Event is posted: let an exporter of Kubernetes Events send those whose involvedObject is Rollout {}; revision and"
        " weight are annotations of theirs (rollouts.dev/revision, rollouts.dev/weight)"
    ),
}
"""What to write for the hooks that decide nothing."""
_NO_INCREASE = "has no effect, as with Flagger: no weight is increased"
_PLACES = {
    "confirm-rollout": "beforeUpdate",
    "pre-rollout": "an analysis before the first weight",
    "rollout": "an analysis beside the steps",
    "rollback": "an analysis beside the steps, which aborts at a yes",
    "confirm-traffic-increase": "beforeSetWeight",
    "confirm-promotion": "an analysis before the promotion",
}
_COUNTED = ("rollout", "rollback")


class MigratedHooks(Struct, frozen=True):
    """What the webhooks of a Canary are here: the templates, by type of hook."""

    templates: Mapping[str, Manifest] = {}

    def analysis(self, kind: str) -> Manifest | None:
        """The analysis of a `confirm-…` or of `pre-rollout`; None without such a hook. A gate never rolls back by itself."""
        holds = {} if kind == "pre-rollout" else {"onFailure": "hold"}
        return {"templates": self.named(kind), "args": [_CHECKSUM], **holds} if kind in self.templates else None

    def steps(self, kind: str) -> list[Manifest]:
        """The same as a step of a canary."""
        analysis = self.analysis(kind)
        return [] if analysis is None else [{"analysis": analysis}]

    def named(self, *kinds: str) -> list[Manifest]:
        """References to the templates of these types."""
        return [{"templateName": name_of(self.templates[kind])} for kind in kinds if kind in self.templates]

    def beside(self, analysis: Manifest | None, *kinds: str) -> Manifest | None:
        """An analysis with the templates of these types besides; None for nothing."""
        if not (named := self.named(*kinds)):
            return analysis
        before = analysis or {}
        return {
            **before,
            "templates": [*before.get("templates", ()), *named],
            "args": [*before.get("args", ()), _CHECKSUM],
        }


def hooks_of(canary: FlaggerCanary, router: str | None) -> MigratedHooks:
    """What the webhooks of a Canary are here, with a note on each."""
    hooks: dict[str, list[Mapping[str, Any]]] = {}
    for number, hook in entries(canary.analysis.get("webhooks") if canary.is_analysed else None):
        kind = str(hook.get("type") or "rollout")
        told, note = _told(canary, kind, router)
        canary.note(told, canary.at(f"webhooks[{number}]"), f"{kind}: {note}")
        if told is Told.CHANGED and note != _NO_INCREASE:
            hooks.setdefault(kind, []).append(hook)
    templates: dict[str, Manifest] = {}
    for kind, of_kind in hooks.items():
        metadata = {"name": _template_name(canary, kind), **canary.namespace}
        spec = {"args": [{"name": "checksum"}], "metrics": [_metric(canary, kind, hook, router) for hook in of_kind]}
        templates[kind] = {**ANALYSIS_TEMPLATE.head, "metadata": metadata, "spec": spec}
        canary.moved(templates[kind], {canary.at("interval"): "spec.metrics"})
    return MigratedHooks(templates)


def _template_name(canary: FlaggerCanary, kind: str) -> str:
    return f"{name_of(canary.manifest)}-{kind}"


def _told(canary: FlaggerCanary, kind: str, router: str | None) -> tuple[Told, str]:
    """What a person has to know of a webhook of that type."""
    if kind not in _PLACES:
        unknown = f"Flagger has no such type: there are {', '.join((*_PLACES, *_INSTEAD))}"
        return Told.LEFT_OUT, _INSTEAD.get(kind, unknown).format(name_of(canary.manifest))
    if kind == "confirm-traffic-increase" and (router is None or canary.iterations):
        return Told.CHANGED, _NO_INCREASE
    where = _PLACES[kind] if router is not None or kind == "confirm-rollout" else "prePromotionAnalysis"
    told = f"{where}, by AnalysisTemplate {_template_name(canary, kind)}"
    if kind.startswith("confirm-"):
        return Told.CHANGED, told
    times = f", {canary.rounds} times" if kind in _COUNTED and router is None else ""
    return (
        Told.CHANGED,
        f"{told}{times}; a server that does not answer holds the update, where Flagger counts a failed check",
    )


def _metric(canary: FlaggerCanary, kind: str, hook: Mapping[str, Any], router: str | None) -> Manifest:
    """The metric that asks what a webhook asks; its name is its own in all templates of the Canary."""
    borne = {"failureLimit": canary.failures}
    rules: Mapping[str, Manifest] = {
        "pre-rollout": {**borne, "consecutiveSuccessLimit": 1},
        "rollout": {**borne, "initialDelay": canary.interval},
        "rollback": {"successCondition": "result > 202", "consecutiveErrorLimit": NO_END},  # a yes rolls back
    }
    timeout_s = min(max(go_duration_s(hook.get("timeout")) or _TIMEOUT_S, 1.0), _TIMEOUT_MAX_S)
    web = {
        "url": str(hook.get("url") or ""),
        "method": "POST",
        "timeoutSeconds": round(timeout_s),
        "jsonBody": {
            "name": name_of(canary.manifest),
            "namespace": ref_of(canary.manifest).namespace or "default",
            "phase": "Progressing",
            "checksum": "{{args.checksum}}",
            "metadata": hook.get("metadata") or {},
        },
        "result": "status",
        **({"notYet": [403]} if kind.startswith("confirm-") else {}),
        **({"insecure": True} if hook.get("disableTLS") else {}),
    }
    return {
        "name": f"{kind}-{hook.get('name') or 'webhook'}",
        "interval": canary.interval,
        "successCondition": YES,
        **rules.get(kind, _WAITS),
        **({"count": canary.rounds} if kind in _COUNTED and router is None else {}),
        "provider": {"web": web},
    }

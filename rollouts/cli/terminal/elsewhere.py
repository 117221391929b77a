"""What to type instead of words that hands know from kubectl and from other plugins. Pure; one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rollouts.manifests.ownership import NAME
from rollouts.objects import (
    ANALYSIS_RUN,
    ANALYSIS_TEMPLATE,
    CLUSTER_ANALYSIS_TEMPLATE,
    EXPERIMENT,
    METRIC_PROVIDER,
    ROLLOUT,
    TRAFFIC_PROVIDER,
    Kind,
)


def _words(kind: Kind, *short: str) -> frozenset[str]:
    names = (kind.kind.lower(), kind.plural)
    return frozenset({*names, *short, *(f"{name}.{kind.group}" for name in names)})


ROLLOUT_WORDS = _words(ROLLOUT, "ro")
RUN_WORDS = _words(ANALYSIS_RUN, "ar")
EXPERIMENT_WORDS = _words(EXPERIMENT, "exp")
_TEMPLATES = _words(ANALYSIS_TEMPLATE, "at") | _words(CLUSTER_ANALYSIS_TEMPLATE, "cat")
_OTHERS = _TEMPLATES | _words(TRAFFIC_PROVIDER) | _words(METRIC_PROVIDER)
_SHORT = frozenset({"ar", "at", "cat", "exp"})
_OF_KUBERNETES = frozenset(
    [
        "deployment",
        "deployments",
        "deploy",
        "replicaset",
        "replicasets",
        "rs",
        "pod",
        "pods",
        "po",
        "service",
        "services",
        "svc",
    ]
)

_RUNS = {
    "create": "to make an AnalysisRun: `{program} analyze TEMPLATE --rollout NAME`",
    "delete": "to delete an AnalysisRun: `kubectl delete analysisrun {name}`",
    "get": "for an AnalysisRun: `{program} analysis get {name}`",
    "list": "for AnalysisRuns: `{program} analysis list`",
    "terminate": "to end an AnalysisRun: `{program} analysis terminate {name}`",
}
_EXPERIMENTS = {
    "create": "to create an Experiment: `kubectl create -f FILE`",
    "delete": "to delete an Experiment with its pods: `kubectl delete experiment {name}`",
    "get": "for an Experiment: `{program} experiment get {name}`",
    "list": "for Experiments: `{program} experiment list`",
    "retry": "one that is over stays so; to run it again: `kubectl replace --force -f FILE`",
    "terminate": "to end an Experiment: `{program} experiment terminate {name}`",
}

SPELLINGS = {
    "abort": {"--yes": "", "-y": ""},
    "get": {"--timeout-seconds": "--timeout"},
    "list": {"--name": ""},
    "promote": {
        "--yes": "",
        "-y": "",
        "--skip-current-step": "",
        "-c": "",
        "--skip-all-steps": "--full",
        "-a": "--full",
    },
    "version": {"--short": "--client", "--json": "-o=json"},
}
"""Flags by which commands are known elsewhere, or once were here, and ours; "" for none: what it says is so without it."""

_KUBECTL_VERBS = {"create": "create", "delete": "delete", "get": "get", "list": "get"}

_KUBECTL = "{command} is a command of kubectl: `kubectl {command}"
_ELSEWHERE = {
    "describe": "`{program} get {name}` shows all of a Rollout; kubectl's own is `kubectl describe rollout {name}`",
    "notifications": "there are no notifications; the chart has alerts: `--set metrics.prometheusRule.enabled=true`",
    "controller": "the controller is the program `rollouts` itself: `rollouts controller --help`",
    "options": "they are in `{program} help options`",
    "logs": f"{_KUBECTL} -l {NAME}={{name}}`",
    "top": f"{_KUBECTL} pods -l {NAME}={{name}}`",
    "cluster-info": f"{_KUBECTL}`; `{{program}} doctor` looks whether it has what Rollouts need",
    **dict.fromkeys(
        ("annotate", "autoscale", "edit", "label", "patch", "scale", "wait"), f"{_KUBECTL} rollout {{name}}`"
    ),
    **dict.fromkeys(("attach", "cp", "debug", "exec", "port-forward"), f"{_KUBECTL} POD`"),
    **dict.fromkeys(("apply", "replace"), f"{_KUBECTL} -f FILE`"),
    **dict.fromkeys(
        ("api-resources", "auth", "cordon", "events", "expose", "kustomize", "proxy", "run"), f"{_KUBECTL}`"
    ),
}


def kind_elsewhere(command: str, words: Sequence[str], *, program: str) -> str:
    """What to type for a command about an object of another kind; "" when the first word names none.

    Args:
        words: those of the command that are no options: `["analysisrun", "cart-1"]`.
    """
    kind, _, name = words[0].partition("/")
    name = name or (words[1] if len(words) > 1 else "")
    if not name and kind in _SHORT:  # a name, more likely
        return ""
    for kinds, commands, placeholder in ((RUN_WORDS, _RUNS, "RUN"), (EXPERIMENT_WORDS, _EXPERIMENTS, "EXPERIMENT")):
        if kind in kinds and command in commands:
            listed = command == "get" and not name
            return commands["list" if listed else command].format(program=program, name=name or placeholder)
    verb = _KUBECTL_VERBS.get(command)
    if verb and (kind in _OTHERS or (kind in _OF_KUBERNETES and name)):
        return f"{kind} is for kubectl: `{' '.join(filter(None, ('kubectl', verb, kind, name)))}`"
    return ""


def elsewhere(words: Sequence[str], *, program: str) -> str:
    """What to type for words that begin with a command of kubectl or of another plugin; "" when they do not."""
    command, *rest = words
    named = [word for word in rest if not word.startswith("-")]
    if command == "terminate":
        about = (
            named if named and named[0].partition("/")[0] in EXPERIMENT_WORDS | RUN_WORDS else ["analysisrun", *named]
        )
        return kind_elsewhere(command, about, program=program)
    if command in ("rollout", "rollouts") and rest:
        return f"leave out {command!r}: `{program} {' '.join(rest)}`"
    names = [name for name in (word.rpartition("/")[2] for word in named) if name not in ROLLOUT_WORDS]
    return _ELSEWHERE.get(command, "").format(command=command, program=program, name=names[0] if names else "NAME")

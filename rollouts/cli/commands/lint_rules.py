"""The rules of `rollouts lint` that are not about requests: problems, and advice on what files contradict.

Its output, the page docs/lint-rules.md and SARIF's list of rules follow from these and from `core/advice/findings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from rollouts.core.advice.findings import DescribedRule, Rule


class LintProblem(DescribedRule):
    """The checks that make `lint` end with exit code 1."""

    UNREADABLE = "Unreadable", "The text is no YAML that Kubernetes takes, or no object.", "the syntax at that line"
    NO_OBJECT = (
        "NoObject",
        "There is nothing in the file: a template has rendered to nothing.",
        "the template, or the path",
    )
    OTHER_API = (
        "OtherApi",
        "The apiVersion or the kind is nearly one of ours, or another product's.",
        "the apiVersion and kind that the message names",
    )
    DUPLICATE_OBJECT = (
        "DuplicateObject",
        "Two objects of one kind, namespace and name: the one that is applied last replaces the other.",
        "another name or namespace, or one of them removed",
    )
    OBJECT_REFUSED = (
        "ObjectRefused",
        "The API server refuses the object: its metadata, or a Service, autoscaler, ConfigMap or Secret.",
        "the field that the message names",
    )
    SPEC_INVALID = (
        "SpecInvalid",
        (
            "The controller or the API server refuses the spec: an unknown field, another type, fields that exclude each other, "
            "or what the router cannot do."
        ),
        "the field that the message names",
    )
    PODS_REFUSED = (
        "PodsRefused",
        "The API server refuses the pod template, or that of a metric's Job.",
        "the field that the message names",
    )
    ANALYSIS_REFUSED = (
        "AnalysisRefused",
        "A template or an AnalysisRun is wrong, or an analysis cannot begin with its templates and arguments.",
        "the template, or the arguments",
    )
    ANALYSIS_ENDLESS = (
        "AnalysisEndless",
        (
            "A step, or an analysis before or after a promotion, has a metric with `interval` and without `count`: it never ends "
            "by itself, so the update never passes it."
        ),
        "a `count`, or the analysis in the background (`canary.analysis`)",
    )
    SERVER_UNFIT = (
        "ServerUnfit",
        "A MetricProvider of the files is of another type than a metric's, is one of several, or has a place that nothing fills.",
        "`metricProvider`, or the field that the message names",
    )
    CONFIG_KEY_MISSING = (
        "ConfigKeyMissing",
        "A ConfigMap or Secret in the files lacks a key that the pods need.",
        "the key, or `optional: true`",
    )
    SERVICE_CONTRADICTS = (
        "ServiceContradicts",
        "A Service that the strategy names does not find the pods, or lacks a port.",
        "its selector or ports",
    )
    AUTOSCALER_TARGET = (
        "AutoscalerTarget",
        "An autoscaler that names a Rollout of the files does not scale it.",
        "`scaleTargetRef` with the kind and apiVersion of a Rollout, or of the Deployment that it updates in place",
    )
    ROUTE_UNUSABLE = (
        "RouteUnusable",
        "A route in the files cannot split requests for the Rollout, or not as one of its steps asks.",
        "the route, or the weights",
    )


class LintAdvice(DescribedRule):
    """The checks that leave the exit code as it is."""

    SAME_OBJECT = (
        "SameObject",
        "Files of different folders have an object of one kind, namespace and name; they may be for different clusters.",
        "one folder at a time",
    )
    FALLING_WEIGHTS = "FallingWeights", "A step has a lower weight than the step before.", "the steps in order"
    HASH_LABEL = (
        "HashLabel",
        "The template names a label by which another controller tells its revisions apart, such as `pod-template-hash`.",
        "`rollouts.dev/revision`",
    )
    NO_EVIDENCE = (
        "NoEvidence",
        "A condition calls a missing number good, as in Argo Rollouts; here the measurement is what `noData` says.",
        "`minSamples: 0`, or `noData`",
    )
    METRIC_UNKNOWN = (
        "MetricUnknown",
        "With `--prometheus-url`: a query names a metric that Prometheus does not have.",
        "the metric's name",
    )
    FIGURE_UNKNOWN = (
        "FigureUnknown",
        "A condition reads what this source does not give.",
        "one of the names in the message",
    )
    INTERVAL_SHORT = (
        "IntervalShort",
        "The interval is shorter than that in which there is a new sample.",
        "a longer `interval`",
    )
    REPLICAS_OF_AUTOSCALER = (
        "ReplicasOfAutoscaler",
        "The file and an autoscaler both set `spec.replicas`.",
        "no `replicas` in the file",
    )
    VALUE_OF_AUTOSCALER = (
        "ValueOfAutoscaler",
        "An autoscaler multiplies one value by all pods, those of the canary too.",
        "`AverageValue`, or `dynamicStableScale: true`",
    )
    SELECTOR_SHARED = (
        "SelectorShared",
        "Another workload of the files finds the same pods by its selector.",
        "a label of its own for each",
    )


LintRule: TypeAlias = LintProblem | LintAdvice | Rule
RULES: Mapping[str, LintRule] = {rule.value: rule for kind in (LintProblem, LintAdvice, Rule) for rule in kind}
"""Every rule by its name."""

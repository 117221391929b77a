"""Findings: what in a manifest loses requests at a cutover, or changes the shares of traffic, with the remedy.

`graceful_exit.py` checks pod templates, `service_findings.py` Services, and `proxy_findings.py` what is known of the nodes'
proxies. `rollouts lint` and `rollouts plan` print the findings.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from msgspec import Struct


class Severity(StrEnum):
    """How bad a finding is."""

    UNSAFE = "unsafe"  # requests are lost, or go elsewhere than the weights say
    WARNING = "warning"  # the same, under a condition that the manifest does not show
    NOTE = "note"  # worth knowing; nothing in the manifest is wrong


class DescribedRule(StrEnum):
    """The name of a check, for machines; its `meaning` and the `remedy` are for people, in Markdown."""

    meaning: str
    remedy: str

    def __new__(cls, word: str, meaning: str, remedy: str) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        member.remedy = f"{remedy[0].upper()}{remedy[1:]}."
        return member


class Rule(DescribedRule):
    """The checks that look for lost requests and changed shares."""

    # pod templates
    NO_READINESS_PROBE = (
        "NoReadinessProbe",
        "The pod gets requests as soon as its process runs.",
        "a readinessProbe that succeeds when the app answers",
    )
    LIVENESS_BEFORE_READINESS = (
        "LivenessBeforeReadiness",
        (
            "The livenessProbe kills the container (initialDelay + failureThreshold × period) before it was ever ready; "
            "`plan` compares with the start of the pods that run now."
        ),
        "a startupProbe",
    )
    PRE_STOP_MISSING = (
        "PreStopMissing",
        "The app gets SIGTERM while proxies still send it connections.",
        "`lifecycle.preStop.sleep` of the seconds named, or `spec.drain.preStop: Inject` (the default)",
    )
    PRE_STOP_SHORT = (
        "PreStopShort",
        "The preStop ends, and the app gets SIGTERM, while proxies still send it connections.",
        "a longer `lifecycle.preStop.sleep`, or `spec.drain.preStop: Inject` (the default)",
    )
    PRE_STOP_UNKNOWN = "PreStopUnknown", "The length of the preStop is unknown.", "`lifecycle.preStop.sleep`"
    PRE_STOP_BINARY = (
        "PreStopBinary",
        "The image may lack the program (distroless, scratch): a preStop that fails does not wait.",
        "`lifecycle.preStop.sleep`",
    )
    GRACE_SHORT = (
        "GraceShort",
        "The pod is killed in the middle of its last requests.",
        "`terminationGracePeriodSeconds` for the sleep and the longest request",
    )
    SHELL_SWALLOWS_SIGNALS = (
        "ShellSwallowsSignals",
        (
            "`sh -c` as process 1 does not pass SIGTERM on: the app works until it is killed. Debian's `sh` stays in front of "
            "the last command, bash gives way to it unless there is a pipe or a redirection."
        ),
        "`exec` before the app, an init (tini, dumb-init), or no shell",
    )
    PROBE_THROUGH_SIDECAR = (
        "ProbeThroughSidecar",
        "A probe asks another container, so it checks that one.",
        "a port of the app's own, and a native sidecar",
    )
    HOST_PORT_AND_SURGE = (
        "HostPortAndSurge",
        "Two pods cannot share a node, so new ones wait for free nodes; clients of the node's port bypass Services.",
        "`maxSurge: 0`, or a Service",
    )
    DRAIN_OFF = (
        "DrainOff",
        "The controller does not wait until proxies have stopped to send connections to old pods.",
        "`spec.drain` at its defaults",
    )
    DRAIN_TIMEOUT_SHORT = (
        "DrainTimeoutShort",
        "The wait for old pods ends before the time that `spec.drain` needs.",
        "a larger `spec.drain.timeoutSeconds`",
    )
    KEPT_CONNECTIONS = (
        "KeptConnections",
        "Connections that clients keep open stay with their pod. A note for Rollouts without a router, once in a run.",
        "`Connection: close` and GOAWAY on SIGTERM, `maxConnectionAge`, or a gateway",
    )
    # ConfigMaps and Secrets
    CONFIG_MISSING = (
        "ConfigMissing",
        "`plan`: the Rollout waits for it, and the running revision stays. `lint`: a note, it may be in the cluster.",
        "create it, or make its references optional",
    )
    CONFIG_COPY_NAMED = (
        "ConfigCopyNamed",
        "The template names a copy that the controller made; copies go with the revisions that have them.",
        "the name of the source",
    )
    TEMPLATE_ELSEWHERE = (
        "TemplateElsewhere",
        "The pod template is that of the workload that `workloadRef` names, so the pods are not checked here.",
        "`rollouts plan`, which reads the workload from the cluster; in place the condition `DrainUnsafe`",
    )
    CONFIG_SUB_PATH = (
        "ConfigSubPath",
        "A note where `configVersioning` is off: no edit reaches a file that is mounted by `subPath`.",
        "`configVersioning`, or the whole volume",
    )
    CONFIG_LOCKED = (
        "ConfigLocked",
        "It is immutable in the cluster, so the API server refuses the file. `plan` only.",
        "a new name for the new content",
    )
    CONFIG_UNKNOWN = (
        "ConfigUnknown",
        "A note: you may not read it, so the plan takes it as unchanged. `plan` only.",
        "the right to get it",
    )
    # Services
    TRAFFIC_DISTRIBUTION = (
        "TrafficDistribution",
        (
            "PreferClose, PreferSameZone or PreferSameNode: a zone whose only pod is the canary sends it 100 %, one without "
            "sends 0 %; at a cutover a zone without pods falls back to the others."
        ),
        "no `trafficDistribution`, or a pod of each revision in every zone",
    )
    INTERNAL_TRAFFIC_LOCAL = (
        "InternalTrafficLocal",
        "A node with only the canary sends it 100 %; a node whose last pod leaves drops connections.",
        "`Cluster`, or `trafficDistribution: PreferSameNode`",
    )
    EXTERNAL_TRAFFIC_LOCAL = (
        "ExternalTrafficLocal",
        (
            "Outside connections are shared by node, not by pod; nodes with old pods only drop connections until the load "
            "balancer's health check fails."
        ),
        "`Cluster`",
    )
    SESSION_AFFINITY = (
        "SessionAffinity",
        "ClientIP: one client, or everybody behind one NAT, gets one pod; it moves when its pod leaves, and its session is lost.",
        "sessions outside the pods, or a gateway that knows sessions",
    )
    HEADLESS = (
        "Headless",
        "Shares are what clients make of DNS; they call a pod that left for as long as they cache its address.",
        "a ClusterIP",
    )
    PUBLISHES_NOT_READY = (
        "PublishesNotReady",
        "Pods get requests before they are ready; the EndpointSlices cannot confirm a switch.",
        "no `publishNotReadyAddresses`",
    )
    NO_SELECTOR = "NoSelector", "The Service cannot be switched.", "the labels of `spec.template` as its selector"
    BESIDE_THE_SWITCH = (
        "BesideTheSwitch",
        "Its clients reach both revisions, the new one before it is promoted.",
        "the Service that the strategy switches, for clients",
    )
    WEIGHT_WITHOUT_EFFECT = (
        "WeightWithoutEffect",
        (
            "Without `trafficRouting` weights are ratios of pods. Clients of `stableService` have the stable pods alone, and the "
            "steps take these away: one of ten is left at 90 %. A note where another Service selects the pods of both revisions."
        ),
        "a Service that selects both revisions, or `trafficRouting`",
    )
    # what only a cluster shows
    SERVICE_MISSING = (
        "ServiceMissing",
        "A Service that the strategy names is neither in the cluster nor in the file.",
        "create it",
    )
    ANALYSIS_INVALID = (
        "AnalysisInvalid",
        "A template of an analysis is neither in the cluster nor in the file, is wrong with its arguments, or never ends.",
        "create or correct the template",
    )
    NO_SERVICE = "NoService", "Nothing selects these pods.", "a Service, unless they serve no requests"
    PROXY_MODE_UNKNOWN = "ProxyModeUnknown", "The proxy mode is unknown, so the safe waits are taken.", "`--proxy-mode`"
    IPVS_PORT_REUSE = (
        "IpvsPortReuse",
        "On kernels before 5.9, ipvs sends a client's port that is used again to the old pod until that ends.",
        "kube-proxy in nftables mode, or newer kernels",
    )
    IPVS_FORGETS_CONNECTIONS = (
        "IpvsForgetsConnections",
        "A note: ipvs forgets idle connections, and answers their next request with a reset.",
        "clients that close idle connections sooner, or `--ipvs-tcp-timeout`",
    )
    NO_CAPACITY = "NoCapacity", "At one moment of the update no pod is available.", "a surge, or smaller steps"
    STUCK = "Stuck", "The update stops before its end; the finding says where.", "what the finding names"


class Finding(Struct, frozen=True):
    """One thing that loses requests or changes shares.

    Args:
        path: where in the manifest, as `kubectl explain` writes it.
    """

    rule: Rule
    severity: Severity
    path: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.path}: {self.what}; {self.fix}"

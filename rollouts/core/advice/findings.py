"""Findings: what in a manifest loses requests at a cutover, or changes the shares of traffic, with the remedy.

`graceful_exit.py` checks pod templates, `service_findings.py` Services, and `proxy_findings.py` what is known of the nodes'
proxies. `rollouts lint` and `rollouts plan` print the findings.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """How bad a finding is."""

    UNSAFE = "unsafe"  # requests are lost, or go elsewhere than the weights say
    WARNING = "warning"  # the same, under a condition that the manifest does not show
    NOTE = "note"  # worth knowing; nothing in the manifest is wrong


class Rule(StrEnum):
    """The name of each check, for machines."""

    # pod templates
    NO_READINESS_PROBE = "NoReadinessProbe"
    LIVENESS_BEFORE_READINESS = "LivenessBeforeReadiness"
    PRE_STOP_MISSING = "PreStopMissing"
    PRE_STOP_SHORT = "PreStopShort"
    PRE_STOP_UNKNOWN = "PreStopUnknown"
    PRE_STOP_BINARY = "PreStopBinary"
    GRACE_SHORT = "GraceShort"
    SHELL_SWALLOWS_SIGNALS = "ShellSwallowsSignals"
    PROBE_THROUGH_SIDECAR = "ProbeThroughSidecar"
    HOST_PORT_AND_SURGE = "HostPortAndSurge"
    DRAIN_OFF = "DrainOff"
    DRAIN_TIMEOUT_SHORT = "DrainTimeoutShort"
    KEPT_CONNECTIONS = "KeptConnections"
    CONFIG_MISSING = "ConfigMissing"
    CONFIG_COPY_NAMED = "ConfigCopyNamed"
    CONFIG_SUB_PATH = "ConfigSubPath"
    # Services
    TRAFFIC_DISTRIBUTION = "TrafficDistribution"
    INTERNAL_TRAFFIC_LOCAL = "InternalTrafficLocal"
    EXTERNAL_TRAFFIC_LOCAL = "ExternalTrafficLocal"
    SESSION_AFFINITY = "SessionAffinity"
    HEADLESS = "Headless"
    PUBLISHES_NOT_READY = "PublishesNotReady"
    NO_SELECTOR = "NoSelector"
    BESIDE_THE_SWITCH = "BesideTheSwitch"
    WEIGHT_WITHOUT_EFFECT = "WeightWithoutEffect"
    # what only a cluster shows
    SERVICE_MISSING = "ServiceMissing"
    ANALYSIS_INVALID = "AnalysisInvalid"
    NO_SERVICE = "NoService"
    PROXY_MODE_UNKNOWN = "ProxyModeUnknown"
    IPVS_PORT_REUSE = "IpvsPortReuse"
    IPVS_FORGETS_CONNECTIONS = "IpvsForgetsConnections"
    CONFIG_UNKNOWN = "ConfigUnknown"
    CONFIG_LOCKED = "ConfigLocked"
    NO_CAPACITY = "NoCapacity"
    STUCK = "Stuck"


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

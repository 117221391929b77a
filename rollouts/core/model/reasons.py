"""Every reason that a condition, an Event, a log line or `status.waitingFor` may give, each with what it means.

The names are Argo Rollouts' where they mean the same. `docs/reasons.md` is generated from this file.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """CamelCase word for machines; `meaning` is the sentence for people."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member

    # updates
    ROLLOUT_UPDATED = "RolloutUpdated", "A new revision is being rolled out."
    ROLLOUT_NOT_COMPLETED = "RolloutNotCompleted", "A newer revision took the place of one that was not finished."
    STEP_COMPLETED = "RolloutStepCompleted", "A step was carried out and the next one begins."
    SKIP_STEPS = "SkipSteps", "The revision is stable already, or was not long ago, so its steps are skipped."
    ROLLOUT_COMPLETED = "RolloutCompleted", "The revision has all the pods and the traffic; it is the stable one now."
    ROLLOUT_ABORTED = "RolloutAborted", "The revision is held back and the stable one serves."
    ROLLOUT_RETRY = "RolloutRetry", "An aborted revision is tried again from its first step."
    ROLLOUT_PAUSED = "RolloutPaused", "The Rollout waits at a step, or because somebody paused it."
    ROLLOUT_RESUMED = "RolloutResumed", "A pause is over."
    ROLLOUT_RESTARTED = "RolloutRestarted", "All pods older than the time asked for have been replaced."
    SWITCH_SERVICE = "SwitchService", "A Service selects another revision."
    TRAFFIC_WEIGHT_UPDATED = "TrafficWeightUpdated", "A route was told another split of the traffic."
    TRAFFIC_LIVE = "TrafficLive", "The data plane does what the routes say."
    ROUTE_DRIFTED = "RouteDrifted", "Somebody else changed what the Rollout set in a route; it was set again."
    ROUTE_RELEASED = "RouteReleased", "A route is no longer managed by the Rollout."
    SERVICE_RELEASED = "ServiceReleased", "A Service is no longer managed by the Rollout."
    # health
    HEALTHY = "Healthy", "The revision of the spec is rolled out and has its pods available."
    AVAILABLE = "AvailableReplicas", "Enough pods are available."
    UNAVAILABLE = "UnavailableReplicas", "Fewer pods are available than the spec allows."
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded", "Nothing moved for progressDeadlineSeconds."
    REPLICA_FAILURE = "ReplicaFailure", "Pods cannot be created: a quota, a policy or a webhook refuses them."
    INVALID_SPEC = "InvalidSpec", "The spec cannot be carried out; the running revision is left as it is."
    DRAIN_UNSAFE = (
        "DrainUnsafe",
        "Pods end sooner than their last requests: a preStop sleep or a grace period is short, or no wait is long enough.",
    )
    DRAIN_TIMED_OUT = (
        "DrainTimedOut",
        "A wait for a revision that lost its traffic took longer than drain.timeoutSeconds.",
    )
    PROXY_MODE_UNKNOWN = (
        "ProxyModeUnknown",
        "Nobody could say how the nodes proxy Services, so the safe numbers are waited.",
    )
    SERVICE_UNSAFE = (
        "ServiceUnsafe",
        "A field of a Service that the spec names bends the shares of traffic, or loses requests at a switch.",
    )
    # waits
    PODS_NOT_AVAILABLE = "PodsNotAvailable", "Waits for pods of a revision to become available."
    OLD_PODS_LEAVING = "OldPodsLeaving", "Waits for pods of older revisions to go."
    SCALING_DOWN = "ScalingDown", "Waits for the stable revision to reach the size that the step gives it."
    TIMED_PAUSE = "TimedPause", "Waits for the duration of a pause step."
    PROMOTION_NEEDED = "PromotionNeeded", "Waits for somebody to promote the revision."
    PAUSED_BY_USER = "PausedByUser", "Waits because spec.paused or the pause annotation is set."
    AUTO_PROMOTION = "AutoPromotion", "Waits for autoPromotionSeconds before the switch."
    SCALE_DOWN_DELAY = "ScaleDownDelay", "An old revision keeps its pods for a while after the traffic left it."
    SERVICE_NOT_FOUND = "ServiceNotFound", "A Service that the spec names does not exist."
    SERVICE_NOT_USABLE = (
        "ServiceNotUsable",
        "A Service that the spec names belongs to another Rollout or selects other pods.",
    )
    SERVICE_SWITCHING = "ServiceSwitching", "Waits for a Service's EndpointSlices to show the revision it selects."
    ROUTE_NOT_FOUND = "RouteNotFound", "A route that the spec names does not exist, or its kind is not installed."
    ROUTE_NOT_USABLE = (
        "RouteNotUsable",
        "A route that the spec names belongs to another Rollout, or cannot say what the step asks for.",
    )
    ROUTE_MADE = "RouteMade", "A route of trafficRouting.own was made, or written anew from its manifest."
    ROUTE_NOT_ACCEPTED = "RouteNotAccepted", "A gateway has not taken the route, and its status may say why."
    TRAFFIC_SWITCHING = "TrafficSwitching", "Waits until the data plane splits the traffic as the step says."
    DRAINING = "Draining", "Waits until no proxy brings new requests to the old pods and those that had begun are over."
    RETRY_NEEDED = "RetryNeeded", "Waits for a new revision, or for somebody to retry the aborted one."
    ROLLED_BACK = (
        "RolledBack",
        "A rollback holds the spec's revision back and an earlier one serves, until a new template or another command.",
    )
    RESTARTING = "Restarting", "Waits for old pods to be replaced."
    DISRUPTION_BUDGET = "DisruptionBudget", "A PodDisruptionBudget refuses the eviction of a pod."
    NAME_TAKEN = "NameTaken", "Another owner has an object with the name that we need."
    NOT_ADOPTED = (
        "NotAdopted",
        "A ReplicaSet has the Rollout's name as a label and no controller, but is not one of its own; it is left alone.",
    )
    # traffic providers
    TRIED = "Tried", "A TrafficProvider's tests pass, and the API server takes their objects in a dry run."
    NOT_TRIED = (
        "NotTried",
        "A TrafficProvider's tests pass; the API server was not asked about their objects, or gave no answer.",
    )
    TEST_REFUSED = "TestRefused", "The API server refuses an object of a TrafficProvider's tests in a dry run."
    KIND_NOT_SERVED = "KindNotServed", "The CustomResourceDefinition of what a TrafficProvider steers is not installed."
    # verbs
    PROMOTED = "Promoted", "Somebody let the revision pass a gate."
    UNKNOWN_REVISION = "UnknownRevision", "A verb names a revision that this Rollout does not have."
    COMMAND_INVALID = (
        "CommandInvalid",
        "A verb's value cannot be understood, or does not fit what the Rollout is doing.",
    )
    # the controller's own trouble
    API_FORBIDDEN = "ApiForbidden", "The controller's ServiceAccount may not do what the Rollout needs."
    API_REFUSED = "ApiRefused", "The API server refuses an object that the Rollout asks for."
    OBJECT_UNREADABLE = (
        "ObjectUnreadable",
        "The Rollout, or an object that it depends on, exists and cannot be read; nothing is decided until it can.",
    )
    WATCH_FAILED = (
        "WatchFailed",
        "A watch is refused or gets no answer, so what is known is old; nothing is decided until it works.",
    )

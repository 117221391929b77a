"""Every reason that a condition, an Event, a log line or `status.waitingFor` may give, and its meaning.

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

    @property
    def remedy(self) -> str:
        """What a person does about it, in a sentence; "" where there is nothing to do."""
        return _REMEDIES.get(self, "")

    # updates
    ROLLOUT_UPDATED = "RolloutUpdated", "A new revision is being rolled out."
    ROLLOUT_NOT_COMPLETED = "RolloutNotCompleted", "A newer revision took the place of one that was not finished."
    STEP_COMPLETED = "RolloutStepCompleted", "A step was carried out and the next one begins."
    SKIP_STEPS = "SkipSteps", "The revision is stable already, or was not long ago, so its steps are skipped."
    ROLLOUT_COMPLETED = "RolloutCompleted", "The revision has all the pods and the traffic; it is the stable one now."
    ROLLOUT_ABORTED = (
        "RolloutAborted",
        "The revision is aborted, and the stable revision takes its place; the message says if that one lacks pods.",
    )
    ROLLOUT_RETRY = "RolloutRetry", "An aborted revision is tried again from its first step."
    ROLLOUT_PAUSED = "RolloutPaused", "The Rollout waits at a step, or because somebody paused it."
    ROLLOUT_RESUMED = "RolloutResumed", "A pause is over."
    ROLLOUT_RESTARTED = "RolloutRestarted", "All pods older than the restart time have been replaced."
    SWITCH_SERVICE = "SwitchService", "A Service selects another revision."
    TRAFFIC_WEIGHT_UPDATED = "TrafficWeightUpdated", "The controller writes another split of the traffic into a route."
    ROUTE_DRIFTED = (
        "RouteDrifted",
        "Somebody else changed what the Rollout had set in a route; the controller sets it again.",
    )
    ROUTE_RELEASED = "RouteReleased", "A route is no longer managed by the Rollout."
    SERVICE_RELEASED = "ServiceReleased", "A Service is no longer managed by the Rollout."
    REFERENCED_WORKLOAD_SCALED = (
        "ReferencedWorkloadScaled",
        "Somebody scaled a Deployment up that workloadRef.scaleDown keeps small; it is scaled down again.",
    )
    FIELDS_OVERWRITTEN = (
        "FieldsOverwritten",
        "Somebody else has written the fields by which a Deployment is updated in place; the controller writes them again.",
    )
    HOLD_NOT_EFFECTIVE = (
        "HoldNotEffective",
        "No policy of the API server holds the workload, though workloadRef.hold is Policy: its own fields do, as with AtRest.",
    )
    NODE_JOINED_IN_STEP = (
        "NodeJoinedInStep",
        "More nodes of a DaemonSet have the new revision than the step asks for: they have joined, or lost their pod.",
    )
    SCALED_IN_STEP = (
        "ScaledInStep",
        "A scale-up of a StatefulSet during an update has made more pods of the new revision than the step asks for.",
    )
    TEMPLATE_NEEDS_REVERT = (
        "TemplateNeedsRevert",
        "The StatefulSet has forgotten the stable revision, as all pods were new and ready: only its template brings it back.",
    )
    WORKLOAD_RELEASED = "WorkloadReleased", "A workload is no longer managed by the Rollout."
    ANALYSIS_SUCCESSFUL = "AnalysisRunSuccessful", "An AnalysisRun ended with a success."
    ANALYSIS_FAILED = "AnalysisRunFailed", "An AnalysisRun failed: what it measured is not as good as it must be."
    ANALYSIS_RUN_INCONCLUSIVE = (
        "AnalysisRunInconclusive",
        "An AnalysisRun ended without enough evidence for a success or a failure.",
    )
    ANALYSIS_RUN_ERROR = (
        "AnalysisRunError",
        "An AnalysisRun could not be carried out: its spec is wrong, or its metrics could not be measured.",
    )
    # health
    HEALTHY = "Healthy", "The revision of the spec is rolled out and its pods are available."
    AVAILABLE = "AvailableReplicas", "Enough pods are available."
    PREVIEW_READY = (
        "PreviewReady",
        "The preview Service leads to the new revision alone, which has its pods: tests may begin.",
    )
    PREVIEW_STARTING = (
        "PreviewStarting",
        "The preview Service has left the old revision, and no test meets it; the pods of the new one are not all ready yet.",
    )
    UNAVAILABLE = "UnavailableReplicas", "Fewer pods are available than the spec allows."
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded", "There was no progress for progressDeadlineSeconds."
    REPLICA_FAILURE = (
        "ReplicaFailure",
        "Pods cannot be created: for example a quota, a policy or a webhook refuses them.",
    )
    INVALID_SPEC = "InvalidSpec", "The spec cannot be carried out; the running pods stay as they are."
    DRAIN_UNSAFE = (
        "DrainUnsafe",
        "Pods may end before their last requests: a preStop sleep or a grace period is too short, or no wait is long enough.",
    )
    DRAIN_TIMED_OUT = (
        "DrainTimedOut",
        "The drain of a revision that lost its traffic was not over after drain.timeoutSeconds.",
    )
    PROXY_MODE_UNKNOWN = (
        "ProxyModeUnknown",
        "It is not known how the nodes proxy Services, so the controller waits the longest safe times.",
    )
    WEIGHT_WITHOUT_EFFECT = (
        "WeightWithoutEffect",
        "The weights are ratios of pods, and clients of the stable Service do not get them: it selects one revision.",
    )
    SERVICE_UNSAFE = (
        "ServiceUnsafe",
        "A field of a Service that the spec names distorts the shares of traffic, or loses requests at a switch.",
    )
    # waits
    PODS_NOT_AVAILABLE = "PodsNotAvailable", "Waits for pods of a revision to become available."
    OLD_PODS_LEAVING = "OldPodsLeaving", "Waits for pods of older revisions to terminate."
    SCALING_DOWN = "ScalingDown", "Waits for the stable revision to reach the size that the step gives it."
    TIMED_PAUSE = "TimedPause", "Waits for the duration of a pause step."
    PROMOTION_NEEDED = "PromotionNeeded", "Waits for somebody to promote the revision."
    PAUSED_BY_USER = "PausedByUser", "Waits because spec.paused or the pause annotation is set."
    AUTO_PROMOTION = "AutoPromotion", "Waits for autoPromotionSeconds before the switch."
    ANALYSIS_RUNNING = "AnalysisRunning", "Waits for the verdict of an AnalysisRun or of an Experiment."
    ANALYSIS_INCONCLUSIVE = (
        "AnalysisInconclusive",
        "An AnalysisRun or Experiment ended without a success and aborts no update; waits for somebody to promote or abort.",
    )
    ANALYSIS_NEEDS_PODS = (
        "AnalysisNeedsPods",
        "The Rollout has 0 replicas; waits until it is scaled up, so that its new revision can be analysed.",
    )
    ANALYSIS_INVALID = (
        "AnalysisInvalid",
        "An analysis cannot go on: a template is missing or wrong, or the AnalysisRun of its name is not the controller's.",
    )
    AUTOSCALER_NOT_SETTLED = "AutoscalerNotSettled", "Waits until the autoscaler scales nothing any more."
    NO_HEADROOM = "NoHeadroom", "The autoscaler is too near its maximum for the next step."
    CONTAINER_OVER_LIMIT = (
        "ContainerOverLimit",
        "A container of the new revision uses more of what it requests than spec.autoscaling allows.",
    )
    AUTOSCALING_UNKNOWN = (
        "AutoscalingUnknown",
        "Waits for evidence about the autoscaler or a container's use: it cannot be read, or is older than the step.",
    )
    AUTOSCALER_NOT_FOUND = (
        "AutoscalerNotFound",
        "spec.autoscaling asks for an autoscaler that has settled or has headroom, and none scales this Rollout.",
    )
    CONFIG_NOT_READ = (
        "ConfigNotRead",
        "Waits for the content of a ConfigMap or Secret that the template names; the revision on record stays meanwhile.",
    )
    CONFIG_SETTLING = (
        "ConfigSettling",
        "A ConfigMap or Secret has just changed; waits for other changes that belong to it (configVersioning.settleSeconds).",
    )
    CONFIG_NOT_FOUND = (
        "ConfigNotFound",
        "A ConfigMap or Secret that the template needs does not exist; the revision on record stays.",
    )
    CONFIG_FORBIDDEN = (
        "ConfigForbidden",
        "The controller may not read a ConfigMap or Secret that the template names; the revision on record stays.",
    )
    CONFIG_COPY_NOT_USABLE = (
        "ConfigCopyNotUsable",
        "Something else has the name that a copy needs, or an earlier copy that is about to go; the revision on record stays.",
    )
    CONFIG_COPY_MISSING = (
        "ConfigCopyMissing",
        "A copy that a kept revision names is gone and cannot be made again of its source, or is not what its name says.",
    )
    WORKLOAD_NOT_READ = (
        "WorkloadNotRead",
        "Waits for the workload that workloadRef names to be read and marked; the revision on record stays meanwhile.",
    )
    WORKLOAD_NOT_FOUND = (
        "WorkloadNotFound",
        "The workload that workloadRef names does not exist; the revision on record stays.",
    )
    WORKLOAD_NOT_USABLE = (
        "WorkloadNotUsable",
        "The workload that workloadRef names has no pod template, or another tool manages it; the revision on record stays.",
    )
    WORKLOAD_OWNED_TWICE = (
        "WorkloadOwnedTwice",
        "Another Rollout manages the workload that workloadRef names; the revision on record stays.",
    )
    WORKLOAD_FORBIDDEN = (
        "WorkloadForbidden",
        "The controller may not read, watch or mark the workload that workloadRef names; the revision on record stays.",
    )
    FIELDS_NOT_GIVEN_BACK = (
        "FieldsNotGivenBack",
        "The update is over; waits until the workload has the fields again that its user wrote.",
    )
    SCALE_DOWN_DELAY = (
        "ScaleDownDelay",
        "Waits for the scale-down delay of an old revision, which keeps its pods until then.",
    )
    SERVICE_NOT_FOUND = "ServiceNotFound", "A Service that the spec names does not exist."
    SERVICE_NOT_USABLE = (
        "ServiceNotUsable",
        "A Service that the spec names belongs to another Rollout or selects other pods.",
    )
    SERVICE_SWITCHING = "ServiceSwitching", "Waits for a Service's EndpointSlices to show the revision it selects."
    ROUTE_NOT_FOUND = "RouteNotFound", "A route that the spec names does not exist, or its kind is not installed."
    ROUTE_NOT_USABLE = (
        "RouteNotUsable",
        "A route that the spec names belongs to another Rollout, or cannot express what the step asks for.",
    )
    ROUTE_MADE = (
        "RouteMade",
        "The controller creates a route of trafficRouting.own, or writes it again from its manifest.",
    )
    ROUTE_NOT_ACCEPTED = (
        "RouteNotAccepted",
        "Not every parent of the route, a gateway or the Service of a mesh, has accepted it; the message names one that has not.",
    )
    TRAFFIC_SWITCHING = "TrafficSwitching", "Waits until the data plane splits the traffic as the step says."
    DRAINING = (
        "Draining",
        "Waits until no proxy sends new requests to the old pods and the requests in flight are over.",
    )
    RETRY_NEEDED = "RetryNeeded", "Waits for a new revision, or for somebody to retry the aborted one."
    ROLLED_BACK = (
        "RolledBack",
        "A rollback is in effect: an earlier revision takes the place of the spec's, until a new template or another command.",
    )
    RESTARTING = "Restarting", "Waits for old pods to be replaced."
    DISRUPTION_BUDGET = "DisruptionBudget", "A PodDisruptionBudget refuses the eviction of a pod."
    SELECTOR_SHARED = "SelectorShared", "Another Rollout of the namespace finds the same pods by its selector."
    NAME_TAKEN = "NameTaken", "An object with the name that the controller needs exists and belongs to another owner."
    NOT_ADOPTED = (
        "NotAdopted",
        "A ReplicaSet with the Rollout's name as a label has no controller and was not made by this Rollout; it is not adopted.",
    )
    # experiments
    EXPERIMENT_RUNNING = "ExperimentRunning", "All pods of an Experiment are available; its analyses begin."
    EXPERIMENT_SUCCESSFUL = "ExperimentSuccessful", "An Experiment ended, and all that it needed was good."
    EXPERIMENT_FAILED = (
        "ExperimentFailed",
        "An analysis of an Experiment failed, or its pods were not available by the progress deadline.",
    )
    EXPERIMENT_INCONCLUSIVE = "ExperimentInconclusive", "An Experiment ended without the evidence for a verdict."
    EXPERIMENT_ERROR = (
        "ExperimentError",
        "An Experiment could not be carried out: an analysis could not be made or measured, or its spec was changed.",
    )
    # traffic providers
    TRIED = "Tried", "A TrafficProvider's tests pass, and the API server takes their objects in a dry run."
    NOT_TRIED = (
        "NotTried",
        "A TrafficProvider's tests pass; the API server was not asked about their objects, or gave no answer.",
    )
    TEST_REFUSED = "TestRefused", "The API server refuses an object of a TrafficProvider's tests in a dry run."
    KIND_NOT_SERVED = (
        "KindNotServed",
        "The CustomResourceDefinition for a TrafficProvider's routes is not installed.",
    )
    # metric providers
    ENDPOINT_READY = "EndpointReady", "A MetricProvider is complete: metrics may ask its server."
    CREDENTIALS_MISSING = (
        "CredentialsMissing",
        "A Secret, a key of a Secret or a file that a MetricProvider names is missing, or cannot be read.",
    )
    # config revisions
    CONFIG_COPIED = "ConfigCopied", "The content of a ConfigMap or Secret is kept in an immutable copy for a revision."
    # commands
    PROMOTED = "Promoted", "Somebody promoted the revision: it may pass a gate."
    UNKNOWN_REVISION = "UnknownRevision", "A command names a revision that this Rollout does not have."
    COMMAND_INVALID = (
        "CommandInvalid",
        "A command's value cannot be understood, or does not fit what the Rollout is doing.",
    )
    # problems of the controller
    API_FORBIDDEN = "ApiForbidden", "The controller's ServiceAccount may not do what the Rollout needs."
    API_REFUSED = "ApiRefused", "The API server refuses an object that the Rollout asks for."
    OBJECT_UNREADABLE = (
        "ObjectUnreadable",
        "The Rollout, or an object that it depends on, exists and cannot be read; the controller decides nothing until it can.",
    )
    WATCH_FAILED = (
        "WatchFailed",
        "A watch is refused or gets no answer, so what the controller knows is old; it decides nothing until the watch works.",
    )


_BY_ITSELF = "It ends by itself."
_NOW = "It ends by itself; `rollouts promote NAME` ends it at once."
_REMEDIES = {
    Reason.ROLLOUT_ABORTED: "Mend the template, or try the revision again: `rollouts retry NAME`.",
    Reason.ROUTE_DRIFTED: "Let a GitOps tool ignore the fields that `rollouts gitops -f FILE` prints.",
    Reason.ANALYSIS_FAILED: "`rollouts analysis get RUN` shows what was measured.",
    Reason.ANALYSIS_RUN_INCONCLUSIVE: "`rollouts analysis get RUN` shows what was measured.",
    Reason.ANALYSIS_RUN_ERROR: "Try the template: `rollouts analyze TEMPLATE --dry-run`.",
    Reason.UNAVAILABLE: "Look at the pods: `kubectl rollouts get NAME`.",
    Reason.PROGRESS_DEADLINE_EXCEEDED: "Mend the template, or `rollouts abort NAME`; progressDeadlineAbort does that by itself.",
    Reason.REPLICA_FAILURE: "The message has the API server's words: raise the quota, or change what the policy refuses.",
    Reason.INVALID_SPEC: "Correct each path that the message names; `rollouts lint -f FILE` says the same without a cluster.",
    Reason.DRAIN_UNSAFE: "Change what the message names; `rollouts plan -f FILE` has the numbers.",
    Reason.DRAIN_TIMED_OUT: "Raise drain.timeoutSeconds; `rollouts drain-report NAME` says how long the wait had to be.",
    Reason.PROXY_MODE_UNKNOWN: "Set proxyMode of the chart, or grant the right that the message names.",
    Reason.WEIGHT_WITHOUT_EFFECT: "Let clients use a Service that selects both revisions, or add trafficRouting.",
    Reason.SERVICE_UNSAFE: "Change the field that the message names.",
    Reason.PODS_NOT_AVAILABLE: "See why: `kubectl describe pod`; after 30 s the message has the kubelet's words.",
    Reason.OLD_PODS_LEAVING: f"{_BY_ITSELF} A pod that stays has a finalizer, or its node is gone.",
    Reason.SCALING_DOWN: _BY_ITSELF,
    Reason.TIMED_PAUSE: _NOW,
    Reason.PROMOTION_NEEDED: "Go on: `rollouts promote NAME`; go back: `rollouts abort NAME`.",
    Reason.PAUSED_BY_USER: "`rollouts resume NAME`; or remove spec.paused from the manifest.",
    Reason.AUTO_PROMOTION: _NOW,
    Reason.ANALYSIS_RUNNING: "See it: `rollouts analysis get RUN` or `rollouts experiment get EXPERIMENT`; not wait: "
    "`rollouts promote NAME --skip-analysis`.",
    Reason.ANALYSIS_INCONCLUSIVE: "See why: `rollouts analysis get RUN`; then `rollouts promote NAME`, or `rollouts abort NAME`.",
    Reason.ANALYSIS_NEEDS_PODS: "Scale the Rollout up, or `rollouts promote NAME --full`.",
    Reason.ANALYSIS_INVALID: "Mend the template, or delete the run that the message names, or `rollouts promote NAME --full`.",
    Reason.AUTOSCALER_NOT_SETTLED: _NOW,
    Reason.NO_HEADROOM: "Raise maxReplicas of the autoscaler, or `rollouts promote NAME`.",
    Reason.CONTAINER_OVER_LIMIT: "Raise the container's requests, or `rollouts promote NAME`, or `rollouts abort NAME`.",
    Reason.AUTOSCALING_UNKNOWN: "Look at the autoscaler and the metrics APIs: `rollouts doctor`.",
    Reason.AUTOSCALER_NOT_FOUND: "Create the autoscaler, or remove spec.autoscaling.",
    Reason.CONFIG_NOT_READ: _BY_ITSELF,
    Reason.CONFIG_SETTLING: _BY_ITSELF,
    Reason.CONFIG_NOT_FOUND: "Create it, or correct its name in the template.",
    Reason.CONFIG_FORBIDDEN: "Set configVersioning of the chart; for Secrets apply what `rollouts rbac -f FILE` prints.",
    Reason.CONFIG_COPY_NOT_USABLE: "Delete or rename the object that the message names.",
    Reason.CONFIG_COPY_MISSING: "Give the source its earlier content again, or roll out a new revision.",
    Reason.REFERENCED_WORKLOAD_SCALED: "Remove spec.replicas of the Deployment from Git, and its HorizontalPodAutoscaler.",
    Reason.WORKLOAD_NOT_READ: _BY_ITSELF,
    Reason.WORKLOAD_NOT_FOUND: "Create the workload, or correct workloadRef.",
    Reason.WORKLOAD_NOT_USABLE: "Change what the message names, or name another workload.",
    Reason.WORKLOAD_OWNED_TWICE: "Name another workload, or delete the other Rollout.",
    Reason.FIELDS_OVERWRITTEN: "Let the tool that applies the manifest ignore these fields, or install the policies.",
    Reason.HOLD_NOT_EFFECTIVE: "Install the policies (the chart's `admission.holds`), or set `hold: Auto`.",
    Reason.WORKLOAD_FORBIDDEN: "Name its kind in the chart's `workloads`.",
    Reason.FIELDS_NOT_GIVEN_BACK: _BY_ITSELF,
    Reason.SCALE_DOWN_DELAY: _BY_ITSELF,
    Reason.SERVICE_NOT_FOUND: "Create the Service; the update then continues by itself.",
    Reason.SERVICE_NOT_USABLE: "Change what the message names; the update then continues by itself.",
    Reason.SERVICE_SWITCHING: _BY_ITSELF,
    Reason.ROUTE_NOT_FOUND: "Create the route, or install its kind: `rollouts doctor` says what is missing.",
    Reason.ROUTE_NOT_USABLE: "Change what the message names; the update then continues by itself.",
    Reason.ROUTE_NOT_ACCEPTED: "Look at the route's own status, and at the gateway that the message names.",
    Reason.TRAFFIC_SWITCHING: f"{_BY_ITSELF} If not, the route's own status says what is wrong.",
    Reason.DRAINING: f"{_BY_ITSELF} `rollouts drain-report NAME` has the numbers.",
    Reason.RETRY_NEEDED: "Mend the template, or try the revision again: `rollouts retry NAME`.",
    Reason.ROLLED_BACK: "A new template ends it; `rollouts history NAME` lists what else there is.",
    Reason.RESTARTING: _BY_ITSELF,
    Reason.DISRUPTION_BUDGET: f"{_BY_ITSELF} If not, the budget allows no pod to be missing: `kubectl get pdb`.",
    Reason.SELECTOR_SHARED: "Give one of the two another selector.",
    Reason.NAME_TAKEN: "Rename or delete the object that the message names.",
    Reason.NOT_ADOPTED: "Delete the ReplicaSet, or take the label off.",
    Reason.EXPERIMENT_FAILED: "See what was measured: `rollouts experiment get NAME`; then create it again.",
    Reason.EXPERIMENT_INCONCLUSIVE: "See what was measured: `rollouts experiment get NAME`; then create it again.",
    Reason.EXPERIMENT_ERROR: "Correct what the message names, and create the Experiment again.",
    Reason.NOT_TRIED: "See its conditions: `kubectl describe trafficprovider`.",
    Reason.TEST_REFUSED: "Correct the provider's test; the message has the API server's words.",
    Reason.KIND_NOT_SERVED: "Install the router's CustomResourceDefinitions.",
    Reason.CREDENTIALS_MISSING: "Create the Secret, the key or the file that the message names.",
    Reason.UNKNOWN_REVISION: "Give the command again: the command line writes the revision that is there.",
    Reason.COMMAND_INVALID: "Give the command again: `rollouts help` lists all.",
    Reason.API_FORBIDDEN: "`rollouts doctor` names the right that is missing, and `helm upgrade` gives it.",
    Reason.API_REFUSED: "The message has the API server's words; it is tried again by itself.",
    Reason.OBJECT_UNREADABLE: "Correct the object that the message names.",
    Reason.WATCH_FAILED: "`rollouts doctor` names the right or the kind that is missing.",
}

{{- /*
The controller's rights, and the reason for each. It has no others: no "*", and no Secrets but those that `analysis.secrets` names.

  rollouts                 get list watch   the objects it manages
                           patch            removes the annotation of a command that was resolved; rolls back
  rollouts/status          patch            its memory and its report: one patch a pass at most
  rollouts/finalizers      update           owner references that block the owner's deletion, where the cluster enforces
                                            permission for them (OwnerReferencesPermissionEnforcement; OpenShift does)
  experiments              get list watch   pods that run beside all others for a while, and their analyses
                           create           one that a step asks for
                           patch            tells one to end
                           delete           those beyond the history limits
  experiments/status       patch            its memory and its report
  experiments/finalizers   update           as of rollouts
  replicasets              get list watch   the revisions
                           create           a new revision
                           patch            scale, adopt, annotate
                           delete           revisions beyond the history limit
  analysisruns             get list watch   what judges a revision, and its verdict
                           create           a judgement that the spec asks for
                           patch            tells one to end
                           delete           those beyond the history limits
  analysisruns/status      patch            what was measured
  analysistemplates        get list watch   what analyses measure
  services                 get list watch   which revision they select
                           patch            set the revision that they select (selector, managed label)
                           create delete    those that an Experiment asks for
  endpointslices           list watch       whether the data plane has followed
  pods                     list             why a revision is not ready; which pods are older than a restart
                           patch            with podMetadata: metadata of the canary and the stable pods
  pods (metrics.k8s.io)    list             what containers use, for gates and metrics that ask for it
  horizontalpodautoscalers list             what autoscalers want and may, for gates and metrics that ask for it
  pods/eviction            create           restart, which respects PodDisruptionBudgets; pods of its own are never deleted
  events (events.k8s.io)   create           what happened

For each of `workloads`:

  deployments, …           get list watch   the pod template of an object that a Rollout names, and whether another tool manages it
                           patch            the label by which it is watched; the replicas of a Deployment (workloadRef.scaleDown);
                                            in place how it is updated

With statefulsets or daemonsets in `workloads`:

  pods                     watch            which pod has which revision, while an update runs
                           delete           a pod of a node that gets the new revision; one of a StatefulSet that goes back
  controllerrevisions      get list         with daemonsets: which revision its template is; the stable template, with revertTemplates
  nodes                    list             those that workloadRef.canaryNodes chooses; not with watchNamespaces

With `configVersioning`:

  configmaps               get              the contents that templates name, once for each version: their hashes, and copies of them
                           list watch       which versions there are; metadata only, but RBAC has no right for that alone
                           create           immutable copies for a revision
                           patch            puts a copy that nobody controls under its Rollout again; with retain, takes it from there
                           delete           copies that no revision names any more

For each router of `routers`, its routes, for example httproutes (gateway.networking.k8s.io):

  the routes               get list watch   what they say, and which gateways have accepted it
                           patch            weights, managed routes, the label by which they are watched
                           create           with ownRoutes: those of trafficRouting.own
  gateways, gatewayclasses get              which features a class names, before a header or mirror route is written; with
                                            watchNamespaces classes cannot be read, and the spec has to name the features
  ingresses of nginx       create delete    the canary Ingress, which the controller owns; the user's Ingress is only marked
  targetgroupbindings      get list         for alb: the target groups that AWS's API is asked about, with dataPlanes alb=aws:REGION

For each of `declaredRoutes`, the kinds that TrafficProviders declare:

  the routes               get list watch   as above
                           patch
                           create           with ownRoutes; else in the controller's own namespace, by dry run only: to test a TrafficProvider

For each of `analysis.customMetrics` (custom.metrics.k8s.io) and `analysis.externalMetrics` (external.metrics.k8s.io), by name:

  the metric               get              one that metrics of analyses name
                           list             the same, of an external one

With `analysis.jobs.enabled`:

  jobs                     get              how the Job of a measurement has ended
                           create           one for each measurement
                           delete           a run was ended; Jobs beyond the measurements that are kept

In the release's own namespace, for each of `analysis.secrets`, by name:

  secrets                  get              credentials that a MetricProvider names

Nothing here is for the Secrets of Rollouts (`configVersioning.secrets: true`): `rollouts rbac -f FILE` prints a Role for each
namespace, which says them by name.

Unless watchNamespaces is set, because they belong to the cluster:

  clusteranalysistemplates get list watch   what analyses of all namespaces measure
                           create           the chart's own, after an install that brought their kind; not after an upgrade
  metricproviders          get list watch   servers with metrics that an administrator declares
  metricproviders/status   patch            whether metrics may ask them, and why not

  trafficproviders         get list watch   routers that an administrator declares
  trafficproviders/status  patch            whether they can be used, and why not

Unless watchNamespaces or proxyMode is set, how nodes proxy connections to pods, which decides how long pods are drained. Each is
optional; without it the waits have a safe length, and a condition says so.

  configmaps               get              kube-system: kube-proxy, kube-proxy-config, cilium-config, by name
  daemonsets               get              kube-system: kube-proxy, by name
  nodes                    list             the oldest kernel, where kube-proxy uses ipvs or its mode is not known
*/}}
{{- define "rollouts.rules" -}}
- apiGroups: [rollouts.dev]
  resources: [rollouts]
  verbs: [get, list, watch, patch]
- apiGroups: [rollouts.dev]
  resources: [rollouts/status]
  verbs: [patch]
- apiGroups: [rollouts.dev]
  resources: [rollouts/finalizers]
  verbs: [update]
- apiGroups: [rollouts.dev]
  resources: [analysisruns]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rollouts.dev]
  resources: [analysisruns/status]
  verbs: [patch]
- apiGroups: [rollouts.dev]
  resources: [analysistemplates]
  verbs: [get, list, watch]
- apiGroups: [rollouts.dev]
  resources: [experiments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [rollouts.dev]
  resources: [experiments/status]
  verbs: [patch]
- apiGroups: [rollouts.dev]
  resources: [experiments/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list{{ if .Values.podMetadata }}, patch{{ end }}{{ if or (has "daemonsets" .Values.workloads) (has "statefulsets" .Values.workloads) }}, watch, delete{{ end }}]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- range .Values.workloads }}
- apiGroups: [{{ include "rollouts.groupOfWorkload" . | quote }}]
  resources: [{{ . }}]
  verbs: [get, list, watch, patch]
{{- end }}
{{- if has "daemonsets" .Values.workloads }}
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list]
{{- end }}
{{- if .Values.configVersioning }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- $routes := dict
  "gatewayAPI" (list "gateway.networking.k8s.io" (list "httproutes" "grpcroutes" "tlsroutes" "tcproutes"))
  "istio" (list "networking.istio.io" (list "virtualservices" "destinationrules"))
  "nginx" (list "networking.k8s.io" (list "ingresses"))
  "alb" (list "networking.k8s.io" (list "ingresses"))
  "skipper" (list "networking.k8s.io" (list "ingresses"))
  "traefik" (list "traefik.io" (list "traefikservices"))
  "contour" (list "projectcontour.io" (list "httpproxies"))
  "apisix" (list "apisix.apache.org" (list "apisixroutes"))
  "gloo" (list "gateway.solo.io" (list "routetables")) }}
{{- range $router := .Values.routers }}
{{- $names := index $routes $router }}
- apiGroups: [{{ index $names 0 }}]
  resources: [{{ join ", " (index $names 1) }}]
  verbs: [get, list, watch, patch{{ if or $.Values.ownRoutes (eq $router "nginx") }}, create{{ end }}{{ if eq $router "nginx" }}, delete{{ end }}]
{{- if eq $router "gatewayAPI" }}
- apiGroups: [{{ index $names 0 }}]
  resources: [gateways, gatewayclasses]
  verbs: [get]
{{- end }}
{{- if eq $router "alb" }}
- apiGroups: [elbv2.k8s.aws]
  resources: [targetgroupbindings]
  verbs: [get, list]
{{- end }}
{{- end }}
{{- range .Values.declaredRoutes }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource }}]
  verbs: [get, list, watch, patch{{ if $.Values.ownRoutes }}, create{{ end }}]
{{- end }}
{{- with .Values.analysis.customMetrics }}
- apiGroups: [custom.metrics.k8s.io]
  resources: {{ toJson . }}
  verbs: [get]
{{- end }}
{{- with .Values.analysis.externalMetrics }}
- apiGroups: [external.metrics.k8s.io]
  resources: {{ toJson . }}
  verbs: [get, list]
{{- end }}
{{- if .Values.analysis.jobs.enabled }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, create, delete]
{{- end }}
{{- with .Values.rbac.extraRules }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- define "rollouts.groupOfWorkload" -}}
{{ ternary "" "apps" (eq . "podtemplates") }}
{{- end }}
{{- define "rollouts.proxyRules" -}}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kube-proxy, kube-proxy-config, cilium-config]
  verbs: [get]
- apiGroups: [apps]
  resources: [daemonsets]
  resourceNames: [kube-proxy]
  verbs: [get]
{{- end }}

{{/*
What the controller's ServiceAccount may write, where RBAC cannot say it: for each kind its rules and its validations, in CEL.
fences.yaml makes a ValidatingAdmissionPolicy of each. A name of a variable means, for the object before and after the request:

  labels, oldLabels              its labels; {} for none
  annotations, oldAnnotations    its annotations
  owned, oldOwned                a Rollout controls it
  ofExperiment, oldOfExperiment  an Experiment controls it
  metadataStays                  nothing of its metadata changes but labels and annotations below rollouts.dev/, and the annotation in
                                 which the API server notes the generation of a DaemonSet's template

An expression that a fence needs and CEL cannot say stays a promise of the code: SECURITY.md names these.
*/}}

{{- define "rollouts.fenced" -}}
rollouts experiments replicasets services pods evictions {{ if .Values.configVersioning }}configmaps {{ end }}secrets analysisruns others
{{- if .Values.analysis.jobs.enabled }} jobs{{ end }}
{{- if include "rollouts.bringsTemplates" . }} analysistemplates{{ end }}
{{- if without .Values.workloads "replicasets" }} workloads{{ end }}
{{- if .Values.leaderElection }} leases{{ end }}
{{- if include "rollouts.ingressRouters" . }} ingresses{{ end }}
{{- range .Values.routers }}{{ if not (has . (list "nginx" "alb" "skipper")) }} {{ . | lower }}{{ end }}{{ end }}
{{- if .Values.declaredRoutes }} declared{{ end }}
{{- end }}

{{- define "rollouts.ingressRouters" -}}
{{- range .Values.routers }}{{ if has . (list "nginx" "alb" "skipper") }}{{ . }} {{ end }}{{ end }}
{{- end }}

{{/* Two maps are the same but for the keys k of which `but` holds. */}}
{{- define "rollouts.sameBut" -}}
{{ .new }}.all(k, {{ .but }} || (k in {{ .old }} && {{ .old }}[k] == {{ .new }}[k])) && {{ .old }}.all(k, {{ .but }} || k in {{ .new }})
{{- end }}

{{- define "rollouts.specBut" -}}
{{ include "rollouts.sameBut" (dict "new" "object.spec" "old" "oldObject.spec" "but" .) }}
{{- end }}

{{- define "rollouts.controlledBy" -}}
{{ .of }}.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == '{{ .kind }}' && o.apiVersion.startsWith('rollouts.dev/'))
{{- end }}

{{/* What fences may name; those that one does not are left out of it. */}}
{{- define "rollouts.fenceVariables" -}}
- {name: labels, expression: "object.metadata.?labels.orValue({})"}
- {name: oldLabels, expression: "oldObject.metadata.?labels.orValue({})"}
- {name: annotations, expression: "object.metadata.?annotations.orValue({})"}
- {name: oldAnnotations, expression: "oldObject.metadata.?annotations.orValue({})"}
- name: owned
  expression: {{ include "rollouts.controlledBy" (dict "of" "object" "kind" "Rollout") | quote }}
- name: oldOwned
  expression: {{ include "rollouts.controlledBy" (dict "of" "oldObject" "kind" "Rollout") | quote }}
- name: ofExperiment
  expression: {{ include "rollouts.controlledBy" (dict "of" "object" "kind" "Experiment") | quote }}
- name: oldOfExperiment
  expression: {{ include "rollouts.controlledBy" (dict "of" "oldObject" "kind" "Experiment") | quote }}
- name: metadataStays
  expression: >-
    object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
    && object.metadata.?finalizers == oldObject.metadata.?finalizers
    && {{ include "rollouts.sameBut" (dict "new" "variables.labels" "old" "variables.oldLabels" "but" "k.startsWith('rollouts.dev/')") }}
    && {{ include "rollouts.sameBut" (dict "new" "variables.annotations" "old" "variables.oldAnnotations" "but" (printf "k.startsWith('rollouts.dev/')%s" (ternary " || k == 'deprecated.daemonset.template.generation'" "" (has "daemonsets" .Values.workloads)))) }}
{{- end }}

{{- define "rollouts.fence.rollouts" -}}
rules:
  - {apiGroups: [rollouts.dev], apiVersions: ["*"], resources: [rollouts], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only remove a command from a Rollout
    expression: >-
      request.operation == 'UPDATE' && object.spec == oldObject.spec && variables.labels == variables.oldLabels
      && variables.metadataStays && variables.annotations.all(k, k in variables.oldAnnotations
      && variables.annotations[k] == variables.oldAnnotations[k])
{{- end }}

{{- define "rollouts.fence.experiments" -}}
rules:
  - {apiGroups: [rollouts.dev], apiVersions: ["*"], resources: [experiments], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only make and delete Experiments that a Rollout controls
    expression: >-
      request.operation == 'UPDATE' || (request.operation == 'CREATE' ? variables.owned : variables.oldOwned)
  - message: it may only tell an Experiment that a Rollout controls to end, and until when it keeps its pods
    expression: >-
      request.operation != 'UPDATE' || (variables.oldOwned && variables.labels == variables.oldLabels
      && {{ include "rollouts.sameBut" (dict "new" "variables.annotations" "old" "variables.oldAnnotations" "but" "k == 'rollouts.dev/keep-pods'") }} && variables.metadataStays
      && {{ include "rollouts.specBut" "(k == 'terminate' && object.spec.?terminate.orValue(false))" }})
{{- end }}

{{- define "rollouts.fence.replicasets" -}}
rules:
  - {apiGroups: [apps], apiVersions: ["*"], resources: [replicasets], operations: [CREATE, UPDATE, DELETE]}
variables:
  # One of its own whose Rollout was deleted with --cascade=orphan.
  - name: adoptable
    expression: >-
      'rollouts.dev/name' in variables.oldLabels && 'rollouts.dev/hash-scheme' in variables.oldLabels
      && !oldObject.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))
  # One that a Rollout names in workloadRef gets the marks of a workload, and stays what it is.
  - name: onlyMarks
    expression: >-
      {{ if has "replicasets" .Values.workloads }}request.operation == 'UPDATE' && !variables.oldOwned && object.spec == oldObject.spec
      && {{ include "rollouts.marksOfWorkload" (dict "annotations" "k == 'rollouts.dev/managed-by'") }}{{ else }}false{{ end }}
  {{- if has "deployments" .Values.workloads }}
  - name: inside
    expression: {{ include "rollouts.controlledByDeployment" "object" | quote }}
  - name: oldInside
    expression: {{ include "rollouts.controlledByDeployment" "oldObject" | quote }}
  {{- end }}
  # One of a Deployment that is updated in place: made without pods, labelled, resized, or given to the Rollout and back.
  - name: inPlace
    expression: >-
      {{ if has "deployments" .Values.workloads }}request.operation != 'DELETE' && (variables.inside || variables.owned)
      && (request.operation == 'CREATE' ? 'rollouts.dev/name' in variables.labels && object.spec.replicas == 0
      : ('rollouts.dev/name' in variables.labels || 'rollouts.dev/name' in variables.oldLabels)
      && (variables.oldInside || variables.oldOwned) && object.metadata.?finalizers == oldObject.metadata.?finalizers
      && {{ include "rollouts.sameBut" (dict "new" "variables.labels" "old" "variables.oldLabels" "but" "k == 'rollouts.dev/name'") }}){{ else }}false{{ end }}
validations:
  - message: it may only make ReplicaSets that a Rollout or an Experiment controls
    expression: >-
      request.operation == 'DELETE' || (((variables.owned && 'rollouts.dev/name' in variables.labels)
      || (variables.ofExperiment && 'rollouts.dev/experiment' in variables.labels))
      && 'rollouts.dev/revision' in variables.labels) || variables.onlyMarks || variables.inPlace
  - message: it may only change and delete ReplicaSets that a Rollout controls, change those of Experiments, and adopt those that nobody controls
    expression: >-
      request.operation == 'CREATE' || variables.oldOwned
      || (request.operation == 'UPDATE' && (variables.adoptable || variables.oldOfExperiment))
      || variables.onlyMarks || variables.inPlace
  - message: it may only change the size, minReadySeconds, and the metadata of the pods of a ReplicaSet
    expression: >-
      request.operation != 'UPDATE' || (object.spec.template.spec == oldObject.spec.template.spec
      && {{ include "rollouts.specBut" "k in ['replicas', 'minReadySeconds', 'template']" }})
  - message: it may not change the labels and the owners of a ReplicaSet, but when it adopts one
    expression: >-
      request.operation != 'UPDATE' || (variables.labels == variables.oldLabels && (variables.metadataStays || variables.adoptable))
      || variables.onlyMarks || variables.inPlace
{{- end }}

{{- define "rollouts.controlledByDeployment" -}}
{{ . }}.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == 'Deployment' && o.apiVersion == 'apps/v1')
{{- end }}

{{/* Of the metadata of an object that a Rollout names in workloadRef only the label and the annotations k change. */}}
{{- define "rollouts.marksOfWorkload" -}}
variables.metadataStays && {{ include "rollouts.sameBut" (dict "new" "variables.labels" "old" "variables.oldLabels" "but" "k in ['rollouts.dev/managed', 'rollouts.dev/hold', 'rollouts.dev/own-fields']") }} && {{ include "rollouts.sameBut" (dict "new" "variables.annotations" "old" "variables.oldAnnotations" "but" .annotations) }}
{{- end }}

{{- define "rollouts.fence.workloads" -}}
rules:
  {{- range without .Values.workloads "replicasets" }}
  - {apiGroups: [{{ include "rollouts.groupOfWorkload" . | quote }}], apiVersions: ["*"], resources: [{{ . }}], operations: [CREATE, UPDATE, DELETE]}
  {{- end }}
validations:
  - message: it may not create and delete workloads
    expression: request.operation == 'UPDATE'
  # A dry run with this annotation tells whether a policy holds a Deployment (holds.yaml).
  - message: >-
      it may only change the number of replicas in the spec of a Deployment, in place how it is updated, and no pod template
      {{- if not .Values.revertTemplates }}; onAbort of a DaemonSet may, with the chart's revertTemplates{{ end }}
    expression: >-
      has(object.spec) ? {{ include "rollouts.specBut" "k == 'replicas'" }} || ('rollouts.dev/hold' in variables.oldLabels
      && {{ include "rollouts.specBut" "k in ['replicas', 'paused', 'minReadySeconds', 'progressDeadlineSeconds', 'strategy']" }}
      && object.spec.?strategy.?type == oldObject.spec.?strategy.?type)
      {{- if has "statefulsets" .Values.workloads }}
      || (object.kind == 'StatefulSet' && 'rollouts.dev/hold' in variables.oldLabels
      && {{ include "rollouts.specBut" "k == 'updateStrategy'" }})
      {{- end }}
      {{- if has "daemonsets" .Values.workloads }}
      || (object.kind == 'DaemonSet' && 'rollouts.dev/hold' in variables.oldLabels
      && {{ include "rollouts.specBut" (printf "k in ['updateStrategy'%s]" (ternary ", 'template'" "" .Values.revertTemplates)) }}
      && object.spec.?updateStrategy.?rollingUpdate == oldObject.spec.?updateStrategy.?rollingUpdate)
      {{- end }} || (request.dryRun
      && object.spec.?template.?metadata.?annotations[?'rollouts.dev/hold-question'].hasValue())
      : object.template == oldObject.template
  - message: of the metadata of a workload it may only change the labels and the annotations of its Rollout
    expression: >-
      {{ include "rollouts.marksOfWorkload" (dict "annotations" (printf "k in ['rollouts.dev/managed-by', 'rollouts.dev/scaled-down', 'rollouts.dev/held', 'rollouts.dev/partition'%s]" (ternary ", 'deprecated.daemonset.template.generation'" "" (has "daemonsets" .Values.workloads)))) }}
{{- end }}

{{- define "rollouts.fence.services" -}}
{{- $revision := "k == 'rollouts.dev/revision'" }}{{ $keys := "key rollouts.dev/revision" }}
{{- if has "deployments" .Values.workloads }}
{{- $revision = "k in ['rollouts.dev/revision', 'pod-template-hash']" }}{{ $keys = "keys rollouts.dev/revision and pod-template-hash" }}
{{- end }}
rules:
  - {apiGroups: [""], apiVersions: ["*"], resources: [services], operations: [CREATE, UPDATE, DELETE]}
variables:
  - {name: selector, expression: "object.spec.?selector.orValue({})"}
  - {name: oldSelector, expression: "oldObject.spec.?selector.orValue({})"}
validations:
  - message: it may only create and delete Services that an Experiment controls, inside the cluster and of pods of their own
    expression: >-
      request.operation == 'UPDATE' || (request.operation == 'CREATE' ? variables.ofExperiment
      && 'rollouts.dev/revision' in variables.selector && object.spec.?type.orValue('ClusterIP') == 'ClusterIP'
      && !has(object.spec.externalIPs) : variables.oldOfExperiment)
  - message: it may only change the {{ $keys }} in the selector of a Service
    expression: >-
      request.operation != 'UPDATE' || {{ include "rollouts.specBut" "k == 'selector'" }}
      && {{ include "rollouts.sameBut" (dict "new" "variables.selector" "old" "variables.oldSelector" "but" $revision) }}
  - message: of the metadata of a Service it may only change the label rollouts.dev/managed and the annotation rollouts.dev/managed-by
    expression: >-
      request.operation != 'UPDATE' || variables.metadataStays
      && {{ include "rollouts.sameBut" (dict "new" "variables.labels" "old" "variables.oldLabels" "but" "k == 'rollouts.dev/managed'") }}
      && {{ include "rollouts.sameBut" (dict "new" "variables.annotations" "old" "variables.oldAnnotations" "but" "k == 'rollouts.dev/managed-by'") }}
{{- end }}

{{- define "rollouts.fence.pods" -}}
rules:
  - {apiGroups: [""], apiVersions: ["*"], resources: [pods], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only change labels and annotations of pods of Rollouts, and evict them
    expression: >-
      {{ range $kind, $resource := dict "DaemonSet" "daemonsets" "StatefulSet" "statefulsets" }}{{ if has $resource $.Values.workloads }}(request.operation == 'DELETE'
      && oldObject.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == '{{ $kind }}'
      && o.apiVersion == 'apps/v1')) || {{ end }}{{ end }}request.operation == 'UPDATE' && 'rollouts.dev/name' in variables.oldLabels && object.spec == oldObject.spec
      && ['rollouts.dev/name', 'rollouts.dev/revision'].all(k, variables.labels[?k] == variables.oldLabels[?k])
      && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
      && object.metadata.?finalizers == oldObject.metadata.?finalizers
{{- end }}

{{- define "rollouts.fence.evictions" -}}
rules:
  - {apiGroups: [""], apiVersions: ["*"], resources: [pods/eviction], operations: [CREATE]}
validations:
  - message: it may only evict the pod that it has seen, by its uid
    expression: object.?deleteOptions.?preconditions.?uid.hasValue()
{{- end }}

{{/* What none of its rights names: for the day on which another Role gives it more. */}}
{{- define "rollouts.fence.others" -}}
rules:
  - apiGroups: [apps]
    apiVersions: ["*"]
    resources: [{{ range $kind := list "deployments" "statefulsets" "daemonsets" }}{{ if not (has $kind $.Values.workloads) }}{{ $kind }}, {{ end }}{{ end }}deployments/scale, statefulsets/scale, replicasets/scale, controllerrevisions]
    operations: [CREATE, UPDATE, DELETE]
  - apiGroups: [""]
    apiVersions: ["*"]
    resources: [pods/exec, pods/attach, pods/portforward, pods/ephemeralcontainers, serviceaccounts, serviceaccounts/token, namespaces, nodes]
    operations: [CREATE, UPDATE, DELETE, CONNECT]
  - apiGroups: [rbac.authorization.k8s.io]
    apiVersions: ["*"]
    resources: ["*"]
    operations: [CREATE, UPDATE, DELETE]
validations:
  - message: it has no business with workloads of others, processes in pods, accounts and rights
    expression: "false"
{{- end }}

{{- define "rollouts.fence.analysistemplates" -}}
{{- $names := list }}
{{- range include "rollouts.templates" . | fromYamlArray }}{{ $names = append $names (printf "'%s'" .metadata.name) }}{{ end -}}
rules:
  - {apiGroups: [rollouts.dev], apiVersions: ["*"], resources: [analysistemplates, clusteranalysistemplates], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: of templates of analyses it may only create the chart's own
    expression: request.operation == 'CREATE' && object.kind == 'ClusterAnalysisTemplate' && object.metadata.name in [{{ join ", " $names }}]
{{- end }}

{{- define "rollouts.fence.configmaps" -}}
rules:
  - {apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only make immutable copies of ConfigMaps, with the label rollouts.dev/config-copy
    expression: >-
      request.operation != 'CREATE' || (variables.labels[?'rollouts.dev/config-copy'] == optional.of('true')
      && 'rollouts.dev/name' in variables.labels && object.?immutable.orValue(false))
  - message: it may only change and delete copies of ConfigMaps of its own (label rollouts.dev/config-copy)
    expression: >-
      request.operation == 'CREATE' || variables.oldLabels[?'rollouts.dev/config-copy'] == optional.of('true')
  - message: of a copy of a ConfigMap it may only change whether a Rollout owns it
    expression: >-
      request.operation != 'UPDATE' || (variables.labels == variables.oldLabels
      && variables.annotations == variables.oldAnnotations && object.?data == oldObject.?data
      && object.?binaryData == oldObject.?binaryData && object.metadata.?finalizers == oldObject.metadata.?finalizers
      && [object, oldObject].all(one, one.metadata.?ownerReferences.orValue([]).all(o, o.apiVersion.startsWith('rollouts.dev/')
      || [object, oldObject].all(each, each.metadata.?ownerReferences.orValue([]).exists(e, e == o)))))
{{- end }}

{{- define "rollouts.fence.secrets" -}}
rules:
  - {apiGroups: [""], apiVersions: ["*"], resources: [secrets], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may not change and delete Secrets
    expression: request.operation == 'CREATE'
  - message: it may only make immutable copies of Secrets, with the label rollouts.dev/config-copy, and the key of a namespace
    expression: >-
      object.?immutable.orValue(false) && (object.metadata.?name == optional.of('rollouts-config-key')
      || (variables.labels[?'rollouts.dev/config-copy'] == optional.of('true') && 'rollouts.dev/name' in variables.labels))
  - message: it may not make tokens of ServiceAccounts
    expression: object.?type != optional.of('kubernetes.io/service-account-token')
{{- end }}

{{- define "rollouts.fence.analysisruns" -}}
rules:
  - {apiGroups: [rollouts.dev], apiVersions: ["*"], resources: [analysisruns], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only make AnalysisRuns that a Rollout or an Experiment controls
    expression: request.operation != 'CREATE' || variables.owned || variables.ofExperiment
  - message: it may only tell an AnalysisRun to end that a Rollout or an Experiment controls
    expression: >-
      request.operation != 'UPDATE' || ((variables.oldOwned || variables.oldOfExperiment) && object.metadata.?labels == oldObject.metadata.?labels
      && variables.annotations == variables.oldAnnotations && variables.metadataStays
      && {{ include "rollouts.specBut" "(k == 'terminate' && object.spec.?terminate.orValue(false))" }})
  - message: it may only delete AnalysisRuns that a Rollout controls, and those whose ttlStrategy says so
    expression: request.operation != 'DELETE' || variables.oldOwned || has(oldObject.spec.ttlStrategy)
{{- end }}

{{- define "rollouts.fence.jobs" -}}
rules:
  - {apiGroups: [batch], apiVersions: ["*"], resources: [jobs], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only make and delete Jobs that an AnalysisRun controls
    expression: >-
      request.operation == 'CREATE' ? {{ include "rollouts.controlledBy" (dict "of" "object" "kind" "AnalysisRun") }} :
      (request.operation == 'DELETE' && {{ include "rollouts.controlledBy" (dict "of" "oldObject" "kind" "AnalysisRun") }})
  - message: its Jobs run as the ServiceAccount of Jobs
    expression: >-
      request.operation != 'CREATE' || object.spec.template.spec.?serviceAccountName == optional.of({{ .Values.analysis.jobs.serviceAccount | squote }})
{{- end }}

{{- define "rollouts.fence.leases" -}}
rules:
  - {apiGroups: [coordination.k8s.io], apiVersions: ["*"], resources: [leases], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only use its own Lease
    expression: >-
      request.operation != 'DELETE' && object.metadata.namespace == {{ (include "rollouts.namespace" .) | squote }}
      && object.metadata.name in {{ include "rollouts.leases" . }}
{{- end }}

{{/* The names of its Lease: the default, and what --lease-name in extraArguments says. */}}
{{- define "rollouts.leases" -}}
{{- $names := list "rollouts-controller" }}
{{- range $at, $word := .Values.extraArguments }}
{{- if hasPrefix "--lease-name=" $word }}{{ $names = append $names (trimPrefix "--lease-name=" $word) }}{{ end }}
{{- if and (eq $word "--lease-name") (lt (add1 $at | int) (len $.Values.extraArguments)) }}
{{- $names = append $names (index $.Values.extraArguments (add1 $at | int)) }}
{{- end }}
{{- end }}
{{- $quoted := list }}{{ range $names }}{{ $quoted = append $quoted (squote .) }}{{ end -}}
[{{ join ", " $quoted }}]
{{- end }}

{{/* Routes: `fields` are those of the spec that the router's codec changes. One that a Rollout brings along is written whole. */}}
{{- define "rollouts.fence.routes" -}}
rules:
  - {apiGroups: [{{ .group }}], apiVersions: ["*"], resources: [{{ .resources }}], operations: [CREATE, UPDATE, DELETE]}
validations:
  - message: it may only make routes that a Rollout controls, and delete none
    expression: request.operation == 'UPDATE' || (request.operation == 'CREATE' && variables.owned)
  - message: it may only change {{ .fields }} in the spec of a route, unless a Rollout brings it along
    expression: >-
      request.operation != 'UPDATE' || variables.oldOwned || ({{ include "rollouts.specBut" (printf "k in [%s]" .names) }})
  - message: of the metadata of a route it may only change labels and annotations that begin with rollouts.dev/
    expression: request.operation != 'UPDATE' || variables.oldOwned || variables.metadataStays
{{- end }}

{{- define "rollouts.fence.gatewayapi" -}}
{{ include "rollouts.fence.routes" (dict "group" "gateway.networking.k8s.io" "resources" "httproutes, grpcroutes, tlsroutes, tcproutes" "fields" "rules" "names" "'rules'") }}
{{- end }}
{{- define "rollouts.fence.istio" -}}
{{ include "rollouts.fence.routes" (dict "group" "networking.istio.io" "resources" "virtualservices, destinationrules" "fields" "http, tls, tcp and subsets" "names" "'http', 'tls', 'tcp', 'subsets'") }}
{{- end }}
{{- define "rollouts.fence.traefik" -}}
{{ include "rollouts.fence.routes" (dict "group" "traefik.io" "resources" "traefikservices" "fields" "weighted" "names" "'weighted'") }}
{{- end }}
{{- define "rollouts.fence.contour" -}}
{{ include "rollouts.fence.routes" (dict "group" "projectcontour.io" "resources" "httpproxies" "fields" "routes" "names" "'routes'") }}
{{- end }}
{{- define "rollouts.fence.apisix" -}}
{{ include "rollouts.fence.routes" (dict "group" "apisix.apache.org" "resources" "apisixroutes" "fields" "http" "names" "'http'") }}
{{- end }}
{{- define "rollouts.fence.gloo" -}}
{{ include "rollouts.fence.routes" (dict "group" "gateway.solo.io" "resources" "routetables" "fields" "routes" "names" "'routes'") }}
{{- end }}

{{/* Of a user's Ingress only the annotation with the split; nginx has a canary Ingress of its own beside it. */}}
{{- define "rollouts.fence.ingresses" -}}
rules:
  - {apiGroups: [networking.k8s.io], apiVersions: ["*"], resources: [ingresses], operations: [CREATE, UPDATE, DELETE]}
variables:
  - name: canary
    expression: >-
      object != null && 'rollouts.dev/managed' in variables.labels
      && variables.annotations.exists(k, k.endsWith('/canary') && variables.annotations[k] == 'true')
  - name: oldCanary
    expression: >-
      oldObject != null && 'rollouts.dev/managed' in variables.oldLabels
      && variables.oldAnnotations.exists(k, k.endsWith('/canary') && variables.oldAnnotations[k] == 'true')
validations:
  - message: it may only make and delete canary Ingresses of its own, and make those that a Rollout controls
    expression: >-
      request.operation == 'UPDATE' || (request.operation == 'CREATE' ? variables.canary || variables.owned : variables.oldCanary)
  - message: it may only change the annotation with the split of an Ingress that is not its own
    expression: >-
      request.operation != 'UPDATE' || variables.oldOwned || (variables.oldCanary && variables.canary)
      || (object.spec == oldObject.spec && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
      && object.metadata.?finalizers == oldObject.metadata.?finalizers
      && {{ include "rollouts.sameBut" (dict "new" "variables.labels" "old" "variables.oldLabels" "but" "k.startsWith('rollouts.dev/')") }}
      && {{ include "rollouts.sameBut" (dict "new" "variables.annotations" "old" "variables.oldAnnotations" "but" "(k.startsWith('rollouts.dev/') || k.contains('/actions.') || k == 'zalando.org/backend-weights')") }})
{{- end }}

{{/* What TrafficProviders declare: their paths are an administrator's, so any field of the spec may be one. */}}
{{- define "rollouts.fence.declared" -}}
rules:
  {{- range .Values.declaredRoutes }}
  - {apiGroups: [{{ .group | quote }}], apiVersions: ["*"], resources: [{{ .resource }}], operations: [CREATE, UPDATE, DELETE]}
  {{- end }}
validations:
  - message: it may only make routes that a Rollout controls, or in a dry run, and delete none
    expression: request.operation == 'UPDATE' || (request.operation == 'CREATE' && (variables.owned || request.dryRun))
  - message: it may not change the owners and the finalizers of a route
    expression: >-
      request.operation != 'UPDATE' || variables.oldOwned
      || (object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
      && object.metadata.?finalizers == oldObject.metadata.?finalizers)
{{- end }}

{{/* What all names begin with: the release's name, with the chart's where it does not have it. Policies and Roles add 11 characters. */}}
{{- define "rollouts.name" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name }}
{{- $both := contains $chart .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $chart) }}
{{- .Values.fullnameOverride | default $both | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "rollouts.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "rollouts.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "rollouts.name" .) }}
{{- end }}

{{- define "rollouts.selector" -}}
app.kubernetes.io/name: rollouts
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "rollouts.labels" -}}
{{ include "rollouts.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{/* The dashboard's pods. Nothing of the controller's selects them, and `rollouts doctor` takes them for no controller. */}}
{{- define "rollouts.dashboardSelector" -}}
app.kubernetes.io/name: rollouts-dashboard
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/*
Labels and annotations of an object: of the root, or of a dict with `root`, and with `labels` and `annotations` of its own. `selector`
takes the place of the controller's.
*/}}
{{- define "rollouts.metadata" -}}
{{- $root := .root | default . }}
{{- $labels := merge (.selector | default dict) (include "rollouts.labels" $root | fromYaml) (.labels | default dict) $root.Values.commonLabels }}
{{- $annotations := merge dict (.annotations | default dict) $root.Values.commonAnnotations }}
labels: {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The controller, as the API server names whoever sends a request. */}}
{{- define "rollouts.user" -}}
system:serviceaccount:{{ include "rollouts.namespace" . }}:{{ include "rollouts.serviceAccount" . }}
{{- end }}

{{/* The commands by annotation, as words; rollouts.dev/WORD is the annotation. */}}
{{- define "rollouts.commands" -}}
abort pause promote restart retry rollback
{{- end }}

{{/* Whether the API server notes who gave a command: it must have MutatingAdmissionPolicies (Kubernetes 1.36). */}}
{{- define "rollouts.commandNotes" -}}
{{- if and .Values.admission.commandNotes (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") }}true{{ end }}
{{- end }}

{{/* The version in which the API server has MutatingAdmissionPolicies: v1 from Kubernetes 1.36, v1beta1 where an operator serves it. */}}
{{- define "rollouts.mutatingPolicies" -}}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
admissionregistration.k8s.io/v1
{{- else if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy" -}}
admissionregistration.k8s.io/v1beta1
{{- end }}
{{- end }}

{{/* Of a policy: updates of workloads of one kind that a Rollout manages. No other object is looked at, whatever fails. */}}
{{- define "rollouts.managedWorkloads" -}}
objectSelector:
  matchExpressions:
    - {key: rollouts.dev/managed, operator: Exists}
resourceRules:
  - {apiGroups: [apps], apiVersions: [v1], resources: [{{ . }}], operations: [UPDATE]}
{{- end }}

{{/* Of a binding: only the namespaces that this controller manages. */}}
{{- define "rollouts.watchedOnly" -}}
{{- with .Values.watchNamespaces -}}
matchResources:
  namespaceSelector:
    matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
{{- end }}
{{- end }}

{{/* A registry takes the place of the one in the repository. Numbers are tags too: Helm reads `image.tag=1` as one. */}}
{{- define "rollouts.image" -}}
{{- $repository := .Values.image.repository }}
{{- if regexMatch "(@|:[^/]*$)" $repository }}
{{- fail (printf "image.repository %q has a tag or a digest: set image.tag or image.digest to it, and leave it out of image.repository" $repository) }}
{{- end }}
{{- with .Values.image.registry }}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") }}
{{- end }}
{{- $tag := .Values.image.tag }}
{{- if not (kindIs "string" $tag) }}{{ $tag = int64 $tag | toString }}{{ end }}
{{- $repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Whether the controller has to create the templates of analyses, as their kind is not served yet. */}}
{{- define "rollouts.bringsTemplates" -}}
{{- if and .Values.analysis.templates.enabled (not .Values.watchNamespaces) (not (.Capabilities.APIVersions.Has "rollouts.dev/v1alpha1/ClusterAnalysisTemplate")) }}true{{ end }}
{{- end }}

{{/* The templates of analyses, as a list. */}}
{{- define "rollouts.templates" -}}
{{- range $path, $_ := .Files.Glob "files/analysis-templates/*.yaml" }}
{{- range $text := splitList "\n---\n" ($.Files.Get $path) }}
- {{ printf "%s\n" $text | fromYaml | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{- define "rollouts.name" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 52 | trimSuffix "-" }}
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

{{/* Whether the API server notes who gave a command: it must have MutatingAdmissionPolicies (Kubernetes 1.36). */}}
{{- define "rollouts.commandNotes" -}}
{{- if and .Values.admission.commandNotes (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") }}true{{ end }}
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

{{- define "rollouts.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

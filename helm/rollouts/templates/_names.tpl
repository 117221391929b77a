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

{{- define "rollouts.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

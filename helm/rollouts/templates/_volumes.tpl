{{- /* What is mounted into the controller's pod: authorities, and files that MetricProviders name. */}}
{{- define "rollouts.mounts" -}}
{{- if or .Values.dataPlaneCa.configMap .Values.dataPlaneCa.secret }}
- {name: data-plane-ca, mountPath: /etc/rollouts/data-plane-ca, readOnly: true}
{{- end }}
{{- if or .Values.analysis.ca.configMap .Values.analysis.ca.secret }}
- {name: metrics-ca, mountPath: /etc/rollouts/metrics-ca, readOnly: true}
{{- end }}
{{- if include "rollouts.bringsTemplates" . }}
- {name: analysis-templates, mountPath: /etc/rollouts/analysis-templates, readOnly: true}
{{- end }}
{{- range .Values.analysis.mounts }}
- {name: credentials-{{ .name }}, mountPath: /etc/rollouts/metrics/{{ .name }}, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "rollouts.volumes" -}}
{{- range $name, $ca := dict "data-plane-ca" .Values.dataPlaneCa "metrics-ca" .Values.analysis.ca }}
{{- if $ca.configMap }}
- name: {{ $name }}
  configMap: {name: {{ $ca.configMap }}, items: [{key: {{ $ca.key | quote }}, path: {{ $ca.key | quote }}}]}
{{- else if $ca.secret }}
- name: {{ $name }}
  secret: {secretName: {{ $ca.secret }}, items: [{key: {{ $ca.key | quote }}, path: {{ $ca.key | quote }}}]}
{{- end }}
{{- end }}
{{- if include "rollouts.bringsTemplates" . }}
- name: analysis-templates
  configMap: {name: {{ include "rollouts.name" . }}-analysis-templates}
{{- end }}
{{- range .Values.analysis.mounts }}
- name: credentials-{{ .name }}
  {{- if .secret }}
  secret: {secretName: {{ .secret }}}
  {{- else }}
  configMap: {name: {{ .configMap }}}
  {{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

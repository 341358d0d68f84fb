{{/* The name of all objects. Alerts and the dashboard find the manager by its end. */}}
{{- define "name" -}}
{{- if hasSuffix .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{/* The labels of all objects, which also select the pods. */}}
{{- define "labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The metadata of an object in the namespace of the release. */}}
{{- define "metadata" -}}
name: {{ include "name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "labels" . | nindent 2 }}
{{- end }}

{{/* Whether the kinds are those of another system: "true", or nothing. */}}
{{- define "isForeign" -}}
{{- if has .Values.apiGroup (list "cluster.k8s.io" "machine.sapcloud.io") }}true{{ end }}
{{- end }}

{{/* Whether the manager installs CRDs: "true", or nothing. Those of Cluster API are its own to install. */}}
{{- define "installsCRDs" -}}
{{- if and .Values.crds.install (eq .Values.apiGroup "machinist.dev") }}true{{ end }}
{{- end }}

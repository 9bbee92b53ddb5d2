{{- define "toolcrib.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "toolcrib.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "toolcrib.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "toolcrib.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "toolcrib.selector" -}}
app.kubernetes.io/name: {{ include "toolcrib.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolcrib.labels" -}}
{{ include "toolcrib.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "toolcrib.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "toolcrib.fullname" .) -}}
{{- end -}}

{{- /* The scheme of the server. */ -}}
{{- define "toolcrib.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.server.tlsSecret)) -}}
{{- end -}}

{{- /* toolcrib.toml. Strings are written as JSON strings, which TOML reads as well. */ -}}
{{- define "toolcrib.config" -}}
[server]
listen = "0.0.0.0:8808"
behind_proxy = true
{{- if .Values.server.tlsSecret }}
tls = { cert = "/run/secrets/tls/tls.crt", key = "/run/secrets/tls/tls.key" }
{{- end }}
allowed_hosts = {{ .Values.server.allowedHosts | toJson }}
allowed_origins = {{ .Values.server.allowedOrigins | toJson }}

[store]
{{- if eq .Values.store.engine "postgres" }}
url = {{ .Values.store.url | toJson }}
{{- with .Values.store.passwordSecret }}{{ if .name }}
password = { file = {{ printf "/run/secrets/store/%s" .key | toJson }} }
{{- end }}{{ end }}
{{- end }}
{{- if .Values.keys.secret }}
seal_key = { file = "/run/secrets/keys/seal.key" }

[record]
signing_key = { file = "/run/secrets/keys/signing.key" }
{{- end }}
{{- if .Values.limits.shared }}

[limits]
shared = {{ .Values.limits.shared | toJson }}
on_outage = {{ .Values.limits.onOutage | toJson }}
{{- with .Values.limits.passwordSecret }}{{ if .name }}
password = { file = {{ printf "/run/secrets/limits/%s" .key | toJson }} }
{{- end }}{{ end }}
{{- end }}
{{- with .Values.config }}

{{ . | trim }}
{{- end }}
{{ end -}}

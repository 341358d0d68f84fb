{{/* The rules of a role: what files/rights.yaml grants with the values of "root". "of" lists which entries: those within namespaces (true),
     the others (false), or both. */}}
{{- define "rights" -}}
{{- $of := .of }}
{{- with .root }}
{{- $ownClusters := eq .Values.apiGroup "cluster.x-k8s.io" }}
{{- $foreign := eq (include "isForeign" .) "true" }}
{{- $gardener := eq .Values.apiGroup "machine.sapcloud.io" }}
{{- $none := list }}{{/* what the kinds of Kubermatic do not have */}}
{{- if eq .Values.apiGroup "cluster.k8s.io" }}{{ $none = list "machines/status" "machineclasses" }}{{ end }}
{{- $referred := dict }}{{/* by resource: whether Machines use objects of it, as refersTo of rbac.go */}}
{{- range $name := .Values.rbac.providerResources }}
{{-   $isInfrastructure := regexReplaceAll "^[^.]*\\." $name "" | hasPrefix "infrastructure." }}
{{-   $_ := set $referred $name (or (eq $.root.Values.driver "") (and $ownClusters (not $isInfrastructure))) }}
{{- end }}
{{- $on := merge (dict
      "referred" (or (eq .Values.driver "") (has true (values $referred)))
      "driver" (ne .Values.driver "")
      "freezeAll" .Values.freezeAll
      "metricsSecure" .Values.metrics.secure
      "ownerReferencesEnforced" .Values.rbac.ownerReferencesEnforced
      "installCRDs" (eq (include "installsCRDs" .) "true")
      "workloadClusters" .Values.workloadClusters
      "nodesHere" (not .Values.workloadClusters)
      "clusters" (or (eq .Values.clusters "always") (and (eq .Values.clusters "auto") $ownClusters))
      "providerResources" (not (or $foreign (empty .Values.rbac.providerResources)))
    ) .Values.kinds }}
{{- range $entry := (.Files.Get "files/rights.yaml" | fromYaml).clusterRole }}
{{-   if not (has ($entry.within | default false) $of) }}
{{-   else if and $foreign $entry.each }}{{/* its Machines refer to nothing */}}
{{-   else if $entry.each }}
{{-     range $name := get $.root.Values.rbac $entry.each | default list }}
{{-       $here := set (deepCopy $on) "referred" (get $referred $name) }}
{{-       $resource := regexReplaceAll "\\..*" $name "" }}
{{-       range $rule := ternary $entry.rules list (eq (include "isGranted" (list $entry $here)) "true") }}
{{-         if not (and (eq $resource "*") (has "$template" $rule.resources)) }}{{/* which "*" covers */}}
{{            list $rule | toYaml | replace "$group" (regexReplaceAll "^[^.]*\\." $name "" | quote)
                | replace "$resource" ($resource | quote) | replace "$template" (printf "%stemplates" (trimSuffix "s" $resource)) }}
{{-         end }}
{{-       end }}
{{-     end }}
{{-   else if eq (include "isGranted" (list $entry $on)) "true" }}
{{-     range $rule := $entry.rules }}
{{-       if not (has (first $rule.resources) $none) }}
{{          list $rule | toYaml | replace "$apiGroup" $.root.Values.apiGroup
              | replace "$classGroup" (ternary "machine.sapcloud.io" "machinist.dev" $gardener) }}
{{-       end }}
{{-     end }}
{{-   end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether all switches of one line of an entry are on: "true", or nothing. */}}
{{- define "isGranted" -}}
{{- $entry := first . }}{{ $on := last . }}{{ $granted := false }}
{{- range $line := $entry.when }}
{{-   $all := true }}
{{-   range $line }}{{ $all = and $all (get $on .) }}{{ end }}
{{-   $granted = or $granted $all }}
{{- end }}
{{- if $granted }}true{{ end }}
{{- end }}

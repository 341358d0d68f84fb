package bench

import "time"

// Annotations of pods with which kwok takes its time.
const (
	terminationAnnotation = "bench.machinist.dev/termination"
	readyAnnotation       = "bench.machinist.dev/ready-after"
)

func delayAnnotations(termination, readyAfter time.Duration) map[string]string {
	return map[string]string{terminationAnnotation: termination.String(), readyAnnotation: readyAfter.String()}
}

// stages take the place of kwok's own, which know one time for all pods.
func stages() []string {
	return []string{`apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
  delay:
    durationMilliseconds: 0
    durationFrom: {expressionFrom: '.metadata.annotations["` + terminationAnnotation + `"]'}
  next: {delete: true}
`, `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-ready}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
  delay:
    durationMilliseconds: 0
    durationFrom: {expressionFrom: '.metadata.annotations["` + readyAnnotation + `"]'}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range $type := list "Initialized" "Ready" "ContainersReady" }}
      - {type: {{ $type | Quote }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: true
        restartCount: 0
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
      phase: Running
      startTime: {{ $now | Quote }}
`}
}

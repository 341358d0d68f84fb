package drain_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/machinist-dev/machinist/drain"
)

// A plan as kubectl drain --force --delete-emptydir-data would carry it out, with kubectl's words.
func ExampleKubectlRules() {
	scratch := web("scratch")
	scratch.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	planner := drain.Planner{Rules: drain.KubectlRules(drain.KubectlOptions{Force: true, DeleteEmptyDirData: true})}
	plan := planner.Plan([]drain.NodePods{{Node: "node-1", Pods: []*corev1.Pod{scratch}}}, drain.Facts{})
	for _, d := range plan.Decisions {
		fmt.Println(d.Pod.Name, d.Action)
		for _, warning := range d.Warnings {
			fmt.Println("WARNING:", warning)
		}
	}
	// Output:
	// scratch Evict
	// WARNING: deleting Pods with local storage
	// WARNING: deleting Pods that declare no controller
}

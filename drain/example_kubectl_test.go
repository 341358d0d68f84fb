package drain_test

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/machinist-dev/machinist/drain"
)

// A plan as kubectl drain --force --delete-emptydir-data --pod-selector app=web would carry it out, with kubectl's words.
func ExampleKubectlRules() {
	scratch := web("scratch")
	scratch.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	planner := drain.Planner{Rules: drain.KubectlRules(drain.KubectlOptions{
		Force: true, DeleteEmptyDirData: true,
		PodSelector: labels.SelectorFromSet(labels.Set{"app": "web"}),
		DaemonSets: func(namespace, name string) (*appsv1.DaemonSet, error) { // usually that of a lister
			return nil, apierrors.NewNotFound(appsv1.Resource("daemonsets"), name)
		},
	})}
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

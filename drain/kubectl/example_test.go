package kubectl_test

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/drain/kubectl"
	"github.com/machinist-dev/machinist/machine"
)

func pod(name string, labels map[string]string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: &yes}},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// A filter written for kubectl decides in a plan, after kubectl's own filters.
func ExampleRules() {
	keepCaches := func(p corev1.Pod) kubectldrain.PodDeleteStatus {
		if p.Labels["tier"] == "cache" {
			return kubectldrain.MakePodDeleteStatusWithWarning(false, "leaving caches where they are")
		}
		return kubectldrain.MakePodDeleteStatusOkay()
	}
	planner := drain.Planner{Rules: kubectl.Rules(kubectl.Options{
		KubectlOptions:    drain.KubectlOptions{IgnoreAllDaemonSets: true},
		AdditionalFilters: []kubectldrain.PodFilter{keepCaches},
	})}
	bare := pod("shell", nil)
	bare.OwnerReferences = nil
	plan := planner.Plan([]drain.NodePods{{Node: "node-1", Pods: []*corev1.Pod{
		pod("cache", map[string]string{"tier": "cache"}), pod("web", nil), bare,
	}}}, drain.Facts{})
	for _, d := range plan.Decisions {
		fmt.Println(d.Pod.Name, d.Action, d.Message)
	}
	// Output:
	// cache Ignore leaving caches where they are
	// shell Deny cannot delete Pods that declare no controller (use --force to override)
	// web Evict
}

// The deletion of a Machine drains its Node by filters that exist for kubectl.
func ExampleRules_ofMachines() {
	rules := kubectl.Rules(kubectl.Options{
		KubectlOptions: drain.KubectlOptions{Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true},
		AdditionalFilters: []kubectldrain.PodFilter{func(corev1.Pod) kubectldrain.PodDeleteStatus {
			return kubectldrain.MakePodDeleteStatusOkay()
		}},
	})
	options := machine.Options{Policy: machine.Policy{
		DrainRules: func(context.Context, *machine.Scope) ([]drain.Rule, error) { return rules, nil },
	}}
	fmt.Println(options.Policy.DrainRules != nil)
	// Output: true
}

func ExampleNewHelper() {
	helper, err := kubectl.NewHelper(context.Background(), fake.NewClientset(), kubectl.HelperOptions{
		Options: kubectl.Options{KubectlOptions: drain.KubectlOptions{IgnoreAllDaemonSets: true}},
		Timeout: 10 * time.Minute,
		Out:     os.Stdout,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	pods, errs := helper.GetPodsForDeletion("node-1")
	if len(errs) > 0 {
		fmt.Println(errs)
		return
	}
	fmt.Println("gone:", helper.DeleteOrEvictPods(pods.Pods()) == nil)
	// Output: gone: true
}

package autoscaler_test

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract/autoscaler"
)

// deployment is a MachineDeployment as one reads it from a cluster.
func deployment(annotations map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
		"metadata": map[string]any{"namespace": "default", "name": "workers", "annotations": annotations},
		"spec": map[string]any{
			"clusterName": "blue", "replicas": int64(0),
			"selector": map[string]any{"matchLabels": map[string]any{"pool": "workers"}},
		},
	}}
}

// Check tells what keeps the autoscaler from a group, before it is found out in its log.
func ExampleCheck() {
	group := deployment(map[string]any{
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
		"capacity.cluster-autoscaler.kubernetes.io/cpu":               "4",
		"capacity.cluster-autoscaler.kubernetes.io/labels":            "zone",
	})
	for _, f := range autoscaler.Check(autoscaler.DefaultKeys(), group, autoscaler.Around{}) {
		fmt.Println(f.Level, f.Path)
		fmt.Println("  found", f.Found)
		fmt.Println("  want", f.Want)
		fmt.Println("  because", f.Rule)
	}
	// Output:
	// MUST metadata.annotations.capacity.cluster-autoscaler.kubernetes.io/memory
	//   found nothing
	//   want a quantity, here or in status.capacity.memory of the infrastructure template
	//   because without Nodes the autoscaler knows from it what a new one offers, and hides a group of 0 replicas when it does not
	// SHOULD metadata.annotations.capacity.cluster-autoscaler.kubernetes.io/labels
	//   found "zone" (entry 1)
	//   want key=value
	//   because the autoscaler drops it without a word
	// SHOULD metadata.annotations.cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size
	//   found nothing
	//   want a minimum size beside the maximum
	//   because the autoscaler takes 0, and Cluster API derives missing replicas from the two together only
}

// StandingOf answers one question: is this a node group?
func ExampleStandingOf() {
	for _, maximum := range []string{"5", "0", "many"} {
		group := deployment(map[string]any{
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": maximum,
			"capacity.cluster-autoscaler.kubernetes.io/cpu":               "4",
			"capacity.cluster-autoscaler.kubernetes.io/memory":            "16Gi",
		})
		standing, err := autoscaler.StandingOf(autoscaler.DefaultKeys(), group, nil)
		fmt.Println(standing, err)
	}
	// Output:
	// group <nil>
	// unscaled <nil>
	// broken MachineDeployment default/workers: annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: found "many", want a whole number from 0 (one such object makes the autoscaler drop every node group of the cluster)
}

// Annotations say what a new Node of a group will look like. What the autoscaler would pass over is an error here.
func ExampleParseCapacity() {
	capacity, err := autoscaler.ParseCapacity(map[string]string{
		autoscaler.CPUAnnotation:    "4",
		autoscaler.MemoryAnnotation: "16Gi",
		autoscaler.TaintsAnnotation: "dedicated=batch:NoSchedule,spot",
	})
	fmt.Println(capacity.Resources.Cpu(), capacity.Resources.Memory(), capacity.Taints, capacity.ScalesFromZero())
	fmt.Println(errors.Is(err, autoscaler.ErrAnnotation), err)
	// Output:
	// 4 16Gi [{dedicated batch NoSchedule <nil>}] true
	// true annotation capacity.cluster-autoscaler.kubernetes.io/taints: found "spot" (entry 2), want key=value:Effect or key:Effect (the autoscaler believes it and plans Nodes that will never be)
}

// With an API group of your own, some keys change and others do not.
func ExampleKeysFor() {
	keys := autoscaler.KeysFor("machines.example.com")
	fmt.Println(keys.MaxSize)
	fmt.Println(keys.DeleteMachine)
	for _, key := range keys.All() {
		if !key.FollowsGroup && key.Place == "label" {
			fmt.Println(key.Name, "on", key.On)
		}
	}
	// Output:
	// machines.example.com/cluster-api-autoscaler-node-group-max-size
	// machines.example.com/delete-machine
	// cluster.x-k8s.io/deployment-name on [MachineSet]
	// cluster-api/accelerator on [Node]
}

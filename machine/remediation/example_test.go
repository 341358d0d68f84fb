package remediation_test

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/machine/healthcheck"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// Cluster API's MachineHealthChecks, with conditions of node-problem-detector that Gardener judges Nodes by.
func ExampleSetupWithManager() {
	_ = func(ctx context.Context, mgr ctrl.Manager) error {
		kinds, err := contract.ClusterAPI(contract.V1Beta2)
		if err != nil {
			return err
		}
		nodes, err := cluster.WorkloadOptions{Matching: noderef.Rules{}}.FromManager(ctx, mgr)
		if err != nil {
			return err
		}
		_, err = remediation.SetupWithManager(ctx, mgr, kinds, nodes, remediation.Options{
			Checks: func(check *contract.HealthCheckState) healthcheck.Checks {
				checks := healthcheck.ChecksOf(check)
				checks.Node = append([]contract.HealthRule{
					{Type: "KernelDeadlock", Status: metav1.ConditionTrue, Timeout: 10 * time.Minute},
					{Type: "ReadonlyFilesystem", Status: metav1.ConditionTrue, Timeout: 10 * time.Minute},
				}, checks.Node...)
				return checks
			},
		})
		return err
	}
	// Output:
}

// Checks that follow Clusters, as those of Cluster API do.
func ExampleNew() {
	_ = func(ctx context.Context, mgr ctrl.Manager, nodes cluster.Workload) error {
		clusters, err := pass.ClustersFromManager(mgr, pass.ClusterOptions{})
		if err != nil {
			return err
		}
		ports := remediation.Ports{Ports: pass.PortsFromManager(mgr), Workload: nodes}
		ports.ClusterOf, ports.ClusterEvents = clusters.Of, clusters.Source
		kinds, err := contract.ClusterAPI(contract.V1Beta2)
		if err != nil {
			return err
		}
		r, err := remediation.New(kinds, ports, remediation.Options{})
		if err != nil {
			return err
		}
		return r.AddToManager(ctx, mgr)
	}
	// Output:
}

// The rights of a reconciler, for a ClusterRole.
func ExamplePolicyRules() {
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	if err != nil {
		fmt.Println(err)
	}
	checks, nodes := remediation.PolicyRules(remediation.Wiring{Kinds: kinds}), cluster.WorkloadPolicyRules(cluster.WorkloadWiring{})
	for _, rule := range contract.MergePolicyRules(checks, nodes) {
		fmt.Println(rule.APIGroups, rule.Resources, rule.Verbs)
	}
	// Output:
	// [] [nodes] [get list watch]
	// [cluster.x-k8s.io] [machinehealthchecks] [list patch watch]
	// [cluster.x-k8s.io] [machinehealthchecks/status machines/status] [patch]
	// [cluster.x-k8s.io] [machines] [list watch]
}

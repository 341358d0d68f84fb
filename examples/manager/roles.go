package main

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/examples/manager/kwokdriver"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machine/remediation"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/deployment"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// clusterRole has the rights of the manager in the whole cluster of the Machines. With --namespace these are only those on what has no
// namespace or another one than the Machines: Nodes, their Pods, events, CustomResourceDefinitions, reviews of who reads the metrics, and
// what the safety reads everywhere.
func clusterRole(o settings) *rbacv1.ClusterRole {
	within, everywhere := o.rules()
	if len(o.Machines.Namespaces) == 0 {
		everywhere = append(everywhere, within...)
	}
	return newClusterRole(userAgent, everywhere)
}

// namespaceRoles have the rights of the manager in the namespaces of the flags; none without.
func namespaceRoles(o settings) []*rbacv1.Role {
	within, _ := o.rules()
	var roles []*rbacv1.Role
	for _, namespace := range slices.Compact(slices.Sorted(slices.Values(o.Machines.Namespaces))) {
		roles = append(roles, &rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: userAgent}, Rules: contract.MergePolicyRules(within),
		})
	}
	return roles
}

// rules are the rights within the namespaces of what is reconciled, and those everywhere.
func (o settings) rules() (within, everywhere []rbacv1.PolicyRule) {
	rules := [][]rbacv1.PolicyRule{machine.PolicyRules(o.wiring()), o.driverRules()}
	if o.Kinds.MachineSets {
		rules = append(rules, machineset.PolicyRules(setWiring(o)))
	}
	if o.Kinds.MachineDeployments {
		rules = append(rules, deployment.PolicyRules(deploymentWiring(o)))
	}
	if o.Kinds.MachinePools {
		rules = append(rules, machinepool.PolicyRules(o.poolWiring()))
	}
	if o.Kinds.MachineHealthChecks {
		rules = append(rules, remediation.PolicyRules(healthCheckWiring(o)))
	}
	if o.Workload.Enabled {
		rules = append(rules, cluster.PolicyRules())
	} else {
		rules = append(rules, machine.NodePolicyRules(o.wiring()))
	}
	for _, rule := range slices.Concat(rules...) {
		for _, resource := range rule.Resources {
			one := rule
			one.Resources = []string{resource}
			if o.isReconciled(rule.APIGroups[0], resource) {
				within = append(within, one)
			} else {
				everywhere = append(everywhere, one)
			}
		}
	}
	if o.Kinds.InstallCRDs {
		everywhere = append(everywhere, installRules(o)...)
	}
	return within, slices.Concat(everywhere, o.safetyRules(), o.metricsRules())
}

// isReconciled reports whether a resource is in the namespace of the object that is reconciled: the kinds, what they refer to, and
// kubeconfigs and bootstrap data.
func (o settings) isReconciled(group, resource string) bool {
	if group == "" {
		return resource == "secrets"
	}
	groups := []string{kwokdriver.GVK().Group}
	for _, ours := range api.Groups() {
		groups = append(groups, string(ours))
	}
	for _, others := range [][]schema.GroupResource{
		o.Printing.ProviderResources, o.Printing.ControlPlaneResources, o.Printing.RemediationResources,
	} {
		for _, other := range others {
			groups = append(groups, other.Group)
		}
	}
	return slices.Contains(groups, group)
}

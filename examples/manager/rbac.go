package main

import (
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/api"
	"github.com/machinist-dev/machinist/machine"
	"github.com/machinist-dev/machinist/machinepool"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// wiring says what the flags make of the reconciler. What depends on the server is taken to be there.
func (o options) wiring() machine.Wiring {
	w := machine.Wiring{
		Kind: api.Kind(), Resource: machineResource,
		References: o.providerResources, DrainRules: true, Drains: true, Events: true,
		Rollouts:                []schema.GroupResource{ours("machinesets"), ours("machinedeployments")},
		OwnerReferencesEnforced: o.ownersEnforced,
	}
	if o.clusters != clustersNever {
		w.Clusters, w.ControlPlanes = true, o.controlPlaneResources
	}
	return w
}

// poolWiring is that of pools. What they need where the Nodes are, Machines need too.
func (o options) poolWiring() machinepool.Wiring {
	return machinepool.Wiring{
		Pool: schema.GroupResource{Group: o.poolGroup, Resource: poolResource}, Machines: ours(machineResource), StatusSubresource: true, References: o.providerResources,
		Clusters: o.clusters != clustersNever, Drains: true, Events: true, OwnerReferencesEnforced: o.ownersEnforced,
	}
}

func ours(resource string) schema.GroupResource {
	return schema.GroupResource{Group: machineGVK().Group, Resource: resource}
}

// clusterRole has the rights of the manager in the cluster that it talks to.
func clusterRole(o options) *rbacv1.ClusterRole {
	rules := [][]rbacv1.PolicyRule{machine.PolicyRules(o.wiring())}
	if o.machineSets {
		rules = append(rules, machineset.PolicyRules(setWiring(o)))
	}
	if o.machinePools {
		rules = append(rules, machinepool.PolicyRules(o.poolWiring()))
	}
	if o.workloadClusters {
		rules = append(rules, cluster.PolicyRules())
	} else {
		rules = append(rules, machine.NodePolicyRules(o.wiring()))
	}
	return newClusterRole(userAgent, rules...)
}

// nodeClusterRole has the rights of the users of kubeconfigs, in the clusters that those lead to.
func nodeClusterRole(o options) *rbacv1.ClusterRole {
	return newClusterRole(userAgent+"-nodes", machine.NodePolicyRules(o.wiring()))
}

func newClusterRole(name string, rules ...[]rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: contract.MergePolicyRules(rules...),
	}
}

// leaderRole has the rights of leader election: on one Lease, in its namespace. A create has no name that RBAC could look at.
func leaderRole(o options) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.leaderElectionNamespace, Name: userAgent + "-leader-election"},
		Rules: contract.MergePolicyRules([]rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "update"},
				ResourceNames: []string{o.leaderElectionID}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
		}),
	}
}

// printRBAC prints what the other flags need, as documents to apply.
func printRBAC(out io.Writer, o options) error {
	documents := []any{clusterRole(o)}
	if o.leaderElect {
		documents = append(documents, leaderRole(o))
	}
	if o.printNodeRBAC {
		documents = []any{nodeClusterRole(o)}
	}
	for i, document := range documents {
		data, err := yaml.Marshal(document)
		if err != nil {
			return fmt.Errorf("print RBAC: %w", err)
		}
		if i > 0 {
			data = append([]byte("---\n"), data...)
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
	}
	return nil
}

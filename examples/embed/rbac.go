package main

import (
	"fmt"
	"io"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "example.com/edge/v1"
)

// rules are the rights of the operator: Machinist's for both kinds and for the Nodes, and those of the inventory.
func rules() []rbacv1.PolicyRule {
	servers := machine.Wiring{Kind: contract.Kind{GVK: v1.GroupVersion().WithKind("EdgeServer"), StatusSubresource: true}, Drains: true,
		Events: true}
	gateways := machine.Wiring{Resource: "edgegateways", Kind: contract.Kind{GVK: v1.GroupVersion().WithKind("EdgeGateway")}, Drains: true,
		Events: true}
	return contract.MergePolicyRules(
		machine.PolicyRules(servers), machine.PolicyRules(gateways), machine.NodePolicyRules(servers),
		[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch", "create", "patch"}}},
	)
}

// simulationRules are the rights to simulate boxes.
func simulationRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"create"}}}
}

func clusterRole(name string, rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      rules,
	}
}

func printRBAC(out io.Writer, simulate bool) error {
	all := rules()
	if simulate {
		all = append(all, simulationRules()...)
	}
	data, err := yaml.Marshal(clusterRole(operatorName, all))
	if err != nil {
		return fmt.Errorf("print ClusterRole: %w", err)
	}
	_, err = out.Write(data)
	return err
}

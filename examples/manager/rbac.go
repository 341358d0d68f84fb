package main

import (
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/machine"
)

// providerGroups are the API groups of Cluster API's providers.
func providerGroups() []string {
	return []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io"}
}

// clusterRole has the rights of the reconciler, and those of leader election. Rights in workload clusters are those of the
// kubeconfig's user.
func clusterRole(o options) *rbacv1.ClusterRole {
	rules := machine.PolicyRules(machineGVK().Group, machineResource, providerGroups()...)
	rules = append(rules,
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	)
	if o.workloadClusters {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}})
	}
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: userAgent},
		Rules:      rules,
	}
}

func printRBAC(out io.Writer, o options) error {
	data, err := yaml.Marshal(clusterRole(o))
	if err != nil {
		return fmt.Errorf("print ClusterRole: %w", err)
	}
	_, err = out.Write(data)
	return err
}

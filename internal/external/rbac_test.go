package external_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/internal/external"
)

func TestATrackerReadsItsKindsAndTheirDefinitions(t *testing.T) {
	t.Parallel()
	require.Empty(t, external.PolicyRules(), "it reads nothing")
	read := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}
	}
	require.Empty(t, cmp.Diff(
		[]rbacv1.PolicyRule{read("apiextensions.k8s.io", "customresourcedefinitions"), read("example.com", "servers"), read("example.org", "*")},
		external.PolicyRules(schema.GroupResource{Group: "example.org", Resource: "*"},
			schema.GroupResource{Group: "example.com", Resource: "servers"})))
}

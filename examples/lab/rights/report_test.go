package rights_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

func asked() rights.Asked {
	return rights.Asked{
		Cluster: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods/eviction"}, Verbs: []string{"create"}},
			{APIGroups: []string{"example.com"}, Resources: []string{"*"}, Verbs: []string{"patch"}},
			{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
		},
		Namespaces: map[string][]rbacv1.PolicyRule{
			"system": {{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{"mine"},
				Verbs: []string{"update"}}},
		},
	}
}

func exact() cluster.AuditEvents {
	return cluster.AuditEvents{
		{Verb: "list", Resource: "pods", Code: 200}, {Verb: "watch", Resource: "pods", Code: 200},
		{Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "default", Name: "a", Code: 429},
		{Verb: "patch", Group: "example.com", Resource: "servers", Subresource: "status", Name: "a", Code: 200},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "system", Name: "mine", Code: 200},
		{Verb: "get", URI: "/metrics?verbose", Code: 200},
		{Verb: "get", URI: "/apis", Code: 200},
		{Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews", Code: 201},
	}
}

func TestRightsThatAreExactlyEnoughAreNoProblem(t *testing.T) {
	t.Parallel()
	report := rights.Judge(asked(), exact())
	require.Empty(t, cmp.Diff(rights.Report{Requests: 8}, report))
	require.Empty(t, report.Problems(nil))
}

func TestAReportSaysWhatWasDeniedAndWhatWasNotUsed(t *testing.T) {
	t.Parallel()
	report := rights.Judge(asked(), cluster.AuditEvents{
		{Verb: "create", Resource: "pods", Subresource: "eviction", Code: 403},
		{Verb: "list", Resource: "nodes", Code: 401},
		{Verb: "list", Resource: "secrets", Code: 200},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "system", Name: "theirs", Code: 200},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "default", Name: "mine", Code: 200},
	})
	require.Len(t, report.Denied, 2)
	require.Len(t, report.Elsewhere, 3)
	require.Empty(t, cmp.Diff([]string{
		"create pods/eviction", "get /metrics", "list pods", "patch example.com/*",
		"update coordination.k8s.io/leases named mine in system", "watch pods",
	}, report.Unused))
	require.Len(t, report.Problems(nil), 2+len(report.Unused))
}

func TestAnExcuseIsForWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	report := rights.Judge(asked(), exact()[1:])
	require.Equal(t, []string{"the right to list pods was not used in 7 requests"}, report.Problems(nil))
	require.Empty(t, report.Problems(map[string]string{"list pods": "the server streams"}))
	require.Equal(t, []string{"watch pods is excused (why not), and was used or never asked for"},
		report.Problems(map[string]string{"list pods": "the server streams", "watch pods": "why not"}))
}

func TestAWatchThatBeginsWithWhatIsThereIsAListToo(t *testing.T) {
	t.Parallel()
	events := exact()[1:]
	events[0].URI = "/api/v1/pods?allowWatchBookmarks=true&sendInitialEvents=true&watch=true"
	require.Empty(t, rights.Judge(asked(), events).Problems(nil))
}

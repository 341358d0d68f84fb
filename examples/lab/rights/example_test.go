package rights_test

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/rights"
)

func ExampleJudge() {
	asked := rights.Asked{Cluster: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch", "delete"}},
	}}
	report := rights.Judge(asked, cluster.AuditEvents{
		{Verb: "list", Resource: "nodes", Code: 200},
		{Verb: "watch", Resource: "nodes", Code: 200},
		{Verb: "patch", Resource: "nodes", Name: "worker-1", Code: 403},
	})
	for _, problem := range report.Problems(nil) {
		fmt.Println(problem)
	}
	// Output:
	// rights are missing: 1 requests
	//      1 patch nodes 403
	// the right to delete nodes was not used in 3 requests
}

package cluster_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// A summary of the audit log makes the message of a failed test.
func ExampleAuditEvents() {
	events := cluster.AuditEvents{
		{UserAgent: "machinist/v1", Verb: "patch", Group: "cluster.x-k8s.io", Resource: "machines", Code: 200},
		{UserAgent: "machinist/v1", Verb: "patch", Group: "cluster.x-k8s.io", Resource: "machines", Code: 200},
		{UserAgent: "machinist/v1", Verb: "create", Resource: "pods", Subresource: "eviction", Code: 429},
		{UserAgent: "machinist/v1", Verb: "list", Resource: "nodes", Code: 200},
		{UserAgent: "kwok/v0.8.0", Verb: "patch", Resource: "nodes", Subresource: "status", Code: 200},
	}
	fmt.Println(events.From("machinist").Writes())
	// Output:
	// 3 requests
	//      2 patch cluster.x-k8s.io/machines 200
	//      1 create pods/eviction 429
}

// Not run as a test: a control plane takes seconds to start, and minutes to build the first time.
func ExampleStart() {
	ctx := context.Background()
	plane, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = plane.Stop() }()

	config := plane.Config()
	config.UserAgent = "my-operator"
	before, err := plane.Audit().Mark()
	if err != nil {
		log.Print(err)
		return
	}
	// ... run the operator with config, and see how it copes:
	if err := plane.Restart(ctx, cluster.APIServer); err != nil {
		log.Print(err)
		return
	}
	events, err := plane.Audit().Since(before)
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(events.From("my-operator").Writes())
}

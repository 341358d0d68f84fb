package verdict_test

import (
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
	"github.com/machinist-dev/machinist/examples/lab/verdict"
)

func ExampleJudge() {
	events := cluster.AuditEvents{{ // from ControlPlane.Audit
		Received: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), User: "my-manager", Verb: "delete", Resource: "nodes", Name: "database", Code: 200,
	}}
	broken, err := verdict.Judge(verdict.Terms{Managers: []string{"my-manager"}, Deployment: "web", Desired: 3, Surge: 1}, events)
	fmt.Println(err)
	for _, b := range broken {
		fmt.Println(b)
	}
	// Output:
	// <nil>
	// 03:04:05.000000: nothing of another owner is touched: my-manager: delete nodes database 200
}

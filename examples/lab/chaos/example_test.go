package chaos_test

import (
	"fmt"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/chaos"
)

func ExamplePlan() {
	second := chaos.Span{Least: time.Second, Most: 2 * time.Second}
	for _, fault := range chaos.Plan(1, 20*time.Second, chaos.Lane{Targets: []string{"manager"}, Killed: second, Frozen: second}) {
		fmt.Println(fault)
	}
	// Output:
	// 9.6s manager restarted
	// 12.2s manager killed for 1.7s
	// 15.8s manager frozen for 1s
}

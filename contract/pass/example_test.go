package pass_test

import (
	"context"
	"fmt"

	"github.com/machinist-dev/machinist/contract/pass"
)

// A step of your own stands between the standard ones, whatever the kind is.
func ExampleInsertBefore() {
	steps, err := pass.InsertBefore(standard(), "finalizer", pass.Step[*scope]{
		Name: "quota", On: pass.InRunning,
		Run: func(_ context.Context, s *scope) (pass.Result, error) {
			return pass.Result{Stop: s.IsTrue("QuotaExceeded")}, nil
		},
	})
	for _, s := range steps {
		fmt.Print(s.Name, " ")
	}
	fmt.Println(err)
	// Output: paused quota finalizer remove-finalizer <nil>
}

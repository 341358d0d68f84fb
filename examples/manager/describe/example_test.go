package describe_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/examples/manager/describe"
)

// A Machine whose pre-drain hook has not been removed waits for the owner of the hook.
func ExampleWaits() {
	began := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	m := contract.MachineState{
		Metadata: contract.Metadata{Deleting: began}, Phase: "Deleting",
		Conditions: []metav1.Condition{{
			Type: contract.ConditionDeleting, Status: metav1.ConditionTrue, Reason: "WaitingForPreDrainHook",
			Message: "backup (owner: etcd-backup)", LastTransitionTime: metav1.NewTime(began),
		}},
	}
	for _, w := range describe.Waits(&m, began.Add(time.Minute)) {
		fmt.Println(w.For, w.Reason, "since", w.Since.Format(time.TimeOnly))
		fmt.Println(w.Message)
		fmt.Println(w.Do)
	}
	// Output:
	// Deleting WaitingForPreDrainHook since 12:00:00
	// backup (owner: etcd-backup)
	// the owner of the hook removes its annotation; remove the annotation in the owner's place only if the owner is gone
}

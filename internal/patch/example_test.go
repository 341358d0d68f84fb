package patch_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/patch"
)

func machineKind() contract.Kind {
	gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
	return contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).Machine)
}

// Fields that already have the right value are not written.
func ExampleApply() {
	machine := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": "Running"}}}
	same, _ := patch.Apply(machineKind(), machine, contract.MachineUpdate{Phase: contract.SetTo("Running")})
	other, _ := patch.Apply(machineKind(), machine, contract.MachineUpdate{Phase: contract.SetTo("Deleting")})
	fmt.Println(len(same.Status()), len(other.Status()), len(other.Main()))
	// Output: 0 1 0
}

// A status write that is based on the object that was read. Keep one Writer for all passes, so that no pass uses an
// object from before its last write.
func ExampleWriter_Send() {
	_ = func(ctx context.Context, w *patch.Writer, machine *unstructured.Unstructured, update contract.MachineUpdate) error {
		if w.Behind(machine) {
			return nil // the event of our write will come
		}
		changes, err := patch.Apply(machineKind(), machine, update)
		if err != nil || len(changes.Status()) == 0 {
			return err
		}
		answer := machine.NewEmptyInstance().(client.Object)
		err = w.Send(ctx, machine, answer, changes.Status(), true)
		if patch.Retryable(err) {
			return nil // the object has changed: the next pass decides again
		}
		return err
	}
	// Output:
}

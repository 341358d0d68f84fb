package machinepool

import (
	"cmp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
)

// machineOf is a Machine as a pass reads it.
func machineOf(state *contract.MachineState, obj contract.Object) machine {
	return machine{Object: obj, State: state, Metadata: &state.Metadata}
}

// PageExamples are the two examples of Cluster API's page on the MachinePool controller, as they stand there.
func PageExamples(t *testing.T) (bootstrap, infrastructure *unstructured.Unstructured) {
	t.Helper()
	return parse(t, pageBootstrap), parse(t, pageInfrastructure)
}

// SetUnreadLimit shortens the time for which a deletion waits for Nodes that cannot be read; zero leaves it as it is.
func (r *Reconciler) SetUnreadLimit(unread time.Duration) {
	r.unreadLimit = cmp.Or(unread, r.unreadLimit)
}

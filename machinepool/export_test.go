package machinepool

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

// machineOf is a Machine as a pass reads it.
func machineOf(state *contract.MachineState, obj contract.Object) machine {
	return machine{Object: obj, State: state, Metadata: &state.Metadata}
}

// instancesIn are instances of one instanceState, with these Nodes.
func instancesIn(is instanceState, nodes ...*corev1.Node) (all instances) {
	for _, node := range nodes {
		all = append(all, instance{State: is, ID: node.Spec.ProviderID, Node: node, Ref: noderef.RefTo(node)})
	}
	return all
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

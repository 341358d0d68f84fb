package runner

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the tests of another package need.

const ProbeInterval = probeInterval

var ErrStopped = errStopped

// SetWorkers limits the requests in flight.
func (r *Runner) SetWorkers(n int) { r.workers = n }

// NewPodSource returns the PodSource of a Runner of a cluster.
func NewPodSource(c client.WithWatch) PodSource { return newLists(c) }

// Lists are those of a Runner, which a test fills by hand.
type Lists struct{ *lists }

// Follow lets the Runner read budgets and volumes from lists.
func (r *Runner) Follow() Lists {
	l := newLists(nil)
	l.changed = r.wakeNode
	r.lists, r.cfg.Budgets, l.budget = l, l.budgetsIn, r.wakeWaiters
	return Lists{l}
}

// Budgets is that of the PodDisruptionBudgets.
func (l Lists) Budgets() toolscache.ReflectorStore { return l.budgets() }

// Configure changes the parts of a Runner of a cluster.
func (r *Runner) Configure(change func(*Config)) { change(&r.cfg) }

// Cancel gives a Node back, as a person does.
func (r *Runner) Cancel(ctx context.Context, node *corev1.Node, uncordon bool) error {
	r.Release(node.Name)
	if !uncordon {
		return nil
	}
	body := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/uid","value":%q},{"op":"add","path":"/spec/unschedulable","value":false}]`, node.UID)
	return r.cfg.Nodes.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.JSONPatchType, body))
}

// DrainBy drains by a Runner with a configuration of a test, which reads Nodes from live.
func DrainBy(ctx context.Context, cfg Config, live client.Reader, opts DrainOptions, nodes ...string) ([]NodeResult, error) {
	r, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return drainBy(ctx, r, live, opts, nodes)
}

// EvictorFunc is an Evictor that is asked for evictions only.
type EvictorFunc func(ctx context.Context, pod PodRef, grace *int64) error

// Evict implements Evictor.
func (f EvictorFunc) Evict(ctx context.Context, pod PodRef, grace *int64) error {
	return f(ctx, pod, grace)
}

// Delete implements Evictor.
func (f EvictorFunc) Delete(context.Context, PodRef, *int64) error {
	return errors.New("a deletion is requested")
}

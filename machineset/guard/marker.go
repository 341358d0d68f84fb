package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/external"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/contract/patch"
	"github.com/machinist-dev/machinist/machineset/safety"
	"github.com/machinist-dev/machinist/noderef/workload"
)

// MarkerOptions configure a Marker. Cache, Machine and NodesOf are required.
type MarkerOptions struct {
	// Cache reads Machines of the kind Machine, of all namespaces.
	Cache   client.Reader
	Machine contract.Kind
	// NodesOf returns the access to the Nodes of a cluster that Machines name. An error leaves the cluster out of the pass.
	NodesOf func(cluster types.NamespacedName) (workload.Workload, error)
	// Shared: all Machines have their Nodes in one cluster, which NodesOf returns for the zero name.
	Shared bool
	// Age is how old a Node without a Machine is at least. Default 20 minutes, as Gardener's creation timeout.
	Age time.Duration
	// Period is the time between two passes. Default DefaultCollectorPeriod.
	Period time.Duration
	// Gate keeps anything from being marked while an API server is frozen; nil does not.
	Gate *Gate
	// Metrics count the Nodes; nil counts nothing.
	Metrics *Metrics
	// Clock is the time of passes. Default the real one. Start waits in real time.
	Clock clock.PassiveClock
}

// Marker marks the Nodes that no Machine belongs to with an annotation, and removes it when there is a Machine. It deletes nothing. It is a
// manager.Runnable that needs leader election.
type Marker struct{ options MarkerOptions }

// NewMarker returns a Marker. It makes no request.
func NewMarker(o MarkerOptions) (*Marker, error) {
	if o.Cache == nil || o.NodesOf == nil {
		return nil, errors.New("MarkerOptions need Cache and NodesOf")
	}
	if err := pass.CheckKind("MarkerOptions.Machine", o.Machine); err != nil {
		return nil, err
	}
	o.Period = cmp.Or(max(o.Period, 0), DefaultCollectorPeriod)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Marker{o}, nil
}

// Start makes passes until the context ends.
func (m *Marker) Start(ctx context.Context) error {
	return every(ctx, m.options.Period, func() {
		if _, err := m.Pass(ctx); err != nil && ctx.Err() == nil {
			ctrllog.FromContext(ctx).WithName("nodes").Error(err, "look for Nodes without a Machine")
		}
	})
}

// Pass marks and unmarks the Nodes of all clusters, and returns the names of those without a Machine, by cluster. What fails in one cluster
// delays no other.
func (m *Marker) Pass(ctx context.Context) (map[types.NamespacedName][]string, error) {
	machines, err := m.machines(ctx)
	if err != nil {
		return nil, err
	}
	unmanaged, total := map[types.NamespacedName][]string{}, 0
	var errs []error
	for cluster, owners := range machines {
		plan, err := m.cluster(ctx, cluster, owners)
		errs = append(errs, err)
		for _, n := range plan.Unmanaged {
			unmanaged[cluster] = append(unmanaged[cluster], n.Name)
			total++
		}
	}
	m.options.Metrics.unmanaged(total)
	return unmanaged, errors.Join(errs...)
}

// machines reads all Machines, by cluster.
func (m *Marker) machines(ctx context.Context) (map[types.NamespacedName][]safety.NodeOwner, error) {
	list := pass.NewList(m.options.Machine)
	if err := m.options.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %s objects: %w", m.options.Machine.GVK.Kind, err)
	}
	all := map[types.NamespacedName][]safety.NodeOwner{}
	var unread error
	err := pass.EachObject(list, func(obj client.Object) {
		var s contract.MachineState
		if err := m.options.Machine.Adapter.Read(obj, &s); err != nil {
			unread = cmp.Or(unread, fmt.Errorf("read %s %s: %w", m.options.Machine.GVK.Kind, client.ObjectKeyFromObject(obj), err))
			return
		}
		cluster := types.NamespacedName{Namespace: s.Key.Namespace, Name: s.ClusterName}
		if m.options.Shared {
			cluster = types.NamespacedName{}
		}
		all[cluster] = append(all[cluster], safety.NodeOwner{Node: s.Node, ProviderID: s.ProviderID})
	})
	return all, errors.Join(err, unread)
}

// annotations are those of a Node that no Machine of the kind belongs to.
func (m *Marker) annotations() []string {
	if m.options.Machine.GVK.Group == safety.GardenerGroup {
		return []string{safety.UnmanagedNodeAnnotation, safety.GardenerUnmanagedNodeAnnotation}
	}
	return []string{safety.UnmanagedNodeAnnotation}
}

func (m *Marker) cluster(ctx context.Context, cluster types.NamespacedName, owners []safety.NodeOwner) (safety.NodePlan, error) {
	if reach := m.options.Gate.Of(cluster); reach.IsFrozen() || !reach.Answered {
		return safety.NodePlan{}, nil
	}
	w, err := m.options.NodesOf(cluster)
	if workload.IsUnread(err) {
		return safety.NodePlan{}, nil // the next pass sees
	} else if err != nil {
		return safety.NodePlan{}, err
	}
	facts := safety.NodeFacts{Machines: owners, Age: m.options.Age, Now: m.options.Clock.Now()}
	if facts.Nodes, err = m.nodes(ctx, w); err != nil {
		return safety.NodePlan{}, err
	}
	plan := safety.MarkNodes(facts)
	var errs []error
	for _, n := range plan.Mark {
		errs = append(errs, m.write(ctx, w, n, true))
	}
	for _, n := range plan.Unmark {
		errs = append(errs, m.write(ctx, w, n, false))
	}
	return plan, errors.Join(errs...)
}

// nodes reads the Nodes of a cluster from its API server: a cache may have removed their annotations.
func (m *Marker) nodes(ctx context.Context, w workload.Workload) ([]safety.Node, error) {
	var reader client.Reader = w.Client
	if w.APIReader != nil {
		reader = w.APIReader
	}
	var all []safety.Node
	for next := ""; ; {
		var list corev1.NodeList
		if err := reader.List(ctx, &list, client.Limit(listLimit), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list Nodes: %w", err)
		}
		for i := range list.Items {
			n := &list.Items[i]
			marked := 0
			for _, key := range m.annotations() {
				if _, found := n.Annotations[key]; found {
					marked++
				}
			}
			all = append(all, safety.Node{
				Name: n.Name, UID: n.UID, ProviderID: n.Spec.ProviderID, Created: n.CreationTimestamp.Time, Marked: marked > 0,
				Deleting: n.DeletionTimestamp != nil,
			})
		}
		if next = list.Continue; next == "" {
			return all, nil
		}
	}
}

// write sets or removes the annotations of the Node that was read, by its UID. One that has changed meanwhile is decided anew.
func (m *Marker) write(ctx context.Context, w workload.Workload, n contract.NodeRef, mark bool) error {
	annotations := map[string]any{}
	for _, key := range m.annotations() {
		annotations[key] = nil
		if mark {
			annotations[key] = "1" // Gardener's value
		}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	target := &corev1.Node{}
	target.Name = n.Name
	err = w.PatchNode(ctx, target, types.MergePatchType, body)
	if external.SaysGone(err) || errors.Is(err, workload.ErrNodeChanged) || patch.Retryable(err) {
		return nil
	}
	return err
}

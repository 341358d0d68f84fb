package guard

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machineset/safety"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// markNodes marks and unmarks the Nodes of all clusters that have Machines, and returns the names of those that belong neither to a Machine
// nor to another owner, by cluster. What fails in one cluster delays no other.
func (c *Collector) markNodes(ctx context.Context, owners, others []safety.Owner) (map[string][]string, error) {
	clusters := clustersOf(owners)
	if c.options.OneCluster && len(owners) > 0 {
		clusters = []string{""}
	}
	unmanaged, errs := map[string][]string{}, make([]error, 0, len(clusters))
	for _, cluster := range clusters {
		if !c.reconciles(keyOf(cluster)) {
			continue
		}
		own := slices.Concat(owners, others)
		if !c.options.OneCluster {
			own = slices.DeleteFunc(own, func(o safety.Owner) bool { return o.Cluster != cluster })
		}
		plan, err := c.markCluster(ctx, keyOf(cluster), own)
		errs = append(errs, err)
		for _, n := range plan.Unmanaged {
			unmanaged[cluster] = append(unmanaged[cluster], n.Name)
		}
	}
	return unmanaged, errors.Join(errs...)
}

func (c *Collector) markCluster(ctx context.Context, key types.NamespacedName, owners []safety.Owner) (safety.NodePlan, error) {
	if reach := c.options.Gate.Of(key); reach.IsFrozen() || !reach.Answered {
		return safety.NodePlan{}, nil
	}
	w, err := c.options.NodesOf(key)
	if cluster.IsUnread(err) {
		return safety.NodePlan{}, nil // a later pass sees
	}
	facts := safety.NodeFacts{Machines: owners, Age: c.options.NodeAge, Now: c.options.Clock.Now()}
	if err == nil {
		facts.Nodes, err = c.nodes(ctx, w)
	}
	if err != nil {
		return safety.NodePlan{}, err
	}
	plan := safety.MarkNodes(facts)
	var errs []error
	for _, n := range plan.Mark {
		errs = append(errs, c.annotate(ctx, w, n, "1")) // Gardener's value
	}
	for _, n := range plan.Unmark {
		errs = append(errs, c.annotate(ctx, w, n, nil))
	}
	return plan, errors.Join(errs...)
}

// nodes reads the Nodes of a cluster from its API server: a cache may have removed their annotations.
func (c *Collector) nodes(ctx context.Context, w cluster.Workload) ([]safety.Node, error) {
	var reader client.Reader = w.Client
	if w.APIReader != nil {
		reader = w.APIReader
	}
	var all []safety.Node
	err := eachLive(ctx, reader, func() client.ObjectList { return &corev1.NodeList{} }, func(obj client.Object) error {
		n, _ := obj.(*corev1.Node)
		_, marked := n.Annotations[safety.UnmanagedNodeAnnotation]
		all = append(all, safety.Node{
			Name: n.Name, UID: n.UID, ProviderID: n.Spec.ProviderID, Created: n.CreationTimestamp.Time, Marked: marked,
			Deleting: n.DeletionTimestamp != nil,
		})
		return nil
	})
	return all, err
}

// annotate sets the annotation of the Node that was read, by its UID, or removes it with nil. One that has changed is decided anew.
func (c *Collector) annotate(ctx context.Context, w cluster.Workload, n contract.NodeRef, value any) error {
	annotations := map[string]any{safety.UnmanagedNodeAnnotation: value}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "annotations": annotations}})
	if err != nil {
		return err
	}
	target := &corev1.Node{}
	target.Name = n.Name
	err = w.PatchNode(ctx, target, types.MergePatchType, body)
	if external.SaysGone(err) || errors.Is(err, cluster.ErrNodeChanged) || patch.Retryable(err) {
		return nil
	}
	return err
}

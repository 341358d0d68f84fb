package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/noderef"
)

const providerIDField = "spec.providerID"

func manyNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = newNode(fmt.Sprintf("node-%d", i), fmt.Sprint(i), fmt.Sprintf("test:///zone/i-%d", i))
		nodes[i].Labels = map[string]string{"kubernetes.io/hostname": nodes[i].Name, "kubernetes.io/os": "linux", "zone": "a"}
	}
	return nodes
}

// full returns a synced cluster with that many Nodes, with an NodeIndex and a field index of the cache.
func full(b *testing.B, count int) (*cluster, *NodeIndex) {
	b.Helper()
	c := newCluster(b, manyNodes(count)...)
	require.NoError(b, c.cache.IndexField(b.Context(), &corev1.Node{}, providerIDField, func(o client.Object) []string {
		if node, ok := o.(*corev1.Node); ok && node.Spec.ProviderID != "" {
			return []string{node.Spec.ProviderID}
		}
		return nil
	}))
	x := newIndex(b, c)
	c.start(b)
	eventually(b, "all Nodes are here", func() bool { return x.HasSynced() && x.count() == count })
	return c, x
}

// byList finds a Node as Cluster API v1.13 does: with an index of the cache, and then with a list of all Nodes, which happens for
// every Machine until its Node joins. The cache copies what it returns.
func byList(ctx context.Context, r client.Reader, id string) (*corev1.Node, error) {
	var nodes corev1.NodeList
	if err := r.List(ctx, &nodes, client.MatchingFields{providerIDField: id}); err != nil {
		return nil, err
	}
	if len(nodes.Items) == 0 {
		if err := r.List(ctx, &nodes); err != nil {
			return nil, err
		}
	}
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID == id {
			return &nodes.Items[i], nil
		}
	}
	return nil, nil
}

// BenchmarkLookup compares one lookup. The Nodes are small, which favours lists.
func BenchmarkLookup(b *testing.B) {
	for _, count := range []int{10_000, 50_000} {
		c, x := full(b, count)
		for _, name := range []string{"hit", "miss"} {
			id := map[string]string{"hit": "test:///zone/i-5000", "miss": "test:///zone/i-none"}[name]
			b.Run(fmt.Sprintf("%s/nodes=%d/index", name, count), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					noderef.Rules{}.Resolve(noderef.Identity{ProviderID: id}, x, nil)
				}
			})
			b.Run(fmt.Sprintf("%s/nodes=%d/list", name, count), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := byList(b.Context(), c.cache, id); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkWaiting reads once for each of 5,000 Machines without a Node, among 10,000 Nodes. This happens at a restart;
// while they wait, nothing reads for them.
func BenchmarkWaiting(b *testing.B) {
	x := newIndex(b, newCluster(b))
	for _, node := range manyNodes(10_000) {
		x.onUpdate(nil, node)
	}
	waiting := make([]noderef.Identity, 5_000)
	for i := range waiting {
		waiting[i].ProviderID = fmt.Sprintf("test:///zone/waiting-%d", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range waiting {
			if m := (noderef.Rules{}).Resolve(waiting[i], x, nil); m.Found() {
				b.Fatal("none of them has a Node")
			}
		}
	}
}

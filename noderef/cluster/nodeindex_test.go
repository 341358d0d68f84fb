package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/noderef"
)

// count returns the number of Nodes.
func (x *NodeIndex) count() int {
	x.nodesMu.RLock()
	defer x.nodesMu.RUnlock()
	return x.nodes.Len()
}

func TestTheIndexFollowsTheCluster(t *testing.T) {
	c := newCluster(t, newNode("a", "u1", "test://1"), newNode("late", "u2", ""))
	x := newIndex(t, c)
	require.False(t, x.HasSynced(), "nothing was listed yet, and New did not wait for it")
	c.start(t)
	eventually(t, "synced", x.HasSynced)

	require.Equal(t, 2, x.count(), "synced means that every listed Node is in the index")
	require.Len(t, x.ByProviderID("test://1"), 1)
	require.Empty(t, x.ByProviderID(""))
	require.Nil(t, x.ByName("none"))

	t.Log("a provider ID appears late")
	c.Modify(newNode("late", "u2", "test://2"))
	eventually(t, "late is found", func() bool { return len(x.ByProviderID("test://2")) == 1 })

	t.Log("a second Node claims the same provider ID")
	c.Add(newNode("b", "u3", "test://1"))
	eventually(t, "both are found", func() bool { return len(x.ByProviderID("test://1")) == 2 })
	m := noderef.Rules{}.Resolve(noderef.Identity{ProviderID: "test://1"}, x, nil)
	require.Equal(t, noderef.Ambiguous, m.Outcome)
	require.Len(t, m.Candidates, 2)
	require.Equal(t, "a", m.Candidates[0].Name)
	require.Equal(t, "b", m.Candidates[1].Name)

	t.Log("one of them goes")
	c.Delete(newNode("b", "u3", "test://1"))
	eventually(t, "one is left", func() bool { return len(x.ByProviderID("test://1")) == 1 })
	require.Nil(t, x.ByName("b"))
}

func TestTheIndexHoldsTheInformersOwnObjects(t *testing.T) {
	c := newCluster(t, newNode("a", "u1", "test://1"))
	x := newIndex(t, c)
	c.start(t)
	eventually(t, "synced", x.HasSynced)

	informer, err := c.cache.GetInformer(t.Context(), &corev1.Node{})
	require.NoError(t, err)
	obj, exists, err := informer.(toolscache.SharedIndexInformer).GetStore().GetByKey("a")
	require.NoError(t, err)
	require.True(t, exists)
	require.Same(t, obj, x.ByName("a"))
	require.Same(t, obj, x.ByProviderID("test://1")[0])
}

func TestANodeThatRegistersAgainUnderItsNameReplacesTheOldOne(t *testing.T) {
	c := newCluster(t, newNode("a", "u1", "test://1"))
	x := newIndex(t, c)
	var r recorder
	require.NoError(t, x.Source(r.mapper).Start(t.Context(), newQueue(t)))
	c.start(t)
	eventually(t, "a is told", func() bool { return r.count() == 1 })
	c.Add(newNode("b", "u0", "test://0"))
	eventually(t, "the watch has begun", func() bool { return r.count() == 2 }) // one that begins later tells of what was dropped

	t.Log("the watch breaks, and the deletion and the new Node are only seen in the next list")
	c.DeleteDropWatch(newNode("a", "u1", "test://1"))
	c.AddDropWatch(newNode("a", "u2", "test://1"))
	c.ResetWatch()
	eventually(t, "the new Node is indexed", func() bool { n := x.ByName("a"); return n != nil && n.UID == "u2" })
	eventually(t, "the new Node is told", func() bool { return r.count() == 3 })
	require.Equal(t, []string{">u1", ">u0", "u1>u2"}, r.seen())
	require.Len(t, x.ByProviderID("test://1"), 1)
}

func TestANodeWhoseDeletionWasMissedGoes(t *testing.T) {
	c := newCluster(t, newNode("a", "u1", "test://1"), newNode("b", "u2", "test://2"))
	x := newIndex(t, c)
	var r recorder
	require.NoError(t, x.Source(r.mapper).Start(t.Context(), newQueue(t)))
	c.start(t)
	eventually(t, "both are told", func() bool { return r.count() == 2 })

	c.DeleteDropWatch(newNode("b", "u2", "test://2"))
	c.ResetWatch()
	eventually(t, "b is gone", func() bool { return x.ByName("b") == nil })
	eventually(t, "the deletion is told", func() bool { return r.count() == 3 })
	require.Equal(t, "u2>", r.seen()[2])
	require.Empty(t, x.ByProviderID("test://2"))
}

func TestTombstonesOfEveryKindAreUnderstood(t *testing.T) {
	x := newIndex(t, newCluster(t))
	for name, obj := range map[string]any{
		"the last known Node":      toolscache.DeletedFinalStateUnknown{Key: "a", Obj: newNode("a", "u0", "test://0")},
		"a key without a Node":     toolscache.DeletedFinalStateUnknown{Key: "a"},
		"a Node of an old version": newNode("a", "u1", "test://other"),
	} {
		x.onUpdate(nil, newNode("a", "u1", "test://1"))
		x.onDelete(obj)
		require.Zero(t, x.count(), name)
		require.Empty(t, x.ByProviderID("test://1"), name)
	}
	x.onDelete("not a Node")
	x.onUpdate(nil, "not a Node")
	x.onUpdate("not", "a Node")
	x.onDelete(newNode("never-seen", "u9", ""))
	require.Zero(t, x.count())
}

func TestNewReportsWhatIsMissing(t *testing.T) {
	failed := errors.New("no kind Node")
	_, err := NewNodeIndex(t.Context(), failingInformers{err: failed}, noderef.Rules{})
	require.ErrorIs(t, err, failed)
}

type failingInformers struct {
	cache.Informers
	err error
}

func (f failingInformers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, f.err
}

func TestLookupsAllocateNothing(t *testing.T) {
	x := newIndex(t, newCluster(t))
	x.onUpdate(nil, newNode("a", "u1", "test://1"))
	for name, id := range map[string]string{"hit": "test://1", "miss": "test://2"} {
		n := testing.AllocsPerRun(100, func() { noderef.Rules{}.Resolve(noderef.Identity{ProviderID: id}, x, nil) })
		require.Zero(t, n, name)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { x.ByName("a") }))
}

func TestTheIndexUsesTheRulesThatMachinesAreMatchedBy(t *testing.T) {
	for _, rules := range []noderef.Rules{{}, {Canonical: strings.ToLower}} {
		x, err := NewNodeIndex(t.Context(), newCluster(t).cache, rules)
		require.NoError(t, err)
		x.onUpdate(nil, newNode("a", "u1", "test://one"))
		require.Equal(t, rules.Canonical != nil, len(x.ByProviderID("test://ONE")) == 1)
	}
}

func TestLookupsMayRunWhileTheIndexChanges(t *testing.T) {
	x := newIndex(t, newCluster(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				for _, n := range x.ByProviderID("test://1") {
					if n == nil || n.Spec.ProviderID != "test://1" {
						t.Error("a view changed under its reader")
					}
				}
				x.ByName("n1")
				x.count()
			}
		})
	}
	for i := range 2000 {
		name := fmt.Sprintf("n%d", i%3)
		x.onUpdate(nil, newNode(name, fmt.Sprint(i), "test://1"))
		x.onDelete(newNode(fmt.Sprintf("n%d", (i+1)%3), "", ""))
	}
	wg.Wait()
}

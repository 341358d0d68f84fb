package deployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/apitest/testenv"
	"github.com/machinist-dev/machinist/internal/children"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/rollout"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// stale is a pass over a deployment with one set, whose Machines it has read and others change since.
type stale struct {
	*Scope

	t      *testing.T
	store  client.Client
	events *events.FakeRecorder
}

func newStale(t *testing.T, names ...string) *stale {
	t.Helper()
	kinds, err := contract.ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: kinds.Machine.GVK, Status: true}, {GVK: kinds.Set.GVK}}}).Client()
	recorder := events.NewFakeRecorder(10)
	r, err := New(kinds, engine.Ports{Client: store, Cache: struct{ cache.Cache }{}, APIReader: store}, Options{
		Options: engine.Options{Recorder: recorder},
	})
	require.NoError(t, err)
	s := &stale{&Scope{env: r, mem: &recollection{}}, t, store, recorder}
	s.children.Selector = labels.Everything()
	s.State.Key.Namespace, s.State.UID = "default", "deployment-uid"
	s.Object = testenv.Object(kinds.Deployment.GVK, "deployment")
	s.Attach(r.frame)
	state := &contract.MachineSetState{}
	one := &set{Child: children.Child[contract.MachineSetState]{
		Object: testenv.Object(kinds.Set.GVK, "set"), State: state, Metadata: &state.Metadata,
	}}
	for _, name := range names {
		u, state := testenv.Object(kinds.Machine.GVK, name), &contract.MachineState{}
		u.Object["spec"] = map[string]any{"clusterName": "demo"}
		require.NoError(t, store.Create(t.Context(), u))
		require.NoError(t, kinds.Machine.Adapter.Read(u, state))
		one.machines = append(one.machines, machine{Object: u, State: state, Metadata: &state.Metadata})
	}
	s.observed = []*set{one}
	return s
}

// now returns a Machine as the API server has it.
func (s *stale) now(name string) *unstructured.Unstructured {
	s.t.Helper()
	u := testenv.Object(s.env.kinds.Machine.GVK, name)
	require.NoError(s.t, s.store.Get(s.t.Context(), client.ObjectKeyFromObject(u), u))
	return u
}

// mark has another client mark a Machine.
func (s *stale) mark(name string) *unstructured.Unstructured {
	s.t.Helper()
	u := s.now(name)
	mark := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+scale.DeleteAnnotation+`":"now"}}}`))
	require.NoError(s.t, s.store.Patch(s.t.Context(), u, mark))
	return u
}

func TestStaleMachines(t *testing.T) {
	t.Parallel()
	t.Run("a set that is gone is not scaled, and no event reports that it was", func(t *testing.T) {
		t.Parallel()
		s := newStale(t)
		require.NoError(t, s.scaleSet(t.Context(), rollout.Change{From: 3, To: 0}))
		require.Empty(t, s.events.Events)
	})
	t.Run("a set may not create again while a Machine may have moved away unseen", func(t *testing.T) {
		t.Parallel()
		s := newStale(t, "a", "b")
		s.facts.Strategy.Type = rollout.InPlaceAuto
		s.observed[0].Annotations = map[string]string{scale.DisableCreateAnnotation: "true"}
		require.ErrorIs(t, s.syncSet(t.Context(), s.observed[0]), engine.ErrStale)
	})
	t.Run("no Machine is marked while another one is that was read without a mark", func(t *testing.T) {
		t.Parallel()
		s := newStale(t, "a", "b", "c")
		s.mark("b")
		current, err := s.confirmMachines(t.Context())
		require.NoError(t, err)
		require.False(t, current)
		require.Empty(t, s.now("a").GetAnnotations())
	})
	t.Run("a plan waits until the cache shows what the process has written to a Machine", func(t *testing.T) {
		t.Parallel()
		s := newStale(t, "a", "b")
		require.False(t, s.behind())
		written := s.mark("b")
		s.env.frame.Writer.Wrote(written)
		require.True(t, s.behind())
		s.observed[0].machines[1] = children.Child[contract.MachineState]{Object: written}
		require.False(t, s.behind())
	})
}

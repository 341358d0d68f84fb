package machine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
	"github.com/machinist-dev/machinist/machine"
)

// restarted is a Machine that was Ready when its process restarted, and for which no process lists the kind of its
// BootstrapConfig.
func restarted(t *testing.T, grace time.Duration) (m *mortal, listed func()) {
	t.Helper()
	m = newMortal(t, "m1")
	m.options.machine.ConnectionGrace = grace
	first := m.start("first")
	m.create()
	m.settles()
	first.stop()
	unlisted := fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
		return r.UserAgent == userAgent+"-second" && r.GVK.Kind == "FakeConfig" && (r.Verb == "list" || r.Verb == "watch")
	}}
	listed = m.store.Inject(unlisted)
	m.start("second")
	return m, listed
}

// nodeTurns has the Node say that it is not Ready, and waits until its Machine says so.
func (m *mortal) nodeTurns() *unstructured.Unstructured {
	m.t.Helper()
	node := m.node("m1")
	base := node.DeepCopy()
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status = corev1.ConditionFalse
		}
	}
	require.NoError(m.t, m.client.Status().Patch(m.t.Context(), node, client.MergeFrom(base)))
	m.conditionIs(m.machine, contract.ConditionNodeReady, machine.ReasonNodeNotReady)
	return m.Get(m.machine)
}

func TestAListThatTakesItsTimeAfterARestartChangesNoReadiness(t *testing.T) {
	t.Parallel()
	m, listed := restarted(t, 0)
	said := m.nodeTurns()
	for _, kind := range []string{contract.ConditionBootstrapConfigReady, contract.ConditionInfrastructureReady} {
		if c := conditionOf(said, kind); c.Status != metav1.ConditionTrue {
			t.Errorf("%s: nothing is known that would change it, got %s", kind, describe(said))
		}
	}
	listed()
	m.Eventually("the Machine to be left alone", m.atRest)
}

func TestAListThatDoesNotComeBackIsReportedWhenTheGraceIsOver(t *testing.T) {
	t.Parallel()
	m, listed := restarted(t, -1)
	m.conditionIs(m.machine, contract.ConditionBootstrapConfigReady, external.ReasonCacheNotSynced, "FakeConfig", "permissions")
	m.conditionIs(m.machine, contract.ConditionReady, contract.ReasonReadyUnknown)
	listed()
	m.conditionIs(m.machine, contract.ConditionReady, contract.ReasonReady)
}

func TestAListThatDoesNotComeBackIsReportedAtOnceOfANewMachine(t *testing.T) {
	t.Parallel()
	m := newMortal(t, "m1")
	listed := m.store.Inject(fake.Fault{Times: -1, Err: apierrors.NewServiceUnavailable("not now"), Match: func(r fake.Request) bool {
		return r.UserAgent == userAgent+"-first" && r.GVK.Kind == "FakeConfig" && (r.Verb == "list" || r.Verb == "watch")
	}})
	m.start("first")
	m.create()
	m.conditionIs(m.machine, contract.ConditionBootstrapConfigReady, external.ReasonCacheNotSynced)
	listed()
	m.conditionIs(m.machine, contract.ConditionReady, contract.ReasonReady)
}

func TestAStatusThatWasDueAndMetAConflictIsWrittenByTheNextPass(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	steps := []machine.Step{{Name: "phase", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
		s.SetPhase("Pending")
		return machine.Result{}, nil
	}}}
	p := newPassesByHand(t, machine.Options{Options: engine.Options{Clock: clock, StatusDelay: time.Minute}, Steps: steps})
	r := p.Reconciler
	old, _ := p.read()
	changed, _ := p.read()
	changed.SetLabels(map[string]string{"tier": "a"})
	require.NoError(t, p.client.Update(t.Context(), changed))

	result, err := r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)
	require.Equal(t, time.Second, result.RequeueAfter, "it is tried again on a fresh read")
	fresh, _ := p.read()
	_, err = r.ReconcileObject(t.Context(), fresh)
	require.NoError(t, err)
	_, state := p.read()
	require.Equal(t, "Pending", state.Phase)
}

// passesByHand are passes over Machine m1 in a store, as old as the test wants its reads to be.
type passesByHand struct {
	*machine.Reconciler

	t      *testing.T
	kind   contract.Kind
	store  *fake.Store
	client client.Client
}

func newPassesByHand(t *testing.T, o machine.Options) *passesByHand {
	t.Helper()
	return newPassesOver(t, contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine), o)
}

func newPassesOver(t *testing.T, kind contract.Kind, o machine.Options) *passesByHand {
	t.Helper()
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: kind.GVK, Status: kind.StatusSubresource}}})
	mgr, err := store.NewManager(ctrl.Options{})
	require.NoError(t, err)
	ports, err := machine.PortsFromManager(t.Context(), mgr, o)
	require.NoError(t, err)
	r, err := machine.New(kind, ports, o)
	require.NoError(t, err)
	require.NoError(t, store.Client().Create(t.Context(), fake.Machine("m1")))
	return &passesByHand{Reconciler: r, t: t, kind: kind, store: store, client: store.Client()}
}

func (p *passesByHand) read() (client.Object, contract.MachineState) {
	p.t.Helper()
	obj, ok := p.kind.New().(client.Object)
	require.True(p.t, ok)
	require.NoError(p.t, p.client.Get(p.t.Context(), client.ObjectKeyFromObject(fake.Machine("m1")), obj))
	var state contract.MachineState
	require.NoError(p.t, p.kind.Adapter.Read(obj, &state))
	return obj, state
}

// A new leader, or a cache that is very late, decides once more what is stored already. The write of metadata must not lend its
// fresh resource version to a status that was decided on the old read: phases would seem to have just begun.
func TestAStatusThatWasDecidedOnAnOldReadIsNotWrittenOnTopOfTheMetadata(t *testing.T) {
	began := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(began)
	var secret string
	steps := []machine.Step{{Name: "phase", On: engine.InBoth, Run: func(_ context.Context, s *machine.Scope) (machine.Result, error) {
		if secret != "" {
			s.SetDataSecretName(secret)
		}
		s.SetPhase("Running")
		return machine.Result{}, nil
	}}}
	p := newPassesByHand(t, machine.Options{Options: engine.Options{Clock: clock, StatusDelay: -1}, Steps: steps})
	r, read := p.Reconciler, p.read
	old, _ := read()
	_, err := r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)

	clock.SetTime(began.Add(patch.MaxBehind))
	secret = "data"
	again, err := r.ReconcileObject(t.Context(), old)
	require.NoError(t, err)
	require.NotZero(t, again.RequeueAfter, "it is tried again on a fresh read")
	fresh, state := read()
	require.Equal(t, began, state.LastUpdated.UTC(), "nothing has happened since")
	_, err = r.ReconcileObject(t.Context(), fresh)
	require.NoError(t, err)
	_, state = read()
	require.Equal(t, began, state.LastUpdated.UTC())
	require.Equal(t, "data", state.DataSecretName.Or(""))
}

// The API server answers the write that removes the last finalizer with the version from before it. An event of the Node that comes
// before the one of the Machine's own end leads to a pass over the very copy that the write was decided on.
func TestAPassOverAnOldCopyWritesNothingAfterTheLastFinalizerIsGone(t *testing.T) {
	for name, hasStatus := range map[string]bool{"with a status subresource": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			kind := contract.Unstructured(fake.MachineGVK(), contract.LayoutsOf(contract.V1Beta2).Machine)
			kind.StatusSubresource = hasStatus
			steps := slices.DeleteFunc(machine.Steps(), func(s machine.Step) bool {
				return s.Name != machine.StepFinalizer && s.Name != machine.StepRemoveFinalizer && s.Name != machine.StepPhase
			})
			p := newPassesOver(t, kind, machine.Options{Steps: steps, Options: engine.Options{StatusDelay: -1}})
			obj, _ := p.read()
			_, err := p.ReconcileObject(t.Context(), obj)
			require.NoError(t, err)
			obj, state := p.read()
			require.NotEmpty(t, state.Finalizers)
			require.NoError(t, p.client.Delete(t.Context(), obj))
			obj, _ = p.read()
			_, err = p.ReconcileObject(t.Context(), obj)
			require.NoError(t, err)
			require.True(t, apierrors.IsNotFound(p.client.Get(t.Context(), client.ObjectKeyFromObject(obj), fake.Machine("m1"))))

			writes := p.store.CountRequests(fake.Request.IsWrite)
			for range 3 {
				_, err = p.ReconcileObject(t.Context(), obj)
				require.NoError(t, err)
			}
			require.Equal(t, writes, p.store.CountRequests(fake.Request.IsWrite), "the Machine is gone")
		})
	}
}

// deletions is a client that keeps by which UIDs objects are deleted.
type deletions struct {
	client.Client

	mu sync.Mutex
	by map[string]types.UID
}

func (d *deletions) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	gvk, err := d.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.by[gvk.Kind] = ""
	if only := (&client.DeleteOptions{}).ApplyOptions(o).Preconditions; only != nil && only.UID != nil {
		d.by[gvk.Kind] = *only.UID
	}
	return d.Client.Delete(ctx, obj, o...)
}

func TestDeletionUIDs(t *testing.T) {
	t.Parallel()
	t.Run("a Machine deletes the objects that it has read, and none that has their names since", func(t *testing.T) {
		d := &deletions{by: map[string]types.UID{}}
		w := newWorld(t, worldOptions{ports: func(_ ctrl.Manager, p *machine.Ports) {
			d.Client = p.Client
			p.Client, p.Workload.Client = d, d
		}})
		m := w.ready("m")
		want := map[string]types.UID{"Node": w.node(nodeNameOf(w.Get(m))).GetUID()}
		for _, u := range []*unstructured.Unstructured{fake.InfraMachine(contract.V1Beta2, "m"), fake.BootstrapConfig(contract.V1Beta2, "m")} {
			want[u.GetKind()] = w.Get(u).GetUID()
		}
		w.Remove(m)
		d.mu.Lock()
		defer d.mu.Unlock()
		require.Equal(t, want, d.by)
	})
}

package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

const testFinalizer = "example.com/deployment"

// scope is the Scope of a kind that has nothing of its own.
type scope struct {
	engine.Scope[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
}

type step = engine.Step[*scope]

// bench is a Reconciler of MachineDeployments on a store.
type bench struct {
	t         *testing.T
	store     *fake.Store
	client    client.Client
	frame     *engine.Frame[contract.MachineDeploymentState, contract.MachineDeploymentUpdate]
	steps     []step
	forgotten []types.NamespacedName
	view      external.ClusterView
}

func deploymentGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeployment"}
}

func newBench(t *testing.T, subresource bool, steps ...step) *bench {
	t.Helper()
	b := &bench{t: t, steps: steps}
	b.store = fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: deploymentGVK(), Status: subresource}}})
	b.client = b.store.Client()
	kind := contract.Unstructured(deploymentGVK(), contract.LayoutsOf(contract.V1Beta2).MachineDeployment)
	kind.StatusSubresource = subresource
	ports := engine.Ports{
		Client: b.client, Cache: struct{ cache.Cache }{}, APIReader: b.client,
		ClusterOf: func(context.Context, types.NamespacedName) (external.ClusterView, error) { return b.view, nil },
	}
	var err error
	options := engine.WithDefaults(engine.Options{WatchFilter: "ours"}, "MachineDeployment")
	b.frame, err = engine.NewFrame("reconciler", kind, testFinalizer, ports, options)
	require.NoError(t, err)
	return b
}

func (b *bench) create() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterName": "c1", "replicas": int64(1)}}}
	u.SetGroupVersionKind(deploymentGVK())
	u.SetNamespace("default")
	u.SetName("d1")
	u.SetLabels(map[string]string{contract.WatchFilterLabel: "ours"})
	require.NoError(b.t, b.client.Create(b.t.Context(), u))
	return u
}

func (b *bench) pass(u *unstructured.Unstructured) (reconcile.Result, error) {
	b.t.Helper()
	require.NoError(b.t, b.client.Get(b.t.Context(), client.ObjectKeyFromObject(u), u))
	before := u.DeepCopy()
	result, err := b.reconciler().ReconcileObject(b.t.Context(), u)
	require.Equal(b.t, before.Object, u.Object, "a pass does not change the object that it is given")
	return result, err
}

type reconciler = *engine.Reconciler[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, *scope]

func (b *bench) reconciler() reconciler {
	return engine.NewReconciler(engine.Kind[contract.MachineDeploymentState, contract.MachineDeploymentUpdate, *scope]{
		Frame: b.frame, Steps: b.steps,
		NewScope: func() *scope { return &scope{} },
		Begin:    func(ctx context.Context, s *scope) { s.ReadCluster(ctx) },
		Flush: func(ctx context.Context, s *scope, err error) error {
			return s.Flush(ctx, engine.Writing{Observes: err == nil && !s.Paused()})
		},
		Forget: func(key types.NamespacedName) { b.forgotten = append(b.forgotten, key) },
	})
}

func (b *bench) writes() (n int) {
	for _, r := range b.store.Requests() {
		if r.Verb == "patch" {
			n++
		}
	}
	return n
}

// standard are the steps that each kind has in some form.
func standard() engine.Steps[*scope] {
	return engine.Standard([]step{
		{Name: "paused", On: engine.InBoth, ObjectOnly: true, Run: func(_ context.Context, s *scope) (engine.Result, error) {
			return s.StopIfPaused()
		}},
		{Name: "finalizer", On: engine.InRunning, Run: func(ctx context.Context, s *scope) (engine.Result, error) {
			s.AddFinalizer()
			if err := s.JoinCluster(ctx); err != nil {
				return engine.Result{}, err
			}
			return engine.Result{}, s.Commit(ctx)
		}},
		{Name: "remove-finalizer", On: engine.InDeletion, Run: func(_ context.Context, s *scope) (engine.Result, error) {
			s.RemoveFinalizer()
			return engine.Result{}, nil
		}},
	})
}

func TestAPassWritesMetadataFirstAndStatusOnTop(t *testing.T) {
	for name, subresource := range map[string]bool{"with a status subresource": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, subresource, standard()...)
			b.view = cluster()
			u := b.create()
			_, err := b.pass(u)
			require.NoError(t, err)
			require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
			require.Equal(t, []string{testFinalizer}, u.GetFinalizers())
			require.Equal(t, "c1", u.GetLabels()[contract.ClusterNameLabel])
			require.Equal(t, types.UID("cluster-uid"), u.GetOwnerReferences()[0].UID)
			conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
			require.Len(t, conditions, 1)
			require.Equal(t, 2, b.writes())

			_, err = b.pass(u)
			require.NoError(t, err)
			require.Equal(t, 2, b.writes(), "values that are stored are not written again")
		})
	}
}

func cluster() external.ClusterView {
	view := external.ClusterView{GVK: fake.ClusterGVK(), Presence: external.Present}
	view.State.Key, view.State.UID = types.NamespacedName{Namespace: "default", Name: "c1"}, "cluster-uid"
	return view
}

func TestAPausedObjectIsOnlyReportedAsPaused(t *testing.T) {
	b := newBench(t, true, standard()...)
	b.view = cluster()
	b.view.State.SpecPaused = true
	u := b.create()
	_, err := b.pass(u)
	require.NoError(t, err)
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	require.Empty(t, u.GetFinalizers())
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	require.Len(t, conditions, 1)
	generation, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	require.Zero(t, generation, "a paused object was not evaluated")
}

func TestAnObjectIsForgottenWhenItIsNoLongerReconciled(t *testing.T) {
	b := newBench(t, true, standard()...)
	u := b.create()
	_, err := b.pass(u)
	require.NoError(t, err)
	require.Empty(t, b.forgotten)

	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	u.SetFinalizers(append(u.GetFinalizers(), "example.com/other"))
	require.NoError(t, b.client.Update(t.Context(), u))
	require.NoError(t, b.client.Delete(t.Context(), u))
	for range 2 {
		_, err = b.pass(u)
		require.NoError(t, err)
	}
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	require.Equal(t, []string{"example.com/other"}, u.GetFinalizers())
	require.Len(t, b.forgotten, 1, "without our finalizer an object in deletion is left alone")

	u.SetLabels(nil)
	require.NoError(t, b.client.Update(t.Context(), u))
	_, err = b.pass(u)
	require.NoError(t, err)
	require.Len(t, b.forgotten, 2, "the watch filter excludes it")
}

func TestAStepIsPutBetweenOthersByName(t *testing.T) {
	mark := func(name string) step {
		return step{Name: name, On: engine.InRunning, Run: func(_ context.Context, s *scope) (engine.Result, error) {
			s.ChangeAnnotation("example.com/"+name, contract.SetTo("done"))
			return engine.Result{}, nil
		}}
	}
	steps := standard().InsertBefore("finalizer", mark("first")).InsertAfter("finalizer", mark("second")).Replace("first", mark("instead"))
	require.NoError(t, engine.CheckSteps(steps, standard()))
	require.ErrorIs(t, engine.CheckSteps(steps.Remove("first"), standard()), engine.ErrNoStep)

	b := newBench(t, true, steps...)
	u := b.create()
	_, err := b.pass(u)
	require.NoError(t, err)
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	require.Equal(t, map[string]string{"example.com/instead": "done", "example.com/second": "done"}, u.GetAnnotations())
}

func TestACommitThatFailsIsNotWrittenLaterAndOneThatSucceedsKeepsTheStatus(t *testing.T) {
	b := newBench(t, true, step{Name: "labels", On: engine.InRunning, Run: func(ctx context.Context, s *scope) (engine.Result, error) {
		s.Update.Phase = contract.SetTo("Running")
		s.SetLabel("example.com/label", "value")
		return engine.Result{}, s.Commit(ctx)
	}})
	u := b.create()
	b.store.FailNext(func(r fake.Request) bool { return r.Verb == "patch" }, apierrors.NewConflict(schema.GroupResource{}, u.GetName(), nil))
	_, err := b.pass(u)
	require.NoError(t, err, "a conflict is no error")
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	require.NotContains(t, u.GetLabels(), "example.com/label")

	_, err = b.pass(u)
	require.NoError(t, err)
	require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(u), u))
	require.Contains(t, u.GetLabels(), "example.com/label")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	require.Equal(t, "Running", phase, "what was decided about the status before the commit is written after it")
}

func TestACheckpointEndsThePassOnlyWhenItHasSomethingToWrite(t *testing.T) {
	acted := 0
	own := step{Name: "own", On: engine.InRunning, Run: func(_ context.Context, s *scope) (engine.Result, error) {
		s.Assert(engine.Condition("Checked", "True", "Checked", ""))
		return engine.Result{Checkpoint: true}, nil
	}}
	b := newBench(t, true, own, step{Name: "acts", On: engine.InRunning, Run: func(context.Context, *scope) (engine.Result, error) {
		acted++
		return engine.Result{}, nil
	}})
	u := b.create()
	for pass := range 2 {
		_, err := b.pass(u)
		require.NoError(t, err)
		require.Equal(t, pass, acted, "what the checkpoint requires is stored first")
	}
}

func TestStepsThatCannotRunAreRefused(t *testing.T) {
	run := func(context.Context, *scope) (engine.Result, error) { return engine.Result{}, nil }
	wrong := []step{{}, {Name: "a"}, {Name: "b", Run: run}, {Name: "c", On: engine.InBoth, Run: run}, {Name: "c", On: engine.InBoth, Run: run}}
	err := engine.CheckSteps(wrong, standard())
	for _, text := range []string{"step 0: a step needs a name", "step a: a step needs", "step b never runs", `duplicate step "c"`} {
		require.ErrorContains(t, err, text)
	}
	steps := standard()
	steps[0], steps[1] = steps[1], steps[0]
	require.ErrorContains(t, engine.CheckSteps(steps, standard()), "step paused is after finalizer")
}

func TestAStepThatFailsEndsADeletionAndNotARunningPass(t *testing.T) {
	var ran []string
	named := func(name string, result engine.Result, err error) step {
		return step{Name: name, On: engine.InBoth, Run: func(context.Context, *scope) (engine.Result, error) {
			ran = append(ran, name)
			return result, err
		}}
	}
	only := named("only", engine.Result{}, nil)
	only.ObjectOnly = true
	closing := named("closing", engine.Result{RequeueAfter: time.Minute}, nil)
	closing.Closing = true
	pass := func(steps []step, deleting bool) (engine.Result, error) {
		b, s := newBench(t, true), &scope{}
		require.NoError(t, engine.Begin(&s.Scope, b.frame, b.create()))
		s.Update.Phase = contract.SetTo("of a checkpoint")
		if deleting {
			s.State.Deleting = time.Unix(1000, 0)
		}
		return engine.RunSteps(t.Context(), steps, s, nil)
	}

	failing := []step{named("fails", engine.Result{RequeueAfter: time.Hour}, errors.New("boom")), named("next", engine.Result{}, nil), closing}
	result, err := pass(failing, false)
	require.EqualError(t, err, "step fails: boom")
	require.Equal(t, []string{"fails", "next", "closing"}, ran)
	require.Equal(t, time.Minute, result.RequeueAfter)

	ran = nil
	_, err = pass(failing, true)
	require.Error(t, err)
	require.Equal(t, []string{"fails", "closing"}, ran)

	ran = nil
	stored := []step{named("stores", engine.Result{Checkpoint: true}, nil), named("acts", engine.Result{}, nil), only, closing}
	_, err = pass(stored, false)
	require.NoError(t, err)
	require.Equal(t, []string{"stores", "only", "closing"}, ran)
}

func TestAFrameNamesEverythingThatIsMissing(t *testing.T) {
	options := engine.Options{ContractVersions: []contract.Version{"v7"}}
	_, err := engine.NewFrame("reconciler", contract.MachineSetKind{}, testFinalizer, engine.Ports{}, options)
	for _, text := range []string{"Ports.Client", "Ports.Cache", "Ports.APIReader", "GVK", "v7"} {
		require.ErrorContains(t, err, text)
	}
}

// What creates objects of a kind and what reconciles them have one finalizer.
func TestFinalizers(t *testing.T) {
	for name, tc := range map[string]struct {
		of      string
		created []string
		passes  string
	}{
		"the default":        {created: []string{testFinalizer}, passes: testFinalizer},
		"that of the Kind":   {of: "example.com/own", created: []string{"example.com/own"}, passes: "example.com/own"},
		"of another program": {of: contract.NoFinalizer},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, true)
			kind := b.frame.Kind
			kind.Finalizer = tc.of
			require.Equal(t, tc.created, engine.Finalizers(kind, testFinalizer))
			f, err := engine.NewFrame("reconciler", kind, testFinalizer, b.frame.Ports, b.frame.Options)
			if tc.passes == "" {
				require.ErrorContains(t, err, "NoFinalizer")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.passes, f.Finalizer)
		})
	}
}

func TestAnErrorIsStaleOnlyWhenAllOfItIs(t *testing.T) {
	require.True(t, engine.IsStale(errors.Join(engine.ErrStale, engine.ErrStale)))
	require.False(t, engine.IsStale(errors.Join(engine.ErrStale, errors.New("boom"))))
	require.False(t, engine.IsStale(nil))
	step := func(err error) error { return fmt.Errorf("step a: %w", err) }
	require.True(t, engine.IsStale(errors.Join(step(engine.ErrStale), step(errors.Join(engine.ErrStale, engine.ErrStale)))))
	require.False(t, engine.IsStale(step(errors.Join(engine.ErrStale, errors.New("boom")))), "a step may have had several errors")
}

// It does not run beside other tests: a process records one trace at a time.
func TestAnExecutionTraceNamesThePassesTheirObjectsAndTheirSteps(t *testing.T) {
	failed := errors.New("failed")
	b := newBench(t, true, step{Name: "looks", On: engine.InRunning, Run: func(context.Context, *scope) (engine.Result, error) {
		return engine.Result{}, failed
	}})
	obj := b.create()
	var recorded bytes.Buffer
	require.NoError(t, trace.Start(&recorded))
	_, err := b.pass(obj)
	trace.Stop()
	require.ErrorIs(t, err, failed, "a pass that fails is recorded too")
	for _, text := range []string{"reconcile MachineDeployment", obj.GetName(), "looks", "write"} {
		require.Contains(t, recorded.String(), text)
	}

	recorded.Reset()
	_, err = b.pass(obj)
	require.ErrorIs(t, err, failed)
	require.Empty(t, recorded.String())
}

package external_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/internal/external"
)

const bound = time.Minute

// lookout is a Tracker in a manager over a store, with a record of the requests that it enqueued.
type lookout struct {
	t       *testing.T
	store   *fake.Store
	tracker *external.Tracker
	woken   chan types.NamespacedName
	reader  client.Reader
}

func newLookout(t *testing.T, crds ...client.Object) *lookout {
	t.Helper()
	return newLookoutOf(t, nil, crds...)
}

// newLookoutOf supports these contract versions; nil is the default.
func newLookoutOf(t *testing.T, contracts []contract.Version, crds ...client.Object) *lookout {
	t.Helper()
	store := fake.NewStore(fake.Options{})
	l := &lookout{t: t, store: store, woken: make(chan types.NamespacedName, 100)}
	l.create(crds...)
	mgr, err := ctrl.NewManager(store.RESTConfig(), store.ManagerOptions(ctrl.Options{
		Logger: logr.Discard(), Controller: config.Controller{SkipNameValidation: new(true)}, // a test may be run more than once
	}))
	require.NoError(t, err)
	l.reader = mgr.GetAPIReader()
	l.tracker = external.NewTracker(mgr.GetCache(), func(_ context.Context, _, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "told of " + obj.GetName()}}}
	}, "test", contracts...)
	name, listens := "lookout-"+t.Name(), make(chan struct{})
	require.NoError(t, ctrl.NewControllerManagedBy(mgr).Named(name).WatchesRawSource(started{l.tracker, listens}).Complete(
		reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			l.woken <- r.NamespacedName
			return reconcile.Result{}, nil
		})))
	ctx, cancel := context.WithCancel(t.Context())
	settled, done := store.Start(ctx, fake.Loops{}), make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done); settled() })
	<-listens // earlier events enqueue nothing: a controller reconciles everything when it starts
	return l
}

// started is a Tracker that reports when it has received its queue.
type started struct {
	*external.Tracker
	done chan struct{}
}

func (s started) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	defer close(s.done)
	return s.Tracker.Start(ctx, q)
}

func (l *lookout) create(objects ...client.Object) {
	l.t.Helper()
	for _, obj := range objects {
		require.NoError(l.t, l.store.Client().Create(l.t.Context(), obj))
	}
}

// isWoken waits for a request.
func (l *lookout) isWoken(who types.NamespacedName) {
	l.t.Helper()
	limit := time.After(bound)
	for {
		select {
		case woken := <-l.woken:
			if woken == who {
				return
			}
		case <-limit:
			l.t.Fatalf("%s was not woken", who)
		}
	}
}

// known reads again until the first lists are complete.
func (l *lookout) known(ref contract.Ref) external.Object {
	l.t.Helper()
	asks := types.NamespacedName{Namespace: "default", Name: "me"}
	for range 1000 {
		found, err := l.tracker.Get(l.t.Context(), asks, ref)
		require.NoError(l.t, err)
		if found.Presence != external.Unread || found.Problem.Reason == external.ReasonContractLabelMissing ||
			found.Problem.Reason == external.ReasonVersionNotServed {
			return found
		}
		require.Equal(l.t, external.UnsyncedRetry, found.RetryAfter)
		time.Sleep(10 * time.Millisecond)
	}
	l.t.Fatal("nothing is known")
	return external.Object{}
}

func refTo(name string) contract.Ref {
	gvk := fake.InfraMachineGVK(contract.V1Beta2)
	return contract.Ref{Group: gvk.Group, Kind: gvk.Kind, Name: name}
}

func infraCRD() client.Object {
	return fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2)
}

func TestAReadBeforeTheFirstListIsRepeated(t *testing.T) {
	l := newLookout(t, infraCRD(), fake.InfraMachine(contract.V1Beta2, "m1"))
	found := l.known(refTo("m1"))
	require.Equal(t, external.Present, found.Presence)
	require.Equal(t, "m1", found.Object.GetName())
	l.isWoken(types.NamespacedName{Name: "told of m1"})
	require.Equal(t, contract.V1Beta2, found.Contract)
	require.Zero(t, found.RetryAfter, "an event will tell")
}

func TestAnEventOfAReferencedObjectEnqueuesRequests(t *testing.T) {
	l := newLookout(t, infraCRD())
	require.Equal(t, external.Absent, l.known(refTo("m1")).Presence)
	l.create(fake.InfraMachine(contract.V1Beta2, "m1"))
	l.isWoken(types.NamespacedName{Name: "told of m1"})
	require.Equal(t, external.Present, l.known(refTo("m1")).Presence)
}

func TestAMissingKindDoesNotMeanThatTheObjectIsAbsent(t *testing.T) {
	l := newLookout(t)
	found := l.known(refTo("m1"))
	require.Equal(t, external.KindMissing, found.Presence)
	require.Equal(t, external.ReasonCRDNotFound, found.Problem.Reason)
	l.create(infraCRD(), fake.InfraMachine(contract.V1Beta2, "m1"))
	l.isWoken(types.NamespacedName{Name: "told of " + contract.CRDName(refTo("").GroupKind())})
	require.Equal(t, external.Present, l.known(refTo("m1")).Presence, "the CRD was created")
}

func TestAKindWithoutAContractIsUnread(t *testing.T) {
	crd := fake.CRD(fake.InfraMachineGVK(contract.V1Beta2), contract.V1Beta2)
	crd.SetLabels(nil)
	l := newLookout(t, crd, fake.InfraMachine(contract.V1Beta2, "m1"))
	found := l.known(refTo("m1"))
	require.Equal(t, external.Unread, found.Presence)
	require.Equal(t, external.ReasonContractLabelMissing, found.Problem.Reason)
}

func TestAKindOfAnOldContractIsReadIfThatContractIsSupported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		honoured []contract.Version
		want     external.Presence
		reason   string
	}{
		"by default": {nil, external.Unread, external.ReasonContractLabelMissing},
		"all":        {contract.AllVersions(), external.Present, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gvk := fake.InfraMachineGVK(contract.V1Alpha3)
			l := newLookoutOf(t, tc.honoured, fake.CRD(gvk, contract.V1Alpha3), fake.InfraMachine(contract.V1Alpha3, "m1"))
			found := l.known(contract.Ref{Group: gvk.Group, Kind: gvk.Kind, Name: "m1"})
			require.Equal(t, tc.want, found.Presence)
			require.Equal(t, tc.reason, found.Problem.Reason)
			if tc.want == external.Present {
				require.Equal(t, contract.V1Alpha3, found.Contract)
			}
		})
	}
}

func TestWithoutAReferenceNothingIsRead(t *testing.T) {
	tracker := external.NewTracker(nil, nil, "test") // it must not read the cache
	found, err := tracker.Get(t.Context(), types.NamespacedName{}, contract.Ref{})
	require.NoError(t, err)
	require.Equal(t, external.NotReferenced, found.Presence)
	found, err = tracker.Get(t.Context(), types.NamespacedName{}, contract.Ref{Kind: "DockerMachine", Name: "m1"})
	require.NoError(t, err)
	require.Equal(t, external.Unread, found.Presence, "an incomplete reference cannot be read")
	require.Equal(t, external.ReasonInternalError, found.Problem.Reason)
}

func TestOnlyTheAPIServerConfirmsThatAnObjectIsGone(t *testing.T) {
	l := newLookout(t, infraCRD(), fake.InfraMachine(contract.V1Beta2, "m1"))
	gvk := fake.InfraMachineGVK(contract.V1Beta2)
	for name, gone := range map[string]bool{"m1": false, "m2": true} {
		got, err := external.ConfirmAbsent(t.Context(), l.reader, gvk, types.NamespacedName{Namespace: "default", Name: name})
		require.NoError(t, err)
		require.Equal(t, gone, got, name)
	}
	nowhere := schema.GroupVersionKind{Group: "nowhere.example.com", Version: "v1", Kind: "Thing"}
	gone, err := external.ConfirmAbsent(t.Context(), l.reader, nowhere, types.NamespacedName{Name: "m1"})
	require.Error(t, err)
	require.False(t, gone, "a kind that is not served does not tell whether an object exists")
}

func TestOnlyTheAPIServerConfirmsThatAnObjectIsStillTheSame(t *testing.T) {
	infra := fake.InfraMachine(contract.V1Beta2, "m1")
	l := newLookout(t, infraCRD(), infra)
	for name, c := range map[string]struct {
		uid  types.UID
		want bool
	}{"m1": {infra.GetUID(), true}, "m2": {infra.GetUID(), false}} {
		key := types.NamespacedName{Namespace: "default", Name: name}
		got, err := external.ConfirmSame(t.Context(), l.reader, infra.GroupVersionKind(), key, c.uid)
		require.NoError(t, err)
		require.Equal(t, c.want, got != nil, name)
	}
	got, err := external.ConfirmSame(t.Context(), l.reader, infra.GroupVersionKind(), client.ObjectKeyFromObject(infra), "from-before")
	require.NoError(t, err)
	require.Nil(t, got)
}

func TestTheEventOfAMissedDeletionHasTheLastKnownObject(t *testing.T) {
	_, ok := external.EventObject("nothing of the kind")
	require.False(t, ok)
	obj, ok := external.EventObject(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "m1"}})
	require.True(t, ok)
	require.Equal(t, "m1", obj.GetName())
}

func TestOnlyAClusterThatIsNotBeingDeletedBecomesAnOwner(t *testing.T) {
	store := fake.NewStore(fake.Options{Kinds: []fake.ServedKind{{GVK: fake.ClusterGVK(), Status: true}}})
	c := store.Client()
	going := fake.Cluster("going")
	going.SetFinalizers([]string{"example.com/hold"})
	here := fake.Cluster("here")
	require.NoError(t, c.Create(t.Context(), here))
	require.NoError(t, c.Create(t.Context(), going))
	uids := map[string]types.UID{"here": here.GetUID(), "going": going.GetUID(), "replaced": "another"}
	require.NoError(t, c.Delete(t.Context(), going))
	for name, want := range map[string]bool{"here": true, "going": false, "gone": false, "replaced": false} {
		cluster := name
		if name == "replaced" {
			cluster = "here"
		}
		view := external.ClusterView{Presence: external.Present, GVK: fake.ClusterGVK()}
		view.State.Key, view.State.UID = types.NamespacedName{Namespace: here.GetNamespace(), Name: cluster}, uids[name]
		if name == "gone" {
			view.State.UID = "any"
		}
		got, err := view.Stays(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	got, err := external.ClusterView{Presence: external.Unread}.Stays(t.Context(), nil)
	require.NoError(t, err)
	require.False(t, got, "a Cluster that was not read cannot become an owner, and no request is made")
}

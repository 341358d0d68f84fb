package machinepool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
	"github.com/machinist-dev/machinist/noderef/cluster"
)

// api answers deletions and reads of one object, and notes the deletions with their preconditions.
type api struct {
	client.Client

	deleted, patched []string
	refuses          error
	// there is what a read finds: an object with these, or the error.
	there   metav1.ObjectMeta
	unread  error
	listing []metav1.PartialObjectMetadata
}

func (a *api) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	said := obj.GetName()
	if only := o.Preconditions; only != nil && only.UID != nil {
		said += " uid=" + string(*only.UID)
	}
	if only := o.Preconditions; only != nil && only.ResourceVersion != nil {
		said += " version=" + *only.ResourceVersion
	}
	a.deleted = append(a.deleted, said)
	return a.refuses
}

func (a *api) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetUID(a.there.UID)
	obj.SetResourceVersion(a.there.ResourceVersion)
	obj.SetLabels(a.there.Labels)
	obj.SetOwnerReferences(a.there.OwnerReferences)
	return a.unread
}

func (a *api) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	body, err := patch.Data(obj)
	a.patched = append(a.patched, string(body))
	return errors.Join(err, a.refuses)
}

func (a *api) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if into, ok := list.(*metav1.PartialObjectMetadataList); ok {
		into.Items = a.listing
	}
	return a.unread
}

var actingNow = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// acting is a pass over a pool in deletion, in front of an API server that a test makes up.
func acting(t *testing.T, a *api) (*Scope, *events.FakeRecorder) {
	t.Helper()
	kinds, err := ClusterAPI(contract.V1Beta2)
	require.NoError(t, err)
	told := events.NewFakeRecorder(100)
	own := cluster.Workload{Nodes: synced{noderef.NewIndex(noderef.Rules{})}}
	ports := Ports{Ports: engine.Ports{Client: a, Cache: &byKey{}, APIReader: a}, Workload: own}
	r, err := New(kinds, ports, Options{Options: engine.Options{Recorder: told}})
	require.NoError(t, err)
	return scopeOf(t, r, a), told
}

// scopeOf is one pass of a Reconciler over a pool in deletion.
func scopeOf(t *testing.T, r *Reconciler, a *api) *Scope {
	t.Helper()
	p := &Scope{env: r, workload: cluster.Workload{Client: a}, nodesKnown: true, machines: &machines{}}
	require.NoError(t, engine.Begin(&p.Scope, r.frame, engine.NewObject(r.kinds.Pool)))
	p.Now, p.State.Key, p.State.UID, p.State.Deleting = actingNow, testPool, "pool-uid", actingNow
	return p
}

// notesOf returns what was recorded.
func notesOf(r *events.FakeRecorder) (all []string) {
	for {
		select {
		case e := <-r.Events:
			all = append(all, strings.TrimSpace(e))
		default:
			return all
		}
	}
}

func notFound(unserved bool) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "delete", schema.GroupResource{Resource: "x"}, "x", "", 0, unserved)
}

func refTo(presence external.Presence) external.Object {
	gvk := schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "FakeMachinePool"}
	e := external.Object{Ref: contract.Ref{Group: gvk.Group, Kind: gvk.Kind, Name: "infra"}, GVK: gvk, Presence: presence}
	if presence == external.Present {
		e.Object = &unstructured.Unstructured{}
		e.Object.SetGroupVersionKind(gvk)
		e.Object.SetName("infra")
		e.Object.SetUID("infra-uid")
		e.Object.SetResourceVersion("7")
	}
	return e
}

func TestAbsenceIsConfirmed(t *testing.T) {
	foreign := refTo(external.Present)
	foreign.Foreign = true
	missing := refTo(external.KindMissing)
	missing.Problem.Message = "CRD is missing"
	unread := refTo(external.Unread)
	unread.Problem.Message = "not served"
	for name, tc := range map[string]struct {
		e        external.Object
		mattered bool
		api      api
		done     bool
		says     string
		again    time.Duration
		fails    bool
	}{
		"none is named":           {e: refTo(external.NotReferenced), done: true},
		"absent, and really gone": {e: refTo(external.Absent), api: api{unread: notFound(false)}, done: true},
		"absent in the cache alone": {e: refTo(external.Absent), says: "FakeMachinePool infra exists, but has not been seen yet",
			again: external.AbsenceRetry},
		"absent, and the answer is none": {e: refTo(external.Absent), api: api{unread: notFound(true)}, fails: true,
			says: "make sure that FakeMachinePool default/infra is gone: the server could not find the requested resource (delete x x)"},
		"no kind, and nothing was made": {e: missing, api: api{unread: notFound(false)}, done: true},
		"no kind, and its CRD is there": {e: missing, says: "CRD is missing", again: external.AbsenceRetry},
		"no kind, and instances are made": {e: missing, mattered: true, api: api{unread: notFound(false)},
			says: "CRD is missing; instances were made for this MachinePool and cannot be found without it"},
		"unread":               {e: refTo(external.Unread), says: "FakeMachinePool infra could not be read yet"},
		"unread, for a reason": {e: unread, says: "not served"},
		"another controller's": {e: foreign, done: true},
		"present":              {e: refTo(external.Present), says: "Waiting for FakeMachinePool infra to be deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &tc.api)
			lost := ""
			if tc.mattered {
				lost = "instances were made for this MachinePool and cannot be found without it"
			}
			done, err := p.deleteReferenced(t.Context(), tc.e, lost, contract.ReasonWaitingForInfrastructureDeletion)
			require.Equal(t, tc.fails, err != nil, err)
			require.Equal(t, tc.done, done)
			said, _ := engine.Find(p.Asserted, contract.ConditionDeleting)
			require.Equal(t, tc.says, said.Message)
			require.Equal(t, tc.again, p.RequeueAfter())
		})
	}
}

func TestAReferencedObjectIsDeletedOnceAndByItsUID(t *testing.T) {
	for name, tc := range map[string]struct {
		refuses error
		asks    int
		fails   bool
	}{
		"accepted": {asks: 1},
		"gone":     {refuses: notFound(false), asks: 1},
		"refused":  {refuses: errors.New("no"), asks: 2, fails: true},
		"unserved": {refuses: notFound(true), asks: 2, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{refuses: tc.refuses}
			p, _ := acting(t, a)
			for range 2 {
				err := p.DeleteReferenced(t.Context(), refTo(external.Present), &p.mem().requested, false)
				require.Equal(t, tc.fails, err != nil, err)
			}
			require.Len(t, a.deleted, tc.asks)
			require.Equal(t, "infra uid=infra-uid", a.deleted[0])
		})
	}
	a := &api{}
	p, _ := acting(t, a)
	going := refTo(external.Present)
	going.Object.SetDeletionTimestamp(&metav1.Time{Time: actingNow})
	require.NoError(t, p.DeleteReferenced(t.Context(), going, &p.mem().requested, false))
	require.Empty(t, a.deleted, "it is on its way out")
}

// infraIs is what the API server has of an InfraMachinePool.
func infraIs(uid types.UID, version string) []metav1.PartialObjectMetadata {
	return []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "infra", UID: uid, ResourceVersion: version}}}
}

func TestAnInfrastructureObjectIsCurrentOnlyAsItWasRead(t *testing.T) {
	for name, tc := range map[string]struct {
		e     external.Object
		api   api
		want  bool
		fails bool
	}{
		"none is named":       {e: refTo(external.NotReferenced), want: true},
		"it was not read":     {e: refTo(external.Unread)},
		"as it was read":      {e: refTo(external.Present), api: api{listing: infraIs("infra-uid", "7")}, want: true},
		"changed since":       {e: refTo(external.Present), api: api{listing: infraIs("infra-uid", "8")}},
		"another of its name": {e: refTo(external.Present), api: api{listing: infraIs("other", "7")}},
		"gone":                {e: refTo(external.Present)},
		"unknown":             {e: refTo(external.Present), api: api{unread: errors.New("no")}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &tc.api)
			p.infrastructure = tc.e
			got, err := p.infrastructureIsCurrent(t.Context())
			require.Equal(t, tc.fails, err != nil, err)
			require.Equal(t, tc.want, got)
			if again := tc.e.Object != nil && !tc.want && !tc.fails; again != (p.RequeueAfter() == external.AbsenceRetry) {
				t.Errorf("want another look: %v, got %s", again, p.RequeueAfter())
			}
		})
	}
}

func TestMachinesAreDeletedOnceByUIDAndAsTheyWereReadWhereThatMatters(t *testing.T) {
	named := func(name string) machine {
		obj, state := &unstructured.Unstructured{}, &contract.MachineState{}
		obj.SetNamespace("default")
		obj.SetName(name)
		obj.SetUID(types.UID(name + "-uid"))
		obj.SetResourceVersion("7")
		state.From(obj)
		return machineOf(state, obj)
	}
	going := named("going")
	going.Deleting = actingNow
	for name, tc := range map[string]struct {
		refuses error
		asRead  bool
		want    []string
		told    []string
		fails   bool
		again   time.Duration
	}{
		"accepted":     {want: []string{"a uid=a-uid"}, told: []string{"Normal SuccessfulDelete Deleted Machine a"}},
		"as they were": {asRead: true, want: []string{"a uid=a-uid version=7"}, told: []string{"Normal SuccessfulDelete Deleted Machine a"}},
		"gone":         {refuses: notFound(false), want: []string{"a uid=a-uid", "a uid=a-uid"}, again: engine.ConflictRetry},
		"another since": {refuses: apierrors.NewConflict(schema.GroupResource{}, "a", nil), want: []string{"a uid=a-uid", "a uid=a-uid"},
			again: engine.ConflictRetry},
		"refused":         {refuses: errors.New("no"), want: []string{"a uid=a-uid", "a uid=a-uid"}, fails: true},
		"no answer comes": {refuses: notFound(true), want: []string{"a uid=a-uid", "a uid=a-uid"}, fails: true},
		"refused, as read": {refuses: errors.New("no"), asRead: true, want: []string{"a uid=a-uid version=7", "a uid=a-uid version=7"},
			fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{refuses: tc.refuses}
			p, told := acting(t, a)
			for range 2 {
				err := p.deleteMachines(t.Context(), []machine{named("a"), going}, tc.asRead)
				require.Equal(t, tc.fails, err != nil, err)
			}
			got := fmt.Sprint(a.deleted, notesOf(told), p.RequeueAfter())
			if diff := cmp.Diff(fmt.Sprint(tc.want, tc.told, tc.again), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTheAPIServerIsAskedForMachinesBeforeTheInstancesGo(t *testing.T) {
	owned := func(name string, pool types.UID) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + "-uid"),
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachinePool", Name: "pool", UID: pool, Controller: new(true)}}}}
	}
	stray := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", UID: "stray-uid"}}
	for name, tc := range map[string]struct {
		api    api
		change func(*Scope)
		done   bool
		want   []string
		fails  bool
		// restored: the API server has no other pool of the name.
		restored bool
	}{
		"none":            {done: true},
		"those of others": {api: api{listing: []metav1.PartialObjectMetadata{owned("a", "other"), stray}}, done: true},
		"one that no cache shows": {api: api{listing: []metav1.PartialObjectMetadata{owned("a", "pool-uid"), stray}},
			want: []string{"a uid=a-uid"}},
		"one from before a restore": {api: api{listing: []metav1.PartialObjectMetadata{owned("pool", "before")}}, restored: true,
			want: []string{"pool uid=pool-uid"}},
		"unknown": {api: api{unread: errors.New("no")}, fails: true},
		"instances that are unread": {api: api{listing: []metav1.PartialObjectMetadata{owned("a", "pool-uid")}},
			change: func(p *Scope) { p.infrastructure = refTo(external.Unread) }, want: []string{"a uid=a-uid"}},
		"instances that are gone": {api: api{listing: []metav1.PartialObjectMetadata{owned("a", "pool-uid")}},
			change: func(p *Scope) { p.infrastructure = refTo(external.Absent) }, done: true},
		"instances on their way": {api: api{listing: []metav1.PartialObjectMetadata{owned("a", "pool-uid")}},
			change: func(p *Scope) { p.mem().requested.Add("infra-uid", "7", p.Now) }, done: true},
		"a provider that makes none": {api: api{listing: []metav1.PartialObjectMetadata{owned("a", "pool-uid")}},
			change: func(p *Scope) { p.machineKind = "" }, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &tc.api)
			p.infrastructure, p.machineKind = refTo(external.Present), "FakeMachine"
			if tc.restored {
				tc.api.there.UID = "pool-uid"
			}
			if tc.change != nil {
				tc.change(p)
			}
			done, err := p.deleteAllMachines(t.Context())
			require.Equal(t, tc.fails, err != nil, err)
			require.Equal(t, tc.done, done)
			require.Equal(t, tc.want, tc.api.deleted)
			require.Equal(t, len(tc.want) > 0, p.RequeueAfter() == claimedRetry)
		})
	}
}

func TestAMachineOfAnotherIsNotTakenForOneThatWasMade(t *testing.T) {
	ours := []metav1.OwnerReference{
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachinePool", Name: "pool", UID: "pool-uid", Controller: new(true)}}
	theirs := []metav1.OwnerReference{
		{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachinePool", Name: "pool", UID: "other", Controller: new(true)}}
	labels, unknown := map[string]string{contract.PoolNameLabel: "pool"}, errors.New("no")
	for name, tc := range map[string]struct {
		api     api
		want    error
		patched int
	}{
		"gone meanwhile":     {api: api{unread: notFound(false)}, want: engine.ErrStale},
		"unknown":            {api: api{unread: unknown}, want: unknown},
		"without an owner":   {api: api{there: metav1.ObjectMeta{UID: "m", Labels: labels}}, want: errForeignMachine},
		"of an earlier pool": {api: api{there: metav1.ObjectMeta{UID: "m", Labels: labels, OwnerReferences: theirs}}, want: errForeignMachine},
		"its own":            {api: api{there: metav1.ObjectMeta{UID: "m", Labels: labels, OwnerReferences: ours}}, want: engine.ErrStale},
		"its own, not listed": {
			api: api{there: metav1.ObjectMeta{UID: "m", ResourceVersion: "7", OwnerReferences: ours}}, want: engine.ErrStale, patched: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := acting(t, &tc.api)
			require.ErrorIs(t, p.alreadyThere(t.Context(), "m"), tc.want)
			require.Len(t, tc.api.patched, tc.patched)
			for _, body := range tc.api.patched {
				require.JSONEq(t, `{"metadata":{"uid":"m","resourceVersion":"7","labels":{"`+contract.PoolNameLabel+`":"pool"}}}`, body)
			}
		})
	}
}

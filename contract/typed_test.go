package contract_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

var serverGVK = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"}

func serverKind() contract.Kind {
	return contract.NewTyped(serverGVK, func() *Server { return &Server{} }, func() runtime.Object { return &metav1.List{} },
		readServer, writeServer)
}

// fullServer says everything that a Server can say.
func fullServer() *Server {
	yes, deleting := true, metav1.NewTime(noon.Add(time.Hour))
	return &Server{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "worker-1", UID: "u-1", ResourceVersion: "42", Generation: 7,
			CreationTimestamp: metav1.NewTime(noon.In(time.FixedZone("x", 3600))), DeletionTimestamp: &deleting,
			Labels:      map[string]string{"cluster.x-k8s.io/cluster-name": "c1", "x": "y"},
			Annotations: map[string]string{"other": "kept"}, Finalizers: []string{"machine.cluster.x-k8s.io"},
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "s", UID: "s-uid", Controller: &yes},
			},
		},
		Spec: ServerSpec{InstanceID: "p://1", UserData: new("")},
		Status: ServerStatus{
			Stage: "Deleting", Node: "n1", NodeUID: "n-uid", Created: new(false), DrainStarted: metav1.NewTime(noon),
			Observed: 6, Conditions: fullState().Conditions,
		},
	}
}

// serverState is what is read from fullServer: fullState without what a Server has no field for.
func serverState() contract.MachineState {
	full := fullState()
	state := contract.MachineState{
		Metadata: full.Metadata, Phase: full.Phase, Node: full.Node, InfrastructureReady: full.InfrastructureReady,
		DrainStarted: full.DrainStarted, ObservedGeneration: full.ObservedGeneration, Conditions: full.Conditions,
	}
	state.Annotations = map[string]string{"other": "kept"}
	state.ProviderID, state.DataSecretName = full.ProviderID, full.DataSecretName
	return state
}

func TestNewTyped_IsReadCompletelyWhateverTheStateHeldBefore(t *testing.T) {
	server, state := fullServer(), fullState()
	require.NoError(t, serverKind().Adapter.Read(server, &state))
	if diff := diffStates(serverState(), state); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Empty(t, cmp.Diff(fullServer(), server), "reading changes nothing")
}

func TestNewTyped_WhatIsWrittenIsReadBackEqual(t *testing.T) {
	server, update := fullServer(), fullUpdate()
	require.NoError(t, serverKind().Adapter.Write(server, contract.MachineUpdate{}))
	require.Empty(t, cmp.Diff(fullServer(), server), "the zero update changes nothing")
	require.NoError(t, serverKind().Adapter.Write(server, update))
	var got contract.MachineState
	require.NoError(t, serverKind().Adapter.Read(server, &got))

	updated := fullState()
	applyUpdate(&updated)
	want := contract.MachineState{
		Metadata: updated.Metadata, Phase: updated.Phase, Node: updated.Node, InfrastructureReady: updated.InfrastructureReady,
		DrainStarted: updated.DrainStarted, ObservedGeneration: updated.ObservedGeneration,
		Conditions: updated.Conditions,
	}
	want.Annotations = map[string]string{"other": "kept", "note": ""}
	want.ProviderID, want.DataSecretName = updated.ProviderID, updated.DataSecretName
	if diff := diffStates(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fullUpdate(), update, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("Write changed the update (-want +got):\n%s", diff)
	}
}

// An object from a cache is copied before it is written, and shallow copies share maps and slices with it.
func TestNewTyped_WritingChangesNothingThatACachedObjectShares(t *testing.T) {
	cached := fullServer()
	written := *cached
	require.NoError(t, serverKind().Adapter.Write(&written, fullUpdate()))
	if diff := cmp.Diff(fullServer(), cached); diff != "" {
		t.Errorf("the object in the cache (-want +got):\n%s", diff)
	}
	cleared := *cached
	require.NoError(t, serverKind().Adapter.Write(&cleared, contract.MachineUpdate{
		MetadataUpdate: contract.MetadataUpdate{
			Finalizers: contract.Cleared[[]string](), OwnerReferences: contract.Cleared[[]metav1.OwnerReference](),
			Labels:      map[string]contract.Change[string]{"x": contract.Cleared[string]()},
			Annotations: map[string]contract.Change[string]{"other": contract.Cleared[string]()},
		},
		DataSecretName: contract.Cleared[string](), DrainStarted: contract.Cleared[time.Time](),
		InfrastructureReady: contract.Cleared[bool](), RemoveConditions: []string{"Ready", "Available"},
	}))
	if diff := cmp.Diff(fullServer(), cached); diff != "" {
		t.Errorf("the object in the cache (-want +got):\n%s", diff)
	}
	require.Nil(t, cleared.Spec.UserData)
	require.Nil(t, cleared.Status.Created)
	require.Empty(t, cleared.Finalizers)
	require.Empty(t, cleared.OwnerReferences)
	require.Empty(t, cleared.Annotations)
	require.Empty(t, cleared.Status.Conditions)
	require.True(t, cleared.Status.DrainStarted.IsZero())
}

func TestNewTyped_RefusesObjectsOfAnotherGoType(t *testing.T) {
	other := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	const want = "Server ns/m: object of another Go type: want *contract_test.Server, got *v1.PartialObjectMetadata"
	state := fullState()
	err := serverKind().Adapter.Read(other, &state)
	require.ErrorIs(t, err, contract.ErrOtherType)
	require.EqualError(t, err, want)
	require.EqualError(t, serverKind().Adapter.Write(other, contract.MachineUpdate{}), want)
}

func TestNewTyped_ErrorsNameTheObject(t *testing.T) {
	broken := errors.New("spec.instanceID: not one of ours")
	kind := contract.NewTyped(serverGVK, func() *Server { return &Server{} }, func() runtime.Object { return &metav1.List{} },
		func(*Server, *contract.MachineState) error { return broken }, func(*Server, contract.MachineUpdate) error { return broken })
	for _, err := range []error{kind.Adapter.Read(fullServer(), &contract.MachineState{}),
		kind.Adapter.Write(fullServer(), contract.MachineUpdate{})} {
		require.ErrorIs(t, err, broken)
		require.EqualError(t, err, "Server default/worker-1: spec.instanceID: not one of ours")
	}
	kind = contract.NewTyped[*Server, contract.MachineState, contract.MachineUpdate](serverGVK, nil, nil, readServer, nil)
	require.Nil(t, kind.New)
	require.Nil(t, kind.Adapter, "which reconcilers refuse, as they do without New")
}

func TestNewTyped_MakesEmptyObjectsOfTheKind(t *testing.T) {
	kind := serverKind()
	require.Equal(t, serverGVK, kind.GVK)
	require.Equal(t, &Server{}, kind.New())
	require.NotSame(t, kind.New(), kind.New())
	require.True(t, kind.StatusSubresource)
}

func TestUpdatedConditions_UpsertsAndRemovesByType(t *testing.T) {
	condition := func(kind, reason string) metav1.Condition { return metav1.Condition{Type: kind, Reason: reason} }
	for name, c := range map[string]struct {
		have, upsert []metav1.Condition
		remove       []string
		want         []metav1.Condition
	}{
		"nothing of nothing": {},
		"order is kept": {have: []metav1.Condition{condition("A", "1"), condition("B", "1")},
			upsert: []metav1.Condition{condition("C", "2"), condition("A", "2")},
			want:   []metav1.Condition{condition("A", "2"), condition("B", "1"), condition("C", "2")}},
		"new ones are sorted in": {have: []metav1.Condition{condition("Deleting", "1")},
			upsert: []metav1.Condition{condition("Z", "1"), condition("Ready", "1"), condition("A", "1")},
			want:   []metav1.Condition{condition("A", "1"), condition("Deleting", "1"), condition("Ready", "1"), condition("Z", "1")}},
		"removed, and never there": {have: []metav1.Condition{condition("A", "1"), condition("B", "1"), condition("A", "2")},
			remove: []string{"A", "X"}, want: []metav1.Condition{condition("B", "1")}},
		"removing wins": {upsert: []metav1.Condition{condition("A", "1")}, remove: []string{"A"}},
		"an empty reason is spoken": {upsert: []metav1.Condition{condition("A", "")},
			want: []metav1.Condition{condition("A", contract.ReasonNotReported)}},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]metav1.Condition(nil), c.have...)
			got := contract.UpdatedConditions(c.have, c.upsert, c.remove)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			require.Equal(t, before, c.have, "the list that was passed in changed")
		})
	}
}

func TestChange_ApplyToChangesAFieldOfAGoType(t *testing.T) {
	text, pointed := "before", "before"
	pointer := &pointed
	contract.Change[string]{}.ApplyTo(&text)
	contract.Change[string]{}.ApplyToPointer(&pointer)
	require.Equal(t, []string{"before", "before"}, []string{text, *pointer})
	contract.SetTo("after").ApplyTo(&text)
	contract.SetTo("").ApplyToPointer(&pointer)
	require.Equal(t, []string{"after", "", "before"}, []string{text, *pointer, pointed}, "what the pointer pointed at stays")
	contract.Cleared[string]().ApplyTo(&text)
	contract.Cleared[string]().ApplyToPointer(&pointer)
	require.Empty(t, text)
	require.Nil(t, pointer)
	require.Equal(t, contract.Opt[string]{}, contract.SomeAt(pointer))
	require.Equal(t, contract.Some("before"), contract.SomeAt(&pointed))
}

package contract_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
)

func TestAGoTypeWithoutFieldsForItKeepsTheStagesOfADeletionInAnnotations(t *testing.T) {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"other": "kept"}}}
	update := contract.MachineUpdate{
		DrainStarted:        contract.SetTo(noon.Add(time.Minute + time.Nanosecond)),
		VolumeDetachStarted: contract.SetTo(noon.Add(2 * time.Minute)), PreTerminateStarted: contract.SetTo(noon.Add(3 * time.Minute)),
		DrainedNode: contract.SetTo(types.UID("n-1")), VolumesDetachedNode: contract.SetTo(types.UID("n-1")),
	}
	update.Annotations = map[string]contract.Change[string]{"mine": contract.SetTo("too")}
	adapter := contract.NewTyped(serverGVK, func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
		func() runtime.Object { return &metav1.List{} },
		func(*metav1.PartialObjectMetadata, *contract.MachineState) error { return nil },
		func(o *metav1.PartialObjectMetadata, u contract.MachineUpdate) error {
			u.MetadataUpdate.ApplyTo(o)
			return nil
		}).Adapter
	read := func() (state contract.MachineState) {
		t.Helper()
		require.NoError(t, adapter.Read(obj, &state))
		return state
	}
	write := func(u contract.MachineUpdate) {
		t.Helper()
		require.NoError(t, adapter.Write(obj, u))
	}
	write(update)
	want := contract.MachineState{
		DrainStarted: noon.Add(time.Minute), VolumeDetachStarted: noon.Add(2 * time.Minute),
		PreTerminateStarted: noon.Add(3 * time.Minute), DrainedNode: "n-1", VolumesDetachedNode: "n-1",
	}
	require.Equal(t, want, read())
	require.Len(t, update.Annotations, 1, "the update does not change")
	require.Equal(t, "kept", obj.Annotations["other"])
	require.Equal(t, "too", obj.Annotations["mine"])

	write(contract.MachineUpdate{})
	require.Equal(t, want, read(), "the zero update changes nothing")

	write(contract.MachineUpdate{
		DrainStarted:        contract.Cleared[time.Time](),
		VolumeDetachStarted: contract.Cleared[time.Time](),
		PreTerminateStarted: contract.Cleared[time.Time](), DrainedNode: contract.SetTo(types.UID("")),
		VolumesDetachedNode: contract.Cleared[types.UID](),
	})
	require.Equal(t, contract.MachineState{}, read())
	require.Equal(t, map[string]string{"other": "kept", "mine": "too"}, obj.Annotations)

	obj.Annotations[contract.DrainStartedAnnotation] = "yesterday"
	err := adapter.Read(obj, &contract.MachineState{})
	require.ErrorIs(t, err, contract.ErrWrongType)
	require.ErrorContains(t, err, contract.DrainStartedAnnotation)
}

func TestAReusedStateHasNoStagesOfAnotherObject(t *testing.T) {
	t.Parallel()
	kind := contract.NewTypedKeeping(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Server"},
		func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
		func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
		func(o *metav1.PartialObjectMetadata, into *contract.MachineState) error {
			into.Metadata.From(o)
			return nil
		},
		func(o *metav1.PartialObjectMetadata, u contract.MachineUpdate) error {
			u.MetadataUpdate.ApplyTo(o)
			return nil
		})
	one, other := &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}
	at := time.Unix(1000, 0).UTC()
	require.NoError(t, kind.Adapter.Write(one, contract.MachineUpdate{
		DrainStarted: contract.SetTo(at), DrainedNode: contract.SetTo(types.UID("n")), PreTerminateStarted: contract.SetTo(at),
	}))
	var state contract.MachineState
	require.NoError(t, kind.Adapter.Read(one, &state))
	require.Equal(t, at, state.DrainStarted)
	require.NoError(t, kind.Adapter.Read(other, &state))
	require.Zero(t, state.DrainStarted)
	require.Zero(t, state.PreTerminateStarted)
	require.Empty(t, state.DrainedNode)
}

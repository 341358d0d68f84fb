package contract_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	read := func() (state contract.MachineState) {
		t.Helper()
		state.Metadata.From(obj)
		require.NoError(t, state.StagesFromAnnotations())
		state.Metadata = contract.Metadata{}
		return state
	}
	update.StagesInAnnotations().ApplyTo(obj)
	want := contract.MachineState{
		DrainStarted: noon.Add(time.Minute), VolumeDetachStarted: noon.Add(2 * time.Minute),
		PreTerminateStarted: noon.Add(3 * time.Minute), DrainedNode: "n-1", VolumesDetachedNode: "n-1",
	}
	require.Equal(t, want, read())
	require.Len(t, update.Annotations, 1, "the update does not change")
	require.Equal(t, "kept", obj.Annotations["other"])
	require.Equal(t, "too", obj.Annotations["mine"])

	contract.MachineUpdate{}.StagesInAnnotations().ApplyTo(obj)
	require.Equal(t, want, read(), "the zero update changes nothing")

	contract.MachineUpdate{
		DrainStarted:        contract.Cleared[time.Time](),
		VolumeDetachStarted: contract.Cleared[time.Time](),
		PreTerminateStarted: contract.Cleared[time.Time](), DrainedNode: contract.SetTo(types.UID("")),
		VolumesDetachedNode: contract.Cleared[types.UID](),
	}.StagesInAnnotations().ApplyTo(obj)
	require.Equal(t, contract.MachineState{}, read())
	require.Equal(t, map[string]string{"other": "kept", "mine": "too"}, obj.Annotations)

	obj.Annotations[contract.DrainStartedAnnotation] = "yesterday"
	state := contract.MachineState{}
	state.Metadata.From(obj)
	err := state.StagesFromAnnotations()
	require.ErrorIs(t, err, contract.ErrWrongType)
	require.ErrorContains(t, err, contract.DrainStartedAnnotation)
}

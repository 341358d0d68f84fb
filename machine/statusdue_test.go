package machine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/drain"
)

func TestOnlyAStatusThatHoldsWhatAStepNeedsIsWrittenAtOnce(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		inStatus bool // where the drained Node is
		step     func(*Scope)
		want     bool
	}{
		"nothing is needed":            {step: func(*Scope) {}},
		"a start time":                 {step: func(s *Scope) { s.setDrainStarted(now) }, want: true},
		"a Node":                       {step: func(s *Scope) { s.SetNode(contract.NodeRef{Name: "n", UID: "u"}); s.urgent = true }, want: true},
		"a drain, in an annotation":    {step: func(s *Scope) { s.setDrained("u"); s.urgent = true }},
		"a drain, in the status":       {inStatus: true, step: func(s *Scope) { s.setDrained("u"); s.urgent = true }, want: true},
		"a drain and the volumes":      {step: func(s *Scope) { s.setDrained("u"); s.setVolumesDetached("u"); s.urgent = true }},
		"a drain, and volumes started": {step: func(s *Scope) { s.setDrained("u"); s.setVolumeDetachStarted(now) }, want: true},
		"a drain that was given up": {step: func(s *Scope) { s.setDrained("u"); s.tell("Warning", "R", "A", "n"); s.urgent = true },
			want: true},
		"the end, and a drain": {step: func(s *Scope) { s.setDrained("u"); s.SetFinalizers([]string{"others"}); s.urgent = true },
			want: true},
		"a drain that is not urgent": {inStatus: true, step: func(s *Scope) { s.setDrained("u") }, want: true},
		"the conditions themselves":  {step: func(s *Scope) { s.SetFinalizers([]string{"others"}); s.urgent = true }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			kind := contract.Unstructured(gvk, contract.MachineV1Beta2())
			if tc.inStatus {
				kind.Adapter = drainedInStatus{kind.Adapter}
			}
			s := attached(&Scope{Scope: base{Object: kind.New()}, env: testReconciler(kind, Ports{}, Options{})})
			tc.step(s)
			status := s.env.frame.Members.Status(s.Update)
			got, err := s.forcesStatus(status)
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

// drainedInStatus is a kind with a field of its status for the Node that was drained.
type drainedInStatus struct {
	contract.Adapter[contract.MachineState, contract.MachineUpdate]
}

func (a drainedInStatus) Write(obj contract.Object, u contract.MachineUpdate) error {
	uid, set := u.DrainedNode.Value()
	u.DrainedNode = contract.Change[types.UID]{}
	if content, ok := obj.(*unstructured.Unstructured); ok && set {
		if err := unstructured.SetNestedField(content.Object, string(uid), "status", "drained"); err != nil {
			return err
		}
	}
	return a.Adapter.Write(obj, u)
}

func TestADrainWithoutPodsIsAboutToEnd(t *testing.T) {
	require.False(t, (&Scope{}).drainEnds(), "no drain")
	require.True(t, (&Scope{waiting: &drain.Counts{Total: 2, Ignored: 2}}).drainEnds())
	require.False(t, (&Scope{waiting: &drain.Counts{Total: 2, Ignored: 1, Terminating: 1}}).drainEnds())
}

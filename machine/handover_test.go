package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/noderef"
)

func TestWhatClusterAPIFinishedInThisDeletionIsNotDoneAgain(t *testing.T) {
	deleting := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	said := func(after time.Duration, conditions map[string]string, path ...string) *unstructured.Unstructured {
		u, list := &unstructured.Unstructured{Object: map[string]any{}}, []any{}
		for kind, status := range conditions {
			list = append(list, map[string]any{"type": kind, "status": status, "lastTransitionTime": deleting.Add(after).Format(time.RFC3339)})
		}
		_ = unstructured.SetNestedSlice(u.Object, list, path...)
		return u
	}
	both := func(status string) map[string]string {
		return map[string]string{"DrainingSucceeded": status, "VolumeDetachSucceeded": status}
	}
	deprecated := []string{"status", "deprecated", "v1beta1", "conditions"}
	for name, tc := range map[string]struct {
		object        *unstructured.Unstructured
		joined        time.Duration // of the Node, from when the deletion was asked for
		drained       types.UID     // the Node that this controller has drained
		unread        bool
		ambiguous     bool
		drain, detach bool // is over
	}{
		"nothing is said": {object: &unstructured.Unstructured{Object: map[string]any{}}},
		"v1beta2":         {object: said(time.Minute, both("True"), deprecated...), drain: true, detach: true},
		"v1beta1":         {object: said(time.Minute, both("True"), "status", "conditions"), drain: true, detach: true},
		"under way":       {object: said(time.Minute, both("False"), deprecated...)},
		"volumes are waited for": {
			object: said(time.Minute, map[string]string{"DrainingSucceeded": "True", "VolumeDetachSucceeded": "False"}, deprecated...), drain: true,
		},
		"pre-terminate hooks are waited for after a drain that was given up": {
			object: said(time.Minute, map[string]string{"DrainingSucceeded": "False", "PreTerminateDeleteHookSucceeded": "False"}, deprecated...),
			drain:  true, detach: true,
		},
		"at the second in which the deletion was asked for": {object: said(0, both("True"), deprecated...), drain: true, detach: true},
		"in an older deletion":                              {object: said(-time.Second, both("True"), deprecated...)},
		"the Node registered afterwards":                    {object: said(time.Minute, both("True"), deprecated...), joined: 2 * time.Minute},
		"the Node registered afterwards, by a clock that is behind": {
			object: said(time.Minute, both("True"), deprecated...), joined: 30 * time.Second,
		},
		"the Node was drained here since": {object: said(time.Minute, both("True"), deprecated...), drained: "n-uid", drain: true},
		"the Nodes are unread":            {object: said(time.Minute, both("True"), deprecated...), unread: true, drain: true, detach: true},
		"it is not clear whose the Node is": { // a drain of another Node tells nothing; volumesStep asks for no Node that is not clear
			object: said(time.Minute, both("True"), deprecated...), ambiguous: true, detach: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			joined := deleting.Add(-time.Hour)
			if tc.joined != 0 {
				joined = deleting.Add(tc.joined)
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid", CreationTimestamp: metav1.NewTime(joined)}}
			state := &contract.MachineState{Metadata: contract.Metadata{Deleting: deleting}, DrainStarted: deleting, DrainedNode: tc.drained}
			match := noderef.Match{Outcome: noderef.Matched, Node: node}
			if tc.unread {
				match = noderef.Match{}
			} else if tc.ambiguous {
				match = noderef.Match{Outcome: noderef.Ambiguous}
			}
			drain, _ := decideDrain(nodeStageFacts{
				HandedOver: finishedByClusterAPI(tc.object, clusterAPIDrained), State: state, NodesSynced: !tc.unread, Match: match,
			})
			volumes, _ := decideVolumes(nodeStageFacts{
				HandedOver: finishedByClusterAPI(tc.object, clusterAPIDetached), State: state, NodesSynced: !tc.unread, Match: match,
			})
			if over := drain == drainSkip; over != tc.drain {
				t.Errorf("drain: want over %v, got %d", tc.drain, drain)
			}
			if over := volumes == volumesSkip; over != tc.detach {
				t.Errorf("volumes: want over %v, got %d", tc.detach, volumes)
			}
		})
	}
}

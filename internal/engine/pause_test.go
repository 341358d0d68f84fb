package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

type pauseFacts struct {
	Cluster                     external.ClusterView
	Failed, Annotated, Deleting bool
}

func TestAMachineIsLeftAloneWhileItOrItsClusterAsksForItOrThatIsNotKnown(t *testing.T) {
	t.Parallel()
	const annotated, clusterPaused = "Machine has the cluster.x-k8s.io/paused annotation", "Cluster spec.paused is set to true"
	paused := external.ClusterView{Presence: external.Present, State: contract.ClusterState{SpecPaused: true}}
	broken := external.ClusterView{Presence: external.Unread,
		Problem: external.Problem{Reason: external.ReasonContractViolation, Message: "spec.paused: want bool"}}
	says := func(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
		return new(engine.Condition(contract.ConditionPaused, status, reason, message))
	}
	active := says(metav1.ConditionFalse, contract.ReasonNotPaused, "")
	for name, tc := range map[string]struct {
		facts      pauseFacts
		leaveAlone bool
		condition  *metav1.Condition
	}{
		"there are no Clusters": {condition: active},
		"no one asks for it":    {facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Present}}, condition: active},
		"the Machine asks": {facts: pauseFacts{Annotated: true}, leaveAlone: true,
			condition: says(metav1.ConditionTrue, contract.ReasonPaused, annotated)},
		"its Cluster asks": {facts: pauseFacts{Cluster: paused}, leaveAlone: true,
			condition: says(metav1.ConditionTrue, contract.ReasonPaused, clusterPaused)},
		"its Cluster asks, in deletion": {facts: pauseFacts{Cluster: paused, Deleting: true}, leaveAlone: true,
			condition: says(metav1.ConditionTrue, contract.ReasonPaused, clusterPaused)},
		"both ask": {facts: pauseFacts{Cluster: paused, Annotated: true}, leaveAlone: true,
			condition: says(metav1.ConditionTrue, contract.ReasonPaused, clusterPaused+", "+annotated)},
		"the Cluster's own annotation is about the Cluster object": {
			facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Present,
				State: contract.ClusterState{Metadata: contract.Metadata{
					Annotations: map[string]string{contract.PausedAnnotation: ""}}}}}, condition: active},
		"the Cluster was not read": {facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Unread}}, leaveAlone: true},
		"the Cluster was not read, and the Machine asks": {
			facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Unread}, Annotated: true}, leaveAlone: true,
			condition: says(metav1.ConditionTrue, contract.ReasonPaused, annotated)},
		"the Cluster was not read, in deletion": {
			facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Unread}, Deleting: true}, leaveAlone: true},
		"the Cluster could not be asked for": {facts: pauseFacts{Failed: true}, leaveAlone: true},
		"the Cluster breaks its contract": {facts: pauseFacts{Cluster: broken}, leaveAlone: true,
			condition: says(metav1.ConditionUnknown, external.ReasonContractViolation, "spec.paused: want bool")},
		"there is no such Cluster": {facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Absent}}, leaveAlone: true,
			condition: says(metav1.ConditionUnknown, contract.ReasonClusterDoesNotExist,
				"Cluster ns/demo does not exist: create it, or delete the Machine")},
		"there is no such Cluster any more, and the Machine is to go": {
			facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Absent}, Deleting: true}, condition: active},
		"there is no such Cluster any more, and the Machine asks": {
			facts: pauseFacts{Cluster: external.ClusterView{Presence: external.Absent}, Deleting: true, Annotated: true}, leaveAlone: true,
			condition: says(metav1.ConditionTrue, contract.ReasonPaused, annotated)},
	} {
		t.Run(name, func(t *testing.T) {
			object := contract.Common{Metadata: &contract.Metadata{Key: types.NamespacedName{Namespace: "ns", Name: "m"}}, ClusterName: "demo"}
			if tc.facts.Annotated {
				object.Annotations = map[string]string{contract.PausedAnnotation: ""}
			}
			if tc.facts.Deleting {
				object.Deleting = time.Unix(1000, 0)
			}
			got, ends := engine.DecidePause("Machine", object, tc.facts.Cluster, tc.facts.Failed)
			if ends != tc.leaveAlone {
				t.Errorf("left alone: want %v, got %v", tc.leaveAlone, ends)
			}
			var said *metav1.Condition
			if got != (metav1.Condition{}) {
				said = &got
			}
			if diff := cmp.Diff(tc.condition, said); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

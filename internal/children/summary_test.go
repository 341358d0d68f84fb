package children

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func stateOf(name string, conditions ...metav1.Condition) *contract.MachineState {
	m := &contract.MachineState{Conditions: conditions}
	m.Key.Name, m.Created = name, noon().Add(-time.Hour)
	return m
}

func conditionOf(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: message}
}

func factsOf(replicas int32, machines ...*contract.MachineState) Summary {
	return Summary{Desired: contract.Some(replicas), Machines: machines, Now: noon()}
}

// The words are those of Cluster API's machineset_controller_status_test.go.
func TestConditionsHaveClusterAPIsWords(t *testing.T) {
	deleting := func(f Summary) Summary {
		f.Deleting = true
		return f
	}
	unsaid := factsOf(0)
	unsaid.Desired = contract.Opt[int32]{}
	missing := factsOf(2, stateOf("m1"))
	absent := func(kind string) scale.Hold {
		return scale.Hold{Reason: engine.ReasonTemplateMissing, Message: kind + " does not exist"}
	}
	missing.Holds = []scale.Hold{
		absent("KubeadmConfigTemplate"), absent("DockerMachineTemplate"), {Message: "MachineDeployment spec.version is newer"},
	}
	would := factsOf(1, stateOf("m1"))
	would.Holds = []scale.Hold{absent("KubeadmConfigTemplate")}
	unhealthy := conditionOf("HealthCheckSucceeded", metav1.ConditionFalse, "")
	tests := map[string]struct {
		facts Summary
		kind  string
		want  string
	}{
		"replicas not set":       {unsaid, "ScalingUp", "Unknown WaitingForReplicasSet: Waiting for spec.replicas set"},
		"replicas not set, down": {unsaid, "ScalingDown", "Unknown WaitingForReplicasSet: Waiting for spec.replicas set"},
		"not scaling up":         {factsOf(1, stateOf("m1")), "ScalingUp", "False NotScalingUp: "},
		"scaling up":             {factsOf(3, stateOf("m1")), "ScalingUp", "True ScalingUp: Scaling up from 1 to 3 replicas"},
		"scaling up would be blocked": {would, "ScalingUp",
			"False NotScalingUp: Scaling up would be blocked because:\n* KubeadmConfigTemplate does not exist"},
		"not blocked while it goes": {deleting(would), "ScalingUp", "False NotScalingUp: "},
		// Cluster API's reason is ScalingUp here too; the owner of the set reads the reason, and never the message.
		"scaling up is blocked": {missing, "ScalingUp", "True ScalingBlocked: Scaling up from 1 to 2 replicas is blocked because:\n" +
			"* MachineDeployment spec.version is newer\n* KubeadmConfigTemplate does not exist\n* DockerMachineTemplate does not exist"},
		"not scaling down": {factsOf(1, stateOf("m1")), "ScalingDown", "False NotScalingDown: "},
		"scaling down":     {factsOf(0, stateOf("m1")), "ScalingDown", "True ScalingDown: Scaling down from 1 to 0 replicas"},
		"deleting":         {deleting(factsOf(1, stateOf("m1"))), "Deleting", "True Deleting: Deleting 1 Machine"},
		"deleting what is no Machine": {
			Summary{Deleting: true, Desired: contract.Some[int32](1), Left: []string{"workers-a"}, LeftAs: "MachineSets"}, "Deleting",
			"True Deleting: Deleting 1 MachineSets\n* workers-a",
		},
		"deleted":      {deleting(factsOf(3)), "Deleting", "True Deleting: Deletion completed"},
		"not deleting": {factsOf(3), "Deleting", "False NotDeleting: "},
		"no Machines":  {factsOf(0), "MachinesReady", "True NoReplicas: "},
		"all are ready": {factsOf(2, stateOf("a", conditionOf("Ready", "True", "")), stateOf("b", conditionOf("Ready", "True", ""))),
			"MachinesReady", "True Ready: "},
		"one says nothing": {factsOf(2, stateOf("a", conditionOf("Ready", "True", "")), stateOf("b")), "MachinesReady",
			"Unknown ReadyUnknown: * Machine b: Condition Ready not yet reported"},
		"one is not ready": {factsOf(2, stateOf("a", conditionOf("Ready", "False", "* NodeHealthy: no")), stateOf("b")), "MachinesReady",
			"False NotReady: * Machine a:\n  * NodeHealthy: no\n* Machine b: Condition Ready not yet reported"},
		"one has yet to say whether it is up to date": {factsOf(1, stateOf("old")), "MachinesUpToDate",
			"Unknown UpToDateUnknown: * Machine old: Condition UpToDate not yet reported"},
		"no Machine is unhealthy": {factsOf(1, stateOf("a")), "Remediating", "False NotRemediating: "},
		"unhealthy":               {factsOf(2, stateOf("b", unhealthy), stateOf("a", unhealthy)), "Remediating", "False NotRemediating: "},
		"remediating": {factsOf(1, stateOf("a", unhealthy, conditionOf("OwnerRemediated", "False", "Machine is deleting"))), "Remediating",
			"True Remediating: * Machine a: Machine is deleting"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c, found := engine.Find(tc.facts.Conditions(), tc.kind)
			require.True(t, found)
			if diff := cmp.Diff(tc.want, fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFirstOfManyMessagesAreReported(t *testing.T) {
	var machines []*contract.MachineState
	add := func(name string, status metav1.ConditionStatus, message string) {
		machines = append(machines, stateOf(name, conditionOf("Ready", status, message)))
	}
	add("a", metav1.ConditionTrue, "fine")
	add("b", metav1.ConditionUnknown, "who knows")
	add("c", metav1.ConditionUnknown, "who else")
	add("e", metav1.ConditionFalse, "two\nlines")
	add("d", metav1.ConditionFalse, "one")
	c, _ := engine.Find(factsOf(1, machines...).Conditions(), contract.ConditionMachinesReady)
	want := "* Machine d: one\n* Machine e:\n  two\n  lines\n* Machine b: who knows\n* And 1 more"
	if diff := cmp.Diff(want, c.Message); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMachinesAreCounted(t *testing.T) {
	ready := conditionOf("NodeReady", "True", "")
	ready.LastTransitionTime = metav1.NewTime(noon().Add(-20 * time.Second))
	updating := stateOf("u", conditionOf("Ready", "True", ""), conditionOf("Available", "True", ""), conditionOf("UpToDate", "True", ""))
	updating.Annotations = map[string]string{contract.InPlaceUpdateAnnotation: ""}
	full := stateOf("f", conditionOf("Ready", "True", ""), conditionOf("Available", "True", ""), conditionOf("UpToDate", "False", ""), ready)
	full.Labels = map[string]string{"a": "b", "c": "d"}
	full.Deleting = noon() // until it is gone it counts
	f := factsOf(3, updating, full, stateOf("n"))
	f.TemplateLabels = map[string]string{"a": "b"}
	f.MinReady = 30 * time.Second
	want := Counters{Replicas: 3, Ready: 1, Available: 1, FullyLabeled: 1, NodeReady: 1}
	got, again := f.Count()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	require.Equal(t, 10*time.Second, again, "then the Node has been ready for long enough, and no event tells")
}

func TestANodeWhoseClockIsAheadIsCountedWhenItsTimeHasCome(t *testing.T) {
	ready := conditionOf("NodeReady", "True", "")
	ready.LastTransitionTime = metav1.NewTime(noon().Add(3 * time.Second))
	got, again := factsOf(1, stateOf("a", ready)).Count()
	require.EqualValues(t, 1, got.NodeReady)
	require.Zero(t, got.NodeAvailable)
	require.Equal(t, 3*time.Second, again)
}

func TestMessagesAreNoLongerThanTheSchemaAllows(t *testing.T) {
	long := strings.Repeat("ä", 20_000)
	f := factsOf(3, stateOf("a", conditionOf("Ready", "False", long)), stateOf("b", conditionOf("Ready", "False", long+"b")))
	f.Holds = []scale.Hold{{Message: long}}
	var s engine.Scope[contract.MachineSetState, contract.MachineSetUpdate]
	s.Assert(f.Conditions()...)
	for _, c := range s.Asserted {
		require.Less(t, len(c.Message), 32768, c.Type)
		require.True(t, utf8.ValidString(c.Message), c.Type)
	}
}

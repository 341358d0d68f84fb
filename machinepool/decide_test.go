package machinepool

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
)

// The two examples of Cluster API's page on the MachinePool controller, unchanged.
const (
	pageBootstrap = `kind: MyBootstrapProviderConfig
apiVersion: bootstrap.cluster.x-k8s.io/v1alpha3
status:
ready: true
dataSecretName: "MyBootstrapSecret"
`
	pageInfrastructure = `kind: MyMachinePool
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha3
spec:
providerIDList:
- cloud:////my-cloud-provider-id-0
- cloud:////my-cloud-provider-id-1
status:
ready: true
`
)

// indented puts back the indentation that the page's text has lost: what follows spec and status belongs to them.
func indented(text string) string {
	var lines []string
	below := false
	for line := range strings.SplitSeq(text, "\n") {
		top := slices.ContainsFunc([]string{"kind:", "apiVersion:", "spec:", "status:"},
			func(s string) bool { return strings.HasPrefix(line, s) })
		if !top && below && line != "" {
			line = "    " + line
		}
		below = below || line == "spec:" || line == "status:"
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(indented(text)), &u.Object))
	return u
}

func present(v contract.Version) external.Object {
	return external.Object{
		Ref: contract.Ref{Group: "g", Kind: "MyKind", Name: "mine"}, Presence: external.Present, Contract: v,
		Object: &unstructured.Unstructured{},
	}
}

func TestTheExamplesOfThePageAreRead(t *testing.T) {
	for _, v := range []contract.Version{contract.V1Alpha3, contract.V1Alpha4, contract.V1Beta1} {
		var config contract.BootstrapConfigState
		require.NoError(t, contract.LayoutsOf(v).BootstrapConfig.Read(parse(t, pageBootstrap), &config))
		b := engine.DecideBootstrap(engine.BootstrapFacts{External: present(v), Config: config})
		if name := b.DataSecretName.Or(""); name != "MyBootstrapSecret" || !b.Created {
			t.Errorf("%s: got secret %q, created %v", v, name, b.Created)
		}
	}
	for _, v := range []contract.Version{contract.V1Alpha3, contract.V1Alpha4, contract.V1Beta1, contract.V1Beta2} {
		var pool contract.InfraMachinePoolState
		require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(parse(t, pageInfrastructure), &pool))
		d := decideInfrastructure(infrastructureFacts{External: present(v), Pool: pool})
		want := []string{"cloud:////my-cloud-provider-id-0", "cloud:////my-cloud-provider-id-1"}
		if diff := cmp.Diff(want, d.IDs.Or(nil)); diff != "" || !d.Provisioned || !d.Complete {
			t.Errorf("%s: provisioned %v, complete %v (-want +got):\n%s", v, d.Provisioned, d.Complete, diff)
		}
	}
}

func TestAProviderThatFollowsTheContractPageIsProvisioned(t *testing.T) {
	// Cluster API reads status.ready alone, in every version.
	obj := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"initialization": map[string]any{"provisioned": true}}}}
	for _, v := range []contract.Version{contract.V1Beta1, contract.V1Beta2} {
		var pool contract.InfraMachinePoolState
		require.NoError(t, contract.LayoutsOf(v).InfraMachinePool.Read(obj, &pool))
		if d := decideInfrastructure(infrastructureFacts{External: present(v), Pool: pool}); !d.Provisioned {
			t.Errorf("%s: not provisioned", v)
		}
	}
}

func TestNamesData(t *testing.T) {
	config := contract.Ref{Kind: "Config", Name: "c"}
	for name, tc := range map[string]struct {
		template contract.MachineSpec
		want     bool
	}{
		"nothing is named":              {template: contract.MachineSpec{Bootstrap: config}},
		"a Secret beside a config":      {template: contract.MachineSpec{Bootstrap: config, DataSecretName: contract.Some("mine")}, want: true},
		"no Secret beside a config":     {template: contract.MachineSpec{Bootstrap: config, DataSecretName: contract.Some("")}},
		"no Secret instead of a config": {template: contract.MachineSpec{DataSecretName: contract.Some("")}, want: true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, namesData(&tc.template)) })
	}
}

func TestWhatWasReachedOnceStaysReached(t *testing.T) {
	// Cluster API takes both flags back, which its own API says are never updated after provisioning.
	if !engine.DecideBootstrap(engine.BootstrapFacts{External: present(contract.V1Beta2), Created: true}).Created {
		t.Error("bootstrap data were there")
	}
	if !decideInfrastructure(infrastructureFacts{External: present(contract.V1Beta2), Provisioned: true}).Provisioned {
		t.Error("the group was provisioned")
	}
}

func TestAProviderThatTakesReadyBackWhileItScalesIsFollowed(t *testing.T) {
	// kubernetes-sigs/cluster-api-provider-azure#4982: Cluster API freezes the list meanwhile.
	pool := contract.InfraMachinePoolState{ProviderIDList: []string{"p://1", "p://2"}, HasProviderIDList: true,
		Replicas: contract.Some(int32(2))}
	d := decideInfrastructure(infrastructureFacts{External: present(contract.V1Beta1), Pool: pool, Provisioned: true,
		Known: []string{"p://1"}})
	if diff := cmp.Diff([]string{"p://1", "p://2"}, d.IDs.Or(nil)); diff != "" || d.Replicas != contract.Some(int32(2)) {
		t.Errorf("replicas %v (-want +got):\n%s", d.Replicas, diff)
	}
	d = decideInfrastructure(infrastructureFacts{External: present(contract.V1Beta1), Pool: pool})
	if d.IDs.Found() || d.Replicas.Found() {
		t.Errorf("before it was ever provisioned nothing is taken over, got %+v", d)
	}
}

func TestWhatAListOfProviderIDsMeans(t *testing.T) {
	replicas := contract.Some[int32]
	long := "p://" + strings.Repeat("x", 600)
	for name, tc := range map[string]struct {
		pool     contract.InfraMachinePoolState
		want     contract.Opt[[]string]
		complete bool
		reason   string
	}{
		"the same instances in another order": {
			pool: contract.InfraMachinePoolState{ProviderIDList: []string{"p://2", "p://1", "p://2"}, HasProviderIDList: true,
				Replicas: replicas(2)}, complete: true},
		"no list": {pool: contract.InfraMachinePoolState{}},
		"no list, and there are none": {pool: contract.InfraMachinePoolState{Replicas: replicas(0)}, want: contract.Some([]string{}),
			complete: true},
		"no list, and there are some":    {pool: contract.InfraMachinePoolState{Replicas: replicas(2)}},
		"an empty list beside instances": {pool: contract.InfraMachinePoolState{HasProviderIDList: true, Replicas: replicas(2)}},
		"an empty list of none": {pool: contract.InfraMachinePoolState{HasProviderIDList: true, Replicas: replicas(0)},
			want: contract.Some([]string{}), complete: true},
		"an empty list and an unknown number": {pool: contract.InfraMachinePoolState{HasProviderIDList: true},
			want: contract.Some([]string{}), complete: true},
		"fewer than there are": {
			pool: contract.InfraMachinePoolState{ProviderIDList: []string{"p://1"}, HasProviderIDList: true, Replicas: replicas(2)},
			want: contract.Some([]string{"p://1"})},
		"one of them twice, fewer than there are": {
			pool: contract.InfraMachinePoolState{ProviderIDList: []string{"p://1", "p://1"}, HasProviderIDList: true, Replicas: replicas(2)},
			want: contract.Some([]string{"p://1"})},
		"an ID that no pool can hold": {pool: contract.InfraMachinePoolState{ProviderIDList: []string{long}, HasProviderIDList: true},
			reason: external.ReasonContractViolation},
		"a count that is none": {pool: contract.InfraMachinePoolState{HasProviderIDList: true, Replicas: replicas(-1)},
			reason: external.ReasonContractViolation},
	} {
		t.Run(name, func(t *testing.T) {
			tc.pool.Provisioned = true
			d := decideInfrastructure(infrastructureFacts{External: present(contract.V1Beta2), Pool: tc.pool, Known: []string{"p://1", "p://2"}})
			if diff := cmp.Diff(tc.want.Or(nil), d.IDs.Or(nil), cmpopts.EquateEmpty()); diff != "" || d.IDs.Found() != tc.want.Found() ||
				d.Complete != tc.complete {
				t.Errorf("changed %v, complete %v (-want +got):\n%s", d.IDs.Found(), d.Complete, diff)
			}
			if tc.reason != "" && d.Condition.Reason != tc.reason {
				t.Errorf("want reason %s, got %+v", tc.reason, d.Condition)
			}
		})
	}
}

func TestReplicasThatAreNoLongerReported(t *testing.T) {
	for _, list := range [][]string{nil, {"p://1"}} {
		pool := contract.InfraMachinePoolState{Provisioned: true, HasProviderIDList: true, ProviderIDList: list}
		d := decideInfrastructure(infrastructureFacts{
			External: present(contract.V1Beta2), Pool: pool, Known: []string{"p://1", "p://2"}, Observed: contract.Some(int32(2)),
		})
		if d.Complete || (len(list) == 0 && d.IDs.Found()) {
			t.Errorf("%v of 2: no Node may be retired, got %+v", list, d)
		}
	}
}

func TestAFailureIsReportedWithoutAPanicAndEndsWhenTheProviderRecovers(t *testing.T) {
	// Cluster API panics on the first failure (kubernetes-sigs/cluster-api#14234), and never took one back before (#7332).
	failed := decideInfrastructure(
		infrastructureFacts{External: present(contract.V1Beta1),
			Pool: contract.InfraMachinePoolState{FailureReason: "CreateError", FailureMessage: "no quota"}})
	before := engine.Failure{}
	after := func(infrastructure external.Presence, f engine.Failure) engine.Failure {
		p, _ := acting(t, &api{})
		p.State.FailureReason, p.State.FailureMessage = before.Reason, before.Message
		p.infrastructure.Presence, p.failure = infrastructure, f
		p.sumFailure()
		if reason, set := p.Update.FailureReason.Value(); set {
			message, _ := p.Update.FailureMessage.Value()
			return engine.Failure{Reason: reason, Message: message}
		}
		return before
	}
	got := after(external.Present, failed.Failure)
	if got.Reason != "CreateError" || !strings.Contains(got.Message, "no quota") {
		t.Errorf("got %+v", got)
	}
	before = got
	recovered := decideInfrastructure(infrastructureFacts{External: present(contract.V1Beta1)})
	if now := after(external.Present, recovered.Failure); now != (engine.Failure{}) {
		t.Errorf("want none after the recovery, got %+v", now)
	}
	unread := decideInfrastructure(infrastructureFacts{External: external.Object{Presence: external.Unread}})
	if now := after(external.Unread, unread.Failure); now != got {
		t.Errorf("what is unread has not recovered, got %+v", now)
	}
	gone := decideInfrastructure(infrastructureFacts{External: external.Object{Presence: external.Absent}, Provisioned: true})
	if now := after(external.Absent, gone.Failure); now.Reason != engine.ReasonInvalidConfiguration {
		t.Errorf("infrastructure that was taken away is a failure, got %+v", now)
	}
}

func TestAFreshPoolIsNotReadyBeforeAnythingExists(t *testing.T) {
	// Cluster API finds 0 == 0 == 0 and says ReplicasReady.
	f := statusFacts{Pool: &contract.MachinePoolState{}, Desired: contract.Some(int32(3)), Known: true}
	conditions := f.conditions()
	if engine.HasStatus(conditions, contract.ConditionAvailable, metav1.ConditionTrue) {
		t.Errorf("got %+v", conditions)
	}
	if phase := f.phase().Phase; phase != "Pending" {
		t.Errorf("want Pending, got %s", phase)
	}
	f.Desired = contract.Opt[int32]{}
	if c, _ := engine.Find(f.conditions(), contract.ConditionAvailable); c.Reason != contract.ReasonWaitingForReplicasSet {
		t.Errorf("how many is unknown: got %+v", c)
	}
}

func TestThePhaseFollowsTheFactsAndNotTheStoredOne(t *testing.T) {
	pool := &contract.MachinePoolState{BootstrapReady: contract.Some(true), InfrastructureReady: contract.Some(true)}
	pool.NodeReadyReplicas, pool.Nodes = contract.Some(int32(2)), []contract.NodeRef{{Name: "n"}}
	f := statusFacts{Pool: pool, Desired: contract.Some(int32(2)), Listed: 2}
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "Running"},
		{func() { pool.NodeReadyReplicas = contract.Some(int32(1)) }, "ScalingUp"}, // a Node went NotReady
		{func() { pool.Annotations = map[string]string{contract.ReplicasManagedByAnnotation: "other"} }, "Scaling"},
		{func() { pool.NodeReadyReplicas = contract.Some(int32(2)) }, "Running"},
		{func() { f.Listed, pool.Annotations = 3, nil }, "ScalingDown"},
		{func() { f.Failed = true }, "Failed"},
		{func() { f.Failed, f.Listed = false, 2 }, "Running"},
		{func() { pool.InfrastructureReady = contract.Some(false) }, "Provisioned"},
		{func() { pool.Deleting = actingNow }, "Deleting"},
	} {
		step.change()
		if got := string(f.phase().Phase); got != step.want {
			t.Errorf("want %s, got %s", step.want, got)
		}
	}
}

func TestConditionsNameWhatIsWrong(t *testing.T) {
	pool := &contract.MachinePoolState{InfrastructureReady: contract.Some(true)}
	pool.ObservedReplicas = contract.Some(int32(5))
	f := statusFacts{
		Pool: pool, Desired: contract.Some(int32(6)), Listed: 4, Known: true,
		Counts:    counts{Ready: 1, Available: 1, NotReady: []string{"n1"}, Outdated: []string{"n2"}},
		Instances: instances{{State: missing, ID: "p://3"}, {State: ambiguous, ID: "p://4"}, {State: claimed, ID: "p://5"}},
	}
	type brief struct{ Type, Status, Reason, Message string }
	var got []brief
	for _, c := range f.conditions() {
		got = append(got, brief{c.Type, string(c.Status), c.Reason, c.Message})
	}
	want := []brief{
		{contract.ConditionAvailable, "False", ReasonNotAvailable, "1 available replicas, at least 6 required"},
		{contract.ConditionMachinesReady, "False", contract.ReasonAmbiguousNode, "* Not ready: n1\n* Without a Node: p://3\n" +
			"* Named by another pool too, so that no pool uses their Nodes: p://5; let each instance be in one pool\n" +
			"* With several Nodes: p://4; delete those that are wrong\n* Without a provider ID: 1"},
		{contract.ConditionMachinesUpToDate, "False", contract.ReasonNotUpToDate, "* Not up to date: n2"},
		{contract.ConditionScalingUp, "True", contract.ReasonScalingUp, "Scaling up from 5 to 6 replicas"},
		{contract.ConditionScalingDown, "False", contract.ReasonNotScalingDown, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Known, f.Unread = false, external.Problem{Reason: contract.ReasonConnectionDown, Message: "not connected"}
	for _, kind := range []string{contract.ConditionAvailable, contract.ConditionMachinesReady, contract.ConditionMachinesUpToDate} {
		if c, _ := engine.Find(f.conditions(), kind); c.Status != metav1.ConditionUnknown || c.Reason != contract.ReasonConnectionDown {
			t.Errorf("what cannot be read is unknown, got %+v", c)
		}
	}
}

func TestConditionsAlwaysHaveAReason(t *testing.T) {
	// The Nodes are known, and the Machines could not be listed: an empty reason would have the whole status refused.
	f := statusFacts{Pool: &contract.MachinePoolState{InfrastructureReady: contract.Some(true)}, Desired: contract.Some(int32(1))}
	for _, c := range f.conditions() {
		if mirrored := engine.Mirror(c.Type, contract.Some(c), c); mirrored.Reason == contract.ReasonInvalidCondition {
			t.Errorf("%s: reason %q", c.Type, c.Reason)
		}
	}
}

func TestEachInfraMachineHasOneMachine(t *testing.T) {
	one := func(name, infra string, deleting, unhealthy bool) machine {
		m := &contract.MachineState{Metadata: contract.Metadata{Key: types.NamespacedName{Name: name}, UID: types.UID(name)}}
		m.Infrastructure.Name = infra
		if deleting {
			m.Deleting = time.Unix(1, 0)
		}
		if unhealthy {
			m.Conditions = []metav1.Condition{
				engine.Condition(contract.ConditionHealthCheckSucceeded, metav1.ConditionFalse, "R", ""),
				engine.Condition(contract.ConditionOwnerRemediated, metav1.ConditionFalse, "R", ""),
			}
		}
		return machineOf(m, nil)
	}
	ours := infraMachine{Ours: true}
	facts, requested := &machines{
		infra: map[string]infraMachine{"new-b": {Ours: true, Wanted: true}, "new-a": {Ours: true, Wanted: true}, "old": ours, "sick-1": ours,
			"sick-2": ours, "going": ours, "taken-out": ours},
		own: []machine{
			one("named-otherwise", "old", false, false), one("lost", "is-gone", false, false),
			one("lost-going", "is-gone-too", true, false),
			one("sick-1", "sick-1", false, true), one("sick-2", "sick-2", false, true),
		},
	}, engine.Deletions{}
	machineNames := func(all []machine) (names []string) {
		for _, m := range all {
			names = append(names, m.Key.Name)
		}
		return names
	}
	create, orphaned, replace := facts.plan(requested)
	got := [][]string{create, machineNames(orphaned), machineNames(replace)}
	if diff := cmp.Diff([][]string{{"new-a", "new-b"}, {"lost"}, {"sick-1"}}, got); diff != "" {
		t.Errorf("created, orphaned, replaced (-want +got):\n%s", diff)
	}
	requested = engine.Deletions{"sick-2": {}}
	if _, _, got := facts.plan(requested); len(got) != 0 {
		t.Errorf("the deletion of one was requested already, got %v", machineNames(got))
	}
	requested = nil
	paused := func(at int) { facts.own[at].Annotations = map[string]string{contract.PausedAnnotation: ""} }
	paused(1)
	paused(3)
	_, orphaned, replace = facts.plan(requested)
	got = [][]string{machineNames(orphaned), machineNames(replace)}
	if diff := cmp.Diff([][]string{nil, {"sick-2"}}, got); diff != "" {
		t.Errorf("paused ones stay, orphaned, replaced (-want +got):\n%s", diff)
	}
	facts.own[1].Annotations, facts.own[3].Annotations = nil, nil
	facts.infra["is-gone"] = infraMachine{}
	if _, got, _ := facts.plan(requested); len(got) != 0 {
		t.Errorf("its InfraMachine is there, and not of the pool, got %v", machineNames(got))
	}
	delete(facts.infra, "is-gone")
	facts.gvk.Kind = "OtherMachine"
	if _, got, _ := facts.plan(requested); len(got) != 0 {
		t.Errorf("InfraMachines of the kind that the provider made before were not read, got %v", machineNames(got))
	}
	facts.gvk.Kind = ""
	facts.own = append(facts.own, one("sick-0", "sick-0", true, true))
	if _, _, got := facts.plan(requested); len(got) != 0 {
		t.Errorf("one is on its way out already, got %v", machineNames(got))
	}
}

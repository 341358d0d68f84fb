package machine

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/internal/patch"
)

// everything sets each member of an update.
func everything() contract.MachineUpdate {
	change := map[string]contract.Change[string]{"k": contract.SetTo("v")}
	return contract.MachineUpdate{
		MetadataUpdate: contract.MetadataUpdate{
			Finalizers: contract.SetTo([]string{"f"}), OwnerReferences: contract.SetTo([]metav1.OwnerReference{{}}),
			Labels: change, Annotations: change,
		},
		ProviderID: contract.SetTo("id"), DataSecretName: contract.SetTo("s"), Phase: contract.SetTo("Running"),
		Node: contract.SetTo(contract.NodeRef{Name: "n"}), BootstrapReady: contract.SetTo(true),
		InfrastructureReady: contract.SetTo(true), Addresses: contract.SetTo([]contract.Address{{}}),
		FailureDomain: contract.SetTo("z"), WantedFailureDomain: contract.SetTo("z"), ObservedGeneration: contract.SetTo[int64](1),
		LastUpdated: contract.SetTo(time.Unix(1, 0)), DrainStarted: contract.SetTo(time.Unix(1, 0)),
		VolumeDetachStarted: contract.SetTo(time.Unix(1, 0)), FailureReason: contract.SetTo("r"),
		FailureMessage:     contract.SetTo("m"),
		CertificatesExpire: contract.SetTo(time.Unix(1, 0)),
		Conditions:         []metav1.Condition{{Type: "X"}}, RemoveConditions: []string{"Y"},
	}
}

func TestNoMemberOfAnUpdateIsForgottenByTheFlush(t *testing.T) {
	// The flush itself fills in generation and conditions.
	derived := map[string]bool{"ObservedGeneration": true, "Conditions": true}
	all := reflect.ValueOf(everything())
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		t.Run(name, func(t *testing.T) {
			require.False(t, all.Field(i).IsZero(), "a new member of MachineUpdate: set %s in everything()", name)
			var one contract.MachineUpdate
			reflect.ValueOf(&one).Elem().Field(i).Set(all.Field(i))
			obj := testKind().New()
			require.NoError(t, testKind().Adapter.Write(obj, contract.MachineUpdate{Conditions: []metav1.Condition{{Type: "Y"}}}))
			s := attached(&Scope{Scope: base{Object: obj, Update: one}, env: testReconciler(testKind(), accepting(), Options{})})
			require.NoError(t, s.Flush(t.Context(), engine.Writing{}))
			require.NotEqual(t, derived[name], s.Written())
		})
	}
}

// Conditions of Nodes have no generation, and a layout may have no place for what an update says. Such a Machine would be
// dirty for ever, and be looked at again after every delay.
func TestAStatusThatTheObjectSaysAsWellAsItCanIsNotDirty(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Machine"}
	asserted := []metav1.Condition{{Type: "Ready", Status: "False", Reason: "R", Message: "m"}}
	now := time.Unix(1_800_000_000, 0).UTC()
	narrow := contract.MachineLayout{Conditions: contract.ConditionsAt("status", "conditions")}
	for name, layout := range map[string]*contract.MachineLayout{
		"no place for addresses and generation": &narrow,
		"conditions of Nodes":                   contract.GardenerLayouts().Machine,
		"everything has a place":                contract.LayoutsOf(contract.V1Beta2).Machine,
	} {
		t.Run(name, func(t *testing.T) {
			kind := contract.Unstructured(gvk, layout)
			clock := clocktesting.NewFakePassiveClock(now)
			r := testReconciler(kind, accepting(), Options{Options: engine.Options{Clock: clock}})
			obj := kind.New()
			obj.SetGeneration(7)
			addresses := []contract.Address{{Type: "Hostname", Address: "h"}}
			update := contract.MachineUpdate{
				Conditions: contract.ChangedConditions(nil, asserted, 7, now), ObservedGeneration: contract.SetTo[int64](7),
				Addresses: contract.SetTo(addresses),
			}
			dirty := func() bool {
				s := attached(&Scope{Scope: base{Object: obj, Now: now.Add(time.Hour), Asserted: asserted}, env: r})
				require.NoError(t, kind.Adapter.Read(obj, &s.State))
				s.Stored = s.State.Conditions
				s.SetAddresses(addresses)
				require.NoError(t, s.Flush(t.Context(), engine.Writing{Observes: true}))
				return s.Written()
			}
			require.True(t, dirty(), "what is not written yet is not noticed")
			require.NoError(t, kind.Adapter.Write(obj, update))
			require.False(t, dirty(), "it would be looked at again and again")
		})
	}
}

// acceptsAll is a client whose patches succeed.
type acceptsAll struct{ client.Client }

func (acceptsAll) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return nil
}
func (acceptsAll) Status() client.SubResourceWriter { return acceptsStatus{} }

type acceptsStatus struct{ client.SubResourceWriter }

func (acceptsStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

func accepting() Ports { return Ports{Ports: engine.Ports{Client: acceptsAll{}}} }

func TestOnlyAWholePassSaysThatAGenerationWasObserved(t *testing.T) {
	for name, tc := range map[string]struct {
		failed, paused bool
		observed       int64
		want           bool
	}{
		"a whole pass":   {want: true},
		"a step failed":  {failed: true},
		"it is paused":   {paused: true},
		"nothing is new": {observed: 7},
		"failed and old": {failed: true, observed: 6},
	} {
		t.Run(name, func(t *testing.T) {
			obj := testKind().New()
			obj.SetGeneration(7)
			s := attached(&Scope{Scope: base{Object: obj}, env: testReconciler(testKind(), accepting(), Options{})})
			s.State.ObservedGeneration = tc.observed
			if tc.paused {
				s.Pause("", "", "")
			}
			var failed error
			if tc.failed {
				failed = errors.New("boom")
			}
			require.NoError(t, flush(t.Context(), s, failed))
			require.Equal(t, tc.want, s.Written())
		})
	}
}

func TestWhatAStepNeedsIsStoredInItsPass(t *testing.T) {
	for name, tc := range map[string]struct {
		step  func(*Scope)
		wrote bool
		again time.Duration
	}{
		"a drain, in an annotation":    {func(s *Scope) { s.end(StepDrain, "u") }, true, 0},
		"a phase, which nothing needs": {func(s *Scope) { s.setPhase("Pending") }, false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Machine"}
			kind, now := contract.Unstructured(gvk, contract.LayoutsOf(contract.V1Beta2).Machine), time.Unix(1000, 0)
			env := testReconciler(kind, accepting(), Options{Options: engine.Options{StatusDelay: time.Minute}})
			pass := func(step func(*Scope)) *Scope {
				s := attached(&Scope{Scope: base{Object: kind.New(), Now: now}, env: env})
				step(s)
				require.NoError(t, s.Flush(t.Context(), engine.Writing{}))
				return s
			}
			pass(func(s *Scope) { s.setPhase("Provisioning") })
			s := pass(tc.step)
			require.Equal(t, tc.wrote, s.Written())
			require.Equal(t, tc.again, s.RequeueAfter())
		})
	}
}

func TestAnEventIsRecordedOnceWhileAStatusWaits(t *testing.T) {
	now, recorder := time.Unix(1000, 0), events.NewFakeRecorder(10)
	first := scopeWithVolumes(nil, now, 0)
	env := first.env
	env.frame.Options.Recorder, env.frame.Options.StatusDelay = recorder, time.Second
	env.frame.Writer = patch.NewWriter(acceptsAll{}, clocktesting.NewFakePassiveClock(now))
	passes := func(phase string, tells bool) time.Duration {
		s := scopeWithVolumes(nil, now, 0)
		s.env = env
		if phase != "" {
			s.setPhase(phase)
		}
		if tells {
			s.addEvent("Normal", "Reason", "Act", "it happened")
		}
		attached(s)
		require.NoError(t, flush(t.Context(), s, nil))
		return s.RequeueAfter()
	}
	require.Zero(t, passes("Pending", true))
	require.Len(t, recorder.Events, 1)
	require.Equal(t, time.Second, passes("Provisioning", true), "its status waits")
	require.Zero(t, passes("", true))
	require.Len(t, recorder.Events, 1, "it happened once")
}

// refusesAll is a client whose patches fail.
type refusesAll struct{ acceptsAll }

func (refusesAll) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("refused")
}

func TestFlush(t *testing.T) {
	t.Run("an event of a pass that could not be written is recorded by the one that repeats it alone", func(t *testing.T) {
		now, recorder := time.Unix(1000, 0), events.NewFakeRecorder(10)
		env := scopeWithVolumes(nil, now, 0).env
		env.frame.Options.Recorder = recorder
		pass := func(c client.Client) error {
			env.frame.Writer = patch.NewWriter(c, clocktesting.NewFakePassiveClock(now))
			s := scopeWithVolumes(nil, now, 0)
			s.env = env
			attached(s)
			s.ChangeAnnotation("example.com/changed", contract.SetTo("yes"))
			s.addEvent("Normal", "Reason", "Act", "it happened")
			return flush(t.Context(), s, nil)
		}
		require.Error(t, pass(refusesAll{}))
		require.Empty(t, recorder.Events)
		require.NoError(t, pass(acceptsAll{}))
		require.Len(t, recorder.Events, 1)
	})
}

func TestWhatTheAPIServerDoesNotKeepIsNamed(t *testing.T) {
	node := contract.NodeRef{Name: "n", UID: "u"}
	for name, tc := range map[string]struct {
		update       contract.MachineUpdate
		wanted, have contract.MachineState
		status       bool
		whole        bool
		want         string
	}{
		"nothing was written": {have: contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "x"}}},
		"the finalizer": {
			update: contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.SetTo([]string{"f"})}},
			wanted: contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f"}}}, want: "the finalizer f"},
		"the finalizer of a webhook's own beside it": {
			update: contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.SetTo([]string{"f"})}},
			wanted: contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f"}}},
			have:   contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f", "other"}}}},
		"its removal": {
			update: contract.MachineUpdate{MetadataUpdate: contract.MetadataUpdate{Finalizers: contract.SetTo([]string{})}},
			have:   contract.MachineState{Metadata: contract.Metadata{Finalizers: []string{"f"}}}, want: "the removal of the finalizer f"},
		"the provider ID": {
			update: contract.MachineUpdate{ProviderID: contract.SetTo("x")},
			wanted: contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "x"}},
			have:   contract.MachineState{MachineSpec: contract.MachineSpec{ProviderID: "y"}}, want: "the provider ID"},
		"what a status that is not due would say": {
			update: contract.MachineUpdate{Node: contract.SetTo(node), DrainStarted: contract.SetTo(time.Unix(1, 0))},
			wanted: contract.MachineState{Node: node, DrainStarted: time.Unix(1, 0)}},
		"the UID of a Node that its CRD has no field for": {
			update: contract.MachineUpdate{Node: contract.SetTo(node)}, status: true,
			wanted: contract.MachineState{Node: node}, have: contract.MachineState{Node: contract.NodeRef{Name: "n"}},
			want: "the reference to the Node with its UID"},
		"what a drain must not begin without": {
			update: contract.MachineUpdate{Node: contract.SetTo(node), DrainStarted: contract.SetTo(time.Unix(1, 0))},
			wanted: contract.MachineState{Node: node, Metadata: contract.Metadata{Deleting: time.Unix(1, 0)}, DrainStarted: time.Unix(1, 0)},
			have:   contract.MachineState{Metadata: contract.Metadata{Deleting: time.Unix(1, 0)}}, whole: true,
			want: "the reference to the Node with its UID, when the drain began"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{State: tc.wanted, Update: tc.update}, env: &Reconciler{frame: &frame{Finalizer: "f"}}}
			require.Equal(t, tc.want, s.missingIn(&tc.have, tc.status, tc.whole))
		})
	}
}

func reasonsOf(all []engine.Event) []string {
	var reasons []string
	for _, e := range all {
		reasons = append(reasons, e.Reason)
	}
	return reasons
}

func TestAnEventIsRecordedOncePerTransition(t *testing.T) {
	deleted := bothOfNode(metav1.ConditionFalse, ReasonNodeDeleted, "Node n has been deleted while the Machine still exists")
	for name, tc := range map[string]struct {
		stored, written []metav1.Condition
		deleting        bool
		want            []string
	}{
		"what goes in a deletion is no trouble": {written: deleted, deleting: true},
		"two conditions that say the same":      {written: deleted, want: []string{ReasonNodeDeleted}},
		"it was said before":                    {stored: deleted, written: deleted},
		"another message of the same": {stored: deleted,
			written: bothOfNode(metav1.ConditionFalse, ReasonNodeDeleted, "Node n has been deleted")},
		"nothing bad": {written: bothOfNode(metav1.ConditionTrue, ReasonNodeReady, "")},
		"two that say different things": {
			written: []metav1.Condition{
				engine.Condition(contract.ConditionBootstrapConfigReady, metav1.ConditionFalse, external.ReasonCRDNotFound, "install A"),
				engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionFalse, external.ReasonCRDNotFound, "install B")},
			want: []string{external.ReasonCRDNotFound, external.ReasonCRDNotFound}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(tc.want, reasonsOf(engine.ConditionEvents(tc.stored, tc.written, problems(tc.deleting)))))
		})
	}
}

func TestNodeIsNew(t *testing.T) {
	recorded := contract.NodeRef{Name: "n", UID: "u"}
	for name, tc := range map[string]struct {
		have, set contract.NodeRef
		want      bool
	}{
		"the first Node":                       {set: recorded, want: true},
		"the recorded one":                     {have: recorded, set: recorded},
		"another Node of the same name":        {have: recorded, set: contract.NodeRef{Name: "n", UID: "v"}, want: true},
		"another name":                         {have: recorded, set: contract.NodeRef{Name: "m", UID: "v"}, want: true},
		"the recorded one, whose UID was lost": {have: contract.NodeRef{Name: "n"}, set: recorded},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{State: contract.MachineState{Node: tc.have}}}
			if s.SetNode(tc.set); (len(s.events) > 0) != tc.want {
				t.Errorf("want an event: %t, got %v", tc.want, s.events)
			}
		})
	}
}

func TestReasonsOfEventsAreWords(t *testing.T) {
	for _, reason := range append(problems(false), EventNodeMatched, EventNodeDrained) {
		require.False(t, reason == "" || strings.ContainsAny(reason, " _:,.-"), "%q is no word", reason)
	}
}

func TestWhatAPassTellsIsRecordedOnce(t *testing.T) {
	type told struct {
		deletion    time.Duration // when it was requested, zero for none
		tells, want []string
	}
	for name, passes := range map[string][]told{
		"at once":                          {{tells: []string{"A"}, want: []string{"A"}}},
		"not again by a pass that repeats": {{tells: []string{"A"}, want: []string{"A"}}, {tells: []string{"A"}}},
		"again when it happens again":      {{tells: []string{"A"}, want: []string{"A"}}, {}, {tells: []string{"A"}, want: []string{"A"}}},
		"both of a pass":                   {{tells: []string{"A", "B"}, want: []string{"A", "B"}}},
		"one that is new beside one that is not": {{tells: []string{"A"}, want: []string{"A"}},
			{tells: []string{"A", "B"}, want: []string{"B"}}},
		"once in a deletion": {{deletion: 1, tells: []string{"A"}, want: []string{"A"}}, {deletion: 1}, {deletion: 1, tells: []string{"A"}}},
		"again in another deletion": {{deletion: 1, tells: []string{"A"}, want: []string{"A"}},
			{deletion: 2, tells: []string{"A"}, want: []string{"A"}}},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &recollection{}
			for i, p := range passes {
				deleted := time.Time{}.Add(p.deletion)
				memory.observeDeletion(deleted)
				s := &Scope{}
				for _, reason := range p.tells {
					s.addEvent("Normal", reason, "Act", "note")
					s.addEvent("Normal", reason, "Act", "note") // a step that is called twice
				}
				require.Empty(t, cmp.Diff(p.want, reasonsOf(memory.newEvents(s.events, !deleted.IsZero()))), "pass %d", i)
			}
		})
	}
}

func TestAFailureIsReportedInClusterAPIsWordsAndStays(t *testing.T) {
	found := present("FakeMachine")
	found.GVK = contract.Ref{Group: "g", Kind: "FakeMachine"}.GroupKind().WithVersion("v1")
	for name, tc := range map[string]struct {
		have, says engine.Failure
		want       engine.Failure
	}{
		"none": {have: engine.Failure{Reason: "R", Message: "m"}, want: engine.Failure{Reason: "R", Message: "m"}},
		"both": {says: engine.Failure{Reason: "CreateError", Message: "no quota"}, want: engine.Failure{Reason: "CreateError",
			Message: `Failure detected from referenced resource g/v1, Kind=FakeMachine with name "m": no quota`}},
		"a reason alone": {have: engine.Failure{Reason: "R", Message: "m"}, says: engine.Failure{Reason: "CreateError"},
			want: engine.Failure{Reason: "CreateError", Message: "m"}},
		"a message alone": {have: engine.Failure{Reason: "R", Message: "m"}, says: engine.Failure{Message: "x"},
			want: engine.Failure{Reason: "R", Message: `Failure detected from referenced resource g/v1, Kind=FakeMachine with name "m": x`}},
		"a long one": {says: engine.Failure{Reason: strings.Repeat("x", 300)},
			want: engine.Failure{Reason: strings.Repeat("x", 250) + " ..."}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{Scope: base{State: contract.MachineState{FailureReason: tc.have.Reason, FailureMessage: tc.have.Message}}}
			s.recordFailure(engine.FailureOf(found, tc.says.Reason, tc.says.Message))
			require.Equal(t, tc.want, (engine.Failure{Reason: s.State.FailureReason, Message: s.State.FailureMessage}))
		})
	}
}

package machine

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
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
			if all.Field(i).IsZero() {
				t.Fatalf("a new member of MachineUpdate: set %s in everything()", name)
			}
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
				if err := kind.Adapter.Read(obj, &s.State); err != nil {
					t.Fatal(err)
				}
				s.Stored = s.State.Conditions
				s.SetAddresses(addresses)
				require.NoError(t, s.Flush(t.Context(), engine.Writing{Observes: true}))
				return s.Written()
			}
			if !dirty() {
				t.Error("what is not written yet is not noticed")
			}
			if err := kind.Adapter.Write(obj, update); err != nil {
				t.Fatal(err)
			}
			if dirty() {
				t.Error("it would be looked at again and again")
			}
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
			s.tell("Normal", "Reason", "Act", "it happened")
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

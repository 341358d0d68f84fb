package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/internal/engine"
	"github.com/machinist-dev/machinist/internal/external"
	"github.com/machinist-dev/machinist/noderef"
)

func TestStepsRunInOrder(t *testing.T) {
	boom := errors.New("boom")
	var ran []string
	on := func(life engine.Life, name string, result Result, err error, labels ...string) Step {
		return Step{Name: name, On: life, Run: func(_ context.Context, s *Scope) (Result, error) {
			ran = append(ran, name)
			for _, value := range labels {
				s.SetLabel("key", value)
			}
			return result, err
		}}
	}
	step := func(name string, result Result, labels ...string) Step {
		return on(engine.InBoth, name, result, nil, labels...)
	}
	checkpoint, stop := Result{Checkpoint: true}, Result{Stop: true}
	asserts := Step{Name: "asserts", On: engine.InBoth, Run: func(_ context.Context, s *Scope) (Result, error) {
		s.Assert(engine.Condition("Asserted", metav1.ConditionTrue, "Reason", ""))
		return checkpoint, nil
	}}
	next, beside, closing := step("next", Result{}), step("beside", Result{}), step("closing", Result{})
	beside.ObjectOnly, closing.Closing = true, true
	for name, tc := range map[string]struct {
		steps    []Step
		ran      string
		result   Result
		deleting bool
		err      error
	}{
		"each in its part of the life": {steps: []Step{on(engine.InDeletion, "b", Result{}, nil), on(engine.InRunning, "a", Result{}, nil)},
			ran: "a"},
		"and in a deletion": {deleting: true,
			steps: []Step{on(engine.InRunning, "a", Result{}, nil), on(engine.InDeletion, "b", Result{}, nil)}, ran: "b"},
		"the soonest requeue wins": {
			steps: []Step{step("a", Result{RequeueAfter: time.Hour}), step("b", Result{RequeueAfter: time.Second}), next},
			ran:   "a b next", result: Result{RequeueAfter: time.Second}},
		"a stop skips the rest": {steps: []Step{step("a", stop), next, closing}, ran: "a closing", result: stop},
		"a checkpoint skips the rest": {steps: []Step{step("a", checkpoint, "new"), next, closing},
			ran: "a closing", result: checkpoint},
		"a checkpoint of conditions skips it":   {steps: []Step{asserts, next, closing}, ran: "closing", result: checkpoint},
		"a checkpoint without a change is none": {steps: []Step{step("a", checkpoint), next, closing}, ran: "a next closing"},
		"nor is one that sets what is there":    {steps: []Step{step("a", checkpoint, "new", "old"), next, closing}, ran: "a next closing"},
		"what decides about the Machine alone is part of a checkpoint": {steps: []Step{step("a", checkpoint, "new"), next, beside, closing},
			ran: "a beside closing", result: checkpoint},
		"and not of a pass that was stopped": {steps: []Step{step("a", stop), beside, closing}, ran: "a closing", result: stop},
		"while it lives, one failure does not keep the others": {
			steps: []Step{on(engine.InRunning, "a", Result{}, boom), next, closing}, ran: "a next closing", err: boom},
		"in a deletion, order is safety": {deleting: true,
			steps: []Step{on(engine.InDeletion, "a", Result{}, boom), next, closing}, ran: "a closing", err: boom},
	} {
		t.Run(name, func(t *testing.T) {
			ran = nil
			obj := testKind().New()
			obj.SetLabels(map[string]string{"key": "old"})
			s := attached(&Scope{Scope: base{Object: obj}})
			s.State.Labels = obj.GetLabels()
			if tc.deleting {
				s.State.Deleting = time.Unix(1, 0)
			}
			result, err := run(t.Context(), tc.steps, s)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.ran, strings.Join(ran, " "))
			require.Equal(t, tc.result, result)
		})
	}
}

func TestUnknownStepsAreRefusedAllAtOnce(t *testing.T) {
	err := validateSteps(Steps().InsertBefore("tow", Step{}).Remove(""))
	require.EqualError(t, err, "no such step: \"tow\"\nno such step: \"\"")
	for _, steps := range []engine.Steps[*Scope]{
		Steps().Replace("nope", Step{}), Steps().Remove("nope"), Steps().InsertAfter("nope", Step{}),
	} {
		require.ErrorIs(t, validateSteps(steps), engine.ErrNoStep)
	}
}

func TestStepsThatAreRemovedSayNothing(t *testing.T) {
	all := Steps()
	require.Empty(t, cmp.Diff([]string(nil), neverSet(all)), "the default steps leave open")
	some := all.Remove(StepBootstrap).Remove(StepNode)
	require.False(t, len(some) != len(all)-2 || all[3].Name != StepBootstrap)
	require.Empty(t, cmp.Diff([]string{contract.ConditionBootstrapConfigReady, contract.ConditionNodeReady, ConditionNodeHealthy},
		neverSet(some)))
}

func TestAListOfStepsThatCannotBeSafeIsRefusedWithWhatToDo(t *testing.T) {
	do := func(context.Context, *Scope) (Result, error) { return Result{}, nil }
	without := func(names ...string) []Step {
		return slices.DeleteFunc(Steps(), func(s Step) bool { return slices.Contains(names, s.Name) })
	}
	own := func(on engine.Life) Step { return Step{Name: "own", On: on, Run: do} }
	behind := func(name string, step Step) []Step { return Steps().InsertAfter(name, step) }
	inRunning := func(name string) []Step {
		return Steps().Replace(name, Step{Name: name, On: engine.InRunning, Run: do})
	}
	moved := slices.Insert(without(StepDrain),
		slices.IndexFunc(without(StepDrain), func(s Step) bool { return s.Name == StepDeleteBootstrap }),
		Step{Name: StepDrain, On: engine.InDeletion, Run: do})
	for name, tc := range map[string]struct {
		steps []Step
		says  []string // none: it is accepted
	}{
		"no finalizer":                {without(StepFinalizer), []string{"no step finalizer in InRunning", "keep the step"}},
		"one that nothing takes away": {without(StepRemoveFinalizer), []string{"no step remove-finalizer in InDeletion", "keep the step"}},
		"neither":                     {without(StepFinalizer, StepRemoveFinalizer), []string{"no step finalizer", "no step remove-finalizer"}},
		"steps of the embedder alone": {[]Step{own(engine.InBoth), {Name: StepPhase, On: engine.InBoth, Run: do}}, nil},
		"none":                        {[]Step{}, nil},
		"behind the end": {behind(StepRemoveFinalizer, own(engine.InBoth)),
			[]string{"step own is after remove-finalizer", "put it in front, or set Closing"}},
		"behind the end, of a running one": {behind(StepPhase, own(engine.InRunning)), nil},
		"destroyed before the drain": {moved,
			[]string{"step drain is after delete-infrastructure", "keep the steps of Steps in their order"}},
		"a drain without a Node": {without(StepNode, StepVolumes, StepDeleteNode),
			[]string{"step drain needs step node in front of it, or no step looks its Node up in InDeletion"}},
		"volumes without a drain": {without(StepDrain),
			[]string{"step volumes needs step drain in front of it, or no step frees the volumes"}},
		"neither drain nor volumes":          {without(StepDrain, StepVolumes), nil},
		"nothing about Nodes":                {without(StepNode, StepDrain, StepVolumes, StepDeleteNode), nil},
		"a node step for running ones alone": {inRunning(StepNode), []string{"step drain needs", "step volumes needs", "step delete-node needs"}},
		"an infrastructure step for those":   {inRunning(StepInfrastructure), nil},
		"one of the embedder in deletions":   {slices.Insert(without(StepNode), 3, own(engine.InDeletion)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := validateSteps(tc.steps)
			require.Equal(t, len(tc.says) == 0, err == nil)
			for _, text := range tc.says {
				require.Contains(t, err.Error(), text)
			}
		})
	}
}

func TestAFailedStepIsALineOfReady(t *testing.T) {
	refused := fmt.Errorf("write Node n: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil))
	for name, tc := range map[string]struct {
		step string
		err  error
		says bool
	}{
		"a step of an embedder":                      {"own", errors.New("boom"), true},
		"a step with a condition of its own":         {StepNode, refused, false},
		"a label that a Node does not take":          {StepPropagate, refused, true},
		"a Node that could not be written this time": {StepPropagate, errors.New("timeout"), false},
	} {
		t.Run(name, func(t *testing.T) {
			step := Step{Name: tc.step}
			if at := engine.Position(Steps(), tc.step, engine.InBoth); at >= 0 {
				step = Steps()[at]
			}
			step.Run = func(context.Context, *Scope) (Result, error) { return Result{}, tc.err }
			s := attached(&Scope{})
			_, err := runStep(t.Context(), &step, s)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.says, len(s.failures) > 0)
		})
	}
}

func TestWhatAMachineIsFoundBy(t *testing.T) {
	t.Parallel()
	state := &contract.MachineState{Node: contract.NodeRef{Name: "n", UID: "u"}}
	state.UID = "u1"
	state.Key, state.ClusterName, state.ProviderID = types.NamespacedName{Namespace: "ns", Name: "m"}, "c", "p://1"
	state.Infrastructure = contract.Ref{Group: "infra", Kind: "Machine", Name: "i"}
	state.Bootstrap = contract.Ref{Group: "boot", Kind: "Config", Name: "m"}
	want := []string{
		"cluster:ns/c", "crd:machines.infra", "ref:machines.infra/i", "crd:configs.boot", "ref:configs.boot/m", "token:u1", "id:p://1",
		"node:ns/c/n",
	}
	require.ElementsMatch(t, want, indexKeys(state, types.NamespacedName{Namespace: "ns", Name: "c"}, noderef.Rules{}))
	state.Deleting = time.Unix(1, 0)
	want[len(want)-1] = "node://n"
	want = append(want, "deleting")
	require.ElementsMatch(t, want, indexKeys(state, types.NamespacedName{}, noderef.Rules{}))
	state.ProviderID = ""
	want = slices.Delete(want, 6, 7)
	require.ElementsMatch(t, want, indexKeys(state, types.NamespacedName{}, noderef.Rules{}))
}

func TestOnlyAMachineInDeletionReadsTheControlPlane(t *testing.T) {
	t.Parallel()
	plane := contract.Ref{Group: "g", Kind: "Plane", Name: "p"}
	r := testReconciler(testKind(), Ports{Ports: engine.Ports{Cache: broken{}}}, Options{})
	r.ports.ClusterOf = func(context.Context, types.NamespacedName) (external.ClusterView, error) {
		view := external.ClusterView{Presence: external.Present, ActiveControlPlaneMachines: contract.Some(3)}
		view.State.ControlPlane = plane
		return view, nil
	}
	r.frame.Ports.ClusterOf = r.ports.ClusterOf
	state := contract.MachineState{Metadata: contract.Metadata{Key: types.NamespacedName{Namespace: "ns", Name: "m"}}}
	state.ClusterName = "c"
	s := attached(&Scope{Scope: base{State: state}, env: r})
	s.lookUpCluster(t.Context())
	require.NoError(t, s.ClusterErr, "one that lives has no business with the control plane")

	s.State.Deleting = time.Unix(1, 0)
	s.lookUpCluster(t.Context())
	require.ErrorIs(t, s.ClusterErr, errBroken, "the control plane is unread, and not absent")
}

func TestObjectsAreGivenUpByTheControlPlaneThatMadeThemForItsMachine(t *testing.T) {
	t.Parallel()
	me := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: "m-uid",
		Controller: new(true), BlockOwnerDeletion: new(true)}
	plane := metav1.OwnerReference{APIVersion: "controlplane.cluster.x-k8s.io/v1beta1", Kind: "KubeadmControlPlane", Name: "cp", UID: "cp-uid",
		Controller: new(true)}
	ref := contract.Ref{Group: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp"}
	member, worker := map[string]string{contract.ControlPlaneLabel: ""}, map[string]string(nil)
	for name, tc := range map[string]struct {
		labels  map[string]string
		plane   contract.Ref
		want    []metav1.OwnerReference
		foreign bool
	}{
		"a Machine of the control plane takes it":  {labels: member, plane: ref, want: []metav1.OwnerReference{me}},
		"a worker does not":                        {labels: worker, plane: ref, foreign: true},
		"another control plane does not let it go": {labels: member, plane: contract.Ref{Group: "g", Kind: "K", Name: "cp"}, foreign: true},
		"without a Cluster it is not known":        {labels: member, foreign: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scope{env: testReconciler(testKind(), Ports{}, Options{})}
			s.State.Labels, s.Cluster.State.ControlPlane = tc.labels, tc.plane
			got, _, foreign := engine.Own([]metav1.OwnerReference{plane}, me, s.givesUp())
			if diff := cmp.Diff(tc.want, got); diff != "" || (foreign != nil) != tc.foreign {
				t.Errorf("foreign: want %v, got %v; owners (-want +got):\n%s", tc.foreign, foreign, diff)
			}
		})
	}
}

func TestTheConditionOfAReferencedObjectStaysOnlyWhileAReadIsPending(t *testing.T) {
	t.Parallel()
	said := engine.Condition(contract.ConditionInfrastructureReady, metav1.ConditionTrue, contract.ReasonReady, "")
	for name, tc := range map[string]struct {
		object external.Object
		stored metav1.Condition
		want   bool
	}{
		"CRDs are not listed": {external.Object{Presence: external.Unread}, said, true},
		"its kind is not listed": {
			external.Object{Presence: external.Unread, Problem: external.Problem{Reason: external.ReasonCacheNotSynced}}, said, true},
		"it was not ready": {external.Object{Presence: external.Unread},
			engine.Condition(said.Type, metav1.ConditionFalse, contract.ReasonNotReady, ""), true},
		"it was unknown": {external.Object{Presence: external.Unread},
			engine.Condition(said.Type, metav1.ConditionUnknown, contract.ReasonInspectionFailed, ""), false},
		"nothing was said": {external.Object{Presence: external.Unread}, metav1.Condition{}, false},
		"a person has to mend it": {
			external.Object{Presence: external.Unread, Problem: external.Problem{Reason: external.ReasonVersionNotServed}}, said, false},
		"its kind is gone":       {external.Object{Presence: external.KindMissing}, said, false},
		"it is not there":        {external.Object{Presence: external.Absent}, said, false},
		"it is there":            {external.Object{Presence: external.Present}, said, false},
		"the Machine names none": {external.Object{}, said, false},
		"its version is not labeled": {
			external.Object{Presence: external.Unread, Problem: external.Problem{Reason: external.ReasonContractLabelMissing}}, said, false},
	} {
		now := engine.Condition(said.Type, metav1.ConditionUnknown, contract.ReasonInternalError, "")
		s := base{Stored: []metav1.Condition{tc.stored}, Asserted: []metav1.Condition{now}, Now: time.Unix(1, 0)}
		s.SpareUnread(func(metav1.Condition) bool { return isUnreadYet(tc.object) }, new(time.Time), time.Minute)
		require.Equal(t, tc.want, len(s.Asserted) == 0, name)
	}
}

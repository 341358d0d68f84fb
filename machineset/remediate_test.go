package machineset_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/contract/pass"
	"github.com/machinist-dev/machinist/fake"
	"github.com/machinist-dev/machinist/machineset"
	"github.com/machinist-dev/machinist/machineset/scale"
)

// quiet is for how long a process must write nothing to be at rest.
const quiet = 300 * time.Millisecond

// mark says what a health check says of a Machine that it wants to be replaced.
func (w *world) mark(m *unstructured.Unstructured) {
	w.t.Helper()
	w.sayOf(m, metav1.ConditionFalse, contract.ConditionHealthCheckSucceeded, contract.ConditionOwnerRemediated)
}

// stillLive starts the one that looks after Machines until it is stopped: it writes conditions again that others change.
func (w *world) stillLive() (stop func()) {
	w.t.Helper()
	mgr := w.Manager("lives", ctrl.Options{})
	w.lives = fake.NewMachines(mgr.GetClient(), w.kinds.Machine, infraGVK(), bootstrapGVK())
	require.NoError(w.t, w.lives.SetupWithManager(mgr))
	return w.Run(mgr)
}

// sayOf writes the status of conditions of a Machine.
func (w *world) sayOf(m *unstructured.Unstructured, status metav1.ConditionStatus, kinds ...string) {
	w.t.Helper()
	w.Eventually("say of "+m.GetName()+" what a health check says", func() string {
		fresh := w.Get(m)
		var state contract.MachineState
		require.NoError(w.t, w.kinds.Machine.Adapter.Read(fresh, &state))
		var want []metav1.Condition
		for _, kind := range kinds {
			want = append(want, metav1.Condition{Type: kind, Status: status, Reason: contract.ReasonWaitingForRemediation})
		}
		u := contract.MachineUpdate{Conditions: contract.ChangedConditions(state.Conditions, want, fresh.GetGeneration(), time.Now())}
		require.NoError(w.t, w.kinds.Machine.Adapter.Write(fresh, u))
		update := w.Client.Status().Update
		if !w.kinds.Machine.StatusSubresource {
			update = func(ctx context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
				return w.Client.Update(ctx, obj)
			}
		}
		if err := update(w.t.Context(), fresh); err != nil {
			return err.Error()
		}
		return ""
	})
}

// remediated waits for a Machine to say what becomes of it.
func (w *world) remediated(m *unstructured.Unstructured, reason, text string) {
	w.t.Helper()
	w.AwaitCondition(m, contract.ConditionOwnerRemediated, reason, text)
}

func (w *world) uidsOf() map[string]bool {
	w.t.Helper()
	all := map[string]bool{}
	for _, m := range w.machines() {
		all[string(m.GetUID())] = true
	}
	return all
}

// replaced waits until a set has so many Machines, and one of them is gone.
func (w *world) replaced(set, gone *unstructured.Unstructured, n int) {
	w.t.Helper()
	w.until("replace "+gone.GetName(), func() bool { return !w.uidsOf()[string(gone.GetUID())] })
	w.has(set, n)
}

func TestASetReplacesTheMachinesThatAHealthCheckHasMarked(t *testing.T) {
	t.Parallel()
	w, set := newSet(t, 3)
	before := w.machines()
	w.Quiet("lives", quiet) // it replaces lists of conditions
	w.lives.Hold(true)
	w.mark(&before[0])
	w.mark(&before[1])
	for i := range 2 {
		w.remediated(&before[i], contract.ReasonMachineDeleting, "being deleted")
	}
	w.conditionSays(set, contract.ConditionRemediating, "being deleted to be replaced")
	w.lives.Hold(false)
	w.replaced(set, &before[0], 3)
	w.replaced(set, &before[1], 3)
	require.True(t, w.uidsOf()[string(before[2].GetUID())], "the other Machine stays")
	require.Equal(t, 1, w.replacements(set).Count)
	w.AwaitCondition(set, contract.ConditionRemediating, contract.ReasonNotRemediating)
	w.saysBeforeItDeletes(&before[0])
	w.oneForEachSlot()
}

// saysBeforeItDeletes checks that a Machine said that it is being replaced, and that this was recorded, before its deletion.
func (w *world) saysBeforeItDeletes(m *unstructured.Unstructured) {
	w.t.Helper()
	var order []string
	recorded := false
	for _, r := range w.Writes(userAgent) {
		switch {
		case slices.Contains([]int{http.StatusConflict, http.StatusNotFound}, r.Code):
			// the stand-in has just written that the Machine is not ready, and the next pass does it; or the cache shows what is gone
		case r.GVK == w.kinds.Set.GVK && r.Subresource == "" && r.Code == http.StatusOK:
			recorded = true // nothing else is written to the set after its Machines were created
		case r.GVK == w.kinds.Machine.GVK && r.Subresource == "" && r.Verb == "create":
			recorded = false
		case r.GVK == w.kinds.Machine.GVK && r.Name == m.GetName() && r.Subresource == "status":
			require.True(w.t, recorded)
			order = append(order, "say")
		case r.GVK == w.kinds.Machine.GVK && r.Name == m.GetName() && r.Verb == "delete":
			order = append(order, "delete")
		}
	}
	require.Equal(w.t, "say delete", strings.Join(order, " "))
}

func TestAMachineThatHasRecoveredStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	set := w.set("workers", 1, fake.WithAnnotations(map[string]string{scale.DisableCreateAnnotation: "false"}))
	w.run(machineset.Options{})
	w.Create(set)
	w.has(set, 1)
	m := w.machines()[0]
	w.Change(set, annotated(scale.DisableCreateAnnotation, "true"))
	w.conditionSays(set, contract.ConditionMachinesReady, "")
	w.Quiet("lives", quiet)
	w.mark(&m)
	w.remediated(&m, contract.ReasonRemediationDeferred, "annotation cluster.x-k8s.io/disable-machine-create is true")
	w.conditionSays(set, contract.ConditionRemediating, "Machine would not be replaced")
	w.sayOf(&m, metav1.ConditionTrue, contract.ConditionHealthCheckSucceeded)
	w.Eventually("the condition to go", func() string {
		for _, c := range conditionsOf(t, w.Get(&m)) {
			if c.Type == contract.ConditionOwnerRemediated {
				return c.Message
			}
		}
		return ""
	})
	w.Change(set, annotated(scale.DisableCreateAnnotation, "false"))
	w.Quiet(userAgent, quiet)
	require.True(t, w.uidsOf()[string(m.GetUID())])
}

func conditionsOf(t *testing.T, u *unstructured.Unstructured) []metav1.Condition {
	t.Helper()
	all, err := contract.ConditionsAt("status", "conditions").Get(u.Object, nil)
	require.NoError(t, err)
	return all
}

func TestNothingIsReplacedThatWouldNotComeBack(t *testing.T) {
	t.Parallel()
	annotated := func(key, value string) func(*world, *unstructured.Unstructured) {
		return func(w *world, set *unstructured.Unstructured) { w.Change(set, annotated(key, value)) }
	}
	for name, c := range map[string]struct {
		change func(*world, *unstructured.Unstructured)
		reason string
		says   string
	}{
		"the template is gone": {
			change: func(w *world, _ *unstructured.Unstructured) {
				require.NoError(w.t, w.Client.Delete(w.t.Context(), w.template(infraGVK())))
			}, says: "FakeMachineTemplate does not exist"},
		"the record cannot be read": {change: annotated(scale.LedgerAnnotation, "?"), says: "correct it, or remove it"},
		"its workload cluster does not answer": {
			change: func(w *world, _ *unstructured.Unstructured) {
				other := w.machines()[1]
				w.unreachable(&other)
			}, says: "the workload cluster does not answer, as the condition NodeReady of Machines shows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fake.Options{})
			die := w.stillLive()
			set := w.set("workers", 2)
			w.Create(set)
			stop := w.run(machineset.Options{})
			w.has(set, 2)
			m := w.machines()[0]
			stop()
			die()
			c.change(w, set)
			w.mark(&m)
			w.run(machineset.Options{})
			w.remediated(&m, contract.ReasonRemediationDeferred, c.says)
			w.Quiet(userAgent, quiet)
			require.Nil(t, w.Get(&m).GetDeletionTimestamp())
		})
	}
}

// unreachable says of a Machine what a reconciler says that cannot reach its workload cluster.
func (w *world) unreachable(m *unstructured.Unstructured) {
	w.t.Helper()
	w.until("say that the cluster does not answer", func() bool {
		fresh := w.Get(m)
		u := contract.MachineUpdate{Conditions: []metav1.Condition{{Type: contract.ConditionNodeReady, Status: metav1.ConditionUnknown,
			Reason: contract.ReasonConnectionDown, LastTransitionTime: metav1.Now()}}}
		require.NoError(w.t, w.kinds.Machine.Adapter.Write(fresh, u))
		return w.Client.Status().Update(w.t.Context(), fresh) == nil
	})
}

// A process was stopped after it had recorded a replacement, and before it had said so.
func TestAReplacementThatWasRecordedIsFinishedAndCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	set := w.set("workers", 2)
	w.Create(set)
	stop := w.run(machineset.Options{})
	w.has(set, 2)
	before := w.machines()
	stop()
	ledger, err := scale.ParseLedger(w.Get(set).GetAnnotations()[scale.LedgerAnnotation])
	require.NoError(t, err)
	record := scale.Replacements{Names: []string{before[0].GetName()}, From: ledger.Next, Count: 4, Last: time.Now().Unix()}
	ledger.Replaced = record
	w.Change(set, annotated(scale.LedgerAnnotation, ledger.String()))
	w.Quiet("lives", quiet)
	w.mark(&before[0])
	w.run(machineset.Options{})
	w.replaced(set, &before[0], 2)
	got := w.replacements(set)
	record.Names, got.Names = nil, nil // which are forgotten when the Machine is gone
	require.Equal(t, record, got)
	require.True(t, w.uidsOf()[string(before[1].GetUID())])
}

func TestANewMachineWaitsForTheBackOffOfItsSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	clock := clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second))
	w.run(machineset.Options{Options: pass.Options{Clock: clock, StatusDelay: -1}})
	set := w.set("workers", 1)
	w.Create(set)
	w.has(set, 1)
	first := w.machines()[0]
	w.Quiet("lives", quiet)
	w.mark(&first)
	w.replaced(set, &first, 1)
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute} {
		next := w.machines()[0]
		w.Quiet("lives", quiet)
		w.mark(&next)
		until := clock.Now().Add(wait).UTC().Format(time.RFC3339)
		w.remediated(&next, contract.ReasonRemediationDeferred, "Waiting until "+until)
		w.conditionSays(set, contract.ConditionRemediating, "Waiting until "+until)
		w.Quiet(userAgent, quiet)
		require.Nil(t, w.Get(&next).GetDeletionTimestamp())
		clock.SetTime(clock.Now().Add(wait))
		w.touch(&next)
		w.replaced(set, &next, 1)
	}
}

// touch wakes the set of a Machine.
func (w *world) touch(m *unstructured.Unstructured) {
	w.t.Helper()
	w.Change(m, annotated("example.com/touched", w.Get(m).GetResourceVersion()))
}

// before is a client that does something else before it deletes the first Machine.
type before struct {
	client.Client

	do func()
}

func (b *before) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	if do := b.do; do != nil && obj.GetObjectKind().GroupVersionKind().Kind == "Machine" {
		b.do = nil
		do()
	}
	return b.Client.Delete(ctx, obj, options...)
}

func TestAMachineThatRecoversInTheLastMomentStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Options{}).live()
	var m unstructured.Unstructured
	recovers := func() { w.sayOf(&m, metav1.ConditionTrue, contract.ConditionHealthCheckSucceeded) }
	w.runWith(ctrl.Options{NewClient: func(cfg *rest.Config, o client.Options) (client.Client, error) {
		c, err := client.New(cfg, o)
		return &before{c, recovers}, err
	}}, machineset.Options{})
	set := w.set("workers", 1)
	w.Create(set)
	w.has(set, 1)
	m = w.machines()[0]
	w.Quiet("lives", quiet)
	w.mark(&m)
	w.until("the Machine not to be recorded any more", func() bool {
		record := w.replacements(set)
		return len(record.Names) == 0 && record.Count == 1
	})
	w.Quiet("lives", quiet)
	require.Nil(t, w.Get(&m).GetDeletionTimestamp())
}

// replacements is the record of a set.
func (w *world) replacements(set *unstructured.Unstructured) scale.Replacements {
	w.t.Helper()
	ledger, err := scale.ParseLedger(w.Get(set).GetAnnotations()[scale.LedgerAnnotation])
	require.NoError(w.t, err)
	return ledger.Replaced
}

// A replacement is stored in the set's ledger and in the Machine before the Machine is deleted.
func TestAReplacementThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]struct {
		subresource string
		kind        func(contract.Kinds) schema.GroupVersionKind
		waits       bool // the Machine's condition does not report a deletion
	}{
		"in the set":     {"", func(k contract.Kinds) schema.GroupVersionKind { return k.Set.GVK }, true},
		"in the Machine": {"status", func(k contract.Kinds) schema.GroupVersionKind { return k.Machine.GVK }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, set := newSet(t, 2)
			m := w.machines()[0]
			w.Quiet("lives", quiet)
			writes := func(r fake.Request) bool {
				return r.UserAgent == userAgent && r.GVK == refuse.kind(w.kinds) && r.Subresource == refuse.subresource && r.Verb == "patch"
			}
			allow := w.Store.Inject(fake.Fault{Match: writes, Times: -1,
				Err: apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, "refused", errors.New("no right"))})
			w.mark(&m)
			w.until("some attempts", func() bool {
				return w.Store.CountRequests(func(r fake.Request) bool { return writes(r) && r.Code >= 400 }) >= 3
			})
			if refuse.waits {
				require.Equal(t, contract.ReasonWaitingForRemediation, w.condition(&m, contract.ConditionOwnerRemediated).Reason)
			}
			require.Nil(t, w.Get(&m).GetDeletionTimestamp())
			allow()
			w.replaced(set, &m, 2)
			require.Equal(t, 1, w.replacements(set).Count, "what was tried again counts once")
		})
	}
}
